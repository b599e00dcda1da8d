"""Row-level changes on Spark by equality deletes, position deletes or copy-on-write.

The deleted rows are computed once, because a condition may return other rows when it is
evaluated again. If their number is limited, their positions and keys are collected into
this process: writing them here takes less time than further Spark jobs. Otherwise they
are checkpointed.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    IllegalArgumentException,
    NumberFormatException,
    ParseException,
    PySparkException,
)
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from mangrove.errors import InvalidInputError
from mangrove.expressions.predicates import Predicate
from mangrove.local.data_files import FileWriter
from mangrove.local.key_index import KeyIndex, KeyIndexCache
from mangrove.local.keys import deduplicate_keys, filter_keys_in
from mangrove.local.parquet import read_columns
from mangrove.local.python_rows import to_python_rows
from mangrove.local.row_changes import build_key_range_predicate as build_local_key_range
from mangrove.local.scan import RowMaskCache
from mangrove.local.scan import run_scan as run_local_scan
from mangrove.local.schema_projection import conform_rows, match_by_name
from mangrove.model.manifests import DataFile
from mangrove.model.objects import Delta
from mangrove.model.schema import Schema
from mangrove.model.types import Column
from mangrove.model.values import Value
from mangrove.parallel import map_parallel, submit_task
from mangrove.spark.change_feed import create_frame_from_arrow
from mangrove.spark.deletion_vectors import FILE, LOCAL_ROWS_MAX, ROW
from mangrove.spark.file_lists import FileLists
from mangrove.spark.merge_pruning import build_values_predicate
from mangrove.spark.scan import column_of, number_files, read_target_rows
from mangrove.spark.task_files import (
    REPORT_SCHEMA,
    create_file_id,
    decode_file_reports,
    encode_file_reports,
    write_in_tasks,
)
from mangrove.storage.opening import open_store
from mangrove.storage.port import Store
from mangrove.tables.scan_plan import ScanPlan, plan_scan
from mangrove.tables.table_state import TableState
from mangrove.tables.write_plan import (
    DeleteMode,
    PlannedWrite,
    ReadRows,
    RowCounts,
    build_append_delta,
    build_delete_delta,
    build_position_delete_delta,
    build_rewrite_delta,
    build_upsert_delta,
    delete_mode_of,
    group_files_by_log,
    plan_write,
)

__all__ = [
    "FilesByLog",
    "RowIds",
    "RowLevelChange",
    "SparkFileContext",
    "build_key_range_predicate",
    "can_collect",
    "check_new_keys",
    "check_rows_match",
    "collect_row_ids",
    "conform_keys",
    "count_row_ids",
    "key_column_of",
    "load_key_index_meanwhile",
    "materialize_frame",
    "plan_position_deletes",
    "plan_row_changes",
    "plan_upsert_of_changes",
    "translate_spark_errors",
    "write_delete_keys",
]

FilesByLog: TypeAlias = list[tuple[tuple[Value | None, ...], DataFile]]
"""New files, each with the values of its partition or log."""
_ByLog: TypeAlias = dict[tuple[Value | None, ...], list[DataFile]]


@dataclass(frozen=True, slots=True)
class SparkFileContext:
    """Access of Spark to the files of one lakehouse."""

    lists: FileLists
    root_uri: str
    store_uri: str
    storage_options: Mapping[str, str] | None
    file_size_bytes: int
    write: Callable[[TableState, DataFrame], FilesByLog]
    """Writes rows as new files, and returns each with its partition values."""
    store: Store
    """The files as this process sees them; a task opens the store by its URI."""
    vectors: RowMaskCache = field(default_factory=RowMaskCache)
    """The cached deletion vectors of files whose keys this process reads."""
    key_indexes: KeyIndexCache = field(default_factory=KeyIndexCache)
    """The integer keys of recently changed tables."""

    def create_writer(self) -> FileWriter:
        """Return a writer of files in this process."""
        return FileWriter(self.store, create_file_id, self.file_size_bytes)


RowIds: TypeAlias = DataFrame | pa.Table
"""Rows as `FILE`, `ROW` and their keys: checkpointed, or a limited number in this process."""


@dataclass(frozen=True, slots=True)
class RowLevelChange:
    """Deleted rows and files with added rows."""

    deleted_rows: RowIds
    added: FilesByLog = field(default_factory=list)
    keys_reinserted: bool = False
    """Whether every deleted key is among the added rows, so that an upsert replaces the old rows."""


def can_collect(row_count: int) -> bool:
    """Return whether the positions and keys of so many rows fit into this process."""
    return row_count <= LOCAL_ROWS_MAX


def collect_row_ids(rows: DataFrame, count_max: int) -> RowIds:
    """Return the rows in this process, or as they are if there are too many.

    There are at most `count_max`. The rows are checkpointed if these could not be collected.
    """
    return rows.toArrow() if can_collect(count_max) or can_collect(rows.count()) else rows


def count_row_ids(rows: RowIds) -> int:
    """Return the number of rows."""
    return rows.num_rows if isinstance(rows, pa.Table) else rows.count()


def conform_keys(state: TableState, rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the keys of collected rows, read from the columns with these names, as the table stores them."""
    keys = Schema(state.key_columns, state.schema.schema_id, state.schema.last_column_id)
    renamed = rows.select(list(names)).rename_columns([key.name for key in state.key_columns])
    return conform_rows(renamed, keys, match_by_name, is_checked=True)


