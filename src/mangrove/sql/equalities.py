"""Columns that have the same value in every row that matters, so that a condition on one holds for the other."""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from mangrove.sql.scopes import ColumnPlace, Scope, are_alike, has_only, parts_of

__all__ = ["Equalities", "equalities_for"]


@dataclass(frozen=True, slots=True)
class Equalities:
    """Sets of columns of a SELECT's sources; those of one set are equal and compare alike with any value."""

    sets: tuple[frozenset[ColumnPlace], ...] = ()

    def name_in(self, number: int, place: ColumnPlace) -> str | None:
        """Return the column of one source that has the value of the column at `place`."""
        if place[0] == number:
            return place[1]
        equal = next((one for one in self.sets if place in one), frozenset())
        return min((name for source, name in equal if source == number), default=None)


def equalities_for(scope: Scope, number: int) -> Equalities:
    """Return what is equal in all rows in which a row of the source matters.

    That is what WHERE and inner joins say. What an outer join says holds only where
    its right side is there, and so it counts for that side alone.
    """
    sets: list[frozenset[ColumnPlace]] = []
    for one, other in _pairs(scope, number):
        if are_alike(scope.type_at(one), scope.type_at(other)):
            met = [known for known in sets if one in known or other in known]
            sets = [known for known in sets if known not in met] + [frozenset({one, other}).union(*met)]
    return Equalities(tuple(sets))


def _pairs(scope: Scope, number: int) -> Iterator[tuple[ColumnPlace, ColumnPlace]]:
    where = scope.select.args.get("where")
    if where is not None:
        yield from _said(scope, where.this, scope.seen_by_where)
    for place, source in enumerate(scope.sources[1:], start=1):
        assert source.join is not None
        is_inner = not source.join.side or source.join.kind == "SEMI"
        if not (is_inner and source.join.kind != "ANTI") and not (place == number and source.is_optional):
            continue
        yield from _said(scope, source.join.args.get("on"), scope.seen_by_join(place))
        for name in source.merged:
            left = scope.meant(exp.column(name), scope.seen_by_join(place) - {place})
            if left is not None:
                yield left, (place, name)


def _said(scope: Scope, condition: object, seen: frozenset[int]) -> Iterator[tuple[ColumnPlace, ColumnPlace]]:
    for part in parts_of(condition):
        if isinstance(part, exp.EQ) and has_only(part, "this", "expression"):
            one, other = scope.meant(part.left, seen), scope.meant(part.right, seen)
            if one is not None and other is not None:
                yield one, other
