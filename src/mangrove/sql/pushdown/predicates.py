"""Predicate pushdown through views, CTEs, subqueries and joins.

A pushed predicate of a part of a query is a set of conditions. Rows of that part that
do not satisfy all of them do not affect the result. Predicates are derived bottom-up:
a table collects the conditions of WHERE and of the joins of its SELECT, and those on
the result of that SELECT, which come from the enclosing query, from all references to
a CTE, or from the statement that reads a view. HAVING conditions on the keys of a group
apply to its rows.

A condition can be pushed below a SELECT if it uses only columns that the SELECT passes
on, and if rows, or groups of rows with equal values in these columns, are independent of
each other. It is not pushed below LIMIT, below functions whose values depend on other
rows, or below windows, except on their PARTITION BY columns.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

from sqlglot import exp

from mangrove.sql.parse.table_refs import find_cte
from mangrove.sql.pushdown.scopes import (
    ColumnPlace,
    OutputColumn,
    Scope,
    Scopes,
    TypedColumns,
    apply_column_aliases,
    has_only_known_args,
    is_comparison_compatible,
    is_plain_cte,
    iterate_conjuncts,
)

__all__ = [
    "ColumnEquivalences",
    "PredicatePushdown",
    "PushedAlternatives",
    "PushedFilter",
    "PushedPredicate",
    "find_column_equivalences",
]


@dataclass(frozen=True, slots=True)
class ColumnEquivalences:
    """Equivalence classes of columns of a SELECT's sources."""

    sets: tuple[frozenset[ColumnPlace], ...] = ()

    def name_in(self, number: int, place: ColumnPlace) -> str | None:
        """Return the column of one source that equals the column at `place`."""
        if place[0] == number:
            return place[1]
        equal = next((one for one in self.sets if place in one), frozenset())
        return min((name for source, name in equal if source == number), default=None)


def find_column_equivalences(scope: Scope, number: int) -> ColumnEquivalences:
    """Return the columns that are equal in all rows to which a row of the source contributes.

    They come from WHERE and inner joins. The condition of an outer join holds only for
    matched rows, so it counts only for its right side.
    """
    sets: list[frozenset[ColumnPlace]] = []
    for one, other in _pairs(scope, number):
        if is_comparison_compatible(scope.type_at(one), scope.type_at(other)):
            met = [known for known in sets if one in known or other in known]
            sets = [known for known in sets if known not in met] + [frozenset({one, other}).union(*met)]
    return ColumnEquivalences(tuple(sets))


def _pairs(scope: Scope, number: int) -> Iterator[tuple[ColumnPlace, ColumnPlace]]:
    where = scope.select.args.get("where")
    if where is not None:
        yield from _find_equalities(scope, where.this, scope.seen_by_where)
    for place, source in enumerate(scope.sources[1:], start=1):
        assert source.join is not None
        is_inner = not source.join.side or source.join.kind == "SEMI"
        if not (is_inner and source.join.kind != "ANTI") and not (place == number and source.is_optional):
            continue
        yield from _find_equalities(scope, source.join.args.get("on"), scope.seen_by_join(place))
        for name in source.merged:
            left = scope.resolve(exp.column(name), scope.seen_by_join(place) - {place})
            if left is not None:
                yield left, (place, name)


def _find_equalities(
    scope: Scope, condition: object, seen: frozenset[int]
) -> Iterator[tuple[ColumnPlace, ColumnPlace]]:
    for part in iterate_conjuncts(condition):
        if isinstance(part, exp.EQ) and has_only_known_args(part, "this", "expression"):
            one, other = scope.resolve(part.left, seen), scope.resolve(part.right, seen)
            if one is not None and other is not None:
                yield one, other


_ProjectionPath: TypeAlias = Callable[[Any], Any]
"""Maps an output column of a SELECT to its expression, or to None if it is not certain."""
_NameOf: TypeAlias = Callable[[Any], str | None]

