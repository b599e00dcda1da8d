"""The transaction API, including idempotent transactions for streaming batches."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.arguments import validate_texts
from mangrove.lakehouse.catalog import ReadableCatalog, WritableCatalog
from mangrove.lakehouse.diff import Diff, build_workspace_diff
from mangrove.lakehouse.engine_port import Engines, run_sql
from mangrove.lakehouse.namespace import Namespace
from mangrove.lakehouse.sql_port import Arguments
from mangrove.lakehouse.table import Table
from mangrove.lakehouse.table_snapshot import CatalogClient
from mangrove.lakehouse.view import View
from mangrove.metastore import CommitResult, Isolation, MetastoreSnapshot
from mangrove.model.access import ACCESS_PROPERTY
from mangrove.model.locators import DeltaLocator, Locator, TableIdentity
from mangrove.model.objects import Delta, TableVersion
from mangrove.model.properties import NO_PROPERTIES
from mangrove.model.settings import LakehouseSettings, time_limit_millis
from mangrove.model.values import Value
from mangrove.transaction.canonical_names import resolve_target
from mangrove.transaction.catalog import CatalogReader, update_properties
from mangrove.transaction.deltas import OpenTable, TableTarget, add_delta, put_table_version
from mangrove.transaction.idempotency import QueryBatch, find_last_batch, stage_batch
from mangrove.transaction.transaction import StagedTransaction, TransactionState
from mangrove.transaction.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mangrove.lakehouse.lakehouse import Lakehouse
    from mangrove.lakehouse.sql_port import QueryResult


__all__ = ["Transaction", "begin_idempotent", "run_idempotent"]

T = TypeVar("T")
_CHANGEABLE = frozenset({"maximum_version_age_millis", "minimum_versions_to_keep"})


class Transaction(WritableCatalog, ReadableCatalog[Namespace, Table, View]):
    """A transaction; committed at the end of its `with` block, and rolled back if the block raises.

    Without a block, `commit` and `rollback` end it.
    """

    def __init__(
        self,
        transaction: StagedTransaction,
        new_id: Callable[[], str],
        clients: Mapping[str, CatalogClient],
        engines: Engines | None = None,
        lake: "Lakehouse | None" = None,
    ) -> None:
        self.core = transaction
        self._lake = lake
        self.clients = clients
        self.engines = engines
        self.committed_as: CommitResult | None = None
        self._new_id = new_id
        self._is_entered = False
        self._maintained: dict[TableTarget, None] = {}

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: staged changes exist only in this process."""
        raise InvalidInputError(
            f"{self!r} cannot be pickled, nor can what was looked up in it: commit it first and pickle the lakehouse, "
            "or use a shared transaction, which other processes join by its name"
        )

    def __repr__(self) -> str:
        return f"<{self.core.state.value} transaction {self.id} on version {self.base_version}>"

    @property
    def id(self) -> str:
        """Id of the transaction in the history."""
        return self.core.id

    @property
    def base_version(self) -> int:
        """Version on which the transaction is based."""
        return self.core.base_version

    @property
    def isolation(self) -> Isolation:
        """Isolation level."""
        return self.core.isolation

    @property
    def state(self) -> TransactionState:
        """Whether the transaction is open, committed, rolled back or failed."""
        return self.core.state

    @property
    def version(self) -> int | None:
        """Version that the commit created; None before the commit."""
        return None if self.committed_as is None else self.committed_as.snapshot.version

    def _reading(self) -> Workspace:
        """Return the state that the transaction reads: its own writes over its base version."""
        return self.core.workspace

    def _change(
        self,
        statement: Callable[[StagedTransaction], T],
        message: str = "",  # noqa: ARG002 - for the history
        *,
        is_blind: bool = False,  # noqa: ARG002 - for a separate commit
    ) -> T:
        """Run a statement, to be committed with all others."""
        self._reading()
        return statement(self.core)

    def _check_write_privilege(self, reading: CatalogReader, opened: OpenTable) -> None:
        """Raise AccessDeniedError if a principal may not write to the table."""
        if self._lake is not None:
            self._lake._check_write_privilege(reading, opened)

    def _snapshot_at(self, where: int | str | datetime) -> MetastoreSnapshot:
        """Return the version that `where` selects."""
        if self._lake is None:
            raise InvalidInputError(f"transaction {self.id} has no lakehouse; begin it with lake.transaction")
        return self._lake._snapshot_at(where)

    def _schedule_maintenance(self, target: TableTarget) -> None:
        """Run the maintenance of a table after the commit."""
        self._maintained[target] = None

    def add_delta(
        self,
        table: str | Locator | TableIdentity,
        values: Sequence[Value | None],
        delta: Delta,
        *,
        version: int | None = None,
        stream_id: str | None = None,
    ) -> DeltaLocator:
        """Add a delta to the partition of a table with these partition values.

        The returned position is provisional: concurrent commits may move the delta, and
        `committed_as` has the final position after the commit. A delta that already has a
        position keeps it, and the commit conflicts with concurrent deltas of the partition.
        """
        workspace = self._reading()
        target = resolve_target(workspace, table, version)
        chosen = target if stream_id is None else replace(target, stream_id=stream_id)
        return add_delta(workspace, chosen, values, delta, self.id)

    def put_table_version(
        self, table: str | Locator | TableIdentity, version: TableVersion, *, stops_writers: bool
    ) -> None:
        """Replace the definition of the default or the named table version.

        `stops_writers` makes concurrent writes conflict.
        """
        workspace = self._reading()
        put_table_version(workspace, resolve_target(workspace, table), version, stops_writers=stops_writers)

    def alter_settings(
        self, put: Mapping[str, str] = NO_PROPERTIES, remove: Iterable[str] | None = (), **changed: int
    ) -> LakehouseSettings:
        """Set or remove properties of the lakehouse, or change the retention of its versions."""
        workspace, remove = self._reading(), validate_texts(remove, "the properties to remove")
        fixed = changed.keys() - _CHANGEABLE
        if fixed:
            raise InvalidInputError(
                f"the setting {min(fixed)} cannot be changed; these can: {', '.join(sorted(_CHANGEABLE))}"
            )
        properties = update_properties(workspace.settings.properties, put, remove)
        if properties.get(ACCESS_PROPERTY) != workspace.settings.properties.get(ACCESS_PROPERTY):
            raise InvalidInputError(
                f"{ACCESS_PROPERTY} contains the access rules; change them with lake.access or GRANT"
            )
        altered = replace(workspace.settings, properties=properties, **changed)  # type: ignore[arg-type]
        time_limit_millis(altered)
        workspace.settings = altered
        return altered

    def commit(self, message: str | None = None) -> int:
        """Commit all changes atomically, and return the new version."""
        self._reading()
        if message is not None:
            self.core.message = message
        self.committed_as = self.core.commit()
        if self._lake is not None:
            for target in self._maintained:
                self._lake._schedule_maintenance(target)
        return self.committed_as.snapshot.version

    def diff(self) -> Diff:
        """Return the changes relative to the base version."""
        return build_workspace_diff(self._reading())

    def rollback(self) -> None:
        """Discard all changes."""
        self.core.rollback()

    def _run_sql(self, text: str, arguments: Arguments, engine: str | None) -> "QueryResult | DataFrame":
        self._reading()
        return run_sql(self.engines, self._lake, self, text, arguments, engine)

    def transaction(self, **_: Any) -> NoReturn:
        """Refuse: transactions cannot be nested."""
        raise InvalidInputError(
            f"transaction {self.id} is open: transactions do not nest. Use this one, or begin another from the "
            "lakehouse, which will not see what this one wrote"
        )

    def __enter__(self) -> Self:
        self._reading()
        if self._is_entered:
            self.transaction()
        self._is_entered = True
        return self

    def _leave(self) -> None:
        """Allow the transaction to be entered again."""
        self._is_entered = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.state is not TransactionState.OPEN:
            return
        if kind is None:
            self.commit()
        else:
            self.rollback()


