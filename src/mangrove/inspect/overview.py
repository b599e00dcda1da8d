"""Lakehouse overview with object counts, latest commits, exports and shared transactions."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeGuard

from mangrove.inspect.page import (
    PageRequest,
    PageVersion,
    PinnedLakehouse,
    VersionComparer,
    VersionInfo,
    build_version_info,
    version_comparer_of,
)
from mangrove.maintenance.exports import list_exports
from mangrove.metastore import MetastoreSnapshot
from mangrove.model.locators import Kind
from mangrove.model.objects import Delta, Object, SharedTransactionEntry, SharedTransactionState
from mangrove.model.settings import LakehouseSettings

__all__ = [
    "COUNTED_MAX",
    "ExportInfo",
    "ObjectCounts",
    "OverviewInfo",
    "SharedTransactionInfo",
    "count_objects",
    "iterate_data_totals",
    "load_overview_info",
]

COUNTED_MAX: Final = 10_000
"""How many objects of a kind are counted, to bound the time of a page."""


@dataclass(frozen=True, slots=True)
class ObjectCounts:
    """Counts of objects; rows and bytes are those of the files of all deltas, including replaced files."""

    namespaces: int
    tables: int
    views: int
    deltas: int
    files: int
    rows: int
    size_bytes: int
    is_complete: bool
    """False if counting stopped at the bound; the counts are lower bounds then."""


def count_objects(
    compared: VersionComparer, snapshot: MetastoreSnapshot, counted_max: int = COUNTED_MAX
) -> ObjectCounts:
    """Count the objects of a version, up to a bound for each kind."""
    counts = {kind: _count(compared, snapshot, kind, counted_max) for kind in (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)}
    deltas = list(
        iterate_data_totals(value for _, value in islice(compared.objects(snapshot, Kind.DELTA), counted_max))
    )
    return ObjectCounts(
        counts[Kind.NAMESPACE],
        counts[Kind.TABLE],
        counts[Kind.VIEW],
        len(deltas),
        sum(files for files, _, _ in deltas),
        sum(rows for _, rows, _ in deltas),
        sum(size for _, _, size in deltas),
        max(*counts.values(), len(deltas)) < counted_max,
    )


def iterate_data_totals(values: Iterator[object]) -> Iterator[tuple[int, int, int]]:
    """Yield the files, rows and bytes of each delta among the values."""
    for value in values:
        if isinstance(value, Delta):
            yield len(value.manifest.entries), value.manifest.row_count, value.manifest.size_bytes


def _count(compared: VersionComparer, snapshot: MetastoreSnapshot, kind: Kind, counted_max: int) -> int:
    return sum(1 for _ in islice(compared.objects(snapshot, kind), counted_max))


_COMMITS_MAX: Final = 12
_LISTED_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class ExportInfo:
    """An exported version."""

    name: str
    version: int
    location: str


@dataclass(frozen=True, slots=True)
class SharedTransactionInfo:
    """An open shared transaction."""

    name: str
    state: str
    base_version: int
    began_at_millis: int
    expires_at_millis: int


@dataclass(frozen=True, slots=True)
class OverviewInfo:
    """The overview of a lakehouse."""

    seen: PageVersion
    tally: ObjectCounts | None
    """None if the layout cannot list all objects."""
    commits: tuple[VersionInfo, ...]
    settings: tuple[tuple[str, int], ...]
    properties: tuple[tuple[str, str], ...]
    exports: tuple[ExportInfo, ...]
    shared_transactions: tuple[SharedTransactionInfo, ...]


def load_overview_info(pinned: PinnedLakehouse, requested: PageRequest) -> OverviewInfo:  # noqa: ARG001 - all pages have one signature
    """Return the overview of the pinned version."""
    snapshot = pinned.snapshot
    compared = version_comparer_of(pinned.lake)
    commits = islice(pinned.lake.metastore.history(before=snapshot.version + 1), _COMMITS_MAX)
    exports = islice(list_exports(snapshot.settings), _LISTED_MAX)
    shared = (value for _, value in snapshot.children(Kind.SHARED_TRANSACTION, None) if _is_open(value))
    return OverviewInfo(
        pinned.seen,
        None if compared is None else count_objects(compared, snapshot),
        tuple(build_version_info(commit) for commit in commits),
        _numbers(snapshot.settings),
        tuple(snapshot.settings.properties.items()),
        tuple(ExportInfo(one.name, one.version, one.location) for one in exports),
        tuple(_to_shared_info(value) for value in islice(shared, _LISTED_MAX)),
    )


def _numbers(settings: LakehouseSettings) -> tuple[tuple[str, int], ...]:
    names = (
        "order",
        "node_file_max_size_bytes",
        "namespace_name_max_size_bytes",
        "table_name_max_size_bytes",
        "file_path_max_size_bytes",
        "maximum_version_age_millis",
        "minimum_versions_to_keep",
    )
    return tuple((name, getattr(settings, name)) for name in names)


def _is_open(value: Object) -> TypeGuard[SharedTransactionEntry]:
    """Return whether a process may join; a published one only records the progress of a stream."""
    return isinstance(value, SharedTransactionEntry) and value.state is SharedTransactionState.OPEN


def _to_shared_info(value: SharedTransactionEntry) -> SharedTransactionInfo:
    return SharedTransactionInfo(
        value.name, value.state.value, value.base_version, value.began_at_millis, value.expires_at_millis
    )
