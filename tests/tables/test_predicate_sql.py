"""A predicate that is printed parses back to itself."""

import datetime
import decimal
import math

import pytest
from hypothesis import example, given
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
    render_predicate_sql,
)
from mangrove.expressions.schema_text import parse_schema
from mangrove.model.types import Column
from mangrove.testing.strategies import texts

SCHEMA = parse_schema(
    "i bigint, s string, f double, d decimal(38,9), t timestamp, n timestamp_ntz, x date, b binary, o boolean, "
    "`odd ``name.` struct<`in side`: time>"
)
MOMENTS = st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31))
VALUES: dict[str, st.SearchStrategy[object]] = {
    "i": st.integers(-(2**63), 2**63 - 1),
    "s": texts(),
    "f": st.floats(allow_nan=False),
    "d": st.integers(-(10**38) + 1, 10**38 - 1).map(
        lambda number: decimal.Decimal(number).scaleb(-9, decimal.Context(prec=60))
    ),
    "t": MOMENTS.map(lambda moment: moment.replace(tzinfo=datetime.UTC)),
    "n": MOMENTS,
    "x": st.dates(),
    "b": st.binary(max_size=4),
    "o": st.booleans(),
    "in side": st.times(),
}


def leaves(column: Column) -> st.SearchStrategy[Predicate]:
    values = VALUES[column.name]
    found: st.SearchStrategy[Predicate] = st.one_of(
        st.builds(ColumnComparison, st.just(column.id), st.sampled_from(Operator), values),
        st.builds(IsIn, st.just(column.id), st.lists(values, min_size=1, max_size=2).map(tuple), st.booleans()),
        st.builds(IsNull, st.just(column.id), st.booleans()),
    )
    return found | st.builds(StartsWith, st.just(column.id), texts(), st.booleans()) if column.name == "s" else found


COLUMNS = [column for _, column in SCHEMA.all_columns() if column.name in VALUES]
PREDICATES = st.recursive(
    st.sampled_from(COLUMNS).flatmap(leaves),
    lambda inner: st.lists(inner, min_size=2, max_size=3).flatmap(
        lambda parts: st.sampled_from([AllOf(tuple(parts)), AnyOf(tuple(parts))])
    ),
    max_leaves=4,
)


@given(PREDICATES)
@example(ColumnComparison(4, Operator.EQUAL, decimal.Decimal("99999999999999999999999999995.000000000")))
def test_a_predicate_round_trips_through_sql(predicate: Predicate) -> None:
    assert parse_predicate(render_predicate_sql(predicate, SCHEMA), SCHEMA) == predicate


@pytest.mark.parametrize(
    ("predicate", "text"),
    [
        (ColumnComparison(2, Operator.UNEQUAL, "it's"), r"s <> 'it\'s'"),
        (ColumnComparison(3, Operator.LESS, -math.inf), "f < '-infinity'"),
        (StartsWith(2, "a%_", negated=True), r"s not like 'a\\%\\_%'"),
        (IsNull(11, negated=True), "`odd ``name.`.`in side` is not null"),
        (ColumnComparison(6, Operator.EQUAL, datetime.datetime(2026, 1, 1)), "n = timestamp_ntz '2026-01-01 00:00:00'"),
    ],
)
def test_a_predicate_is_printed_as_spark_writes_it(predicate: Predicate, text: str) -> None:
    assert render_predicate_sql(predicate, SCHEMA) == text
