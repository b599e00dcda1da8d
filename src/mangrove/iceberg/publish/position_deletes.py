"""Position delete files for rows that later deltas delete.

    data/<table id>/metadata/<digest>-<count>-deletes.parquet         format version 2
    data/<table id>/metadata/<digest>-<count>-<size>-deletes.puffin   format version 3: a deletion vector

A write by keys may affect any file, but most files lose no row; their position deletes stay
the same and are not rewritten. The number of rows and the size of the vector are part of the
name, so that a listing has all that a manifest entry needs.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.errors import FormatError
from mangrove.iceberg.deletion_vectors import encode_deletion_vector, encode_puffin
from mangrove.iceberg.publish.partition_assignment import PartitionedFile
from mangrove.local.parquet import encode_parquet
from mangrove.local.row_numbers import build_row_numbers
from mangrove.local.scan import FILE_PATH, POSITION, ROW, run_scan_by_file
from mangrove.model.arrow_schema import schema_to_arrow
from mangrove.model.manifests import DataFile, FileKind
from mangrove.model.schema import Schema
from mangrove.storage.port import Store
from mangrove.tables.iceberg_names import (
    PUBLISHED_FORMAT,
    FormatVersion,
    compute_digest,
    format_file_identity,
    format_version_of,
    published_folder_of,
)
from mangrove.tables.scan_plan import FileScan, ScanPlan
from mangrove.tables.table_state import TableState

__all__ = [
    "PositionDeletes",
    "compute_deletes_digest",
    "find_position_deletes",
    "to_position_delete_file",
    "vector_size_of",
]

_BATCH_ROWS: Final = 8_000_000
"""Number of rows and keys after which a batch of files is processed."""
_NAME: Final = re.compile(r".*/[0-9a-f]{32}-(\d+)-(?:deletes\.parquet|(\d+)-deletes\.puffin)")
_SCHEMA: Final = Schema((replace(FILE_PATH, nullable=False), replace(POSITION, nullable=False)))


def compute_deletes_digest(data_file: PartitionedFile, format_version: FormatVersion) -> str:
    """Return a digest of a data file's location and of all deletes that apply to it."""
    scan = data_file.scan
    parts = [repr((PUBLISHED_FORMAT, data_file.address)), format_file_identity(scan.file, scan.position)]
    parts += ["v3"] if format_version == 3 else []
    parts += [repr((one.file.location, one.position, one.key_ids)) for one in scan.equality_deletes]
    return compute_digest([*parts, *(file.location for file in scan.position_deletes)])


def to_position_delete_file(path: str, size_bytes: int) -> DataFile:
    """Return the position delete file at a listed path."""
    return DataFile(path, size_bytes, int(_match_name(path)[1]), kind=FileKind.POSITION_DELETES)


def vector_size_of(path: str) -> int | None:
    """Return the size of the deletion vector in a position delete file; None if it is a Parquet file."""
    size = _match_name(path)[2]
    return None if size is None else int(size)


def _match_name(path: str) -> re.Match[str]:
    match = _NAME.fullmatch(path)
    if match is None:
        raise FormatError(f"{path!r} is not the name of a position delete file; delete the .parts files in its folder")
    return match


@dataclass(frozen=True, slots=True)
class PositionDeletes:
    """The deleted positions of a data file."""

    digest: str
    """The deletes digest of the data file."""
    path: str
    """Path of the position delete file; empty if no row is deleted."""
    address: str
    positions: Any
    vector: bytes | None
    """The deletion vector of a data file that loses rows, in format version 3."""

    def encode(self) -> bytes:
        """Return the bytes of the position delete file."""
        if self.vector is not None:
            return encode_puffin(self.vector, self.address, len(self.positions))
        return encode_parquet(_build_rows(self.address, self.positions))


def find_position_deletes(
    store: Store, state: TableState, data_files: Sequence[PartitionedFile]
) -> Iterator[PositionDeletes]:
    """Yield the deleted positions of each data file, after applying equality and position deletes."""
    format_version = format_version_of(state.properties)
    for batch in _split_batches(data_files):
        parts = run_scan_by_file(store, state, ScanPlan(tuple(one.scan for one in batch)), ())
        for one, (scan, visible) in zip(batch, parts, strict=True):
            positions = _invert_positions(scan.file.row_count, visible.column(ROW))
            vector = encode_deletion_vector(positions) if len(positions) and format_version == 3 else None
            path = _path_of(state.table_id, one.address, positions, vector) if len(positions) else ""
            digest = compute_deletes_digest(one, format_version)
            yield PositionDeletes(digest, path, one.address, positions, vector)


def _path_of(table_id: str, address: str, positions: Any, vector: bytes | None) -> str:
    positions_digest = hashlib.sha256(memoryview(positions.buffers()[1])[: positions.nbytes]).hexdigest()
    digest = compute_digest([repr((PUBLISHED_FORMAT, address)), positions_digest])
    ending = "deletes.parquet" if vector is None else f"{len(vector)}-deletes.puffin"
    return f"{published_folder_of(table_id)}{digest}-{len(positions)}-{ending}"


def _build_rows(address: str, positions: Any) -> pa.Table:
    return pa.table([pa.repeat(pa.scalar(address), len(positions)), positions], schema=schema_to_arrow(_SCHEMA))


def _invert_positions(count: int, visible: Any) -> Any:
    every = build_row_numbers(count)
    return every.filter(pc.invert(pc.is_in(every, visible.combine_chunks())))


def _split_batches(data_files: Iterable[PartitionedFile]) -> Iterator[list[PartitionedFile]]:
    """Yield batches of files, so that files with the same equality deletes read them once."""
    batch: list[PartitionedFile] = []
    seen: set[str] = set()
    rows = 0
    for one in data_files:
        if rows >= _BATCH_ROWS:
            yield batch
            batch, seen, rows = [], set(), 0
        batch.append(one)
        for file in _files_of(one.scan):
            rows += 0 if file.location in seen else file.row_count
            seen.add(file.location)
    if batch:
        yield batch


def _files_of(scan: FileScan) -> list[DataFile]:
    return [scan.file, *(one.file for one in scan.equality_deletes), *scan.position_deletes]
