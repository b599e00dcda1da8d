"""Explorer page request, pinned version and version information."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.snapshot import Snapshot
from mangrove.metastore import Commit, Difference, MetastoreSnapshot
from mangrove.model.locators import LARGEST_INTEGER, Kind, Locator
from mangrove.model.objects import Object
from mangrove.transaction.history import history_entry_of

if TYPE_CHECKING:
    from mangrove.inspect.live_rows import LiveRowCount
    from mangrove.sql.statement_cache import BoundedCache

__all__ = [
    "PageRequest",
    "PageVersion",
    "PinnedLakehouse",
    "TransactionInfo",
    "VersionComparer",
    "VersionInfo",
    "build_version_info",
    "pin_version",
    "resolve_snapshot",
    "version_comparer_of",
]


@dataclass(frozen=True, slots=True)
class TransactionInfo:
    """One transaction that a version holds."""

    id: str
    message: str
    author: str
    properties: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """One version."""

    version: int
    created_at_millis: int
    message: str
    author: str
    rolled_back_from: int | None
    transactions: tuple[TransactionInfo, ...]


def build_version_info(commit: Commit) -> VersionInfo:
    """Return the information about the version of a commit."""
    line = history_entry_of(commit)
    records = tuple(
        TransactionInfo(one.id, one.message, one.author, tuple(one.properties.items())) for one in line.transactions
    )
    return VersionInfo(line.version, line.created_at_millis, line.message, line.author, line.rolled_back_from, records)


_REQUEST_CHARACTERS_MAX: Final = 500


@runtime_checkable
class VersionComparer(Protocol):
    """A metastore that compares versions and lists all objects; see `mangrove.metastore.MetastoreMaintenance`."""

    def differences(self, before: MetastoreSnapshot, after: MetastoreSnapshot) -> Iterator[Difference]:
        """Yield the objects that differ between two snapshots."""
        ...

    def objects(self, snapshot: MetastoreSnapshot, kind: Kind) -> Iterator[tuple[Locator, Object]]:
        """Yield every object of a kind."""
        ...


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The path parameters and the query of a URL; untrusted input."""

    steps: Mapping[str, str]
    query: Mapping[str, str]

    def __post_init__(self) -> None:
        for name, value in (*self.steps.items(), *self.query.items()):
            if len(value) > _REQUEST_CHARACTERS_MAX:
                raise InvalidInputError(
                    f"{name[:40]!r} has {len(value)} characters; the limit is {_REQUEST_CHARACTERS_MAX}"
                )

    def text(self, name: str) -> str | None:
        """Return a query parameter, or None if it is missing or empty."""
        return self.query.get(name, "").strip() or None

    def number(self, name: str) -> int | None:
        """Return a query parameter as a whole number, or None."""
        text = self.text(name)
        return None if text is None else _number(name, text)

    def step(self, name: str) -> str:
        """Return a path parameter."""
        return self.steps[name]

    def step_number(self, name: str) -> int:
        """Return a path parameter as a whole number."""
        return _number(name, self.steps[name])


@dataclass(frozen=True, slots=True)
class PageVersion:
    """The lakehouse and the version of a page."""

    lakehouse: str
    uri: str
    layout: str
    version: VersionInfo
    newest_version: int
    requested: str | None
    """The requested version, time or export; None for the newest version."""


@dataclass(frozen=True, slots=True)
class PinnedLakehouse:
    """A lakehouse pinned at the requested version, so that a page shows one version only."""

    lake: Lakehouse
    lake_snapshot: Snapshot
    newest: MetastoreSnapshot
    seen: PageVersion
    row_counts: "BoundedCache[LiveRowCount]"
    """The counts of rows by version and table, which never change."""

    @property
    def snapshot(self) -> MetastoreSnapshot:
        """The snapshot of the pinned version."""
        return self.lake_snapshot.snapshot


def pin_version(lake: Lakehouse, requested: PageRequest, row_counts: "BoundedCache[LiveRowCount]") -> PinnedLakehouse:
    """Return the lakehouse at the version, time or export that the query's `version` names, or at the newest."""
    newest = lake.metastore.latest()
    where = requested.text("version")
    snapshot = newest if where is None else resolve_snapshot(lake, where)
    seen = PageVersion(
        snapshot.settings.name or lake.uri.rstrip("/").rpartition("/")[2] or lake.uri,
        lake.uri,
        lake.layout,
        build_version_info(snapshot.commit),
        newest.version,
        where,
    )
    return PinnedLakehouse(lake, Snapshot(snapshot, lake.clients, lake.engines, lake), newest, seen, row_counts)


def version_comparer_of(lake: Lakehouse) -> VersionComparer | None:
    """Return the comparer of versions, or None if the layout has none."""
    return lake.metastore if isinstance(lake.metastore, VersionComparer) else None


def resolve_snapshot(lake: Lakehouse, where: str) -> MetastoreSnapshot:
    """Return the snapshot of a version number, a time or an export name."""
    if where.isdecimal():
        return lake.metastore.at_version(_number("version", where))
    return lake._snapshot_at(where)


def _number(name: str, text: str) -> int:
    # Python refuses to parse very long digit strings.
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(LARGEST_INTEGER)):
        raise InvalidInputError(f"invalid {name} {text[:40]!r}; give a whole number from 0")
    return int(text)
