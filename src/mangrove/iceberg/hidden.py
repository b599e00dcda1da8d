"""The rows that later writes hide, as files of position deletes: found once, and named by all that hides them.

    data/<table id>/metadata/<digest>-<count>-deletes.parquet

The count is part of the name, so that a listing says all that a manifest tells of such a
file. Where nothing is hidden after all, there is one with the count 0, which no
manifest names: it spares whoever looks next the comparison of keys.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.iceberg.placing import PlacedFile
from mangrove.local.parquet import encoded
from mangrove.local.positions import FILE_PATH, POSITION
from mangrove.local.scanning import ROW, scanned_parts
from mangrove.model.arrow_form import schema_to_arrow
from mangrove.model.manifests import DataFile, FileKind
from mangrove.model.schema import Schema
from mangrove.storage.port import Store
from mangrove.tables.scan_plan import FileScan, ScanPlan
from mangrove.tables.shown_names import SHOWN_FORMAT, digest_of, file_words, shown_folder
from mangrove.tables.table_state import TableState

__all__ = ["found_hidden", "hidden_digest", "known_hidden"]

_ROWS_AT_ONCE: Final = 8_000_000
"""So many rows and keys are compared at once, unless a single file meets more."""
_NAME: Final = re.compile(r"([0-9a-f]{32})-(\d+)-deletes\.parquet")
_SCHEMA: Final = Schema((replace(FILE_PATH, nullable=False), replace(POSITION, nullable=False)))


def hidden_digest(placed: PlacedFile) -> str:
    """Return a digest of all that decides which rows of a file are hidden, and of how the file is called."""
    scan = placed.scan
    words = [repr((SHOWN_FORMAT, placed.address)), file_words(scan.file, scan.position)]
    words += [repr((one.file.location, one.position, one.key_ids)) for one in scan.hidden_by]
    return digest_of([*words, *(file.location for file in scan.position_deletes)])


def known_hidden(table_id: str, there: Mapping[str, int]) -> dict[str, DataFile]:
    """Return the files of hidden rows among those that a listing found, by their digests."""
    folder = shown_folder(table_id)
    found: dict[str, DataFile] = {}
    for path, size_bytes in there.items():
        match = _NAME.fullmatch(path.removeprefix(folder))
        if match is not None:
            found[match[1]] = _file(path, size_bytes, int(match[2]))
    return found


def found_hidden(
    store: Store, state: TableState, placed: Sequence[PlacedFile]
) -> Iterator[tuple[str, DataFile, bytes]]:
    """Yield for each file of rows the digest, the file that tells which of its rows are hidden, and its bytes."""
    for batch in _batches(placed):
        parts = scanned_parts(store, state, ScanPlan(tuple(one.scan for one in batch)), ())
        for one, (scan, visible) in zip(batch, parts, strict=True):
            numbers = _others(scan.file.row_count, visible.column(ROW))
            data = encoded(_rows(one.address, numbers))
            digest = hidden_digest(one)
            path = f"{shown_folder(state.table_id)}{digest}-{len(numbers)}-deletes.parquet"
            yield digest, _file(path, len(data), len(numbers)), data


def _file(path: str, size_bytes: int, row_count: int) -> DataFile:
    return DataFile(path, size_bytes, row_count, kind=FileKind.POSITION_DELETES)


def _rows(address: str, numbers: Any) -> pa.Table:
    return pa.table([pa.repeat(pa.scalar(address), len(numbers)), numbers], schema=schema_to_arrow(_SCHEMA))


def _others(count: int, visible: Any) -> Any:
    every = pa.array(range(count), pa.int64())
    return every.filter(pc.invert(pc.is_in(every, visible.combine_chunks())))


def _batches(placed: Iterable[PlacedFile]) -> Iterator[list[PlacedFile]]:
    """Yield files that are compared at once: those that meet the same keys would else read them once more each."""
    batch: list[PlacedFile] = []
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
    return [scan.file, *(one.file for one in scan.hidden_by), *scan.position_deletes]
