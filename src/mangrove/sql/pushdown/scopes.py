"""Name scopes and output columns of queries.

A name is resolved only if Spark must resolve it in the same way. Spark rejects an
unqualified name that two sources have, so a source that is known to have it is the
right one. Names are case-insensitive.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

from sqlglot import exp

from mangrove.model.types import Boolean, DataType, Date, Decimal, Int16, Int32, Int64, Timestamp, TimestampTz, Varchar
from mangrove.sql.parse.table_refs import find_cte

__all__ = [
    "ColumnPlace",
    "FromItem",
    "OutputColumn",
    "Scope",
    "Scopes",
    "TypedColumns",
    "apply_column_aliases",
    "find_plain_type",
    "has_only_known_args",
    "is_comparison_compatible",
    "is_plain_cte",
    "iterate_conjuncts",
]

TypedColumns: TypeAlias = Sequence[tuple[str, DataType | None]]
"""Column names in order, with their types if known."""
ColumnPlace: TypeAlias = tuple[int, str]
"""The number of a source in a SELECT, and the name of one of its columns."""

_WHOLE_NUMBERS: Final = (Int16, Int32, Int64)
_PLAIN_TYPES: Final = (Boolean, Varchar, Date, Timestamp, TimestampTz)
_ONE_COLUMN: Final = (
    *(exp.AggFunc, exp.Binary, exp.Case, exp.Cast, exp.Coalesce, exp.Literal, exp.Null, exp.Paren, exp.Window),
    *(exp.DateTrunc, exp.Day, exp.Left, exp.Month, exp.Substring, exp.TimestampTrunc, exp.TsOrDsToDate, exp.Year),
)
_KINDS: Final = frozenset({"", "INNER", "CROSS", "OUTER", "SEMI", "ANTI"})


def has_only_known_args(node: Any, *allowed: str) -> bool:
    """Return whether a node has only known arguments; a later sqlglot may add others."""
    return {name for name, value in node.args.items() if value and not name.startswith("_")} <= set(allowed)


def is_plain_cte(clause: exp.CTE) -> bool:
    """Return whether a CTE is a plain, non-recursive query."""
    is_recursive = clause.parent is None or clause.parent.args.get("recursive")
    return has_only_known_args(clause, "this", "alias") and not is_recursive


def is_comparison_compatible(one: DataType | None, other: DataType | None) -> bool:
    """Return whether values of both types compare with each other, and with any literal, in the same way."""
    if one is None or other is None:
        return False
    if isinstance(one, _WHOLE_NUMBERS) and isinstance(other, _WHOLE_NUMBERS):
        return True
    if isinstance(one, Decimal):
        return one == other
    return isinstance(one, _PLAIN_TYPES) and type(one) is type(other)


def iterate_conjuncts(condition: Any) -> Iterator[Any]:
    """Yield the operands of AND."""
    if isinstance(condition, exp.Paren):
        yield from iterate_conjuncts(condition.this)
    elif isinstance(condition, exp.And):
        yield from iterate_conjuncts(condition.left)
        yield from iterate_conjuncts(condition.right)
    elif condition is not None:
        yield condition


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """An output column: its name, its type if known, and its expression."""

    name: str
    type: DataType | None = None
    node: Any = None


@dataclass(frozen=True, eq=False)
class FromItem:
    """A FROM or JOIN item; without `outputs` its columns are unknown."""

    node: Any
    join: exp.Join | None
    outputs: tuple[OutputColumn, ...] | None

    @cached_property
    def alias(self) -> str:
        """The alias in the SELECT."""
        return str(self.node.alias_or_name).casefold()

    def has_name(self, name: str, namespace: str = "") -> bool:
        """Return whether a column qualifier refers to it; an alias replaces the name."""
        if not namespace:
            return self.alias == name.casefold()
        is_plain = isinstance(self.node, exp.Table) and self.node.args.get("alias") is None
        return is_plain and (self.node.db.casefold(), self.alias) == (namespace.casefold(), name.casefold())

    @cached_property
    def by_name(self) -> dict[str, OutputColumn]:
        """Its columns by unambiguous name."""
        outputs = self.outputs or ()
        names = [output.name for output in outputs]
        return {output.name: output for output in outputs if names.count(output.name) == 1}

    @property
    def is_tested(self) -> bool:
        """Whether it is a semi or anti join, whose columns are not visible after the join."""
        return self.join is not None and self.join.kind in ("SEMI", "ANTI")

    @property
    def is_optional(self) -> bool:
        """Whether rows to its left remain without a match (outer join), or are removed by one (anti join)."""
        return self.join is not None and (self.join.side == "LEFT" or self.is_tested)

    @cached_property
    def merged(self) -> tuple[str, ...]:
        """The columns that USING merges with those to the left."""
        using = self.join.args.get("using") if self.join is not None else None
        return tuple(name.name.casefold() for name in using or ())


@dataclass(frozen=True, eq=False)
class Scope:
    """The names visible in the clauses of one SELECT."""

    select: exp.Select
    sources: tuple[FromItem, ...]

    @cached_property
    def is_known(self) -> bool:
        """Whether all of its joins are supported."""
        return all(map(_is_known_join, self.sources[1:]))

    @cached_property
    def adds_nulls(self) -> bool:
        """Whether an outer join may replace a row of a source by nulls."""
        return any(source.join.side and not source.is_tested for source in self.sources[1:] if source.join is not None)

    @cached_property
    def seen_by_where(self) -> frozenset[int]:
        """The sources whose columns are visible after all joins."""
        return frozenset(number for number, source in enumerate(self.sources) if not source.is_tested)

    def seen_by_join(self, number: int) -> frozenset[int]:
        """Return the sources whose columns a join condition can use."""
        return frozenset(one for one in self.seen_by_where if one < number) | {number}

    def resolve(self, column: Any, seen: Collection[int]) -> ColumnPlace | None:
        """Resolve a column to its source and column."""
        if not isinstance(column, exp.Column) or not isinstance(column.this, exp.Identifier) or len(column.parts) > 3:
            return None
        name = column.name.casefold()
        if column.table:
            found = [number for number in seen if self.sources[number].has_name(column.table, column.db)]
        else:
            found = [
                number
                for number in seen
                if name in self.sources[number].by_name and name not in self.sources[number].merged
            ]
        return (found[0], name) if len(found) == 1 else None

    def type_at(self, place: ColumnPlace | None) -> DataType | None:
        """Return the type of a column of a source."""
        output = None if place is None else self.sources[place[0]].by_name.get(place[1])
        return None if output is None else output.type


class Scopes:
    """The scopes of the SELECTs of one text, created on demand."""

    def __init__(
        self,
        columns_of: Callable[[exp.Table], TypedColumns | None],
        type_of: Callable[[Scope, Any], DataType | None] | None = None,
    ) -> None:
        self._columns_of = columns_of
        self._type_of = type_of or find_plain_type
        self._scopes: dict[int, Scope] = {}
        self._outputs: dict[int, tuple[OutputColumn, ...] | None] = {}

    def scope(self, select: exp.Select) -> Scope:
        """Return the scope of a SELECT."""
        if id(select) not in self._scopes:
            first = select.args.get("from_")
            nodes = [] if first is None else [(first.this, None)]
            nodes += [(join.this, join) for join in select.args.get("joins") or []]
            sources = tuple(FromItem(node, join, self._source_outputs(node)) for node, join in nodes)
            self._scopes[id(select)] = Scope(select, sources)
        return self._scopes[id(select)]

    def outputs(self, query: Any) -> tuple[OutputColumn, ...] | None:
        """Return the output columns of a query in order, or None if they are unknown."""
        if id(query) not in self._outputs:
            self._outputs[id(query)] = None  # What reads itself stays unknown.
            self._outputs[id(query)] = self._build_outputs(query)
        return self._outputs[id(query)]

    def columns(self, query: Any) -> TypedColumns | None:
        """Return the names and types of the output columns of a query, or None if they are unknown."""
        outputs = self.outputs(query)
        return None if outputs is None else [(output.name, output.type) for output in outputs]

    def _build_outputs(self, query: Any) -> tuple[OutputColumn, ...] | None:
        match query:
            case exp.Select():
                return self._select_outputs(query)
            case exp.Subquery() if has_only_known_args(query, "this", "with_"):
                return self.outputs(query.this)
            case exp.SetOperation() if not query.args.get("by_name"):
                left, right = self.outputs(query.this), self.outputs(query.expression)
                if left is None or right is None or len(left) != len(right):
                    return None
                pairs = zip(left, right, strict=True)
                return tuple(
                    OutputColumn(one.name, one.type if is_comparison_compatible(one.type, two.type) else None)
                    for one, two in pairs
                )
            case _:
                return None

    def _source_outputs(self, node: Any) -> tuple[OutputColumn, ...] | None:
        outputs: tuple[OutputColumn, ...] | None = None
        if isinstance(node, exp.Subquery) and has_only_known_args(node, "this", "alias"):
            outputs = self.outputs(node.this)
        elif isinstance(node, exp.Table) and has_only_known_args(node, "this", "db", "alias", "version"):
            clause = find_cte(node)
            if clause is not None:
                outputs = apply_column_aliases(self.outputs(clause.this), clause) if is_plain_cte(clause) else None
            else:
                outputs = self.table_outputs(node)
        return apply_column_aliases(outputs, node)

    def table_outputs(self, table: exp.Table) -> tuple[OutputColumn, ...] | None:
        """Return the columns of a table or view that is not a CTE."""
        columns = self._columns_of(table)
        return None if columns is None else tuple(OutputColumn(name.casefold(), kind) for name, kind in columns)

    def _select_outputs(self, select: exp.Select) -> tuple[OutputColumn, ...] | None:
        scope = self.scope(select)
        found: list[OutputColumn] = []
        for item in select.expressions:
            if item.is_star:
                starred = _expand_star(scope, item)
                if starred is None:
                    return None
                found += starred
            elif isinstance(item, exp.Alias) or (isinstance(item, exp.Column) and item.name):
                node = item.this if isinstance(item, exp.Alias) else item
                found.append(OutputColumn(item.alias_or_name.casefold(), self._type_of(scope, node), node))
            elif isinstance(item, _ONE_COLUMN):
                # Spark finds a name for it; only its place matters here.
                found.append(OutputColumn(f"\0{len(found)}", self._type_of(scope, item), item))
            else:
                return None  # It may give several columns.
        return tuple(found)


def apply_column_aliases(outputs: tuple[OutputColumn, ...] | None, node: Any) -> tuple[OutputColumn, ...] | None:
    """Return the columns renamed by `AS name (…)`."""
    alias = node.args.get("alias")
    names = [] if alias is None else [name.name.casefold() for name in alias.args.get("columns") or ()]
    if outputs is None or not names:
        return outputs
    if len(names) != len(outputs):
        return None
    return tuple(OutputColumn(name, output.type, output.node) for name, output in zip(names, outputs, strict=True))


def _is_known_join(source: FromItem) -> bool:
    join = source.join
    assert join is not None
    if not has_only_known_args(join, "this", "on", "side", "kind", "using") or join.kind not in _KINDS:
        return False
    # A merged column of such a join is not the left one's.
    return not (source.merged and join.side in ("RIGHT", "FULL"))


def find_plain_type(scope: Scope, node: Any) -> DataType | None:
    """Return the type of a name or literal, or one that compares in the same way."""
    match node:
        case exp.Paren():
            return find_plain_type(scope, node.this)
        case exp.Column():
            return scope.type_at(scope.resolve(node, scope.seen_by_where))
        case exp.Literal() if node.is_string:
            return Varchar()
        case exp.Literal() if node.this.isdecimal() and len(node.this) < 10:
            return Int32()
        case exp.Cast() if node.to.this == exp.DType.DATE:
            return Date()
        case _:
            return None


def _expand_star(scope: Scope, star: Any) -> list[OutputColumn] | None:
    """Return the expansion of `*` or `name.*`."""
    inner = star.this if isinstance(star, exp.Column) else star
    if (
        not isinstance(inner, exp.Star)
        or not has_only_known_args(inner)
        or not scope.is_known
        or scope.select.args.get("laterals")
    ):
        return None
    if isinstance(star, exp.Column):
        chosen = [one for one in scope.seen_by_where if scope.sources[one].alias == star.table.casefold()]
        if len(star.parts) != 2 or len(chosen) != 1 or any(source.merged for source in scope.sources):
            return None
        return _all_of(scope.sources[chosen[0]])
    found: list[OutputColumn] = []
    for source in scope.sources:
        if source.is_tested:
            continue
        columns = _all_of(source)
        if columns is None:
            return None
        # USING puts the merged columns first, then what is left of both sides.
        first = [output for name in source.merged for output in found if output.name == name]
        found = first + [output for output in found if output.name not in source.merged]
        found += [output for output in columns if output.name not in source.merged]
    return found


def _all_of(source: FromItem) -> list[OutputColumn] | None:
    if source.outputs is None:
        return None
    return [
        OutputColumn(
            output.name, output.type, exp.column(output.name, table=source.alias or None) if output.name else None
        )
        for output in source.outputs
    ]
