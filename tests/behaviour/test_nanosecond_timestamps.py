"""Nanosecond timestamps: no layout, file, filter or write rounds them."""

from typing import Any

import duckdb
import pandas  # type: ignore[import-untyped]
import polars
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mangrove import col
from mangrove.effects import Effects
from mangrove.errors import InvalidInputError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.layout_detection import LAYOUTS
from mangrove.lakehouse.opening import create_on_store
from mangrove.lakehouse.table_snapshot import TableSnapshot
from mangrove.model.types import DataType, Timestamp, TimestampNs, TimestampTzNs
from mangrove.model.values import format_nanos, parse_nanos
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.wiring import LocalEngines

NANOS = 1_700_000_000_123_456_789
TEXT = "2023-11-14 22:13:20.123456789"
EXTREMES = (-(2**63), -1, 0, 1, NANOS, 2**63 - 1)
COLUMNS = "id bigint not null, at timestamp_ns, seen timestamptz_ns"
INT64 = st.integers(-(2**63), 2**63 - 1)
WITHOUT_STRICT = [layout for layout in LAYOUTS if layout != "tree-older"]


@pytest.fixture(params=WITHOUT_STRICT)
def lake(request: pytest.FixtureRequest, effects: Effects) -> Lakehouse:
    """Make a lakehouse in each layout that has the types."""
    lake = create_on_store(effects, layout=request.param, engines=LocalEngines)
    lake.create_namespace("lab")
    return lake


def rows_of(nanos: list[int | None], first_id: int = 0) -> pa.Table:
    ids = pa.array(range(first_id, first_id + len(nanos)), pa.int64())
    at = pa.array(nanos, pa.timestamp("ns"))
    return pa.table({"id": ids, "at": at, "seen": at.cast(pa.timestamp("ns", "UTC"))})


def nanos_of(rows: pa.Table, name: str = "at") -> list[int | None]:
    return sorted(rows.column(name).cast(pa.int64()).to_pylist(), key=lambda one: (one is not None, one))


def types_of(table: TableSnapshot) -> list[DataType]:
    assert table.schema is not None
    return [column.type for column in table.schema.columns]


@pytest.mark.parametrize("inline_bytes", [0, 100_000])
def test_rows_are_read_as_they_were_appended(lake: Lakehouse, inline_bytes: int) -> None:
    table = lake.create_table("lab.t", COLUMNS, properties={"write.inline-rows-max-bytes": str(inline_bytes)})
    table.append(rows_of([*EXTREMES, None]))
    read = lake.table("lab.t").to_arrow()
    assert read.schema.field("at").type == pa.timestamp("ns")
    assert read.schema.field("seen").type == pa.timestamp("ns", "UTC")
    assert nanos_of(read) == nanos_of(read, "seen") == [None, *EXTREMES]
    assert types_of(lake.table("lab.t"))[1:] == [TimestampNs(), TimestampTzNs()]


@pytest.mark.parametrize("operator", ["=", "<>", "<", "<=", ">", ">="])
@pytest.mark.parametrize("column", ["at", "seen"])
def test_filters_and_statistics_distinguish_nanoseconds(lake: Lakehouse, operator: str, column: str) -> None:
    table = lake.create_table("lab.t", COLUMNS, properties={"write.inline-rows-max-bytes": "0"})
    for nanos in (NANOS - 1, NANOS, NANOS + 1):
        table.append(rows_of([nanos]))
    signs = {"=": "__eq__", "<>": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}
    expected = [one for one in (NANOS - 1, NANOS, NANOS + 1) if getattr(one, signs[operator])(NANOS)]
    scan = table.scan(f"{column} {operator} '{TEXT}'")
    assert nanos_of(scan.to_arrow()) == expected
    # One file has one value, so that its bounds decide.
    assert f"reads {len(expected)} of 3 files" in str(scan.explain())


