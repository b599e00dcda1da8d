"""Statements that write rows of one table, and what each makes of the rows in the model."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from mangrove import expr
from mangrove.lakehouse.table import Table

__all__ = [
    "BRANCHES",
    "AddColumn",
    "Compact",
    "DeleteWhere",
    "DropColumn",
    "Insert",
    "MergeRows",
    "Overwrite",
    "OverwritePartitions",
    "RenameColumn",
    "ReplaceStream",
    "RowStatement",
    "UpdateWhere",
    "apply_row_statement",
    "draw_row_statement",
    "execute_row_statement",
    "rows_to_dicts",
]

_NEW_KEYS_FIRST: Final = 1_000
_COLUMNS: Final = ("note", "reason")
BRANCHES: Final = 3
"""A row belongs to the branch `key % BRANCHES`, by which some tables are partitioned."""


@dataclass(frozen=True, slots=True)
class Insert:
    """Append a row with a new key."""

    table: str
    key: int
    value: int


@dataclass(frozen=True, slots=True)
class DeleteWhere:
    """Delete the rows whose value is below a bound."""

    table: str
    below: int


@dataclass(frozen=True, slots=True)
class UpdateWhere:
    """Add one to the rows whose value is below a bound."""

    table: str
    below: int


@dataclass(frozen=True, slots=True)
class MergeRows:
    """Merge rows: add the value of a matched row, insert the others."""

    table: str
    rows: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Replace all rows, without a look at what is there."""

    table: str
    rows: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class OverwritePartitions:
    """Replace the rows of the branches that the new rows belong to."""

    table: str
    rows: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class ReplaceStream:
    """Stage a stream with rows, and let it replace the current one."""

    table: str
    rows: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Compact:
    """Rewrite the data files of a table."""

    table: str


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Add a column that all rows have no value in."""

    table: str
    column: str


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Rename a column that no other operation reads."""

    table: str
    column: str
    name: str


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Drop a column that no other operation reads."""

    table: str
    column: str


RowStatement: TypeAlias = (
    Insert | DeleteWhere | UpdateWhere | MergeRows | Overwrite | OverwritePartitions | ReplaceStream | Compact
    | AddColumn | RenameColumn | DropColumn
)  # fmt: skip


def draw_row_statement(chance: random.Random, table: str, rows: Mapping[int, int]) -> RowStatement:
    """Return a statement on a table; `rows` are for those that write rows."""
    below = chance.randint(-99, 99)
    match chance.choices(range(11), (4, 2, 2, 3, 1, 2, 1.5, 1.5, 1, 1, 1))[0]:
        case 0:
            return Insert(table, chance.randrange(_NEW_KEYS_FIRST, 10**9), below)
        case 1:
            return DeleteWhere(table, below)
        case 2:
            return UpdateWhere(table, below)
        case 3:
            return MergeRows(table, rows)
        case 4:
            return Overwrite(table, rows)
        case 5:
            return Compact(table)
        case 6:
            return AddColumn(table, chance.choice(_COLUMNS))
        case 7:
            return OverwritePartitions(table, rows)
        case 8:
            return ReplaceStream(table, rows)
        case 9:
            return RenameColumn(table, *chance.sample(_COLUMNS, 2))
        case _:
            return DropColumn(table, chance.choice(_COLUMNS))


def apply_row_statement(statement: RowStatement, rows: Mapping[int, int]) -> Mapping[int, int]:
    """Return what a committed statement makes of the rows that were there just before it."""
    match statement:
        case Insert(key=key, value=value):
            return {**rows, key: value}
        case DeleteWhere(below=below):
            return {key: value for key, value in rows.items() if value >= below}
        case UpdateWhere(below=below):
            return {key: value + (value < below) for key, value in rows.items()}
        case MergeRows(rows=merged):
            return {**rows, **{key: rows.get(key, 0) + value for key, value in merged.items()}}
        case Overwrite(rows=written) | ReplaceStream(rows=written):
            return written
        case OverwritePartitions(rows=written):
            replaced = {key % BRANCHES for key in written}
            return {**{key: value for key, value in rows.items() if key % BRANCHES not in replaced}, **written}
        case Compact() | AddColumn() | RenameColumn() | DropColumn():
            return rows


def execute_row_statement(table: Table, statement: RowStatement) -> None:
    """Run the statement on the table of a transaction."""
    match statement:
        case Insert(key=key, value=value):
            table.append(rows_to_dicts({key: value}))
        case DeleteWhere(below=below):
            table.delete(f"value < {below}")
        case UpdateWhere(below=below):
            table.update({"value": expr("value + 1")}, where=f"value < {below}")
        case MergeRows(rows=rows):
            merge = table.merge(rows_to_dicts(rows), "t.key = s.key")
            merge.when_matched_update({"value": expr("t.value + s.value")}).when_not_matched_insert().execute()
        case Overwrite(rows=rows):
            table.overwrite(rows_to_dicts(rows))
        case OverwritePartitions(rows=rows):
            table.overwrite_partitions(rows_to_dicts(rows))
        case ReplaceStream(rows=rows):
            stream = table.create_stream()
            stream.append(rows_to_dicts(rows))
            stream.commit_stream()
        case Compact():
            table.compact()
        case AddColumn(column=column):
            table.update_schema().add_column(column, "string").commit()
        case RenameColumn(column=column, name=name):
            table.update_schema().rename_column(column, name).commit()
        case DropColumn(column=column):
            table.update_schema().drop_column(column).commit()


def rows_to_dicts(rows: Mapping[int, int]) -> list[dict[str, int]]:
    """Return rows as a table takes them."""
    return [{"key": key, "branch": key % BRANCHES, "value": value} for key, value in rows.items()]
