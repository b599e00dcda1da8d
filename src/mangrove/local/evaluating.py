"""Evaluating an expression over the rows of an Arrow table."""

import decimal
import functools
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.errors import InvalidInputError
from mangrove.local.arithmetic import arithmetic, compared, negated, rounded
from mangrove.local.casting import cast, common_type, refused, spoken_type
from mangrove.model.arrow_form import type_to_arrow
from mangrove.tables.expressions import (
    Binary,
    Call,
    Case,
    Cast,
    ColumnPath,
    Expression,
    InList,
    Like,
    Literal,
    LiteralValue,
    NullTest,
    Unary,
)

__all__ = ["Naming", "evaluated", "is_met"]

_PC: Final[Any] = pc
_PA: Final[Any] = pa
_LOGIC: Final = {"and": "and_kleene", "or": "or_kleene"}
_INT: Final = 2**31
_BIGINT: Final = 2**63
Naming: TypeAlias = Callable[[pa.Table, tuple[str, ...]], Any]
"""How the names in an expression lead to a column of the rows."""


def is_met(expression: Expression, rows: pa.Table, naming: Naming) -> Any:
    """Return for each row whether a condition is true; what is unknown is not."""
    found = evaluated(expression, rows, naming)
    if not pa.types.is_boolean(found.type) and not pa.types.is_null(found.type):
        raise InvalidInputError(
            f"a condition is {spoken_type(found.type)} and not true or false: compare it with something"
        )
    return _PC.fill_null(cast(found, pa.bool_()), pa.scalar(value=False))


def evaluated(expression: Expression, rows: pa.Table, naming: Naming) -> Any:
    """Return the value of an expression for each row, as one array."""

    def of(inner: Expression) -> Any:
        return evaluated(inner, rows, naming)

    match expression:
        case Literal(value):
            return _literal(value, rows.num_rows)
        case ColumnPath(names):
            return _one_chunk(naming(rows, names))
        case Unary("not", operand):
            return _PC.invert(_truth(of(operand)))
        case Unary(_, operand):
            return negated(of(operand))
        case Binary("and" | "or" as word, left, right):
            return _PC.call_function(_LOGIC[word], [_truth(of(left)), _truth(of(right))])
        case Binary("||", left, right):
            return _concatenated([of(left), of(right)])
        case Binary("+" | "-" | "*" | "/" | "%" as sign, left, right):
            return arithmetic(sign, *_typed_pair(left, of(left), right, of(right)))
        case Binary(sign, left, right):
            return compared(sign, *_typed_pair(left, of(left), right, of(right)))
        case NullTest(operand, is_negated):
            return pc.is_valid(of(operand)) if is_negated else pc.is_null(of(operand))
        case InList(operand, items, is_negated):
            found = functools.reduce(_PC.or_kleene, [of(Binary("=", operand, item)) for item in items])
            return _PC.invert(found) if is_negated else found
        case Like(operand, pattern, is_negated):
            found = _PC.match_substring_regex(cast(of(operand), pa.string()), _regular(pattern))
            return _PC.invert(found) if is_negated else found
        case Case(branches, otherwise):
            return _case(branches, otherwise, rows, naming)
        case Cast(operand, wanted):
            return cast(of(operand), type_to_arrow(wanted))
        case Call(name, arguments):
            return _called(name, arguments, rows, naming)
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
    return _PA.repeat(pa.scalar(value), count)


def _decimal_of(value: decimal.Decimal) -> Any:
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    return pa.decimal128(max(len(digits), scale, 1), scale)


def _typed_pair(left: Expression, one: Any, right: Expression, other: Any) -> tuple[Any, Any]:
    """Return the two sides, a whole number that is written beside a decimal having no more digits than it shows."""
    return _narrow(left, one, other), _narrow(right, other, one)


def _narrow(expression: Expression, array: Any, beside: Any) -> Any:
    if isinstance(expression, Literal) and type(expression.value) is int and pa.types.is_decimal(beside.type):
        return cast(array, _decimal_of(decimal.Decimal(expression.value)))
    return array


def _truth(array: Any) -> Any:
    if not pa.types.is_boolean(array.type) and not pa.types.is_null(array.type):
        raise InvalidInputError(f"`and`, `or` and `not` take conditions, and there is {array.type}")
    return cast(array, pa.bool_())


def _one_chunk(array: Any) -> Any:
    if not isinstance(array, pa.ChunkedArray):
        return array
    return array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)


def _concatenated(arrays: list[Any]) -> Any:
    texts = [cast(array, pa.string()) for array in arrays]
    return _PC.binary_join_element_wise(*texts, "", null_handling="emit_null")


def _regular(pattern: str) -> str:
    """Return a pattern of `like` as a regular expression for the whole text."""
    found = []
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            found.append(re.escape(next(characters, "\\")))
        else:
            found.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return "(?s)^" + "".join(found) + "$"


def _case(
    branches: tuple[tuple[Expression, Expression], ...], otherwise: Expression, rows: pa.Table, naming: Naming
) -> Any:
    """Evaluate each branch for the rows that take it alone, so that `case` protects from a division by zero."""
    left = pa.array(range(rows.num_rows), pa.int64())
    places, parts = [], []
    for condition, value in branches:
        beside = rows.take(left)
        takes = is_met(condition, beside, naming)
        places.append(left.filter(takes))
        parts.append(evaluated(value, beside.filter(takes), naming))
        left = left.filter(_PC.invert(takes))
    places.append(left)
    parts.append(evaluated(otherwise, rows.take(left), naming))
    wanted = functools.reduce(common_type, [part.type for part in parts])
    joined = pa.concat_arrays([cast(part, wanted) for part in parts])
    return joined.take(_PC.sort_indices(pa.concat_arrays(places)))


def _called(name: str, arguments: tuple[Expression, ...], rows: pa.Table, naming: Naming) -> Any:
    counts = _ARGUMENTS[name]
    if not counts[0] <= len(arguments) <= counts[1]:
        raise InvalidInputError(f"the function {name} was given {len(arguments)} argument(s)")
    match name:
        case "coalesce":
            tests = tuple((NullTest(argument, negated=True), argument) for argument in arguments[:-1])
            return _case(tests, arguments[-1], rows, naming)
        case "nullif":
            return _case(((Binary("=", *arguments), Literal(None)),), arguments[0], rows, naming)
        case "if":
            return _case(((arguments[0], arguments[1]),), arguments[2], rows, naming)
        case "round":
            digits = arguments[1] if len(arguments) > 1 else Literal(0)
            if not isinstance(digits, Literal) or type(digits.value) is not int:
                raise refused("numbers are rounded to digits that differ from row to row")
            return rounded(evaluated(arguments[0], rows, naming), digits.value)
    values = [evaluated(argument, rows, naming) for argument in arguments]
    if name == "concat":
        return _concatenated(values)
    if name in ("greatest", "least"):
        wanted = functools.reduce(common_type, [value.type for value in values])
        if pa.types.is_floating(wanted):
            raise refused(f"{name} of floating-point numbers")
        function = _PC.max_element_wise if name == "greatest" else _PC.min_element_wise
        return function(*(cast(value, wanted) for value in values), skip_nulls=True)
    if name == "abs":
        return _PC.abs_checked(values[0]) if pa.types.is_integer(values[0].type) else _PC.abs(values[0])
    text = cast(values[0], pa.string())
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
