"""Bank operations of simulated writers and their in-memory model.

The dictionary is the theorem. Whatever writers, faults and clocks did, the history
must be an order of the transactions that were committed, in which each finds what
the ones before left behind: as it read it, where it asked to be serializable.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from tests.simulation.row_statements import (
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
    RowStatement,
    UpdateWhere,
    apply_row_statement,
    draw_row_statement,
)

__all__ = [
    "FIRST_TABLES",
    "NAMESPACE",
    "QUERY",
    "RESTORED",
    "TAG",
    "UNDONE",
    "VERSION",
    "AccountRows",
    "Activate",
    "AddAlias",
    "Annotate",
    "Bank",
    "BankOperation",
    "Batch",
    "Convert",
    "Count",
    "Create",
    "Deposit",
    "DepositStaged",
    "Discard",
    "Drop",
    "DropAlias",
    "DropTag",
    "Export",
    "IcebergAppend",
    "Increment",
    "InvariantViolation",
    "Publish",
    "PublishIceberg",
    "Rename",
    "RollBack",
    "RollBackTable",
    "Stage",
    "Sweep",
    "Tag",
    "Transfer",
    "Undo",
    "Wait",
    "Withdraw",
    "apply_operation",
    "draw_operation",
    "is_undoable",
]

NAMESPACE: Final = "bank"
FIRST_TABLES: Final = ("bank.giro", "bank.savings")
_MORE_TABLES: Final = ("bank.extra", "bank.spare")
_TABLES: Final = (*FIRST_TABLES, *_MORE_TABLES)
_ALIASES: Final = ("bank.cash", "bank.vault")
_KEYS: Final = range(6)
_LAYOUTS: Final = ("tree", "deltacat")
_MINUTE_MILLIS: Final = 60_000
_WAITS_MILLIS: Final = tuple(minutes * _MINUTE_MILLIS for minutes in (1, 20, 61, 24 * 60, 8 * 24 * 60))
"""From less than the time limit of a transaction to more than the age of a version that expires."""
VERSION: Final = "table version"
"""Under this name `met` has the number of the table version that an operation chose."""

UNDONE: Final = "undone version"
"""Under this name `met` has the version that an undo reverts."""

RESTORED: Final = "restored version"
"""Under this name `met` has the version as of which an operation restores a table."""

TAG: Final = "tag"
"""Under this name `met` has the tag that an operation drops."""

QUERY: Final = "query"
"""Under this name `met` has the name of the query of a batch."""

AccountRows: TypeAlias = Mapping[int, int]


class InvariantViolation(Exception):  # noqa: N818 - said of the theorem, not of a call
    """The history is not one that the deeds can have made."""


@dataclass(frozen=True, slots=True)
class LoggedWrite:
    """The rows that a version wrote in one table version; None where it deleted one."""

    version: int
    table_id: str
    number: int
    rows: Mapping[int, int | None]


@dataclass(frozen=True, slots=True)
class Bank:
    """All that a version holds: tables by name, the rows of each by its id, and the count that the namespace notes.

    Rows go by the id: who met a table under one name writes to that table, also where it was renamed meanwhile.
    """

    ids: Mapping[str, str]
    rows: Mapping[str, AccountRows]
    noted: str = ""
    defaults: Mapping[str, int] = field(default_factory=dict)
    """The default version of each table by the id of the table, where it is not the first."""
    others: Mapping[str, Mapping[int, AccountRows]] = field(default_factory=dict)
    """The rows of the versions that are not the default, by the id of the table."""
    last_numbers: Mapping[str, int] = field(default_factory=dict)
    """The largest number that a version of a table had, by the id of the table, where it is not 1."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """The id of the table of each alias."""
    batches: frozenset[str] = frozenset()
    """The queries whose only batch is committed."""
    notes: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """The note in the properties of a table version, by the id of the table and its number."""
    log: tuple["LoggedWrite", ...] = ()
    """What each version wrote, in order, from which an undo removes what one version wrote."""

    @property
    def tables(self) -> dict[str, dict[int, int]]:
        """The rows of each table by its name."""
        return {name: dict(self.rows[table_id]) for name, table_id in sorted(self.ids.items())}

    def with_rows(self, table_id: str, rows: AccountRows) -> "Bank":
        """Return it with other rows in one table."""
        return replace(self, rows={**self.rows, table_id: rows})

    @property
    def rows_by_version(self) -> dict[tuple[str, int], AccountRows]:
        """The rows of all table versions by the id of the table and the number."""
        defaults = {(table_id, self.defaults.get(table_id, 1)): rows for table_id, rows in self.rows.items()}
        others = {(table_id, number): rows for table_id, found in self.others.items() for number, rows in found.items()}
        return {**defaults, **others}

    def with_rows_of(self, table_id: str, number: int, rows: AccountRows) -> "Bank":
        """Return it with other rows in one table version."""
        if number == self.defaults.get(table_id, 1):
            return self.with_rows(table_id, rows)
        return replace(self, others={**self.others, table_id: {**self.others[table_id], number: rows}})

    @property
    def versions(self) -> dict[str, dict[int, dict[int, int]]]:
        """The rows of all table versions by the name of the table."""
        return {
            name: {
                number: dict(rows)
                for number, rows in sorted(
                    [(self.defaults.get(table_id, 1), self.rows[table_id]), *self.others.get(table_id, {}).items()]
                )
            }
            for name, table_id in sorted(self.ids.items())
        }


@dataclass(frozen=True, slots=True)
class Deposit:
    """Upsert rows in one or two tables, without a look at what is there."""

    rows: Mapping[str, AccountRows]
    by_ids: bool = False
    """Whether the tables are looked up by name before the transaction, and opened in it by their ids."""


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
    by_sql: bool = False
    """Whether it is written by a MERGE, with DuckDB as the SQL engine."""


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
class AddAlias:
    """Give a table another name beside its own."""

    table: str
    alias: str


@dataclass(frozen=True, slots=True)
class DropAlias:
    """Drop an alias."""

    alias: str


@dataclass(frozen=True, slots=True)
class Stage:
    """Create the next version of a table with rows, which its name does not read."""

    table: str
    rows: AccountRows


@dataclass(frozen=True, slots=True)
class DepositStaged:
    """Upsert rows into the newest version of a table by its number, whether it is the default or not."""

    table: str
    rows: AccountRows


@dataclass(frozen=True, slots=True)
class Activate:
    """Make the newest version of a table the default, and deprecate the one before."""

    table: str


@dataclass(frozen=True, slots=True)
class Discard:
    """Drop the oldest version of a table that is not the default."""

    table: str


@dataclass(frozen=True, slots=True)
class Annotate:
    """Set a property of the newest version of a table."""

    table: str
    note: str


@dataclass(frozen=True, slots=True)
class RollBack:
    """Put back what the lakehouse held so many versions before the one that is the newest when it begins."""

    back: int


@dataclass(frozen=True, slots=True)
class RollBackTable:
    """Put back what one table held so many versions before the transaction began."""

    table: str
    back: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Upsert rows as a batch of a stream, and repeat the batch until there is a response."""

    table: str
    rows: AccountRows


