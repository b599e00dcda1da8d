"""Parameters, qualified names and CTEs in the expressions of DML statements.

Engines receive such expressions as parts of a plan, not as statements. Therefore tables in
their subqueries are registered as temporary views, and parameters are replaced by literals.
What the local engine cannot evaluate, such as a subquery, is computed by the SQL engine.
"""

import datetime
import decimal
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any, Final

from mangrove.errors import InvalidInputError
from mangrove.expressions.expr import BinaryOp, ColumnPath, EngineValues, Expression, PreparedSql
from mangrove.expressions.parse import SparkCondition, parse_expression
from mangrove.expressions.predicates import Predicate
from mangrove.lakehouse.sql_port import Frame, ValueComputer
from mangrove.lakehouse.table import Table
from mangrove.maintenance.engine_choice import SPARK
from mangrove.model.names import join_name, quote_name
from mangrove.model.schema import Schema
from mangrove.model.schema_text import quote_text
from mangrove.sql.execute.query import QueryBinder
from mangrove.sql.parse.table_refs import find_table_refs, parse_query_tables
from mangrove.sql.parse.tokens import (
    SqlFragment,
    SqlName,
    SqlToken,
    SqlTokenKind,
    build_error_at,
    parse_name_chain,
    tokenize,
)
from mangrove.sql.pushdown.pruning_predicates import build_condition_predicate
from mangrove.sql.resolver import StatementSource
from mangrove.tables.merge import to_spark_sql
from mangrove.transaction.deltas import VERSION_PREFIX

__all__ = [
    "StatementExpressions",
    "has_subquery",
    "list_name_parts",
    "list_qualifiers",
    "map_full_name",
    "require_schema",
    "rewrite_qualifiers",
]

_HEAD: Final = "SELECT "
_NO_CONJUNCTION: Final = ("OR", "BETWEEN", "CASE")
_QUERY_STARTS: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")


def has_subquery(text: str) -> bool:
    """Return whether a text contains a subquery."""
    tokens = tokenize(text)
    return any(token.text == "(" and following.word in _QUERY_STARTS for token, following in itertools.pairwise(tokens))


def rewrite_qualifiers(text: str, names: Mapping[tuple[str, ...], str | None]) -> str:
    """Return the text with other qualifiers of its columns; None removes a qualifier.

    >>> rewrite_qualifiers("o.id = sales.orders.x + f(o.y)", {("o",): None, ("sales", "orders"): "t"})
    'id = `t`.x + f(y)'
    """
    tokens = tokenize(text)
    result, copied, place = "", 0, 0
    while tokens[place].kind is not SqlTokenKind.END:
        follows_dot = place > 0 and tokens[place - 1].text == "."
        if not tokens[place].is_name or follows_dot:
            place += 1
            continue
        parts, after = parse_name_chain(tokens, place)
        folded = tuple(part.casefold() for part in parts)
        matched = next((name for name in names if folded[: len(name)] == name and len(parts) > len(name)), None)
        if matched is not None:
            rest = tokens[place + 2 * len(matched)].start
            new = names[matched]
            result += text[copied : tokens[place].start] + ("" if new is None else f"`{new.replace('`', '``')}`.")
            copied = rest
        place = after
    return result + text[copied:]


def list_qualifiers(name: SqlName, alias: str | None) -> list[tuple[str, ...]]:
    """Return the valid qualifiers of the table's columns; an alias replaces the table name."""
    if alias is not None:
        return [(alias.casefold(),)]
    folded = tuple(part.casefold() for part in name.parts)
    return [folded, folded[-1:]]


def map_full_name(name: SqlName, table: Table, alias: str | None) -> dict[tuple[str, ...], str | None]:
    """Return the rewriting of the fully qualified table name to its single name."""
    if alias is not None:
        return {}
    own = tuple(part.casefold() for part in list_name_parts(table))
    given = tuple(part.casefold() for part in name.parts)
    return dict.fromkeys([own, given] if len(given) > 1 else [own], name.parts[-1])


def list_name_parts(table: Table) -> tuple[str, ...]:
    """Return the parts of a table's full name, with the table version that was chosen."""
    version = () if table.target.version is None else (f"{VERSION_PREFIX}{table.target.version}",)
    return (table.locator.namespace, table.name, *version)


