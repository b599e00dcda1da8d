"""Files written by Spark tasks: ids, batching, footer statistics and reports.

Footers have no NaN counts, so the NaN count of a float column is unknown. If a footer has
NaN as a bound, both bounds are ignored.

A report is text, because it is returned to the driver in a column.
"""

import json
import math
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame

from mangrove.errors import InvalidInputError
from mangrove.model.json_codec import from_json, to_json, value_from_json, value_to_json
from mangrove.model.manifests import ColumnStatistics, DataFile
from mangrove.model.values import Value, normalize_value, truncate_lower_bound, truncate_upper_bound

__all__ = [
    "REPORT_SCHEMA",
    "create_file_id",
    "decode_file_reports",
    "encode_file_reports",
    "find_column_indexes",
    "group_batches",
    "read_column_statistics",
    "write_in_tasks",
]


@dataclass(frozen=True, slots=True)
class _Chunk:
    """One column in one row group."""

    value_count: int
    null_count: int | None
    bounds: tuple[Value, Value] | None


def find_column_indexes(footer: Any, columns: Iterable[tuple[Sequence[str], int]]) -> dict[int, int]:
    """Return the leaf positions of the columns at these paths by id; the same in all files of one write.

    Ambiguous paths, because of a dot in a name, are omitted.
    """
    paths = [footer.schema.column(place).path for place in range(footer.num_columns)]
    counts = Counter(paths)
    found = {path: place for place, path in enumerate(paths) if counts[path] == 1}
    return {column_id: found[".".join(path)] for path, column_id in columns if ".".join(path) in found}


def read_column_statistics(footer: Any, places: Mapping[int, int]) -> tuple[ColumnStatistics, ...]:
    """Return counts and bounds of the columns at these leaf positions, in order of their ids."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    return tuple(
        _combine_chunks(column_id, [_chunk(group.column(place)) for group in groups])
        for column_id, place in sorted(places.items())
    )


def _chunk(column: Any) -> _Chunk:
    statistics = column.statistics
    if statistics is None:
        return _Chunk(column.num_values, None, None)
    null_count = statistics.null_count if statistics.has_null_count else None
    bounds = (_plain(statistics, "min"), _plain(statistics, "max")) if statistics.has_min_max else (None, None)
    low, high = bounds
    return _Chunk(column.num_values, null_count, None if low is None or high is None else (low, high))


def _plain(statistics: Any, which: str) -> Value | None:
    """Return a bound as a Python value, or None if it is not representable or invalid."""
    try:
        value = getattr(statistics, which)
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return None
        return normalize_value(value)
    except (ValueError, OverflowError, InvalidInputError):
        return None


def _combine_chunks(column_id: int, chunks: Sequence[_Chunk]) -> ColumnStatistics:
    null_counts = [chunk.null_count for chunk in chunks if chunk.null_count is not None]
    value_count = sum(chunk.value_count for chunk in chunks)
    # A chunk of nulls has no bounds and needs none.
    valued = [chunk for chunk in chunks if chunk.null_count != chunk.value_count]
    bounds: list[tuple[Any, Any]] = [chunk.bounds for chunk in valued if chunk.bounds is not None]
    low: Any = None
    high: Any = None
    if bounds and len(bounds) == len(valued):
        low = truncate_lower_bound(min(one for one, _ in bounds))
        high = truncate_upper_bound(max(two for _, two in bounds))
    return ColumnStatistics(
        column_id,
        null_count=sum(null_counts) if len(null_counts) == len(chunks) else None,
        value_count=value_count,
        minimum=low,
        maximum=high,
    )


REPORT_SCHEMA: Final = "report string"
"""The Spark schema of a task's report."""


def create_file_id() -> str:
    """Return a unique id; each attempt of a task uses a new one."""
    return str(uuid.uuid4())


def group_batches(batches: Iterable[pa.RecordBatch], size_bytes: int) -> Iterator[pa.Table]:
    """Yield batches combined up to the size of a file, which bounds the memory of a task."""
    waiting: list[pa.RecordBatch] = []
    waiting_bytes = 0
    for batch in batches:
        waiting.append(batch)
        waiting_bytes += batch.nbytes
        if waiting_bytes >= size_bytes:
            yield pa.Table.from_batches(waiting)
            waiting, waiting_bytes = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def write_in_tasks(
    rows: DataFrame, write: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
) -> list[tuple[tuple[Value | None, ...], DataFile]]:
    """Write the rows in tasks, and return the reported files with the values of their partition or log.

    The columns are named by number, because Spark would split names at dots and backticks.
    """
    names = rows.columns

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return write(pa.RecordBatch.from_arrays(batch.columns, names=names) for batch in batches)

    numbered = rows.toDF(*(f"column_{place}" for place in range(len(names))))
    return decode_file_reports(numbered.mapInArrow(work, REPORT_SCHEMA).collect())


def encode_file_reports(files: Iterable[tuple[Sequence[Value | None], DataFile]]) -> pa.RecordBatch:
    """Return the report of the files of a task with the values of their partition or log."""
    texts = [
        json.dumps({"values": [value_to_json(value) for value in values], "file": to_json(file)})
        for values, file in files
    ]
    return pa.RecordBatch.from_pydict({"report": pa.array(texts, pa.string())})


def decode_file_reports(rows: Iterable[Any]) -> list[tuple[tuple[Value | None, ...], DataFile]]:
    """Return the files of the tasks' reports."""
    found = (json.loads(row["report"]) for row in rows)
    return [
        (tuple(value_from_json(value) for value in report["values"]), from_json(report["file"], DataFile))
        for report in found
    ]
