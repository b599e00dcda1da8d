"""Column types in DuckDB, and the result types of Spark's arithmetic."""

from collections.abc import Iterable
from typing import Final, TypeAlias

from mangrove.model.types import (
    DECIMAL_PRECISION_MAX,
    Binary,
    Boolean,
    Char,
    DataType,
    Date,
    Decimal,
    Fixed,
    Float32,
    Float64,
    Int16,
    Int32,
    Int64,
    List,
    Map,
    Struct,
    Time,
    Timestamp,
    TimestampNs,
    TimestampTz,
    TimestampTzNs,
    Varchar,
)

__all__ = [
    "FLOATS",
    "INTEGERS",
    "NANOS",
    "NUMBERS",
    "TEXTS",
    "TIMESTAMPS",
    "ValueType",
    "adjust_decimal",
    "build_decimal_sum",
    "find_common_type",
    "find_wider_decimal",
    "is_same_type",
    "is_scannable",
    "to_decimal_type",
    "to_duckdb_type",
]

ValueType: TypeAlias = DataType | None
"""The type of an expression; None is the type of NULL."""
INTEGERS: Final = (Int16, Int32, Int64)
"""Integer types in ascending width."""
FLOATS: Final = (Float32, Float64)
NUMBERS: Final = (*INTEGERS, *FLOATS, Decimal)
TEXTS: Final = (Varchar, Char)
TIMESTAMPS: Final = (Timestamp, TimestampTz)
NANOS: Final = (TimestampNs, TimestampTzNs)
"""Nanosecond timestamps: functions and casts of DuckDB would round most of them, so few are translated."""
_NAMES: Final[dict[type, str]] = {
    Binary: "BLOB",
    Boolean: "BOOLEAN",
    Char: "VARCHAR",
    Date: "DATE",
    Fixed: "BLOB",
    Float32: "FLOAT",
    Float64: "DOUBLE",
    Int16: "SMALLINT",
    Int32: "INTEGER",
    Int64: "BIGINT",
    Time: "TIME",
    Timestamp: "TIMESTAMP",
    TimestampTz: "TIMESTAMP WITH TIME ZONE",
    TimestampNs: "TIMESTAMP_NS",
    # DuckDB has it since version 2.0; an earlier one reports an unknown type, and does not round.
    TimestampTzNs: "TIMESTAMPTZ_NS",
    Varchar: "VARCHAR",
}
_INTEGER_DIGITS: Final[dict[type, int]] = {Int16: 5, Int32: 10, Int64: 20}
_SCALE_MIN: Final = 6
"""The digits after the point that Spark preserves if a result has too many digits."""


def to_duckdb_type(data_type: ValueType) -> str | None:
    """Return the name of a type in DuckDB, or None if it has none.

    >>> to_duckdb_type(Decimal(10, 2))
    'DECIMAL(10,2)'
    """
    match data_type:
        case None:
            return "INTEGER"
        case Decimal(precision, scale):
            return f"DECIMAL({precision},{scale})"
        case List(element):
            inner = to_duckdb_type(element.type)
            return None if inner is None else f"{inner}[]"
        case Map(key, value):
            names = to_duckdb_type(key.type), to_duckdb_type(value.type)
            return None if None in names else f"MAP({names[0]}, {names[1]})"
        case Struct(columns):
            fields = [(column.name.replace('"', '""'), to_duckdb_type(column.type)) for column in columns]
            if any(inner is None for _, inner in fields):
                return None
            return "STRUCT(" + ", ".join(f'"{name}" {inner}' for name, inner in fields) + ")"
        case _:
            return _NAMES.get(type(data_type))


def is_scannable(data_type: DataType) -> bool:
    """Return whether DuckDB's own Parquet reader reads columns of this type as Mangrove does."""
    return type(data_type) in _NAMES or isinstance(data_type, Decimal)


def is_same_type(one: ValueType, other: ValueType) -> bool:
    """Return whether two types have the same values; strings of any length do."""
    return one == other or (isinstance(one, TEXTS) and isinstance(other, TEXTS))


def to_decimal_type(data_type: ValueType) -> Decimal | None:
    """Return the decimal type that holds all values of an exact number type.

    >>> to_decimal_type(Int32())
    Decimal(precision=10, scale=0)
    """
    if isinstance(data_type, Decimal):
        return data_type
    digits = _INTEGER_DIGITS.get(type(data_type))
    return None if digits is None else Decimal(digits, 0)


def adjust_decimal(precision: int, scale: int) -> Decimal:
    """Return the type of a decimal result; if it has too many digits, Spark drops some after the point.

    >>> adjust_decimal(81, 43)
    Decimal(precision=38, scale=6)
    """
    if precision <= DECIMAL_PRECISION_MAX:
        return Decimal(precision, scale)
    scale_min = min(scale, _SCALE_MIN)
    return Decimal(DECIMAL_PRECISION_MAX, max(DECIMAL_PRECISION_MAX - (precision - scale), scale_min))


def build_decimal_sum(data_type: Decimal) -> Decimal:
    """Return the type of the sum of a decimal column."""
    return Decimal(min(DECIMAL_PRECISION_MAX, data_type.precision + 10), data_type.scale)


def find_wider_decimal(one: Decimal, other: Decimal) -> Decimal:
    """Return the decimal type to which Spark converts both; digits before the point are retained first.

    >>> find_wider_decimal(Decimal(36, 2), Decimal(38, 6))
    Decimal(precision=38, scale=4)
    """
    scale = max(one.scale, other.scale)
    whole = max(one.precision - one.scale, other.precision - other.scale)
    return Decimal(min(whole + scale, DECIMAL_PRECISION_MAX), min(scale, DECIMAL_PRECISION_MAX - whole))


def find_common_type(types: Iterable[ValueType]) -> tuple[bool, ValueType]:
    """Return whether Spark converts these types to a common type that DuckDB has too, and this type."""
    common: ValueType = None
    for one in types:
        if one is None:
            continue
        if common is None or is_same_type(common, one):
            common = one if common is None else common
            continue
        wider = _find_wider(common, one)
        if wider is None:
            return False, None
        common = wider
    return True, common


def _find_wider(one: DataType, other: DataType) -> ValueType:
    if isinstance(one, INTEGERS) and isinstance(other, INTEGERS):
        return one if INTEGERS.index(type(one)) > INTEGERS.index(type(other)) else other
    if isinstance(one, NUMBERS) and isinstance(other, NUMBERS):
        decimals = to_decimal_type(one), to_decimal_type(other)
        if decimals[0] is not None and decimals[1] is not None:
            return find_wider_decimal(decimals[0], decimals[1])
        return Float64()
    if isinstance(one, (Date, *TIMESTAMPS)) and isinstance(other, (Date, *TIMESTAMPS)):
        return TimestampTz() if TimestampTz() in (one, other) else Timestamp()
    return None
