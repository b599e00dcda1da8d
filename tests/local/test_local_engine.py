"""What can be written and read in this process, in every type, and what is refused with which words."""

import datetime
import decimal
import re
from collections.abc import Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import FormatError, InvalidInputError, MangroveError
from mangrove.expressions.parse import parse_predicate
from mangrove.expressions.schema_text import parse_schema, parse_type
from mangrove.local.data_files import FILES_PER_BATCH_MAX, apply_transform
from mangrove.local.engine import LocalEngine
from mangrove.local.scan import build_predicate_mask
from mangrove.model.objects import TableVersion
from mangrove.model.partitioning import (
    Bucket,
    Days,
    Hours,
    Months,
    Transform,
    Truncate,
    Years,
    parse_partition_scheme,
    transform_value,
)
from mangrove.model.types import Column, Struct
from mangrove.storage.memory import MemoryStore
from mangrove.tables.table_state import TableState
from mangrove.testing.effects import build_deterministic_effects
from mangrove.testing.table_model import apply_write, evaluate_predicate

ALL_TYPES = (
    "b boolean, i2 smallint, i4 int, i8 bigint, d decimal(10,2), big decimal(38,0), f float, g double, c char(3), "
    "v varchar(5), s string, day date, t time, ts timestamp, local timestamp_ntz, fx fixed(2), raw binary, "
    "st struct<a: int, inner: struct<x: string not null>>, l array<int>, ll array<array<string>>, "
    "m map<string, struct<n: decimal(4,1)>>"
)
FULL = {
    "b": True,
    "i2": -(2**15),
    "i4": 2**31 - 1,
    "i8": -(2**63),
    "d": decimal.Decimal("-99999999.99"),
    "big": decimal.Decimal(10**38 - 1),
    "f": 0.5,
    "g": 1e300,
    "c": "abc",
    "v": "ünö",
    "s": "z" * 100,
    "day": datetime.date(1, 1, 1),
    "t": datetime.time(23, 59, 59, 999_999),
    "ts": datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=datetime.UTC),
    "local": datetime.datetime(1, 1, 1),
    "fx": b"\x00\xff",
    "raw": b"",
    "st": {"a": None, "inner": {"x": "y"}},
    "l": [1, None, 3],
    "ll": [["a"], None, []],
    "m": [("k", {"n": decimal.Decimal("1.5")}), ("n", None)],
}


class Bench:
    """A table of its own on a store in memory."""

    def __init__(self, schema: str, keys: tuple[str, ...] = (), partition_by: tuple[str, ...] = ()) -> None:
        columns = parse_schema(schema)
        version = TableVersion(
            1,
            columns,
            keys=tuple(columns.column(key).id for key in keys),
            partition_scheme=parse_partition_scheme(partition_by, columns, "1"),
        )
        self.store = MemoryStore()
        self.engine = LocalEngine(self.store, build_deterministic_effects(self.store).new_id)
        self.state = TableState("s.t", "table-id", version)

    def append(self, rows: object) -> None:
        self.state = apply_write(self.state, self.engine.append(self.state, rows))

    def upsert(self, rows: object) -> None:
        self.state = apply_write(self.state, self.engine.upsert(self.state, rows))

    def rows(self, **requested: Any) -> list[dict[str, Any]]:
        return self.engine.read(self.state, **requested).to_pylist()


@pytest.mark.parametrize("rows", [[FULL], [dict.fromkeys(FULL), FULL, dict.fromkeys(FULL)], [dict.fromkeys(FULL)], []])
def test_rows_of_every_type_round_trip(rows: list[dict[str, Any]]) -> None:
    bench = Bench(ALL_TYPES)
    bench.append(rows)
    assert bench.rows() == rows
    bench.append(bench.engine.read(bench.state))
    assert bench.rows() == rows + rows


def test_files_are_stored_below_the_table_and_contain_ids_of_nested_columns() -> None:
    bench = Bench("id int, st struct<a: int, l: array<string>>")
    bench.append([{"id": 1, "st": {"a": 2, "l": ["x"]}}])
    [path] = [entry.path for entry in bench.store.list()]
    assert re.fullmatch(r"data/table-id/[0-9a-f-]{36}\.parquet", path)
    text = str(pq.read_schema(pa.BufferReader(bench.store.read(path))).to_string(show_field_metadata=True))
    assert sorted(re.findall(r"PARQUET:field_id: '(\d+)'", text)) == ["1", "2", "3", "4", "5"]


def test_statistics_bound_the_written_values() -> None:
    bench = Bench("id int, f double, s string, st struct<a: int>")
    bench.append([{"id": 3, "f": float("nan"), "s": None, "st": {"a": 1}}, {"id": 1, "f": 2.0, "s": None, "st": None}])
    [log] = bench.state.logs
    found = {one.column_id: one for one in log.deltas[0].manifest.entries[0].statistics}
    assert (found[1].minimum, found[1].maximum, found[1].null_count) == (1, 3, 0)
    assert (found[2].minimum, found[2].maximum, found[2].nan_count) == (2.0, 2.0, 1)
    assert (found[3].minimum, found[3].maximum, found[3].null_count) == (None, None, 2)
    assert (found[5].minimum, found[5].maximum, found[5].null_count) == (1, 1, 1)