@settings(max_examples=30)
@given(values=st.lists(INT64, min_size=1, max_size=20), bound=INT64)
@example(values=[NANOS - 1, NANOS, NANOS + 1], bound=NANOS)
def test_any_comparison_equals_that_of_integers(values: list[int], bound: int) -> None:
    effects = build_deterministic_effects(MemoryStore("memory://comparisons/"), Clock())
    lake = create_on_store(effects, engines=LocalEngines)
    lake.create_namespace("lab")
    table = lake.create_table("lab.t", COLUMNS, sort_by=["at"], properties={"write.inline-rows-max-bytes": "0"})
    table.append(rows_of([*values]))
    text = format_nanos(bound, has_zone=False)
    assert parse_nanos(text, has_zone=False) == bound
    assert nanos_of(table.to_arrow(where=f"at >= '{text}'")) == sorted(one for one in values if one >= bound)
    assert nanos_of(table.to_arrow(where=f"seen < '{text}'"), "seen") == sorted(one for one in values if one < bound)
    assert nanos_of(table.to_arrow(where=f"at in ('{text}')")) == [one for one in values if one == bound]


def test_row_groups_are_pruned_by_nanoseconds(lake: Lakehouse) -> None:
    count = 300_000
    table = lake.create_table("lab.t", COLUMNS)
    table.append(rows_of(list(range(NANOS, NANOS + count))))
    read = table.to_arrow(where=f"at = '{format_nanos(NANOS + count - 1, has_zone=False)}'")
    assert nanos_of(read) == [NANOS + count - 1]
    assert nanos_of(table.to_arrow(where=f"at > '{format_nanos(NANOS + count - 1, has_zone=False)}'")) == []


def test_upserts_deletes_updates_and_merges_have_nanosecond_keys(lake: Lakehouse) -> None:
    table = lake.create_table("lab.t", "at timestamp_ns not null, n int", keys=["at"])

    def keyed(*pairs: tuple[int, int]) -> pa.Table:
        keys = pa.array([nanos for nanos, _ in pairs], pa.timestamp("ns"))
        return pa.table({"at": keys, "n": pa.array([number for _, number in pairs], pa.int32())})

    table.append(keyed((NANOS, 1), (NANOS + 1, 2), (NANOS + 2, 3)))
    table.upsert(keyed((NANOS + 1, 20)))
    table.delete(f"at = '{TEXT}'")
    table.update({"n": 30}, where="n = 3")
    merge = table.merge(keyed((NANOS + 2, 300), (NANOS + 3, 400)), "t.at = s.at")
    merge.when_matched_update().when_not_matched_insert().execute()
    found = table.to_arrow().sort_by("at")
    assert nanos_of(found) == [NANOS + 1, NANOS + 2, NANOS + 3]
    assert found.column("n").to_pylist() == [20, 300, 400]
    table.compact(full=True)
    assert table.to_arrow().sort_by("at").equals(found)


def test_partitions_are_those_of_the_time(lake: Lakehouse) -> None:
    last_of_1969, first_of_1970 = -1, 0
    for transform in ("years", "months", "days", "hours"):
        table = lake.create_table(f"lab.{transform}", COLUMNS, partition_by=[f"{transform}(at)"])
        table.append(rows_of([last_of_1969, first_of_1970, first_of_1970 + 1, None]))
        assert len(table.partitions()) == 3
        assert nanos_of(table.to_arrow()) == [None, -1, 0, 1]
        assert nanos_of(table.to_arrow(where="at < '1970-01-01'")) == [-1]
    assert nanos_of(lake.table("lab.days").to_arrow(where="days(at) = '1969-12-31'")) == [-1]
    assert nanos_of(lake.table("lab.years").to_arrow(where="years(at) = '1970'")) == [0, 1]


