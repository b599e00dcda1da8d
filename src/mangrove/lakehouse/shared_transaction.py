"""A named transaction that several processes stage, audit and publish together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self, TypeVar

from mangrove.errors import ConflictError, InvalidInputError, NotFoundError
from mangrove.lakehouse.catalog import ReadableCatalog, WritableCatalog
from mangrove.lakehouse.diff import Diff, ObjectChange, summarize_differences
from mangrove.lakehouse.engine_port import Engines
from mangrove.lakehouse.namespace import Namespace
from mangrove.lakehouse.sql_port import Arguments
from mangrove.lakehouse.table import Table
from mangrove.lakehouse.table_snapshot import CatalogClient
from mangrove.lakehouse.time_travel import parse_duration_millis
from mangrove.lakehouse.transaction import Transaction
from mangrove.lakehouse.view import View
from mangrove.metastore import Isolation, MetastoreSnapshot
from mangrove.model.locators import DeltaLocator, TableLocator
from mangrove.model.objects import Delta, SharedTransactionEntry
from mangrove.model.values import Value
from mangrove.transaction.catalog import CatalogReader, load_table_names
from mangrove.transaction.deltas import OpenTable, TableTarget
from mangrove.transaction.shared_transactions import SharedTransactions, SharedWork, load_shared_work
from mangrove.transaction.transaction import StagedTransaction, TransactionState, name_conflicting_tables
from mangrove.transaction.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mangrove.lakehouse.sql_port import QueryResult

__all__ = ["SharedTransaction"]

T = TypeVar("T")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SharedTransaction(WritableCatalog, ReadableCatalog[Namespace, Table, View]):
    """A transaction that other processes can join; saved at the end of its `with` block, and visible once published.

    To publish, a participant first saves its own changes, and then publishes the saved
    changes of all participants. Unsaved changes of other participants are not published;
    they get an error that lists these changes when they try to save.
    """

    def __init__(
        self,
        shared: SharedTransactions,
        value: SharedTransactionEntry,
        base: MetastoreSnapshot,
        new_id: Callable[[], str],
        clients: Mapping[str, CatalogClient],
        engines: Engines | None,
        lake: WritableCatalog,
    ) -> None:
        self._shared = shared
        self._lake = lake
        self._known = value
        self._base = base
        self.published: MetastoreSnapshot | None = None
        self._new_id = new_id
        self.clients = clients
        self.engines = engines
        self._work = self._begin()

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: unsaved changes exist only in this process."""
        self._work.__reduce__()

    def __repr__(self) -> str:
        return f"<{self.core.state.value} shared transaction {self.name} on version {self.base_version}>"

    @property
    def core(self) -> StagedTransaction:
        """Changes staged in this process, on top of the saved ones."""
        return self._work.core

    @property
    def id(self) -> str:
        """Id of the transaction in the history."""
        return self._work.id

    @property
    def base_version(self) -> int:
        """Version on which the transaction is based."""
        return self._work.base_version

    @property
    def isolation(self) -> Isolation:
        """Isolation level."""
        return self._work.isolation

    @property
    def state(self) -> TransactionState:
        """Whether the transaction is open, committed, rolled back or failed."""
        return self._work.state

    def _reading(self) -> Workspace:
        """Return the state that the transaction reads: its own writes over its base version."""
        return self._work._reading()

    def _change(
        self,
        statement: Callable[[StagedTransaction], T],
        message: str = "",
        *,
        is_blind: bool = False,
    ) -> T:
        """Run a statement, to be published with all others."""
        return self._work._change(statement, message, is_blind=is_blind)

    def _check_write_privilege(self, reading: CatalogReader, opened: OpenTable) -> None:
        """Raise AccessDeniedError if a principal may not write to the table."""
        self._lake._check_write_privilege(reading, opened)

    def _snapshot_at(self, where: int | str | datetime) -> MetastoreSnapshot:
        """Return the version that `where` selects."""
        return self._lake._snapshot_at(where)

    def _schedule_maintenance(self, target: TableTarget) -> None:
        """Leave the maintenance to `publish`: what is saved here may never be published."""

    def add_delta(
        self,
        table: str | TableLocator,
        values: Sequence[Value | None],
        delta: Delta,
        *,
        version: int | None = None,
        stream_id: str | None = None,
    ) -> DeltaLocator:
        """Add a delta to a table; see `Transaction.add_delta`."""
        return self._work.add_delta(table, values, delta, version=version, stream_id=stream_id)

    def _run_sql(self, text: str, arguments: Arguments, engine: str | None) -> "QueryResult | DataFrame":
        return self._work._run_sql(text, arguments, engine)

    def rollback(self) -> None:
        """Discard the unsaved changes of this process; saved changes remain for all participants."""
        self._work.rollback()

    @property
    def name(self) -> str:
        """Name by which other processes join the transaction."""
        return self._known.name

    @property
    def expires_at(self) -> datetime:
        """Time after which the transaction can no longer be published, unless it is extended."""
        return _EPOCH + timedelta(milliseconds=self._known.expires_at_millis)

    def save(self) -> None:
        """Save the changes of this process for other participants, and load the changes that they saved meanwhile."""
        mine = load_shared_work(self._known).after(self._reading())
        try:
            self._known = self._shared.save(self._known, mine)
        except NotFoundError as error:
            lost = "; ".join(map(str, self._list_unsaved_changes(mine)))
            raise NotFoundError(
                f"{error}. Not saved here, and so not published: {lost}" if lost else str(error)
            ) from error
        except ConflictError as error:
            raise name_conflicting_tables(error, self._reading().met) from error
        self._work = self._begin()

    def extend(self, ttl: str | timedelta) -> None:
        """Set the time to live, counted from now."""
        self._reading()
        extended = self._shared.extend(self._known, parse_duration_millis(ttl))
        # What others saved meanwhile is not known here before the next `save`.
        self._known = replace(self._known, expires_at_millis=extended.expires_at_millis)

    def diff(self) -> Diff:
        """Return the changes relative to the base version, including unsaved changes of this process."""
        return self._work.diff()

    def find_conflict(self) -> ConflictError | None:
        """Return the error that publishing the saved changes would raise now, or None."""
        return self._shared.find_conflict(self._known)

    def publish(self) -> int:
        """Commit all changes as one version and return its number; refused if concurrent commits conflict with them."""
        self.save()
        self.published = self._shared.publish(self._known)
        self.core.state = TransactionState.COMMITTED
        for table in load_shared_work(self._known).list_written_tables():
            self._lake._schedule_maintenance(TableTarget(table))
        return self.published.version

    @property
    def version(self) -> int | None:
        """Version in which this process published the transaction; None before that."""
        return None if self.published is None else self.published.version

    def discard(self) -> None:
        """Discard the transaction for all participants."""
        self._reading()
        self._shared.discard(self.name)
        self.core.state = TransactionState.ROLLED_BACK

    def commit(self, message: str | None = None) -> NoReturn:  # noqa: ARG002 - as of any transaction
        """Refuse: a shared transaction is saved, and published once."""
        raise InvalidInputError(f"shared transaction {self.name!r} is not committed: save it, publish it or discard it")

    def alter_settings(self, *_: object, **__: object) -> NoReturn:
        """Refuse: the settings of the lakehouse cannot change in a shared transaction."""
        raise InvalidInputError(
            "the settings of the lakehouse are not changed in a shared transaction: use another one"
        )

    def __enter__(self) -> Self:
        self._work.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._work._leave()
        if self.state is not TransactionState.OPEN:
            return
        if kind is None:
            self.save()
        else:
            self._work = self._begin()

    def _list_unsaved_changes(self, mine: SharedWork) -> tuple[ObjectChange, ...]:
        """Return the changes of this process since the last save."""
        saved = load_shared_work(self._known)
        found = (
            one
            for one in self._reading().differences()
            if saved.puts.get(one.locator) != mine.puts.get(one.locator)
            or (one.locator in mine.deletes) != (one.locator in saved.deletes)
        )
        return summarize_differences(found, lambda requested: load_table_names(requested, self._base))

    def _begin(self) -> Transaction:
        """Return a transaction with the saved changes."""
        work = load_shared_work(self._known)
        core = StagedTransaction(
            self._shared.metastore,
            self._base,
            work.transaction_id,
            self._shared.effects.now_millis,
            work.isolation,
            message=work.message,
            author=work.author,
            properties=work.properties,
            workspace=work.workspace(self._base),
        )
        return Transaction(core, self._new_id, self.clients, self.engines)
