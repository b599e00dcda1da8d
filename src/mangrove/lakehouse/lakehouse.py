"""The lakehouse: its newest version as a catalog, its transactions, its history."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Final, TypeVar

from mangrove.effects import Effects
from mangrove.errors import ConflictError, InvalidInputError
from mangrove.lakehouse.catalog import Catalog
from mangrove.lakehouse.diff import Diff, summarised
from mangrove.lakehouse.handles import CatalogClient
from mangrove.lakehouse.layouts import LaidOut
from mangrove.lakehouse.moments import NamedMoment, TimeMoment, VersionMoment, millis_of_duration, parse_moment
from mangrove.lakehouse.past import PastLakehouse
from mangrove.lakehouse.table_rows import Engines
from mangrove.lakehouse.transactions import LakeTransaction
from mangrove.maintenance.exported import export_named
from mangrove.metastore import Changes, Isolation, Snapshot
from mangrove.model.properties import NO_PROPERTIES
from mangrove.model.settings import LakehouseSettings
from mangrove.transaction.comparing import RollsBack, differences_of, restoring
from mangrove.transaction.grouping import GroupedCommits
from mangrove.transaction.history import HistoryLine, line_of
from mangrove.transaction.names import table_names
from mangrove.transaction.transaction import Transaction
from mangrove.transaction.undo import check_undoable, taken_back

__all__ = ["Lakehouse"]

T = TypeVar("T")
_ATTEMPTS: Final = 10
_PAUSE_SECONDS_MAX: Final = 1.0


class Lakehouse(Catalog):
    """A lakehouse at a URI; threads may share it. Each statement on it is a transaction of its own."""

    def __init__(
        self,
        effects: Effects,
        laid_out: LaidOut,
        clients: Mapping[str, CatalogClient],
        engines: Callable[[Effects], Engines] | None = None,
    ) -> None:
        self.effects = effects
        self.layout = laid_out.layout
        self.metastore = laid_out.metastore
        self._commits = GroupedCommits(laid_out.metastore, effects.new_id)
        self.clients = clients
        self.engines = None if engines is None else engines(effects)

    def __repr__(self) -> str:
        return f"<lakehouse {self.uri} in the {self.layout} layout>"

    @property
    def uri(self) -> str:
        """Where it lies, ending in one `/`."""
        return self.effects.store.uri

    @property
    def version(self) -> int:
        """The number of the newest version."""
        return self.metastore.latest().version

    @property
    def settings(self) -> LakehouseSettings:
        """Its own definition: sizes, retention, properties, exports."""
        return self.metastore.latest().settings

    def reading(self) -> Snapshot:
        """Return the newest version."""
        return self.metastore.latest()

    def change(self, statement: Callable[[Transaction], T], message: str = "") -> T:
        """Commit one statement by itself, and run it again where a rival was faster.

        It saw nothing before it began, so nobody could tell the second run from a
        first one that began later.
        """
        return self.run(lambda transaction: statement(transaction.core), message=message)

    def new_id(self) -> str:
        """Return an id for a new object."""
        return self.effects.new_id()

    def transaction(
        self,
        isolation: Isolation | str = Isolation.SNAPSHOT,
        *,
        message: str = "",
        author: str = "",
        properties: Mapping[str, str] = NO_PROPERTIES,
        time_limit: str | timedelta | None = None,
    ) -> LakeTransaction:
        """Begin a transaction on the newest version, to be used in a `with` block.

        `message`, `author` and `properties` are for the history.
        """
        core = Transaction(
            self._commits,
            self.metastore.latest(),
            self.effects.new_id(),
            self.effects.now_millis,
            _isolation(isolation),
            message=message,
            author=author,
            properties=properties,
            limit_millis=None if time_limit is None else millis_of_duration(time_limit),
        )
        return LakeTransaction(core, self.effects.new_id, self.clients, self.engines)

    def run(
        self,
        work: Callable[[LakeTransaction], T],
        isolation: Isolation | str = Isolation.SNAPSHOT,
        *,
        message: str = "",
        author: str = "",
        properties: Mapping[str, str] = NO_PROPERTIES,
        attempts: int = _ATTEMPTS,
    ) -> T:
        """Commit what `work` does in a transaction, and begin again from the start where a rival was faster.

        `work` may run several times, each time on a newer version, so it should do
        nothing outside its transaction.
        """
        if attempts < 1:
            raise InvalidInputError(f"{attempts} attempts were asked for: give at least one")
        for attempt in range(attempts):
            transaction = self.transaction(isolation, message=message, author=author, properties=properties)
            try:
                with transaction:
                    return work(transaction)
            except ConflictError:
                if attempt == attempts - 1:
                    raise
            self.effects.pause(min(_PAUSE_SECONDS_MAX, 0.01 * 2**attempt))
        raise AssertionError("the last attempt returns or raises")

    def at(self, where: int | str | datetime) -> PastLakehouse:
        """Return the lakehouse as of a version, a time (without a zone: UTC) or the name of an export."""
        return PastLakehouse(self.snapshot_at(where), self.clients, self.engines)

    def snapshot_at(self, where: int | str | datetime) -> Snapshot:
        """Return the version of a moment."""
        match parse_moment(where):
            case VersionMoment(version):
                return self.metastore.at_version(version)
            case TimeMoment(millis):
                return self.metastore.at_time(millis)
            case NamedMoment(name):
                return self.metastore.at_version(export_named(self.settings, name).version)

    def history(self, *, before: int | None = None, limit: int | None = None) -> Iterator[HistoryLine]:
        """Yield the versions that are kept, newest first: those before a version, so many."""
        if limit is not None and limit < 0:
            raise InvalidInputError(f"{limit} lines of history were asked for: a limit is a number from 0")
        return (line_of(commit) for commit in islice(self.metastore.history(before=before), limit))

    def diff(self, before: int | str | datetime, after: int | str | datetime | None = None) -> Diff:
        """Return what changed between two moments; without the second, until now."""
        was = self.snapshot_at(before)
        now = self.metastore.latest() if after is None else self.snapshot_at(after)
        found = differences_of(self.metastore, was, now)
        return Diff(was.version, now.version, summarised(found, lambda wanted: table_names(wanted, now, was)))

    def rollback(self, to: int | str | datetime, *, message: str = "", author: str = "") -> int:
        """Commit what an earlier version holds as the newest; what lies between stays in the history."""
        target = self.snapshot_at(to)
        text = message or f"roll back to version {target.version}"
        if isinstance(self.metastore, RollsBack):
            changes = Changes(self.effects.new_id(), message=text, author=author)
            return self.metastore.roll_back(target, changes).version
        return self._repeated(lambda: self._restore(target, self.metastore.latest(), text, author))

    def undo(self, version: int, *, message: str = "", author: str = "") -> int:
        """Take back what one version changed, if nothing later touched the same; return the version that does so."""
        if version < 1:
            raise InvalidInputError(f"version {version} cannot be undone: the first one that can is 1")
        text = message or f"undo version {version}"
        return self._repeated(lambda: self._undone(version, text, author))

    def _undone(self, version: int, message: str, author: str) -> int:
        before, after = self.metastore.at_version(version - 1), self.metastore.at_version(version)
        newest = self.metastore.latest()
        changed = taken_back(differences_of(self.metastore, before, after))
        check_undoable(changed, differences_of(self.metastore, after, newest), version)
        if before.settings != after.settings:
            raise InvalidInputError(
                f"version {version} changed the lakehouse's own settings, which undo leaves alone: set them again"
            )
        changes = replace(restoring(changed, self.effects.new_id(), message), author=author)
        return self.metastore.commit(newest, changes, Isolation.SNAPSHOT).snapshot.version

    def _restore(self, target: Snapshot, newest: Snapshot, message: str, author: str) -> int:
        found = differences_of(self.metastore, target, newest)
        changes = replace(restoring(found, self.effects.new_id(), message), author=author)
        return self.metastore.commit(newest, changes, Isolation.SNAPSHOT).snapshot.version

    def _repeated(self, attempt: Callable[[], int]) -> int:
        """Return what the attempt gives, and try again on the newest version where a rival was faster."""
        for tries_left in reversed(range(_ATTEMPTS)):
            newest = self.metastore.latest().version
            try:
                return attempt()
            except ConflictError:
                if not tries_left or self.metastore.latest().version == newest:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def alter(
        self, put: Mapping[str, str] = NO_PROPERTIES, remove: tuple[str, ...] = (), **settings: int
    ) -> LakehouseSettings:
        """Put or remove properties of the lakehouse itself, or set how long its versions are kept."""
        return self.run(
            lambda transaction: transaction.alter_settings(put, remove, **settings), message="alter lakehouse"
        )


def _isolation(given: Isolation | str) -> Isolation:
    try:
        return Isolation(given.lower()) if isinstance(given, str) else Isolation(given)
    except ValueError:
        raise InvalidInputError(
            f"{given!r} is no level of isolation: use one of {', '.join(one.value for one in Isolation)}"
        ) from None
