"""Lakehouse overview with object counts, latest commits, exports and shared transactions."""

from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeGuard

from mangrove.inspect.growth import COUNTED_MAX, GrowthPoint, ObjectCounts, count_objects, load_growth
from mangrove.inspect.live_rows import LiveRowCount, count_all_live_rows
from mangrove.inspect.page import (
    PageRequest,
    PageVersion,
    PinnedLakehouse,
    VersionInfo,
    build_version_info,
    version_comparer_of,
)
from mangrove.maintenance.export_records import list_exports
from mangrove.model.access import strip_rules
from mangrove.model.locators import Kind
from mangrove.model.objects import Object, SharedTransactionEntry, SharedTransactionState
from mangrove.model.settings import LakehouseSettings

__all__ = [
    "ExportInfo",
    "OverviewInfo",
    "SharedTransactionInfo",
    "load_overview_info",
]

_COMMITS_MAX: Final = 60
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
    live_rows: LiveRowCount | None
    growth: tuple[GrowthPoint, ...]
    """Oldest first; empty if the layout cannot compare versions or there are too many objects."""
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
    tally = None if compared is None else count_objects(compared, snapshot)
    return OverviewInfo(
        pinned.seen,
        tally,
        None if compared is None else count_all_live_rows(pinned, compared, COUNTED_MAX),
        () if compared is None or tally is None else load_growth(pinned, compared, tally),
        tuple(build_version_info(commit) for commit in commits),
        _numbers(snapshot.settings),
        tuple(strip_rules(snapshot.settings).properties.items()),
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
