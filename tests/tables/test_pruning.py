"""No file is skipped that holds a row which was asked for."""

import datetime
import decimal
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.expressions.parse import parse_predicate
from mangrove.expressions.predicates import (
    AllOf,
    AnyOf,
    ColumnComparison,
    IsIn,
    IsNull,
    Operator,
    Predicate,
    StartsWith,
)
from mangrove.expressions.schema_text import parse_schema
from mangrove.model.partitioning import (
    Bucket,
    Days,
    Hours,
    Identity,
    Months,
    PartitionField,
    Transform,
    Truncate,
    Years,
    transform_value,
)
from mangrove.model.schema import Schema
from mangrove.model.types import Column
from mangrove.model.values import truncate_lower_bound, truncate_upper_bound
from mangrove.tables.pruning import (
    ColumnPruningStats,
    PartitionFieldValue,
    can_match_partition_values,
    can_match_stats,
    must_match_stats,
)
from mangrove.testing.table_model import evaluate_predicate

SCHEMA = parse_schema("i bigint, s string, f double, d decimal(6,2), t timestamp, x date, b binary, o boolean")
LONG = "ab" * 15
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1]),
    "s": st.sampled_from(["", "a", "ab", "b", LONG + "a", LONG + "aaa", LONG + "ab", "\U0010ffff" * 33, "é"]),
    "f": st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 2.5, math.inf]),
    "d": st.integers(-300, 300).map(lambda cents: decimal.Decimal(cents).scaleb(-2)),
    "t": st.datetimes(datetime.datetime(1969, 12, 30), datetime.datetime(1970, 1, 3)).map(
        lambda moment: moment.replace(tzinfo=datetime.UTC)
    ),
    "x": st.dates(datetime.date(1969, 11, 1), datetime.date(1970, 3, 1)),
    "b": st.sampled_from([b"", b"\x00", b"\xff" * 40, b"ab"]),
    "o": st.booleans(),
}
TRANSFORMS: list[tuple[str, Transform]] = [
    *((name, Identity()) for name in VALUES if name != "f"),
    *((name, Bucket(2)) for name in "isdtxb"),
    ("i", Truncate(2)),
    ("s", Truncate(1)),
    ("s", Truncate(2)),
    ("d", Truncate(50)),
    ("b", Truncate(1)),
    *((name, transform) for name in "tx" for transform in (Years(), Months(), Days())),
    ("t", Hours()),
]


def leaves(column: Column) -> st.SearchStrategy[Predicate]:
    values = VALUES[column.name]
    found: st.SearchStrategy[Predicate] = st.one_of(
        st.builds(ColumnComparison, st.just(column.id), st.sampled_from(Operator), values),
        st.builds(IsIn, st.just(column.id), st.lists(values, min_size=1, max_size=2).map(tuple), st.booleans()),
        st.builds(IsNull, st.just(column.id), st.booleans()),
    )
    if column.name != "s":
        return found
    prefixes = st.sampled_from(["", "a", "ab", "b", LONG, "é"])
    return found | st.builds(StartsWith, st.just(column.id), prefixes, st.booleans())


def predicates() -> st.SearchStrategy[Predicate]:
    several = st.sampled_from(SCHEMA.columns).flatmap(leaves)
    return st.recursive(
        several,
        lambda inner: st.lists(inner, min_size=1, max_size=3).flatmap(
            lambda parts: st.sampled_from([AllOf(tuple(parts)), AnyOf(tuple(parts))])
        ),
        max_leaves=4,
    )


def rows() -> st.SearchStrategy[list[dict[str, Any]]]:
    with_nan = {**VALUES, "f": VALUES["f"] | st.just(math.nan)}
    one_row = st.fixed_dictionaries({name: st.none() | values for name, values in with_nan.items()})
    return st.lists(one_row, min_size=1, max_size=4)


def pruning_stats_of(table: list[dict[str, Any]], column: Column) -> ColumnPruningStats:
    values = [row[column.name] for row in table]
    there = [value for value in values if value is not None]
    numbers = [value for value in there if value == value]
    return ColumnPruningStats(
        truncate_lower_bound(min(numbers)) if numbers else None,
        truncate_upper_bound(max(numbers)) if numbers else None,
        may_be_null=None in values,
        may_be_value=bool(there),
        may_be_nan=len(numbers) < len(there),
    )