@dataclass(frozen=True, slots=True)
class Publish:
    """Upsert rows in a shared transaction: begin it, save in it, join it and publish it."""

    table: str
    rows: AccountRows


@dataclass(frozen=True, slots=True)
class Export:
    """Copy the newest version to another store, and compare the copy."""


@dataclass(frozen=True, slots=True)
class Convert:
    """Convert the lakehouse to another layout on another store, and compare the copy."""

    layout: str


@dataclass(frozen=True, slots=True)
class PublishIceberg:
    """Publish a table as Iceberg metadata, and compare what a client reads there."""

    table: str


@dataclass(frozen=True, slots=True)
class IcebergAppend:
    """Append a row with a new key as an Iceberg client does: load the table, write files, commit."""

    table: str
    key: int
    value: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """Expire versions and vacuum, with the safety margins of a lakehouse in use."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Let time pass for all."""

    millis: int


@dataclass(frozen=True, slots=True)
class Tag:
    """Give the newest version a name, so that it does not expire."""


@dataclass(frozen=True, slots=True)
class DropTag:
    """Drop the first name of a version."""


@dataclass(frozen=True, slots=True)
class Undo:
    """Revert what one of the last versions wrote, if it wrote rows only."""

    back: int


VersionOperation: TypeAlias = Stage | DepositStaged | Activate | Discard | Annotate
BankOperation: TypeAlias = (
    Deposit | Withdraw | Transfer | Increment | Count | Create | Drop | Rename | RollBack | VersionOperation
    | AddAlias | DropAlias | RowStatement | Batch | Publish | Export | Convert | PublishIceberg | IcebergAppend | Sweep
    | Wait | Tag | DropTag | Undo | RollBackTable
)  # fmt: skip


