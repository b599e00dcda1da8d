"""The lakehouse API for reads, transactions, time travel and history."""

from __future__ import annotations

import logging
import threading
import weakref
from contextlib import suppress
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mangrove.effects import Effects, build_effects
from mangrove.errors import (
    AccessDeniedError,
    ConflictError,
    InvalidInputError,
    MangroveError,
    NotFoundError,
    StorageError,
)
from mangrove.lakehouse.access import AccessControl
from mangrove.lakehouse.arguments import validate_count, validate_limit, validate_texts
from mangrove.lakehouse.catalog import ReadableCatalog, WritableCatalog
from mangrove.lakehouse.diff import Diff, build_diff
from mangrove.lakehouse.engine_port import run_sql
from mangrove.lakehouse.layout_detection import OpenedLayout, open_layout
from mangrove.lakehouse.listing import SHOWN_MAX, Listing, render_html
from mangrove.lakehouse.maintenance import Maintenance
from mangrove.lakehouse.namespace import Namespace
from mangrove.lakehouse.rollback import LakeRollback
from mangrove.lakehouse.shared_transaction import SharedTransaction
from mangrove.lakehouse.snapshot import Snapshot
from mangrove.lakehouse.store_resolution import resolve_store
from mangrove.lakehouse.table import Table, maintain_table
from mangrove.lakehouse.table_snapshot import HISTORY_COLUMNS
from mangrove.lakehouse.time_travel import load_snapshot_at, parse_duration_millis
from mangrove.lakehouse.transaction import Transaction, begin_idempotent, run_idempotent
from mangrove.lakehouse.view import View
from mangrove.maintenance.export import pin_version
from mangrove.metastore import Isolation, MetastoreSnapshot
from mangrove.model.access import Privilege
from mangrove.model.properties import NO_PROPERTIES, Properties
from mangrove.model.settings import time_limit_millis
from mangrove.storage.opening import open_store
from mangrove.transaction.authorization import AuthorizedCommitter, AuthorizedMetastore, check_lakehouse
from mangrove.transaction.catalog import find_namespace
from mangrove.transaction.group_commit import CommitTarget, GroupCommitter
from mangrove.transaction.history import HistoryEntry, history_entry_of
from mangrove.transaction.idempotency import QueryBatch, forget_query, list_query_batches
from mangrove.transaction.machine_group_commit import MachineGroupCommitter
from mangrove.transaction.process_group_commit import ProcessGroupCommitter
from mangrove.transaction.shared_transactions import SharedTransactions, SharedWork
from mangrove.transaction.transaction import StagedTransaction

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from contextlib import AbstractContextManager
    from datetime import datetime, timedelta

    from pyspark.sql import DataFrame, SparkSession

    from mangrove.effects import Effects
    from mangrove.lakehouse.engine_port import Engines
    from mangrove.lakehouse.sql_port import Arguments, QueryResult
    from mangrove.lakehouse.table_snapshot import CatalogClient
    from mangrove.maintenance.export_records import Export
    from mangrove.metastore import RowRange
    from mangrove.model.access import Rights
    from mangrove.model.locators import PartitionLocator, TableLocator
    from mangrove.model.objects import SharedTransactionEntry
    from mangrove.model.settings import LakehouseSettings
    from mangrove.transaction.catalog import CatalogReader
    from mangrove.transaction.deltas import OpenTable, TableTarget
    from mangrove.transaction.transaction import Committer

__all__ = ["Lakehouse", "reopen_lakehouse"]

T = TypeVar("T")
_LOGGER: Final = logging.getLogger(__name__)
_ATTEMPTS: Final = 10
_PAUSE_SECONDS_MAX: Final = 1.0
_FRESH_MILLIS: Final = 10_000
"""How long ago the version in memory was the newest, at most, if a blind statement begins on it."""


