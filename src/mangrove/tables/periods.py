"""Comparisons with a period, such as `days(ts) = '2026-11-01'`, as comparisons of the column itself."""

import datetime
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.model.transforms import Days, Hours, Months, Transform, Years, result_type, word_of
from mangrove.model.types import Column, Date, TimestampTz
from mangrove.model.values import Value
from mangrove.tables.predicates import AllOf, AnyOf, Comparison, Operator, Predicate

__all__ = ["period_comparison", "period_predicate"]

_FORMS: Final[dict[type, tuple[str, str]]] = {
    Years: ("%Y", "'2026'"),
    Months: ("%Y-%m", "'2026-11'"),
    Days: ("%Y-%m-%d", "'2026-11-01'"),
    Hours: ("%Y-%m-%dT%H", "'2026-11-01T05'"),
}


def period_comparison(column: Column, transform: Transform, operator: Operator, text: str) -> Predicate:
    """Return the comparison of the column with the beginning and the end of the period that `text` names."""
    result_type(transform, column.type)
    if type(transform) not in _FORMS:
        raise InvalidInputError(
            f"{word_of(transform)}({column.name}) cannot be part of a predicate: compare the column itself"
        )
    form, example = _FORMS[type(transform)]
    try:
        first = datetime.datetime.strptime(text.strip().replace(" ", "T"), form)
    except ValueError as error:
        raise InvalidInputError(
            f"{word_of(transform)}({column.name}) is compared with {text!r}: write it as {example}"
        ) from error
    return _compared(column, transform, operator, first)


def period_predicate(column: Column, transform: Transform, value: Value) -> Predicate:
    """Return what the rows fulfil that lie in the period with this partition value."""
    return _compared(column, transform, Operator.EQUAL, _first_moment(transform, value))


def _compared(column: Column, transform: Transform, operator: Operator, first: datetime.datetime) -> Predicate:
    following = _following(transform, first)
    from_first = Comparison(column.id, Operator.GREATER_OR_EQUAL, _value(column, first))
    before_first = Comparison(column.id, Operator.LESS, _value(column, first))
    if following is None:
        # No calendar day comes after the year 9999, so its last moment is the end of the period.
        last = _value(column, datetime.datetime.max)
        before_following = Comparison(column.id, Operator.LESS_OR_EQUAL, last)
        from_following = Comparison(column.id, Operator.GREATER, last)
    else:
        before_following = Comparison(column.id, Operator.LESS, _value(column, following))
        from_following = Comparison(column.id, Operator.GREATER_OR_EQUAL, _value(column, following))
    meanings: dict[Operator, Predicate] = {
        Operator.EQUAL: AllOf((from_first, before_following)),
        Operator.UNEQUAL: AnyOf((before_first, from_following)),
        Operator.LESS: before_first,
        Operator.LESS_OR_EQUAL: before_following,
        Operator.GREATER: from_following,
        Operator.GREATER_OR_EQUAL: from_first,
    }
    return meanings[operator]


def _first_moment(transform: Transform, value: Value) -> datetime.datetime:
    """Return when the period with a partition value begins."""
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
            f"a row lies in {word_of(transform)} {value} since 1970, beyond the years 1 to 9999: leave it out"
        ) from error


def _following(transform: Transform, first: datetime.datetime) -> datetime.datetime | None:
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
    return moment.replace(tzinfo=datetime.UTC) if isinstance(column.type, TimestampTz) else moment
