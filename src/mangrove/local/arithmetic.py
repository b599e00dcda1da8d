"""Sums, products and comparisons of Arrow columns by the rules of Spark's ANSI mode.

Whole numbers stay whole and overflow is an error; decimals grow as SQL says; NaN
is equal to itself and above all other numbers.
"""

import decimal
import math
import operator
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.errors import InvalidInputError
from mangrove.local.casting import by_rows, cast, common_type, decimal_type, refused

__all__ = ["arithmetic", "compared", "negated", "rounded"]

_PC: Final[Any] = pc
_PA: Final[Any] = pa
# Arrow's functions by name: naming them loads none of them.
_CHECKED: Final = {"+": "add_checked", "-": "subtract_checked", "*": "multiply_checked"}
_COMPARE: Final = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
_NAN_LEFT: Final = {"=": False, "<>": True, "<": False, "<=": False, ">": True, ">=": True}
_NAN_BOTH: Final = {"=": True, "<>": False, "<": False, "<=": True, ">": False, ">=": True}
_NAN_RIGHT: Final = {"=": False, "<>": True, "<": True, "<=": True, ">": False, ">=": False}
_EXACT: Final = decimal.Context(prec=200, rounding=decimal.ROUND_HALF_UP)
_PRODUCT_DIGITS_MAX: Final = 75


def arithmetic(sign: str, left: Any, right: Any) -> Any:
    """Return `left sign right` for + - * / %."""
    try:
        return _arithmetic(sign, left, right)
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"`{sign}` of two columns: {str(error).splitlines()[0]}") from error


def _arithmetic(sign: str, left: Any, right: Any) -> Any:
    if pa.types.is_null(left.type) and pa.types.is_null(right.type):
        return left
    if pa.types.is_null(left.type) or pa.types.is_null(right.type):
        wanted = common_type(left.type, right.type)
        left, right = cast(left, wanted), cast(right, wanted)
    for array in (left, right):
        if not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type) or pa.types.is_decimal(array.type)):
            raise refused(f"`{sign}` of {left.type} and {right.type}")
    is_decimal = pa.types.is_decimal(left.type) or pa.types.is_decimal(right.type)
    is_floating = pa.types.is_floating(left.type) or pa.types.is_floating(right.type)
    if is_decimal and not is_floating:
        return _decimals(sign, _as_decimal(left), _as_decimal(right))
    wanted = pa.float64() if sign == "/" else common_type(left.type, right.type)
    left, right = cast(left, wanted), cast(right, wanted)
    if sign in _CHECKED:
        return _PC.call_function(_CHECKED[sign], [left, right])
    _check_divisor(left, right)
    if sign == "/":
        return _PC.divide(left, right)
    if is_floating:
        raise refused("`%` of floating-point numbers")
    return _PC.subtract(left, _PC.multiply(_PC.divide(left, right), right))


def _check_divisor(left: Any, right: Any) -> None:
    zero = pa.scalar(decimal.Decimal(0) if pa.types.is_decimal(right.type) else 0, right.type)
    is_met = pc.and_(_PC.is_valid(left), _PC.fill_null(_PC.equal(right, zero), pa.scalar(value=False)))
    if pc.any(is_met).as_py():
        raise InvalidInputError("a number is divided by zero: write nullif(…, 0) where null is meant")


def _as_decimal(array: Any) -> Any:
    if pa.types.is_decimal(array.type):
        return array
    digits = {16: 5, 32: 10, 64: 20}[array.type.bit_width]
    return cast(array, pa.decimal128(digits, 0))


