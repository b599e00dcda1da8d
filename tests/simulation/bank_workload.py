"""The bank workload: operations on tables, table versions, aliases and whole versions of a lakehouse."""

import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from tests.iceberg.iceberg_client import Client
from tests.simulation.bank import (
    NAMESPACE,
    QUERY,
    RESTORED,
    TAG,
    UNDONE,
    VERSION,
    AccountRows,
    Activate,
    AddAlias,
    Annotate,
    BankOperation,
    Batch,
    Convert,
    Count,
    Create,
    Deposit,
    DepositStaged,
    Discard,
    Drop,
    DropAlias,
    DropTag,
    Export,
    IcebergAppend,
    Increment,
    InvariantViolation,
    Publish,
    PublishIceberg,
    Rename,
    RollBack,
    RollBackTable,
    Stage,
    Sweep,
    Tag,
    Transfer,
    Undo,
    VersionOperation,
    Wait,
    Withdraw,
    draw_operation,
    is_undoable,
)
from tests.simulation.row_statements import (
    BRANCHES,
    AddColumn,
    Compact,
    DeleteWhere,
    DropColumn,
    Insert,
    MergeRows,
    Overwrite,
    OverwritePartitions,
    RenameColumn,
    ReplaceStream,
    UpdateWhere,
    execute_row_statement,
    rows_to_dicts,
)
from tests.simulation.writers import Attempt

from mangrove.errors import ConflictError, FormatError, StorageError
from mangrove.lakehouse.catalog import Catalog
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.maintenance import MaintenanceEngines, convert_to_layout
from mangrove.lakehouse.opening import open_on_store
from mangrove.lakehouse.table import Table
from mangrove.lakehouse.transaction import Transaction
from mangrove.maintenance.export import export_version
from mangrove.model.locators import TableIdentity
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.wiring import LakehouseEngines

__all__ = ["NOTE", "REPAIR", "SCHEMA", "TOLERANCE_MILLIS", "BankWorkload", "load_rows"]

NOTE: Final = "note"
REPAIR: Final = "repair the clock"
TOLERANCE_MILLIS: Final = 60 * 60 * 1000
"""By less than this, the time limit of a transaction, the clocks of writers differ."""
SCHEMA: Final = "key bigint not null, branch bigint, value bigint"
_REPETITIONS_MAX: Final = 5
_INCREMENT: Final = (
    "merge into {table} t using (select :key as key, :branch as branch) s on t.key = s.key when matched then update "
    "set value = t.value + 1 when not matched then insert (key, branch, value) values (s.key, s.branch, 1)"
)


@dataclass(slots=True)
class BankWorkload:
    """Bank operations, of which those that write what follows from what they read have this isolation level."""

    isolation: str = "serializable"
    clock: Clock = field(default_factory=Clock)
    """The common time of all writers and of the store."""
    remember: Callable[[], object] = list
    """Is called before versions expire."""
    deeds: dict[str, BankOperation] = field(default_factory=dict)
    """All that was drawn so far, by message."""

    def draw(self, chance: random.Random, message: str) -> BankOperation:
        """Return what a writer does next."""
        deed = self.deeds[message] = draw_operation(chance)
        return deed

    def execute(self, lake: Lakehouse, attempt: Attempt[BankOperation]) -> None:
        """Do it on the lakehouse; whose own clock is right repairs the time of a version from the future."""
        try:
            self._execute(lake, attempt)
        except FormatError as error:
            if "dated" not in str(error):
                raise
            if self._has_right_clock(lake):
                lake.maintenance.repair_clock(message=REPAIR)
            raise ConflictError(f"refused: {error}") from error

    def _has_right_clock(self, lake: Lakehouse) -> bool:
        return abs(lake.effects.now_millis() - self.clock.now_millis) < TOLERANCE_MILLIS

    def _execute(self, lake: Lakehouse, attempt: Attempt[BankOperation]) -> None:
        match attempt.deed:
            case Wait(millis=millis):
                self.clock.now_millis += millis
            case Sweep() if self._has_right_clock(lake):
                self.remember()
                lake.maintenance.expire()
                lake.maintenance.vacuum()
            case Sweep():
                pass  # The clock of an expiry must be right: an assumption of docs/guarantees.md.
            case Undo(back=back):
                self._undo(lake, attempt, back)
            case _:
                _execute(lake, attempt, self.isolation)

    def _undo(self, lake: Lakehouse, attempt: Attempt[BankOperation], back: int) -> None:
        """Undo a version that one transaction made, which wrote rows only."""
        entries = lake.history(limit=back + 1)
        if len(entries) <= back or entries[back].version < 1:
            return
        (first, *others), version = entries[back].transactions, entries[back].version
        deed = self.deeds.get(first.message)
        if others or deed is None or not is_undoable(deed):
            return
        attempt.met[UNDONE] = str(version)
        attempt.version = lake.undo(version, message=attempt.message)


