"""The operators that have the same results on DuckDB and Spark: comparisons, arithmetic, exact division, bits."""

from collections.abc import Sequence
from typing import Final

from mangrove.duckdb.typed_sql import NeedsSparkError, TypedSql, cast_to, describe_type, match_types, raise_at
from mangrove.duckdb.types import (
    INTEGERS,
    NUMBERS,
    adjust_decimal,
    find_common_type,
    find_wider_decimal,
    is_scannable,
    to_decimal_type,
    to_duckdb_type,
)
from mangrove.model.types import DECIMAL_PRECISION_MAX, Boolean, DataType, Decimal, Float64, Int64

__all__ = [
    "DIVIDE",
    "build_arithmetic",
    "build_bitwise",
    "build_comparison",
    "build_division",
    "build_integer_division",
    "build_remainder",
    "cast_to_common_type",
    "check_numbers",
    "divide_exactly",
    "unscale",
]

DIVIDE: Final = "mangrove_divide"
"""The macro for the quotient of two integers, rounded half up."""
_FUNCTION_NAMES: Final = {"+": "add", "-": "subtract", "*": "multiply"}
_DIVISION_BY_ZERO: Final = "division by zero; use NULLIF for the divisor"


def build_comparison(operator: str, left: TypedSql, right: TypedSql, node: object = None) -> TypedSql:
    """Compare two values after the conversions that Spark makes."""
    left, right = cast_to_common_type(match_types(left, right, node), node)
    if left.type is not None and not is_scannable(left.type):
        raise NeedsSparkError(f"a comparison of {describe_type(left.type)}", node)
    return TypedSql(f"({left.text} {operator} {right.text})", Boolean())


def cast_to_common_type(values: Sequence[TypedSql], node: object = None) -> list[TypedSql]:
    """Convert values to the common type that Spark gives them."""
    is_common, common = find_common_type([value.type for value in values])
    if not is_common:
        names = ", ".join(dict.fromkeys(describe_type(value.type) for value in values))
        raise NeedsSparkError(f"the conversion of {names} to a common type", node)
    return list(values) if common is None else [cast_to(value, common, node) for value in values]


def build_arithmetic(operator: str, left: TypedSql, right: TypedSql, node: object = None) -> TypedSql:
    """Add, subtract or multiply two numbers; an overflow is an error on both engines."""
    check_numbers(operator, (left, right), node)
    left, right = match_types(left, right, node)
    first, second = to_decimal_type(left.type), to_decimal_type(right.type)
    is_decimal = isinstance(left.type, Decimal) or isinstance(right.type, Decimal)
    if not is_decimal or first is None or second is None:
        left, right = cast_to_common_type((left, right), node)
        if isinstance(left.type, INTEGERS):
            # DuckDB moves the constant of `k + 1 > 0` to the other side, where nothing overflows; not out of a call.
            return TypedSql(f"{_FUNCTION_NAMES[operator]}({left.text}, {right.text})", left.type)
        return TypedSql(f"({left.text} {operator} {right.text})", left.type)
    left, right = cast_to(left, first, node), cast_to(right, second, node)
    text = f"({left.text} {operator} {right.text})"
    if operator == "*":
        scale, precision = first.scale + second.scale, first.precision + second.precision + 1
    else:
        scale = max(first.scale, second.scale)
        precision = max(first.precision - first.scale, second.precision - second.scale) + scale + 1
    if scale > DECIMAL_PRECISION_MAX:
        raise NeedsSparkError(f"a decimal with {scale} digits after the point", node)
    result = adjust_decimal(precision, scale)
    # DuckDB computes with the same scale and at most 38 digits; an overflow is an error.
    return TypedSql(text if result.scale == scale else f"CAST({text} AS {to_duckdb_type(result)})", result)


def build_division(left: TypedSql, right: TypedSql, node: object = None) -> TypedSql:
    """Divide two numbers: exactly if one is a decimal, else as doubles."""
    check_numbers("/", (left, right), node)
    left, right = match_types(left, right, node)
    first, second = to_decimal_type(left.type), to_decimal_type(right.type)
    is_decimal = isinstance(left.type, Decimal) or isinstance(right.type, Decimal)
    if not is_decimal or first is None or second is None:
        left, right = cast_to(left, Float64(), node), cast_to(right, Float64(), node)
        return _guard_divisor(f"{left.text} / {right.text}", Float64(), left, right)
    left, right = cast_to(left, first, node), cast_to(right, second, node)
    return _divide_decimals((left, first), (right, second), node)


