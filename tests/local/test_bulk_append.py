"""Large appends are encoded in parallel, and their statistics are those of their rows."""

import datetime
import decimal
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.expressions.schema_text import parse_schema
from mangrove.local.data_files import FileWriter, compute_statistics
from mangrove.local.engine import LocalEngine
from mangrove.local.row_numbers import build_row_numbers
from mangrove.model.arrow_schema import schema_to_arrow
from mangrove.model.objects import TableVersion
from mangrove.storage.memory import MemoryStore
from mangrove.tables.table_state import TableState
from mangrove.tables.write_plan import (
    PARALLEL_FILE_SIZE_BYTES_MIN,
    build_append_delta,
    plan_write,
    select_statistics_columns,
)
from mangrove.testing.effects import build_deterministic_effects
from mangrove.testing.table_model import apply_write

SCHEMA = parse_schema(
    "id bigint, i int, s string, c char(3), d date, at timestamp, zoned timestamptz, price decimal(9, 2), x double, "
    "f float, raw binary, yes boolean, inner struct<a: int, b: string>, many array<int>, `inner.a` int"
)
TIMES = st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.just("x" * 5_000)
ROWS = st.fixed_dictionaries(
    {
        "id": st.none() | st.integers(-(2**63), 2**63 - 1),
        "i": st.none() | st.integers(-(2**31), 2**31 - 1),
        "s": st.none() | TEXTS,
        "c": st.none() | st.just("abc"),
        "d": st.none() | st.dates(),
        "at": st.none() | TIMES,
        "zoned": st.none() | TIMES.map(lambda time: time.replace(tzinfo=datetime.UTC)),
        "price": st.none() | st.decimals(-1000, 1000, places=2),
        "x": st.none() | st.floats(),
        "f": st.none() | st.floats(width=32),
        "raw": st.none() | st.binary(max_size=40),
        "yes": st.none() | st.booleans(),
        "inner": st.none()
        | st.fixed_dictionaries({"a": st.none() | st.integers(0, 9), "b": st.none() | st.text("ab")}),
        "many": st.none() | st.lists(st.integers(0, 9), max_size=3),
        "inner.a": st.none() | st.integers(10, 19),
    }
)


def state_of(schema: Any = SCHEMA) -> TableState:
    return TableState("s.t", "table-id", TableVersion(1, schema))


@settings(max_examples=30)
@given(st.lists(ROWS, min_size=1, max_size=5), st.lists(ROWS, max_size=5))
def test_bounds_that_are_read_from_the_footer_are_those_of_the_rows(first: list[Any], second: list[Any]) -> None:
    arrow = schema_to_arrow(SCHEMA)
    rows = pa.concat_tables([pa.Table.from_pylist(some, schema=arrow) for some in (first, second)])
    store = MemoryStore()
    writer = FileWriter(store, build_deterministic_effects(store).new_id)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mangrove.local.data_files._LARGE_BYTES_MIN", 0)
        ((_, file),) = writer.write(state_of(), rows)
    exact = compute_statistics(rows, select_statistics_columns(SCHEMA, ()))
    assert file.statistics == exact
    assert [one.minimum is None for one in file.statistics] == [one.minimum is None for one in exact]


@settings(max_examples=30)
@given(
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.none(), min_size=1, max_size=5),
    st.lists(st.text(st.characters(exclude_categories=["Cs"])) | st.none(), min_size=1, max_size=5),
)
def test_few_rows_have_the_bounds_of_many(numbers: list[int | None], texts: list[str | None]) -> None:
    for array in (pa.array(numbers, pa.int64()), pa.array(texts, pa.string())):
        few, many = pa.table({"c": array}), pa.table({"c": pa.chunked_array([array] * 100)})
        (of_few,), (of_many,) = (compute_statistics(rows, [(("c",), 1)]) for rows in (few, many))
        assert (of_few.minimum, of_few.maximum) == (of_many.minimum, of_many.maximum)


def test_few_rows_with_text_that_is_not_utf8_have_the_bounds_of_the_others() -> None:
    array = pa.array([b"a", b"b\xff", b"c"], pa.binary()).view(pa.string())
    (statistics,) = compute_statistics(pa.table({"c": array}), [(("c",), 1)])
    assert (statistics.minimum, statistics.maximum) == ("a", "c")


def test_a_time_that_python_cannot_represent_is_written_without_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mangrove.local.data_files._LARGE_BYTES_MIN", 0)
    schema = parse_schema("at timestamp, d date")
    far = pa.array([2**62, 0], pa.int64()).cast(pa.timestamp("us"))
    days = pa.array([3_000_000, 0], pa.int32()).cast(pa.date32())
    store = MemoryStore()
    state = state_of(schema)
    engine = LocalEngine(store, build_deterministic_effects(store).new_id)
    state = apply_write(state, engine.append(state, pa.table({"at": far, "d": days})))
    assert engine.count(state, "at > timestamp '2026-01-01 00:00:00'") == 1
    assert engine.count(state, "d > date '2026-01-01'") == 1


@pytest.mark.parametrize(("threads", "file_count"), [(1, 1), (2, 2), (8, 2)])
def test_a_large_append_has_a_file_for_each_thread_unless_files_become_small(threads: int, file_count: int) -> None:
    row_count = 2 * PARALLEL_FILE_SIZE_BYTES_MIN // 8
    rows = pa.table({"id": pa.repeat(pa.scalar(7, pa.int64()), row_count)})
    store = MemoryStore()
    writer = FileWriter(store, build_deterministic_effects(store).new_id, threads=threads)
    written = writer.write(state_of(parse_schema("id bigint")), rows)
    assert [file.row_count for _, file in written] == [row_count // file_count] * file_count


def test_files_that_are_written_by_their_own_threads_are_listed_in_the_order_of_the_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mangrove.local.data_files._LARGE_BYTES_MIN", 1_200)
    store = MemoryStore()
    state = state_of(parse_schema("id bigint, s string"))
    # Each second file is small and waits for others, and each other one is written at once.
    texts = [f"{number * 7919}" if number // 100 % 2 else "x" for number in range(2_000)]
    rows = pa.table({"id": build_row_numbers(2_000), "s": texts})
    writer = FileWriter(store, build_deterministic_effects(store).new_id, file_size_bytes=-(-rows.nbytes // 20))
    written = writer.write(state, rows)
    assert [file.row_count for _, file in written] == [100] * 20
    assert {file.size_bytes < 1_200 for _, file in written} == {True, False}
    state = apply_write(state, plan_write({(): build_append_delta([file for _, file in written])}))
    engine = LocalEngine(store, build_deterministic_effects(store).new_id)
    assert engine.read(state).to_pydict() == rows.to_pydict()


def test_nan_and_negative_zero_have_the_bounds_of_sql(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mangrove.local.data_files._LARGE_BYTES_MIN", 0)
    schema = parse_schema("x double, y double, price decimal(9, 2)")
    store = MemoryStore()
    state = state_of(schema)
    engine = LocalEngine(store, build_deterministic_effects(store).new_id)
    rows = [
        {"x": -0.0, "y": math.nan, "price": decimal.Decimal("0.10")},
        {"x": 0.0, "y": 1.0, "price": decimal.Decimal("-0.10")},
    ]
    state = apply_write(state, engine.append(state, rows))
    assert engine.count(state, "x = 0") == 2
    assert engine.count(state, "x >= 0") == 2
    assert engine.count(state, "x <= 0") == 2
    assert engine.count(state, "y > 5") == 1
    assert engine.count(state, "price < 0") == 1
