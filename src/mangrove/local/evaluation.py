"""Evaluation of expressions over Arrow tables.

Integer results stay integers and overflow is an error; the precision of decimals grows
as in SQL; NaN is equal to itself and greater than all other numbers.
"""

import decimal
import functools
import math
import operator
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.errors import InvalidInputError
from mangrove.expressions.expr import (
    BinaryOp,
    Case,
    Cast,
    ColumnPath,
    EngineValues,
    Expression,
    InList,
    Like,
    Literal,
    LiteralValue,
    NullTest,
    ScalarFunction,
    UnaryOp,
    split_like_pattern,
)
from mangrove.local.casts import (
    build_requires_spark_error,
    cast_array,
    compute_decimal_type,
    find_common_type,
    format_sql_type,
    map_rows,
)
from mangrove.local.row_numbers import build_row_numbers
from mangrove.model.arrow_schema import type_to_arrow

__all__ = [
    "ColumnLookup",
    "compare_arrays",
    "compute_arithmetic",
    "evaluate_condition",
    "evaluate_expression",
    "negate_array",
    "round_half_up",
]

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


def compute_arithmetic(sign: str, left: Any, right: Any) -> Any:
    """Return `left sign right` for + - * / %."""
    try:
        return _arithmetic(sign, left, right)
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"`{sign}` of two columns: {str(error).splitlines()[0]}") from error


def _arithmetic(sign: str, left: Any, right: Any) -> Any:
    if pa.types.is_null(left.type) and pa.types.is_null(right.type):
        return left
    if pa.types.is_null(left.type) or pa.types.is_null(right.type):
        target_type = find_common_type(left.type, right.type)
        left, right = cast_array(left, target_type), cast_array(right, target_type)
    for array in (left, right):
        if not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type) or pa.types.is_decimal(array.type)):
            raise build_requires_spark_error(f"`{sign}` of {left.type} and {right.type}")
    is_decimal = pa.types.is_decimal(left.type) or pa.types.is_decimal(right.type)
    is_floating = pa.types.is_floating(left.type) or pa.types.is_floating(right.type)
    if is_decimal and not is_floating:
        return _decimals(sign, _as_decimal(left), _as_decimal(right))
    target_type = pa.float64() if sign == "/" else find_common_type(left.type, right.type)
    left, right = cast_array(left, target_type), cast_array(right, target_type)
    if sign in _CHECKED:
        return _PC.call_function(_CHECKED[sign], [left, right])
    _check_divisor(left, right)
    if sign == "/":
        return _PC.divide(left, right)
    if is_floating:
        raise build_requires_spark_error("`%` of floating-point numbers")
    # Arrow's quotient of the smallest integer and -1 is 0.
    right = _PC.if_else(_PC.equal(right, pa.scalar(-1, right.type)), pa.scalar(1, right.type), right)
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
    return cast_array(array, pa.decimal128(digits, 0))


def _decimals(sign: str, left: Any, right: Any) -> Any:
    p1, s1, p2, s2 = left.type.precision, left.type.scale, right.type.precision, right.type.scale
    scale = max(s1, s2)
    if sign in "+-":
        target_type = compute_decimal_type(max(p1 - s1, p2 - s2) + scale + 1, scale)
        wide = _PA.decimal256(60, scale)
        return cast_array(_PC.call_function(_CHECKED[sign], [left.cast(wide), right.cast(wide)]), target_type)
    if sign == "*":
        target_type = compute_decimal_type(p1 + p2 + 1, s1 + s2)
        if p1 + p2 <= _PRODUCT_DIGITS_MAX:
            wide_left, wide_right = left.cast(_PA.decimal256(p1, s1)), right.cast(_PA.decimal256(p2, s2))
            exact = _PC.call_function(_CHECKED[sign], [wide_left, wide_right])
            return cast_array(exact, target_type)
        return _round_rows(operator.mul, target_type, left, right)
    _check_divisor(left, right)
    if sign == "%":
        target_type = compute_decimal_type(min(p1 - s1, p2 - s2) + scale, scale)
        return _round_rows(_EXACT.remainder, target_type, left, right)
    digits = max(6, s1 + p2 + 1)
    return _round_rows(_EXACT.divide, compute_decimal_type(p1 - s1 + s2 + digits, digits), left, right)


