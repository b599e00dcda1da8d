"""Target rows of a row-level change with their file and row position."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from mangrove.local.scan import FILE_PATH, POSITION
from mangrove.model.schema import Schema
from mangrove.spark.file_lists import FileLists, ListedFile
from mangrove.spark.scan import BROADCAST_ROWS_MAX, alias_reused_columns, restore_column_names, to_listed_files
from mangrove.spark.types import to_spark_schema
from mangrove.tables.scan_plan import EqualityDelete, FileScan, ScanPlan, plan_scan
from mangrove.tables.table_state import TableState

__all__ = ["FILE", "ROW", "column_of", "number_files", "read_target_rows"]

FILE: Final = "mangrove file"
"""Column with the number of a row's file; the space avoids collisions with table columns."""
ROW: Final = "mangrove row"
"""Column with a row's position in its file, from 0."""
_POSITION_COLUMN: Final = "mangrove position"
_DELETED_BEFORE: Final = "mangrove deleted before"
_OTHER: Final = "mangrove other"


def column_of(name: str, of: str | None = None) -> Column:
    """Return a column by its exact name, optionally qualified by a frame alias."""
    quoted = f"`{name.replace('`', '``')}`"
    return f.col(quoted if of is None else f"`{of}`.{quoted}")


def number_files(state: TableState) -> dict[str, int]:
    """Return a number for each live data file."""
    return {scan.file.location: number for number, scan in enumerate(plan_scan(state).scans)}


def read_target_rows(
    lists: FileLists, root_uri: str, state: TableState, plan: ScanPlan, numbers: Mapping[str, int]
) -> DataFrame:
    """Return the visible rows of a scan plan with all columns of the table, `FILE` and `ROW`."""
    if not plan.scans:
        empty = lists.read([], to_spark_schema(state.schema))
        return empty.withColumns({FILE: f.lit(0).cast("bigint"), ROW: f.lit(0).cast("bigint")})
    aliased = alias_reused_columns(state.schema, state.version.earlier_schemas)
    schema = to_spark_schema(aliased)
    whole = [scan for scan in plan.scans if scan.is_whole]
    touched = [scan for scan in plan.scans if not scan.is_whole]
    kinds = [_number_scans(some, root_uri, numbers) for some in (whole, touched) if some]
    parts = [lists.read_numbered(some, schema, FILE, ROW) for some in kinds]
    if touched:
        parts[-1] = _visible(lists, root_uri, aliased, parts[-1], touched, numbers)
    return restore_column_names(reduce(lambda left, right: left.unionByName(right), parts), aliased, state.schema)


def _number_scans(scans: Sequence[FileScan], root_uri: str, numbers: Mapping[str, int]) -> list[ListedFile]:
    files = to_listed_files([scan.file for scan in scans], root_uri)
    return [replace(file, number=numbers[scan.file.location]) for file, scan in zip(files, scans, strict=True)]


def _visible(
    lists: FileLists,
    root_uri: str,
    schema: Schema,
    rows: DataFrame,
    scans: Sequence[FileScan],
    numbers: Mapping[str, int],
) -> DataFrame:
    """Return the rows that neither a newer key nor a position delete deletes."""
    live_by_location = [(numbers[scan.file.location], scan.position) for scan in scans]
    positions = lists.session.createDataFrame(live_by_location, f"`{_OTHER}` bigint, `{_POSITION_COLUMN}` bigint")
    rows = rows.join(f.broadcast(positions), column_of(FILE) == column_of(_OTHER)).drop(_OTHER)
    delete_files = dict.fromkeys(key_file for scan in scans for key_file in scan.equality_deletes)
    for key_ids in dict.fromkeys(key_file.key_ids for key_file in delete_files):
        chosen = [key_file for key_file in delete_files if key_file.key_ids == key_ids]
        rows = _without_keys(lists, root_uri, schema, rows, chosen)
    deletes = [scan for scan in scans if scan.position_deletes]
    if deletes:
        rows = _without_numbers(lists, root_uri, rows, deletes, numbers)
    return rows.drop(_POSITION_COLUMN)


def _without_keys(
    lists: FileLists, root_uri: str, schema: Schema, rows: DataFrame, key_files: Sequence[EqualityDelete]
) -> DataFrame:
    columns = tuple(schema.column_with_id(key_id) for key_id in key_files[0].key_ids)
    only_keys = to_spark_schema(Schema(columns, last_column_id=schema.last_column_id))
    files = to_listed_files([key_file.file for key_file in key_files], root_uri)
    placed = [replace(file, number=one.position) for file, one in zip(files, key_files, strict=True)]
    found = lists.read_numbered(placed, only_keys, _DELETED_BEFORE)
    keys = found.select(
        column_of(_DELETED_BEFORE),
        *(column_of(key.name).alias(f"{_OTHER} {place}") for place, key in enumerate(columns)),
    )
    if sum(key_file.file.row_count for key_file in key_files) <= BROADCAST_ROWS_MAX:
        keys = f.broadcast(keys)
    is_deleted = column_of(_POSITION_COLUMN) < column_of(_DELETED_BEFORE)
    for place, key in enumerate(columns):
        is_deleted = is_deleted & (column_of(key.name) == column_of(f"{_OTHER} {place}"))
    return rows.join(keys, is_deleted, "left_anti")


def _without_numbers(
    lists: FileLists, root_uri: str, rows: DataFrame, scans: Sequence[FileScan], numbers: Mapping[str, int]
) -> DataFrame:
    files = list(dict.fromkeys(file for scan in scans for file in scan.position_deletes))
    position_deletes = lists.read(to_listed_files(files, root_uri), to_spark_schema(Schema((FILE_PATH, POSITION))))
    file_numbers = [(scan.file.location, numbers[scan.file.location]) for scan in scans]
    names = lists.session.createDataFrame(file_numbers, f"location string, `{_OTHER} file` bigint")
    deleted = position_deletes.join(f.broadcast(names), column_of(FILE_PATH.name) == column_of("location")).select(
        column_of(f"{_OTHER} file"), column_of(POSITION.name).alias(f"{_OTHER} row")
    )
    if sum(file.row_count for file in files) <= BROADCAST_ROWS_MAX:
        deleted = f.broadcast(deleted)
    is_deleted_row = (column_of(FILE) == column_of(f"{_OTHER} file")) & (column_of(ROW) == column_of(f"{_OTHER} row"))
    return rows.join(deleted, is_deleted_row, "left_anti")
