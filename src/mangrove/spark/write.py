"""Writes of Spark DataFrames with the native Parquet writer or with Python tasks.

Spark writes into a temporary folder below the table's folder, where the files of the
tasks appear when the job is done. Then they are made durable and renamed, and the files of
failed attempts are deleted with the folder. Python tasks write the files in a bucket,
where a file cannot be renamed, and for columns whose values must be checked one by one.

A failed or duplicate task leaves unreferenced files, which vacuum deletes. Spark's own
writer is faster and used if possible.
"""

import os
import re
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, MapType, StructType

from mangrove.errors import InvalidInputError, StorageError
from mangrove.local.data_files import FileWriter
from mangrove.local.parquet import CHECKSUM_PLACEHOLDER, FOOTER_TAIL_BYTES, find_footer_checksum, parse_footer_size
from mangrove.local.schema_projection import conform_rows, match_by_name
from mangrove.model.manifests import ColumnStatistics, DataFile
from mangrove.model.partitioning import Direction, Identity, Nulls, SortField
from mangrove.model.schema_text import format_type
from mangrove.model.types import Char, Column, DataType, Fixed, Float32, Float64, List, Map, Struct, Varchar
from mangrove.model.values import Value
from mangrove.parallel import map_parallel
from mangrove.spark.task_files import (
    create_file_id,
    encode_file_reports,
    find_column_indexes,
    group_batches,
    read_column_statistics,
    write_in_tasks,
)
from mangrove.spark.types import FIELD_ID, detect_column_types, reorder_struct_fields, to_spark_type
from mangrove.spark.write_checks import can_overflow, cast_without_overflow
from mangrove.storage.local_links import refuse_links
from mangrove.storage.opening import open_store
from mangrove.storage.uri import parse_root_uri
from mangrove.tables.table_state import TableState
from mangrove.tables.type_compatibility import check_columns
from mangrove.tables.write_plan import (
    build_data_file_path,
    estimate_row_bytes,
    estimate_rows_per_file,
    select_statistics_columns,
)

__all__ = [
    "REFUSAL_PATTERN",
    "REFUSAL_PREFIX",
    "build_sort_column",
    "can_write_natively",
    "write_natively",
    "write_rows",
]