def plan_upsert_of_changes(
    files: SparkFileContext, state: TableState, plan: ScanPlan, rows: DataFrame, read: ReadRows
) -> PlannedWrite | None:
    """Plan updates that keep the keys, and inserts of new keys, in the job that computes the rows from those of a plan.

    The rows have the columns of the table. Return None if an upsert could replace other rows,
    or if rows share a key. The written files are then unreferenced.
    """
    keys = state.checked_keys("a change of rows")
    with load_key_index_meanwhile(files, state, plan):
        added = files.write(state, rows)
    if not added:
        return plan_write({}, read=read)
    written = pa.concat_tables([read_columns(files.store, file, keys) for _, file in added])
    replaced = _count_rows_with_keys(files, state, written) if _are_keys_distinct(written, keys) else None
    if replaced is None:
        return None
    by_log = group_files_by_log(state, added)
    deltas = {values: build_upsert_delta(there, state.version.keys) for values, there in by_log.items()}
    return plan_write(deltas, RowCounts(inserted=written.num_rows - replaced, updated=replaced), read)


def _count_rows_with_keys(files: SparkFileContext, state: TableState, keys: pa.Table) -> int | None:
    """Return how many rows have one of these distinct keys, or None if rows share one, or too many had to be read."""
    near = build_local_key_range(keys, state.key_columns)
    plan = plan_scan(state, near)
    index = _load_key_index(files, state, plan)
    if index is not None:
        return index.count(keys.column(state.key_columns[0].name))
    found = _read_rows_with_keys(files, state, keys, near, plan)
    return found.num_rows if found is not None and _are_keys_distinct(found, state.key_columns) else None


def _may_share_keys(files: SparkFileContext, state: TableState, changed_keys: pa.Table) -> bool:
    """Return whether unchanged rows may have the keys of changed rows, given once for each changed row."""
    near = build_local_key_range(changed_keys, state.key_columns)
    plan = plan_scan(state, near)
    if _load_key_index(files, state, plan) is not None:
        return False
    found = _read_rows_with_keys(files, state, changed_keys, near, plan)
    return found is None or found.num_rows != changed_keys.num_rows


def _load_key_index(files: SparkFileContext, state: TableState, plan: ScanPlan) -> KeyIndex | None:
    """Return the index of all keys, or None if there is none; it is not built for a plan that reads few rows."""
    return files.key_indexes.load(files.store, state, plan.row_count) if can_collect(plan.row_count) else None


@contextmanager
def load_key_index_meanwhile(files: SparkFileContext, state: TableState, plan: ScanPlan) -> Iterator[None]:
    """Read the keys that a change of rows compares while Spark finds the rows of the plan."""
    if delete_mode_of(state) is not DeleteMode.KEYS:
        yield
        return
    with ThreadPoolExecutor(1) as pool:
        # An error is raised again where the index is used.
        submit_task(pool, functools.partial(_load_key_index, files, state), plan)
        yield


def _read_rows_with_keys(
    files: SparkFileContext, state: TableState, keys: pa.Table, near: Predicate, plan: ScanPlan
) -> pa.Table | None:
    """Return the keys of all rows that have one of these keys, or None if too many rows had to be read here."""
    if not can_collect(plan.row_count):
        return None
    rows = run_local_scan(files.store, state, plan, state.key_columns, near, files.vectors)
    return filter_keys_in(rows, keys, state.key_columns)


