"""Partition values are those that Iceberg computes."""

import datetime
from decimal import Decimal as Exact

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import InvalidInputError
from mangrove.model.partitioning import (
    Bucket,
    Days,
    Hours,
    Identity,
    Months,
    Transform,
    Truncate,
    Years,
    result_type_of,
    transform_value,
)
from mangrove.model.types import (
    Binary,
    Boolean,
    Char,
    DataType,
    Date,
    Decimal,
    Fixed,
    Float64,
    Int16,
    Int32,
    Int64,
    Time,
    Timestamp,
    TimestampTz,
    Varchar,
    list_of,
)
from mangrove.model.values import Value

LARGE = 2**31 - 1


@pytest.mark.parametrize(
    ("source", "value", "expected_hash"),
    [
        (Int32(), 34, 2017239379),
        (Int64(), 34, 2017239379),
        (Decimal(9, 2), Exact("14.20"), -500754589),
        (Date(), datetime.date(2017, 11, 16), -653330422),
        (Time(), datetime.time(22, 31, 8), -662762989),
        (Timestamp(), datetime.datetime(2017, 11, 16, 22, 31, 8), -2047944441),
        (TimestampTz(), datetime.datetime(2017, 11, 16, 22, 31, 8, tzinfo=datetime.UTC), -2047944441),
        (Timestamp(), datetime.datetime(2017, 11, 16, 22, 31, 8, 1), -1207196810),
        (Varchar(), "iceberg", 1210000089),
        (Fixed(4), b"\x00\x01\x02\x03", -188683207),
        (Binary(), b"\x00\x01\x02\x03", -188683207),
    ],
)
def test_buckets_follow_the_hashes_that_icebergs_specification_lists(
    source: DataType, value: Value, expected_hash: int
) -> None:
    assert transform_value(Bucket(LARGE), source, value) == (expected_hash & 0x7FFFFFFF) % LARGE
    assert transform_value(Bucket(16), source, value) == (expected_hash & 0x7FFFFFFF) % 16


@pytest.mark.parametrize(
    ("source", "width", "value", "expected"),
    [
        (Int32(), 10, 1, 0),
        (Int32(), 10, -1, -10),
        (Int64(), 10, 19, 10),
        (Decimal(9, 2), 50, Exact("10.65"), Exact("10.50")),
        (Decimal(9, 2), 50, Exact("-0.05"), Exact("-0.50")),
        (Varchar(), 3, "iceberg", "ice"),
        (Varchar(), 2, "\U0001f600é€", "\U0001f600é"),
        (Char(4), 10, "ab", "ab"),
        (Binary(), 3, b"\x01\x02\x03\x04", b"\x01\x02\x03"),
    ],
)
def test_truncation_rounds_down(source: DataType, width: int, value: Value, expected: Value) -> None:
    assert transform_value(Truncate(width), source, value) == expected


@pytest.mark.parametrize(
    ("transform", "value", "expected"),
    [
        (Years(), datetime.datetime(2017, 11, 16, 22, 31, 8), 47),
        (Months(), datetime.datetime(2017, 11, 16, 22, 31, 8), 574),
        (Days(), datetime.datetime(2017, 11, 16, 22, 31, 8), datetime.date(2017, 11, 16)),
        (Hours(), datetime.datetime(2017, 11, 16, 22, 31, 8), 419686),
        (Years(), datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), -1),
        (Months(), datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), -1),
        (Days(), datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), datetime.date(1969, 12, 31)),
        (Hours(), datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), -1),
        (Years(), datetime.datetime(1970, 1, 1), 0),
        (Months(), datetime.datetime(1970, 1, 1), 0),
        (Hours(), datetime.datetime(1970, 1, 1), 0),
        (Years(), datetime.datetime(1, 1, 1), -1969),
    ],
)
def test_parts_of_a_timestamp_count_from_1970_and_round_down(
    transform: Transform, value: datetime.datetime, expected: Value
) -> None:
    assert transform_value(transform, Timestamp(), value) == expected
    assert transform_value(transform, TimestampTz(), value.replace(tzinfo=datetime.UTC)) == expected