def draw_operation(chance: random.Random) -> BankOperation:
    """Return what a writer does next."""
    table, other = chance.sample(_TABLES if chance.random() < 0.3 else FIRST_TABLES, 2)
    kinds = (
        "deposit", "both", "withdraw", "transfer", "increment", "count", "create", "drop", "rename", "back", "version",
        "alias", "statement", "batch", "publish", "lakehouse",
    )  # fmt: skip
    match chance.choices(kinds, (5, 3, 2, 5, 4, 2, 1.5, 0.7, 0.7, 1.2, 4, 3, 9, 1.5, 1, 5))[0]:
        case "deposit":
            return Deposit({table: _draw_rows(chance)}, by_ids=chance.random() < 0.4)
        case "both":
            return Deposit({table: _draw_rows(chance), other: _draw_rows(chance)})
        case "withdraw":
            return Withdraw(table, tuple(sorted(chance.sample(_KEYS, 2))))
        case "transfer":
            return Transfer(table, other, chance.choice(_KEYS))
        case "increment":
            return Increment(table, chance.choice(_KEYS), by_sql=chance.random() < 0.5)
        case "count":
            return Count(table)
        case "create":
            return Create(chance.choice(_MORE_TABLES))
        case "drop":
            return Drop(chance.choice(_MORE_TABLES))
        case "rename":
            return Rename(*chance.sample(_MORE_TABLES, 2))
        case "version":
            return _draw_version_operation(chance, table)
        case "alias":
            return _draw_alias_operation(chance)
        case "statement":
            return draw_row_statement(chance, table, _draw_rows(chance))
        case "batch":
            return Batch(table, _draw_rows(chance))
        case "publish":
            return Publish(table, _draw_rows(chance))
        case "lakehouse":
            return _draw_lakehouse_operation(chance, table)
        case _ if chance.random() < 0.5:
            return RollBackTable(table, chance.randint(1, 6))
        case _:
            return RollBack(chance.randint(1, 4))


def _draw_lakehouse_operation(chance: random.Random, table: str) -> BankOperation:
    kinds = ("export", "convert", "iceberg", "append", "sweep", "wait", "tag", "drop", "undo")
    match chance.choices(kinds, (0.5, 0.3, 1, 1, 1, 1, 0.7, 0.3, 2))[0]:
        case "export":
            return Export()
        case "convert":
            return Convert(chance.choice(_LAYOUTS))
        case "iceberg":
            return PublishIceberg(table)
        case "append":
            return IcebergAppend(table, chance.randrange(10**9, 2 * 10**9), chance.randint(-99, 99))
        case "sweep":
            return Sweep()
        case "wait":
            return Wait(chance.choice(_WAITS_MILLIS))
        case "tag":
            return Tag()
        case "drop":
            return DropTag()
        case _:
            return Undo(chance.randint(0, 3))


def _draw_version_operation(chance: random.Random, table: str) -> VersionOperation:
    match chance.choices(("stage", "deposit", "activate", "discard", "annotate"), (3, 2, 3, 1, 2))[0]:
        case "stage":
            return Stage(table, _draw_rows(chance))
        case "deposit":
            return DepositStaged(table, _draw_rows(chance))
        case "activate":
            return Activate(table)
        case "annotate":
            return Annotate(table, str(chance.random()))
        case _:
            return Discard(table)


