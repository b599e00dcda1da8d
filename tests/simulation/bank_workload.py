"""The bank workload: operations on tables, table versions, aliases and whole versions of a lakehouse."""

import random
from dataclasses import dataclass
from typing import Final

from tests.simulation.bank import (
    NAMESPACE,
    VERSION,
    AccountRows,
    Activate,
    AddAlias,
    Annotate,
    BankOperation,
    Compact,
    Count,
    Create,
    Deposit,
    DepositStaged,
    Discard,
    Drop,
    DropAlias,
    Increment,
    Rename,
    RollBack,
    Stage,
    Transfer,
    VersionOperation,
    Withdraw,
    draw_operation,
)
from tests.simulation.writers import Attempt

from mangrove.lakehouse.catalog import Catalog
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.table import Table
from mangrove.lakehouse.transaction import Transaction
from mangrove.model.locators import TableIdentity

__all__ = ["NOTE", "SCHEMA", "BankWorkload", "load_rows"]

NOTE: Final = "note"
SCHEMA: Final = "key bigint not null, value bigint"
_INCREMENT: Final = (
    "merge into {table} t using (select :key as key) s on t.key = s.key "
    "when matched then update set value = t.value + 1 when not matched then insert (key, value) values (s.key, 1)"
)


@dataclass(frozen=True, slots=True)
class BankWorkload:
    """Bank operations, of which those that write what follows from what they read have this isolation level."""

    isolation: str = "serializable"

    def draw(self, chance: random.Random, message: str) -> BankOperation:
        """Return what a writer does next."""
        return draw_operation(chance)

    def execute(self, lake: Lakehouse, attempt: Attempt[BankOperation]) -> None:
        """Do it on the lakehouse."""
        _execute(lake, attempt, self.isolation)


def load_rows(catalog: Catalog, table: str, where: str | None = None) -> AccountRows:
    """Return the rows of a table as the model has them."""
    found = catalog.table(table).to_arrow(where=where).to_pylist()
    rows = {row["key"]: row["value"] for row in found}
    assert len(rows) == len(found), f"{table} holds a key twice: {found}"
    return rows


def _execute(lake: Lakehouse, attempt: Attempt[BankOperation], isolation_of_readers: str) -> None:
    """Do the deed on the lakehouse."""
    deed = attempt.deed
    if isinstance(deed, RollBack):
        wanted = max(1, lake.version - deed.back)
        version = lake.rollback(wanted, message=attempt.message)
        # Back to what is the newest anyway is no version of its own.
        attempt.version = None if version == wanted else version
        return
    if isinstance(deed, Compact):
        lake.table(deed.table).compact()
        return
    isolation = isolation_of_readers if isinstance(deed, Transfer | Count) else "snapshot"
    known = {name: lake.table(name).identity for name in deed.rows} if isinstance(deed, Deposit) and deed.by_ids else {}
    with lake.transaction(isolation, message=attempt.message) as transaction:
        match deed:
            case Deposit(rows=deposited):
                for name, rows in deposited.items():
                    _load_table(transaction, attempt, name, known.get(name)).upsert(_rows_to_dicts(rows))
            case Withdraw(table=name, keys=keys):
                _load_table(transaction, attempt, name).delete_keys([{"key": key} for key in keys])
            case Transfer(source=source, target=target, key=key):
                steps = [
                    (_load_and_read(transaction, attempt, name), name, by) for name, by in ((source, -1), (target, 1))
                ]
                for table, name, by in steps:
                    table.upsert([{"key": key, "value": attempt.read[name].get(key, 0) + by}])
            case Increment(table=name, key=key, by_sql=by_sql):
                table = _load_table(transaction, attempt, name)
                attempt.read[name] = load_rows(transaction, name, where=f"key = {key}")
                if by_sql:
                    transaction.sql(_INCREMENT.format(table=name), {"key": key}, engine="duckdb")
                else:
                    table.upsert([{"key": key, "value": attempt.read[name].get(key, 0) + 1}])
            case Count(table=name):
                _load_and_read(transaction, attempt, name)
                transaction.alter_namespace(NAMESPACE, {"noted": f"{len(attempt.read[name])} in {name}"})
            case Create(table=name):
                attempt.met[name] = transaction.create_table(name, SCHEMA, keys=["key"]).value.id
            case Drop(table=name):
                _load_table(transaction, attempt, name).drop()
            case Rename(table=name, name=new_name):
                _load_table(transaction, attempt, name).rename(new_name)
            case AddAlias(table=name, alias=alias):
                transaction.create_alias(alias, _load_table(transaction, attempt, name).locator)
            case DropAlias(alias=alias):
                transaction.drop_alias(alias)
            case Stage() | DepositStaged() | Activate() | Discard() | Annotate():
                _execute_on_version(_load_table(transaction, attempt, deed.table), deed, attempt)
    # Where there was nothing to change it stays the version on which the transaction stood.
    attempt.version = None if transaction.version == transaction.base_version else transaction.version


def _execute_on_version(table: Table, deed: VersionOperation, attempt: Attempt[BankOperation]) -> None:
    """Choose a version of a table, and do the deed on it."""
    if isinstance(deed, Stage):
        made = table.create_version(properties={})
        attempt.met[VERSION] = str(made.target.version)
        made.upsert(_rows_to_dicts(deed.rows))
        return
    versions = table.versions()
    beside = [one.version for one in versions if not one.is_default]
    if not isinstance(deed, DepositStaged | Annotate) and not beside:
        return
    chosen = beside[0] if isinstance(deed, Discard) else versions[-1].version
    attempt.met[VERSION] = str(chosen)
    match deed:
        case DepositStaged(rows=rows):
            table.version(chosen).upsert(_rows_to_dicts(rows))
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


def _rows_to_dicts(rows: AccountRows) -> list[dict[str, int]]:
    return [{"key": key, "value": value} for key, value in rows.items()]
