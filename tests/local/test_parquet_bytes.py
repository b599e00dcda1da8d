"""What Arrow holds of a file is its own, and no more of a large one than was asked for."""

import sys
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mangrove.errors import FormatError
from mangrove.expressions.schema_text import parse_schema
from mangrove.local.parquet import ParquetBytes, count_rows, encode_parquet, read_columns
from mangrove.model.manifests import DataFile
from mangrove.storage.memory import MemoryStore

ROWS = pa.table(
    {
        "id": pa.array(range(30_000), pa.int64()),
        "place": [{"x": number, "y.z": str(number * 7919)} for number in range(30_000)],
        "words": [[str(number * 31), None] for number in range(30_000)],
        "place.x": pa.array([number % 7 for number in range(30_000)], pa.int32()),
    }
)
SCHEMA = parse_schema("id bigint, place struct<x: bigint, `y.z`: string>, words array<string>, `place.x` int")


class OneObject(MemoryStore):
    """A store of one file, which always hands out the same bytes and notes what was asked."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data = data
        self.requested: list[tuple[int, int | None]] = []

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        self.requested.append((start, length))
        return self.data if length is None else self.data[start : start + length]


def written(row_group_size: int = 8_000) -> bytes:
    sink = pa.BufferOutputStream()
    options: dict[str, Any] = {"compression": "none", "use_dictionary": ["words"]}
    pq.write_table(ROWS, sink, row_group_size=row_group_size, **options)
    return bytes(sink.getvalue())


def file_of(data: bytes) -> DataFile:
    return DataFile("data/a.parquet", len(data), ROWS.num_rows)


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mangrove.local.parquet._WHOLE_SIZE_BYTES_MAX", 1_000)
    monkeypatch.setattr("mangrove.local.parquet.GAP_SIZE_BYTES_MAX", 1_000)


def test_nothing_that_arrow_reads_from_belongs_to_python() -> None:
    # A thread of Arrow's that lets go of bytes of Python's while the process ends aborts the process.
    store = OneObject(written())
    held = sys.getrefcount(store.data)
    opened = ParquetBytes(store, file_of(store.data))
    rows = opened.parquet.read()
    del opened._end
    held_by_arrow = sys.getrefcount(store.data) - held
    assert held_by_arrow == 0
    assert rows.num_rows == ROWS.num_rows


@pytest.mark.parametrize(
    "names", [["id"], ["place"], ["words"], ["place.x"], ["place.x", "id"], list(ROWS.column_names)]
)
def test_all_columns_of_a_large_file_are_read_with_any_names(in_pieces: None, names: list[str]) -> None:
    store = OneObject(written())
    columns = [column for name in names for column in SCHEMA.columns if column.name == name]
    rows = read_columns(store, file_of(store.data), columns)
    assert rows.to_pydict() == ROWS.select(names).to_pydict()


def test_only_the_bytes_of_the_requested_columns_are_read(in_pieces: None) -> None:
    store = OneObject(written())
    read_columns(store, file_of(store.data), [SCHEMA.column("id")])
    (_, footer), *pieces = store.requested
    assert footer is not None
    assert len(pieces) == 4, "one for each row group, whose other columns lie between"
    assert sum(length or 0 for _, length in pieces) < 30_000 * 8 + 4 * 1_000


def test_all_rows_of_a_large_file_are_counted_one_row_group_after_the_other(in_pieces: None) -> None:
    store = OneObject(written(row_group_size=5_000))
    assert count_rows(store, file_of(store.data)) == ROWS.num_rows
    assert len(store.requested) >= 1 + 6


class Shortened(OneObject):
    """A store whose file has lost its middle: its end is there, and pieces of the rest are too short."""

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        data = super().read(path, start, length)
        return data if start + len(data) == len(self.data) else data[:-1]


def test_a_truncated_range_is_rejected(in_pieces: None) -> None:
    whole = written()
    with pytest.raises(FormatError, match=r"data/a.parquet is damaged .* it ends before byte"):
        read_columns(Shortened(whole), file_of(whole), [SCHEMA.column("id")])
    with pytest.raises(FormatError, match="it ends before byte"):
        count_rows(Shortened(whole), file_of(whole))


@pytest.mark.parametrize(("rows", "compression"), [(3, "UNCOMPRESSED"), (1_000, "ZSTD")])
def test_few_bytes_of_rows_are_not_compressed(rows: int, compression: str) -> None:
    data = encode_parquet(pa.table({"id": pa.array(range(rows), pa.int64())}))
    assert pq.read_metadata(pa.BufferReader(data)).row_group(0).column(0).compression == compression
