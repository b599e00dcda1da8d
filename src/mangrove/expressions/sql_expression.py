"""SQL expressions as values, so that text given to an update is never mistaken for one."""

import datetime
import decimal
import re
from dataclasses import dataclass
from typing import Final, TypeVar

from mangrove.errors import InvalidInputError
from mangrove.expressions.expr import LiteralValue
from mangrove.model.names import quote_name, split_path
from mangrove.model.schema_text import quote_text

__all__ = ["Expr", "LiteralExpr", "col", "expr", "format_literal", "lit", "to_condition"]

T = TypeVar("T")


_PLAIN: Final = re.compile(r"[\w.]+|`(?:[^`]|``)+`")
_LITERAL_TYPES: Final = (str, bool, int, float, decimal.Decimal, bytes, datetime.date)


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """A SQL expression; create one with `expr`, `col` or `lit`.

    Comparisons give conditions, which `&`, `|` and `~` combine:

    >>> str((col("id") == 1) & ~(col("name") < "b"))
    "(id = 1) and (not (name < 'b'))"
    """

    sql: str

    def __post_init__(self) -> None:
        if not isinstance(self.sql, str):
            raise InvalidInputError(f"an expression is SQL text, not {type(self.sql).__name__}; give a value with lit")

    def __str__(self) -> str:
        return self.sql

    def __hash__(self) -> int:
        return hash(self.sql)

    def __bool__(self) -> bool:
        raise InvalidInputError(
            f"the expression {self.sql!r} has no truth value in Python; pass it as a condition, and combine conditions "
            "with & | ~ instead of and, or, not"
        )

    def __eq__(self, other: object) -> "Expr":  # type: ignore[override]
        if other is None:
            return Expr(f"{_format_operand(self)} is null")
        return _compare(self, "=", other)

    def __ne__(self, other: object) -> "Expr":  # type: ignore[override]
        if other is None:
            return Expr(f"{_format_operand(self)} is not null")
        return _compare(self, "<>", other)

    def __lt__(self, other: object) -> "Expr":
        return _compare(self, "<", other)

    def __le__(self, other: object) -> "Expr":
        return _compare(self, "<=", other)

    def __gt__(self, other: object) -> "Expr":
        return _compare(self, ">", other)

    def __ge__(self, other: object) -> "Expr":
        return _compare(self, ">=", other)

    def __and__(self, other: "Expr") -> "Expr":
        return _combine(self, "and", other)

    def __or__(self, other: "Expr") -> "Expr":
        return _combine(self, "or", other)

    def __invert__(self) -> "Expr":
        return Expr(f"not ({self.sql})")


@dataclass(frozen=True, slots=True, eq=False)
class LiteralExpr(Expr):
    """A value as an expression."""

    value: LiteralValue


@dataclass(frozen=True, slots=True, eq=False)
class _EqualityExpr(Expr):
    """An equality of two expressions, which in sets and dictionaries tells whether they are the same."""

    is_true: bool

    def __bool__(self) -> bool:
        return self.is_true


def _compare(left: Expr, operator: str, right: object) -> Expr:
    sql = f"{_format_operand(left)} {operator} {_format_operand(_to_expression(right))}"
    if isinstance(right, Expr) and operator in ("=", "<>"):
        is_same = type(left) is type(right) and left.sql == right.sql
        return _EqualityExpr(sql, is_same is (operator == "="))
    return Expr(sql)


def _combine(left: Expr, operator: str, right: object) -> Expr:
    if not isinstance(right, Expr):
        raise InvalidInputError(
            f"{left.sql!r} is combined with {right!r}, which is not a condition; put parentheses around comparisons, "
            "as in (col('a') == 1) & (col('b') == 2)"
        )
    return Expr(f"({left.sql}) {operator} ({right.sql})")


def _to_expression(value: object) -> Expr:
    if isinstance(value, Expr):
        return value
    if value is None or not isinstance(value, _LITERAL_TYPES):
        raise InvalidInputError(f"an expression is compared with {value!r}; give a scalar, or None with == and !=")
    return lit(value)


def _format_operand(operand: Expr) -> str:
    is_plain = isinstance(operand, LiteralExpr) or _PLAIN.fullmatch(operand.sql)
    return operand.sql if is_plain else f"({operand.sql})"


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
