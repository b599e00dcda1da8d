"""Conversion of SQL literals and date periods to column values.

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
from mangrove.expressions.predicates import AllOf, AnyOf, ColumnComparison, IsIn, Operator, Predicate
from mangrove.model.partitioning import Days, Hours, Months, Transform, Years, result_type_of, transform_name_of
from mangrove.model.schema_text import format_type
from mangrove.model.types import (
    Binary,
    Boolean,
    Char,
    Column,
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
    Varchar,
)
from mangrove.model.values import NANOS_MAX, NANOS_MIN, Value, micros_of_datetime, normalize_value, parse_nanos

__all__ = [
    "LiteralInput",
    "build_comparison",
    "build_period_comparison",
    "build_period_predicate",
    "convert_literal",
    "exact_comparison",
    "membership",
]

_NANOS: Final = (TimestampNs, TimestampTzNs)
_NANO_MICROS_MAX: Final = NANOS_MAX // 1_000
_FORMS: Final[dict[type, tuple[str, str]]] = {
    Years: ("%Y", "'2026'"),
    Months: ("%Y-%m", "'2026-11'"),
    Days: ("%Y-%m-%d", "'2026-11-01'"),
    Hours: ("%Y-%m-%dT%H", "'2026-11-01T05'"),
}


def build_period_comparison(column: Column, transform: Transform, operator: Operator, text: str) -> Predicate:
    """Return the comparison of the column with the bounds of the period `text`."""
    result_type_of(transform, column.type)
    if type(transform) not in _FORMS:
        raise InvalidInputError(
            f"{transform_name_of(transform)}({column.name}) cannot be used in a predicate; compare the column itself"
        )
    form, example = _FORMS[type(transform)]
    try:
        first = datetime.datetime.strptime(text.strip().replace(" ", "T"), form)
    except ValueError as error:
        raise InvalidInputError(
            f"{transform_name_of(transform)}({column.name}) cannot be compared with {text!r}; use {example}"
        ) from error
    return _compare_period(column, transform, operator, first)


def build_period_predicate(column: Column, transform: Transform, value: Value) -> Predicate:
    """Return the predicate for the rows of the period with this partition value."""
    return _compare_period(column, transform, Operator.EQUAL, _period_start(transform, value))


def _compare_period(column: Column, transform: Transform, operator: Operator, first: datetime.datetime) -> Predicate:
    following = _next_period_start(transform, first)
    if following is not None and isinstance(column.type, _NANOS) and micros_of_datetime(following) > _NANO_MICROS_MAX:
        following = None
    from_first = ColumnComparison(column.id, Operator.GREATER_OR_EQUAL, _value(column, first))
    before_first = ColumnComparison(column.id, Operator.LESS, _value(column, first))
    if following is None:
        # No calendar day comes after the year 9999, so its last moment is the end of the period.
        last = NANOS_MAX if isinstance(column.type, _NANOS) else _value(column, datetime.datetime.max)
        before_following = ColumnComparison(column.id, Operator.LESS_OR_EQUAL, last)
        from_following = ColumnComparison(column.id, Operator.GREATER, last)
    else:
        before_following = ColumnComparison(column.id, Operator.LESS, _value(column, following))
        from_following = ColumnComparison(column.id, Operator.GREATER_OR_EQUAL, _value(column, following))
    meanings: dict[Operator, Predicate] = {
        Operator.EQUAL: AllOf((from_first, before_following)),
        Operator.UNEQUAL: AnyOf((before_first, from_following)),
        Operator.LESS: before_first,
        Operator.LESS_OR_EQUAL: before_following,
        Operator.GREATER: from_following,
        Operator.GREATER_OR_EQUAL: from_first,
    }
    return meanings[operator]


def _period_start(transform: Transform, value: Value) -> datetime.datetime:
    """Return the start of the period with a partition value."""
    if isinstance(transform, Days):
        assert isinstance(value, datetime.date)
        return datetime.datetime(value.year, value.month, value.day)
    assert isinstance(value, int)
    try:
        match transform:
            case Years():
                return datetime.datetime(1970 + value, 1, 1)
            case Months():
                return datetime.datetime(1970 + value // 12, value % 12 + 1, 1)
            case _:
                return datetime.datetime(1970, 1, 1) + datetime.timedelta(hours=value)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"{transform_name_of(transform)} {value} since 1970 is outside the years 1 to 9999; remove the row"
        ) from error


def _next_period_start(transform: Transform, first: datetime.datetime) -> datetime.datetime | None:
    try:
        match transform:
            case Years():
                return first.replace(year=first.year + 1)
            case Months():
                return first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
            case Hours():
                return first + datetime.timedelta(hours=1)
            case _:
                return first + datetime.timedelta(days=1)
    except (ValueError, OverflowError):
        return None


def _value(column: Column, moment: datetime.datetime) -> Value:
    if isinstance(column.type, Date):
        return moment.date()
    if isinstance(column.type, _NANOS):
        micros = micros_of_datetime(moment)
        if micros > _NANO_MICROS_MAX:
            raise InvalidInputError(f"{moment} is after the year 2262, the last one of column {column.name!r}")
        return max(micros * 1_000, NANOS_MIN)
    return moment.replace(tzinfo=datetime.UTC) if isinstance(column.type, TimestampTz) else moment


LiteralInput: TypeAlias = bool | decimal.Decimal | str | bytes
"""The value of a SQL literal: a boolean, a number, a string or bytes."""

_EXACT: Final = decimal.Context(prec=100)
_INTEGER_END: Final = 2**63
_DIGITS_MAX: Final = 38
"""The maximum number of digits before the decimal point of an exact numeric column."""
_INTEGER_BITS: Final = {Int16: 15, Int32: 31, Int64: 63}
_BELOW: Final = {Operator.LESS, Operator.LESS_OR_EQUAL}
_ABOVE: Final = {Operator.GREATER, Operator.GREATER_OR_EQUAL}


def build_comparison(column: Column, operator: Operator, literal: LiteralInput) -> Predicate:
    """Return the comparison of a column with a literal; raise an error for a literal that the column cannot hold."""
    unit = _unit_of(column)
    if unit is not None and isinstance(literal, decimal.Decimal):
        steps = _steps(column, unit, literal)
        whole = int(steps.to_integral_value(decimal.ROUND_FLOOR))
        if steps != whole and operator in _BELOW:
            literal, operator = decimal.Decimal(whole).scaleb(unit, _EXACT), Operator.LESS_OR_EQUAL
        elif steps != whole and operator in _ABOVE:
            literal, operator = decimal.Decimal(whole + 1).scaleb(unit, _EXACT), Operator.GREATER_OR_EQUAL
    return ColumnComparison(column.id, operator, convert_literal(column, literal))


def exact_comparison(column: Column, operator: Operator, literal: LiteralInput) -> Predicate:
    """Return the comparison of a column with a literal, also with a number that the column cannot hold.

    What then holds for every value, or for none, is a comparison with an end of the
    column's range, and not a constant: for null both it and its negation are unknown.
    """
    bounds = _bounds_of(column)
    if bounds is None or not isinstance(literal, decimal.Decimal):
        return build_comparison(column, operator, literal)
    smallest, largest = bounds
    if operator in (Operator.EQUAL, Operator.UNEQUAL):
        if _holds(column, literal):
            return build_comparison(column, operator, literal)
        lowest = -math.inf if _unit_of(column) is None else convert_literal(column, smallest)
        return ColumnComparison(
            column.id, Operator.GREATER_OR_EQUAL if operator is Operator.UNEQUAL else Operator.LESS, lowest
        )
    if literal > largest:
        operator = Operator.LESS_OR_EQUAL if operator in _BELOW else Operator.GREATER
        return ColumnComparison(column.id, operator, convert_literal(column, largest))
    if literal < smallest:
        operator = Operator.GREATER_OR_EQUAL if operator in _ABOVE else Operator.LESS
        return ColumnComparison(column.id, operator, convert_literal(column, smallest))
    return build_comparison(column, operator, literal)


def membership(column: Column, literals: Sequence[LiteralInput], *, negated: bool) -> Predicate:
    """Return the `in` predicate of a column; numbers that the column cannot hold are dropped."""
    representable = [
        literal for literal in literals if not isinstance(literal, decimal.Decimal) or _holds(column, literal)
    ]
    if representable:
        return IsIn(column.id, tuple(convert_literal(column, literal) for literal in representable), negated)
    return exact_comparison(column, Operator.UNEQUAL if negated else Operator.EQUAL, literals[0])


def _holds(column: Column, literal: decimal.Decimal) -> bool:
    """Return whether the column can hold the number; true for columns that are not numeric."""
    bounds, unit = _bounds_of(column), _unit_of(column)
    if bounds is None:
        return True
    if not bounds[0] <= literal <= bounds[1]:
        return False
    steps = decimal.Decimal(0) if unit is None else _steps(column, unit, literal)
    return steps == steps.to_integral_value()


def _bounds_of(column: Column) -> tuple[decimal.Decimal, decimal.Decimal] | None:
    """Return the minimum and maximum finite number of the column type, or None if it is not numeric."""
    match column.type:
        case Int16() | Int32() | Int64():
            end = 2 ** _INTEGER_BITS[type(column.type)]
            return decimal.Decimal(-end), decimal.Decimal(end - 1)
        case Decimal(precision, scale):
            largest = decimal.Decimal(10**precision - 1).scaleb(-scale, _EXACT)
            return largest.copy_negate(), largest
        case Float32() | Float64():
            largest = decimal.Decimal(sys.float_info.max)
            return largest.copy_negate(), largest
        case _:
            return None


def convert_literal(column: Column, literal: LiteralInput) -> Value:
    """Return the literal as a value of the column type; raise an error if it cannot hold it."""
    try:
        value = _value_of(column, literal)
    except ValueError as error:
        raise _misfit(column, literal) from error
    if value is None:
        raise _misfit(column, literal)
    return normalize_value(value, f"the value compared with column {column.name!r}")


def _value_of(column: Column, literal: LiteralInput) -> Value | None:
    match column.type, literal:
        case Boolean(), bool():
            return literal
        case _, bool():
            return None
        case Int16() | Int32() | Int64() | Decimal(), decimal.Decimal():
            return _exact(column, literal)
        case Float32() | Float64(), decimal.Decimal():
            number = float(literal)
            return number if math.isfinite(number) else None
        case Float32() | Float64(), str():
            return _infinity(literal)
        case Char() | Varchar(), str():
            return literal
        case Fixed() | Binary(), bytes():
            return literal
        case Date(), str():
            return datetime.date.fromisoformat(literal)
        case Time() | TimeTz(), str():
            time = datetime.time.fromisoformat(literal)
            return _normalize_time_zone(time, has_zone=isinstance(column.type, TimeTz))
        case Timestamp() | TimestampTz(), str():
            moment = datetime.datetime.fromisoformat(literal)
            return _normalize_time_zone(moment, has_zone=isinstance(column.type, TimestampTz))
        case TimestampNs() | TimestampTzNs(), str():
            return parse_nanos(literal, has_zone=isinstance(column.type, TimestampTzNs))
        case _:
            return None


def _unit_of(column: Column) -> int | None:
    """Return the exponent of the smallest unit of an exact numeric column."""
    match column.type:
        case Int16() | Int32() | Int64():
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
    """Return the literal in units of the column, for any number of digits."""
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


def _normalize_time_zone(
    value: datetime.datetime | datetime.time, *, has_zone: bool
) -> datetime.datetime | datetime.time | None:
    """Return the value in UTC if the type has a zone; raise an error for a zone if it has none."""
    if not has_zone:
        return value if value.tzinfo is None else None
    return value.replace(tzinfo=datetime.UTC) if value.tzinfo is None else value


def _misfit(column: Column, literal: LiteralInput) -> InvalidInputError:
    return InvalidInputError(
        f"column {column.name!r} is of type {format_type(column.type)} and cannot be compared with {literal!r}"
        if not isinstance(literal, decimal.Decimal)
        else f"column {column.name!r} is of type {format_type(column.type)}, which cannot hold {literal}"
    )
