"""Conversion between data files and Iceberg manifest entries.

Published bounds must hold in the sort order of every engine:

    NaN among the values            no upper bound: Spark and DuckDB sort NaN as the greatest number
    only NaN                        no NaN count: Iceberg would skip the file for every comparison
    nulls or NaN were not counted   no bounds: Iceberg assumes that all rows are within the bounds
    UUIDs                           no bounds: some engines compare the halves as signed numbers

A missing bound only prevents pruning; a wrong bound would lose rows.
"""

from collections.abc import Iterable
from typing import Any, Final, TypeVar

from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.typedef import Record

from mangrove.errors import InvalidInputError
from mangrove.iceberg.deletion_vectors import BLOB_OFFSET
from mangrove.iceberg.schemas import is_uuid
from mangrove.iceberg.values import decode_bound, encode_bound
from mangrove.model.manifests import PARQUET, ColumnStatistics, DataFile, FileKind
from mangrove.model.schema import Schema
from mangrove.model.types import Column, Float32, Float64, is_nested
from mangrove.model.values import Value, truncate_lower_bound, truncate_upper_bound

__all__ = [
    "DELETED_PATH_ID",
    "DELETED_ROW_ID",
    "find_deleted_data_file",
    "from_iceberg_data_file",
    "to_iceberg_data_file",
]

T = TypeVar("T")

DELETED_PATH_ID: Final = 2**31 - 102
"""Iceberg field id of `file_path` in position delete files."""
DELETED_ROW_ID: Final = 2**31 - 103
"""Iceberg field id of `pos` in position delete files."""

_CONTENTS: Final = {
    FileKind.DATA: DataFileContent.DATA,
    FileKind.POSITION_DELETES: DataFileContent.POSITION_DELETES,
    FileKind.KEY_DELETES: DataFileContent.EQUALITY_DELETES,
}
_KINDS: Final = {content: kind for kind, content in _CONTENTS.items()}
_CONTENT_TYPES: Final = {
    FileFormat.PARQUET: PARQUET,
    FileFormat.AVRO: "application/avro",
    FileFormat.ORC: "application/orc",
}


def to_iceberg_data_file(
    file: DataFile,
    address: str,
    record: Record,
    schema: Schema,
    spec_id: int,
    *,
    sort_order_id: int | None = None,
    first_row_id: int | None = None,
    deleted_from: str | None = None,
    vector_size: int | None = None,
) -> IcebergFile:
    """Return the manifest entry of a file at location `address` in the partition `record`.

    `deleted_from` is the location of the one data file that position deletes apply to, and
    `vector_size` the size of their deletion vector. Format version 2 has no fields for row ids
    and deletion vectors, which its manifests omit.
    """
    is_by_position = file.kind is FileKind.POSITION_DELETES
    metrics = _encode_position_delete_bounds(file, deleted_from) if is_by_position else _encode_statistics(file, schema)
    entry = IcebergFile.from_args(
        _table_format_version=3,
        content=_CONTENTS[file.kind],
        file_path=address,
        file_format=FileFormat.PARQUET if vector_size is None else FileFormat.PUFFIN,
        partition=record,
        record_count=file.row_count,
        file_size_in_bytes=file.size_bytes,
        key_metadata=None,
        split_offsets=None,
        equality_ids=list(file.key_ids) if file.kind is FileKind.KEY_DELETES else None,
        sort_order_id=sort_order_id,
        first_row_id=first_row_id,
        referenced_data_file=deleted_from,
        content_offset=None if vector_size is None else BLOB_OFFSET,
        content_size_in_bytes=vector_size,
        **metrics,
    )
    entry.spec_id = spec_id
    return entry


def from_iceberg_data_file(
    found: IcebergFile,
    location: str,
    schema: Schema,
    *,
    partition_values: tuple[Value | None, ...] | None = None,
    sort_scheme_id: str | None = None,
    applies_to: str | None = None,
) -> DataFile:
    """Return the data file of a client's manifest entry, with the statistics of the columns in `schema`.

    `location` is the path of the file, `applies_to` that of the data file of position deletes.
    """
    if found.key_metadata is not None:
        raise InvalidInputError(f"{found.file_path} is encrypted, which is not supported; write it unencrypted")
    kind = _KINDS[found.content]
    key_ids = tuple(found.equality_ids or ()) if kind is FileKind.KEY_DELETES else ()
    if kind is FileKind.KEY_DELETES:
        _check_keys(found, key_ids, schema)
    return DataFile(
        location=location,
        size_bytes=found.file_size_in_bytes,
        row_count=found.record_count,
        kind=kind,
        content_type=_CONTENT_TYPES.get(FileFormat(found.file_format), f"application/{found.file_format}".lower()),
        schema_id=schema.schema_id,
        partition_values=partition_values,
        sort_scheme_id=sort_scheme_id,
        applies_to=applies_to if kind is FileKind.POSITION_DELETES else None,
        key_ids=key_ids,
        statistics=() if kind is FileKind.POSITION_DELETES else _own_statistics(found, schema),
    )