REFUSAL_PREFIX: Final = "mangrove refuses: "
REFUSAL_PATTERN: Final = re.compile(re.escape(REFUSAL_PREFIX) + r"(.*?)(?: SQLSTATE:|$)", re.MULTILINE)
_SESSION_SETTINGS: Final = {
    # Spark's default timestamp type (INT96) is deprecated.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
_OPTIONS: Final = {
    "compression": "zstd",
    "parquet.compression.codec.zstd.level": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # With algorithm 2 a failed attempt may leave files beside those of the successful one.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    # Pages have checksums, so Hadoop's .crc files are not needed.
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
_DICTIONARY_OPTION: Final = "parquet.enable.dictionary"
_UNSPLIT_NAME: Final = re.compile(r"[\w-]+")
"""A column name that an option can have: it would split others at a dot, and remove spaces at their ends."""
_settings_lock: Final = threading.Lock()
_writes_of: Final[Counter[SparkSession]] = Counter()
_settings_before: Final[dict[SparkSession, dict[str, str | None]]] = {}


@dataclass(frozen=True, slots=True)
class _WrittenFile:
    """A file that Spark has written, with its footer."""

    path: Path
    row_count: int
    statistics: tuple[ColumnStatistics, ...]


def can_write_natively(state: TableState, store_uri: str) -> bool:
    """Return whether Spark's own writer can write the files of a table.

    It writes no field ids inside lists and maps, has no fixed-length binary type, and
    cannot check for nulls inside a struct.
    """
    return (
        store_uri.startswith("file://")
        and not state.version.partition_scheme.fields
        and all(isinstance(field.transform, Identity) for field in state.version.sort_scheme.fields)
        and all(_is_plain(column.type) for column in state.schema.columns)
    )


def write_natively(
    rows: DataFrame, state: TableState, store_uri: str, new_id: Callable[[], str], file_size_bytes: int
) -> list[DataFile]:
    """Write validated rows as new files; nulls and strings that do not fit fail the write."""
    root = Path(parse_root_uri(store_uri).path)
    location = build_data_file_path(state.table_id, new_id())
    # Spark would follow a symbolic link.
    refuse_links(store_uri, [location])
    folder = root / location.removesuffix(".parquet")
    checked = _in_order(rows.select(*_checked_columns(state, rows)), state)
    size = {"maxRecordsPerFile": str(estimate_rows_per_file(state.schema, file_size_bytes))}
    options = {**_OPTIONS, **_build_dictionary_options(state), **size}
    try:
        with _settings(rows.sparkSession):
            # With a scheme, because a path without one refers to the cluster's default file system.
            checked.write.options(**options).parquet(f"file://{folder.as_posix()}")
        found = _read_footers(folder, state)
        if found is None and not rows.isEmpty():
            raise StorageError(
                f"Spark wrote rows of {state.name} to {folder}, but it is empty here: the workers do not share this "
                "disk; use a lakehouse in a bucket or on a shared disk"
            )
        return _rename_files(found or [], root, state, new_id)
    except PySparkException as error:
        refusal = REFUSAL_PATTERN.search(str(error))
        if refusal is None:
            raise
        raise InvalidInputError(refusal[1]) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_plain(data_type: DataType) -> bool:
    if isinstance(data_type, Struct):
        return all(
            inner.nullable and _is_plain(inner.type) and not isinstance(inner.type, Char) and not _length(inner.type)
            for inner in data_type.columns
        )
    return not isinstance(data_type, List | Map | Fixed)


def _build_dictionary_options(state: TableState) -> dict[str, str]:
    """Return the options that write floats and a single key without a dictionary.

    In SQL both zeros are equal, but the lookup in a dictionary with which Spark skips row
    groups distinguishes them. The values of a single key are distinct, and the writer
    drops a dictionary of distinct values only after it has built it.
    """
    paths = [path for column in state.schema.columns for path in _list_float_paths((), column)]
    if len(state.version.keys) == 1:
        paths.append(state.schema.path_of(state.version.keys[0]))
    if all(_UNSPLIT_NAME.fullmatch(name) for path in paths for name in path):
        return {f"{_DICTIONARY_OPTION}#{'.'.join(path)}": "false" for path in paths}
    return {_DICTIONARY_OPTION: "false"}


def _list_float_paths(parent: tuple[str, ...], column: Column) -> list[tuple[str, ...]]:
    path = (*parent, column.name)
    if isinstance(column.type, Struct):
        return [found for inner in column.type.columns for found in _list_float_paths(path, inner)]
    return [path] if isinstance(column.type, Float32 | Float64) else []


def _length(data_type: DataType) -> int | None:
    return data_type.length if isinstance(data_type, Char | Varchar) else None


def _checked_columns(state: TableState, rows: DataFrame) -> list[SparkColumn]:
    """Return the columns as they are stored; the footer metadata of the last one has room for a checksum."""
    columns = state.schema.columns
    *others, last = ({FIELD_ID: column.id} for column in columns)
    metadata_of_columns: list[dict[str, Any]] = [*others, {**last, "mangrove": CHECKSUM_PLACEHOLDER}]
    return [
        _check_column(column, rows, metadata) for column, metadata in zip(columns, metadata_of_columns, strict=True)
    ]


def _check_column(column: Column, rows: DataFrame, metadata: dict[str, Any]) -> SparkColumn:
    """Return the column as it is stored, with its id; a string that is too long fails the write."""
    given = next((field for field in rows.schema.fields if field.name.casefold() == column.name.casefold()), None)
    found: Any = f.lit(None) if given is None else f.expr(f"`{given.name.replace('`', '``')}`")
    stored = to_spark_type(column.type, with_ids=True)
    if given is None or isinstance(stored, StructType) or given.dataType != stored:
        # JVM calls dominate a small write, and most columns need no conversion.
        found = found.cast(stored)
    length = _length(column.type)
    if length is not None:
        refusal = f.concat(
            f.lit(f"{REFUSAL_PREFIX}column {column.name!r} is {format_type(column.type)}, but a string has "),
            f.length(found).cast("string"),
            f.lit(" characters; shorten it"),
        )
        fitting = f.rpad(found, length, " ") if isinstance(column.type, Char) else found
        found = f.when(f.length(found) > length, f.raise_error(refusal)).otherwise(fitting)
    with_id: SparkColumn = found.alias(column.name, metadata=metadata)
    return with_id


def _in_order(rows: DataFrame, state: TableState) -> DataFrame:
    fields = state.version.sort_scheme.fields
    return rows.sortWithinPartitions(*(build_sort_column(state, field) for field in fields)) if fields else rows


def build_sort_column(state: TableState, field: SortField) -> SparkColumn:
    """Return the Spark sort expression of a sort field without a transform."""
    path = ".".join(f"`{name.replace('`', '``')}`" for name in state.schema.path_of(field.source_id))
    column = f.col(path)
    if field.direction is Direction.ASCENDING:
        return column.asc_nulls_first() if field.nulls is Nulls.FIRST else column.asc_nulls_last()
    return column.desc_nulls_first() if field.nulls is Nulls.FIRST else column.desc_nulls_last()


@contextmanager
def _settings(session: SparkSession) -> Iterator[None]:
    """Apply the write settings to a session until its last concurrent write ends, then restore them."""
    with _settings_lock:
        if not _writes_of[session]:
            _settings_before[session] = {name: session.conf.get(name, None) for name in _SESSION_SETTINGS}
            for name, value in _SESSION_SETTINGS.items():
                session.conf.set(name, value)
        _writes_of[session] += 1
    try:
        yield
    finally:
        with _settings_lock:
            _writes_of[session] -= 1
            if not _writes_of[session]:
                for name, before in _settings_before.pop(session).items():
                    _set_back(session, name, before)


def _set_back(session: SparkSession, name: str, value: str | None) -> None:
    if value is None:
        session.conf.unset(name)
    else:
        session.conf.set(name, value)


def _read_footers(folder: Path, state: TableState) -> list[_WrittenFile] | None:
    """Return the files with rows, or None without files; nulls in required columns are an error."""
    paths = sorted(folder.glob("*.parquet"))
    if not paths:
        return None
    version = state.version
    first = (*version.keys, *(field.source_id for field in version.partition_scheme.fields))
    statistics_columns = select_statistics_columns(state.schema, first)
    strict = [column for column in state.schema.columns if not column.nullable]
    footer = pq.read_metadata(paths[0])
    # All files of one write have the same leaf columns.
    statistics_indexes = find_column_indexes(footer, statistics_columns)
    strict_places = find_column_indexes(footer, [((column.name,), column.id) for column in strict])

    def read(path: Path) -> tuple[_WrittenFile, dict[int, int]]:
        footer = pq.read_metadata(path)
        known = {one.column_id: one for one in read_column_statistics(footer, strict_places | statistics_indexes)}
        nulls = {column_id: known[column_id].null_count or 0 for column_id in strict_places}
        return _WrittenFile(path, footer.num_rows, tuple(known[one] for one in sorted(statistics_indexes))), nulls

    found = [(file, nulls) for file, nulls in map_parallel(read, paths) if file.row_count]
    for column in strict:
        _refuse_nulls(column, sum(nulls.get(column.id, 0) for _, nulls in found))
    return [file for file, _ in found]


def _refuse_nulls(column: Column, nulls: int) -> None:
    if nulls:
        raise InvalidInputError(
            f"column {column.name!r} is not null, and {nulls} row(s) have no value in it; remove them or set a value"
        )


def _rename_files(
    found: list[_WrittenFile], root: Path, state: TableState, new_id: Callable[[], str]
) -> list[DataFile]:
    """Rename the files to their final names, durably."""
    version = state.version
    width = estimate_row_bytes(state.schema)

    def settle(file: _WrittenFile) -> DataFile:
        location = build_data_file_path(state.table_id, new_id())
        _write_footer_checksum(file.path)
        _sync(file.path)
        size = file.path.stat().st_size
        file.path.rename(root / location)
        return DataFile(
            location,
            size,
            file.row_count,
            schema_id=state.schema.schema_id,
            sort_scheme_id=version.sort_scheme.id if version.sort_scheme.fields else None,
            source_size_bytes=file.row_count * width,
            statistics=file.statistics,
        )

    files = map_parallel(settle, found)
    if files:
        for place in (root / files[0].location).parents:
            _sync(place)
            if place == root:
                break
    return files


def _write_footer_checksum(path: Path) -> None:
    """Write the footer checksum into a file, unless another user owns it."""
    if not os.access(path, os.W_OK):
        return
    with path.open("r+b") as file:
        file.seek(-FOOTER_TAIL_BYTES, os.SEEK_END)
        file.seek(-parse_footer_size(file.read()), os.SEEK_END)
        found = find_footer_checksum(file.read())
        if found is not None:
            before_end, seal = found
            file.seek(-before_end, os.SEEK_END)
            file.write(seal)


def _sync(path: Path) -> None:
    """Sync a file or folder to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_REFUSAL: Final = re.compile(r"mangrove\.errors\.InvalidInputError: (.*)|" + REFUSAL_PATTERN.pattern, re.MULTILINE)


def write_rows(
    rows: DataFrame,
    state: TableState,
    store_uri: str,
    storage_options: Mapping[str, str] | None,
    file_size_bytes: int,
) -> list[tuple[tuple[Value | None, ...], DataFile]]:
    """Write the rows as new files, and return each with its partition values."""
    check_columns(state.name, state.schema, detect_column_types(rows.schema))
    rows = _without_overflow(_by_field_names(rows, state), state)
    if can_write_natively(state, store_uri):
        return [((), file) for file in write_natively(rows, state, store_uri, create_file_id, file_size_bytes)]
    # Workers need the columns but not the deltas.
    bare = replace(state, logs=())

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = open_store(store_uri, storage_options)
        files = FileWriter(store, create_file_id, file_size_bytes)
        for part in group_batches(batches, file_size_bytes):
            checked = conform_rows(part, bare.schema, match_by_name, is_checked=True)
            yield encode_file_reports(files.write(bare, checked))

    try:
        return write_in_tasks(_cast(rows, state), write)
    except PySparkException as error:
        refusal = _REFUSAL.search(str(error))
        if refusal is None:
            raise
        raise InvalidInputError(refusal[1] or refusal[2]) from error


def _by_field_names(rows: DataFrame, state: TableState) -> DataFrame:
    """Return the rows with struct fields in the order of the table."""
    expected = {column.name.casefold(): to_spark_type(column.type) for column in state.schema.columns}
    ordered = {}
    for field in rows.schema.fields:
        if not isinstance(field.dataType, ArrayType | MapType | StructType):
            continue
        value = f.col(f"`{field.name.replace('`', '``')}`")
        found = reorder_struct_fields(value, field.dataType, expected[field.name.casefold()])
        if found is not value:
            ordered[field.name] = found
    return rows.withColumns(ordered) if ordered else rows


def _without_overflow(rows: DataFrame, state: TableState) -> DataFrame:
    """Cast doubles to float columns; a value that is too large fails the write."""
    expected = {column.name.casefold(): column for column in state.schema.columns}
    narrowed = {}
    for field in rows.schema.fields:
        column = expected[field.name.casefold()]
        if can_overflow(field.dataType, to_spark_type(column.type)):
            message = f"{REFUSAL_PREFIX}column {column.name!r} is {format_type(column.type)}, which cannot hold "
            value = f.col(f"`{field.name.replace('`', '``')}`")
            narrowed[field.name] = cast_without_overflow(value, field.dataType, to_spark_type(column.type), message)
    return rows.withColumns(narrowed) if narrowed else rows


def _cast(rows: DataFrame, state: TableState) -> DataFrame:
    """Return the rows with the columns of the table in order; a value that does not fit fails the write."""
    given = {name.casefold(): name for name in rows.columns}
    columns = []
    for column in state.schema.columns:
        name = given.get(column.name.casefold())
        expected = to_spark_type(column.type)
        found: Any = f.lit(None) if name is None else f.col(f"`{name.replace('`', '``')}`")
        columns.append(found.cast(expected).alias(column.name))
    return rows.select(*columns)