_ALTERNATIVES_MAX: Final = 16
_PASSABLE: Final = (
    *("with_", "expressions", "hint", "distinct", "from_", "laterals", "joins", "where", "group", "having"),
    *("distribute", "sort", "cluster", "order"),
)
_DEPENDENT: Final = (exp.Rand, exp.Randn, exp.Randstr, exp.Shuffle, exp.Uuid)
_DEPENDENT_NAMES: Final = frozenset(
    {"MONOTONICALLY_INCREASING_ID", "SPARK_PARTITION_ID", "RANDOM", "UNIFORM", "INPUT_FILE_NAME"}
    | {"INPUT_FILE_BLOCK_START", "INPUT_FILE_BLOCK_LENGTH", "NEXTVAL"}
)


@dataclass(frozen=True, slots=True)
class PushedFilter:
    """A condition in a query, and the mapping of its columns to those of the part it applies to."""

    node: Any
    paths: tuple[_ProjectionPath, ...]
    """The mapping through each SELECT in between, outermost first."""
    name_of: _NameOf
    """Maps a column of the innermost SELECT to the column name of the part."""
    is_beside_nulls: bool
    """Whether an outer join in between may replace a row of the part by nulls."""


@dataclass(frozen=True, slots=True)
class PushedAlternatives:
    """A disjunction of filters, one for each use of the part."""

    pushed_predicates: "tuple[PushedPredicate, ...]"


PushedPredicate: TypeAlias = tuple[PushedFilter | PushedAlternatives, ...]


class PredicatePushdown:
    """The pushed filters of one text; `above` are the filters on its result."""

    def __init__(self, columns_of: Callable[[exp.Table], TypedColumns | None], above: PushedPredicate = ()) -> None:
        self.scopes = Scopes(columns_of)
        self._above = above
        self._on_queries: dict[int, PushedPredicate] = {}
        self._uses: dict[int, list[exp.Table]] | None = None

    def on_table(self, table: exp.Table) -> PushedPredicate:
        """Return the filters on the rows of a table or view that the text references."""
        return self._on_source(table) if has_only_known_args(table, "this", "db", "alias", "version") else ()

    def _on_source(self, node: Any) -> PushedPredicate:
        """Return the filters on a FROM or JOIN item, by the names of its own columns."""
        joined = node.parent
        select = joined.parent if isinstance(joined, exp.From | exp.Join) else None
        if not isinstance(select, exp.Select) or select.args.get("sample"):
            return ()
        scope = self.scopes.scope(select)
        number = next((one for one, source in enumerate(scope.sources) if source.node is node), None)
        if number is None or not scope.is_known:
            return ()
        filters: list[PushedFilter | PushedAlternatives] = []
        equalities = find_column_equivalences(scope, number)
        for condition, seen in _conditions(scope, number):
            name_of = _create_name_resolver(scope, number, seen, equalities)
            filters.append(PushedFilter(condition, (), name_of, scope.adds_nulls))
        name_of = _create_name_resolver(scope, number, scope.seen_by_where, equalities)
        groups = _Groups(scope, self.scopes.outputs(select))
        filters += [PushedFilter(part, (groups.node,), name_of, scope.adds_nulls) for part in groups.conditions()]
        outer = self._on_query(select)
        if outer:
            filters += _push_below(outer, _Projection(scope, self.scopes.outputs(select)), name_of, scope.adds_nulls)
        names = node.args["alias"].args.get("columns") if node.args.get("alias") else None
        if names and filters:
            return _rename_columns(tuple(filters), scope.sources[number].outputs, self._inner_columns(node))
        return tuple(filters)

    def _inner_columns(self, node: Any) -> tuple[OutputColumn, ...] | None:
        """Return the columns of a source by their inner names."""
        if isinstance(node, exp.Subquery):
            return self.scopes.outputs(node.this)
        clause = find_cte(node)
        if clause is not None:
            return apply_column_aliases(self.scopes.outputs(clause.this), clause)
        return self.scopes.table_outputs(node)

    def _on_query(self, query: Any) -> PushedPredicate:
        """Return the filters on the result of a query that can be pushed to its sources."""
        if id(query) not in self._on_queries:
            self._on_queries[id(query)] = ()  # A recursive CTE has no pushed predicate.
            self._on_queries[id(query)] = self._on_result(query) if _can_push_below(query) else ()
        return self._on_queries[id(query)]

    def _on_result(self, query: Any) -> PushedPredicate:
        parent = query.parent
        match parent:
            case None:
                return self._above
            case exp.Subquery() if isinstance(parent.parent, exp.From | exp.Join):
                return self._on_source(parent) if has_only_known_args(parent, "this", "alias") else ()
            case exp.Subquery():
                return self._on_query(parent)
            case exp.SetOperation():
                whole, part = self.scopes.outputs(parent), self.scopes.outputs(query)
                known = None if whole is None else tuple(one if one.type else OutputColumn("") for one in whole)
                return _rename_columns(self._on_query(parent), known, part)
            case exp.CTE() if is_plain_cte(parent):
                inner = self.scopes.outputs(query)
                return _rename_columns(self._of_uses(parent), apply_column_aliases(inner, parent), inner)
            case _:
                return ()

    def _of_uses(self, clause: exp.CTE) -> PushedPredicate:
        if self._uses is None:
            self._uses = {}
            for table in clause.root().find_all(exp.Table):
                used = find_cte(table)
                if used is not None:
                    self._uses.setdefault(id(used), []).append(table)
        uses = self._uses.get(id(clause), [])
        pushed_predicates = tuple(self.on_table(use) for use in uses)
        if len(pushed_predicates) == 1:
            return pushed_predicates[0]
        if not all(pushed_predicates) or sum(map(_size, pushed_predicates)) > _ALTERNATIVES_MAX:
            return ()
        return (PushedAlternatives(pushed_predicates),) if pushed_predicates else ()


