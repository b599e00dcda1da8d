"""The lakehouse: its newest version as a catalog, its transactions, its history."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final, TypeVar, Unpack, cast

from mangrove.effects import Effects
from mangrove.errors import ConflictError, InvalidInputError
from mangrove.lakehouse.arguments import checked_count, checked_limit, checked_texts
from mangrove.lakehouse.catalog import Catalog
from mangrove.lakehouse.converting import ConvertOptions, convert_lake, other_layout
from mangrove.lakehouse.diff import Diff, summarised
from mangrove.lakehouse.handles import CatalogClient
from mangrove.lakehouse.layouts import LaidOut
from mangrove.lakehouse.moments import NEITHER, NamedMoment, TimeMoment, VersionMoment, millis_of_duration, parse_moment
from mangrove.lakehouse.once import run_once, transaction_once
from mangrove.lakehouse.past import PastLakehouse
from mangrove.lakehouse.row_engines import Engines
from mangrove.lakehouse.shared import SharedLakeTransaction
from mangrove.lakehouse.sql_running import rows_of_sql
from mangrove.lakehouse.taking_back import TakingBack
from mangrove.lakehouse.transactions import LakeTransaction
from mangrove.lakehouse.upkeep_engines import UpkeepEngines
from mangrove.maintenance.check import CheckReport, check
from mangrove.maintenance.convert import ConvertReport
from mangrove.maintenance.expiry import ExpiryReport, expire
from mangrove.maintenance.export import ExportMode, ExportReport, drop_export, export
from mangrove.maintenance.exported import Export, export_named, exports_of
from mangrove.maintenance.maintained import Maintained
from mangrove.maintenance.progress import Watch, unwatched
from mangrove.maintenance.vacuum import VacuumReport, vacuum
from mangrove.metastore import Isolation, Snapshot, Upkeep
from mangrove.model.objects import SharedTransaction
from mangrove.model.properties import NO_PROPERTIES, Properties
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.opening import open_store
from mangrove.transaction.batches import QueryBatch, forget_query, query_batches
from mangrove.transaction.comparing import RollsBack, differences_of
from mangrove.transaction.grouping import GroupedCommits
from mangrove.transaction.history import HistoryLine, line_of
from mangrove.transaction.names import table_names
from mangrove.transaction.shared import SharedTransactions
from mangrove.transaction.shared_form import SharedWork
from mangrove.transaction.transaction import Transaction

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
        self._shared = SharedTransactions(effects, laid_out.metastore)
        self._taking_back = TakingBack(effects, laid_out.metastore)
        self._commits = GroupedCommits(laid_out.metastore, effects.new_id)
        self.clients = clients
        self._engines_on = engines
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
        return LakeTransaction(core, self.effects.new_id, self.clients, self.engines, self)

    def spark(self, *, jars: bool = False) -> Any:
        """Return the Spark session in which its rows are read and written: the one that is there, or a new one.

        With `jars`, a new one brings Hadoop's classes for the bucket from Maven Central.
        """
        if self.engines is None:
            raise InvalidInputError(f"{self.uri} was opened without engines: use mangrove.open or mangrove.create")
        return self.engines.spark(jars=jars).session

    def sql(self, text: str, arguments: Mapping[str, Any] | Sequence[Any] | None = None) -> Any:
        """Run SQL, with arguments for `:name` or `?`, and return the rows of its last statement as Spark's."""
        return rows_of_sql(self.engines, self, None, text, arguments)

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
        checked_count(attempts, "the number of attempts", 1)
        if not callable(work):
            raise InvalidInputError(f"{work!r} cannot be run in a transaction: give a function that takes one")
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

    def transaction_once(
        self, query: str, batch_id: int, isolation: Isolation | str = Isolation.SNAPSHOT
    ) -> AbstractContextManager[LakeTransaction | None]:
        """Begin a transaction for a batch of a stream, in a `with` block that gets None if the batch is committed.

        The number of the batch is committed together with what the block does, so a
        batch that comes again after a crash changes nothing. `query` is a name of your
        own that goes with one checkpoint: a new checkpoint counts from 0 again.
        """
        return transaction_once(self, query, batch_id, isolation)

    def run_once(
        self,
        query: str,
        batch_id: int,
        work: Callable[[LakeTransaction], object],
        isolation: Isolation | str = Isolation.SNAPSHOT,
    ) -> bool:
        """Commit what `work` does for a batch of a stream, unless that is committed; return whether it was needed.

        As with `run`, `work` is repeated where a rival was faster.
        """
        return run_once(self, query, batch_id, work, isolation)

    def queries(self) -> list[QueryBatch]:
        """Return the last batch of every stream that was written once for each batch."""
        return list(query_batches(self.metastore.latest()))

    def forget_query(self, query: str) -> bool:
        """Forget which batches of a stream were committed, once it will never run again."""
        return self.run(
            lambda transaction: forget_query(transaction.reading(), query), message=f"forget the query {query}"
        )

    def begin_shared(
        self,
        name: str,
        ttl: str | timedelta = "1d",
        isolation: Isolation | str = Isolation.SNAPSHOT,
        *,
        message: str = "",
        author: str = "",
        properties: Mapping[str, str] = NO_PROPERTIES,
    ) -> SharedLakeTransaction:
        """Begin a transaction that other processes join by its name, and that lives until `ttl` has passed."""
        work = SharedWork(
            self.effects.new_id(), _isolation(isolation), message or f"publish {name}", author, Properties(properties)
        )
        return self._participant(self._shared.begin(name, work, millis_of_duration(ttl)))

    def join_shared(self, name: str) -> SharedLakeTransaction:
        """Take part in a shared transaction, as it was last saved."""
        return self._participant(self._shared.join(name))

    def shared_transactions(self) -> list[str]:
        """Return the names of the shared transactions that can be joined."""
        return [shared.name for shared in self._shared.listed()]

    def _participant(self, value: SharedTransaction) -> SharedLakeTransaction:
        base = self.metastore.at_version(value.base_version)
        return SharedLakeTransaction(self._shared, value, base, self.effects.new_id, self.clients, self.engines)

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
                return self.metastore.at_version(export_named(self.settings, name, NEITHER).version)

    def history(self, *, before: int | None = None, limit: int | None = None) -> Iterator[HistoryLine]:
        """Yield the versions that are kept, newest first: those before a version, so many."""
        wanted = checked_limit(limit)
        following = None if before is None else checked_count(before, "a version")
        return (line_of(commit) for commit in islice(self.metastore.history(before=following), wanted))

    def diff(self, before: int | str | datetime, after: int | str | datetime | None = None) -> Diff:
        """Return what changed between two moments; without the second, until now."""
        was = self.snapshot_at(before)
        now = self.metastore.latest() if after is None else self.snapshot_at(after)
        found = differences_of(self.metastore, was, now)
        return Diff(was.version, now.version, summarised(found, lambda wanted: table_names(wanted, now, was)))

    def rollback(self, to: int | str | datetime, *, message: str = "", author: str = "") -> int:
        """Commit what an earlier version holds, unless it is the newest; what lies between stays in the history."""
        began_at_millis = self.effects.now_millis()
        return self._taking_back.roll_back(self.snapshot_at(to), began_at_millis, message, author)

    def undo(self, version: int, *, message: str = "", author: str = "") -> int:
        """Take back what one version changed, if nothing later touched the same; return the version that does so."""
        return self._taking_back.undo(checked_count(version, "the version to undo"), message, author)

    def maintained(self) -> Maintained:
        """Return it as maintenance takes it, or say that its layout cannot do that."""
        if not isinstance(self.metastore, RollsBack):
            raise InvalidInputError(
                f"{self.uri} is in the {self.layout} layout, which this release reads and commits but does not maintain"
            )
        return Maintained(self.effects, self.metastore, cast(Upkeep, self.metastore))

    def export(
        self,
        destination: str | os.PathLike[str],
        name: str,
        mode: ExportMode | str = ExportMode.FULL,
        *,
        version: int | None = None,
        tables: Sequence[str] = (),
        keep: bool = True,
        storage_options: Mapping[str, str] | None = None,
        engine: str | None = None,
        watch: Watch = unwatched,
    ) -> ExportReport:
        """Copy a version to another place, where it opens as a lakehouse of its own, and keep it under a name.

        Without `keep` the lakehouse itself is only read, and does not know the name.

        `engine` is "local" or "spark", whose executors copy; without it much goes to Spark.
        """
        if mode not in (*ExportMode, *(one.value for one in ExportMode)):
            raise InvalidInputError(f"{mode!r} is no mode of exports: use {', '.join(one.value for one in ExportMode)}")
        tables = checked_texts(tables, "the tables to copy")
        if version is not None:
            checked_count(version, "the version to copy")
        return export(
            self.maintained(),
            open_store(destination, storage_options),
            name,
            version=version,
            mode=ExportMode(mode),
            tables=tables,
            keep=keep,
            copier=UpkeepEngines(self.engines, engine, storage_options).copy_files,
            watch=watch,
        )

    def exports(self) -> list[Export]:
        """Return the exports, in order of their names."""
        return exports_of(self.settings)

    def drop_export(self, name: str) -> Export:
        """Forget an export's name, so that its version may expire; the copy stays."""
        return drop_export(self.maintained(), name)

    def convert(
        self,
        destination: str | os.PathLike[str],
        layout: str | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
        engine: str | None = None,
        **options: Unpack[ConvertOptions],
    ) -> ConvertReport:
        """Tell it again in another layout (the other one unless said), in another place; called again, it goes on."""
        wanted = other_layout(self.layout) if layout is None else layout
        store = open_store(destination, storage_options)
        engines = UpkeepEngines(self.engines, engine, storage_options)
        return convert_lake(self.maintained(), store, wanted, engines, **options)

    def expire(self, *, dry_run: bool = False, alone: bool = False, watch: Watch = unwatched) -> ExpiryReport:
        """Forget the versions that the settings no longer keep.

        Those that became outdated within the time limit of a transaction stay, unless
        you promise to be `alone`: that nobody else reads or writes meanwhile.
        """
        return expire(self.maintained(), dry_run=dry_run, alone=alone, watch=watch)

    def vacuum(
        self,
        *,
        dry_run: bool = False,
        grace: str | timedelta | None = None,
        alone: bool = False,
        engine: str | None = None,
        watch: Watch = unwatched,
    ) -> VacuumReport:
        """Delete what no version that is kept needs, and what transactions that never committed left behind.

        What is younger than the grace time (a day) stays, unless you promise to be
        `alone`: that nobody else writes meanwhile. `engine` is "local" or "spark", whose
        executors delete; without it much goes to Spark.
        """
        grace_millis = None if grace is None else millis_of_duration(grace)
        deleter = UpkeepEngines(self.engines, engine).delete_files
        return vacuum(
            self.maintained(), dry_run=dry_run, grace_millis=grace_millis, alone=alone, deleter=deleter, watch=watch
        )

    def check(
        self, *, sample: int | None = None, repair: bool = False, engine: str | None = None, watch: Watch = unwatched
    ) -> CheckReport:
        """Look at everything that the versions reach, or a sample of the versions, and tell what breaks a rule.

        Data files are read from end to end and their rows counted. `engine` is "local" or
        "spark", whose executors count; without it much goes to Spark.
        """
        if sample is not None:
            checked_count(sample, "the number of versions to look at", 1)
        count_rows = UpkeepEngines(self.engines, engine).count_rows
        return check(self.maintained(), sample=sample, count_rows=count_rows, repair=repair, watch=watch)

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
