"""Type coercion and casts of Arrow arrays with Spark ANSI semantics.

Casts whose results could differ between the engines are refused here, so that Spark
evaluates them: a double as text, text as a timestamp.
"""

import decimal
import re
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.errors import InvalidInputError
from mangrove.expressions.expr import RequiresSparkError

__all__ = [
    "build_requires_spark_error",
    "cast_array",
    "cast_for_assignment",
    "compute_decimal_type",
    "find_common_type",
    "format_sql_type",
    "map_rows",
    "parse_timestamps",
]

_PA: Final[Any] = pa
_PC: Final[Any] = pc
_PRECISION_MAX: Final = 38
_WIDE_PRECISION_MAX: Final = 76
_BLANKS: Final = "".join(map(chr, range(33)))
"""What Spark removes around a number or date in a text."""
_INTEGER: Final = r"^[+-]?[0-9]+$"
_NUMBER: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?((?i)inf|infinity|nan)$"
_DIGITS: Final = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}
_EXACT: Final = decimal.Context(prec=200, rounding=decimal.ROUND_HALF_UP)
_MIDNIGHTS: Final = "day"
_SQL_TYPE_NAMES: Final = {
    pa.int16(): "smallint", pa.int32(): "int", pa.int64(): "bigint", pa.float32(): "float", pa.float64(): "double",
    pa.date32(): "date",
}  # fmt: skip
"""SQL names of types."""
_ZONE: Final = r"\d(Z|z|:\d\d(\.\d+)?[+-]\d\d(:?\d\d)?)$"
"""End of a timestamp with a time zone; the end of a date without a time looks like a UTC offset."""
_OF_TYPE: Final = re.compile(r" as a scalar of type \S+$")


def build_requires_spark_error(what: str) -> RequiresSparkError:
    """Return the error for an expression that only Spark can evaluate."""
    return RequiresSparkError(f"{what}: only Spark evaluates that")


def compute_decimal_type(precision: int, scale: int) -> Any:
    """Return the decimal type of a result; above the maximum precision the scale is reduced, as in Spark."""
    if precision <= _PRECISION_MAX:
        return pa.decimal128(precision, scale)
    whole = precision - scale
    return pa.decimal128(_PRECISION_MAX, max(_PRECISION_MAX - whole, min(scale, 6)))


def find_common_type(left: Any, right: Any) -> Any:
    """Return the common type of two types, for comparisons and for branches of one expression."""
    if left == right or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if _is_number(left) and _is_number(right):
        return _common_number(left, right)
    for text, other in ((left, right), (right, left)):
        if pa.types.is_string(text) and (pa.types.is_integer(other) or pa.types.is_date(other)):
            return pa.int64() if pa.types.is_integer(other) else other
        if pa.types.is_string(text) and _has_nanos(other):
            return other
    if _are_times_with_nanos(left, right):
        return left if _has_nanos(left) else right
    for day, moment in ((left, right), (right, left)):
        if pa.types.is_date(day) and pa.types.is_timestamp(moment):
            return moment
    raise build_requires_spark_error(f"an expression mixes {left} and {right}")


def _has_nanos(arrow: Any) -> bool:
    """Return whether a type is a nanosecond timestamp, which Spark does not have, so that no result can differ."""
    return bool(pa.types.is_timestamp(arrow) and arrow.unit == "ns")


def _are_times_with_nanos(one: Any, other: Any) -> bool:
    """Return whether two types are timestamps, both with or without a zone, of which at least one has nanoseconds."""
    are_times = pa.types.is_timestamp(one) and pa.types.is_timestamp(other)
    return are_times and (_has_nanos(one) or _has_nanos(other)) and (one.tz is None) == (other.tz is None)


def _common_number(left: Any, right: Any) -> Any:
    if pa.types.is_floating(left) or pa.types.is_floating(right):
        return pa.float64()
    if pa.types.is_integer(left) and pa.types.is_integer(right):
        return max(left, right, key=lambda one: one.bit_width)
    (p1, s1), (p2, s2) = _digits(left), _digits(right)
    scale = max(s1, s2)
    precision = max(p1 - s1, p2 - s2) + scale
    return pa.decimal128(precision, scale) if precision <= _PRECISION_MAX else _PA.decimal256(precision, scale)


