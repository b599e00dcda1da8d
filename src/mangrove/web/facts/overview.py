"""The first page: what lakehouse this is, how much it holds, and what was done last."""

from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeGuard

from mangrove.maintenance.exported import exports_of
from mangrove.model.locators import Kind
from mangrove.model.objects import Object, SharedTransaction, SharedTransactionState
from mangrove.model.settings import LakehouseSettings
from mangrove.web.facts.pinned import Asked, Pinned, Seen, comparing
from mangrove.web.facts.tally import Tally, tally
from mangrove.web.facts.versions import VersionFacts, version_facts

__all__ = ["ExportFacts", "OverviewFacts", "SharedFacts", "overview_facts"]

_COMMITS_MAX: Final = 12
_LISTED_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class ExportFacts:
    """A version that has a name."""

    name: str
    version: int
    location: str


@dataclass(frozen=True, slots=True)
class SharedFacts:
    """A transaction that several processes join."""

    name: str
    state: str
    base_version: int
    began_at_millis: int
    expires_at_millis: int


@dataclass(frozen=True, slots=True)
class OverviewFacts:
    """The lakehouse at a glance."""

    seen: Seen
    tally: Tally | None
    """None where the layout cannot count."""
    commits: tuple[VersionFacts, ...]
    settings: tuple[tuple[str, int], ...]
    properties: tuple[tuple[str, str], ...]
    exports: tuple[ExportFacts, ...]
    shared_transactions: tuple[SharedFacts, ...]


def overview_facts(pinned: Pinned, asked: Asked) -> OverviewFacts:  # noqa: ARG001 - every page is asked alike
    """Return the lakehouse at a glance."""
    snapshot = pinned.snapshot
    compared = comparing(pinned.lake)
    commits = islice(pinned.lake.metastore.history(before=snapshot.version + 1), _COMMITS_MAX)
    exports = islice(exports_of(snapshot.settings), _LISTED_MAX)
    shared = (value for _, value in snapshot.children(Kind.SHARED_TRANSACTION, None) if _is_open(value))
    return OverviewFacts(
        pinned.seen,
        None if compared is None else tally(compared, snapshot),
        tuple(version_facts(commit) for commit in commits),
        _numbers(snapshot.settings),
        tuple(snapshot.settings.properties.items()),
        tuple(ExportFacts(one.name, one.version, one.location) for one in exports),
        tuple(_shared(value) for value in islice(shared, _LISTED_MAX)),
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


def _is_open(value: Object) -> TypeGuard[SharedTransaction]:
    """Return whether somebody may join it: those that were published only note how far a stream has come."""
    return isinstance(value, SharedTransaction) and value.state is SharedTransactionState.OPEN


def _shared(value: SharedTransaction) -> SharedFacts:
    return SharedFacts(
        value.name, value.state.value, value.base_version, value.began_at_millis, value.expires_at_millis
    )