def test_identity_partitions_and_buckets(lake: Lakehouse) -> None:
    table = lake.create_table("lab.each", COLUMNS, partition_by=["at"])
    table.append(rows_of([*EXTREMES]))
    assert len(table.partitions()) == len(EXTREMES)
    assert nanos_of(table.to_arrow(where=f"at = '{TEXT}'")) == [NANOS]
    buckets = lake.create_table("lab.buckets", COLUMNS, partition_by=["bucket(4, at)"])
    buckets.append(rows_of([*EXTREMES]))
    assert nanos_of(buckets.to_arrow(where=f"at = '{TEXT}'")) == [NANOS]


def test_the_first_and_last_year_of_the_range_are_periods_too(lake: Lakehouse) -> None:
    table = lake.create_table("lab.t", COLUMNS)
    table.append(rows_of([-(2**63), 2**63 - 1]))
    assert nanos_of(table.to_arrow(where="years(at) = '2262'")) == [2**63 - 1]
    assert nanos_of(table.to_arrow(where="years(at) = '1677'")) == [-(2**63)]
    assert nanos_of(table.to_arrow(where="years(at) < '1677'")) == []
    assert nanos_of(table.to_arrow(where="years(at) > '2262'")) == []
    with pytest.raises(InvalidInputError, match="2262"):
        table.to_arrow(where="years(at) = '2300'")
    with pytest.raises(InvalidInputError, match="cannot be compared with '9999-12-31'"):
        table.to_arrow(where="at < '9999-12-31'")


def test_frames_and_python_values_lose_no_digits(lake: Lakehouse) -> None:
    table = lake.create_table("lab.t", COLUMNS)
    moment = pandas.Timestamp(NANOS)
    table.append([{"id": 1, "at": moment, "seen": moment.tz_localize("UTC")}])
    table.append(pandas.DataFrame({"id": [2], "at": [moment], "seen": [moment.tz_localize("UTC")]}))
    frame = polars.DataFrame(rows_of([NANOS], 3))
    table.append(frame)
    table.append(pa.table({"id": [4], "at": [TEXT], "seen": [TEXT + "Z"]}), cast=True)
    assert nanos_of(table.to_arrow()) == nanos_of(table.to_arrow(), "seen") == [NANOS] * 4
    assert table.to_polars()["at"].dt.timestamp("ns").to_list() == [NANOS] * 4
    assert table.to_pandas()["seen"].astype("int64").tolist() == [NANOS] * 4
    relation = table.to_duckdb(duckdb.connect())
    assert nanos_of(relation.to_arrow_table(), "seen") == [NANOS] * 4
    assert {row["at"] for row in table.to_arrow().to_pylist()} == {moment}


def test_values_of_updates_filters_and_parameters_lose_no_digits(lake: Lakehouse) -> None:
    table = lake.create_table("lab.t", COLUMNS + ", rough timestamp")
    table.append(rows_of([0]))
    moment = pandas.Timestamp(NANOS, tz="UTC")
    table.update({"at": moment.tz_localize(None), "seen": moment.tz_convert("Europe/Berlin")}, where="id = 0")
    assert nanos_of(table.to_arrow()) == nanos_of(table.to_arrow(), "seen") == [NANOS]
    assert table.to_arrow(where=col("seen") == moment).num_rows == 1
    assert table.to_arrow(where=col("seen") == pandas.Timestamp(NANOS - 1, tz="UTC")).num_rows == 0
    with pytest.raises(InvalidInputError, match="would lose data"):
        table.update({"rough": moment}, where="id = 0")
    assert table.to_arrow()["rough"].to_pylist() == [None]


def test_nested_python_values_lose_no_digits(lake: Lakehouse) -> None:
    table = lake.create_table("lab.t", "id int, span struct<a: timestamp_ns, b: array<timestamptz_ns>>")
    moment = pandas.Timestamp(NANOS)
    table.append([{"id": 1, "span": {"a": moment, "b": [moment.tz_localize("UTC")]}}])
    (row,) = table.to_arrow().to_pylist()
    assert row["span"] == {"a": moment, "b": [moment.tz_localize("UTC")]}


