"""Earlier states of a table, found by a search over the versions of the lakehouse.

Most versions change other tables. A galloping search followed by a bisection finds the
version that made a state with a logarithmic number of lookups. It assumes that a table
with the same state in two versions did not change in between, so a state that was
rolled back before anyone published it is not found.

A table may have had other names. Looking for its id among all tables is expensive, so that is done only
in the version before the one in which a known name begins; the search passes it at each rename.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.iceberg.tables_without_columns import load_iceberg_state
from mangrove.maintenance.export_records import TableTag, list_table_tags
from mangrove.metastore import Metastore, MetastoreSnapshot
from mangrove.model.locators import TableLocator
from mangrove.model.objects import TableEntry
from mangrove.tables.iceberg_names import STATISTICS
from mangrove.tables.scan_plan import list_live_files
from mangrove.tables.table_state import TableState
from mangrove.transaction.aliases import locate_table
from mangrove.transaction.catalog import search_table

__all__ = ["TableRevision", "TableRevisions"]

_REVISIONS_MAX: Final = 20
_FILES_MAX: Final = 20_000
"""Limits of one search, because the files of each found state are planned and published."""


@dataclass(frozen=True, slots=True)
class TableRevision:
    """A table state, and the version that made it."""

    version: int
    at_millis: int
    state: TableState

    def is_same_state(self, other: "TableRevision") -> bool:
        """Return whether the table has the same columns, rows and properties; its name and statistics may differ."""
        return _without_labels(self.state) == _without_labels(other.state)


def _without_labels(state: TableState) -> TableState:
    properties = {name: value for name, value in state.properties.items() if name != STATISTICS}
    return replace(state, name="", properties=properties)


@dataclass(frozen=True, slots=True)
class TableRevisions:
    """The states of one table up to one version."""

    metastore: Metastore
    locator: TableLocator
    newest: TableRevision
    tags: Mapping[str, TableTag] = field(default_factory=dict)
    """The named versions up to the newest one, by name, and the table's own tags."""
    _known: dict[int, TableRevision | None] = field(default_factory=dict)
    _names: list[TableLocator] = field(default_factory=list)
    """Earlier names of the table, as they were found."""

    @staticmethod
    def up_to(metastore: Metastore, snapshot: MetastoreSnapshot, locator: TableLocator) -> "TableRevisions":
        """Return the states of a table up to a version."""
        locator, _ = locate_table(snapshot, locator)
        newest = _load_revision(snapshot, locator)
        named = list_table_tags(snapshot.settings, newest.state.table_id)
        tags = {name: tag for name, tag in named.items() if tag.version <= snapshot.version}
        return TableRevisions(metastore, locator, newest, tags)

    @property
    def labels(self) -> Mapping[str, object]:
        """What is published with the states and changes without them: tags by name, and statistics without one."""
        statistics = self.newest.state.properties.get(STATISTICS)
        return self.tags if statistics is None else {**self.tags, "": statistics}

    def find_at(self, version: int, *, by_id: bool = True) -> TableRevision | None:
        """Return the table as of a version; None if the version expired or has no such table.

        Without `by_id` it is found only under a name that is known already.
        """
        if version in self._known:
            return self._known[version]
        try:
            snapshot = self.metastore.at_version(version)
            locator = self._find_name(snapshot, by_id=by_id)
            if locator is None and not by_id:
                return None
            self._known[version] = None if locator is None else _load_revision(snapshot, locator)
        except (NotFoundError, InvalidInputError):
            self._known[version] = None
        return self._known[version]

    def _find_name(self, snapshot: MetastoreSnapshot, *, by_id: bool) -> TableLocator | None:
        table_id = self.newest.state.table_id
        for name in (self.locator, *self._names):
            found = snapshot.get(name)
            if isinstance(found, TableEntry) and found.id == table_id:
                return name
        locator = search_table(snapshot, table_id) if by_id else None
        if locator is not None:
            self._names.append(locator)
        return locator

    def has_changed_since(self, version: int) -> bool:
        """Return whether the table had another state after that version, even if it has the old one again."""
        return self._find_start(self.newest, version)[0].version > version

    def list_since(self, since: int | None) -> tuple[list[TableRevision], bool]:
        """Return the states made after version `since`, newest first, and whether these are all.

        They are not all if the limits are reached, if a version in between expired, or if
        `since` is None.
        """
        found: list[TableRevision] = []
        files = 0
        before: TableRevision | None = self.newest
        while before is not None and len(found) < _REVISIONS_MAX:
            made, before = self._find_start(before, since or 0)
            if made.version == since:
                return found, True
            files += sum(len(list_live_files(log.deltas)) for log in made.state.logs)
            if found and files > _FILES_MAX:
                break
            found.append(made)
        return found, False

    def _find_start(self, revision: TableRevision, first: int) -> tuple[TableRevision, TableRevision | None]:
        """Return the earliest version with the same state, and the version before it if it can be read."""
        same, step = revision, 1
        while True:
            if same.version <= first:
                return same, None
            other = self.find_at(max(first, same.version - step), by_id=step == 1)
            if other is None and step == 1:
                return same, None
            if other is not None and not other.is_same_state(revision):
                break
            same, step = (same, 1) if other is None else (other, 2 * step)
        while same.version - other.version > 1:
            middle = self.find_at((same.version + other.version) // 2)
            if middle is None:
                return same, None
            same, other = (middle, other) if middle.is_same_state(revision) else (same, middle)
        return same, other


def _load_revision(snapshot: MetastoreSnapshot, locator: TableLocator) -> TableRevision:
    return TableRevision(snapshot.version, snapshot.commit.created_at_millis, load_iceberg_state(snapshot, locator))
