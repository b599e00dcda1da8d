"""The write plan: where new files go, how large they are, and what each kind of write adds to a log."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mangrove.model.manifests import Author, DataFile, FileKind, Manifest
from mangrove.model.objects import Delta, DeltaType
from mangrove.model.schema import Schema
from mangrove.model.types import Struct, is_nested
from mangrove.model.values import Value
from mangrove.tables.row_counts import NO_ROWS, RowCounts
from mangrove.tables.table_state import TableState

__all__ = [
    "FILE_SIZE_BYTES",
    "STATISTICS_COLUMNS_MAX",
    "PlannedDelta",
    "PlannedWrite",
    "all_replaced",
    "appended",
    "compacted",
    "data_file_path",
    "deleted",
    "has_column_ids",
    "overwritten",
    "placed",
    "planned",
    "position_deleted",
    "rewritten",
    "row_slices",
    "statistics_columns",
    "upserted",
]

FILE_SIZE_BYTES: Final = 256 * 1024 * 1024
"""How large the rows of one file may be in memory; the file is usually several times smaller."""
STATISTICS_COLUMNS_MAX: Final = 64
"""For how many columns bounds are kept. They are read at every scan, and few predicates name the hundredth column."""
_AUTHOR: Final = Author("mangrove")


@dataclass(frozen=True, slots=True)
class PlannedDelta:
    """A delta, and the log to whose end it belongs."""

    log_values: tuple[Value | None, ...]
    delta: Delta


@dataclass(frozen=True, slots=True)
class PlannedWrite:
    """The deltas of one write, and the logs that must not have grown when it is committed, because it read them."""

    deltas: tuple[PlannedDelta, ...] = ()
    read_logs: tuple[tuple[Value | None, ...], ...] = ()
    counts: RowCounts = NO_ROWS
    is_of_all_logs: bool = False
    """Whether it would have done otherwise had there been more logs, so that nobody may have begun one."""


def data_file_path(table_id: str, file_id: str) -> str:
    """Return where a new file of a table lies; each attempt to write takes a fresh id, so nothing is ever replaced."""
    return f"data/{table_id}/{file_id}.parquet"


def has_column_ids(location: str) -> bool:
    """Return whether a file lies where engines of ours write, which give every column its id.

    >>> has_column_ids(data_file_path("t1", "f1")), has_column_ids("ns/orders/1/part-0.pq")
    (True, False)
    """
    return location.startswith("data/") and location.endswith(".parquet")


def row_slices(row_count: int, size_bytes: int, file_size_bytes: int = FILE_SIZE_BYTES) -> list[tuple[int, int]]:
    """Return the first row and the number of rows of each file, all about equally large."""
    file_count = min(row_count, max(1, -(-size_bytes // file_size_bytes)))
    ends = [row_count * place // file_count for place in range(file_count + 1)] if file_count else [0]
    return [(start, end - start) for start, end in itertools.pairwise(ends)]


def statistics_columns(schema: Schema, first: Sequence[int]) -> list[tuple[tuple[str, ...], int]]:
    """Return the paths and ids of the columns whose bounds are kept; those of `first` come before others.

    Only plain columns have an order, and only those in structs occur once per row.
    """
    inside_lists = {
        path for path, column in schema.all_columns() if is_nested(column.type) and not isinstance(column.type, Struct)
    }
    plain = [
        (path, column.id)
        for path, column in schema.all_columns()
        if not is_nested(column.type) and not any(path[:depth] in inside_lists for depth in range(1, len(path)))
    ]
    wanted = sorted(plain, key=lambda entry: entry[1] not in first)
    return wanted[:STATISTICS_COLUMNS_MAX]


def placed(
    state: TableState, files: Iterable[tuple[tuple[Value | None, ...], DataFile]]
) -> dict[tuple[Value | None, ...], list[DataFile]]:
    """Return new files by the log that they belong to, with their partition values where the log does not say them."""
    by_log: dict[tuple[Value | None, ...], list[DataFile]] = {}
    for values, file in files:
        if state.log_scheme.fields:
            by_log.setdefault(values, []).append(file)
        else:
            noted = replace(file, partition_values=values) if values else file
            by_log.setdefault((), []).append(noted)
    return by_log


def appended(files: Sequence[DataFile]) -> Delta:
    """Return the delta that adds rows."""
    return _delta(DeltaType.APPEND, files)


def upserted(files: Sequence[DataFile], keys: Sequence[int]) -> Delta:
    """Return the delta that adds rows and hides earlier ones with the same keys."""
    return _delta(DeltaType.UPSERT, [replace(file, key_ids=tuple(keys)) for file in files])


def deleted(key_files: Sequence[DataFile], keys: Sequence[int], staying: Sequence[DataFile] = ()) -> Delta:
    """Return the delta that hides earlier rows with the given keys; `staying` are rows with such keys that remain."""
    hiding = [replace(file, kind=FileKind.KEY_DELETES, key_ids=tuple(keys)) for file in key_files]
    return _delta(DeltaType.DELETE, [*hiding, *staying])


def overwritten(files: Sequence[DataFile]) -> Delta:
    """Return the delta after which only the rows of `files` are left of its log."""
    return _delta(DeltaType.REPLACE, files)


def rewritten(gone: Iterable[str], files: Sequence[DataFile]) -> Delta:
    """Return the delta that takes single files away and adds others."""
    return replace(_delta(DeltaType.REPLACE, files), replaced_locations=tuple(gone))


def compacted(files: Sequence[DataFile], through: int) -> Delta:
    """Return the delta whose files hold exactly what the log meant up to the position `through`."""
    return replace(_delta(DeltaType.REPLACE, files), replaces_through=through)


def position_deleted(position_files: Sequence[DataFile], added: Sequence[DataFile] = ()) -> Delta:
    """Return the delta that hides single rows of single files, and adds others."""
    return _delta(DeltaType.POSITION_DELETE, [*position_files, *added])


def planned(
    deltas: Mapping[tuple[Value | None, ...], Delta],
    read: TableState | None = None,
    counts: RowCounts = NO_ROWS,
) -> PlannedWrite:
    """Return the write that adds a delta to each of these logs; `read` is the table whose rows decided that."""
    listed = tuple(PlannedDelta(values, delta) for values, delta in deltas.items())
    read_logs = () if read is None else tuple(log.values for log in read.logs)
    return PlannedWrite(listed, read_logs, counts, is_of_all_logs=read is not None)


def all_replaced(
    state: TableState, by_log: Mapping[tuple[Value | None, ...], Sequence[DataFile]], counts: RowCounts = NO_ROWS
) -> PlannedWrite:
    """Return the write that puts files, by their logs, in the place of all rows."""
    everywhere = dict.fromkeys([*(log.values for log in state.logs), *by_log])
    write = planned({values: overwritten(by_log.get(values, ())) for values in everywhere}, counts=counts)
    # The log of a table that has one alone is replaced by name, also where somebody else has just begun it.
    return replace(write, is_of_all_logs=bool(state.log_scheme.fields))


def _delta(delta_type: DeltaType, files: Sequence[DataFile]) -> Delta:
    return Delta(delta_type, Manifest(tuple(files), author=_AUTHOR), author=_AUTHOR)
