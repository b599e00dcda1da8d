"""Translation of Spark SQL queries to DuckDB.

Every query has the columns c0, c1, …, and every table in FROM the alias s0, s1, …, so that
no name of a user reaches DuckDB. The names and the types on Spark are known beside the text.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final, TypeAlias

from sqlglot import exp

from mangrove.duckdb.dialect import parse_spark_sql
from mangrove.duckdb.expressions import (
    ExpressionTranslator,
    Field,
    SelectScope,
    check_clauses,
    is_aggregate_call,
    name_expression,
    render_order,
)
from mangrove.duckdb.operators import cast_to_common_type
from mangrove.duckdb.typed_sql import NeedsSparkError, SqlAnalysisError, TypedSql, cast_to, describe_type
from mangrove.duckdb.types import ValueType, find_common_type, is_scannable, to_duckdb_type
from mangrove.lakehouse.sql_port import Arguments

__all__ = ["Relation", "TranslatedColumns", "translate_query"]

TranslatedColumns: TypeAlias = tuple[tuple[str, ValueType], ...]
"""The names and types of the columns c0, c1, …"""
_SELECT_CLAUSES: Final = (
    *("expressions", "distinct", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "with_"),
    "hint",
)
_OUTER: Final = ("RIGHT", "FULL")


@dataclass(frozen=True, slots=True)
class Relation:
    """A query in DuckDB's SQL; its columns have the names c0, c1, and so on."""

    text: str
    columns: TranslatedColumns


_FindTable: TypeAlias = Callable[[tuple[str, ...]], Relation | None]
"""Returns the relation that a table name references."""


def translate_query(text: str, find_table: _FindTable, arguments: Arguments = None) -> Relation:
    """Return the translation of a query; raise NeedsSparkError for what is not known to agree with Spark."""
    tree = parse_spark_sql(text)
    positions = sorted(one.this for one in tree.find_all(exp.Placeholder) if isinstance(one.this, int))
    translator = _QueryTranslator(find_table, arguments, positions)
    relation = translator.translate(tree, None, {})
    if translator.common:
        return replace(relation, text=f"WITH {', '.join(translator.common)} {relation.text}")
    return relation


