"""The lakehouse API for reads, transactions, time travel and history."""

from __future__ import annotations

import weakref
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mangrove.effects import Effects, build_effects
from mangrove.errors import ConflictError, InvalidInputError
from mangrove.lakehouse.arguments import validate_count, validate_limit, validate_texts
from mangrove.lakehouse.catalog import ReadableCatalog, WritableCatalog
from mangrove.lakehouse.diff import Diff, build_diff
from mangrove.lakehouse.engine_port import run_sql
from mangrove.lakehouse.layouts import open_layout
from mangrove.lakehouse.maintenance import Maintenance
from mangrove.lakehouse.namespace import Namespace
from mangrove.lakehouse.rollback import LakeRollback
from mangrove.lakehouse.shared_transaction import SharedTransaction
from mangrove.lakehouse.snapshot import Snapshot
from mangrove.lakehouse.store_resolution import resolve_store
from mangrove.lakehouse.table import Table
from mangrove.lakehouse.time_travel import load_snapshot_at, parse_duration_millis
from mangrove.lakehouse.transaction import Transaction, begin_idempotent, run_idempotent
from mangrove.lakehouse.view import View
from mangrove.metastore import Isolation, MetastoreSnapshot
from mangrove.model.properties import NO_PROPERTIES, Properties
from mangrove.storage.opening import open_store
from mangrove.transaction.group_commit import GroupCommitter
from mangrove.transaction.history import HistoryEntry, history_entry_of
from mangrove.transaction.idempotency import QueryBatch, forget_query, list_query_batches
from mangrove.transaction.shared import SharedTransactions, SharedWork
from mangrove.transaction.transaction import StagedTransaction

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime, timedelta

    from mangrove.effects import Effects
    from mangrove.lakehouse.engine_port import Engines
    from mangrove.lakehouse.layouts import OpenedLayout
    from mangrove.lakehouse.table_snapshot import CatalogClient
    from mangrove.metastore import RowRange
    from mangrove.model.locators import PartitionLocator
    from mangrove.model.objects import SharedTransactionEntry
    from mangrove.model.settings import LakehouseSettings
    from mangrove.transaction.catalog import CatalogReader

__all__ = ["Lakehouse", "reopen_lakehouse"]

T = TypeVar("T")
_ATTEMPTS: Final = 10
_PAUSE_SECONDS_MAX: Final = 1.0


