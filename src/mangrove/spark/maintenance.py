"""File copy, file deletion and row counting on Spark executors.

The driver plans the work and each task opens the stores itself, so no data file passes
through the driver.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql import Row, SparkSession

from mangrove.errors import FormatError, StorageError
from mangrove.local.parquet import count_rows
from mangrove.maintenance.copy import copy_files, split_into_batches
from mangrove.maintenance.export_records import open_export
from mangrove.maintenance.progress import Progress, ProgressCallback, ignore_progress
from mangrove.model.manifests import DataFile
from mangrove.storage.opening import open_store
from mangrove.storage.port import Store

__all__ = ["SparkMaintenance"]

_FILES_PER_TASK: Final = 256
_BYTES_PER_TASK: Final = 256 * 1024 * 1024
_DELETED_PER_TASK: Final = 1000
"""Number of files that a store deletes in one request."""
_TASKS_PER_JOB: Final = 256
"""Number of tasks after which the driver reports progress."""
_TASK: Final = "files array<struct<path: string, size: bigint>>"
_Options: TypeAlias = Mapping[str, str] | None
_Work: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class SparkMaintenance:
    """Maintenance jobs of one Spark session, with the storage options for its workers."""

    def __init__(
        self, session: SparkSession, source_options: _Options = None, destination_options: _Options = None
    ) -> None:
        self._session = session
        self._source_options = source_options
        self._destination_options = destination_options

    def copy_files(
        self,
        source: Store,
        destination: Store,
        sizes: Mapping[str, int],
        watch: ProgressCallback,
        *,
        last: str | None = None,
    ) -> None:
        """Copy files of known size; the file `last` is copied after all others."""
        first = {path: size for path, size in sizes.items() if path != last}
        source_uri, destination_uri = source.uri, destination.uri
        source_options, destination_options = self._source_options, self._destination_options

        def copy(tasks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            source, destination = (
                _readable(source_uri, source_options),
                open_store(destination_uri, destination_options),
            )
            for task in tasks:
                sizes = _files(task)
                copy_files(source, destination, sizes, ignore_progress)
                yield _paths(sizes)

        done: set[str] = set()
        watch(_progress("copying", done, sizes))
        for rows in self._in_jobs(
            copy, "path string", split_into_batches(first, _FILES_PER_TASK, _BYTES_PER_TASK), sizes
        ):
            done |= {row.path for row in rows}
            watch(_progress("copying", done, sizes))
        if done != first.keys():
            raise StorageError(
                f"{len(first) - len(done)} files were not copied to {destination_uri}, without an error; retry the copy"
            )
        if last is not None and last in sizes:
            copy_files(source, destination, {last: sizes[last]}, ignore_progress)
            watch(_progress("copying", sizes.keys(), sizes))

    def delete_files(self, store: Store, sizes: Mapping[str, int], watch: ProgressCallback) -> None:
        """Delete the files, ignoring missing ones, so that tasks can be retried."""
        uri, options = store.uri, self._source_options

        def delete(tasks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            source = open_store(uri, options)
            for task in tasks:
                sizes = _files(task)
                source.delete_many(list(sizes))
                yield _paths(sizes)

        done: set[str] = set()
        waiting = split_into_batches(sizes, _DELETED_PER_TASK, sum(sizes.values()))
        for rows in self._in_jobs(delete, "path string", waiting, sizes):
            done |= {row.path for row in rows}
            watch(_progress("deleting", done, sizes))

    def row_counter(self, store: Store, files: Sequence[DataFile], watch: ProgressCallback) -> dict[str, int | str]:
        """Return the row count of each file after reading all rows, or the reason why it is unreadable.

        Page checksums are verified.
        """
        uri, options = store.uri, self._source_options

        def count(tasks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            source = _readable(uri, options)
            for task in tasks:
                sizes = _files(task)
                counts = [_count_file_rows(source, DataFile(path, size, 0)) for path, size in sizes.items()]
                yield pa.RecordBatch.from_pydict(
                    {
                        "path": pa.array(list(sizes), pa.string()),
                        "rows": pa.array([one if isinstance(one, int) else None for one in counts], pa.int64()),
                        "problem": pa.array([one if isinstance(one, str) else None for one in counts], pa.string()),
                    }
                )

        sizes = {file.location: file.size_bytes for file in files}
        answers: dict[str, int | str] = {}
        waiting = split_into_batches(sizes, _FILES_PER_TASK, _BYTES_PER_TASK)
        for rows in self._in_jobs(count, "path string, rows bigint, problem string", waiting, sizes):
            answers |= {row.path: row.problem if row.rows is None else row.rows for row in rows}
            watch(_progress("counting rows", answers.keys(), sizes))
        return answers

    def _in_jobs(
        self, work: _Work, columns: str, waiting: Iterator[list[str]], sizes: Mapping[str, int]
    ) -> Iterator[list[Row]]:
        """Run the work on executors for each group of files, and yield their reports in batches."""
        while tasks := list(islice(waiting, _TASKS_PER_JOB)):
            listed = [([(path, sizes[path]) for path in task],) for task in tasks]
            frame = self._session.createDataFrame(listed, _TASK).repartition(len(listed))
            yield frame.mapInArrow(work, columns).collect()


def _readable(uri: str, options: _Options) -> Store:
    """Open a lakehouse's store in a worker; a shallow export is layered over its source."""
    return open_export(open_store(uri, options), lambda below: open_store(below, options))


def _progress(what: str, done: Collection[str], sizes: Mapping[str, int]) -> Progress:
    return Progress(what, len(done), len(sizes), sum(sizes[path] for path in done), sum(sizes.values()))


def _files(task: pa.RecordBatch) -> dict[str, int]:
    """Return the paths and sizes of a task's input."""
    rows: list[Any] = task.column(0).to_pylist()
    return {entry["path"]: entry["size"] for row in rows for entry in row}


def _paths(files: Mapping[str, int]) -> pa.RecordBatch:
    """Return the report of a task."""
    return pa.RecordBatch.from_pydict({"path": pa.array(list(files), pa.string())})


def _count_file_rows(store: Store, file: DataFile) -> int | str:
    try:
        return count_rows(store, file)
    except FormatError as error:
        return str(error)