@pytest.mark.parametrize(
    "rows",
    [
        pa.table({"ID": pa.array([1], pa.int64()), "name": pa.array(["x"]).dictionary_encode()}),
        pa.RecordBatch.from_pydict({"id": [1], "name": ["x"]}),
        pa.table({"id": [1], "name": ["x"]}).to_reader(),
        pd.DataFrame({"id": [1], "name": ["x"]}),
        [{"id": 1, "name": "x"}],
    ],
    ids=["arrow", "batch", "reader", "pandas", "dicts"],
)
def test_rows_may_be_given_in_many_forms(rows: object) -> None:
    bench = Bench("id int not null, name string, note string")
    bench.append(rows)
    assert bench.rows() == [{"id": 1, "name": "x", "note": None}]


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([{"id": 1, "nmae": "x"}], "column 'nmae' is not in the table"),
        ([{"name": "x"}], "column 'id' is not null, but missing in the rows"),
        ([{"id": None}, {"id": 1}], "column 'id' is not null, and 1 row(s) have no value in it, first row 0"),
        ([{"id": "x"}], "column 'id' is int, but the rows have string"),
        ([{"id": 1.5}], "column 'id' is int, but the rows have double"),
        ([{"id": 2**31}], "column 'id' is int, and a value does not fit"),
        ([{"id": 2**64}], "column 'id' holds a whole number of more than 64 bits"),
        ([{"id": 1}, {"id": "x"}], "column 'id' holds values that are not of one type"),
        ([{"id": 1, "short": "toolong"}], "column 'short' is varchar(3), and a text has 7 characters"),
        ([{"id": 1, "price": decimal.Decimal("1.234")}], "column 'price' is decimal(4,2), and a value does not fit"),
        ([{"id": 1, "price": 100}], "column 'price' is decimal(4,2), and a value does not fit"),
        ([{"id": 1, "price": 1.5}], "column 'price' is decimal(4,2), but the rows have double"),
        ([{"id": 1, "st": {"x": None}}], "column 'st.x' is not null"),
        ([{"id": 1, "st": {}}], "st"),
        ({"id": 1}, "rows are given as dict"),
        ("id", "rows are given as str"),
        ([1], "the list of rows holds a value of type int at place 0"),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_nothing_is_written(rows: object, complaint: str) -> None:
    bench = Bench("id int not null, name string, short varchar(3), price decimal(4,2), st struct<x: int not null>")
    with pytest.raises(InvalidInputError, match=re.escape(complaint)):
        bench.append(rows)
    assert list(bench.store.list()) == []


def test_a_duplicate_key_in_an_upsert_is_rejected_with_an_example() -> None:
    bench = Bench("id int not null, day date not null, x int", ("id", "day"))
    day = datetime.date(2026, 1, 1)
    rows = [{"id": 7, "day": day, "x": 1}, {"id": 8, "day": day, "x": 1}, {"id": 7, "day": day, "x": 2}]
    with pytest.raises(InvalidInputError, match=r"1 key\(s\) occur more than once .*'id': 7, 'day': .*'rows': 2"):
        bench.upsert(rows)
    with pytest.raises(InvalidInputError, match="'id' is not null, and 1 row"):
        bench.upsert([{"id": None, "day": day}, {"id": 1, "day": day}])
    assert list(bench.store.list()) == []