def _draw_alias_operation(chance: random.Random) -> AddAlias | DropAlias | Deposit:
    alias = chance.choice(_ALIASES)
    match chance.choices(("add", "drop", "deposit"), (4, 1, 4))[0]:
        case "add":
            return AddAlias(chance.choice(_TABLES), alias)
        case "drop":
            return DropAlias(alias)
        case _:
            return Deposit({alias: _draw_rows(chance)})


def _draw_rows(chance: random.Random) -> dict[int, int]:
    return {key: chance.randint(-99, 99) for key in sorted(chance.sample(_KEYS, chance.randint(1, 3)))}


def is_undoable(deed: BankOperation) -> bool:
    """Return whether a deed writes rows of tables and nothing else."""
    return isinstance(
        deed,
        Deposit | Withdraw | Transfer | Increment | Insert | DeleteWhere | UpdateWhere | MergeRows | Overwrite
        | OverwritePartitions | IcebergAppend,
    )  # fmt: skip


def apply_operation(
    deed: BankOperation,
    bank: Bank,
    met: Mapping[str, str],
    read: Mapping[str, AccountRows],
    rolled_back_to: Bank | None,
    version: int = 0,
) -> Bank:
    """Return what a committed deed makes of what was there just before it; refuse what cannot have been committed.

    `met` has the id of each table that it named, `read` the rows that it relied on, and `version` is what it became.
    """
    if isinstance(deed, Undo):
        return _undo(bank, int(met[UNDONE]))
    after = _apply(deed, bank, met, read, rolled_back_to)
    if isinstance(deed, RollBack | RollBackTable):
        return after
    written = _list_written_keys(deed, bank, met)
    before = bank.rows_by_version
    logged = []
    for place, rows in after.rows_by_version.items():
        was = before.get(place, {})
        keys = {key for key in {*was, *rows} if was.get(key) != rows.get(key)}.union(written.get(place, ()))
        if keys:
            logged.append(LoggedWrite(version, *place, {key: rows.get(key) for key in sorted(keys)}))
    return replace(after, log=(*after.log, *logged))


def _list_written_keys(
    deed: BankOperation, bank: Bank, met: Mapping[str, str]
) -> dict[tuple[str, int], tuple[int, ...]]:
    """Return the rows that a deed writes even if they stay the same."""

    def place(name: str) -> tuple[str, int]:
        return met[name], bank.defaults.get(met[name], 1)

    match deed:
        case Deposit(rows=deposited):
            return {place(name): tuple(rows) for name, rows in deposited.items()}
        case Withdraw(table=name, keys=keys):
            return {place(name): keys}
        case Transfer(source=source, target=target, key=key):
            return {place(source): (key,), place(target): (key,)}
        case Increment(table=name, key=key):
            return {place(name): (key,)}
        case MergeRows(table=name, rows=rows):
            return {place(name): tuple(rows)}
        case Overwrite(table=name, rows=rows) | ReplaceStream(table=name, rows=rows):
            # It removes rows that an earlier version deleted as well: undoing that version does not bring them back.
            earlier = (key for one in bank.log if (one.table_id, one.number) == place(name) for key in one.rows)
            return {place(name): (*rows, *earlier)}
        case OverwritePartitions(table=name, rows=rows) | Batch(table=name, rows=rows) | Publish(table=name, rows=rows):
            return {place(name): tuple(rows)}
        case DepositStaged(table=name, rows=rows):
            return {(met[name], int(met[VERSION])): tuple(rows)}
    return {}


def _undo(bank: Bank, version: int) -> Bank:
    """Return what is left of all that was written without what one version wrote."""
    places = {(one.table_id, one.number) for one in bank.log if one.version == version}
    if not places:
        raise InvariantViolation(f"version {version} was undone, which wrote nothing that is still there")
    bank = replace(bank, log=tuple(one for one in bank.log if one.version != version))
    for table_id, number in sorted(places):
        _there(bank, table_id)
        rows: dict[int, int | None] = {}
        for one in bank.log:
            if (one.table_id, one.number) == (table_id, number):
                rows |= one.rows
        left = {key: value for key, value in rows.items() if value is not None}
        bank = bank.with_rows_of(table_id, number, left)
    return bank


