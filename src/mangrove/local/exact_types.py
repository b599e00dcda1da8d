"""Inference of the types of expressions whose values in this process are those of Spark under any settings.

If such an expression can be evaluated here, Spark has the same values. It may fail here where
Spark does not, such as in a part of a conjunction that Spark skips, or without ANSI mode.

Functions are left out because a session can replace them, comparisons of different kinds
because the conversion depends on the session, and decimals of many digits because their
results are rounded. Numbers with an exponent are decimals in some sessions, and doubled quotes
end a text in some.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from mangrove.expressions.expr import (
    BinaryOp,
    Case,
    Cast,
    ColumnPath,
    Expression,
    InList,
    Literal,
    NullTest,
    UnaryOp,
)
from mangrove.local.casts import find_common_type
from mangrove.local.evaluation import evaluate_expression
from mangrove.model.arrow_schema import type_to_arrow
from mangrove.model.schema import Schema
from mangrove.model.types import Char

__all__ = ["find_exact_type", "is_plain_text"]

_DIGITS: Final = {pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}
_DIGITS_MAX: Final = 38
_NEGATED_DIGITS_MAX: Final = 34
"""The number of digits to which Spark rounds the negative of a decimal."""
_ITEMS_MAX: Final = 100
"""Maximum number of items of a list, each of which is compared with all rows here."""
_COMPARISONS: Final = ("=", "<>", "<", "<=", ">", ">=", "<=>")
_UNPLAIN: Final = re.compile(r"[\\\"$]|''|!(?!=)|(?<!\w)\.?\d[\d.]*e", re.IGNORECASE)
"""What settings change: escapes, also as two quotes, double quotes, `${…}` and exponents; and `!` for `not`."""


def is_plain_text(text: str) -> bool:
    """Return whether the text of an expression means the same under all settings of a session.

    >>> is_plain_text("a != 'x'"), is_plain_text('a = "x"')
    (True, False)
    """
    return _UNPLAIN.search(text) is None


def find_exact_type(expression: Expression, schema: Schema) -> Any:
    """Return the Arrow type of an expression over the columns of a table, or None if Spark may have other values."""

    def of(inner: Expression) -> Any:
        return find_exact_type(inner, schema)

    match expression:
        case Literal():
            found = evaluate_expression(expression, pa.table({}), lambda rows, names: rows.column(names[0])).type
            return found if _is_scalar(found) or pa.types.is_null(found) else None
        case ColumnPath((name,)):
            # Another case of letters is another name under some settings.
            found = next((column for column in schema.columns if column.name == name), None)
            return None if found is None or isinstance(found.type, Char) else type_to_arrow(found.type)
        case UnaryOp("not", operand):
            return _boolean(holds=_is_boolean(of(operand)))
        case UnaryOp(_, operand):
            given = of(operand)
            return given if given is not None and _can_negate(given) else None
        case BinaryOp("and" | "or", left, right):
            return _boolean(holds=_is_boolean(of(left)) and _is_boolean(of(right)))
        case BinaryOp(sign, left, right) if sign in _COMPARISONS:
            return _boolean(holds=_are_comparable(of(left), of(right)))
        case BinaryOp(sign, left, right):
            return _find_result_type(sign, of(left), of(right))
        case NullTest(operand):
            # The parsers could group `a = b is null` differently.
            return _boolean(holds=not _is_boolean(given := of(operand)) and given is not None)
        case InList(operand, items):
            given = of(operand)
            return _boolean(holds=len(items) <= _ITEMS_MAX and all(_are_comparable(given, of(item)) for item in items))
        case Case(branches, otherwise):
            are_conditions = all(_is_boolean(of(condition)) for condition, _ in branches)
            return _find_shared_type([*(of(value) for _, value in branches), of(otherwise)]) if are_conditions else None
        case Cast(operand, target):
            # The parser reads `tinyint` as `smallint`.
            given, requested = of(operand), type_to_arrow(target)
            return requested if given in _DIGITS and requested in (pa.int32(), pa.int64()) else None
        case _:
            return None


def _boolean(*, holds: bool) -> Any:
    return pa.bool_() if holds else None


def _is_boolean(arrow: Any) -> bool:
    return arrow is not None and bool(pa.types.is_boolean(arrow))


def _is_number(arrow: Any) -> bool:
    return arrow in _DIGITS or bool(pa.types.is_decimal(arrow) or pa.types.is_float64(arrow))


def _can_negate(arrow: Any) -> bool:
    return _is_number(arrow) and not (pa.types.is_decimal(arrow) and arrow.precision > _NEGATED_DIGITS_MAX)


def _is_scalar(arrow: Any) -> bool:
    return _is_number(arrow) or arrow in (pa.bool_(), pa.string(), pa.date32())


def _are_comparable(left: Any, right: Any) -> bool:
    """Return whether both are texts, days or numbers that are compared exactly, or the right one is null."""
    if left is None or right is None:
        return False
    if pa.types.is_null(right):
        return _is_scalar(left)
    if left == right and left in (pa.string(), pa.date32()):
        return True
    return _is_number(left) and _is_number(right) and _find_common_number(left, right) is not None


def _find_common_number(left: Any, right: Any) -> Any:
    """Return the type in which numbers are compared; None for decimals beside doubles, or with too many digits."""
    if pa.types.is_decimal(left) != pa.types.is_decimal(right) and not (left in _DIGITS or right in _DIGITS):
        return None
    found = find_common_type(left, right)
    return None if pa.types.is_decimal256(found) else found


def _find_result_type(sign: str, left: Any, right: Any) -> Any:
    """Return the type of the result of + - * / %."""
    if left is None or right is None or not (_is_number(left) and _is_number(right)):
        return None
    if left in _DIGITS and right in _DIGITS:
        return pa.float64() if sign == "/" else find_common_type(left, right) if sign in "+-*%" else None
    if pa.types.is_float64(left) or pa.types.is_float64(right):
        is_exact = not (pa.types.is_decimal(left) or pa.types.is_decimal(right)) and sign in "+-*/"
        return pa.float64() if is_exact else None
    (p1, s1), (p2, s2) = _count_digits(left), _count_digits(right)
    if sign == "*":
        precision, scale = p1 + p2 + 1, s1 + s2
    else:
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + scale + 1
    return pa.decimal128(precision, scale) if precision <= _DIGITS_MAX and sign in "+-*" else None


def _count_digits(arrow: Any) -> tuple[int, int]:
    return (_DIGITS[arrow], 0) if arrow in _DIGITS else (arrow.precision, arrow.scale)


def _find_shared_type(types: Sequence[Any]) -> Any:
    """Return the type of branches that have one type, apart from nulls."""
    if None in types:
        return None
    known = [one for one in types if not pa.types.is_null(one)]
    if not known:
        return pa.null()
    return known[0] if all(one == known[0] for one in known) else None
