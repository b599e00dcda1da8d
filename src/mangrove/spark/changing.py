"""Hiding exactly some rows of a table and adding others, on the executors: what every change of rows comes down to.

Which rows are hidden is settled once, in a checkpoint, because a condition may
give other rows when it runs again.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from mangrove.local.conforming import by_name, conformed
from mangrove.local.files import FileWriter
from mangrove.model.manifests import DataFile
from mangrove.model.objects import Delta
from mangrove.model.schema import Schema
from mangrove.model.values import Value
from mangrove.spark.file_lists import FileLists
from mangrove.spark.nearness import near_values
from mangrove.spark.targets import FILE, ROW, column, file_numbers, target_rows
from mangrove.spark.task_files import REPORTS, new_id, reported, reports, written_by_tasks
from mangrove.storage.opening import open_store
from mangrove.tables.hiding import Hiding, hiding_of
from mangrove.tables.predicates import Predicate
from mangrove.tables.row_counts import RowCounts
from mangrove.tables.scan_plan import plan_scan
from mangrove.tables.table_state import TableState
from mangrove.tables.writing import (
    PlannedWrite,
    appended,
    deleted,
    placed,
    planned,
    position_deleted,
    rewritten,
    upserted,
)

__all__ = ["Change", "Placed", "SparkFiles", "change_rows", "key_name", "near_keys", "written_keys"]

Placed: TypeAlias = list[tuple[tuple[Value | None, ...], DataFile]]
"""New files, each with the values of the partition or the log that it belongs to."""
_ByLog: TypeAlias = dict[tuple[Value | None, ...], list[DataFile]]


@dataclass(frozen=True, slots=True)
class SparkFiles:
    """The files of one lakehouse as Spark reads and writes them."""

    lists: FileLists
    root_uri: str
    store_uri: str
    storage_options: Mapping[str, str] | None
    file_size_bytes: int
    write: Callable[[TableState, DataFrame], Placed]
    """Writes rows as new files, and returns each with its partition values."""


@dataclass(frozen=True, slots=True)
class Change:
    """Rows to hide, as `FILE`, `ROW` and their keys, and files of rows to add."""

    hidden: DataFrame
    added: Placed = field(default_factory=list)
    keys_come_back: bool = False
    """Whether every hidden key is among those of the added rows, so that these hide the old rows by themselves."""


def key_name(place: int) -> str:
    """Return the column of a hidden row that holds one of its keys."""
    return f"mangrove key {place}"


def change_rows(files: SparkFiles, state: TableState, change: Change, counts: RowCounts) -> PlannedWrite:
    """Return how to hide rows and add others."""
    added = placed(state, change.added)
    match hiding_of(state):
        case Hiding.KEYS:
            deltas = _by_keys(files, state, change, added)
        case Hiding.POSITIONS:
            deltas = _by_positions(files, state, change, added)
        case Hiding.COPIES:
            deltas = _by_copies(files, state, change, added)
    return planned(deltas, state, counts)


def _by_keys(
    files: SparkFiles, state: TableState, change: Change, added: _ByLog
) -> dict[tuple[Value | None, ...], Delta]:
    keys = state.checked_keys("a change of rows")
    names = [key_name(place) for place in range(len(keys))]
    wanted = change.hidden.select(*map(column, names)).distinct()
    kept = placed(state, _staying(files, state, change.hidden, wanted))
    hiding: _ByLog = {}
    if not change.keys_come_back:
        renamed = wanted.select(*(column(name).alias(key.name) for name, key in zip(names, keys, strict=True)))
        for values, file in written_keys(files, state, renamed):
            hiding.setdefault(values, []).append(file)
    found: dict[tuple[Value | None, ...], Delta] = {}
    for values in dict.fromkeys([*hiding, *kept, *added]):
        rows = [*kept.get(values, ()), *added.get(values, ())]
        if change.keys_come_back:
            found[values] = upserted(rows, state.version.keys)
        elif values in hiding:
            found[values] = deleted(hiding[values], state.version.keys, rows)
        else:
            found[values] = appended(rows)
    return found


def _staying(files: SparkFiles, state: TableState, hidden: DataFrame, wanted: DataFrame) -> Placed:
    """Write the rows again that share a key with a hidden one without being hidden; usually there are none."""
    plan = plan_scan(state, near_keys(state, wanted))
    rows = target_rows(files.lists, files.root_uri, state, plan, file_numbers(state))
    alike = rows.join(wanted, _same_keys(state), "left_semi")
    beside = alike.join(_numbers(hidden), _same_row(), "left_anti")
    if not beside.limit(1).count():
        return []
    return files.write(state, beside.drop(FILE, ROW))


def _by_positions(
    files: SparkFiles, state: TableState, change: Change, added: _ByLog
) -> dict[tuple[Value | None, ...], Delta]:
    scans = plan_scan(state).scans
    locations = [scan.file.location for scan in scans]
    logs = {scan.file.location: scan.log_values for scan in scans}
    bare = replace(state, logs=())
    uri, options, size = files.store_uri, files.storage_options, files.file_size_bytes

    def write(rows: pa.Table) -> pa.Table:
        writer = FileWriter(open_store(uri, options), new_id, size)
        location = locations[rows.column(FILE)[0].as_py()]
        file = writer.write_positions(bare, location, rows.column(ROW).combine_chunks())
        return pa.Table.from_batches([reports([((), file)])])

    grouped = change.hidden.select(column(FILE), column(ROW)).groupBy(column(FILE))
    found = grouped.applyInArrow(write, REPORTS).collect()
    gone: _ByLog = {}
    for _, file in reported(found):
        assert file.applies_to is not None
        gone.setdefault(logs[file.applies_to], []).append(file)
    return {
        values: position_deleted(gone[values], added.get(values, ())) if values in gone else appended(added[values])
        for values in dict.fromkeys([*gone, *added])
    }


def _by_copies(
    files: SparkFiles, state: TableState, change: Change, added: _ByLog
) -> dict[tuple[Value | None, ...], Delta]:
    plan = plan_scan(state)
    touched = {row[0] for row in change.hidden.select(column(FILE)).distinct().collect()}
    scans = [scan for number, scan in enumerate(plan.scans) if number in touched]
    gone: dict[tuple[Value | None, ...], list[str]] = {}
    for scan in scans:
        gone.setdefault(scan.log_values, []).append(scan.file.location)
    kept: _ByLog = {}
    if scans:
        some = replace(plan, scans=tuple(scans))
        rows = target_rows(files.lists, files.root_uri, state, some, file_numbers(state))
        left = rows.join(_numbers(change.hidden), _same_row(), "left_anti")
        kept = placed(state, files.write(state, left.drop(FILE, ROW)))
    found: dict[tuple[Value | None, ...], Delta] = {}
    for values in dict.fromkeys([*gone, *added]):
        rows_of = [*kept.get(values, ()), *added.get(values, ())]
        found[values] = rewritten(gone[values], rows_of) if values in gone else appended(rows_of)
    return found


def near_keys(state: TableState, wanted: DataFrame) -> Predicate:
    """Return what every row with one of these keys fulfils, so that other files need not be opened."""
    return near_values(wanted, [(key, key_name(place)) for place, key in enumerate(state.key_columns)])


def written_keys(files: SparkFiles, state: TableState, keys: DataFrame) -> Placed:
    """Write keys that are to hide rows, each once; return each file with the values of the log that it belongs to."""
    only_keys = Schema(state.key_columns, state.schema.schema_id, state.schema.last_column_id)
    bare = replace(state, logs=())
    uri, options, size = files.store_uri, files.storage_options, files.file_size_bytes

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = list(batches)
        if found:
            writer = FileWriter(open_store(uri, options), new_id, size)
            rows = conformed(pa.Table.from_batches(found), only_keys, by_name, is_checked=True)
            yield reports(writer.write_keys(bare, rows))

    return written_by_tasks(keys.distinct(), write)


def _numbers(hidden: DataFrame) -> DataFrame:
    return hidden.select(column(FILE).alias("mangrove hidden file"), column(ROW).alias("mangrove hidden row"))


def _same_row() -> Any:
    return (column(FILE) == column("mangrove hidden file")) & (column(ROW) == column("mangrove hidden row"))


def _same_keys(state: TableState) -> Any:
    pairs = [column(key.name) == column(key_name(place)) for place, key in enumerate(state.key_columns)]
    found = pairs[0]
    for pair in pairs[1:]:
        found = found & pair
    return found
