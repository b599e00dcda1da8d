"""SQL expressions as values, so that text given to an update is never mistaken for one."""

import datetime
import decimal
from dataclasses import dataclass
from typing import TypeVar

from mangrove.errors import InvalidInputError
from mangrove.expressions.expr import LiteralValue
from mangrove.model.names import quote_name, split_path
from mangrove.model.schema_text import quote_text

__all__ = ["Expr", "LiteralExpr", "col", "expr", "format_literal", "lit", "to_condition"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Expr:
    """A SQL expression; create one with `expr`, `col` or `lit`."""

    sql: str

    def __post_init__(self) -> None:
        if not isinstance(self.sql, str):
            raise InvalidInputError(f"an expression is SQL text, not {type(self.sql).__name__}; give a value with lit")

    def __str__(self) -> str:
        return self.sql


@dataclass(frozen=True, slots=True)
class LiteralExpr(Expr):
    """A value as an expression."""

    value: LiteralValue


def expr(sql: str) -> Expr:
    """Return an SQL expression.

    >>> expr("amount * 1.1")
    Expr(sql='amount * 1.1')
    """
    return Expr(sql)


def col(name: str) -> Expr:
    """Return a column by its name; `address.city` is a field of a struct.

    >>> str(col("order id")), str(col("address.city"))
    ('`order id`', 'address.city')
    """
    return Expr(".".join(quote_name(part) for part in split_path(name)))


def lit(value: LiteralValue) -> Expr:
    """Return a Python value as an expression.

    >>> str(lit("x")), str(lit(5))
    ("'x'", '5')
    """
    return LiteralExpr(format_literal(value), value)


def to_condition(where: T | Expr) -> T | str:
    """Return a condition as text if it is an expression, else unchanged."""
    return where.sql if isinstance(where, Expr) else where


def format_literal(value: LiteralValue) -> str:
    """Return a value as a Spark SQL literal."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return f"{value}bd" if not -(2**63) <= value < 2**63 else f"{value}L" if abs(value) >= 2**31 else str(value)
        case float():
            return f"double({quote_text(repr(value))})"
        case decimal.Decimal():
            return f"{value:f}bd"
        case str():
            return quote_text(value)
        case bytes():
            return f"x'{value.hex()}'"
        case datetime.datetime():
            word = "timestamp_ntz" if value.tzinfo is None else "timestamp"
            return f"{word} {quote_text(value.isoformat(' '))}"
        case _:
            return f"date '{value.isoformat()}'"