def _round_rows(function: Callable[..., decimal.Decimal], target_type: Any, *arrays: Any) -> Any:
    unit = decimal.Decimal(1).scaleb(-target_type.scale)

    def one(*values: decimal.Decimal) -> decimal.Decimal:
        with decimal.localcontext(_EXACT):
            return function(*values).quantize(unit)

    return map_rows(one, target_type, *arrays)


def negate_array(array: Any) -> Any:
    """Return the negated values."""
    if pa.types.is_null(array.type):
        return array
    try:
        return _PC.negate(array) if pa.types.is_decimal(array.type) else _PC.negate_checked(array)
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"a number has no negative of its type: {error}") from error
    except pa.ArrowNotImplementedError as error:
        raise build_requires_spark_error(f"`-` of {array.type}") from error


def round_half_up(array: Any, digits: int) -> Any:
    """Round numbers half up, away from zero, to this number of decimal places."""
    if digits < 0:
        raise build_requires_spark_error("numbers are rounded before the point")
    if pa.types.is_integer(array.type) or pa.types.is_null(array.type):
        return array
    if pa.types.is_floating(array.type):
        return map_rows(lambda value: _round_float(value, digits), array.type, array)
    if not pa.types.is_decimal(array.type):
        raise build_requires_spark_error(f"{array.type} is rounded")
    if digits >= array.type.scale:
        return array
    return cast_array(array, compute_decimal_type(array.type.precision - array.type.scale + digits + 1, digits))


def _round_float(value: float, digits: int) -> float:
    if not math.isfinite(value):
        return value
    shown = decimal.Decimal(repr(value))
    if -int(shown.as_tuple().exponent) <= digits:
        return value
    return float(shown.quantize(decimal.Decimal(1).scaleb(-digits), context=_EXACT))


def compare_arrays(sign: str, left: Any, right: Any) -> Any:
    """Return whether `left sign right` holds, null if a side is null; `<=>` is never null."""
    if sign == "<=>":
        both = pc.and_(pc.is_null(left), pc.is_null(right))
        return pc.or_(both, _PC.fill_null(compare_arrays("=", left, right), pa.scalar(value=False)))
    target_type = find_common_type(left.type, right.type)
    if pa.types.is_nested(target_type):
        raise build_requires_spark_error(f"values of {target_type} are compared")
    if pa.types.is_null(target_type):
        return _PA.nulls(len(left), pa.bool_())
    left, right = cast_array(left, target_type), cast_array(right, target_type)
    found = _PC.call_function(_COMPARE[sign], [left, right])
    if not pa.types.is_floating(target_type):
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


_LOGIC: Final = {"and": "and_kleene", "or": "or_kleene"}
_WILDCARDS: Final = {"%": ".*", "_": "."}
_INT: Final = 2**31
_BIGINT: Final = 2**63
ColumnLookup: TypeAlias = Callable[[pa.Table, tuple[str, ...]], Any]
"""Function that resolves a name in an expression to a column of the rows."""


def evaluate_condition(expression: Expression, rows: pa.Table, naming: ColumnLookup) -> Any:
    """Return for each row whether a condition is true; null counts as false."""
    match expression:
        case Case(((condition, Literal(True)),), Literal(False)):
            # SQL wraps conditions so.
            return evaluate_condition(condition, rows, naming)
    found = evaluate_expression(expression, rows, naming)
    if not pa.types.is_boolean(found.type) and not pa.types.is_null(found.type):
        raise InvalidInputError(
            f"a condition is {format_sql_type(found.type)} and not true or false: compare it with something"
        )
    return _PC.fill_null(cast_array(found, pa.bool_()), pa.scalar(value=False))