class Lakehouse(WritableCatalog, ReadableCatalog[Namespace, Table, View]):
    """A lakehouse at a URI; threads may share it. Each statement on it is a transaction of its own."""

    def __init__(
        self,
        effects: Effects,
        laid_out: OpenedLayout,
        clients: Mapping[str, CatalogClient],
        engines: Callable[[Effects], Engines] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self.effects = effects
        self.layout = laid_out.layout
        self.metastore = laid_out.metastore
        self._rollbacks = LakeRollback(effects, laid_out.metastore)
        self._commits = GroupCommitter(laid_out.metastore, effects.new_id, self._have_rows_changed)
        self.clients = clients
        self.storage_options = storage_options
        self._engines_on = engines
        self.engines = None if engines is None else engines(effects)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle how it is opened: another process opens it again by its URI, without the cache.

        The storage options are part of it, with the secrets that they hold. What came
        from the environment or a profile is not.
        """
        if self.uri.startswith("memory:"):
            raise InvalidInputError(
                f"{self.uri} lies in the memory of this process and cannot be pickled: no other process can open it; "
                "make the lakehouse in a folder or a bucket"
            )
        options = None if self.storage_options is None else dict(self.storage_options)
        tolerance_millis = self.effects.clock_tolerance_millis
        return reopen_lakehouse, (self.uri, options, dict(self.clients), self._engines_on, tolerance_millis)

    def __repr__(self) -> str:
        return f"<lakehouse {self.uri} in the {self.layout} layout>"

    @property
    def uri(self) -> str:
        """Where it is stored, ending in one `/`."""
        return self.effects.store.uri

    @property
    def settings(self) -> LakehouseSettings:
        """Its own definition: sizes, retention, properties, exports."""
        return self.metastore.latest().settings

    @cached_property
    def maintenance(self) -> Maintenance:
        """Compaction, expiry, vacuum, checks, exports and conversion."""
        return Maintenance(self)

    @property
    def version(self) -> int:
        """The number of the newest version."""
        return self.metastore.latest().version

    def reading(self) -> MetastoreSnapshot:
        """Return the newest version."""
        return self.metastore.latest()

    def change(self, statement: Callable[[StagedTransaction], T], message: str = "") -> T:
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
    ) -> Transaction:
        """Begin a transaction on the newest version, to be used in a `with` block.

        `message`, `author` and `properties` are for the history.
        """
        core = StagedTransaction(
            self._commits,
            self.metastore.latest(),
            self.effects.new_id(),
            self.effects.now_millis,
            _isolation(isolation),
            message=message,
            author=author,
            properties=properties,
            limit_millis=None if time_limit is None else parse_duration_millis(time_limit),
        )
        return Transaction(core, self.effects.new_id, self.clients, self.engines, self)

    def spark(self, *, jars: bool = False) -> Any:
        """Return the Spark session in which its rows are read and written: the one that is there, or a new one.

        With `jars`, a new one brings Hadoop's classes for the bucket from Maven Central.
        Spark's own catalog does not know the lakehouse's tables; where Spark says so in an
        error, a note on it says what to write instead.
        """
        if self.engines is None:
            raise InvalidInputError(f"{self.uri} was opened without engines: use mangrove.open or mangrove.create")
        engine = self.engines.spark(jars=jars)
        # The session lives longer than the lakehouse may.
        known = weakref.ref(self)
        engine.add_catalog_hints(lambda: _namespaces_of(known()))
        return engine.session

    def sql(self, text: str, arguments: Mapping[str, Any] | Sequence[Any] | None = None) -> Any:
        """Run SQL, with arguments for `:name` or `?`, and return the rows of its last statement as Spark's."""
        return run_sql(self.engines, self, None, text, arguments)

    def run(
        self,
        work: Callable[[Transaction], T],
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
        validate_count(attempts, "the number of attempts", 1)
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
    ) -> AbstractContextManager[Transaction | None]:
        """Begin a transaction for a batch of a stream, in a `with` block that gets None if the batch is committed.

        The number of the batch is committed together with what the block does, so a
        batch that comes again after a crash changes nothing. `query` is a name of your
        own that goes with one checkpoint: a new checkpoint counts from 0 again.
        """
        return begin_idempotent(self, query, batch_id, isolation)

    def run_once(
        self,
        query: str,
        batch_id: int,
        work: Callable[[Transaction], object],
        isolation: Isolation | str = Isolation.SNAPSHOT,
    ) -> bool:
        """Commit what `work` does for a batch of a stream, unless that is committed; return whether it was needed.

        As with `run`, `work` is repeated where a rival was faster.
        """
        return run_idempotent(self, query, batch_id, work, isolation)

    def queries(self) -> list[QueryBatch]:
        """Return the last batch of every stream that was written once for each batch."""
        return list(list_query_batches(self.metastore.latest()))

    def forget_query(self, query: str) -> bool:
        """Forget which batches of a stream were committed, once it will never run again."""
        return self.run(
            lambda transaction: forget_query(transaction.reading(), query), message=f"forget the query {query}"
        )

    @cached_property
    def _shared(self) -> SharedTransactions:
        return SharedTransactions(self.effects, self.metastore, self._have_rows_changed)

    def _have_rows_changed(
        self,
        rows: RowRange,
        partitions: Collection[PartitionLocator],
        before: CatalogReader,
        after: CatalogReader,
    ) -> bool:
        """Return whether rows of a range differ between two versions; without engines every new delta counts."""
        return self.engines is None or self.engines.reader().have_rows_changed(rows, partitions, before, after)

    def begin_shared(
        self,
        name: str,
        ttl: str | timedelta = "1d",
        isolation: Isolation | str = Isolation.SNAPSHOT,
        *,
        message: str = "",
        author: str = "",
        properties: Mapping[str, str] = NO_PROPERTIES,
    ) -> SharedTransaction:
        """Begin a transaction that other processes join by its name, and that lives until `ttl` has passed."""
        work = SharedWork(
            self.effects.new_id(), _isolation(isolation), message or f"publish {name}", author, Properties(properties)
        )
        return self._participant(self._shared.begin(name, work, parse_duration_millis(ttl)))

    def join_shared(self, name: str) -> SharedTransaction:
        """Take part in a shared transaction, as it was last saved."""
        return self._participant(self._shared.join(name))

    def shared_transactions(self) -> list[str]:
        """Return the names of the shared transactions that can be joined."""
        return [shared.name for shared in self._shared.listed()]

    def _participant(self, value: SharedTransactionEntry) -> SharedTransaction:
        base = self.metastore.at_version(value.base_version)
        return SharedTransaction(self._shared, value, base, self.effects.new_id, self.clients, self.engines)

    def at(self, where: int | str | datetime) -> Snapshot:
        """Return the lakehouse as of a version, a time (without a zone: UTC) or the name of an export."""
        return Snapshot(self.snapshot_at(where), self.clients, self.engines, self)

    def snapshot_at(self, where: int | str | datetime) -> MetastoreSnapshot:
        """Return the version that `where` selects."""
        return load_snapshot_at(self.metastore, where)

    def history(self, *, before: int | None = None, limit: int | None = None) -> Iterator[HistoryEntry]:
        """Yield the versions that are kept, newest first: those before a version, so many."""
        wanted = validate_limit(limit)
        following = None if before is None else validate_count(before, "a version")
        return (history_entry_of(commit) for commit in islice(self.metastore.history(before=following), wanted))

    def diff(self, before: int | str | datetime, after: int | str | datetime | None = None) -> Diff:
        """Return what changed between two moments; without the second, until now."""
        was = self.snapshot_at(before)
        now = self.metastore.latest() if after is None else self.snapshot_at(after)
        return build_diff(self.metastore, was, now)

    def rollback(self, to: int | str | datetime, *, message: str = "", author: str = "") -> int:
        """Commit what an earlier version holds, unless it is the newest; what lies between stays in the history."""
        began_at_millis = self.effects.now_millis()
        return self._rollbacks.roll_back(self.snapshot_at(to), began_at_millis, message, author)

    def undo(self, version: int, *, message: str = "", author: str = "") -> int:
        """Take back what one version changed, if nothing later touched the same; return the version that does so."""
        return self._rollbacks.undo(validate_count(version, "the version to undo"), message, author)

    def alter(
        self, put: Mapping[str, str] = NO_PROPERTIES, remove: Iterable[str] | None = (), **settings: int
    ) -> LakehouseSettings:
        """Put or remove properties of the lakehouse itself, or set how long its versions are kept."""
        gone = validate_texts(remove, "the properties to remove")
        return self.run(
            lambda transaction: transaction.alter_settings(put, gone, **settings), message="alter lakehouse"
        )


def _namespaces_of(lake: Lakehouse | None) -> frozenset[str]:
    """Return the names of the namespaces, none where the lakehouse is gone."""
    return frozenset() if lake is None else frozenset(namespace.name for namespace in lake.namespaces())


def _isolation(given: Isolation | str) -> Isolation:
    try:
        return Isolation(given.lower()) if isinstance(given, str) else Isolation(given)
    except ValueError:
        raise InvalidInputError(
            f"{given!r} is no level of isolation: use one of {', '.join(one.value for one in Isolation)}"
        ) from None


def reopen_lakehouse(
    uri: str,
    storage_options: Mapping[str, str] | None,
    clients: Mapping[str, CatalogClient],
    engines: Callable[[Effects], Engines] | None,
    clock_tolerance_millis: int | None,
) -> Lakehouse:
    """Open a lakehouse again as it was opened in another process; pickles of lakehouses name this function."""
    store = resolve_store(uri, lambda place: open_store(place, storage_options))
    effects = build_effects(store, clock_tolerance_millis)
    return Lakehouse(effects, open_layout(effects), clients, engines, storage_options)