def _are_keys_distinct(rows: pa.Table, keys: Sequence[Column]) -> bool:
    """Return whether no two rows share a key and none is null."""
    has_null = any(rows.column(key.name).null_count for key in keys)
    return not has_null and deduplicate_keys(rows, keys).num_rows == rows.num_rows


def key_column_of(place: int) -> str:
    """Return the column alias of a key of a deleted row."""
    return f"mangrove key {place}"


def plan_row_changes(
    files: SparkFileContext, state: TableState, change: RowLevelChange, counts: RowCounts, read: ReadRows
) -> PlannedWrite:
    """Plan a write that deletes rows and adds others."""
    added = group_files_by_log(state, change.added)
    match delete_mode_of(state):
        case DeleteMode.KEYS:
            deltas = _by_keys(files, state, change, added)
        case DeleteMode.POSITIONS:
            deltas = _by_positions(files, state, change, added)
        case DeleteMode.COPIES:
            deltas = _by_copies(files, state, change, added)
    return plan_write(deltas, counts, read)


def _by_keys(
    files: SparkFileContext, state: TableState, change: RowLevelChange, added: _ByLog
) -> dict[tuple[Value | None, ...], Delta]:
    keys = state.checked_keys("a change of rows")
    names = [key_column_of(place) for place in range(len(keys))]
    delete_files: Iterable[tuple[tuple[Value | None, ...], DataFile]] = ()
    retained: _ByLog = {}
    deleted_rows = change.deleted_rows
    collected = conform_keys(state, deleted_rows, names) if isinstance(deleted_rows, pa.Table) else None
    if collected is None or _may_share_keys(files, state, collected):
        frame = _to_frame(files, deleted_rows)
        deleted_keys = frame.select(*map(column_of, names)).distinct()
        retained = group_files_by_log(state, _rewrite_retained_rows(files, state, frame, deleted_keys))
        if not change.keys_reinserted:
            aliases = (column_of(name).alias(key.name) for name, key in zip(names, keys, strict=True))
            delete_files = write_delete_keys(files, state, deleted_keys.select(*aliases))
    elif not change.keys_reinserted:
        delete_files = files.create_writer().write_keys(state, deduplicate_keys(collected, keys))
    key_files: _ByLog = {}
    for values, file in delete_files:
        key_files.setdefault(values, []).append(file)
    found: dict[tuple[Value | None, ...], Delta] = {}
    for values in dict.fromkeys([*key_files, *retained, *added]):
        rows = [*retained.get(values, ()), *added.get(values, ())]
        if change.keys_reinserted:
            found[values] = build_upsert_delta(rows, state.version.keys)
        elif values in key_files:
            found[values] = build_delete_delta(key_files[values], state.version.keys, rows)
        else:
            found[values] = build_append_delta(rows)
    return found


def _to_frame(files: SparkFileContext, rows: RowIds) -> DataFrame:
    return create_frame_from_arrow(files.lists.session, rows, None) if isinstance(rows, pa.Table) else rows


def _rewrite_retained_rows(
    files: SparkFileContext, state: TableState, deleted_rows: DataFrame, deleted_keys: DataFrame
) -> FilesByLog:
    """Rewrite rows that share a key with a deleted row but are not deleted; usually there are none."""
    plan = plan_scan(state, build_key_range_predicate(state, deleted_keys))
    rows = read_target_rows(files.lists, files.root_uri, state, plan)
    alike = rows.join(deleted_keys, _same_keys(state), "left_semi")
    beside = alike.join(_numbers(deleted_rows), _same_row(), "left_anti")
    if not beside.limit(1).count():
        return []
    return files.write(state, beside.drop(FILE, ROW))


def plan_position_deletes(
    files: SparkFileContext, state: TableState, deleted_rows: DataFrame, read: ReadRows
) -> PlannedWrite:
    """Plan the deletion of many rows in one job, whose tasks write the position deletes."""
    found = _write_positions_in_tasks(files, state, deleted_rows)
    counts = RowCounts(deleted=sum(file.row_count for file in found))
    return plan_write(_group_position_deletes(state, found, {}), counts, read)


def _by_positions(
    files: SparkFileContext, state: TableState, change: RowLevelChange, added: _ByLog
) -> dict[tuple[Value | None, ...], Delta]:
    if isinstance(change.deleted_rows, pa.Table):
        found = _write_positions_here(files, state, change.deleted_rows)
    else:
        found = _write_positions_in_tasks(files, state, change.deleted_rows)
    return _group_position_deletes(state, found, added)