def load_rows(catalog: Catalog, table: str, where: str | None = None) -> AccountRows:
    """Return the rows of a table as the model has them."""
    found = catalog.table(table).to_arrow(where=where).to_pylist()
    rows = {row["key"]: row["value"] for row in found}
    assert len(rows) == len(found), f"{table} holds a key twice: {found}"
    return rows


def _execute(lake: Lakehouse, attempt: Attempt[BankOperation], isolation_of_readers: str) -> None:
    """Do the deed on the lakehouse."""
    deed = attempt.deed
    match deed:
        case RollBack():
            target = max(1, lake.version - deed.back)
            version = lake.rollback(target, message=attempt.message)
            # Back to what is the newest anyway is no version of its own.
            attempt.version = None if version == target else version
        case Batch():
            _run_batch(lake, attempt, deed)
        case Publish():
            _publish(lake, attempt, deed)
        case Export():
            _export(lake, attempt.message)
        case Convert(layout=layout):
            _convert(lake, attempt.message, layout)
        case PublishIceberg(table=name):
            _publish_iceberg(lake, name)
        case IcebergAppend():
            _append_by_iceberg(lake, attempt, deed)
        case Tag():
            lake.tag(attempt.message)
        case DropTag():
            if tags := lake.tags():
                attempt.met[TAG] = tags[0].name
                lake.drop_tag(tags[0].name)
        case _:
            _execute_in_transaction(lake, attempt, isolation_of_readers)


def _execute_in_transaction(lake: Lakehouse, attempt: Attempt[BankOperation], isolation_of_readers: str) -> None:
    deed = attempt.deed
    isolation = isolation_of_readers if isinstance(deed, Transfer | Count) else "snapshot"
    known = {name: lake.table(name).identity for name in deed.rows} if isinstance(deed, Deposit) and deed.by_ids else {}
    with lake.transaction(isolation, message=attempt.message) as transaction:
        match deed:
            case Deposit(rows=deposited):
                for name, rows in deposited.items():
                    _load_table(transaction, attempt, name, known.get(name)).upsert(rows_to_dicts(rows))
            case Withdraw(table=name, keys=keys):
                _load_table(transaction, attempt, name).delete_keys([{"key": key} for key in keys])
            case Transfer(source=source, target=target, key=key):
                steps = [
                    (_load_and_read(transaction, attempt, name), name, by) for name, by in ((source, -1), (target, 1))
                ]
                for table, name, by in steps:
                    table.upsert(rows_to_dicts({key: attempt.read[name].get(key, 0) + by}))
            case Increment(table=name, key=key, by_sql=by_sql):
                table = _load_table(transaction, attempt, name)
                attempt.read[name] = load_rows(transaction, name, where=f"key = {key}")
                if by_sql:
                    given = {"key": key, "branch": key % BRANCHES}
                    transaction.sql(_INCREMENT.format(table=name), given, engine="duckdb")
                else:
                    table.upsert(rows_to_dicts({key: attempt.read[name].get(key, 0) + 1}))
            case Count(table=name):
                _load_and_read(transaction, attempt, name)
                transaction.alter_namespace(NAMESPACE, {"noted": f"{len(attempt.read[name])} in {name}"})
            case Create(table=name):
                attempt.met[name] = transaction.create_table(name, SCHEMA, keys=["key"]).value.id
            case Drop(table=name):
                _load_table(transaction, attempt, name).drop()
            case Rename(table=name, name=new_name):
                _load_table(transaction, attempt, name).rename(new_name)
            case RollBackTable(table=name, back=back):
                attempt.met[RESTORED] = str(max(1, transaction.base_version - back))
                _load_table(transaction, attempt, name).rollback(int(attempt.met[RESTORED]))
            case AddAlias(table=name, alias=alias):
                transaction.create_alias(alias, _load_table(transaction, attempt, name).locator)
            case DropAlias(alias=alias):
                transaction.drop_alias(alias)
            case (
                Insert() | DeleteWhere() | UpdateWhere() | MergeRows() | Overwrite() | OverwritePartitions()
                | ReplaceStream() | Compact() | AddColumn() | RenameColumn() | DropColumn()
            ):  # fmt: skip
                execute_row_statement(_load_table(transaction, attempt, deed.table), deed)
            case Stage() | DepositStaged() | Activate() | Discard() | Annotate():
                _execute_on_version(_load_table(transaction, attempt, deed.table), deed, attempt)
    # Where there was nothing to change it stays the version on which the transaction stood.
    attempt.version = None if transaction.version == transaction.base_version else transaction.version


def _run_batch(lake: Lakehouse, attempt: Attempt[BankOperation], deed: Batch) -> None:
    """Commit a batch as a stream does, which repeats it after every error."""
    attempt.met[QUERY] = attempt.message

    def work(transaction: Transaction) -> None:
        _load_table(transaction, attempt, deed.table).upsert(rows_to_dicts(deed.rows))

    for _ in range(_REPETITIONS_MAX):
        with suppress(StorageError):
            lake.run_once(attempt.message, 0, work)
            return
        attempt.has_unknown_repetition = True
    raise StorageError("the batch got no response")


