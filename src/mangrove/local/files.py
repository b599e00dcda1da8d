"""New data files: rows divided by partition and size, written under fresh names."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

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

__all__ = ["FileWriter"]


@dataclass(frozen=True, slots=True)
class FileWriter:
    """Writes files; nothing refers to them before a delta that names them is committed."""

    store: Store
    new_id: Callable[[], str]
    file_size_bytes: int = FILE_SIZE_BYTES

    def write(self, state: TableState, rows: pa.Table) -> list[tuple[tuple[Value | None, ...], DataFile]]:
        """Write rows that have all columns of the table; return each file with its partition values."""
        scheme = state.version.partition_scheme
        return [
            (values, file)
            for values, part in partitioned(rows, scheme, state.schema)
            for file in self._files(state, in_sort_order(part, state.version.sort_scheme, state.schema))
        ]

    def write_keys(self, state: TableState, keys: pa.Table) -> Iterator[tuple[tuple[Value | None, ...], DataFile]]:
        """Write keys that are to hide rows; return each file with the values of the log that it belongs to."""
        for values, part in partitioned(keys, state.log_scheme, state.schema):
            for file in self._files(state, part):
                yield values, file

    def write_positions(self, state: TableState, location: str, positions: Any) -> DataFile:
        """Write the numbers of the rows of one file that are to be hidden."""
        data = encoded(position_rows(location, positions))
        path = data_file_path(state.table_id, self.new_id())
        self.store.put(path, data)
        return DataFile(path, len(data), len(positions), kind=FileKind.POSITION_DELETES, applies_to=location)

    def _files(self, state: TableState, rows: pa.Table) -> Iterator[DataFile]:
        first = [*state.version.keys, *(field.source_id for field in state.version.partition_scheme.fields)]
        present = set(rows.column_names)
        columns = [(path, one) for path, one in statistics_columns(state.schema, first) if path[0] in present]
        for start, count in row_slices(rows.num_rows, rows.nbytes, self.file_size_bytes):
            part = rows.slice(start, count)
            data = encoded(part)
            path = data_file_path(state.table_id, self.new_id())
            self.store.put(path, data)
            sort_scheme = state.version.sort_scheme
            yield DataFile(
                path,
                len(data),
                count,
                schema_id=state.schema.schema_id,
                sort_scheme_id=sort_scheme.id if sort_scheme.fields else None,
                source_size_bytes=part.nbytes,
                statistics=statistics_of(part, columns),
            )