def evaluate_expression(expression: Expression, rows: pa.Table, naming: ColumnLookup) -> Any:
    """Return the value of an expression for each row, as one array."""

    def of(inner: Expression) -> Any:
        return evaluate_expression(inner, rows, naming)

    match expression:
        case Literal(value):
            return _literal(value, rows.num_rows)
        case ColumnPath(names):
            return _one_chunk(naming(rows, names))
        case UnaryOp("not", operand):
            return _PC.invert(_truth(of(operand)))
        case UnaryOp(_, operand):
            return negate_array(of(operand))
        case BinaryOp("and" | "or" as word, left, right):
            return _PC.call_function(_LOGIC[word], [_truth(of(left)), _truth(of(right))])
        case BinaryOp("||", left, right):
            return _concatenate([of(left), of(right)])
        case BinaryOp("+" | "-" | "*" | "/" | "%" as sign, left, right):
            return compute_arithmetic(sign, *_typed_pair(left, of(left), right, of(right)))
        case BinaryOp(sign, left, right):
            return compare_arrays(sign, *_typed_pair(left, of(left), right, of(right)))
        case NullTest(operand, is_negated):
            return pc.is_valid(of(operand)) if is_negated else pc.is_null(of(operand))
        case InList(operand, items, is_negated):
            given = of(operand)
            values = [_narrow(item, of(item), given) for item in items]
            common = functools.reduce(find_common_type, [value.type for value in values], given.type)
            given = cast_array(given, common)
            equal = (compare_arrays("=", given, cast_array(value, common)) for value in values)
            found = functools.reduce(_PC.or_kleene, equal)
            return _PC.invert(found) if is_negated else found
        case Like(operand, pattern, is_negated):
            found = _PC.match_substring_regex(cast_array(of(operand), pa.string()), _like_to_regex(pattern))
            return _PC.invert(found) if is_negated else found
        case Case(branches, otherwise):
            return _case(branches, otherwise, rows, naming)
        case Cast(operand, target_type):
            return cast_array(of(operand), type_to_arrow(target_type))
        case ScalarFunction(name, arguments):
            return _call_function(name, arguments, rows, naming)
        case EngineValues(columns, compute):
            return _one_chunk(compute([of(column) for column in columns], rows.num_rows))
        case _:
            assert_never(expression)


def _literal(value: LiteralValue, count: int) -> Any:
    if value is None:
        return _PA.nulls(count)
    if type(value) is int:
        if -_INT <= value < _INT:
            return _PA.repeat(pa.scalar(value, pa.int32()), count)
        if -_BIGINT <= value < _BIGINT:
            return _PA.repeat(pa.scalar(value, pa.int64()), count)
        value = decimal.Decimal(value)
    if isinstance(value, decimal.Decimal):
        return _PA.repeat(pa.scalar(value, _decimal_of(value)), count)
    if getattr(value, "nanosecond", 0):
        # A timestamp of pandas, which Arrow takes for one in microseconds.
        return _PA.repeat(_PA.scalar(value, _PA.timestamp("ns", _PA.scalar(value).type.tz)), count)
    return _PA.repeat(pa.scalar(value), count)


def _decimal_of(value: decimal.Decimal) -> Any:
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    return pa.decimal128(max(len(digits), scale, 1), scale)


def _typed_pair(left: Expression, one: Any, right: Expression, other: Any) -> tuple[Any, Any]:
    """Return both operands; an integer literal beside a decimal gets a decimal type with only its own digits."""
    return _narrow(left, one, other), _narrow(right, other, one)


def _narrow(expression: Expression, array: Any, beside: Any) -> Any:
    if isinstance(expression, Literal) and type(expression.value) is int and pa.types.is_decimal(beside.type):
        return cast_array(array, _decimal_of(decimal.Decimal(expression.value)))
    return array


def _truth(array: Any) -> Any:
    if not pa.types.is_boolean(array.type) and not pa.types.is_null(array.type):
        raise InvalidInputError(f"`and`, `or` and `not` take conditions, not {array.type}")
    return cast_array(array, pa.bool_())


def _one_chunk(array: Any) -> Any:
    if not isinstance(array, pa.ChunkedArray):
        return array
    return array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)