def _apply(
    deed: BankOperation,
    bank: Bank,
    met: Mapping[str, str],
    read: Mapping[str, AccountRows],
    rolled_back_to: Bank | None,
) -> Bank:
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
        case Publish(table=name, rows=rows):
            return bank.with_rows(met[name], {**_there(bank, met[name]), **rows})
        case (
            Insert(table=name)
            | DeleteWhere(table=name)
            | UpdateWhere(table=name)
            | MergeRows(table=name)
            | Overwrite(table=name)
            | OverwritePartitions(table=name)
            | ReplaceStream(table=name)
            | Compact(table=name)
            | AddColumn(table=name)
            | RenameColumn(table=name)
            | DropColumn(table=name)
        ):
            return bank.with_rows(met[name], apply_row_statement(deed, _there(bank, met[name])))
        case IcebergAppend(table=name, key=key, value=value):
            return bank.with_rows(met[name], {**_there(bank, met[name]), key: value})
        case Batch(table=name):
            return _apply_batch(deed, bank, met[name], met[QUERY])
        case Withdraw(table=name, keys=keys):
            kept = {key: value for key, value in _there(bank, met[name]).items() if key not in keys}
            return bank.with_rows(met[name], kept)
        case Transfer(source=source, target=target, key=key):
            for name, by in ((source, -1), (target, 1)):
                rows = _there(bank, met[name])
                bank = bank.with_rows(met[name], {**rows, key: rows.get(key, 0) + by})
            return bank
        case Count(table=name):
            return replace(bank, noted=f"{len(_there(bank, met[name]))} in {name}")
        case Stage() | DepositStaged() | Activate() | Discard() | Annotate():
            return _apply_version_change(deed, bank, met[deed.table], int(met[VERSION]))
        case RollBack():
            if rolled_back_to is None:
                raise InvariantViolation("a rollback does not say to which version it went")
            return rolled_back_to
        case RollBackTable(table=name):
            return _restore_table(bank, met[name], rolled_back_to)
        case Export() | Convert() | PublishIceberg() | Sweep() | Wait() | Tag() | DropTag() | Undo():
            raise InvariantViolation("it changes nothing, so no version is its own")
    return _apply_catalog_change(deed, bank, met)


def _restore_table(bank: Bank, table_id: str, was: Bank | None) -> Bank:
    """Return the bank with one table as it was; the numbers of its table versions are not used again."""
    _there(bank, table_id)
    if was is None or table_id not in was.ids.values():
        raise InvariantViolation(f"the table {table_id} was rolled back to a version that does not have it")
    others = [one for one in bank.log if one.table_id != table_id]
    # A rollback of the lakehouse may have removed table versions that come back now.
    last = max(bank.last_numbers.get(table_id, 1), was.last_numbers.get(table_id, 1))
    return replace(
        bank,
        rows={**bank.rows, table_id: was.rows[table_id]},
        last_numbers={**bank.last_numbers, table_id: last},
        defaults={**bank.defaults, table_id: was.defaults.get(table_id, 1)},
        others={**bank.others, table_id: was.others.get(table_id, {})},
        notes={
            **{place: note for place, note in bank.notes.items() if place[0] != table_id},
            **{place: note for place, note in was.notes.items() if place[0] == table_id},
        },
        log=(*others, *(one for one in was.log if one.table_id == table_id)),
    )


def _apply_batch(deed: Batch, bank: Bank, table_id: str, query: str) -> Bank:
    if query in bank.batches:
        raise InvariantViolation(f"the batch of {query} was committed twice")
    committed = replace(bank, batches=bank.batches | {query})
    return committed.with_rows(table_id, {**_there(bank, table_id), **deed.rows})