def _group_position_deletes(
    state: TableState, found: Iterable[DataFile], added: _ByLog
) -> dict[tuple[Value | None, ...], Delta]:
    logs = {scan.file.location: scan.log_values for scan in plan_scan(state).scans}
    removed: _ByLog = {}
    for file in found:
        assert file.applies_to is not None
        removed.setdefault(logs[file.applies_to], []).append(file)
    return {
        values: build_position_delete_delta(removed[values], added.get(values, ()))
        if values in removed
        else build_append_delta(added[values])
        for values in dict.fromkeys([*removed, *added])
    }


def _write_positions_here(files: SparkFileContext, state: TableState, rows: pa.Table) -> list[DataFile]:
    locations = _locate_files(state)
    ordered = rows.select([FILE, ROW]).sort_by([(FILE, "ascending"), (ROW, "ascending")])
    numbers, starts, counts = np.unique(ordered.column(FILE).to_numpy(), return_index=True, return_counts=True)
    positions = ordered.column(ROW).combine_chunks()
    writer = files.create_writer()

    def write(run: tuple[int, int, int]) -> DataFile:
        number, start, count = run
        return writer.write_positions(state, locations[number], positions.slice(start, count))

    return list(map_parallel(write, list(zip(numbers.tolist(), starts.tolist(), counts.tolist(), strict=True))))


def _write_positions_in_tasks(files: SparkFileContext, state: TableState, rows: DataFrame) -> list[DataFile]:
    locations = _locate_files(state)
    bare = replace(state, logs=())
    uri, options, size = files.store_uri, files.storage_options, files.file_size_bytes

    def write(rows: pa.Table) -> pa.Table:
        writer = FileWriter(open_store(uri, options), create_file_id, size)
        location = locations[rows.column(FILE)[0].as_py()]
        file = writer.write_positions(bare, location, rows.column(ROW).combine_chunks())
        return pa.Table.from_batches([encode_file_reports([((), file)])])

    grouped = rows.select(column_of(FILE), column_of(ROW)).groupBy(column_of(FILE))
    return [file for _, file in decode_file_reports(grouped.applyInArrow(write, REPORT_SCHEMA).collect())]


def _locate_files(state: TableState) -> dict[int, str]:
    """Return the location of each live data file by its number."""
    return {number: location for location, number in number_files(state).items()}


def _by_copies(
    files: SparkFileContext, state: TableState, change: RowLevelChange, added: _ByLog
) -> dict[tuple[Value | None, ...], Delta]:
    plan = plan_scan(state)
    deleted_rows = change.deleted_rows
    if isinstance(deleted_rows, pa.Table):
        touched = set(deleted_rows.column(FILE).unique().to_pylist())
    else:
        touched = {row[0] for row in deleted_rows.select(column_of(FILE)).distinct().collect()}
    numbers = number_files(state)
    scans = [scan for scan in plan.scans if numbers[scan.file.location] in touched]
    removed: dict[tuple[Value | None, ...], list[str]] = {}
    for scan in scans:
        removed.setdefault(scan.log_values, []).append(scan.file.location)
    retained: _ByLog = {}
    if scans:
        some = replace(plan, scans=tuple(scans))
        rows = read_target_rows(files.lists, files.root_uri, state, some)
        left = rows.join(_numbers(_to_frame(files, deleted_rows)), _same_row(), "left_anti")
        retained = group_files_by_log(state, files.write(state, left.drop(FILE, ROW)))
    found: dict[tuple[Value | None, ...], Delta] = {}
    for values in dict.fromkeys([*removed, *added]):
        rows_of = [*retained.get(values, ()), *added.get(values, ())]
        found[values] = (
            build_rewrite_delta(removed[values], rows_of) if values in removed else build_append_delta(rows_of)
        )
    return found


def build_key_range_predicate(state: TableState, deleted_keys: DataFrame) -> Predicate:
    """Return a predicate that all rows with these keys satisfy, for file pruning."""
    return build_values_predicate(
        deleted_keys, [(key, key_column_of(place)) for place, key in enumerate(state.key_columns)]
    )


def write_delete_keys(files: SparkFileContext, state: TableState, keys: DataFrame) -> FilesByLog:
    """Write distinct deleted keys; return each file with the values of its log."""
    only_keys = Schema(state.key_columns, state.schema.schema_id, state.schema.last_column_id)
    bare = replace(state, logs=())
    uri, options, size = files.store_uri, files.storage_options, files.file_size_bytes

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = list(batches)
        if found:
            writer = FileWriter(open_store(uri, options), create_file_id, size)
            rows = conform_rows(pa.Table.from_batches(found), only_keys, match_by_name, is_checked=True)
            yield encode_file_reports(writer.write_keys(bare, rows))

    return write_in_tasks(keys.distinct(), write)


