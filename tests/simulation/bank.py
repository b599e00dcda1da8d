"""Bank operations of simulated writers and their in-memory model.

The dictionary is the theorem. Whatever writers, faults and clocks did, the history
must be an order of the transactions that were committed, in which each finds what
the ones before left behind: as it read it, where it asked to be serializable.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

__all__ = [
    "FIRST_TABLES",
    "NAMESPACE",
    "AccountRows",
    "Bank",
    "BankOperation",
    "Count",
    "Create",
    "Deposit",
    "Drop",
    "Increment",
    "InvariantViolation",
    "Rename",
    "RollBack",
    "Transfer",
    "Withdraw",
    "apply_operation",
    "draw_operation",
]

NAMESPACE: Final = "bank"
FIRST_TABLES: Final = ("bank.giro", "bank.savings")
_MORE_TABLES: Final = ("bank.extra", "bank.spare")
_TABLES: Final = (*FIRST_TABLES, *_MORE_TABLES)
_KEYS: Final = range(6)

AccountRows: TypeAlias = Mapping[int, int]


class InvariantViolation(Exception):  # noqa: N818 - said of the theorem, not of a call
    """The history is not one that the deeds can have made."""


@dataclass(frozen=True, slots=True)
class Bank:
    """All that a version holds: tables by name, the rows of each by its id, and the count that the namespace notes.

    Rows go by the id: who met a table under one name writes to that table, also where it was renamed meanwhile.
    """

    ids: Mapping[str, str]
    rows: Mapping[str, AccountRows]
    noted: str = ""

    @property
    def tables(self) -> dict[str, dict[int, int]]:
        """The rows of each table by its name."""
        return {name: dict(self.rows[table_id]) for name, table_id in sorted(self.ids.items())}

    def with_rows(self, table_id: str, rows: AccountRows) -> "Bank":
        """Return it with other rows in one table."""
        return Bank(self.ids, {**self.rows, table_id: rows}, self.noted)


@dataclass(frozen=True, slots=True)
class Deposit:
    """Upsert rows in one or two tables, without a look at what is there."""

    rows: Mapping[str, AccountRows]


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Delete rows by their keys, without a look."""

    table: str
    keys: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Transfer:
    """Read two tables, and write in both what follows from that: serializable."""

    source: str
    target: str
    key: int


@dataclass(frozen=True, slots=True)
class Increment:
    """Read one row and write it with a larger value, at snapshot isolation: no update is lost."""

    table: str
    key: int


@dataclass(frozen=True, slots=True)
class Count:
    """Read a table, and note in the namespace how many rows it has: serializable."""

    table: str