def _publish(lake: Lakehouse, attempt: Attempt[BankOperation], deed: Publish) -> None:
    with lake.begin_shared(attempt.message, message=attempt.message) as shared:
        table = shared.table(deed.table)
        attempt.met[deed.table] = table.value.id
        table.upsert(rows_to_dicts(deed.rows))
    attempt.version = lake.join_shared(attempt.message).publish()


def _export(lake: Lakehouse, name: str) -> None:
    """Export the newest version, and compare the rows of the copy with those of the source."""
    copy = MemoryStore(f"memory://{name}/")
    version = export_version(lake.maintenance.context(), copy, name).export.version
    _compare_copy(lake, [version], copy, "export")


def _convert(lake: Lakehouse, name: str, layout: str) -> None:
    """Convert the lakehouse, and compare the rows of the newest version with those of the source."""
    copy, first = MemoryStore(f"memory://{name}/"), lake.version
    report = convert_to_layout(lake.maintenance.context(), copy, layout, MaintenanceEngines(lake.engines, "local"))
    if report.problems or report.comparison.differences:
        raise InvariantViolation(f"the conversion to {layout} reports {report}")
    _compare_copy(lake, range(first, lake.version + 1), copy, "conversion")


def _compare_copy(lake: Lakehouse, versions: Iterable[int], copy: MemoryStore, kind: str) -> None:
    """Compare the newest version of a copy with versions of its source, of which one must be equal."""
    opened = open_on_store(build_deterministic_effects(copy, first_id=10**11), engines=LakehouseEngines)
    copied, *sources = (
        {str(one): load_rows(at, str(one)) for one in at.tables(NAMESPACE)} for at in (opened, *map(lake.at, versions))
    )
    if copied not in sources:
        raise InvariantViolation(f"the {kind} holds {copied}, where {sources} was")


def _publish_iceberg(lake: Lakehouse, table: str) -> None:
    """Publish a table, and compare what an Iceberg client reads with the rows of one of the versions meanwhile."""
    client, first = Client(lake, table), lake.version
    shown = {row["key"]: row["value"] for rows in client.contents().values() for row in rows.values()}
    found = [load_rows(lake.at(version), table) for version in range(first, lake.version + 1)]
    if shown not in found:
        raise InvariantViolation(f"Iceberg shows {shown} in {table}, where {found} was")


def _append_by_iceberg(lake: Lakehouse, attempt: Attempt[BankOperation], deed: IcebergAppend) -> None:
    """Commit a row as an Iceberg client does, in a transaction with the message of the attempt."""
    begun: list[Transaction] = []

    def begin(**_: object) -> Transaction:
        begun.append(lake.transaction(message=attempt.message))
        return begun[-1]

    named: Any = object.__new__(Lakehouse)
    named.__dict__.update(lake.__dict__, transaction=begin)
    attempt.met[deed.table] = lake.table(deed.table).value.id
    client = Client(named, deed.table)
    values = [deed.key % BRANCHES] if client.shown.metadata.spec().fields else []
    client.commit([client.rows(rows_to_dicts({deed.key: deed.value}), values)])
    attempt.version = begun[-1].version


def _execute_on_version(table: Table, deed: VersionOperation, attempt: Attempt[BankOperation]) -> None:
    """Choose a version of a table, and do the deed on it."""
    if isinstance(deed, Stage):
        made = table.create_version(properties={})
        attempt.met[VERSION] = str(made.target.version)
        made.upsert(rows_to_dicts(deed.rows))
        return
    versions = table.versions()
    beside = [one.version for one in versions if not one.is_default]
    if not isinstance(deed, DepositStaged | Annotate) and not beside:
        return
    chosen = beside[0] if isinstance(deed, Discard) else versions[-1].version
    attempt.met[VERSION] = str(chosen)
    match deed:
        case DepositStaged(rows=rows):
            table.version(chosen).upsert(rows_to_dicts(rows))
        case Annotate(note=note):
            table.version(chosen).alter({NOTE: note})
        case Discard():
            table.version(chosen).drop_version()
        case Activate() if chosen in beside:
            table.version(chosen).set_state("active")
            for one in versions:
                if one.is_default:
                    table.version(one.version).set_state("deprecated")


def _load_table(
    transaction: Transaction, attempt: Attempt[BankOperation], name: str, identity: TableIdentity | None = None
) -> Table:
    """Return the table with the name, or with the ids if they are given, which must be what is written."""
    table = transaction.table(identity or name)
    attempt.met[name] = table.value.id if identity is None else identity.table_id
    return table


def _load_and_read(transaction: Transaction, attempt: Attempt[BankOperation], name: str) -> Table:
    table = _load_table(transaction, attempt, name)
    attempt.read[name] = load_rows(transaction, name)
    return table
