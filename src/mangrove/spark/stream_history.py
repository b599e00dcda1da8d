"""Following one table through the versions of a lakehouse, under whichever name it has in each."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from mangrove.errors import NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.table_staging import table_state
from mangrove.model.locators import TableLocator
from mangrove.model.objects import Table
from mangrove.tables.stream_offsets import StreamOffset
from mangrove.tables.stream_steps import Step, changed_versions, fingerprint, first_step, step_between
from mangrove.tables.table_state import TableState
from mangrove.transaction.deltas import open_table
from mangrove.transaction.identities import located

__all__ = ["TableHistory"]

_STATES_MAX: Final = 32
"""How many versions of the table are kept in memory: bisecting comes back to some of them."""


class TableHistory:
    """The versions of one table; what a version holds never changes, so it is read once."""

    def __init__(
        self, lake: Lakehouse, name: TableLocator, *, table: Table | None = None, fails_on_data_loss: bool = True
    ) -> None:
        self._lake = lake
        self._locator = name
        self._table: Table = open_table(lake.metastore.latest(), name).table if table is None else table
        self._fails_on_data_loss = fails_on_data_loss
        self._states: OrderedDict[int, TableState] = OrderedDict()
        self._first: Step | None = None

    @property
    def table(self) -> Table:
        """The table, whose id is followed when it is renamed."""
        return self._table

    @property
    def table_id(self) -> str:
        """The id."""
        return self._table.id

    def newest(self) -> tuple[int, TableState]:
        """Return the newest version with the table in it; one that was dropped is an error here and only here."""
        snapshot = self._lake.metastore.latest()
        self._locator = located(snapshot, self._table, self._locator)
        return snapshot.version, self.state(snapshot.version)

    def state(self, version: int) -> TableState:
        """Return the table as a version has it, without rows where the version does not have it yet."""
        if version not in self._states:
            self._states[version] = self._read(version)
            if len(self._states) > _STATES_MAX:
                self._states.popitem(last=False)
        return self._states[version]

    def steps(self, start: StreamOffset, upto: int) -> Iterator[Step]:
        """Yield what came after a place in the history, version by version up to one."""
        base = self._base(start)
        if start.is_first:
            if self._first is None or self._first.version != base:
                self._first = first_step(self.state(base), base)
            yield self._first
        for version in changed_versions(base, upto, lambda one: self.state(one).logs):
            yield step_between(self.state(version - 1), self.state(version), version)

    def _read(self, version: int) -> TableState:
        if version < 0:
            return replace(self.newest()[1], logs=())
        snapshot = self._lake.metastore.at_version(version)
        try:
            locator = located(snapshot, self._table, self._locator)
        except NotFoundError:
            return replace(self.newest()[1], logs=())
        return table_state(snapshot, locator)

    def _base(self, start: StreamOffset) -> int:
        """Return the version from which to go on: that of the offset, or one that is kept and has the same rows."""
        if start.version < 0 or self._goes_on_from(start.version):
            return start.version
        oldest = self._oldest()
        if fingerprint(self.state(oldest)) == start.state or not self._fails_on_data_loss:
            return oldest
        raise NotFoundError(
            f"version {start.version}, up to which this stream has read {self._locator}, has expired, and the oldest "
            f"that is kept is {oldest}: rows between them may be missing. Start with a new checkpoint, or go on from "
            f'{oldest} with .option("failOnDataLoss", "false"); and keep versions for longer than a stream may rest'
        )

    def _goes_on_from(self, version: int) -> bool:
        """Return whether a version and the one after it are there; an export may keep one whose followers are gone."""
        newest = self._lake.metastore.latest().version
        try:
            for one in range(version, min(version + 1, newest) + 1):
                self.state(one)
        except NotFoundError:
            return False
        return True

    def _oldest(self) -> int:
        """Return the oldest version from which all are kept up to the newest."""
        commits = self._lake.metastore.history()
        oldest = next(commits).version
        for commit in commits:
            if commit.version < oldest - 1:
                break
            oldest = commit.version
        return oldest
