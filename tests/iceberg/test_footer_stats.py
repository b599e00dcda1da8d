"""What is believed of a client's file is what the file itself tells, and its manifest cannot say otherwise."""

import datetime
import decimal
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.iceberg.iceberg_client import Client

import mangrove
from mangrove.errors import InvalidInputError
from mangrove.iceberg.commit.file_validation import is_partition_certain, read_footer_statistics
from mangrove.iceberg.values import has_partition_record, to_partition_record
from mangrove.local.data_files import compute_statistics, split_by_partition
from mangrove.local.parquet import ParquetBytes
from mangrove.model.arrow_schema import schema_to_arrow
from mangrove.model.manifests import ColumnStatistics, DataFile
from mangrove.tables.write_plan import select_statistics_columns

COLUMNS = (
    "id bigint, s string, d date, at timestamp, zoned timestamptz, price decimal(9, 2), x double, raw binary, "
    "yes boolean, inner struct<a: int, b: string>, many array<int>"
)
TIMES = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1))
ROWS = st.fixed_dictionaries(
    {
        "id": st.none() | st.integers(-(2**40), 2**40),
        "s": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
        "d": st.none() | st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)),
        "at": st.none() | TIMES,
        "zoned": st.none() | TIMES.map(lambda time: time.replace(tzinfo=datetime.UTC)),
        "price": st.none() | st.decimals(-1000, 1000, places=2),
        "x": st.none() | st.floats(),
        "raw": st.none() | st.binary(max_size=40),
        "yes": st.none() | st.booleans(),
        "inner": st.none()
        | st.fixed_dictionaries({"a": st.none() | st.integers(0, 9), "b": st.none() | st.text("ab")}),
        "many": st.none() | st.lists(st.integers(0, 9), max_size=3),
    }
)


def client_with(columns: str, name: str, **options: Any) -> Client:
    lake = mangrove.create(f"memory://{name}")
    lake.create_namespace("shop")
    lake.create_table("shop.t", columns, **options)
    return Client(lake, "shop.t")


@pytest.fixture(scope="module")
def anything() -> Client:
    return client_with(COLUMNS, "facts-of-any-rows")


@given(st.lists(ROWS, max_size=12), st.integers(1, 12))
def test_footer_statistics_equal_computed_statistics(
    anything: Client, rows: list[dict[str, Any]], group_size: int
) -> None:
    state = anything.lake.table("shop.t").state()
    table = pa.Table.from_pylist(rows, schema=schema_to_arrow(state.schema))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=group_size)
    data = sink.getvalue().to_pybytes()
    anything.lake.effects.store.put("data/facts.parquet", data)
    found = read_footer_statistics(
        ParquetBytes(anything.lake.effects.store, DataFile("data/facts.parquet", len(data), 0)), state
    )
    exact = {one.column_id: one for one in compute_statistics(table, select_statistics_columns(state.schema, ()))}
    assert [one.column_id for one in found] == sorted(exact)
    for one in found:
        column = state.schema.column_with_id(one.column_id)
        known = exact[one.column_id]
        assert (one.null_count, one.value_count, one.nan_count) == (known.null_count, known.value_count, None)
        if column.name == "x" and any(row["x"] is not None and math.isnan(row["x"]) for row in rows):
            continue
        assert (one.minimum, one.maximum) == (known.minimum, known.maximum), column.name


def test_wrong_bounds_and_counts_in_a_manifest_prune_no_rows(tmp_path: Path) -> None:
    client = client_with("id bigint not null, s string", tmp_path.name)
    lies = (
        ColumnStatistics(1, null_count=0, value_count=1, minimum=1, maximum=2),
        ColumnStatistics(2, null_count=1, value_count=1),
    )
    client.commit([client.rows([{"id": 5000, "s": "x"}], statistics=lies)])
    for condition in ("id = 5000", "s = 'x'", "s is not null"):
        assert client.lake.table("shop.t").to_arrow(where=condition).num_rows == 1
    told = [one.file for one in client.alive()]
    assert [one.null_value_counts for one in told] == [{1: 0, 2: 0}]


def test_wrong_bounds_of_equality_deletes_do_not_restore_rows(tmp_path: Path) -> None:
    client = client_with("id bigint not null, s string", tmp_path.name)
    client.commit([client.rows([{"id": 7, "s": "x"}, {"id": 8, "s": "y"}])])
    keys = client.keys([{"id": 7}], ["id"])
    keys.file[10], keys.file[11] = ({1: number.to_bytes(8, "little")} for number in (100, 200))
    client.commit([keys])
    assert client.ids() == client.seen_ids() == [8]


