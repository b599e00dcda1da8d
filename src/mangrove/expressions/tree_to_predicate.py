"""Conversion of sqlglot trees to predicates, the normal form that prunes files.

comparisons  = == <> != < <= > >=        [not] between … and …      [not] in (…)
is [not] null      [not] like 'text%'      and  or  not  ( )      true  false
years, months, days, hours (column)      date '…'  timestamp '…'  x'0aff'
"""

import decimal
import re
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp

from mangrove.errors import InvalidInputError
from mangrove.expressions.literals import LiteralInput, build_period_comparison, exact_comparison, membership
from mangrove.expressions.predicates import (
    AllOf,
    AnyOf,
    ColumnComparison,
    ConstantPredicate,
    IsNull,
    Operator,
    Predicate,
    StartsWith,
    negate_predicate,
)
from mangrove.expressions.sql_tree import SqlText, column_path_of
from mangrove.model.names import quote_name
from mangrove.model.partitioning import Identity, Transform, parse_partition_field
from mangrove.model.schema import Schema
from mangrove.model.types import Boolean, Char, Column, Struct, Varchar, is_nested

__all__ = ["convert_predicate"]

_OPERATORS: Final[dict[type[exp.Expr], Operator]] = {
    exp.EQ: Operator.EQUAL,
    exp.NEQ: Operator.UNEQUAL,
    exp.LT: Operator.LESS,
    exp.LTE: Operator.LESS_OR_EQUAL,
    exp.GT: Operator.GREATER,
    exp.GTE: Operator.GREATER_OR_EQUAL,
}
_PERIODS: Final = ("year", "month", "day", "hour", "bucket", "truncate", "identity")
_TYPED: Final = frozenset({exp.DType.DATE, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPNTZ, exp.DType.TIME})
_ESCAPED: Final = re.compile(r"\\(.)|([%_])", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Term:
    """A column, or a period of it."""

    column: Column
    transform: Transform


def convert_predicate(tree: Any, sql: SqlText, schema: Schema) -> Predicate:
    """Return the predicate of a tree; raise an error for unknown columns and invalid comparisons."""
    return _Converter(sql, schema).convert(tree)


class _Converter:
    """Converts the tree of one text."""

    def __init__(self, sql: SqlText, schema: Schema) -> None:
        self._sql = sql
        self._schema = schema

    def convert(self, node: Any) -> Predicate:
        match node:
            case exp.Paren():
                return self.convert(node.this)
            case exp.Or():
                return AnyOf(tuple(self.convert(part) for part in _split_chain(node, exp.Or)))
            case exp.And():
                return AllOf(tuple(self.convert(part) for part in _split_chain(node, exp.And)))
            case exp.Not():
                return negate_predicate(self.convert(node.this))
            case exp.Boolean():
                return ConstantPredicate(bool(node.this))
            case exp.Is():
                return IsNull(self._convert_term(node.this, is_null_test=True).column.id)
            case exp.In():
                return self._convert_in(node)
            case exp.Between():
                return self._convert_between(node)
            case exp.Like():
                return self._convert_like(node)
            case _ if type(node) in _OPERATORS:
                return self._convert_comparison(node)
            case exp.Column() | exp.Dot():
                column = self._convert_term(node).column
                if isinstance(column.type, Boolean):
                    return ColumnComparison(column.id, Operator.EQUAL, value=True)
        raise self._sql.error(node, "a comparison, `in`, `between`, `like` or `is null`")

    def _convert_comparison(self, node: Any) -> Predicate:
        operator = _OPERATORS[type(node)]
        literal = self._find_literal(node.this)
        if literal is not None:
            return self._compare(self._convert_term(node.expression), operator.mirrored, literal)
        return self._compare(self._convert_term(node.this), operator, self._convert_literal(node.expression))

    def _convert_between(self, node: Any) -> Predicate:
        term = self._convert_term(node.this)
        low = self._compare(term, Operator.GREATER_OR_EQUAL, self._convert_literal(node.args["low"]))
        high = self._compare(term, Operator.LESS_OR_EQUAL, self._convert_literal(node.args["high"]))
        return AllOf((low, high))

    def _compare(self, term: _Term, operator: Operator, literal: LiteralInput) -> Predicate:
        if isinstance(term.transform, Identity):
            return exact_comparison(term.column, operator, literal)
        return build_period_comparison(term.column, term.transform, operator, str(literal))

    def _convert_in(self, node: Any) -> Predicate:
        if not node.expressions:
            raise self._sql.error(node, "at least one value after `in`")
        term = self._convert_term(node.this)
        literals = [self._convert_literal(item) for item in node.expressions]
        if isinstance(term.transform, Identity):
            return membership(term.column, literals, negated=False)
        return AnyOf(tuple(self._compare(term, Operator.EQUAL, literal) for literal in literals))

    def _convert_like(self, node: Any) -> Predicate:
        term, negated = self._convert_term(node.this), bool(node.args.get("negate"))
        if not isinstance(term.column.type, Char | Varchar) or not isinstance(term.transform, Identity):
            raise InvalidInputError(f"`like` requires a string column, but {term.column.name!r} is not one")
        if not node.expression.is_string:
            raise self._sql.error(node.expression, "a quoted pattern")
        pattern = node.expression.this
        body, is_open = (pattern[:-1], True) if pattern.endswith("%") else (pattern, False)
        if any(match[2] for match in _ESCAPED.finditer(body)):
            raise InvalidInputError(
                f"unsupported pattern {pattern!r}; the only wildcard of a predicate is one `%` at the end"
            )
        plain = _ESCAPED.sub(lambda match: match[1], body)
        if is_open:
            return StartsWith(term.column.id, plain, negated)
        return ColumnComparison(term.column.id, Operator.UNEQUAL if negated else Operator.EQUAL, plain)

    def _convert_term(self, node: Any, *, is_null_test: bool = False) -> _Term:
        if isinstance(node, exp.Anonymous):
            return self._convert_period(node)
        path = column_path_of(node)
        if path is None:
            raise self._sql.error(node, "a column")
        return _Term(self._find_column(path, is_null_test=is_null_test), Identity())

    def _convert_period(self, node: Any) -> _Term:
        if node.name.lower().removesuffix("s") not in _PERIODS:
            raise self._sql.error(node, f"a column or a period of one ({', '.join(_PERIODS)})")
        field = parse_partition_field(
            f"{node.name}({', '.join(map(_format_argument, node.expressions))})", self._schema
        )
        return _Term(self._find_column(self._schema.path_of(field.source_id)), field.transform)

    def _find_column(self, path: tuple[str, ...], *, is_null_test: bool = False) -> Column:
        column = self._schema.column(*path)
        for depth in range(1, len(path)):
            if not isinstance(self._schema.column(*path[:depth]).type, Struct):
                raise InvalidInputError(f"{'.'.join(path)!r} is inside a list or map and cannot be used in a predicate")
        if is_nested(column.type) and not is_null_test:
            raise InvalidInputError(
                f"column {'.'.join(path)!r} has a nested type; a predicate can only test it with `is null`"
            )
        return column

    def _convert_literal(self, node: Any) -> LiteralInput:
        if isinstance(node, exp.Null):
            raise InvalidInputError("comparison with null is never true; use `is null` or `is not null`")
        literal = self._find_literal(node)
        if literal is None:
            raise self._sql.error(node, "a number, a quoted string, true or false")
        return literal

    def _find_literal(self, node: Any) -> LiteralInput | None:
        """Return the value of a literal node, or None for other nodes."""
        match node:
            case exp.Boolean():
                return bool(node.this)
            case exp.Literal(is_string=True) | exp.RawString():
                return str(node.this)
            case exp.Literal():
                return _parse_number(node.this)
            case exp.Neg(this=exp.Literal(is_string=False)):
                return _parse_number(node.this.this).copy_negate()
            case exp.HexString():
                return _parse_bytes(node.this)
            case exp.Introducer() if node.this.this in _TYPED and node.expression.is_string:
                return str(node.expression.this)
            case _:
                return None


def _split_chain(node: Any, operation: type[exp.Expr]) -> list[Any]:
    """Return the operands of a chain of the same operator, without entering parentheses."""
    parts = []
    while isinstance(node, operation):
        parts.append(node.args["expression"])
        node = node.args["this"]
    return [node, *reversed(parts)]


def _format_argument(node: Any) -> str:
    path = column_path_of(node)
    return str(node.sql("spark")) if path is None else ".".join(quote_name(name) for name in path)


def _parse_number(written: str) -> decimal.Decimal:
    try:
        return decimal.Decimal(written)
    except decimal.InvalidOperation as error:
        raise InvalidInputError(f"the exponent of {written} is out of range") from error


def _parse_bytes(digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError as error:
        raise InvalidInputError(f"invalid bytes x{digits!r}; expected two hexadecimal digits per byte") from error
