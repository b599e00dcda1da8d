"""Bounds in Iceberg's bytes and back, checked against PyIceberg's own reading of them."""

import datetime
import decimal
import math
import struct
import uuid

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes
from pyiceberg.types import UUIDType

from mangrove.errors import InvalidInputError
from mangrove.expressions.schema_text import parse_schema, parse_type
from mangrove.iceberg.schemas import to_iceberg_primitive
from mangrove.iceberg.values import decode_bound, encode_bound, from_iceberg_value, to_iceberg_value
from mangrove.model.types import (
    Binary,
    Boolean,
    Char,
    Column,
    DataType,
    Date,
    Decimal,
    Fixed,
    Float32,
    Float64,
    Int16,
    Int32,
    Int64,
    Time,
    Timestamp,
    TimestampTz,
    TimeTz,
    Varchar,
)
from mangrove.model.values import Value, truncate_lower_bound, truncate_upper_bound
from mangrove.testing.strategies import plain_types, texts, values

SIZED = [
    Boolean(),
    Int16(),
    Int32(),
    Int64(),
    Float32(),
    Float64(),
    Date(),
    Time(),
    TimeTz(),
    Timestamp(),
    TimestampTz(),
]


def values_of_type(data_type: DataType) -> st.SearchStrategy[Value]:
    """Return values that a column of the type can hold."""
    match data_type:
        case Decimal(precision, scale):
            unscaled = st.integers(-(10**precision) + 1, 10**precision - 1)
            return unscaled.map(lambda number: decimal.Decimal(number).scaleb(-scale, decimal.Context(prec=60)))
        case Fixed(length):
            assume(length <= 64)
            return st.binary(min_size=length, max_size=length)
        case Varchar() | Char() | Binary():
            return values(data_type) | texts(50) if not isinstance(data_type, Binary) else st.binary(max_size=50)
        case _:
            return values(data_type)


@st.composite
def typed_values(draw: st.DrawFn) -> tuple[DataType, Value]:
    data_type = draw(plain_types() | st.builds(Fixed, st.integers(1, 64)))
    return data_type, draw(values_of_type(data_type))


def published_type(data_type: DataType) -> object:
    return to_iceberg_primitive(Column(1, "c", data_type))


@given(typed_values())
@example((Decimal(30, 0), decimal.Decimal(999999999999999999999999999950)))  # which 28 digits would round up
def test_a_bound_round_trips_through_bytes(case: tuple[DataType, Value]) -> None:
    data_type, value = case
    data = encode_bound(value, data_type)
    assert data is not None
    # Bounds of a time of day are those that Arrow tells, without a zone.
    known = value.replace(tzinfo=None) if isinstance(value, datetime.time) else value
    assert decode_bound(data, data_type, "a file") == known


@given(typed_values(), st.booleans())
def test_pyiceberg_decodes_a_bound_to_the_same_value(case: tuple[DataType, Value], is_upper: bool) -> None:
    data_type, value = case
    data = encode_bound(value, data_type, is_upper=is_upper)
    assert data is not None
    assert from_bytes(published_type(data_type), data) == to_iceberg_value(value, data_type)  # type: ignore[arg-type]


@given(st.one_of(texts(50), st.binary(max_size=50), st.text(st.sampled_from("a\ud7ff\ue000\U0010ffff"), max_size=50)))
def test_truncated_bounds_remain_valid(value: str | bytes) -> None:
    data_type = Varchar() if isinstance(value, str) else Binary()
    whole = value.encode() if isinstance(value, str) else value
    low, high = truncate_lower_bound(value), truncate_upper_bound(value)
    lower = encode_bound(low, data_type)
    assert lower is not None
    assert lower <= whole
    if high is not None:
        upper = encode_bound(high, data_type, is_upper=True)
        assert upper is not None
        assert whole <= upper


@pytest.mark.parametrize("data_type", [Float32(), Float64()])
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_bounds_of_zero_include_both_zeros(data_type: DataType, zero: float) -> None:
    form = "<f" if isinstance(data_type, Float32) else "<d"
    assert encode_bound(zero, data_type) == struct.pack(form, -0.0)
    assert encode_bound(zero, data_type, is_upper=True) == struct.pack(form, 0.0)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("int", 2**31),
        ("smallint", -(2**31) - 1),
        ("bigint", True),
        ("float", 0.1),
        ("float", 1e300),
        ("decimal(4, 2)", decimal.Decimal("100.00")),
        ("decimal(4, 2)", decimal.Decimal("1.001")),
        ("date", datetime.datetime(2026, 1, 1)),
        ("timestamp", datetime.datetime(2026, 1, 1)),
        ("timestamp_ntz", datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)),
        ("string", b"bytes"),
        ("array<int>", 1),
    ],
)
def test_a_bound_outside_the_column_type_is_not_published(text: str, value: Value) -> None:
    assert encode_bound(value, parse_type(text)) is None


@pytest.mark.parametrize("data_type", SIZED)
@pytest.mark.parametrize("size", [0, 2, 3, 5, 7, 9])
def test_a_bound_of_the_wrong_size_is_refused(data_type: DataType, size: int) -> None:
    with pytest.raises(InvalidInputError, match=r"a file has the invalid bound .*; expected"):
        decode_bound(bytes(size), data_type, "a file")


def test_an_empty_bound_of_a_decimal_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="an empty bound for a decimal"):
        decode_bound(b"", Decimal(9, 2), "a file")


@pytest.mark.parametrize(("narrow", "wide", "value"), [(Int32(), Int64(), -7), (Float32(), Float64(), 1.5)])
def test_bounds_from_before_a_column_was_widened_are_read(narrow: DataType, wide: DataType, value: Value) -> None:
    data = encode_bound(value, narrow)
    assert data is not None
    assert decode_bound(data, wide, "a file") == value


@pytest.mark.parametrize(
    ("data", "data_type"),
    [
        ("ä".encode()[:1], Varchar()),
        (struct.pack("<d", math.nan), Float64()),
        (struct.pack("<q", 2**62), Timestamp()),
        (struct.pack("<q", -(2**62)), TimestampTz()),
        (struct.pack("<q", 86_400_000_000), Time()),
        (struct.pack("<i", 2**30), Date()),
        (b"\x01", parse_type("array<int>")),
    ],
)
def test_an_unrepresentable_bound_is_ignored(data: bytes, data_type: DataType) -> None:
    assert decode_bound(data, data_type, "a file") is None


def test_a_uuid_is_its_16_bytes_in_both_directions() -> None:
    one = uuid.UUID(int=2**127 + 5)
    assert from_iceberg_value(one, Fixed(16)) == one.bytes
    column = Column(1, "u", Fixed(16), properties={"iceberg.type": "uuid"})
    assert to_iceberg_primitive(column) == UUIDType()
    assert encode_bound(one.bytes, column.type) == one.bytes


def test_decimals_have_the_scale_of_their_type() -> None:
    (column,) = parse_schema("e decimal(9, 2)").columns
    held = to_iceberg_value(decimal.Decimal("1E+2"), column.type)
    assert held.as_tuple() == decimal.Decimal("100.00").as_tuple()
