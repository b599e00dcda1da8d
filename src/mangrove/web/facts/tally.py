"""Counting what a version holds, up to a bound."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from mangrove.metastore import Snapshot
from mangrove.model.locators import Kind
from mangrove.model.objects import Delta
from mangrove.web.facts.pinned import Comparing

__all__ = ["COUNTED_MAX", "Tally", "data_of", "tally"]

COUNTED_MAX: Final = 10_000
"""How many objects of a kind are looked at: a page should come soon, also for a very large lakehouse."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How much there is. Rows and bytes are those of the files that deltas name, replaced ones too."""

    namespaces: int
    tables: int
    views: int
    deltas: int
    files: int
    rows: int
    size_bytes: int
    is_complete: bool
    """False where counting stopped at the bound, so that there is at least so much."""


def tally(compared: Comparing, snapshot: Snapshot, counted_max: int = COUNTED_MAX) -> Tally:
    """Return how much a version holds."""
    counts = {kind: _count(compared, snapshot, kind, counted_max) for kind in (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)}
    deltas = list(data_of(value for _, value in islice(compared.objects(snapshot, Kind.DELTA), counted_max)))
    return Tally(
        counts[Kind.NAMESPACE],
        counts[Kind.TABLE],
        counts[Kind.VIEW],
        len(deltas),
        sum(files for files, _, _ in deltas),
        sum(rows for _, rows, _ in deltas),
        sum(size for _, _, size in deltas),
        max(*counts.values(), len(deltas)) < counted_max,
    )


def data_of(values: Iterator[object]) -> Iterator[tuple[int, int, int]]:
    """Yield the files, rows and bytes of each delta among the values."""
    for value in values:
        if isinstance(value, Delta):
            yield len(value.manifest.entries), value.manifest.row_count, value.manifest.size_bytes


def _count(compared: Comparing, snapshot: Snapshot, kind: Kind, counted_max: int) -> int:
    return sum(1 for _ in islice(compared.objects(snapshot, kind), counted_max))
