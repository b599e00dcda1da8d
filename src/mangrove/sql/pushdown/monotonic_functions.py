"""Rewriting of comparisons on monotonic functions as comparisons on columns.

Supported functions preserve the order of values: the year or the day of a timestamp, a
timestamp truncated to its month, the prefix of a string. Functions of timestamps with a
zone are rewritten only if the session time zone is equivalent to UTC.
"""

import datetime
from collections.abc import Callable
from typing import Any, Final

from sqlglot import exp

from mangrove.expressions.literals import build_comparison, build_period_comparison
from mangrove.expressions.predicates import Operator, Predicate, StartsWith, negate_predicate
from mangrove.model.partitioning import Days, Hours, Months, Transform, Years
from mangrove.model.types import Column, Date, Int32, Timestamp, TimestampTz, Varchar
from mangrove.sql.pushdown.constant_folding import ConstantResolver
from mangrove.sql.pushdown.scopes import has_only_known_args

__all__ = ["rewrite_monotonic_comparison"]

_ColumnOf = Callable[[Any], Column | None]

_NUMBER: Final = Column(0, "number", Int32())
"""A year is compared like a column of this type."""
_DAY: Final = Column(0, "day", Date())
_TEXT: Final = Column(0, "text", Varchar())
_UNITS: Final[dict[str, tuple[Transform, str]]] = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), (Years(), "%Y")),
    **dict.fromkeys(("MONTH", "MON", "MM"), (Months(), "%Y-%m")),
    **dict.fromkeys(("DAY", "DD"), (Days(), "%Y-%m-%d")),
    "HOUR": (Hours(), "%Y-%m-%dT%H"),
}


def rewrite_monotonic_comparison(
    made: Any, operator: Operator, constant: Any, constants: ConstantResolver, column_of: _ColumnOf
) -> Predicate | None:
    """Return the equivalent comparison of a column, or None if there is none."""
    match made:
        case exp.Year() if has_only_known_args(made, "this"):
            inner = made.this.this if isinstance(made.this, exp.TsOrDsToDate) else made.this
            return _of_year(_time_column(inner, constants, column_of), operator, constants.beside(_NUMBER, constant))
        case exp.Cast() if made.to.this == exp.DType.DATE and has_only_known_args(made, "this", "to"):
            return _of_day(_time_column(made.this, constants, column_of), operator, constants.beside(_DAY, constant))
        case exp.TsOrDsToDate() if has_only_known_args(made, "this", "safe"):
            return _of_day(_time_column(made.this, constants, column_of), operator, constants.beside(_DAY, constant))
        case exp.TimestampTrunc() | exp.DateTrunc() if has_only_known_args(made, "this", "unit"):
            return _of_cut(made, _time_column(made.this, constants, column_of), operator, constant, constants)
        case exp.Left() if has_only_known_args(made, "this", "expression"):
            return _of_beginning(column_of(made.this), made.expression, operator, constants.beside(_TEXT, constant))
        case exp.Substring() if has_only_known_args(made, "this", "start", "length") and _is_one(
            made.args.get("start")
        ):
            length = made.args.get("length")
            return _of_beginning(column_of(made.this), length, operator, constants.beside(_TEXT, constant))
        case _:
            return None


def _time_column(node: Any, constants: ConstantResolver, column_of: _ColumnOf) -> Column | None:
    """Return the column if it has dates that are the same in Spark and here."""
    column = column_of(node)
    if column is None or not isinstance(column.type, Date | Timestamp | TimestampTz):
        return None
    return column if constants.counts_in_utc(column) else None


def _of_year(column: Column | None, operator: Operator, year: Any) -> Predicate | None:
    if column is None or year is None or year != int(year) or not 1000 <= year <= 9999:
        return None
    return build_period_comparison(column, Years(), operator, f"{int(year):04}")


def _of_day(column: Column | None, operator: Operator, day: Any) -> Predicate | None:
    if column is None or day is None:
        return None
    if isinstance(column.type, Date):
        return build_comparison(column, operator, day)
    return build_period_comparison(column, Days(), operator, day)


def _of_cut(
    made: Any, column: Column | None, operator: Operator, constant: Any, constants: ConstantResolver
) -> Predicate | None:
    """Return the rewritten comparison of a truncated time with the start of a period."""
    unit = made.args.get("unit")
    known = _UNITS.get(unit.name.upper()) if isinstance(unit, exp.Var | exp.Literal) else None
    if column is None or known is None:
        return None
    transform, form = known
    is_day = isinstance(made, exp.DateTrunc)
    if is_day and isinstance(transform, Hours | Days):
        # `trunc` knows no unit below a month.
        return None
    if not is_day and (isinstance(column.type, Date) or not constants.is_utc):
        # What `date_trunc` gives is always a time with a zone.
        return None
    text = constants.beside(_DAY if is_day else column, constant)
    if not isinstance(text, str):
        return None
    begin = datetime.datetime.fromisoformat(text)
    named = begin.strftime(form)
    is_aligned = begin.year >= 1000 and datetime.datetime.strptime(named, form) == begin
    return build_period_comparison(column, transform, operator, named) if is_aligned else None


def _of_beginning(column: Column | None, length: Any, operator: Operator, text: Any) -> Predicate | None:
    """Return the rewritten comparison of a text prefix with a text of the same length."""
    if column is None or not isinstance(column.type, Varchar) or not isinstance(text, str) or not text:
        return None
    if not isinstance(length, exp.Literal) or length.is_string or length.this != str(len(text)):
        return None
    if operator is Operator.EQUAL:
        return StartsWith(column.id, text)
    return negate_predicate(StartsWith(column.id, text)) if operator is Operator.UNEQUAL else None


def _is_one(node: Any) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and node.this == "1"