def test_columns_can_be_selected_in_any_order_or_not_at_all() -> None:
    bench = Bench("id int, name string")
    bench.append([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    assert bench.rows(columns=["NAME", "id"], where="id > 1") == [{"name": "b", "id": 2}]
    assert bench.engine.read(bench.state, columns=[]).num_rows == 2
    for wrong in (["nope"], ["id", "ID"], "id"):
        with pytest.raises(MangroveError):
            bench.rows(columns=wrong)
    with pytest.raises(InvalidInputError, match="expected text"):
        bench.rows(where=5)


def test_a_row_that_moves_to_another_partition_is_deleted_from_the_old_one() -> None:
    bench = Bench("id int not null, day date", ("id",), ("day",))
    for day in (1, 2, 1):
        bench.upsert([{"id": 1, "day": datetime.date(2026, 1, day)}, {"id": day + 5, "day": None}])
    assert sorted(row["id"] for row in bench.rows()) == [1, 6, 7]
    assert bench.rows(where="id = 1") == [{"id": 1, "day": datetime.date(2026, 1, 1)}]


def test_renamed_columns_are_read_by_column_id() -> None:
    bench = Bench("id int, place struct<city: string, zip: int>")
    bench.append([{"id": 1, "place": {"city": "Ulm", "zip": 89073}}])
    old = bench.state.schema
    [number, place] = old.columns
    assert isinstance(place.type, Struct)
    city, _ = place.type.columns
    moved = Struct((Column(9, "zip", parse_type("string")), replace(city, name="town")))
    wider = replace(number, name="number", type=parse_type("bigint"))
    schema = replace(old, columns=(replace(place, type=moved), wider), schema_id=1, last_column_id=9)
    bench.state = replace(bench.state, version=replace(bench.state.version, schema=schema, earlier_schemas=(old,)))
    bench.append([{"number": 2**40, "place": {"zip": "x", "town": "Bonn"}}])
    assert bench.rows() == [
        {"place": {"zip": None, "town": "Ulm"}, "number": 1},
        {"place": {"zip": "x", "town": "Bonn"}, "number": 2**40},
    ]
    assert bench.rows(columns=["number"], where="place.town = 'Ulm' and number < 5") == [{"number": 1}]


def test_a_file_that_is_missing_or_damaged_is_named() -> None:
    bench = Bench("id int")
    bench.append([{"id": 1}])
    [path] = [entry.path for entry in bench.store.list()]
    bench.store.put(path, b"PAR1")
    with pytest.raises(FormatError, match=re.escape(path)):
        bench.rows()
    bench.store.delete_many([path])
    with pytest.raises(FormatError, match=f"{re.escape(path)} is missing"):
        bench.rows()


class Watched(MemoryStore):
    """A store that notes how many objects each call for many wrote."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[int] = []

    def put_many(self, objects: Mapping[str, bytes]) -> None:
        self.calls.append(len(objects))
        super().put_many(objects)


def test_the_files_of_many_partitions_are_written_many_with_one_call() -> None:
    store = Watched()
    bench = Bench("p bigint, x bigint", partition_by=("p",))
    bench.engine = LocalEngine(store, build_deterministic_effects(store).new_id)
    count = 2 * FILES_PER_BATCH_MAX + 1
    bench.append(pa.table({"p": range(count), "x": range(count)}))
    assert store.calls == [FILES_PER_BATCH_MAX, FILES_PER_BATCH_MAX, 1]
    assert sorted(bench.rows(), key=itemgetter("p")) == [{"p": number, "x": number} for number in range(count)]


def test_large_files_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench("id bigint, name string")
    bench.append(pa.table({"id": range(100_000), "name": [f"name {row * 7919 % 100_000}" for row in range(100_000)]}))
    monkeypatch.setattr("mangrove.local.parquet._WHOLE_SIZE_BYTES_MAX", 1000)
    read: list[int] = []
    whole = bench.store.read

    def counted(path: str, start: int = 0, length: int | None = None) -> bytes:
        data = whole(path, start, length)
        read.append(len(data))
        return data

    monkeypatch.setattr(bench.store, "read", counted)
    assert bench.engine.read(bench.state, ["id"], "id >= 99999").to_pylist() == [{"id": 99_999}]
    [entry] = bench.state.logs[0].deltas[0].manifest.entries
    assert sum(read) < entry.size_bytes * 3 // 4
    assert bench.engine.read(bench.state, ["name"], "id >= 99999").num_rows == 1
    assert bench.engine.count_rows(bench.store, entry) == 100_000


MOMENTS = st.none() | st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)).map(
    lambda moment: moment.replace(tzinfo=datetime.UTC)
)


@given(st.lists(MOMENTS, max_size=5), st.sampled_from([Years(), Months(), Days(), Hours(), Bucket(7)]))
def test_column_transforms_equal_single_value_transforms(
    moments: list[datetime.datetime | None], transform: Transform
) -> None:
    source = parse_type("timestamp")
    array = pa.chunked_array([pa.array(moments, pa.timestamp("us", "UTC"))])
    wanted = [transform_value(transform, source, moment) for moment in moments]
    assert apply_transform(array, transform, source).to_pylist() == wanted


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=5), st.integers(1, 2**20))
def test_column_truncation_equals_single_value_truncation(numbers: list[int | None], width: int) -> None:
    source = parse_type("bigint")
    lowest = -(2**63) + width
    kept = [number if number is None or number >= lowest else lowest for number in numbers]
    array = pa.chunked_array([pa.array(kept, pa.int64())])
    wanted = [transform_value(Truncate(width), source, number) for number in kept]
    assert apply_transform(array, Truncate(width), source).to_pylist() == wanted


@given(
    st.lists(st.none() | st.sampled_from([float("nan"), -0.0, 0.0, 1.5, float("inf")]), max_size=6),
    st.sampled_from(
        ["f > 0", "f < 1", "f = 0", "f <> 0", "f >= 1.5", "f <= 0", "f in (0, 1.5)", "not f in (0)", "f is null"]
    ),
)
def test_floats_are_compared_as_in_spark(values: list[float | None], text: str) -> None:
    schema = parse_schema("f double")
    predicate = parse_predicate(text, schema)
    rows = pa.table({"f": pa.array(values, pa.float64())})
    assert build_predicate_mask(rows, predicate, schema).to_pylist() == [
        evaluate_predicate(predicate, {"f": value}, schema) for value in values
    ]
