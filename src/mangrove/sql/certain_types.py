"""The exact type that Spark gives an expression, where no setting and no value can change it."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from sqlglot import exp

from mangrove.errors import InvalidInputError
from mangrove.model.sql_text import parse_type
from mangrove.model.types import Boolean, DataType, Decimal, Float4, Float8, Int2, Int4, Int8, Varchar

__all__ = ["certain_type"]

_TypeOf: TypeAlias = Callable[[Any], DataType | None]

_DIGITS_MAX: Final = 38
_WIDER: Final = (Int2, Int4, Int8)
"""Whole numbers, each wider than those before it."""
_NUMBERS: Final = (*_WIDER, Float4, Float8)
_TEXTS: Final = (exp.Upper, exp.Lower, exp.Trim, exp.Substring, exp.Left, exp.Right, exp.Replace)
_PARTS_OF_DATES: Final = (exp.Year, exp.Month, exp.Day, exp.Quarter)


def certain_type(node: Any, plain: _TypeOf) -> DataType | None:
    """Return the type of an expression; `plain` tells those of names and literals."""

    def of(inner: Any) -> DataType | None:
        return certain_type(inner, plain)

    match node:
        case exp.Paren() | exp.Min() | exp.Max() | exp.Window() | exp.Filter():
            return of(node.this)
        case exp.Count() | exp.CountIf():
            return Int8()
        case exp.RowNumber() | exp.Rank() | exp.DenseRank():
            return Int4()
        case exp.Sum():
            return _summed(of(node.this))
        case exp.Avg():
            return _averaged(of(node.this))
        case exp.Not() | exp.Predicate() | exp.And() | exp.Or() | exp.Boolean():
            return Boolean()
        case exp.Cast():
            return _named_type(node.to)
        case exp.Coalesce():
            return _common([of(one) for one in (node.this, *node.expressions)])
        case exp.Case():
            return _common([of(one) for one in _branches(node)])
        case exp.Add() | exp.Sub() | exp.Mul():
            return _calculated(of(node.left), of(node.right))
        case exp.Concat() if all(isinstance(of(one), Varchar) for one in node.expressions):
            return Varchar()
        case _ if isinstance(node, _TEXTS):
            return Varchar() if isinstance(of(node.this), Varchar) else None
        case _ if isinstance(node, _PARTS_OF_DATES):
            return Int4()
        case _:
            return plain(node)


def _summed(of: DataType | None) -> DataType | None:
    match of:
        case Int2() | Int4() | Int8():
            return Int8()
        case Float4() | Float8():
            return Float8()
        case Decimal(precision, scale):
            return Decimal(min(precision + 10, _DIGITS_MAX), scale)
        case _:
            return None


def _averaged(of: DataType | None) -> DataType | None:
    match of:
        case Int2() | Int4() | Int8() | Float4() | Float8():
            return Float8()
        case Decimal(precision, scale) if precision + 4 <= _DIGITS_MAX:
            return Decimal(precision + 4, scale + 4)
        case _:
            return None


def _calculated(one: DataType | None, other: DataType | None) -> DataType | None:
    if isinstance(one, _WIDER) and isinstance(other, _WIDER):
        return one if _WIDER.index(type(one)) >= _WIDER.index(type(other)) else other
    if isinstance(one, Float4) and isinstance(other, Float4):
        return one
    if isinstance(one, _NUMBERS) and isinstance(other, _NUMBERS) and Float8() in (one, other):
        return Float8()
    return None  # A float and a whole number are a double only in ANSI mode.


def _common(types: Sequence[DataType | None]) -> DataType | None:
    if types and all(isinstance(one, Varchar) for one in types):
        return Varchar()
    return types[0] if types and all(one == types[0] for one in types) else None


def _branches(case: exp.Case) -> list[Any]:
    values = [branch.args["true"] for branch in case.args["ifs"]]
    default = case.args.get("default")
    return values if default is None else [*values, default]


def _named_type(named: Any) -> DataType | None:
    try:
        return parse_type(named.sql("spark"))
    except InvalidInputError:
        return None
