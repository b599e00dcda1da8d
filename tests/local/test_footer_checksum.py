"""One flipped bit anywhere in a data file is found, or changes no row."""

import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mangrove.errors import FormatError
from mangrove.local.parquet import CHECKSUM_PLACEHOLDER, count_rows, encode_parquet, read_columns
from mangrove.model.arrow_schema import schema_to_arrow
from mangrove.model.manifests import DataFile
from mangrove.model.schema import Schema
from mangrove.model.types import Column, Int64, List, Struct, Varchar
from mangrove.storage.counting import CountingStore
from mangrove.storage.memory import MemoryStore

PLACE = "data/one.parquet"
FLAT = (Column(1, "id", Int64(), nullable=False), Column(2, "note", Varchar()))
NESTED = (
    Column(1, "pair", Struct((Column(2, "left", Int64()), Column(3, "right", Int64())))),
    Column(4, "list", List(Column(5, "element", Int64()))),
)


def rows_of(columns: tuple[Column, ...], values: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(values, schema=schema_to_arrow(Schema(columns)))


def flipped(data: bytes, bit: int) -> bytes:
    damaged = bytearray(data)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def footer_start(data: bytes) -> int:
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")


@pytest.mark.parametrize(
    ("columns", "values", "step"),
    [
        (FLAT, [{"id": 1, "note": "u"}, {"id": 300, "note": None}], 1),
        (NESTED, [{"pair": {"left": 1, "right": 2}, "list": [3, None, 4]}, {"pair": None, "list": []}], 5),
    ],
    ids=["flat", "nested"],
)
def test_every_flipped_bit_is_refused_or_changes_no_row(
    columns: tuple[Column, ...], values: list[Any], step: int
) -> None:
    rows = rows_of(columns, values)
    sound = encode_parquet(rows)
    store, file = MemoryStore(), DataFile(PLACE, len(sound), rows.num_rows)
    store.put(PLACE, sound)
    assert read_columns(store, file, columns) == rows
    passed = []
    for bit in range(0, len(sound) * 8, step):
        store.put(PLACE, flipped(sound, bit))
        try:
            found = read_columns(store, file, columns)
            assert count_rows(store, file) == rows.num_rows
        except FormatError:
            continue
        assert found == rows, f"bit {bit} of {len(sound)} bytes"
        passed.append(bit)
    # In a footer only the name of the seal itself can change: without it the file is as one of another program.
    in_footer = [bit // 8 for bit in passed if bit // 8 >= footer_start(sound)]
    seal = sound.index(b"mangrove.footer")
    assert all(seal <= byte < seal + len("mangrove.footer.crc32=") for byte in in_footer)


def test_a_large_file_is_refused_for_its_footer_and_costs_two_requests() -> None:
    values = memoryview(random.Random(7).randbytes(8 * 700_000)).cast("q").tolist()
    sound = encode_parquet(pa.table([values], schema=rows_of(FLAT[:1], []).schema))
    store, file = CountingStore(MemoryStore()), DataFile(PLACE, len(sound), len(values))
    store.put(PLACE, sound)
    assert read_columns(store, file, FLAT[:1]).num_rows == len(values)
    assert store.requests.reads == 2
    store.put(PLACE, flipped(sound, 8 * (footer_start(sound) + 40)))
    for read in (lambda: read_columns(store, file, FLAT[:1]), lambda: count_rows(store, file)):
        with pytest.raises(FormatError, match="its footer does not match its checksum"):
            read()


def test_a_footer_longer_than_the_first_read_is_checked_completely() -> None:
    columns = tuple(Column(number, f"column {number}", Int64()) for number in range(1, 1001))
    values = memoryview(random.Random(7).randbytes(8 * 700)).cast("q").tolist()
    sound = encode_parquet(pa.table([values] * len(columns), schema=rows_of(columns, []).schema))
    assert len(sound) - footer_start(sound) > 64 * 1024
    store, file = CountingStore(MemoryStore()), DataFile(PLACE, len(sound), len(values))
    store.put(PLACE, sound)
    assert read_columns(store, file, columns[:1])["column 1"].to_pylist() == values
    assert store.requests.reads == 3
    store.put(PLACE, flipped(sound, 8 * (footer_start(sound) + 40)))
    with pytest.raises(FormatError, match="does not match its checksum"):
        read_columns(store, file, columns[:1])


def test_a_file_of_another_program_is_read_and_a_damaged_column_name_is_rejected() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1, 2]}), sink, store_schema=False)
    foreign = sink.getvalue().to_pybytes()
    store, file = MemoryStore(), DataFile(PLACE, len(foreign), 2)
    store.put(PLACE, foreign)
    assert read_columns(store, file, FLAT[:1])["id"].to_pylist() == [1, 2]
    store.put(PLACE, foreign.replace(b"id", b"\xe9d"))
    with pytest.raises(FormatError, match="damaged or no Parquet file"):
        read_columns(store, file, FLAT[:1])


def test_text_equal_to_the_checksum_placeholder_does_not_mask_damage() -> None:
    rows = rows_of(FLAT, [{"id": 1, "note": CHECKSUM_PLACEHOLDER}])
    sound = encode_parquet(rows)
    store, file = MemoryStore(), DataFile(PLACE, len(sound), 1)
    store.put(PLACE, sound)
    assert read_columns(store, file, FLAT) == rows
    store.put(PLACE, flipped(sound, 8 * (footer_start(sound) + 40)))
    with pytest.raises(FormatError, match="does not match its checksum"):
        read_columns(store, file, FLAT)


def test_a_file_without_a_computed_checksum_is_read() -> None:
    rows = rows_of(FLAT, [{"id": 1, "note": "u"}])
    sound = encode_parquet(rows)
    seal = sound.index(b"crc32=") + len("crc32=")
    unsealed = sound[:seal] + b"00000000" + sound[seal + 8 :]
    store, file = MemoryStore(), DataFile(PLACE, len(sound), 1)
    store.put(PLACE, unsealed)
    assert unsealed != sound
    assert read_columns(store, file, FLAT) == rows
