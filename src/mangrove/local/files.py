"""New data files: rows divided by partition and size, written under fresh names."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from mangrove.local.grouping import in_sort_order, partitioned
from mangrove.local.parquet import encoded
from mangrove.local.positions import position_rows
from mangrove.local.statistics import statistics_of
from mangrove.model.manifests import DataFile, FileKind
from mangrove.model.values import Value
from mangrove.storage.port import Store
from mangrove.tables.table_state import TableState
from mangrove.tables.writing import FILE_SIZE_BYTES, data_file_path, row_slices, statistics_columns

__all__ = ["TOGETHER_MAX", "FileWriter"]

TOGETHER_MAX: Final = 64
"""How many files are written with one call of the store."""
_TOGETHER_BYTES: Final = 32 * 1024 * 1024
"""From how many bytes on files are written at once, so that they do not fill the memory while they wait."""


@dataclass(frozen=True, slots=True)
class FileWriter:
    """Writes files; nothing refers to them before a delta that names them is committed."""

    store: Store
    new_id: Callable[[], str]
    file_size_bytes: int = FILE_SIZE_BYTES

    def write(self, state: TableState, rows: pa.Table) -> list[tuple[tuple[Value | None, ...], DataFile]]:
        """Write rows that have all columns of the table; return each file with its partition values."""
        version = state.version
        parts = partitioned(rows, version.partition_scheme, state.schema)
        ordered = ((values, in_sort_order(part, version.sort_scheme, state.schema)) for values, part in parts)
        return [*self._written(state, ordered)]

    def write_keys(self, state: TableState, keys: pa.Table) -> Iterator[tuple[tuple[Value | None, ...], DataFile]]:
        """Write keys that are to hide rows; return each file with the values of the log that it belongs to."""
        return self._written(state, partitioned(keys, state.log_scheme, state.schema))

    def write_positions(self, state: TableState, location: str, positions: Any) -> DataFile:
        """Write the numbers of the rows of one file that are to be hidden."""
        data = encoded(position_rows(location, positions))
        path = data_file_path(state.table_id, self.new_id())
        self.store.put(path, data)
        return DataFile(path, len(data), len(positions), kind=FileKind.POSITION_DELETES, applies_to=location)

    def _written(
        self, state: TableState, parts: Iterable[tuple[tuple[Value | None, ...], pa.Table]]
    ) -> Iterator[tuple[tuple[Value | None, ...], DataFile]]:
        """Write the files of all parts, many with one call: each alone would wait for the storage once more."""
        waiting: dict[str, bytes] = {}
        written: list[tuple[tuple[Value | None, ...], DataFile]] = []
        size = 0
        for values, part in parts:
            for file, data in self._files(state, part):
                waiting[file.location] = data
                written.append((values, file))
                size += len(data)
                if len(waiting) == TOGETHER_MAX or size >= _TOGETHER_BYTES:
                    self.store.put_many(waiting)
                    yield from written
                    waiting, written, size = {}, [], 0
        if waiting:
            self.store.put_many(waiting)
            yield from written

    def _files(self, state: TableState, rows: pa.Table) -> Iterator[tuple[DataFile, bytes]]:
        first = [*state.version.keys, *(field.source_id for field in state.version.partition_scheme.fields)]
        present = set(rows.column_names)
        columns = [(path, one) for path, one in statistics_columns(state.schema, first) if path[0] in present]
        for start, count in row_slices(rows.num_rows, rows.nbytes, self.file_size_bytes):
            part = rows.slice(start, count)
            data = encoded(part)
            sort_scheme = state.version.sort_scheme
            file = DataFile(
                data_file_path(state.table_id, self.new_id()),
                len(data),
                count,
                schema_id=state.schema.schema_id,
                sort_scheme_id=sort_scheme.id if sort_scheme.fields else None,
                source_size_bytes=part.nbytes,
                statistics=statistics_of(part, columns),
            )
            yield file, data