@dataclass
class StatementExpressions:
    """The expressions of one statement; their temporary views exist until it is closed."""

    binder: QueryBinder
    source: StatementSource
    common: SqlFragment | None = None
    _views: list[str] = field(default_factory=list)

    @property
    def is_on_spark(self) -> bool:
        """Whether Spark changes the rows."""
        return self.binder.engine.row_engine == SPARK

    def text(self, piece: SqlFragment) -> str:
        """Return a condition or value as Spark SQL."""
        written = self._substitute_arguments(piece)
        if not has_subquery(written):
            return written
        if self.common is not None:
            written = _add_with_clause(written, self._substitute_arguments(self.common))
        return self._register_tables(written, piece)

    def prepare(self, text: str, tables: Mapping[str, Sequence[str]], *, is_qualified: bool = False) -> str:
        """Return an expression over columns of tables in a form that the engine of the rows can evaluate.

        `is_qualified` says whether that engine finds columns by the name of their table too.
        """
        computer = self.binder.engine
        if not isinstance(computer, ValueComputer):
            return text
        words = {token.name.casefold() for token in tokenize(text) if token.is_name}
        used = [(table, name) for table, names in tables.items() for name in names if name.casefold() in words]
        columns = tuple(ColumnPath(one if is_qualified else one[1:]) for one in used)

        def compute(part: str) -> Expression:
            def compute_values(arrays: Sequence[Any], row_count: int) -> Any:
                by_table: dict[str, dict[str, Any]] = {table: {} for table in tables}
                for (table, name), array in zip(used, arrays, strict=True):
                    by_table[table][name] = array
                return computer.compute_values(part, by_table, row_count)

            return EngineValues(columns, compute_values)

        parts = [_parse_local(part) or compute(part) for part in _split_conjunction(text)]
        if not any(isinstance(part, EngineValues) for part in parts):
            return text
        return PreparedSql(text, reduce(partial(BinaryOp, "and"), parts))

    def prepare_for(self, text: str, table: Table, name: SqlName, alias: str | None = None) -> str:
        """Return an expression over one table alone; only a subquery needs the table's name before its columns."""
        names = map_full_name(name, table, alias) if has_subquery(text) else dict.fromkeys(list_qualifiers(name, alias))
        return self.prepare(rewrite_qualifiers(text, names), {alias or name.parts[-1]: require_schema(table).names})

    def bind_condition(
        self, condition: str, table: Table, name: SqlName, alias: str | None = None
    ) -> str | Predicate | SparkCondition:
        """Return a condition on one table as a predicate for file pruning if it is equivalent or implied."""
        schema, names, time_zone = require_schema(table), [alias or name.parts[-1]], self.binder.time_zone
        predicate = build_condition_predicate(condition, names, schema, time_zone, is_exact=True)
        if predicate is not None:
            return predicate
        # CASE keeps the text from being parsed as a predicate, which may interpret literals differently than this
        # session. Unlike IS TRUE, it rejects conditions that are not boolean, such as the string 'yes'.
        text = self.prepare_for(f"CASE WHEN ({condition}) THEN TRUE ELSE FALSE END", table, name, alias)
        certain = build_condition_predicate(condition, names, schema, time_zone, is_exact=False)
        return text if certain is None else SparkCondition(text, certain)

    def rows(self, piece: SqlFragment) -> Frame:
        """Return the rows of a table or of a subquery."""
        # The position of the fragment is independent of the text before it.
        head = f"{self._with_clause()}SELECT * FROM "  # noqa: S608 - the user's own query
        return self.binder.query(
            SqlFragment(head + self._to_spark_text(piece), piece.start - len(head)), self.source.text
        ).frame

    def analyze(self, piece: SqlFragment, tables: str, *, is_condition: bool = False) -> None:
        """Let Spark analyze a condition or value over some tables, without running it."""
        start, end = (f"1 FROM {tables} WHERE (", ")") if is_condition else ("(", f") FROM {tables}")
        head = f"{self._with_clause()}SELECT {start}"
        text = f"{head}{self._to_spark_text(piece)}{end}"
        self.binder.query(SqlFragment(text, piece.start - len(head)), self.source.text)

    def _with_clause(self) -> str:
        return "" if self.common is None else f"{self._to_spark_text(self.common)} "

    def _to_spark_text(self, piece: SqlFragment) -> str:
        """Return a text without positional parameters, whose positions may shift."""
        return piece.text if isinstance(self.source.arguments, Mapping) else self._substitute_arguments(piece)

    def close(self) -> None:
        """Drop the temporary views."""
        for name in self._views:
            self.binder.engine.drop_temporary_view(name)
        self._views.clear()

    def _register_tables(self, text: str, piece: SqlFragment) -> str:
        tokens = tokenize(_HEAD + text)
        parsed = parse_query_tables(_HEAD + text, tokens)
        if not parsed.is_known:
            raise build_error_at(
                self.source.text, piece.start, "cannot parse the subquery; create a temporary view of it first"
            )
        result, copied = "", 0
        for table_ref in find_table_refs(parsed, tokens):
            frame = self.binder.frame_at(table_ref, self.source.text, piece.start)
            if frame is None:
                continue
            result += (_HEAD + text)[copied : table_ref.start] + quote_name(self._create_view(frame))
            copied = table_ref.end
            if table_ref.alias_place is not None:
                result += (_HEAD + text)[copied : table_ref.alias_place] + f" AS {quote_name(table_ref.parts[-1])}"
                copied = table_ref.alias_place
        return (result + (_HEAD + text)[copied:])[len(_HEAD) :]

    def _create_view(self, frame: Frame) -> str:
        name = f"mangrove_{self.binder.resolver.new_id().replace('-', '_')}"
        self.binder.engine.create_temporary_view(frame, name, or_replace=False, is_global=False)
        self._views.append(name)
        return name

    def _substitute_arguments(self, piece: SqlFragment) -> str:
        """Return the text with its parameters replaced by values."""
        arguments = self.source.arguments
        if not arguments:
            return piece.text
        tokens = tokenize(piece.text)
        result, copied = "", 0
        for place, token in enumerate(tokens):
            if token.text == "?" and isinstance(arguments, Sequence):
                name, end = None, token.end
            elif _is_parameter(tokens, place) and isinstance(arguments, Mapping):
                name, end = tokens[place + 1].name, tokens[place + 1].end
            else:
                continue
            value = self.source.find_argument(name, piece.start + token.start)
            result += piece.text[copied : token.start] + _literal(value)
            copied = end
        return result + piece.text[copied:]