def test_parts_of_a_date_are_those_of_its_midnight() -> None:
    day = datetime.date(1969, 12, 31)
    assert [transform_value(transform, Date(), day) for transform in (Years(), Months(), Days())] == [-1, -1, day]


@pytest.mark.parametrize("transform", [Identity(), Bucket(4), Truncate(4), Years(), Months(), Days()])
def test_null_stays_null(transform: Transform) -> None:
    source: DataType = Varchar() if isinstance(transform, Truncate) else Date()
    assert transform_value(transform, source, None) is None


@pytest.mark.parametrize(
    ("transform", "source", "result"),
    [
        (Identity(), Varchar(3), Varchar(3)),
        (Bucket(4), Varchar(), Int32()),
        (Truncate(4), Decimal(9, 2), Decimal(9, 2)),
        (Years(), Date(), Int32()),
        (Days(), TimestampTz(), Date()),
        (Hours(), Timestamp(), Int32()),
    ],
)
def test_a_transform_returns_its_result_type(transform: Transform, source: DataType, result: DataType) -> None:
    assert result_type_of(transform, source) == result


@pytest.mark.parametrize(
    ("transform", "source"),
    [
        (Identity(), list_of(Int32())),
        (Bucket(4), Float64()),
        (Bucket(4), Boolean()),
        (Truncate(4), Date()),
        (Truncate(4), Float64()),
        (Years(), Int32()),
        (Hours(), Date()),
        (Days(), Time()),
    ],
)
def test_a_transform_of_an_unsupported_column_type_is_rejected(transform: Transform, source: DataType) -> None:
    with pytest.raises(InvalidInputError, match="does not support"):
        result_type_of(transform, source)


@pytest.mark.parametrize(
    ("source", "value"), [(Int32(), "1"), (Int32(), True), (Timestamp(), datetime.date(2020, 1, 1)), (Varchar(), b"")]
)
def test_a_value_of_another_type_is_refused(source: DataType, value: Value) -> None:
    with pytest.raises(InvalidInputError, match="not a value of a column"):
        transform_value(Identity(), source, value)


def test_a_decimal_with_more_digits_than_its_column_has_no_bucket() -> None:
    with pytest.raises(InvalidInputError, match="more than 2 digits"):
        transform_value(Bucket(4), Decimal(9, 2), Exact("1.005"))


@pytest.mark.parametrize("number", [0, -1, 2**31, True])
def test_a_parameter_out_of_bounds_is_refused(number: int) -> None:
    with pytest.raises(InvalidInputError):
        Bucket(number)
    with pytest.raises(InvalidInputError):
        Truncate(number)


@given(st.integers(-(2**15), 2**15 - 1), st.integers(1, 1000))
def test_widening_an_integer_column_moves_no_row_to_another_partition(value: int, number: int) -> None:
    for transform in (Bucket(number), Truncate(number)):
        assert (
            transform_value(transform, Int16(), value)
            == transform_value(transform, Int32(), value)
            == transform_value(transform, Int64(), value)
        )


@given(st.integers(), st.integers(), st.integers(1, 1000))
def test_truncation_keeps_the_order(left: int, right: int, width: int) -> None:
    low, high = (transform_value(Truncate(width), Int64(), value) for value in sorted((left, right)))
    assert isinstance(low, int)
    assert isinstance(high, int)
    assert low <= high <= max(left, right)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**20), max_value=10**20))
def test_truncating_a_decimal_is_exact(value: Exact) -> None:
    result = transform_value(Truncate(100), Decimal(38, 2), value)
    assert isinstance(result, Exact)
    assert 0 <= value - result < 1
    assert result == int(result)