@dataclass(frozen=True)
class _Projection:
    """How the columns of a SELECT are computed from its sources."""

    scope: Scope
    outputs: tuple[OutputColumn, ...] | None

    @cached_property
    def _windows(self) -> list[exp.Window]:
        select = self.scope.select
        clauses = [*select.expressions, select.args.get("order"), select.args.get("having")]
        return [window for clause in clauses if clause is not None for window in clause.find_all(exp.Window)]

    def node(self, name: str | None) -> Any:
        """Return the expression of the column with that name if a filter on it can be pushed below it."""
        expressions = [output.node for output in self.outputs or () if name and output.name == name]
        if len(expressions) != 1 or expressions[0] is None:
            return None
        place = self.scope.resolve(expressions[0], self.scope.seen_by_where)
        for window in self._windows:
            divided = [
                self.scope.resolve(one, self.scope.seen_by_where) for one in window.args.get("partition_by") or ()
            ]
            if place is None or place not in divided:
                return None
        return expressions[0]


@dataclass(frozen=True)
class _Groups:
    """The groups of a SELECT and its HAVING conditions; conditions on keys apply to their rows."""

    scope: Scope
    outputs: tuple[OutputColumn, ...] | None

    def conditions(self) -> Iterator[Any]:
        """Yield the HAVING conditions, if rows with equal keys are always in one group."""
        select = self.scope.select
        having, group = select.args.get("having"), select.args.get("group")
        if having is None or group is None or not _is_plain_group(group) or any(map(_depends_on_rows, select.walk())):
            return
        yield from iterate_conjuncts(having.this)

    def node(self, column: Any) -> Any:
        """Return the expression of a column in HAVING: a key or an output; None if it is ambiguous."""
        place = self.scope.resolve(column, self.scope.seen_by_where)
        key = column if place in self._keys else None
        named = [one.node for one in self.outputs or () if one.name == column.name.casefold()]
        if len(column.parts) > 1:
            return key
        if self.outputs is None or len(named) > 1:
            return None
        if not named or (key is not None and self.scope.resolve(named[0], self.scope.seen_by_where) == place):
            return key
        return named[0] if key is None else None

    @cached_property
    def _keys(self) -> list[ColumnPlace]:
        keys = [
            self.scope.resolve(one, self.scope.seen_by_where) for one in self.scope.select.args["group"].expressions
        ]
        return [key for key in keys if key is not None]