def _digits(arrow: Any) -> tuple[int, int]:
    return (_DIGITS[arrow], 0) if arrow in _DIGITS else (arrow.precision, arrow.scale)


def _is_number(arrow: Any) -> bool:
    return bool(pa.types.is_integer(arrow) or pa.types.is_floating(arrow) or pa.types.is_decimal(arrow))


def map_rows(function: Callable[..., Any], arrow: Any, *arrays: Any) -> Any:
    """Apply a Python function to each row, null if a value is null; for operations without an Arrow kernel."""
    columns = [array.to_pylist() for array in arrays]
    values = [None if None in row else function(*row) for row in zip(*columns, strict=True)]
    return pa.array(values, arrow)


def cast_array(array: Any, target_type: Any) -> Any:
    """Cast the values to another type; raise an error for a value that does not fit."""
    if array.type == target_type:
        return array
    if pa.types.is_null(array.type):
        return _PA.nulls(len(array), target_type)
    try:
        return _cast(array, target_type)
    except (pa.ArrowInvalid, decimal.InvalidOperation, OverflowError, ValueError) as error:
        reason = _OF_TYPE.sub("", str(error).splitlines()[0])
        raise InvalidInputError(f"a value does not fit into {format_sql_type(target_type)}: {reason}") from error
    except pa.ArrowNotImplementedError as error:
        raise build_requires_spark_error(f"{array.type} is taken for {target_type}") from error


def _cast(array: Any, target_type: Any) -> Any:
    given = array.type
    if pa.types.is_decimal(target_type):
        return _to_decimal(array, target_type)
    if pa.types.is_integer(target_type) and _is_number(given):
        return (array if pa.types.is_integer(given) else _PC.trunc(array)).cast(target_type)
    if pa.types.is_floating(target_type) and pa.types.is_decimal(given):
        # Arrow rounds twice when it divides the digits by a power of ten; text is rounded once.
        return array.cast(pa.string()).cast(target_type)
    if pa.types.is_floating(target_type) and _is_number(given):
        return array.cast(target_type, safe=False)
    if pa.types.is_string(given) and (pa.types.is_integer(target_type) or pa.types.is_floating(target_type)):
        return _check_numbers(array, is_integer=pa.types.is_integer(target_type)).cast(target_type)
    if pa.types.is_string(given) and pa.types.is_date(target_type):
        return _PC.utf8_trim(array, characters=_BLANKS).cast(target_type)
    if _has_nanos(target_type) and pa.types.is_string(given):
        return parse_timestamps(array, target_type)
    if _are_times_with_nanos(given, target_type):
        return array.cast(target_type)
    if pa.types.is_string(target_type):
        return _to_text(array)
    if pa.types.is_date(given) and pa.types.is_timestamp(target_type):
        return array.cast(target_type)
    if pa.types.is_timestamp(given) and pa.types.is_date(target_type):
        return _PC.floor_temporal(array, unit=_MIDNIGHTS).cast(target_type)
    raise build_requires_spark_error(f"{given} is taken for {target_type}")


def _check_numbers(texts: Any, *, is_integer: bool) -> Any:
    """Return the texts without blanks around them and without a plus; raise ValueError for one that is no number.

    Arrow also takes hexadecimal digits for a number, and Python underscores and digits of other alphabets.
    """
    trimmed = _PC.utf8_trim(texts, characters=_BLANKS)
    is_number = _PC.match_substring_regex(trimmed, _INTEGER if is_integer else _NUMBER)
    wrong = trimmed.filter(_PC.invert(is_number))
    if len(wrong) > wrong.null_count:
        raise ValueError(f"{_PC.drop_null(wrong)[0].as_py()!r} is no number")
    return _PC.replace_substring_regex(trimmed, r"^\+", "")