def matches(predicate: Predicate, table: list[dict[str, Any]], schema: Schema = SCHEMA) -> bool:
    return any(evaluate_predicate(predicate, row, schema) for row in table)


@given(rows(), predicates())
def test_bounds_never_prune_a_matching_row(table: list[dict[str, Any]], predicate: Predicate) -> None:
    facts = {column.id: pruning_stats_of(table, column) for column in SCHEMA.columns}
    if matches(predicate, table):
        assert can_match_stats(predicate, facts.__getitem__)


@given(rows(), predicates())
def test_bounds_never_claim_a_match_of_a_non_matching_row(table: list[dict[str, Any]], predicate: Predicate) -> None:
    facts = {column.id: pruning_stats_of(table, column) for column in SCHEMA.columns}
    if must_match_stats(predicate, facts.__getitem__):
        assert all(evaluate_predicate(predicate, row, SCHEMA) for row in table)


@pytest.mark.parametrize("text", ["i >= 1", "i <> 4", "i in (1, 2) or i = 3", "s like 'a%'", "x is null", "not i < 1"])
def test_bounds_prove_that_all_rows_match(text: str) -> None:
    table = [{**dict.fromkeys(VALUES), "i": number, "s": f"a{number}"} for number in (2, 2)]
    facts = {column.id: pruning_stats_of(table, column) for column in SCHEMA.columns}
    assert must_match_stats(parse_predicate(text, SCHEMA), facts.__getitem__)
    assert not must_match_stats(parse_predicate("d = 1 or d <> 1", SCHEMA), facts.__getitem__)


@given(st.data())
def test_a_partition_value_never_prunes_a_matching_row(data: st.DataObject) -> None:
    name, transform = data.draw(st.sampled_from(TRANSFORMS))
    column = SCHEMA.column(name)
    value = data.draw(st.none() | VALUES[name])
    partition_value = PartitionFieldValue(
        PartitionField(column.id, transform, "p"), column.type, transform_value(transform, column.type, value)
    )
    predicate = data.draw(leaves(column))
    if evaluate_predicate(predicate, {name: value}, SCHEMA):
        assert can_match_partition_values(predicate, [partition_value])


@pytest.mark.parametrize(
    "text",
    [
        "i < 1",
        "i = 4",
        "i > 3",
        "i not between 0 and 9",
        "i in (0, 4)",
        "i is null",
        "s like 'c%'",
        "s not like 'b%'",
        "i <= 3 and s > 'bz'",
        "i > 3 or s < 'b'",
        "x is not null",
        "x > '1970-01-01'",
        "not (i > 0)",
    ],
)
def test_bounds_prune_values_outside_them(text: str) -> None:
    facts = {
        1: ColumnPruningStats(1, 3, may_be_null=False, may_be_nan=False),
        2: ColumnPruningStats("ba", "bz", may_be_null=False, may_be_nan=False),
        6: ColumnPruningStats(may_be_value=False),
    }
    assert not can_match_stats(parse_predicate(text, SCHEMA), facts.__getitem__)


def test_nan_is_above_every_bound() -> None:
    facts = ColumnPruningStats(1.0, 2.0, may_be_nan=True)
    assert can_match_stats(parse_predicate("f > 5", SCHEMA), lambda _: facts)
    assert not can_match_stats(parse_predicate("f < 0", SCHEMA), lambda _: facts)


@pytest.mark.parametrize(
    ("name", "transform", "value", "text"),
    [
        ("t", Days(), datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC), "t < '2026-01-01'"),
        ("t", Days(), datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC), "days(t) = '2026-01-03'"),
        ("i", Bucket(100), 1, "i in (2, 3)"),
        ("i", Truncate(10), 25, "i < 19"),
        ("s", Truncate(2), "abc", "s like 'ac%'"),
        ("s", Identity(), None, "s = 'a'"),
        ("s", Identity(), "a", "s is null"),
    ],
)
def test_a_partition_value_prunes_other_partitions(name: str, transform: Transform, value: Any, text: str) -> None:
    column = SCHEMA.column(name)
    partition_value = PartitionFieldValue(
        PartitionField(column.id, transform, "p"), column.type, transform_value(transform, column.type, value)
    )
    assert not can_match_partition_values(parse_predicate(text, SCHEMA), [partition_value])