class Lakehouse(WritableCatalog, ReadableCatalog[Namespace, Table, View]):
    """A lakehouse at a URI. Each statement on it is a separate transaction. Instances are thread-safe."""

    def __init__(
        self,
        effects: Effects,
        laid_out: OpenedLayout,
        clients: Mapping[str, CatalogClient],
        engines: Callable[[Effects], Engines] | None = None,
        storage_options: Mapping[str, str] | None = None,
        owner: Lakehouse | None = None,
    ) -> None:
        """`owner` is the lakehouse without restrictions, if the metastore is that of a principal."""
        self.effects = effects
        self._new_id = effects.new_id
        self.layout = laid_out.layout
        self.metastore = laid_out.metastore
        self._rollbacks = LakeRollback(effects, laid_out.metastore)
        self._owner = owner or self
        self._commits: Committer
        if owner is not None and isinstance(laid_out.metastore, AuthorizedMetastore):
            self._commits = AuthorizedCommitter(laid_out.metastore, owner._commits)
        else:
            target: CommitTarget = ProcessGroupCommitter(effects, laid_out.metastore)
            if effects.queue is not None:
                target = MachineGroupCommitter(effects, effects.queue, laid_out.metastore, target)
            self._commits = GroupCommitter(target, effects.new_id, effects.now_millis, self._have_rows_changed)
        self._maintaining = threading.Lock()
        self.clients = clients
        self.storage_options = storage_options
        self._engines_on = engines
        self.engines = None if engines is None else engines(effects)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments with which the lakehouse was opened, without the cache.

        The pickle contains the storage options, including their secrets. It does not contain
        credentials from the environment or a profile.
        """
        if self.uri.startswith("memory:"):
            raise InvalidInputError(
                f"{self.uri} is in the memory of this process and cannot be pickled: no other process can open it; "
                "make the lakehouse in a folder or a bucket"
            )
        if self._owner is not self:
            raise InvalidInputError(
                "a lakehouse with the rights of a principal cannot be pickled: pickle the lakehouse"
            )
        options = None if self.storage_options is None else dict(self.storage_options)
        tolerance_millis = self.effects.clock_tolerance_millis
        return reopen_lakehouse, (self.uri, options, dict(self.clients), self._engines_on, tolerance_millis)

    def __repr__(self) -> str:
        return f"<lakehouse {self.uri} in the {self.layout} layout>"

    def _repr_html_(self) -> str:
        rows = [(one.name, one.description) for one in self.namespaces(limit=SHOWN_MAX)]
        note = f"{self.layout} layout, version {self.version}"
        return render_html(f"lakehouse {self.uri}", ("namespace", "description"), rows, note=note)

    @property
    def uri(self) -> str:
        """URI of the lakehouse, ending in one `/`."""
        return self.effects.store.uri

    @property
    def settings(self) -> LakehouseSettings:
        """Settings of the lakehouse: sizes, retention, properties, exports."""
        return self.metastore.latest().settings

    @property
    def maintenance(self) -> Maintenance:
        """Compaction, expiry, vacuum, checks, exports and conversion; a principal needs MANAGE on the lakehouse."""
        self._check_privilege(Privilege.MANAGE)
        return Maintenance(self._owner)

    @property
    def access(self) -> AccessControl:
        """Principals, roles and grants, for the clients of a server."""
        rights = self.metastore.rights if isinstance(self.metastore, AuthorizedMetastore) else None
        return AccessControl(self._owner, rights)

    @property
    def principal(self) -> str | None:
        """Name of the principal whose rights this lakehouse has; None if there are no restrictions."""
        return self.metastore.rights.principal if isinstance(self.metastore, AuthorizedMetastore) else None

    def _check_privilege(self, privilege: Privilege) -> None:
        """Raise AccessDeniedError if this is the lakehouse of a principal without a privilege on all of it."""
        if isinstance(self.metastore, AuthorizedMetastore):
            check_lakehouse(self.metastore.load_rights(), privilege)

    def privilege_on(self, locator: TableLocator | None = None) -> Privilege:
        """Return the privilege on a table, or on all of the lakehouse: MANAGE unless it is that of a principal."""
        if isinstance(self.metastore, AuthorizedMetastore):
            return self.metastore.privilege_on(locator)
        return Privilege.MANAGE

    def _check_write_privilege(self, reading: CatalogReader, opened: OpenTable) -> None:
        """Raise AccessDeniedError if this is the lakehouse of a principal that may not write to the table."""
        if isinstance(self.metastore, AuthorizedMetastore):
            namespace_id = find_namespace(reading, opened.locator.parent)[1].id
            if self.metastore.load_rights().on_object(namespace_id, opened.table.id) < Privilege.WRITE:
                raise AccessDeniedError(
                    f"principal {self.principal} lacks the privilege write on table {opened.locator}"
                )

    def as_principal(self, name: str) -> Lakehouse:
        """Return the lakehouse as a principal may use it: what it may not read does not exist for it.

        The rights for reads are those of now; each commit uses those of the newest version. This object gives no
        protection from the code of the same process, which can use the store.
        """
        rules = self.access.rules()
        rules.principal(name)
        return self._restrict(rules.rights_of(name))

    def _restrict(self, rights: Rights) -> Lakehouse:
        """Return the lakehouse with the rights of a principal."""
        laid_out = OpenedLayout(self.uri, self.layout, AuthorizedMetastore(self._owner.metastore, rights))
        return Lakehouse(self.effects, laid_out, self.clients, self._engines_on, self.storage_options, self._owner)

    @property
    def version(self) -> int:
        """Number of the newest version."""
        return self.metastore.latest().version

    def _reading(self) -> MetastoreSnapshot:
        """Return the newest version."""
        return self.metastore.latest()

    def _change(self, statement: Callable[[StagedTransaction], T], message: str = "", *, is_blind: bool = False) -> T:
        """Commit one statement as a transaction, and retry it after a conflict.

        The retry is safe because the statement read nothing before it began: a retry is
        equivalent to a statement that started later. A blind statement begins on the version in
        memory, which saves a request. That is equivalent to the newest version, because
        everything that it read is validated: a serializable transaction is, and its changes
        become the next version. A statement that fails or changes nothing is no commit, so it
        is repeated on the newest version.
        """
        known = self.metastore.latest_since(self.effects.now_millis() - _FRESH_MILLIS) if is_blind else None
        limit_millis = 0 if known is None else time_limit_millis(known.settings) - _FRESH_MILLIS
        if known is not None and limit_millis > 0:
            transaction = self._begin(known, Isolation.SERIALIZABLE, message=message, limit_millis=limit_millis)
            try:
                with transaction:
                    result = statement(transaction.core)
                    is_change = not transaction._reading().is_empty
                if is_change:
                    return result
            except StorageError:
                raise
            except MangroveError:
                pass  # the newest version decides
        return self.run(lambda transaction: statement(transaction.core), message=message)

    def _schedule_maintenance(self, target: TableTarget) -> None:
        """Run the maintenance of a table at once, unless another thread or process of this machine runs one.

        The two would conflict, after each has read and written the same rows.

        The preceding write is already committed. An error raised here would make callers
        repeat their write and duplicate rows, so errors are only logged.
        """
        queue = self.effects.queue
        if not self._maintaining.acquire(blocking=False):
            return
        try:
            now_millis = self.effects.now_millis()
            if queue is not None and not queue.try_lock_maintenance(now_millis):
                return
            try:
                recent = self.metastore.latest_since(now_millis - _FRESH_MILLIS)
                maintain_table(self, target, recent or self.metastore.latest())
            finally:
                if queue is not None:
                    queue.unlock_maintenance()
        except (ConflictError, NotFoundError):
            return  # a concurrent commit, or a transaction that drops a table to which it wrote
        except Exception as error:
            is_known = isinstance(error, MangroveError)
            text = "rows were written to %s, and it could not compact itself: %s"
            with suppress(Exception):  # of a handler
                _LOGGER.warning(text, target, error, exc_info=not is_known)
        finally:
            self._maintaining.release()

    def transaction(
        self,
        isolation: Isolation | str = Isolation.SNAPSHOT,
        *,
        message: str = "",
        author: str = "",
        properties: Mapping[str, str] = NO_PROPERTIES,
        time_limit: str | timedelta | None = None,
    ) -> Transaction:
        """Begin a transaction on the newest version, for use in a `with` block.

        `message`, `author` and `properties` are recorded in the history.
        """
        return self._begin(
            self.metastore.latest(),
            _isolation(isolation),
            message=message,
            author=author,
            properties=properties,
            limit_millis=None if time_limit is None else parse_duration_millis(time_limit),
        )

    def _begin(self, snapshot: MetastoreSnapshot, isolation: Isolation, **options: Any) -> Transaction:
        core = StagedTransaction(
            self._commits, snapshot, self.effects.new_id(), self.effects.now_millis, isolation, **options
        )
        return Transaction(core, self.effects.new_id, self.clients, self.engines, self)

    def spark(self, *, jars: bool = False) -> SparkSession:
        """Return the Spark session that reads and writes rows: the active one, or a new one.

        With `jars`, a new session loads Hadoop's classes for the bucket from Maven Central.
        The tables of the lakehouse are not registered in Spark's own catalog; a note on
        Spark's error about an unknown name explains what to write instead.
        """
        if self.engines is None:
            raise InvalidInputError(f"{self.uri} was opened without engines: use mangrove.open or mangrove.create")
        engine = self.engines.spark(jars=jars)
        # The session lives longer than the lakehouse may.
        known = weakref.ref(self)
        engine.add_catalog_hints(lambda: _namespaces_of(known()))
        return engine.session

    def _run_sql(self, text: str, arguments: Arguments, engine: str | None) -> QueryResult | DataFrame:
        return run_sql(self.engines, self, None, text, arguments, engine)

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
        """Run `work` in a transaction and commit it; after a conflict, run it again from the start.

        `work` may run several times, each time on a newer version, so it should have no
        effects outside its transaction.
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
        """Begin an idempotent transaction for a batch of a stream; the `with` block gets None for a committed batch.

        The batch number is committed together with the changes of the block, so a batch
        that is repeated after a crash changes nothing. `query` is a name that you choose for
        one checkpoint: a new checkpoint starts again at batch 0 and needs a new name.
        """
        return begin_idempotent(self, query, batch_id, isolation)

    def run_once(
        self,
        query: str,
        batch_id: int,
        work: Callable[[Transaction], object],
        isolation: Isolation | str = Isolation.SNAPSHOT,
    ) -> bool:
        """Commit `work` for a batch of a stream unless the batch is already committed; return whether it was needed.

        As with `run`, `work` is repeated after a conflict.
        """
        return run_idempotent(self, query, batch_id, work, isolation)

    def queries(self) -> list[QueryBatch]:
        """Return the last committed batch of every stream that uses idempotent transactions."""
        return list(list_query_batches(self.metastore.latest()))

    def forget_query(self, query: str) -> bool:
        """Delete the record of the last committed batch of a stream that will never run again."""
        return self.run(
            lambda transaction: forget_query(transaction._reading(), query), message=f"forget the query {query}"
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
        """Return whether rows of a range differ between two versions; without engines, every new delta is a change."""
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
        """Begin a shared transaction, which other processes join by name; it expires after `ttl`."""
        work = SharedWork(
            self.effects.new_id(), _isolation(isolation), message or f"publish {name}", author, Properties(properties)
        )
        return self._participant(self._shared.begin(name, work, parse_duration_millis(ttl)))

    def join_shared(self, name: str) -> SharedTransaction:
        """Join a shared transaction in its last saved state."""
        return self._participant(self._shared.join(name))

    def shared_transactions(self) -> list[str]:
        """Return the names of the shared transactions that can be joined."""
        return [shared.name for shared in self._shared.listed()]

    def _participant(self, value: SharedTransactionEntry) -> SharedTransaction:
        base = self.metastore.at_version(value.base_version)
        return SharedTransaction(self._shared, value, base, self.effects.new_id, self.clients, self.engines, self)

    def at(self, where: int | str | datetime) -> Snapshot:
        """Return the lakehouse as of a version, a time (without a zone: UTC) or the name of an export."""
        return Snapshot(self._snapshot_at(where), self.clients, self.engines, self)

    def _snapshot_at(self, where: int | str | datetime) -> MetastoreSnapshot:
        """Return the version that `where` selects."""
        return load_snapshot_at(self.metastore, where)

    def history(self, *, before: int | None = None, limit: int | None = None) -> Listing[HistoryEntry]:
        """Return at most `limit` retained versions, newest first, starting before the version `before`.

        A version is read when it is first used, so `lake.history()[0]` reads one.
        """
        following = None if before is None else validate_count(before, "a version")
        commits = islice(self.metastore.history(before=following), validate_limit(limit))
        return Listing(map(history_entry_of, commits), HISTORY_COLUMNS)

    def diff(self, before: int | str | datetime, after: int | str | datetime | None = None) -> Diff:
        """Return the changes between two versions or points in time; by default until the newest version."""
        was = self._snapshot_at(before)
        now = self.metastore.latest() if after is None else self._snapshot_at(after)
        return build_diff(self.metastore, was, now)

    def rollback(self, to: int | str | datetime, *, message: str = "", author: str = "") -> int:
        """Commit the content of an earlier version, unless it is the newest; later versions stay in the history."""
        began_at_millis = self.effects.now_millis()
        return self._rollbacks.roll_back(self._snapshot_at(to), began_at_millis, message, author)

    def undo(self, version: int, *, message: str = "", author: str = "") -> int:
        """Revert the changes of one version if nothing later changed the same objects; return the new version."""
        return self._rollbacks.undo(validate_count(version, "the version to undo"), message, author)

    def tag(self, name: str, at: int | str | datetime | None = None) -> Export:
        """Give a version a name for `at`, by default the newest version; a named version does not expire.

        A name is never moved: drop it first to give it to another version. Exports name their
        versions in the same way.

        >>> lake.tag("before-migration")  # doctest: +SKIP
        """
        version = None if at is None else self._snapshot_at(at).version
        return pin_version(self.maintenance.context(), name, version)

    def tags(self) -> list[Export]:
        """Return the names of versions, including those of exports, in order."""
        return self.maintenance.exports()

    def drop_tag(self, name: str) -> Export:
        """Remove a name, so that its version may expire."""
        return self.maintenance.drop_export(name)

    def alter(
        self, put: Mapping[str, str] = NO_PROPERTIES, remove: Iterable[str] | None = (), **settings: int
    ) -> LakehouseSettings:
        """Set or remove properties of the lakehouse, or change the retention of its versions."""
        gone = validate_texts(remove, "the properties to remove")
        return self.run(
            lambda transaction: transaction.alter_settings(put, gone, **settings), message="alter lakehouse"
        )


def _namespaces_of(lake: Lakehouse | None) -> frozenset[str]:
    """Return the names of the namespaces, or none if the lakehouse has been garbage-collected."""
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
    """Reopen a lakehouse in another process; pickles of lakehouses refer to this function by name."""
    store = resolve_store(uri, lambda place: open_store(place, storage_options))
    effects = build_effects(store, clock_tolerance_millis)
    return Lakehouse(effects, open_layout(effects), clients, engines, storage_options)