def _conditions(scope: Scope, number: int) -> Iterator[tuple[Any, frozenset[int]]]:
    """Yield each condition that all relevant rows of the source satisfy, and the sources it can use."""
    where = scope.select.args.get("where")
    if where is not None:
        yield from ((part, scope.seen_by_where) for part in iterate_conjuncts(where.this))
    for place, source in enumerate(scope.sources[1:], start=1):
        assert source.join is not None
        keeps_others = bool(source.join.side and not source.is_tested) or source.join.kind == "ANTI"
        # Rows of the right side that fail the condition of its outer join are never joined.
        if not keeps_others or (place == number and source.is_optional):
            yield from ((part, scope.seen_by_join(place)) for part in iterate_conjuncts(source.join.args.get("on")))


def _create_name_resolver(scope: Scope, number: int, seen: frozenset[int], equalities: ColumnEquivalences) -> _NameOf:
    def name_of(column: Any) -> str | None:
        place = scope.resolve(column, seen)
        return None if place is None else equalities.name_in(number, place)

    return name_of


def _push_below(
    pushed: PushedPredicate, projection: _Projection, name_of: _NameOf, adds_nulls: bool
) -> Iterator[PushedFilter | PushedAlternatives]:
    """Yield a filter on the result of a SELECT as a filter on one of its sources."""
    for part in pushed:
        if isinstance(part, PushedAlternatives):
            yield PushedAlternatives(
                tuple(tuple(_push_below(one, projection, name_of, adds_nulls)) for one in part.pushed_predicates)
            )
        else:
            path = _build_projection_path(projection, part.name_of)
            yield PushedFilter(part.node, (*part.paths, path), name_of, part.is_beside_nulls or adds_nulls)


def _build_projection_path(projection: _Projection, name_of: _NameOf) -> _ProjectionPath:
    return lambda column: projection.node(name_of(column))


def _rename_columns(
    pushed: PushedPredicate, outside: tuple[OutputColumn, ...] | None, inside: tuple[OutputColumn, ...] | None
) -> PushedPredicate:
    """Return a filter with columns renamed to their inner names, by position."""
    if outside is None or inside is None or len(outside) != len(inside):
        return ()
    names = [output.name for output in outside]
    pairs = zip(names, inside, strict=True)
    known = {name: output.name for name, output in pairs if name and names.count(name) == 1}

    def rename(part: PushedFilter | PushedAlternatives) -> PushedFilter | PushedAlternatives:
        if isinstance(part, PushedAlternatives):
            return PushedAlternatives(tuple(tuple(map(rename, pushed)) for pushed in part.pushed_predicates))
        return PushedFilter(part.node, part.paths, _via(known, part.name_of), part.is_beside_nulls)

    return tuple(map(rename, pushed))


def _via(names: dict[str, str], name_of: _NameOf) -> _NameOf:
    return lambda column: names.get(name_of(column) or "")


def _size(pushed: PushedPredicate) -> int:
    return sum(
        sum(map(_size, part.pushed_predicates)) if isinstance(part, PushedAlternatives) else 1 for part in pushed
    )


def _can_push_below(query: Any) -> bool:
    """Return whether filtering before a query is equivalent to filtering its result."""
    if isinstance(query, exp.SetOperation):
        return has_only_known_args(query, "with_", "this", "expression", "distinct", "order")
    if isinstance(query, exp.Subquery):
        return has_only_known_args(query, "this", "with_")
    if not isinstance(query, exp.Select) or not has_only_known_args(query, *_PASSABLE):
        return False
    distinct, group = query.args.get("distinct"), query.args.get("group")
    if distinct is not None and not has_only_known_args(distinct):
        return False
    if group is not None and not _is_plain_group(group):
        return False
    return not any(_depends_on_rows(node) for node in query.walk())


def _is_plain_group(group: Any) -> bool:
    """Return whether each row is in one group, without grouping sets."""
    several = exp.Rollup | exp.Cube | exp.GroupingSets
    return has_only_known_args(group, "expressions", "all") and not any(
        isinstance(key, several) for key in group.expressions
    )


def _depends_on_rows(node: Any) -> bool:
    """Return whether it is a function whose value depends on which rows or files are read."""
    return isinstance(node, _DEPENDENT) or (isinstance(node, exp.Anonymous) and node.name.upper() in _DEPENDENT_NAMES)