@dataclass(frozen=True, slots=True)
class Create:
    """Make a table."""

    table: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Drop a table."""

    table: str


@dataclass(frozen=True, slots=True)
class Rename:
    """Give a table another name."""

    table: str
    name: str


@dataclass(frozen=True, slots=True)
class RollBack:
    """Put back what the lakehouse held so many versions before the one that is the newest when it begins."""

    back: int


BankOperation: TypeAlias = Deposit | Withdraw | Transfer | Increment | Count | Create | Drop | Rename | RollBack


def draw_operation(chance: random.Random) -> BankOperation:
    """Return what a writer does next."""
    table, other = chance.sample(_TABLES if chance.random() < 0.3 else FIRST_TABLES, 2)
    kinds = ("deposit", "both", "withdraw", "transfer", "increment", "count", "create", "drop", "rename", "back")
    match chance.choices(kinds, (5, 3, 2, 5, 4, 2, 1.5, 0.7, 0.7, 0.6))[0]:
        case "deposit":
            return Deposit({table: _draw_rows(chance)})
        case "both":
            return Deposit({table: _draw_rows(chance), other: _draw_rows(chance)})
        case "withdraw":
            return Withdraw(table, tuple(sorted(chance.sample(_KEYS, 2))))
        case "transfer":
            return Transfer(table, other, chance.choice(_KEYS))
        case "increment":
            return Increment(table, chance.choice(_KEYS))
        case "count":
            return Count(table)
        case "create":
            return Create(chance.choice(_MORE_TABLES))
        case "drop":
            return Drop(chance.choice(_MORE_TABLES))
        case "rename":
            return Rename(*chance.sample(_MORE_TABLES, 2))
        case _:
            return RollBack(chance.randint(1, 4))


def _draw_rows(chance: random.Random) -> dict[int, int]:
    return {key: chance.randint(-99, 99) for key in sorted(chance.sample(_KEYS, chance.randint(1, 3)))}


def apply_operation(
    deed: BankOperation,
    bank: Bank,
    met: Mapping[str, str],
    read: Mapping[str, AccountRows],
    rolled_back_to: Bank | None,
) -> Bank:
    """Return what a committed deed makes of what was there just before it; refuse what cannot have been committed.

    `met` has the id of each table that it named, and `read` the rows that it relied on.
    """
    if isinstance(deed, Increment):
        return _increment(deed, bank, met[deed.table], read[deed.table])
    for name, rows in read.items():
        if bank.tables.get(name) != rows:
            raise InvariantViolation(f"it read {dict(rows)} in {name}, where {bank.tables.get(name)} was")
    match deed:
        case Deposit(rows=deposited):
            for name, rows in deposited.items():
                bank = bank.with_rows(met[name], {**_there(bank, met[name]), **rows})
            return bank
        case Withdraw(table=name, keys=keys):
            kept = {key: value for key, value in _there(bank, met[name]).items() if key not in keys}
            return bank.with_rows(met[name], kept)
        case Transfer(source=source, target=target, key=key):
            for name, by in ((source, -1), (target, 1)):
                rows = _there(bank, met[name])
                bank = bank.with_rows(met[name], {**rows, key: rows.get(key, 0) + by})
            return bank
        case Count(table=name):
            return Bank(bank.ids, bank.rows, f"{len(_there(bank, met[name]))} in {name}")
        case RollBack():
            if rolled_back_to is None:
                raise InvariantViolation("a rollback does not say to which version it went")
            return rolled_back_to
    return _apply_catalog_change(deed, bank, met)


def _increment(deed: Increment, bank: Bank, table_id: str, read: AccountRows) -> Bank:
    """Return the bank with the incremented row; refuse an update that another transaction made in between."""
    rows = _there(bank, table_id)
    if rows.get(deed.key) != read.get(deed.key):
        raise InvariantViolation(f"lost update: it read {dict(read)}, where {rows.get(deed.key)} was")
    return bank.with_rows(table_id, {**rows, deed.key: read.get(deed.key, 0) + 1})


def _apply_catalog_change(deed: Create | Drop | Rename, bank: Bank, met: Mapping[str, str]) -> Bank:
    """Return what a change of the catalog makes of the bank."""
    name = deed.table
    others = {other: table_id for other, table_id in bank.ids.items() if other != name}
    if isinstance(deed, Create):
        _check_free(bank, name)
        return Bank({**bank.ids, name: met[name]}, {**bank.rows, met[name]: {}}, bank.noted)
    if bank.ids.get(name) != met[name]:
        raise InvariantViolation(f"{name} was {bank.ids.get(name)}, and not {met[name]}")
    if isinstance(deed, Drop):
        return Bank(others, bank.rows, bank.noted)
    _check_free(bank, deed.name)
    return Bank({**others, deed.name: met[name]}, bank.rows, bank.noted)


def _there(bank: Bank, table_id: str) -> AccountRows:
    if table_id not in bank.ids.values():
        raise InvariantViolation(f"the table {table_id} was changed, which was not there")
    return bank.rows[table_id]


def _check_free(bank: Bank, table: str) -> None:
    if table in bank.ids:
        raise InvariantViolation(f"{table} was made, which was there already")
