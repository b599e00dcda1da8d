"""Position delete files for rows that later deltas delete.

    data/<table id>/metadata/<digest>-<count>-deletes.parquet

Of a write whose keys may meet those of any file, most files lose no row. So what is told of
them stays the same, and is not written again. The count is part of the name, so that a
listing says all that a manifest tells of such a file.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.errors import FormatError
from mangrove.iceberg.publish.partition_assignment import PartitionedFile
from mangrove.local.parquet import encode_parquet
from mangrove.local.scan import FILE_PATH, POSITION, ROW, run_scan_by_file
from mangrove.model.arrow_schema import schema_to_arrow
from mangrove.model.manifests import DataFile, FileKind
from mangrove.model.schema import Schema
from mangrove.storage.port import Store
from mangrove.tables.iceberg_names import PUBLISHED_FORMAT, compute_digest, format_file_identity, published_folder_of
from mangrove.tables.scan_plan import FileScan, ScanPlan
from mangrove.tables.table_state import TableState

__all__ = ["PositionDeletes", "compute_deletes_digest", "find_position_deletes", "to_position_delete_file"]

_ROWS_AT_ONCE: Final = 8_000_000
"""So many rows and keys are compared at once, unless a single file meets more."""
_NAME: Final = re.compile(r".*/[0-9a-f]{32}-(\d+)-deletes\.parquet")
_SCHEMA: Final = Schema((replace(FILE_PATH, nullable=False), replace(POSITION, nullable=False)))


def compute_deletes_digest(placed: PartitionedFile) -> str:
    """Return a digest of all that decides which rows of a file are hidden, and of how the file is called."""
    scan = placed.scan
    words = [repr((PUBLISHED_FORMAT, placed.address)), format_file_identity(scan.file, scan.position)]
    words += [repr((one.file.location, one.position, one.key_ids)) for one in scan.equality_deletes]
    return compute_digest([*words, *(file.location for file in scan.position_deletes)])


def to_position_delete_file(path: str, size_bytes: int) -> DataFile:
    """Return a file of hidden rows that a listing found."""
    match = _NAME.fullmatch(path)
    if match is None:
        raise FormatError(
            f"{path!r} is no name of a file of hidden rows: delete the files beside it that end in .parts"
        )
    return DataFile(path, size_bytes, int(match[1]), kind=FileKind.POSITION_DELETES)


@dataclass(frozen=True, slots=True)
class PositionDeletes:
    """What is hidden of a file of rows."""

    digest: str
    """Of all that decides it."""
    path: str
    """Where the file lies that tells it; none where nothing is hidden."""
    address: str
    numbers: Any

    def encoded(self) -> bytes:
        """Return the bytes of the file."""
        return encode_parquet(_rows(self.address, self.numbers))


def find_position_deletes(
    store: Store, state: TableState, placed: Sequence[PartitionedFile]
) -> Iterator[PositionDeletes]:
    """Yield for each file of rows what is hidden of it, having compared its keys with newer ones."""
    for batch in _batches(placed):
        parts = run_scan_by_file(store, state, ScanPlan(tuple(one.scan for one in batch)), ())
        for one, (scan, visible) in zip(batch, parts, strict=True):
            numbers = _others(scan.file.row_count, visible.column(ROW))
            path = _path(state.table_id, one.address, numbers) if len(numbers) else ""
            yield PositionDeletes(compute_deletes_digest(one), path, one.address, numbers)


def _path(table_id: str, address: str, numbers: Any) -> str:
    told = hashlib.sha256(memoryview(numbers.buffers()[1])[: numbers.nbytes]).hexdigest()
    digest = compute_digest([repr((PUBLISHED_FORMAT, address)), told])
    return f"{published_folder_of(table_id)}{digest}-{len(numbers)}-deletes.parquet"


def _rows(address: str, numbers: Any) -> pa.Table:
    return pa.table([pa.repeat(pa.scalar(address), len(numbers)), numbers], schema=schema_to_arrow(_SCHEMA))


def _others(count: int, visible: Any) -> Any:
    every = pa.array(range(count), pa.int64())
    return every.filter(pc.invert(pc.is_in(every, visible.combine_chunks())))


def _batches(placed: Iterable[PartitionedFile]) -> Iterator[list[PartitionedFile]]:
    """Yield files that are compared at once: those that meet the same keys would else read them once more each."""
    batch: list[PartitionedFile] = []
    seen: set[str] = set()
    rows = 0
    for one in placed:
        if rows >= _ROWS_AT_ONCE:
            yield batch
            batch, seen, rows = [], set(), 0
        batch.append(one)
        for file in _read(one.scan):
            rows += 0 if file.location in seen else file.row_count
            seen.add(file.location)
    if batch:
        yield batch


def _read(scan: FileScan) -> list[DataFile]:
    return [scan.file, *(one.file for one in scan.equality_deletes), *scan.position_deletes]