def _decimals(sign: str, left: Any, right: Any) -> Any:
    p1, s1, p2, s2 = left.type.precision, left.type.scale, right.type.precision, right.type.scale
    scale = max(s1, s2)
    if sign in "+-":
        wanted = decimal_type(max(p1 - s1, p2 - s2) + scale + 1, scale)
        wide = _PA.decimal256(60, scale)
        return cast(_PC.call_function(_CHECKED[sign], [left.cast(wide), right.cast(wide)]), wanted)
    if sign == "*":
        wanted = decimal_type(p1 + p2 + 1, s1 + s2)
        if p1 + p2 <= _PRODUCT_DIGITS_MAX:
            wide_left, wide_right = left.cast(_PA.decimal256(p1, s1)), right.cast(_PA.decimal256(p2, s2))
            exact = _PC.call_function(_CHECKED[sign], [wide_left, wide_right])
            return cast(exact, wanted)
        return _rounded_rows(operator.mul, wanted, left, right)
    _check_divisor(left, right)
    if sign == "%":
        wanted = decimal_type(min(p1 - s1, p2 - s2) + scale, scale)
        return _rounded_rows(_EXACT.remainder, wanted, left, right)
    digits = max(6, s1 + p2 + 1)
    return _rounded_rows(_EXACT.divide, decimal_type(p1 - s1 + s2 + digits, digits), left, right)


def _rounded_rows(function: Callable[..., decimal.Decimal], wanted: Any, *arrays: Any) -> Any:
    unit = decimal.Decimal(1).scaleb(-wanted.scale)

    def one(*values: decimal.Decimal) -> decimal.Decimal:
        with decimal.localcontext(_EXACT):
            return function(*values).quantize(unit)

    return by_rows(one, wanted, *arrays)


def negated(array: Any) -> Any:
    """Return the values with the other sign."""
    if pa.types.is_null(array.type):
        return array
    try:
        return _PC.negate(array) if pa.types.is_decimal(array.type) else _PC.negate_checked(array)
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"a number has no negative of its type: {error}") from error
    except pa.ArrowNotImplementedError as error:
        raise refused(f"`-` of {array.type}") from error


def rounded(array: Any, digits: int) -> Any:
    """Return the numbers rounded half up, away from zero, to so many digits after the point."""
    if digits < 0:
        raise refused("numbers are rounded before the point")
    if pa.types.is_integer(array.type) or pa.types.is_null(array.type):
        return array
    if pa.types.is_floating(array.type):
        return by_rows(lambda value: _rounded_float(value, digits), array.type, array)
    if not pa.types.is_decimal(array.type):
        raise refused(f"{array.type} is rounded")
    if digits >= array.type.scale:
        return array
    return cast(array, decimal_type(array.type.precision - array.type.scale + digits + 1, digits))


def _rounded_float(value: float, digits: int) -> float:
    if not math.isfinite(value):
        return value
    shown = decimal.Decimal(repr(value))
    if -int(shown.as_tuple().exponent) <= digits:
        return value
    return float(shown.quantize(decimal.Decimal(1).scaleb(-digits), context=_EXACT))


def compared(sign: str, left: Any, right: Any) -> Any:
    """Return whether `left sign right` holds, null where a side has no value; `<=>` always knows."""
    if sign == "<=>":
        both = pc.and_(pc.is_null(left), pc.is_null(right))
        return pc.or_(both, _PC.fill_null(compared("=", left, right), pa.scalar(value=False)))
    wanted = common_type(left.type, right.type)
    if pa.types.is_nested(wanted):
        raise refused(f"values of {wanted} are compared")
    if pa.types.is_null(wanted):
        return _PA.nulls(len(left), pa.bool_())
    left, right = cast(left, wanted), cast(right, wanted)
    found = _PC.call_function(_COMPARE[sign], [left, right])
    if not pa.types.is_floating(wanted):
        return found
    nan_left, nan_right = _PC.is_nan(left), _PC.is_nan(right)
    for mask, answers in (
        (nan_left, _NAN_LEFT),
        (nan_right, _NAN_RIGHT),
        (_PC.and_kleene(nan_left, nan_right), _NAN_BOTH),
    ):
        is_met = _PC.and_(_PC.fill_null(mask, pa.scalar(value=False)), _PC.is_valid(found))
        found = _PC.if_else(is_met, pa.scalar(answers[sign]), found)
    return found