def _increment(deed: Increment, bank: Bank, table_id: str, read: AccountRows) -> Bank:
    """Return the bank with the incremented row; refuse an update that another transaction made in between."""
    rows = _there(bank, table_id)
    if rows.get(deed.key) != read.get(deed.key):
        raise InvariantViolation(f"lost update: it read {dict(read)}, where {rows.get(deed.key)} was")
    return bank.with_rows(table_id, {**rows, deed.key: read.get(deed.key, 0) + 1})


def _apply_version_change(deed: VersionOperation, bank: Bank, table_id: str, number: int) -> Bank:
    """Return what an operation on one version of a table makes of the bank."""
    rows, others = _there(bank, table_id), bank.others.get(table_id, {})
    default = bank.defaults.get(table_id, 1)
    if isinstance(deed, Stage):
        last = bank.last_numbers.get(table_id, 1)
        if number != last + 1:
            raise InvariantViolation(f"table version {number} was created, where {last} was the last number")
        staged = {**bank.others, table_id: {**others, number: deed.rows}}
        return replace(bank, others=staged, last_numbers={**bank.last_numbers, table_id: number})
    if isinstance(deed, DepositStaged) and number == default:
        return bank.with_rows(table_id, {**rows, **deed.rows})
    if isinstance(deed, Annotate) and (number == default or number in others):
        return replace(bank, notes={**bank.notes, (table_id, number): deed.note})
    if isinstance(deed, Activate) and number == default:
        return bank  # a concurrent commit made the same change, which is no conflict: see decision 3
    if number not in others:
        raise InvariantViolation(f"table version {number} was used, where {sorted(others)} were beside {default}")
    rest = {other: found for other, found in others.items() if other != number}
    match deed:
        case DepositStaged(rows=deposited):
            return replace(bank, others={**bank.others, table_id: {**rest, number: {**others[number], **deposited}}})
        case Activate():
            moved = replace(bank, others={**bank.others, table_id: {**rest, default: rows}})
            return replace(moved, defaults={**bank.defaults, table_id: number}).with_rows(table_id, others[number])
        case _:
            return replace(bank, others={**bank.others, table_id: rest})


def _apply_catalog_change(
    deed: Create | Drop | Rename | AddAlias | DropAlias, bank: Bank, met: Mapping[str, str]
) -> Bank:
    """Return what a change of the catalog makes of the bank."""
    if isinstance(deed, AddAlias | DropAlias):
        return _apply_alias_change(deed, bank, met)
    name = deed.table
    others = {other: table_id for other, table_id in bank.ids.items() if other != name}
    if isinstance(deed, Create):
        _check_free(bank, name)
        return replace(bank, ids={**bank.ids, name: met[name]}, rows={**bank.rows, met[name]: {}})
    if bank.ids.get(name) != met[name]:
        raise InvariantViolation(f"{name} was {bank.ids.get(name)}, and not {met[name]}")
    if isinstance(deed, Drop):
        remaining = {alias: table_id for alias, table_id in bank.aliases.items() if table_id != met[name]}
        return replace(bank, ids=others, aliases=remaining)
    _check_free(bank, deed.name)
    return replace(bank, ids={**others, deed.name: met[name]})


def _apply_alias_change(deed: AddAlias | DropAlias, bank: Bank, met: Mapping[str, str]) -> Bank:
    """Return what a new or dropped alias makes of the bank."""
    if (deed.alias in bank.aliases) is isinstance(deed, AddAlias):
        raise InvariantViolation(f"{deed} was committed, where the aliases were {sorted(bank.aliases)}")
    others = {alias: table_id for alias, table_id in bank.aliases.items() if alias != deed.alias}
    if isinstance(deed, DropAlias):
        return replace(bank, aliases=others)
    _there(bank, met[deed.table])
    return replace(bank, aliases={**others, deed.alias: met[deed.table]})


def _there(bank: Bank, table_id: str) -> AccountRows:
    if table_id not in bank.ids.values():
        raise InvariantViolation(f"the table {table_id} was changed, which was not there")
    return bank.rows[table_id]


def _check_free(bank: Bank, table: str) -> None:
    if table in bank.ids:
        raise InvariantViolation(f"{table} was made, which was there already")