class _QueryTranslator:
    """Translates the queries of one text."""

    def __init__(self, find_table: _FindTable, arguments: Arguments, positions: Sequence[int]) -> None:
        self._find_table = find_table
        self._arguments = arguments
        self._positions = positions
        self._numbers = count()
        self.common: list[str] = []
        """The WITH clauses of the whole text."""

    def translate(self, tree: Any, outer: SelectScope | None, ctes: Mapping[str, Relation]) -> Relation:
        """Translate a query, or a query in parentheses."""
        ctes = self._add_ctes(tree, outer, ctes)
        match tree:
            case exp.Select():
                return _SelectTranslator(self, tree, outer, ctes).translate()
            case exp.SetOperation():
                return self._translate_set_operation(tree, outer, ctes)
            case exp.Subquery():
                check_clauses(tree, "this", "alias", "with_", "order", "limit", "offset")
                return self._order_and_limit(self.translate(tree.this, outer, ctes), tree)
            case exp.Values():
                return self.translate_values(tree, outer, ctes)
            case exp.Table():
                return self.translate_table(tree, ctes)
            case _:
                raise NeedsSparkError(f"the statement {type(tree).__name__.upper()}", tree)

    def create_translator(self, scope: SelectScope, ctes: Mapping[str, Relation]) -> ExpressionTranslator:
        """Return the translator of the expressions in a scope."""

        def translate_subquery(tree: Any, outer: SelectScope) -> tuple[str, TranslatedColumns]:
            relation = self.translate(tree, outer, ctes)
            return relation.text, relation.columns

        return ExpressionTranslator(scope, self._arguments, self._positions, translate_subquery)

    def new_alias(self) -> str:
        """Return an alias that is used nowhere else."""
        return f"s{next(self._numbers)}"

    def _add_ctes(self, tree: Any, outer: SelectScope | None, ctes: Mapping[str, Relation]) -> Mapping[str, Relation]:
        clause = tree.args.get("with_")
        if clause is None:
            return ctes
        check_clauses(clause, "expressions")
        for cte in clause.expressions:
            check_clauses(cte, "this", "alias")
            relation = self.translate(cte.this, outer, ctes)
            name = f"w{next(self._numbers)}"
            self.common.append(f"{name} AS ({relation.text})")
            visible = _rename_columns(
                relation.columns, [str(one.name) for one in cte.args["alias"].args.get("columns") or ()], cte
            )
            # ruff: noqa: S608 - the text is generated; values are quoted literals
            ctes = {**ctes, str(cte.alias).casefold(): Relation(f"SELECT * FROM {name}", visible)}
        return ctes

    def translate_table(self, table: Any, ctes: Mapping[str, Relation]) -> Relation:
        """Return the rows of a table, view or common table expression."""
        check_clauses(table, "this", "db", "catalog", "alias")
        if not isinstance(table.this, exp.Identifier):
            raise NeedsSparkError("this table function", table)
        parts = tuple(str(part.name) for part in table.parts)
        relation = ctes.get(parts[0].casefold()) if len(parts) == 1 else None
        relation = relation or self._find_table(parts)
        if relation is None:
            name = ".".join(f"`{part.replace('`', '``')}`" for part in parts)
            raise SqlAnalysisError(
                f"table or view {name} does not exist", table, "TABLE_OR_VIEW_NOT_FOUND", {"relationName": name}
            )
        return relation

    def translate_values(self, values: Any, outer: SelectScope | None, ctes: Mapping[str, Relation]) -> Relation:
        """Return the rows of VALUES."""
        check_clauses(values, "expressions", "alias", "order", "limit", "offset")
        translator = self.create_translator(SelectScope(outer), ctes)
        rows = [
            [translator.translate(one) for one in (row.expressions if isinstance(row, exp.Tuple) else [row])]
            for row in values.expressions
        ]
        if len({len(row) for row in rows}) > 1:
            raise SqlAnalysisError("the rows of VALUES have different numbers of columns", values)
        columns = [cast_to_common_type(column, values) for column in zip(*rows, strict=True)]
        lines = ", ".join(f"({', '.join(one.text for one in row)})" for row in zip(*columns, strict=True))
        names = ", ".join(f"c{place}" for place in range(len(columns)))
        typed = tuple((f"col{place}", column[0].type) for place, column in enumerate(columns, 1))
        return self._order_and_limit(
            Relation(f"SELECT * FROM (VALUES {lines}) AS {self.new_alias()}({names})", typed), values
        )

    def _translate_set_operation(self, tree: Any, outer: SelectScope | None, ctes: Mapping[str, Relation]) -> Relation:
        check_clauses(tree, "this", "expression", "distinct", "order", "limit", "offset", "with_")
        sides = [tree.this, tree.expression]
        if any(isinstance(side, exp.SetOperation) and type(side) is not type(tree) for side in sides):
            raise NeedsSparkError("a mix of UNION, INTERSECT and EXCEPT without parentheses", tree)
        left, right = (self.translate(side, outer, ctes) for side in sides)
        if len(left.columns) != len(right.columns):
            raise SqlAnalysisError(
                f"the queries of {tree.key.upper()} have {len(left.columns)} and {len(right.columns)} columns", tree
            )
        pairs = zip(left.columns, right.columns, strict=True)
        common = [find_common_type((one[1], other[1])) for one, other in pairs]
        if not all(is_common for is_common, _ in common):
            raise NeedsSparkError("a common type of the columns of both queries", tree)
        kinds = [kind for _, kind in common]
        operator = f"{tree.key.upper()}{'' if tree.args.get('distinct') else ' ALL'}"
        text = f" {operator} ".join(self._convert(side, kinds, tree) for side in (left, right))
        columns = tuple((name, kind) for (name, _), kind in zip(left.columns, kinds, strict=True))
        return self._order_and_limit(Relation(text, columns), tree)

    def _convert(self, relation: Relation, kinds: Sequence[ValueType], node: Any) -> str:
        """Return the rows of a relation with columns of these types."""
        values = [
            TypedSql(f"c{place}", kind) if target is None else cast_to(TypedSql(f"c{place}", kind), target, node)
            for place, ((_, kind), target) in enumerate(zip(relation.columns, kinds, strict=True))
        ]
        items = ", ".join(f"{_render_exactly(value)} AS c{place}" for place, value in enumerate(values))
        return f"SELECT {items} FROM ({relation.text}) AS {self.new_alias()}"

    def _order_and_limit(self, relation: Relation, tree: Any) -> Relation:
        """Add ORDER BY, LIMIT and OFFSET to a query whose output columns are all that can be ordered by."""
        if not any(tree.args.get(word) for word in ("order", "limit", "offset")):
            return relation
        fields = [Field(name, TypedSql(f"c{place}", kind)) for place, (name, kind) in enumerate(relation.columns)]
        translator = self.create_translator(SelectScope(None, fields), {})
        order = [
            render_order(item, self._find_ordinal(item.this, fields) or translator.translate(item.this))
            for item in (tree.args["order"].expressions if tree.args.get("order") else ())
        ]
        tail = _render_tail(order, tree)
        return replace(relation, text=f"SELECT * FROM ({relation.text}) AS {self.new_alias()}{tail}")

    @staticmethod
    def _find_ordinal(node: Any, fields: Sequence[Field]) -> TypedSql | None:
        place = _read_ordinal(node, len(fields))
        return None if place is None else fields[place].value


