"""Conversion of column bounds and partition values to and from the Iceberg encoding.

A bound is encoded with Iceberg's single-value serialization. A partition value has the form
of PyIceberg's Avro reader and writer: days and microseconds as numbers, decimals with the
scale of their type.

A bound that Iceberg would read differently is omitted, which only prevents pruning.
"""

import datetime
import decimal
import functools
import math
import struct
import uuid
from collections.abc import Sequence
from typing import Any, Final

from pyiceberg import conversions
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.transforms import VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType

from mangrove.errors import FormatError, InvalidInputError
from mangrove.iceberg.schemas import to_iceberg_primitive
from mangrove.model.partitioning import PartitionScheme
from mangrove.model.schema import Schema
from mangrove.model.schema_text import format_type
from mangrove.model.types import (
    Boolean,
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
    TimestampNs,
    TimestampTz,
    TimestampTzNs,
    TimeTz,
    is_nested,
)
from mangrove.model.values import (
    Value,
    date_of_days,
    days_of,
    is_value_of_type,
    micros_of_datetime,
    micros_of_time,
    restore_zone,
    time_of_micros,
    timestamp_of_micros,
    timestamp_tz_of_micros,
)

__all__ = [
    "decode_bound",
    "encode_bound",
    "from_iceberg_value",
    "from_partition_record",
    "has_partition_record",
    "to_iceberg_value",
    "to_partition_record",
]

_BITS: Final[dict[type, int]] = {Int16: 32, Int32: 32, Int64: 64}
"""Bits of the published type."""
_BOUND_SIZES: Final[dict[type, tuple[int, ...]]] = {
    Boolean: (1,),
    Int16: (4,),
    Int32: (4,),
    # Files written before the column was widened have the narrower type.
    Int64: (4, 8),
    Float32: (4,),
    Float64: (4, 8),
    Date: (4,),
    Time: (8,),
    TimeTz: (8,),
    Timestamp: (8,),
    TimestampTz: (8,),
    TimestampNs: (8,),
    TimestampTzNs: (8,),
}
_EXACT: Final = decimal.Context(prec=100)


def encode_bound(value: Value, data_type: DataType, *, is_upper: bool = False) -> bytes | None:
    """Return the Iceberg encoding of a bound, or None if it has no valid one."""
    if is_nested(data_type):
        return None
    if isinstance(data_type, Float32 | Float64) and value == 0.0:
        # Iceberg sorts -0.0 before 0.0; here they are equal.
        value = 0.0 if is_upper else -0.0
    try:
        held = to_iceberg_value(restore_zone(value, data_type), data_type, is_bound=True)
    except InvalidInputError:
        return None
    return conversions.to_bytes(_published_type(data_type), held)


def decode_bound(data: bytes, data_type: DataType, where: str) -> Value | None:
    """Return a decoded bound, or None if it is not representable here."""
    if is_nested(data_type):
        return None
    sizes = _BOUND_SIZES.get(type(data_type))
    if sizes is not None and len(data) not in sizes:
        raise InvalidInputError(
            f"{where} has the invalid bound {data.hex()} for a column of type {format_type(data_type)}; expected "
            f"{' or '.join(map(str, sizes))} bytes"
        )
    if isinstance(data_type, Decimal) and not data:
        raise InvalidInputError(f"{where} has an empty bound for a decimal; rewrite the statistics of the file")
    try:
        held: Any = conversions.from_bytes(_published_type(data_type), data)
    except UnicodeDecodeError:
        # Truncated within a character by a writer that counts bytes.
        return None
    found = from_iceberg_value(held, data_type)
    return found.replace(tzinfo=None) if isinstance(found, datetime.time) else found


def to_iceberg_value(value: Value, data_type: DataType, *, is_bound: bool = False) -> Any:
    """Return a value in PyIceberg's form; raise InvalidInputError if the type cannot represent it.

    A bound of a fixed type may be truncated.
    """
    if not is_value_of_type(value, data_type) or not _is_in_range(value, data_type, is_bound=is_bound):
        raise InvalidInputError(f"{value!r} is not a valid value of type {format_type(data_type)}")
    if isinstance(value, datetime.datetime):
        return micros_of_datetime(value)
    if isinstance(value, datetime.date):
        return days_of(value)
    if isinstance(value, datetime.time):
        return micros_of_time(value)
    if isinstance(value, decimal.Decimal) and isinstance(data_type, Decimal):
        return value.quantize(decimal.Decimal(1).scaleb(-data_type.scale), context=_EXACT)
    return value


