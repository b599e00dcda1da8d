"""Turning what people write in a predicate into values of the column beside it.

A number between two values that the column can hold moves to the nearer side, so
that `amount < 0.005` on cents means `amount <= 0.00`. One outside the column's range
is compared as well: `amount < 1e9` on decimal(5,2) means `amount <= 999.99`. A number
beside a column of floats is rounded to the nearest float, as in SQL.
"""

import datetime
import decimal
import math
import sys
from collections.abc import Sequence
from typing import Final, TypeAlias

from mangrove.errors import InvalidInputError
from mangrove.model.sql_text import type_text
from mangrove.model.types import (
    Binary,
    Boolean,
    Char,
    Column,
    Date,
    Decimal,
    Fixed,
    Float4,
    Float8,
    Int2,
    Int4,
    Int8,
    Time,
    Timestamp,
    TimestampTz,
    TimeTz,
    Varchar,
)
from mangrove.model.values import Value, canonical_value
from mangrove.tables.predicates import Comparison, IsIn, Operator, Predicate

__all__ = ["Literal", "comparison", "exact_comparison", "membership", "value_of"]

Literal: TypeAlias = bool | decimal.Decimal | str | bytes
"""What stands in the text: true or false, a number, text, or bytes."""

_EXACT: Final = decimal.Context(prec=100)
_INTEGER_END: Final = 2**63
_DIGITS_MAX: Final = 38
"""What no column can hold that counts exactly has more digits before the point."""
_INTEGER_BITS: Final = {Int2: 15, Int4: 31, Int8: 63}
_BELOW: Final = {Operator.LESS, Operator.LESS_OR_EQUAL}
_ABOVE: Final = {Operator.GREATER, Operator.GREATER_OR_EQUAL}


def comparison(column: Column, operator: Operator, literal: Literal) -> Predicate:
    """Return the comparison of a column with what was written; refuse what no value of the column can be equal to."""
    unit = _unit_of(column)
    if unit is not None and isinstance(literal, decimal.Decimal):
        steps = _steps(column, unit, literal)
        whole = int(steps.to_integral_value(decimal.ROUND_FLOOR))
        if steps != whole and operator in _BELOW:
            literal, operator = decimal.Decimal(whole).scaleb(unit, _EXACT), Operator.LESS_OR_EQUAL
        elif steps != whole and operator in _ABOVE:
            literal, operator = decimal.Decimal(whole + 1).scaleb(unit, _EXACT), Operator.GREATER_OR_EQUAL
    return Comparison(column.id, operator, value_of(column, literal))


def exact_comparison(column: Column, operator: Operator, literal: Literal) -> Predicate:
    """Return the comparison of a column with what was written, also with a number that the column cannot hold.

    What then holds for every value, or for none, is a comparison with an end of the
    column's range, and not a constant: for null both it and its negation are unknown.
    """
    bounds = _bounds_of(column)
    if bounds is None or not isinstance(literal, decimal.Decimal):
        return comparison(column, operator, literal)
    smallest, largest = bounds
    if operator in (Operator.EQUAL, Operator.UNEQUAL):
        if _holds(column, literal):
            return comparison(column, operator, literal)
        lowest = -math.inf if _unit_of(column) is None else value_of(column, smallest)
        return Comparison(
            column.id, Operator.GREATER_OR_EQUAL if operator is Operator.UNEQUAL else Operator.LESS, lowest
        )
    if literal > largest:
        operator = Operator.LESS_OR_EQUAL if operator in _BELOW else Operator.GREATER
        return Comparison(column.id, operator, value_of(column, largest))
    if literal < smallest:
        operator = Operator.GREATER_OR_EQUAL if operator in _ABOVE else Operator.LESS
        return Comparison(column.id, operator, value_of(column, smallest))
    return comparison(column, operator, literal)


def membership(column: Column, literals: Sequence[Literal], *, negated: bool) -> Predicate:
    """Return whether a column's value is one of those written; numbers that the column cannot hold are none of them."""
    held = [literal for literal in literals if not isinstance(literal, decimal.Decimal) or _holds(column, literal)]
    if held:
        return IsIn(column.id, tuple(value_of(column, literal) for literal in held), negated)
    return exact_comparison(column, Operator.UNEQUAL if negated else Operator.EQUAL, literals[0])


def _holds(column: Column, literal: decimal.Decimal) -> bool:
    """Return whether a value of the column can be equal to the number; true where the column holds no numbers."""
    bounds, unit = _bounds_of(column), _unit_of(column)
    if bounds is None:
        return True
    if not bounds[0] <= literal <= bounds[1]:
        return False
    steps = decimal.Decimal(0) if unit is None else _steps(column, unit, literal)
    return steps == steps.to_integral_value()


