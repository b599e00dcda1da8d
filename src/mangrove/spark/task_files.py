"""What tasks that write files have in common: fresh ids, rows gathered up to a file's size, and a report of each file.

A report is text, because it travels from a worker to the driver in a column.
"""

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame

from mangrove.model.json_form import from_json, to_json, value_from_json, value_to_json
from mangrove.model.manifests import DataFile
from mangrove.model.values import Value

__all__ = ["REPORTS", "gathered", "new_id", "reported", "reports", "written_by_tasks"]

REPORTS: Final = "report string"
"""The columns that such a task returns, in Spark's words."""


def new_id() -> str:
    """Return an id that no other task has: each attempt to write takes a fresh one."""
    return str(uuid.uuid4())


def gathered(batches: Iterable[pa.RecordBatch], size_bytes: int) -> Iterator[pa.Table]:
    """Yield the batches joined up to the size of a file, so that a task holds no more than that."""
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


def written_by_tasks(
    rows: DataFrame, write: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
) -> list[tuple[tuple[Value | None, ...], DataFile]]:
    """Have tasks write the rows, and return the files that they report, each with the values of its partition or log.

    The columns travel under numbers: Spark would take names apart at dots and backticks on the way.
    """
    names = rows.columns

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return write(pa.RecordBatch.from_arrays(batch.columns, names=names) for batch in batches)

    numbered = rows.toDF(*(f"column_{place}" for place in range(len(names))))
    return reported(numbered.mapInArrow(work, REPORTS).collect())


def reports(files: Iterable[tuple[Sequence[Value | None], DataFile]]) -> pa.RecordBatch:
    """Return what a task says of the files that it wrote, each with the values of its partition or log."""
    texts = [
        json.dumps({"values": [value_to_json(value) for value in values], "file": to_json(file)})
        for values, file in files
    ]
    return pa.RecordBatch.from_pydict({"report": pa.array(texts, pa.string())})


def reported(rows: Iterable[Any]) -> list[tuple[tuple[Value | None, ...], DataFile]]:
    """Return the files that tasks said they wrote, from the rows that Spark brings to the driver."""
    found = (json.loads(row["report"]) for row in rows)
    return [
        (tuple(value_from_json(value) for value in report["values"]), from_json(report["file"], DataFile))
        for report in found
    ]