def _to_decimal(array: Any, target_type: Any) -> Any:
    given = array.type
    if pa.types.is_integer(given):
        return array.cast(_PA.decimal256(_WIDE_PRECISION_MAX, 0)).cast(target_type)
    if pa.types.is_decimal(given):
        if given.scale > target_type.scale:
            # In its own type 99.99 has no rounded value, and Arrow makes it 0.
            array = array.cast(_PA.decimal256(_WIDE_PRECISION_MAX, given.scale))
            array = _PC.round(array, ndigits=target_type.scale, round_mode="half_towards_infinity")
        return array.cast(target_type)
    if pa.types.is_floating(given) or pa.types.is_string(given):
        texts = _check_numbers(array, is_integer=False) if pa.types.is_string(given) else array
        return map_rows(lambda value: _round_to_decimal(str(value), target_type), target_type, texts)
    raise build_requires_spark_error(f"{given} is taken for {target_type}")


def _round_to_decimal(text: str, target_type: Any) -> decimal.Decimal:
    """Parse a number as a decimal of this type, rounded to its scale; raise an error if it is not a number."""
    try:
        value = decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise ValueError(f"{text!r} is no number") from None
    if not value.is_finite():
        raise ValueError(f"{value} is given, and decimals have neither NaN nor infinity")
    whole = target_type.precision - target_type.scale
    rounded = (
        value
        if value.adjusted() >= whole
        else value.quantize(decimal.Decimal(1).scaleb(-target_type.scale), context=_EXACT)
    )
    if rounded and rounded.adjusted() >= whole:
        raise ValueError(f"{text} has more than {whole} digits before the point")
    return rounded


def format_sql_type(arrow: Any) -> str:
    """Return the SQL name of a type."""
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    return _SQL_TYPE_NAMES.get(arrow, str(arrow))


def _to_text(array: Any) -> Any:
    given = array.type
    if pa.types.is_decimal(given):
        return map_rows(lambda value: f"{value:f}", pa.string(), array)
    if pa.types.is_integer(given) or pa.types.is_boolean(given) or pa.types.is_date(given):
        return array.cast(pa.string())
    raise build_requires_spark_error(f"{given} is taken for text")


def cast_for_assignment(array: Any, target_type: Any, column: str) -> Any:
    """Cast the values of an expression to the type of a column, by SQL's rules of assignment.

    Numbers convert to numbers, dates to timestamps and back, and most types to text. Text
    converts to no other type without an explicit cast.
    """
    given = array.type
    if given == target_type or pa.types.is_null(given):
        return cast_array(array, target_type)
    is_time = pa.types.is_date(given) or pa.types.is_timestamp(given)
    is_target_time = pa.types.is_date(target_type) or pa.types.is_timestamp(target_type)
    is_text = pa.types.is_string(target_type) and not pa.types.is_nested(given) and not pa.types.is_binary(given)
    if pa.types.is_float64(given) and pa.types.is_float32(target_type):
        # Brought into the column's form where rows are written, which refuses what would become infinite.
        return array
    if (_is_number(given) and _is_number(target_type)) or (is_time and is_target_time) or is_text:
        return cast_array(array, target_type)
    if pa.types.is_nested(given) or pa.types.is_binary(given) or pa.types.is_fixed_size_binary(target_type):
        # These are brought into the column's form as any written value is.
        return array
    hint = "; in Python, an SQL expression is mangrove.expr(…)" if pa.types.is_string(given) else ""
    raise InvalidInputError(
        f"column {column!r} is {format_sql_type(target_type)} and is set to {format_sql_type(given)}: "
        f"write cast(… as …) if that is meant{hint}"
    )


def parse_timestamps(texts: Any, arrow_type: Any) -> Any:
    """Return timestamps of which some have a zone; the others are UTC."""
    has_zone = _PC.match_substring_regex(texts, _ZONE)
    zoned = _PC.if_else(has_zone, texts, None).cast(arrow_type)
    bare = _PC.if_else(has_zone, None, texts).cast(pa.timestamp(arrow_type.unit)).cast(arrow_type)
    return _PC.coalesce(zoned, bare)