class _SelectTranslator:
    """Translates one SELECT."""

    def __init__(
        self, queries: _QueryTranslator, select: Any, outer: SelectScope | None, ctes: Mapping[str, Relation]
    ) -> None:
        check_clauses(select, *_SELECT_CLAUSES)
        self._queries = queries
        self._select = select
        self._ctes = ctes
        self._scope = SelectScope(outer)
        self._expressions = queries.create_translator(self._scope, ctes)

    def translate(self) -> Relation:
        """Return the translation."""
        select = self._select
        source = self._translate_from()
        where = select.args.get("where")
        condition = "" if where is None else f" WHERE {self._expressions.translate_condition(where.this)}"
        group = self._translate_group()
        if not select.expressions:
            raise SqlAnalysisError("SELECT without columns", select)
        outputs = list(self._translate_items())
        self._scope.aliases = {name.casefold(): value for name, value in reversed(outputs)}
        having = select.args.get("having")
        if having is not None:
            group += f" HAVING {self._expressions.translate_condition(having.this)}"
        order = self._translate_order(outputs)
        distinct = self._translate_distinct(outputs)
        items = ", ".join(f"{_render_exactly(value)} AS c{place}" for place, (_, value) in enumerate(outputs))
        text = f"SELECT {distinct}{items}{source}{condition}{group}{_render_tail(order, select)}"
        return Relation(text, tuple((name, value.type) for name, value in outputs))

    def _translate_distinct(self, outputs: Sequence[tuple[str, TypedSql]]) -> str:
        clause = self._select.args.get("distinct")
        if clause is None:
            return ""
        check_clauses(clause)
        for _, value in outputs:
            if value.type is not None and not is_scannable(value.type):
                raise NeedsSparkError(f"DISTINCT of {describe_type(value.type)}", self._select)
        return "DISTINCT "

    def _translate_from(self) -> str:
        clause = self._select.args.get("from_")
        if clause is None:
            return ""
        text = f" FROM {self._add_source(clause.this)}"
        has_cross = False
        for join in self._select.args.get("joins") or ():
            has_cross = has_cross or join.args.get("kind") == "CROSS"
            if has_cross and join.args.get("side") in _OUTER:
                raise NeedsSparkError(f"{join.args['side']} JOIN after a comma or CROSS JOIN", join)
            text += self._add_join(join)
        return text

    def _add_source(self, source: Any) -> str:
        """Add the columns of a table or subquery to the scope, and return its text."""
        alias = source.args.get("alias")
        name = str(alias.name) if alias is not None and alias.this is not None else None
        match source:
            case exp.Table():
                relation = self._queries.translate_table(source, self._ctes)
                name = name or str(source.name)
            case exp.Subquery():
                check_clauses(source, "this", "alias", "with_", "order", "limit", "offset")
                relation = self._queries.translate(source, None, self._ctes)
            case exp.Values():
                relation = self._queries.translate_values(source, None, self._ctes)
            case _:
                raise NeedsSparkError(f"{type(source).__name__.upper()} in FROM", source)
        columns = [str(one.name) for one in (alias.args.get("columns") or ())] if alias is not None else []
        own = self._queries.new_alias()
        for place, (column, kind) in enumerate(_rename_columns(relation.columns, columns, source)):
            self._scope.fields.append(Field(column, TypedSql(f"{own}.c{place}", kind), name))
        return f"({relation.text}) AS {own}"

    def _add_join(self, join: Any) -> str:
        check_clauses(join, "this", "side", "kind", "on", "using", "method")
        side, kind = join.args.get("side") or "", join.args.get("kind") or ""
        is_filter = kind in ("SEMI", "ANTI")
        if (side and kind not in ("", "OUTER", "SEMI", "ANTI")) or (is_filter and side not in ("", "LEFT")):
            raise NeedsSparkError(f"{side} {kind} JOIN", join)
        left, merged = list(self._scope.fields), dict(self._scope.merged)
        source = self._add_source(join.this)
        right = self._scope.fields[len(left) :]
        condition = join.args.get("on")
        using = [str(one.name) for one in join.args.get("using") or ()]
        if join.args.get("method"):
            if join.args["method"] != "NATURAL":
                raise NeedsSparkError(f"{join.args['method']} JOIN", join)
            names = {one.name.casefold() for one in left}
            using = [one.name for one in right if one.name.casefold() in names]
        test = ""
        if condition is not None:
            test = f" ON {self._expressions.translate_condition(condition)}"
        elif using:
            test = f" ON {self._merge_columns(using, left, right, side, join)}"
        if is_filter:
            self._scope.fields, self._scope.merged = left, merged
            return f" {kind} JOIN {source}{test or ' ON true'}"
        if not test:
            if side in _OUTER or side == "LEFT":
                test = " ON true"
            else:
                return f" CROSS JOIN {source}"
        return f" {side or 'INNER'} JOIN {source}{test}"

    def _merge_columns(
        self, using: Sequence[str], left: Sequence[Field], right: Sequence[Field], side: str, join: Any
    ) -> str:
        """Return the condition of USING, and let unqualified names reference the merged columns."""
        tests = []
        for name in using:
            folded = name.casefold()
            ours = [self._scope.merged[folded]] if folded in self._scope.merged else _named(left, folded)
            theirs = _named(right, folded)
            if len(ours) != 1 or len(theirs) != 1:
                raise SqlAnalysisError(f"USING column {name!r} must occur exactly once in each table", join)
            one, other = cast_to_common_type((ours[0].value, theirs[0].value), join)
            tests.append(f"{one.text} = {other.text}")
            value = other if side == "RIGHT" else one
            if side == "FULL":
                value = TypedSql(f"coalesce({one.text}, {other.text})", one.type)
            self._scope.merged[folded] = Field(ours[0].name, value)
        return " AND ".join(tests)

    def _translate_group(self) -> str:
        """Translate GROUP BY, and let later expressions know what is grouped."""
        select, group = self._select, self._select.args.get("group")
        if group is None and select.args.get("having") is None and not any(self._find_aggregates()):
            return ""
        nodes = [] if group is None else list(group.expressions)
        if group is not None:
            check_clauses(group, "expressions", "all")
            if group.args.get("all"):
                aggregates = list(self._find_aggregates())
                nodes = [
                    one.unalias()
                    for one in select.expressions
                    if not any(ancestor is one for each in aggregates for ancestor in _list_ancestors(each))
                ]
        texts: list[str] = []
        grouped: set[str] = set()
        for node in nodes:
            is_set = isinstance(node, exp.Rollup | exp.Cube)
            items = [self._translate_group_item(one) for one in (node.expressions if is_set else [node])]
            inner = ", ".join(item.text for item in items)
            texts.append(f"{node.key.upper()} ({inner})" if is_set else inner)
            grouped.update(item.text for item in items)
        self._scope.grouped = frozenset(grouped)
        return f" GROUP BY {', '.join(texts)}" if texts else ""

    def _translate_group_item(self, node: Any) -> TypedSql:
        """Translate an expression of GROUP BY: a position, a column, or an alias of the SELECT list."""
        items = self._select.expressions
        place = _read_ordinal(node, len(items))
        if place is not None:
            node = items[place].unalias()
        elif isinstance(node, exp.Column) and len(node.parts) == 1 and not self._scope.find(None, node.name.casefold()):
            aliased = [
                one for one in items if isinstance(one, exp.Alias) and one.alias.casefold() == node.name.casefold()
            ]
            node = aliased[0].this if aliased else node
        value = self._expressions.translate(node)
        if value.type is not None and not is_scannable(value.type):
            raise NeedsSparkError(f"GROUP BY {describe_type(value.type)}", node)
        return value

    def _find_aggregates(self) -> Iterator[Any]:
        clauses = [*self._select.expressions, self._select.args.get("order")]
        for clause in clauses:
            for node in clause.find_all(exp.Anonymous) if clause is not None else ():
                if is_aggregate_call(node) and node.find_ancestor(exp.Select) is self._select:
                    yield node

    def _translate_items(self) -> Iterator[tuple[str, TypedSql]]:
        for item in self._select.expressions:
            if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
                yield from self._expand_star(item)
                continue
            value = self._expressions.translate(item.unalias())
            name = name_expression(item)
            # A later item of the list may use the alias.
            self._scope.aliases.setdefault(name.casefold(), value)
            yield name, value

    def _expand_star(self, item: Any) -> Iterator[tuple[str, TypedSql]]:
        star = item if isinstance(item, exp.Star) else item.this
        check_clauses(star, "except_")
        left_out = {str(one.name).casefold() for one in star.args.get("except_") or ()}
        fields = self._scope.fields
        if isinstance(item, exp.Column):
            table = str(item.table).casefold()
            fields = [one for one in fields if (one.table or "").casefold() == table]
        elif self._scope.merged:
            others = [one for one in fields if one.name.casefold() not in self._scope.merged]
            fields = [*self._scope.merged.values(), *others]
        if not fields:
            raise SqlAnalysisError("there is no table for *", item)
        unknown = left_out - {one.name.casefold() for one in fields}
        if unknown:
            raise SqlAnalysisError(f"column {min(unknown)} of EXCEPT does not exist", item)
        fields = [one for one in fields if one.name.casefold() not in left_out]
        for one in fields:
            if self._scope.grouped is not None and one.value.text not in self._scope.grouped:
                raise SqlAnalysisError(f"column {one.name} is neither in GROUP BY nor in an aggregate function", item)
            yield one.name, one.value

    def _translate_order(self, outputs: Sequence[tuple[str, TypedSql]]) -> list[str]:
        """Translate ORDER BY; its names are those of the output first, then those of the tables."""
        clause = self._select.args.get("order")
        items = []
        for item in clause.expressions if clause is not None else ():
            place = _read_ordinal(item.this, len(outputs))
            if place is None and isinstance(item.this, exp.Column) and len(item.this.parts) == 1:
                folded = item.this.name.casefold()
                places = [number for number, (name, _) in enumerate(outputs) if name.casefold() == folded]
                place = places[0] if places else None
            if place is not None:
                items.append(render_order(item, TypedSql(str(place + 1), outputs[place][1].type)))
            elif self._select.args.get("distinct") is not None:
                raise NeedsSparkError("ORDER BY an expression with DISTINCT", item)
            else:
                items.append(render_order(item, self._expressions.translate(item.this)))
        return items


