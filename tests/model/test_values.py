"""Bounds still bound when they are shortened, and values have one form."""

import datetime
from decimal import Decimal as Exact

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import InvalidInputError
from mangrove.model.types import Boolean, DataType, Int32, Timestamp, TimestampTz, list_of
from mangrove.model.values import (
    BOUND_LENGTH_MAX,
    Value,
    date_of_days,
    days_of,
    is_value_of_type,
    micros_of_datetime,
    micros_of_time,
    normalize_value,
    time_of_micros,
    timestamp_of_micros,
    timestamp_tz_of_micros,
    truncate_lower_bound,
    truncate_upper_bound,
)
from mangrove.testing.strategies import plain_types, texts, values

LONG = st.text(st.sampled_from("a\ud7ff\ue000\U0010ffff"), min_size=30, max_size=40) | texts(max_size=50)


@given(LONG)
def test_bounds_of_text_are_truncated_and_valid(text: str) -> None:
    low, high = truncate_lower_bound(text), truncate_upper_bound(text)
    assert isinstance(low, str)
    assert len(low) <= BOUND_LENGTH_MAX
    assert low.encode() <= text.encode()
    if high is None:
        assert set(text[:BOUND_LENGTH_MAX]) == {"\U0010ffff"}
    else:
        assert isinstance(high, str)
        assert len(high) <= BOUND_LENGTH_MAX
        assert high.encode() >= text.encode()


@given(st.binary(max_size=50) | st.binary(min_size=33, max_size=40).map(lambda data: b"\xff" * 31 + data))
def test_bounds_of_bytes_are_truncated_and_valid(data: bytes) -> None:
    low, high = truncate_lower_bound(data), truncate_upper_bound(data)
    assert isinstance(low, bytes)
    assert len(low) <= BOUND_LENGTH_MAX
    assert low <= data
    assert high is None or (isinstance(high, bytes) and len(high) <= BOUND_LENGTH_MAX and high >= data)
    if high is None:
        assert data.startswith(b"\xff" * BOUND_LENGTH_MAX)


def test_an_upper_bound_is_rounded_up_past_the_surrogates() -> None:
    assert truncate_upper_bound("a" * 31 + "\ud7ff" + "x") == "a" * 31 + "\ue000"
    assert truncate_upper_bound("a" * 31 + "\U0010ffff" + "x") == "a" * 30 + "b"


def test_a_short_value_is_its_own_bound() -> None:
    for value in ("abc", b"abc", 7, Exact("1.5"), datetime.date(2026, 1, 1)):
        assert truncate_lower_bound(value) == truncate_upper_bound(value) == value


@given(plain_types().flatmap(lambda data_type: st.tuples(st.just(data_type), values(data_type))))
def test_a_value_matches_its_type_and_normalization_is_idempotent(drawn: tuple[DataType, Value]) -> None:
    data_type, value = drawn
    assert is_value_of_type(value, data_type)
    assert normalize_value(normalize_value(value)) == normalize_value(value)


def test_a_value_does_not_fit_another_type() -> None:
    moment = datetime.datetime(2026, 1, 1)
    assert not is_value_of_type(moment, TimestampTz())
    assert not is_value_of_type(moment.replace(tzinfo=datetime.UTC), Timestamp())
    assert not is_value_of_type(1, Boolean())
    yes: Value = True
    assert not is_value_of_type(yes, Int32())
    assert not is_value_of_type(1, list_of(Int32()))


def test_times_with_a_zone_become_utc() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=-5))
    assert normalize_value(datetime.time(22, tzinfo=zone)) == datetime.time(3, tzinfo=datetime.UTC)
    assert str(normalize_value(datetime.datetime(2026, 1, 1, 22, tzinfo=zone))) == "2026-01-02 03:00:00+00:00"


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        Exact("NaN"),
        Exact("Infinity"),
        "\ud800",
        datetime.datetime(9999, 12, 31, 23, tzinfo=datetime.timezone(datetime.timedelta(hours=-5))),
    ],
)
def test_a_value_that_cannot_be_ordered_or_stored_is_refused(value: Value) -> None:
    with pytest.raises(InvalidInputError):
        normalize_value(value)


@given(st.datetimes(), st.times(), st.dates())
def test_times_round_trip_through_integers(moment: datetime.datetime, time: datetime.time, day: datetime.date) -> None:
    assert timestamp_of_micros(micros_of_datetime(moment)) == moment
    aware = moment.replace(tzinfo=datetime.UTC)
    assert timestamp_tz_of_micros(micros_of_datetime(aware)) == aware
    assert time_of_micros(micros_of_time(time)) == time
    assert date_of_days(days_of(day)) == day