def from_iceberg_value(value: Any, data_type: DataType) -> Value | None:
    """Return a value from PyIceberg's form, or None if not representable: NaN, a year after 9999."""
    try:
        match data_type:
            case Date():
                return date_of_days(value)
            case Timestamp():
                return timestamp_of_micros(value)
            case TimestampTz():
                return timestamp_tz_of_micros(value)
            case Time():
                return time_of_micros(value)
            case TimeTz():
                return time_of_micros(value, datetime.UTC)
            case Float32() | Float64():
                return None if math.isnan(value) else float(value)
            case _:
                own: Value = value.bytes if isinstance(value, uuid.UUID) else value
                return own
    except (TypeError, ValueError, OverflowError):
        return None


def has_partition_record(values: Sequence[Value | None], scheme: PartitionScheme, schema: Schema) -> bool:
    """Return whether all Iceberg readers interpret the partition values as we do.

    Files with these values belong to the unpartitioned spec:

        the smallest numbers, truncated    below the range of their type
        null of double or float            the partition also contains NaN
        zero of double or float            the partition also contains -0.0, which Iceberg separates
        fixed                              Iceberg's Java expects a length prefix, contrary to Avro
        nanosecond timestamps              PyIceberg reads no manifest with such a partition value
    """
    held = zip(values, scheme.result_types(schema), strict=True)
    return all(_is_same_in_iceberg(value, data_type) for value, data_type in held)


def to_partition_record(values: Sequence[Value | None], scheme: PartitionScheme, schema: Schema) -> Record:
    """Return the partition values as a manifest record."""
    types = scheme.result_types(schema)
    if len(values) != len(types):
        raise FormatError(
            f"a partition has {len(values)} values, but its scheme has {len(types)} fields; run `mangrove check`"
        )
    held = zip(values, types, strict=True)
    return Record(*(None if value is None else to_iceberg_value(value, data_type) for value, data_type in held))


def from_partition_record(
    record: Sequence[Any] | Record, spec: PartitionSpec, scheme: PartitionScheme, schema: Schema, where: str
) -> tuple[Value | None, ...]:
    """Return the partition values of a manifest record, in the order of the scheme's fields.

    `scheme` is the result of `from_iceberg_spec` for `spec`, without void fields. NaN becomes
    null.
    """
    held = [record[place] for place, field in enumerate(spec.fields) if not isinstance(field.transform, VoidTransform)]
    found: list[Value | None] = []
    for one, field, data_type in zip(held, scheme.fields, scheme.result_types(schema), strict=True):
        value = None if one is None else from_iceberg_value(one, data_type)
        if one is not None and not _is_nan(one) and (value is None or not _is_partition_value(value, data_type)):
            raise InvalidInputError(
                f"{where} has the value {one!r} in partition field {field.name!r}, which is not a valid value of type "
                f"{format_type(data_type)}"
            )
        found.append(value)
    return tuple(found)


@functools.lru_cache(maxsize=256)
def _published_type(data_type: DataType) -> PrimitiveType:
    """Return the Iceberg type for bounds, cached because it is needed for each column of each file."""
    return to_iceberg_primitive(Column(0, "bound", data_type))


def _is_same_in_iceberg(value: Value | None, data_type: DataType) -> bool:
    if isinstance(data_type, Float32 | Float64) and not value:
        return False
    if isinstance(data_type, Fixed | TimestampNs | TimestampTzNs) and value is not None:
        return False
    return value is None or _is_partition_value(value, data_type)


def _is_nan(held: Any) -> bool:
    return isinstance(held, float) and math.isnan(held)


def _is_partition_value(value: Value, data_type: DataType) -> bool:
    return is_value_of_type(value, data_type) and _is_in_range(value, data_type, is_bound=False)


def _is_in_range(value: Value, data_type: DataType, *, is_bound: bool) -> bool:
    """Return whether a value is within the range of its type."""
    match data_type:
        case Int16() | Int32() | Int64():
            assert isinstance(value, int)
            end = 1 << (_BITS[type(data_type)] - 1)
            return -end <= value < end
        case Decimal(precision, scale):
            assert isinstance(value, decimal.Decimal)
            unscaled = value.scaleb(scale, _EXACT)
            return bool(unscaled == unscaled.to_integral_value()) and unscaled.copy_abs() < 10**precision
        case Float32():
            return _is_float4(value)
        case Fixed(length):
            assert isinstance(value, bytes)
            return is_bound or len(value) == length
        case _:
            return True


def _is_float4(value: Value) -> bool:
    try:
        return bool(struct.unpack("<f", struct.pack("<f", value))[0] == value)
    except OverflowError:
        return False