@contextmanager
def begin_idempotent(
    lake: "Lakehouse", query: str, batch_id: int, isolation: Isolation | str
) -> Iterator[Transaction | None]:
    """Yield a transaction for a batch of a query, or None if that batch or a later one is already committed."""
    batch = QueryBatch(query, batch_id, lake.effects.now_millis())
    transaction = lake.transaction(isolation, message=_message(batch))
    if _is_done(transaction, batch):
        transaction.rollback()
        yield None
        return
    with transaction:
        yield transaction
        if transaction.state is TransactionState.OPEN:
            stage_batch(transaction._reading(), batch, transaction.id)


def run_idempotent(
    lake: "Lakehouse",
    query: str,
    batch_id: int,
    work: Callable[[Transaction], object],
    isolation: Isolation | str,
) -> bool:
    """Commit `work` for a batch, and retry after a conflict; return whether it was needed."""
    batch = QueryBatch(query, batch_id, lake.effects.now_millis())

    def noted(transaction: Transaction) -> bool:
        if _is_done(transaction, batch):
            return False
        work(transaction)
        stage_batch(transaction._reading(), batch, transaction.id)
        return True

    return lake.run(noted, isolation, message=_message(batch))


def _is_done(transaction: Transaction, batch: QueryBatch) -> bool:
    done = find_last_batch(transaction._reading(), batch.query)
    return done is not None and done.batch_id >= batch.batch_id


def _message(batch: QueryBatch) -> str:
    return f"batch {batch.batch_id} of {batch.query}"