def _list_ancestors(node: Any) -> Iterator[Any]:
    while node is not None:
        yield node
        node = node.parent


def _named(fields: Sequence[Field], folded: str) -> list[Field]:
    return [one for one in fields if one.name.casefold() == folded]


def _render_exactly(value: TypedSql) -> str:
    """Return an output column in its type; a NULL column is an integer to DuckDB."""
    name = to_duckdb_type(value.type)
    if name is None:
        raise NeedsSparkError(f"a column of type {describe_type(value.type)}")
    is_exact = value.text.startswith("s") and value.text.replace(".", "").isalnum()
    return value.text if is_exact else f"CAST({value.text} AS {name})"


def _rename_columns(columns: TranslatedColumns, names: Sequence[str], node: Any) -> TranslatedColumns:
    """Return columns with other names, as in `t(a, b)`; without names they stay."""
    if not names:
        return columns
    if len(names) != len(columns):
        raise SqlAnalysisError(f"the alias has {len(names)} columns, but there are {len(columns)}", node)
    return tuple((name, kind) for name, (_, kind) in zip(names, columns, strict=True))


def _read_ordinal(node: Any, most: int) -> int | None:
    """Return the index of the output column that a literal number references."""
    if not isinstance(node, exp.Literal) or node.is_string or not str(node.this).isdecimal():
        return None
    place = int(str(node.this))
    if not 1 <= place <= most:
        raise SqlAnalysisError(f"position {place} is not in the SELECT list, which has {most} columns", node)
    return place - 1


def _render_tail(order: Sequence[str], tree: Any) -> str:
    """Return ORDER BY, LIMIT and OFFSET."""
    text = f" ORDER BY {', '.join(order)}" if order else ""
    for word in ("limit", "offset"):
        clause = tree.args.get(word)
        if clause is None or (
            word == "limit" and isinstance(clause.expression, exp.Var) and clause.expression.name == "ALL"
        ):
            continue
        if not isinstance(clause.expression, exp.Literal) or not str(clause.expression.this).isdecimal():
            raise NeedsSparkError(f"{word.upper()} with anything but a literal number", clause)
        text += f" {word.upper()} {int(str(clause.expression.this))}"
    return text
