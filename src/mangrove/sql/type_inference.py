"""Inference of exact Spark result types for expressions."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from sqlglot import exp

from mangrove.errors import InvalidInputError
from mangrove.expressions.schema_text import parse_type
from mangrove.model.types import Boolean, DataType, Decimal, Float32, Float64, Int16, Int32, Int64, Varchar

__all__ = ["infer_exact_type"]

_TypeOf: TypeAlias = Callable[[Any], DataType | None]

_DIGITS_MAX: Final = 38
_WIDER: Final = (Int16, Int32, Int64)
"""Integer types in ascending width."""
_NUMBERS: Final = (*_WIDER, Float32, Float64)
_TEXTS: Final = (exp.Upper, exp.Lower, exp.Trim, exp.Substring, exp.Left, exp.Right, exp.Replace)
_PARTS_OF_DATES: Final = (exp.Year, exp.Month, exp.Day, exp.Quarter)


def infer_exact_type(node: Any, leaf_type: _TypeOf) -> DataType | None:
    """Return the type of an expression, or None if it is unknown; `leaf_type` infers that of names and literals."""

    def of(inner: Any) -> DataType | None:
        return infer_exact_type(inner, leaf_type)

    match node:
        case exp.Paren() | exp.Min() | exp.Max() | exp.Window() | exp.Filter():
            return of(node.this)
        case exp.Count() | exp.CountIf():
            return Int64()
        case exp.RowNumber() | exp.Rank() | exp.DenseRank():
            return Int32()
        case exp.Sum():
            return _infer_sum_type(of(node.this))
        case exp.Avg():
            return _infer_average_type(of(node.this))
        case exp.Not() | exp.Predicate() | exp.And() | exp.Or() | exp.Boolean():
            return Boolean()
        case exp.Cast():
            return _parse_cast_type(node.to)
        case exp.Coalesce():
            return _common_type([of(one) for one in (node.this, *node.expressions)])
        case exp.Case():
            return _common_type([of(one) for one in _list_branches(node)])
        case exp.Add() | exp.Sub() | exp.Mul():
            return _infer_arithmetic_type(of(node.left), of(node.right))
        case exp.Concat() if all(isinstance(of(one), Varchar) for one in node.expressions):
            return Varchar()
        case _ if isinstance(node, _TEXTS):
            return Varchar() if isinstance(of(node.this), Varchar) else None
        case _ if isinstance(node, _PARTS_OF_DATES):
            return Int32()
        case _:
            return leaf_type(node)


def _infer_sum_type(of: DataType | None) -> DataType | None:
    match of:
        case Int16() | Int32() | Int64():
            return Int64()
        case Float32() | Float64():
            return Float64()
        case Decimal(precision, scale):
            return Decimal(min(precision + 10, _DIGITS_MAX), scale)
        case _:
            return None


def _infer_average_type(of: DataType | None) -> DataType | None:
    match of:
        case Int16() | Int32() | Int64() | Float32() | Float64():
            return Float64()
        case Decimal(precision, scale) if precision + 4 <= _DIGITS_MAX:
            return Decimal(precision + 4, scale + 4)
        case _:
            return None


def _infer_arithmetic_type(one: DataType | None, other: DataType | None) -> DataType | None:
    if isinstance(one, _WIDER) and isinstance(other, _WIDER):
        return one if _WIDER.index(type(one)) >= _WIDER.index(type(other)) else other
    if isinstance(one, Float32) and isinstance(other, Float32):
        return one
    if isinstance(one, _NUMBERS) and isinstance(other, _NUMBERS) and Float64() in (one, other):
        return Float64()
    return None  # A float and an integer are promoted to double only in ANSI mode.


def _common_type(types: Sequence[DataType | None]) -> DataType | None:
    if types and all(isinstance(one, Varchar) for one in types):
        return Varchar()
    return types[0] if types and all(one == types[0] for one in types) else None


def _list_branches(case: exp.Case) -> list[Any]:
    values = [branch.args["true"] for branch in case.args["ifs"]]
    default = case.args.get("default")
    return values if default is None else [*values, default]


def _parse_cast_type(target: Any) -> DataType | None:
    try:
        return parse_type(target.sql("spark"))
    except InvalidInputError:
        return None