def find_deleted_data_file(found: IcebergFile) -> str | None:
    """Return the location of the one data file of position deletes, or None if there may be several."""
    low = (found.lower_bounds or {}).get(DELETED_PATH_ID)
    if found.content is not DataFileContent.POSITION_DELETES or not low:
        return None
    if low != (found.upper_bounds or {}).get(DELETED_PATH_ID):
        return None
    try:
        return low.decode()
    except UnicodeDecodeError:
        return None


def _encode_statistics(file: DataFile, schema: Schema) -> dict[str, Any]:
    """Return counts and bounds by their Iceberg names, without dropped columns."""
    columns = _columns_of(schema) if file.statistics else {}
    known = [one for one in file.statistics if one.column_id in columns]
    return {
        "column_sizes": _statistics_by_column((one.column_id, one.size_bytes) for one in known),
        "value_counts": _statistics_by_column((one.column_id, one.value_count) for one in known),
        "null_value_counts": _statistics_by_column((one.column_id, one.null_count) for one in known),
        "nan_value_counts": _statistics_by_column(
            (one.column_id, one.nan_count) for one in known if not _is_only_nan(one)
        ),
        "lower_bounds": _statistics_by_column((one.column_id, _lower(one, columns[one.column_id])) for one in known),
        "upper_bounds": _statistics_by_column((one.column_id, _upper(one, columns[one.column_id])) for one in known),
    }


def _statistics_by_column(statistics: Iterable[tuple[int, T | None]]) -> dict[int, T]:
    return {column_id: value for column_id, value in statistics if value is not None}


def _is_only_nan(known: ColumnStatistics) -> bool:
    return known.nan_count is not None and known.nan_count == known.value_count


def _encode_position_delete_bounds(file: DataFile, address: str | None) -> dict[str, Any]:
    """Return the metrics of position deletes; equal bounds of `file_path` mean a single data file."""
    bounds = {} if address is None else {DELETED_PATH_ID: address.encode()}
    counts = {DELETED_PATH_ID: file.row_count, DELETED_ROW_ID: file.row_count}
    return {
        "column_sizes": {},
        "value_counts": counts,
        "null_value_counts": dict.fromkeys(counts, 0),
        "nan_value_counts": {},
        "lower_bounds": bounds,
        "upper_bounds": bounds,
    }


def _lower(known: ColumnStatistics, column: Column) -> bytes | None:
    if known.minimum is None or not _has_bounds(known, column):
        return None
    return encode_bound(known.minimum, column.type)


def _upper(known: ColumnStatistics, column: Column) -> bytes | None:
    # NaN values are counted wherever bounds of floats are published.
    if known.maximum is None or known.nan_count or not _has_bounds(known, column):
        return None
    return encode_bound(known.maximum, column.type, is_upper=True)


def _has_bounds(known: ColumnStatistics, column: Column) -> bool:
    is_float = isinstance(column.type, Float32 | Float64)
    is_counted = known.null_count is not None and (known.nan_count is not None or not is_float)
    return is_counted and _is_bounded(column)


def _own_statistics(found: IcebergFile, schema: Schema) -> tuple[ColumnStatistics, ...]:
    by_name = (found.value_counts, found.null_value_counts, found.nan_value_counts, found.column_sizes)
    values, nulls, not_numbers, sizes = (counts or {} for counts in by_name)
    lower, upper = found.lower_bounds or {}, found.upper_bounds or {}
    columns = _columns_of(schema)
    ids = {*values, *nulls, *not_numbers, *sizes, *lower, *upper}
    statistics: list[ColumnStatistics] = []
    for column_id in sorted(ids & columns.keys()):
        low = _own_bound(found, columns[column_id], lower.get(column_id))
        high = _own_bound(found, columns[column_id], upper.get(column_id))
        try:
            known = ColumnStatistics(
                column_id,
                null_count=nulls.get(column_id),
                nan_count=not_numbers.get(column_id),
                value_count=values.get(column_id),
                size_bytes=sizes.get(column_id),
                minimum=None if low is None else truncate_lower_bound(low),
                maximum=None if high is None else truncate_upper_bound(high),
            )
        except InvalidInputError as error:
            raise InvalidInputError(
                f"{found.file_path} has invalid statistics: {error}; rewrite its manifest entry"
            ) from error
        statistics.append(known)
    return tuple(statistics)


def _own_bound(found: IcebergFile, column: Column, data: bytes | None) -> Value | None:
    return None if data is None or not _is_bounded(column) else decode_bound(data, column.type, found.file_path)


def _is_bounded(column: Column) -> bool:
    return not is_nested(column.type) and not is_uuid(column)


def _check_keys(found: IcebergFile, key_ids: tuple[int, ...], schema: Schema) -> None:
    outer = {column.id for column in schema.columns}
    if not key_ids or len(set(key_ids)) != len(key_ids) or not outer.issuperset(key_ids):
        raise InvalidInputError(
            f"equality delete file {found.file_path} has invalid equality ids {list(key_ids)}; expected distinct ids "
            "of top-level columns"
        )


def _columns_of(schema: Schema) -> dict[int, Column]:
    return {column.id: column for _, column in schema.all_columns()}