def _concatenate(arrays: list[Any]) -> Any:
    texts = [cast_array(array, pa.string()) for array in arrays]
    return _PC.binary_join_element_wise(*texts, "", null_handling="emit_null")


def _like_to_regex(pattern: str) -> str:
    """Return a `like` pattern as a regular expression for the whole string."""
    found = (
        _WILDCARDS[character] if is_wildcard else re.escape(character)
        for character, is_wildcard in split_like_pattern(pattern)
    )
    return "(?s)^" + "".join(found) + "$"


def _case(
    branches: tuple[tuple[Expression, Expression], ...], otherwise: Expression, rows: pa.Table, naming: ColumnLookup
) -> Any:
    """Evaluate each branch only for the rows that take it, so that `case` can guard against a division by zero."""
    left = build_row_numbers(rows.num_rows)
    places, parts = [], []
    for condition, value in branches:
        beside = rows.take(left)
        takes = evaluate_condition(condition, beside, naming)
        places.append(left.filter(takes))
        parts.append(evaluate_expression(value, beside.filter(takes), naming))
        left = left.filter(_PC.invert(takes))
    places.append(left)
    parts.append(evaluate_expression(otherwise, rows.take(left), naming))
    target_type = functools.reduce(find_common_type, [part.type for part in parts])
    joined = pa.concat_arrays([cast_array(part, target_type) for part in parts])
    return joined.take(_PC.sort_indices(pa.concat_arrays(places)))


def _call_function(name: str, arguments: tuple[Expression, ...], rows: pa.Table, naming: ColumnLookup) -> Any:
    counts = _ARGUMENTS[name]
    if not counts[0] <= len(arguments) <= counts[1]:
        raise InvalidInputError(f"the function {name} was given {len(arguments)} argument(s)")
    match name:
        case "coalesce":
            tests = tuple((NullTest(argument, negated=True), argument) for argument in arguments[:-1])
            return _case(tests, arguments[-1], rows, naming)
        case "nullif":
            return _case(((BinaryOp("=", *arguments), Literal(None)),), arguments[0], rows, naming)
        case "if":
            return _case(((arguments[0], arguments[1]),), arguments[2], rows, naming)
        case "round":
            digits = arguments[1] if len(arguments) > 1 else Literal(0)
            if not isinstance(digits, Literal) or type(digits.value) is not int:
                raise build_requires_spark_error("numbers are rounded to digits that differ from row to row")
            return round_half_up(evaluate_expression(arguments[0], rows, naming), digits.value)
    values = [evaluate_expression(argument, rows, naming) for argument in arguments]
    if name == "concat":
        return _concatenate(values)
    if name in ("greatest", "least"):
        target_type = functools.reduce(find_common_type, [value.type for value in values])
        if pa.types.is_floating(target_type):
            raise build_requires_spark_error(f"{name} of floating-point numbers")
        function = _PC.max_element_wise if name == "greatest" else _PC.min_element_wise
        return function(*(cast_array(value, target_type) for value in values), skip_nulls=True)
    if name == "abs":
        return _PC.abs_checked(values[0]) if pa.types.is_integer(values[0].type) else _PC.abs(values[0])
    text = cast_array(values[0], pa.string())
    if name in ("lower", "upper") and not pc.all(_PC.string_is_ascii(text)).as_py():
        raise build_requires_spark_error(f"{name} of letters outside ASCII")
    return _PC.utf8_trim(text, characters=" ") if name == "trim" else _PC.call_function(_ON_TEXT[name], [text])


_ARGUMENTS: Final = {
    "abs": (1, 1),
    "coalesce": (1, 99),
    "concat": (1, 99),
    "greatest": (2, 99),
    "if": (3, 3),
    "least": (2, 99),
    "length": (1, 1),
    "lower": (1, 1),
    "nullif": (2, 2),
    "round": (1, 2),
    "trim": (1, 1),
    "upper": (1, 1),
}
_ON_TEXT: Final = {"length": "utf8_length", "lower": "utf8_lower", "upper": "utf8_upper"}
