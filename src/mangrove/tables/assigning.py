"""What an update or a merge puts into columns: a text is an SQL expression, anything else is the value that it is."""

import datetime
import decimal
from collections.abc import Mapping
from typing import Final, TypeAlias

from mangrove.errors import InvalidInputError
from mangrove.model.schema import Schema
from mangrove.model.sql_tokens import quoted_text
from mangrove.model.types import Struct
from mangrove.tables.expression_text import check_not_empty, parse_expression
from mangrove.tables.expressions import Expression, Literal, LiteralValue
from mangrove.tables.suggesting import did_you_mean

__all__ = ["Assignable", "alone", "as_expression", "as_sql", "checked_assignments", "decimal_fault"]

_DIGITS_MAX: Final = 38
"""So many digits does a decimal have at most, in any engine."""

Assignable: TypeAlias = str | bool | int | float | decimal.Decimal | bytes | datetime.date | datetime.datetime | None


def checked_assignments(values: Mapping[str, Assignable], schema: Schema) -> dict[str, Assignable]:
    """Return what is put into which column, by the columns' own names; refuse columns that are not there."""
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise InvalidInputError(f"what is set is given as {values!r}: give a dict such as {{'amount': 'amount * 2'}}")
    if not values:
        raise InvalidInputError("nothing is set: give at least one column with its value")
    by_name = {column.name.casefold(): column.name for column in schema.columns}
    found: dict[str, Assignable] = {}
    for name, value in values.items():
        own = by_name.get(name.casefold())
        if own is None:
            raise _no_column(name, schema)
        if own in found:
            raise InvalidInputError(f"column {own!r} is set twice")
        _check_kind(name, value)
        found[own] = value
    return found


def _no_column(name: str, schema: Schema) -> InvalidInputError:
    outer, dot, _ = name.partition(".")
    if dot and any(one.name.casefold() == outer.casefold() and isinstance(one.type, Struct) for one in schema.columns):
        return InvalidInputError(
            f"{name!r} lies inside the struct {outer!r}, and only whole columns are set: upsert rows with the whole "
            f"struct, or set {outer!r} to named_struct(…) on Spark"
        )
    return InvalidInputError(f"there is no column {name!r}{did_you_mean(name, schema.names)}")


def _check_kind(name: str, value: object) -> None:
    if value is not None and not isinstance(value, str | bool | int | float | decimal.Decimal | bytes | datetime.date):
        raise InvalidInputError(
            f"column {name!r} is set to a {type(value).__name__}: give an SQL expression as text, or a plain value"
        )
    fault = decimal_fault(value) if isinstance(value, decimal.Decimal) else None
    if fault is not None:
        raise InvalidInputError(f"column {name!r} is set to {fault}")


def decimal_fault(value: decimal.Decimal) -> str | None:
    """Return what is wrong with a decimal that no column of decimals can hold, and what to do, or None.

    >>> decimal_fault(decimal.Decimal("NaN"))
    'NaN, and decimals have neither NaN nor infinity: give None or a number'
    """
    if not value.is_finite():
        return f"{value}, and decimals have neither NaN nor infinity: give None or a number"
    if value.adjusted() >= _DIGITS_MAX:
        return f"{value:.3e}, and decimals have at most {_DIGITS_MAX} digits: give a float, for a column of doubles"
    return None


def as_expression(value: Assignable) -> Expression:
    """Return the value for the engine in this process."""
    return parse_expression(value) if isinstance(value, str) else Literal(value)


def as_sql(value: Assignable) -> str:
    """Return the value as Spark reads it."""
    return alone(value) if isinstance(value, str) else _literal_sql(value)


def alone(expression: str) -> str:
    """Return an expression between brackets: no word behind it is an alias, and no comment hides what follows."""
    check_not_empty(expression)
    return f"({expression}\n)"


def _literal_sql(value: LiteralValue) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return f"{value}bd" if not -(2**63) <= value < 2**63 else f"{value}L" if abs(value) >= 2**31 else str(value)
        case float():
            return f"double({quoted_text(repr(value))})"
        case decimal.Decimal():
            return f"{value:f}bd"
        case str():
            return quoted_text(value)
        case bytes():
            return f"x'{value.hex()}'"
        case datetime.datetime():
            word = "timestamp_ntz" if value.tzinfo is None else "timestamp"
            return f"{word} {quoted_text(value.isoformat(' '))}"
        case _:
            return f"date '{value.isoformat()}'"