def test_a_microsecond_column_refuses_nanoseconds_with_a_remedy(lake: Lakehouse) -> None:
    table = lake.create_table("lab.t", "id bigint, at timestamp_ntz")
    given: list[Any] = [rows_of([NANOS]).select(["id", "at"]), [{"id": 1, "at": pandas.Timestamp(NANOS)}]]
    for rows in given:
        with pytest.raises(InvalidInputError, match="use a column of type timestamp_ns"):
            table.append(rows)
    table.append(rows_of([NANOS // 1000 * 1000]).select(["id", "at"]))
    assert table.to_arrow().column("at").cast(pa.int64()).to_pylist() == [NANOS // 1000]


def test_a_time_outside_the_range_is_refused(lake: Lakehouse) -> None:
    table = lake.create_table("lab.t", COLUMNS)
    far = pa.table({"id": [1], "at": pa.array([2**62], pa.timestamp("us"))})
    with pytest.raises(InvalidInputError, match="'at' is timestamp_ns, and a value does not fit"):
        table.append(far)


def test_columns_of_frames_stay_microseconds(lake: Lakehouse) -> None:
    table = lake.create_table("lab.t", rows_of([]).select(["at"]).schema)
    assert types_of(table) == [Timestamp()]


def test_changes_and_profiles_have_all_digits(lake: Lakehouse) -> None:
    table = lake.create_table("lab.t", COLUMNS, keys=["id"])
    before = lake.version
    table.append(rows_of([NANOS]))
    table.upsert(rows_of([NANOS + 1]))
    changed = table.changes(before)
    assert nanos_of(changed)[-1] == NANOS + 1
    profile = table.profile()
    assert "123456790" in str(profile)


def test_an_added_column_has_nanoseconds(lake: Lakehouse) -> None:
    table = lake.create_table("lab.t", "id bigint")
    table.append([{"id": 1}])
    table.update_schema().add_column("at", "timestamp_ns").commit()
    table.append(rows_of([NANOS]).select(["id", "at"]))
    assert nanos_of(table.to_arrow()) == [None, NANOS]


def test_strict_trees_refuse_the_types(effects: Effects) -> None:
    lake = create_on_store(effects, layout="tree", strict=True)
    lake.create_namespace("lab")
    with pytest.raises(InvalidInputError, match=r"'span.at' is timestamptz_ns, which the tree format does not have"):
        lake.create_table("lab.t", "id int, span struct<at: timestamptz_ns>")
    table = lake.create_table("lab.t", "id int")
    with pytest.raises(InvalidInputError, match="use timestamp or timestamp_ntz"):
        table.update_schema().add_column("at", "timestamp_ns").commit()


@pytest.mark.parametrize(
    ("text", "has_zone", "nanos"),
    [
        (TEXT, False, NANOS),
        (TEXT + "+00:00", True, NANOS),
        ("2023-11-14T23:13:20.123456789+01:00", True, NANOS),
        (TEXT, True, NANOS),
        ("1970-01-01", False, 0),
        ("1969-12-31 23:59:59.999999999", False, -1),
        ("1970-01-01 00:00:00.1234567890", False, 123_456_789),
    ],
)
def test_texts_of_nanoseconds(text: str, has_zone: bool, nanos: int) -> None:
    assert parse_nanos(text, has_zone=has_zone) == nanos


@pytest.mark.parametrize(
    ("text", "has_zone"),
    [(TEXT + "1", False), (TEXT + "Z", False), ("1677-01-01", False), ("2262-04-12", True), ("yesterday", False)],
)
def test_other_texts_are_refused(text: str, has_zone: bool) -> None:
    with pytest.raises(ValueError, match=r"digits|zone|1677 to 2262|isoformat"):
        parse_nanos(text, has_zone=has_zone)