def _bounds_of(column: Column) -> tuple[decimal.Decimal, decimal.Decimal] | None:
    """Return the smallest and the largest finite number that the column can hold, None where it holds no numbers."""
    match column.type:
        case Int2() | Int4() | Int8():
            end = 2 ** _INTEGER_BITS[type(column.type)]
            return decimal.Decimal(-end), decimal.Decimal(end - 1)
        case Decimal(precision, scale):
            largest = decimal.Decimal(10**precision - 1).scaleb(-scale, _EXACT)
            return largest.copy_negate(), largest
        case Float4() | Float8():
            largest = decimal.Decimal(sys.float_info.max)
            return largest.copy_negate(), largest
        case _:
            return None


def value_of(column: Column, literal: Literal) -> Value:
    """Return the literal as a value of the column; refuse one that the column cannot hold."""
    try:
        value = _value_of(column, literal)
    except ValueError as error:
        raise _misfit(column, literal) from error
    if value is None:
        raise _misfit(column, literal)
    return canonical_value(value, f"what column {column.name!r} is compared with")


def _value_of(column: Column, literal: Literal) -> Value | None:
    match column.type, literal:
        case Boolean(), bool():
            return literal
        case _, bool():
            return None
        case Int2() | Int4() | Int8() | Decimal(), decimal.Decimal():
            return _exact(column, literal)
        case Float4() | Float8(), decimal.Decimal():
            number = float(literal)
            return number if math.isfinite(number) else None
        case Float4() | Float8(), str():
            return _infinity(literal)
        case Char() | Varchar(), str():
            return literal
        case Fixed() | Binary(), bytes():
            return literal
        case Date(), str():
            return datetime.date.fromisoformat(literal)
        case Time() | TimeTz(), str():
            time = datetime.time.fromisoformat(literal)
            return _zoned(time, wanted=isinstance(column.type, TimeTz))
        case Timestamp() | TimestampTz(), str():
            moment = datetime.datetime.fromisoformat(literal)
            return _zoned(moment, wanted=isinstance(column.type, TimestampTz))
        case _:
            return None


def _unit_of(column: Column) -> int | None:
    """Return the power of ten in which the column counts, for a column that counts exactly."""
    match column.type:
        case Int2() | Int4() | Int8():
            return 0
        case Decimal(_, scale):
            return -scale
        case _:
            return None


def _exact(column: Column, literal: decimal.Decimal) -> Value | None:
    unit = _unit_of(column)
    assert unit is not None
    steps = _steps(column, unit, literal)
    if steps != steps.to_integral_value():
        return None
    if isinstance(column.type, Decimal):
        # `abs` would round to 28 digits.
        fits = steps.copy_abs() < decimal.Decimal(10) ** 38
        return decimal.Decimal(int(steps)).scaleb(unit, _EXACT) if fits else None
    return int(steps) if -_INTEGER_END <= steps < _INTEGER_END else None


def _steps(column: Column, unit: int, literal: decimal.Decimal) -> decimal.Decimal:
    """Return the literal, however many digits it has, counted in the unit of the column."""
    if not literal:
        return decimal.Decimal(0)
    if literal.adjusted() > _DIGITS_MAX:
        raise _misfit(column, literal)
    digits = len(literal.as_tuple().digits)
    wide = decimal.Context(prec=digits, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
    return literal.scaleb(-unit, wide)


def _infinity(literal: str) -> float | None:
    word = literal.lower().removeprefix("+")
    return {"infinity": math.inf, "inf": math.inf, "-infinity": -math.inf, "-inf": -math.inf}.get(word)


def _zoned(value: datetime.datetime | datetime.time, *, wanted: bool) -> datetime.datetime | datetime.time | None:
    """Return the value in UTC where a zone is wanted; one that has a zone where none is wanted cannot be meant."""
    if not wanted:
        return value if value.tzinfo is None else None
    return value.replace(tzinfo=datetime.UTC) if value.tzinfo is None else value


def _misfit(column: Column, literal: Literal) -> InvalidInputError:
    return InvalidInputError(
        f"column {column.name!r} is of type {type_text(column.type)} and cannot be compared with {literal!r}"
        if not isinstance(literal, decimal.Decimal)
        else f"column {column.name!r} is of type {type_text(column.type)}, which cannot hold {literal}"
    )