def _numbers(deleted_rows: DataFrame) -> DataFrame:
    return deleted_rows.select(
        column_of(FILE).alias("mangrove deleted file"), column_of(ROW).alias("mangrove deleted row")
    )


def _same_row() -> Any:
    return (column_of(FILE) == column_of("mangrove deleted file")) & (
        column_of(ROW) == column_of("mangrove deleted row")
    )


def _same_keys(state: TableState) -> Any:
    pairs = [column_of(key.name) == column_of(key_column_of(place)) for place, key in enumerate(state.key_columns)]
    found = pairs[0]
    for pair in pairs[1:]:
        found = found & pair
    return found


_EXAMPLES_MAX: Final = 3
_OF_THE_CALLER: Final = (
    AnalysisException,
    ArithmeticException,
    IllegalArgumentException,
    NumberFormatException,
    ParseException,
)
_VALUES_AT_FAULT: Final = re.compile(
    r"\[(CAST_|NUMERIC_|ARITHMETIC_|DIVIDE_BY_ZERO|USER_RAISED|INVALID_|CANNOT_PARSE|SCALAR_SUBQUERY)"
)


@contextmanager
def translate_spark_errors() -> Iterator[None]:
    """Translate Spark's errors about invalid input into InvalidInputError; other errors pass."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        # Some errors of Spark are raised by its Python bridge.
        words = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        if isinstance(error, _OF_THE_CALLER) or _VALUES_AT_FAULT.search(str(error)):
            found = _VALUES_AT_FAULT.search(str(error))
            line = str(error)[found.start() :].splitlines()[0] if found else words
            raise InvalidInputError(f"Spark rejected the expression: {line}") from error
        raise


def materialize_frame(frame: DataFrame) -> DataFrame:
    """Return checkpointed rows: a second evaluation may return other rows."""
    return frame.localCheckpoint(eager=True)


def check_rows_match(state: TableState, rows: DataFrame, condition: str) -> None:
    """Raise InvalidInputError if rows of an overwrite do not match `where`."""
    outside = rows.where(f"not coalesce(({condition}), false)").limit(_EXAMPLES_MAX)
    examples = to_python_rows(outside.toArrow())
    if examples:
        raise InvalidInputError(
            f"some rows for {state.name} do not match `where` of the overwrite, "
            f"for example {examples}; remove them or widen `where`"
        )


def check_new_keys(files: SparkFileContext, state: TableState, deleted_rows: DataFrame, new: DataFrame) -> None:
    """Raise InvalidInputError if new rows have duplicate keys, among themselves or with remaining rows."""
    state.checked_keys("a change of rows")
    names = [key_column_of(place) for place in range(len(state.key_columns))]
    for key, name in zip(state.key_columns, names, strict=True):
        if not new.where(column_of(name).isNull()).isEmpty():
            raise InvalidInputError(
                f"the change would set key column {key.name!r} of {state.name} to null; set a unique key for each row"
            )
    counted = new.groupBy(*map(column_of, names)).agg(f.count(f.lit(1)).alias("rows"))
    _refuse(state, counted.where("rows > 1").limit(_EXAMPLES_MAX), "occur more than once among the new rows")
    fresh = new.join(deleted_rows.select(*map(column_of, names)), names, "left_anti")
    plan = plan_scan(state, build_key_range_predicate(state, fresh))
    existing = read_target_rows(files.lists, files.root_uri, state, plan)
    same = [column_of(key.name) == column_of(name) for key, name in zip(state.key_columns, names, strict=True)]
    keys = [column_of(key.name).alias(name) for key, name in zip(state.key_columns, names, strict=True)]
    taken = existing.join(fresh, same, "left_semi").select(*keys).limit(_EXAMPLES_MAX)
    _refuse(state, taken, "are those of existing rows")


def _refuse(state: TableState, found: DataFrame, reason: str) -> None:
    examples = to_python_rows(found.toArrow())
    if examples:
        keys = [
            {key.name: row[key_column_of(place)] for place, key in enumerate(state.key_columns)} for row in examples
        ]
        raise InvalidInputError(
            f"some keys that rows of {state.name} would get {reason}, for example {keys}; set a unique key for each row"
        )