WRONG = [
    ("s", {"s": "b"}, ["a"]),
    ("s", {"s": "b"}, [None]),
    ("s", {"s": None}, ["a"]),
    ("truncate(1, s)", {"s": "bc"}, ["a"]),
    ("truncate(10, id)", {"id": 25}, [10]),
    ("bucket(8, id)", {"id": 34}, [7]),
    ("days(d)", {"d": datetime.date(2020, 1, 1)}, [1]),
    ("years(at)", {"at": datetime.datetime(2020, 1, 1)}, [49]),
    ("price", {"price": decimal.Decimal("1.20")}, [decimal.Decimal("1.30")]),
    ("x", {"x": 1.0}, [2.0]),
    ("x", {"x": math.nan}, [2.0]),
]


@pytest.mark.parametrize(("transform", "row", "said"), WRONG)
def test_rows_outside_the_partition_of_the_manifest_are_rejected(
    tmp_path: Path, transform: str, row: dict[str, Any], said: list[Any]
) -> None:
    client = client_with(COLUMNS, tmp_path.name, partition_by=[transform])
    version = client.lake.version
    with pytest.raises(InvalidInputError, match="rows of partition"):
        client.commit([client.rows([row], said)])
    assert client.lake.version == version
    assert client.ids() == []


def test_rows_of_several_partitions_in_one_file_are_refused(tmp_path: Path) -> None:
    client = client_with("id bigint, s string", tmp_path.name, partition_by=["s"])
    with pytest.raises(InvalidInputError, match="one file per partition"):
        client.commit([client.rows([{"id": 1, "s": "a"}, {"id": 2, "s": "b"}], ["a"])])


TRANSFORMS = [
    "id", "s", "d", "at", "zoned", "price", "x", "yes", "truncate(2, s)", "truncate(10, id)", "truncate(10, price)",
    "bucket(8, id)", "bucket(8, s)", "bucket(8, price)", "bucket(8, at)", "days(d)", "months(at)", "years(zoned)",
    "hours(at)", "inner.a",
]  # fmt: skip


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_rows_in_the_partition_of_the_manifest_are_accepted(tmp_path: Path, transform: str) -> None:
    client = client_with(COLUMNS, tmp_path.name, partition_by=[transform])
    state = client.lake.table("shop.t").state()
    scheme = state.version.partition_scheme
    filled = {
        "id": -25, "s": "añb", "d": datetime.date(1969, 5, 5), "at": datetime.datetime(1969, 5, 5, 3),
        "zoned": datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC), "price": decimal.Decimal("-3.25"), "x": 1.5,
        "raw": b"x", "yes": True, "inner": {"a": 3, "b": "b"}, "many": [1],
    }  # fmt: skip
    for row in (filled, {**dict.fromkeys(filled), "raw": b"x"}):
        table = pa.Table.from_pylist([row], schema=schema_to_arrow(state.schema))
        ((values, _),) = split_by_partition(table, scheme, state.schema)
        if has_partition_record(values, scheme, state.schema):
            record = to_partition_record(values, scheme, state.schema)
            client.commit([client.rows([row], [record[0]])])
        else:
            client.commit([client.rows([row], [None])])
    assert client.lake.table("shop.t").to_arrow().num_rows == 2


def test_bounds_prove_the_partition_for_monotonic_transforms() -> None:
    client = client_with(COLUMNS, "settled-by-bounds", partition_by=["truncate(10, id)"])
    state = client.lake.table("shop.t").state()

    def between(low: int, high: int, nulls: int | None = 0) -> DataFile:
        known = ColumnStatistics(1, null_count=nulls, minimum=low, maximum=high)
        return DataFile("any", 1, 5, statistics=(known,))

    assert is_partition_certain(state, between(11, 19), [10])
    assert not is_partition_certain(state, between(11, 20), [10])
    assert not is_partition_certain(state, between(11, 19, 1), [10])
    assert not is_partition_certain(state, between(11, 19, None), [10])
    assert not is_partition_certain(state, DataFile("any", 1, 5), [10])
    assert is_partition_certain(state, DataFile("any", 1, 0), [10])