def _parse_local(text: str) -> Expression | None:
    """Return an expression that the local engine can evaluate, or None."""
    try:
        return parse_expression(text)
    except InvalidInputError:
        return None


def _split_conjunction(text: str) -> list[str]:
    """Return the operands of AND if the text is nothing but a conjunction.

    >>> _split_conjunction("t.id = s.id and (a or b)"), _split_conjunction("a between 1 and 2 and b")
    (['t.id = s.id ', ' (a or b)'], ['a between 1 and 2 and b'])
    """
    depth, ends, starts = 0, [], [0]
    for token in tokenize(text):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0 and token.word in _NO_CONJUNCTION:
            return [text]
        if depth == 0 and token.word == "AND":
            ends.append(token.start)
            starts.append(token.end)
    return [text[start:end] for start, end in zip(starts, [*ends, len(text)], strict=True)]


def _add_with_clause(text: str, common: str) -> str:
    """Return the text with a WITH clause in each of its outermost subqueries."""
    tokens = tokenize(text)
    result, copied, depth, inside = "", 0, 0, 0
    for place, token in enumerate(tokens[:-1]):
        if token.text == "(":
            depth += 1
            if not inside and tokens[place + 1].word in _QUERY_STARTS:
                inside = depth
                result += text[copied : token.end] + f"{common} "
                copied = token.end
        elif token.text == ")":
            inside = 0 if inside == depth else inside
            depth -= 1
    return result + text[copied:]


def _is_parameter(tokens: Sequence[SqlToken], place: int) -> bool:
    """Return whether a colon begins a parameter, and not a path into a variant value."""
    if tokens[place].text != ":" or not tokens[place + 1].is_name:
        return False
    before = tokens[place - 1] if place else None
    return before is None or not (before.is_name and before.end == tokens[place].start)


def _literal(value: object) -> str:
    if isinstance(value, str):
        return quote_text(value)
    if value is None or isinstance(value, bool | int | float | decimal.Decimal | bytes | datetime.date):
        return f"({to_spark_sql(value)})"
    raise InvalidInputError(
        f"unsupported argument type {type(value).__name__}; expected a number, string, date, time, bytes, bool or None"
    )


def require_schema(table: Table) -> Schema:
    """Return the columns of a table; raise an error if it has none yet."""
    schema = table.schema
    if schema is None:
        name = join_name(table.locator.namespace, table.name)
        raise InvalidInputError(f"{name} has no schema, so rows cannot be written; add files with add_files")
    return schema
