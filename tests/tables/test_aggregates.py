"""Aggregates from manifests are exact, or else files are read."""

import datetime
import decimal
from dataclasses import replace
from typing import Any

import pytest

from mangrove.expressions.parse import parse_predicate
from mangrove.expressions.schema_text import parse_schema
from mangrove.model.manifests import ColumnStatistics, DataFile
from mangrove.model.objects import Delta, TableVersion
from mangrove.model.values import Value
from mangrove.tables.aggregates import Aggregate, AggregateKind, compute_aggregates
from mangrove.tables.schema_evolution import add_column
from mangrove.tables.table_state import PartitionLog, TableState
from mangrove.tables.write_plan import build_append_delta, build_delete_delta

EXACT: list[tuple[str, Value]] = [
    ("bigint", 3),
    ("boolean", True),
    ("decimal(9,2)", decimal.Decimal("1.25")),
    ("date", datetime.date(2026, 1, 2)),
    ("timestamp", datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)),
    ("timestamp_ntz", datetime.datetime(2026, 1, 2)),
]


def build_file(name: str, **statistics: Any) -> DataFile:
    """Return a file with ten rows and these statistics of its only column."""
    return DataFile(f"data/{name}", 100, 10, statistics=(ColumnStatistics(1, **statistics),), schema_id=0)


def build_state(data_type: str, *files: DataFile, more: tuple[Delta, ...] = ()) -> TableState:
    deltas = (build_append_delta(files), *more)
    placed = tuple(replace(delta, position=place) for place, delta in enumerate(deltas, 1))
    version = TableVersion(1, parse_schema(f"x {data_type}"), keys=(1,))
    return TableState("s.t", "table-id", version, logs=(PartitionLog((), placed),))


def aggregate(state: TableState, *kinds: str, where: str | None = None) -> tuple[Value | None, ...] | None:
    predicate = None if where is None else parse_predicate(where, state.schema)
    return compute_aggregates(state, predicate, [Aggregate(AggregateKind(kind), 1) for kind in kinds])


@pytest.mark.parametrize(("data_type", "value"), EXACT)
def test_bounds_of_exact_types_are_the_minimum_and_maximum(data_type: str, value: Value) -> None:
    full = build_file("a", null_count=3, minimum=value, maximum=value)
    state = build_state(data_type, full, build_file("b", null_count=10))
    assert aggregate(state, "count", "min", "max") == (7, value, value)
    assert compute_aggregates(state, None, [Aggregate(AggregateKind.COUNT)]) == (20,)


def test_an_empty_table_has_no_minimum() -> None:
    assert aggregate(build_state("int"), "count", "min", "max") == (0, None, None)


@pytest.mark.parametrize(
    ("data_type", "statistics"),
    [
        ("string", {"null_count": 0, "minimum": "a", "maximum": "b"}),
        ("binary", {"null_count": 0, "minimum": b"a", "maximum": b"b"}),
        ("double", {"null_count": 0, "minimum": 1.5, "maximum": 2.5}),
        ("double", {"null_count": 0, "nan_count": 1, "minimum": 1.5, "maximum": 2.5}),
        ("double", {"null_count": 0, "nan_count": 0, "minimum": -0.0, "maximum": 0.0}),
        ("bigint", {"minimum": 1, "maximum": 2}),
        ("bigint", {"null_count": 0}),
    ],
)
def test_bounds_that_may_be_no_values_are_not_used(data_type: str, statistics: dict[str, Any]) -> None:
    state = build_state(data_type, build_file("a", **statistics))
    assert aggregate(state, "min") is None
    assert aggregate(state, "max") is None


def test_a_file_without_statistics_is_read() -> None:
    state = build_state("bigint", build_file("a", null_count=0, minimum=1, maximum=2), DataFile("data/b", 1, 10))
    assert aggregate(state, "max") is None
    assert aggregate(state, "count") is None


def test_files_beside_deletes_are_read() -> None:
    keys = build_file("k", null_count=0, minimum=2, maximum=2)
    state = build_state(
        "bigint", build_file("a", null_count=0, minimum=1, maximum=3), more=(build_delete_delta([keys], [1]),)
    )
    assert aggregate(state, "count") is None
    assert aggregate(state, "count", where="x > 5") == (0,)


def test_a_condition_on_some_rows_of_a_file_is_not_decided_by_bounds() -> None:
    files = [build_file(name, null_count=0, minimum=low, maximum=low + 9) for name, low in (("a", 0), ("b", 10))]
    state = build_state("bigint", *files)
    assert aggregate(state, "count", "min", where="x >= 10") == (10, 10)
    assert aggregate(state, "count", where="x >= 11") is None


def test_a_column_is_null_in_files_that_are_older() -> None:
    state = build_state("bigint", build_file("a", null_count=0, minimum=1, maximum=2))
    version = add_column(state.version, ("y",), "int")
    newer = replace(state, version=version)
    assert compute_aggregates(newer, None, [Aggregate(kind, 2) for kind in AggregateKind]) == (0, None, None)
