"""Column profiles over batches of any size agree with plain Python over all rows."""

import datetime
import decimal
import math
import random
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mangrove.local.column_profile import BINS_MAX, EXACT_DISTINCT_MAX, profile_columns
from mangrove.tables.column_profile import ColumnProfile


def profile(values: Any, *cuts: int) -> ColumnProfile:
    """Profile one column whose rows are cut into batches at these places."""
    batch = pa.record_batch({"x": values})
    edges = [0, *sorted(cuts), len(values)]
    batches = [batch.slice(start, end - start) for start, end in pairwise(edges)]
    (column,) = profile_columns(batches, batch.schema)
    return column


NUMBERS = st.one_of(
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)).map(lambda some: pa.array(some, pa.int64())),
    st.lists(st.none() | st.floats()).map(lambda some: pa.array(some, pa.float64())),
    st.lists(st.none() | st.dates()).map(lambda some: pa.array(some, pa.date32())),
    st.lists(st.none() | st.datetimes()).map(lambda some: pa.array(some, pa.timestamp("us"))),
    st.lists(st.none() | st.decimals(-(10**9), 10**9, places=2)).map(lambda some: pa.array(some, pa.decimal128(12, 2))),
)


@given(NUMBERS, st.data())
def test_a_profile_does_not_depend_on_batches_and_agrees_with_plain_python(values: Any, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(values)), max_size=3))
    column = profile(values, *cuts)
    assert column == profile(values)
    known = [value for value in values.to_pylist() if value is not None]
    ordered = [value for value in known if value == value]
    assert (column.count, column.nulls) == (len(values), len(values) - len(known))
    assert (column.minimum, column.maximum) == ((min(ordered), max(ordered)) if ordered else (None, None))
    assert column.is_distinct_exact
    finite = [value for value in ordered if not isinstance(value, float) or math.isfinite(value)]
    if not finite:
        assert column.histogram is None
        return
    assert column.histogram is not None
    bins, counts = column.histogram.bins, column.histogram.counts
    assert len(bins) == len(counts) + 1 <= BINS_MAX + 1
    assert sum(counts) == len(finite)
    assert list(bins) == sorted(bins)
    assert (counts[0], counts[-1]) > (0, 0)


def test_every_value_is_counted_in_its_bin() -> None:
    column = profile(pa.array([0, 1, 2, 3, 40, 63, None]), 2, 5)
    assert column.histogram is not None
    bins, counts = column.histogram.bins, column.histogram.counts
    assert bins[:4] == (0, 2, 4, 6)
    assert bins[-1] == 63
    assert {bins[place]: count for place, count in enumerate(counts) if count} == {0: 2, 2: 2, 40: 1, 62: 1}


def test_values_of_every_type_have_counts_and_comparable_ones_have_bounds() -> None:
    day = datetime.date(2026, 11, 1)
    batch = pa.record_batch(
        {
            "flag": [True, None, False],
            "text": ["b", "a", "b"],
            "data": [b"\xff", b"", None],
            "price": [decimal.Decimal("1.50"), decimal.Decimal(-2), None],
            "day": [day, None, day],
            "category": pa.array(["x", "y", "x"]).dictionary_encode(),
            "far": pa.array([3_000_000, 0, None], pa.int32()).cast(pa.date32()),
            "tags": [["a"], [], None],
            "none": pa.nulls(3, pa.int32()),
        }
    )
    found = {one.name: one for one in profile_columns([batch, batch.slice(0, 0)], batch.schema)}
    assert {name: (one.type, one.distinct, one.minimum, one.maximum) for name, one in found.items()} == {
        "flag": ("boolean", 2, False, True),
        "text": ("string", 2, "a", "b"),
        "data": ("binary", 2, b"", b"\xff"),
        "price": ("decimal(3,2)", 2, decimal.Decimal("-2.00"), decimal.Decimal("1.50")),
        "day": ("date", 1, day, day),
        "category": ("string", 2, "x", "y"),
        "far": ("date", 2, datetime.date(1970, 1, 1), "10183-09-21"),
        "tags": ("array<string>", None, None, None),
        "none": ("int", 0, None, None),
    }
    assert {name for name, one in found.items() if one.histogram} == {"price", "day", "far"}
    assert [one.nulls for one in found.values()] == [1, 0, 1, 1, 1, 0, 1, 1, 3]


def test_frequent_values_are_those_that_occur_most_often() -> None:
    day = datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC)
    for values, expected in (
        (["b", "a", "b", "c", "a", "b", None], (("b", 3), ("a", 2))),
        ([1.5, math.nan, math.nan, 2.0], ((math.nan, 2),)),
        ([b"\xff", b"", b"\xff"], ((b"\xff", 2),)),
        (pa.array([day, None, day], pa.timestamp("us", "UTC")), ((day, 2),)),
        ([decimal.Decimal("1.50"), decimal.Decimal("1.50")], ((decimal.Decimal("1.50"), 2),)),
        ([True, False, True], ((True, 2),)),
        ([1, 2, 3], ()),
    ):
        assert profile(values, 1).frequent == expected
    many = [*range(3 * EXACT_DISTINCT_MAX), *[7] * 50]
    assert profile(pa.array(many), 40_000).frequent[0][0] == 7


def test_a_table_without_rows_has_a_profile() -> None:
    (column,) = profile_columns([], pa.schema([("x", pa.int64())]))
    assert (column.count, column.distinct, column.minimum, column.histogram) == (0, 0, None, None)


def test_many_distinct_values_are_estimated_and_few_are_exact() -> None:
    few = [f"key {number}" for number in range(EXACT_DISTINCT_MAX)]
    assert (profile(few * 2, 9).distinct, profile(few * 2, 9).is_distinct_exact) == (EXACT_DISTINCT_MAX, True)
    many = [number * 7919 for number in range(20 * EXACT_DISTINCT_MAX)]
    random.Random(0).shuffle(many)
    column = profile(pa.array(many), 10_000, 100_000)
    assert not column.is_distinct_exact
    assert column.distinct is not None
    # Five standard errors.
    assert abs(column.distinct - len(many)) < len(many) * 5 / math.sqrt(EXACT_DISTINCT_MAX)