def _divide_decimals(dividend: tuple[TypedSql, Decimal], divisor: tuple[TypedSql, Decimal], node: object) -> TypedSql:
    (left, first), (right, second) = dividend, divisor
    scale = max(6, first.scale + second.precision + 1)
    result = adjust_decimal(first.precision - first.scale + second.scale + scale, scale)
    shift = result.scale - first.scale + second.scale
    if shift < 0:
        raise NeedsSparkError("a division of decimals with so many digits", node)
    above, below = unscale(left, first), unscale(right, second)
    return _guard_divisor(divide_exactly(f"{above} * {10**shift}::HUGEINT", below, result), result, left, right)


def divide_exactly(dividend: str, divisor: str, result: Decimal) -> str:
    """Return the quotient of two integers, rounded half up and scaled as a decimal."""
    unit = f"CAST('{_format_unit(result.scale)}' AS DECIMAL({max(result.scale, 1)},{result.scale}))"
    return f"CAST(CAST({DIVIDE}({dividend}, {divisor}) AS DECIMAL(38,0)) * {unit} AS {to_duckdb_type(result)})"


def unscale(value: TypedSql, kind: Decimal) -> str:
    """Return the digits of a decimal as an integer."""
    if kind.scale == 0:
        return f"CAST({value.text} AS HUGEINT)"
    return f"CAST({value.text} * CAST({10**kind.scale} AS DECIMAL({kind.scale + 1},0)) AS HUGEINT)"


def _format_unit(scale: int) -> str:
    return "1" if scale == 0 else f"0.{'0' * (scale - 1)}1"


def _guard_divisor(text: str, result: DataType, left: TypedSql, right: TypedSql) -> TypedSql:
    """Return a division that fails for the divisor zero, unless the dividend is null."""
    if right.is_literal and right.literal not in (0, None):
        return TypedSql(f"({text})", result)
    failure = raise_at(_DIVISION_BY_ZERO, result)
    is_zero = f"{right.text} = 0 AND {left.text} IS NOT NULL"
    return TypedSql(f"CASE WHEN {is_zero} THEN {failure} ELSE {text} END", result)


def build_remainder(left: TypedSql, right: TypedSql, node: object = None) -> TypedSql:
    """Return the remainder of two integers or decimals, with the sign of the dividend."""
    first, second = to_decimal_type(left.type), to_decimal_type(right.type)
    if first is not None and second is not None and Decimal in (type(left.type), type(right.type)):
        left, right = match_types(left, right, node)
        first, second = to_decimal_type(left.type), to_decimal_type(right.type)
        assert first is not None
        assert second is not None
        scale = max(first.scale, second.scale)
        result = adjust_decimal(min(first.precision - first.scale, second.precision - second.scale) + scale, scale)
        common = find_wider_decimal(first, second)
        if result.scale != scale or common.scale != scale:
            raise NeedsSparkError("a remainder of decimals with so many digits", node)
        left, right = cast_to(left, common, node), cast_to(right, common, node)
        text = f"CAST({left.text} % {right.text} AS {to_duckdb_type(result)})"
        return _guard_divisor(text, result, left, right)
    left, right = _match_integers("%", left, right, node)
    assert left.type is not None
    # The least integer has no quotient by -1, but a remainder.
    text = f"CASE WHEN {right.text} = -1 AND {left.text} IS NOT NULL THEN 0 ELSE {left.text} % {right.text} END"
    if isinstance(right.literal, int) and right.literal != -1:
        text = f"{left.text} % {right.text}"
    return _guard_divisor(text, left.type, left, right)


def build_bitwise(operator: str, left: TypedSql, right: TypedSql, node: object = None) -> TypedSql:
    """Combine the bits of two integers."""
    left, right = _match_integers(operator, left, right, node)
    text = f"xor({left.text}, {right.text})" if operator == "^" else f"({left.text} {operator} {right.text})"
    return TypedSql(text, left.type)


def build_integer_division(left: TypedSql, right: TypedSql, node: object = None) -> TypedSql:
    """Return the quotient of two integers without its fraction, as a bigint."""
    left, right = (cast_to(one, Int64(), node) for one in _match_integers("div", left, right, node))
    return _guard_divisor(f"{left.text} // {right.text}", Int64(), left, right)


def _match_integers(operator: str, left: TypedSql, right: TypedSql, node: object) -> tuple[TypedSql, TypedSql]:
    if not isinstance(left.type, INTEGERS) or not isinstance(right.type, INTEGERS):
        kinds = f"{describe_type(left.type)} and {describe_type(right.type)}"
        raise NeedsSparkError(f"{operator} of {kinds}", node)
    left, right = cast_to_common_type((left, right), node)
    return left, right


def check_numbers(operator: str, values: Sequence[TypedSql], node: object) -> None:
    """Raise NeedsSparkError if a value is no number."""
    for value in values:
        if not isinstance(value.type, NUMBERS):
            raise NeedsSparkError(f"{operator} with {describe_type(value.type)}", node)
