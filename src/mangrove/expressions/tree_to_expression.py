"""Conversion of sqlglot trees to expressions."""

import datetime
import decimal
from collections.abc import Callable
from typing import Any, Final

from sqlglot import exp

from mangrove.errors import InvalidInputError
from mangrove.expressions.expr import (
    BinaryOp,
    Case,
    Cast,
    ColumnPath,
    Expression,
    InList,
    Like,
    Literal,
    LiteralValue,
    NullTest,
    RequiresSparkError,
    ScalarFunction,
    UnaryOp,
)
from mangrove.expressions.sql_tree import SqlText, column_path_of
from mangrove.expressions.tree_to_schema import convert_type

__all__ = ["convert_expression"]

_FUNCTIONS: Final = frozenset(
    {"abs", "coalesce", "concat", "greatest", "if", "least", "length", "lower", "nullif", "round", "trim", "upper"}
)
_DIGITS_MAX: Final = 38
_BINARY: Final[dict[type[exp.Expr], str]] = {
    exp.Add: "+",
    exp.And: "and",
    exp.DPipe: "||",
    exp.Div: "/",
    exp.EQ: "=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.Mod: "%",
    exp.Mul: "*",
    exp.NEQ: "<>",
    exp.NullSafeEQ: "<=>",
    exp.Or: "or",
    exp.Sub: "-",
}


def convert_expression(tree: Any, sql: SqlText) -> Expression:
    """Return the expression of a tree; raise an error for functions that only Spark can evaluate."""
    return _Converter(sql).convert(tree)


class _Converter:
    """Converts the tree of one text."""

    def __init__(self, sql: SqlText) -> None:
        self._sql = sql

    def convert(self, node: Any) -> Expression:
        """Return the expression of a node; operator chains are converted iteratively, because they can be long."""
        chain = []
        while type(node) in _BINARY:
            chain.append(node)
            node = node.this
        found = self._convert_operand(node)
        for operation in reversed(chain):
            found = BinaryOp(_BINARY[type(operation)], found, self.convert(operation.expression))
        return found

    def _convert_operand(self, node: Any) -> Expression:
        match node:
            case exp.Paren():
                return self.convert(node.this)
            case exp.Column() | exp.Dot():
                path = column_path_of(node)
                if path is None:
                    raise self._sql.error(node, "a column")
                return ColumnPath(path)
            case exp.Not():
                return self._convert_not(node)
            case exp.Neg():
                return self._convert_negative(node)
            case exp.Is():
                return NullTest(self.convert(node.this))
            case exp.In():
                return InList(self.convert(node.this), self._convert_all(node.expressions, node))
            case exp.Between():
                return self._convert_between(node)
            case exp.Like():
                return self._convert_like(node)
            case exp.Case():
                return self._convert_case(node)
            case exp.Cast() if type(node) is exp.Cast:
                return Cast(self.convert(node.this), convert_type(node.to, self._sql))
            case exp.Anonymous():
                return self._convert_call(node)
            case _:
                return Literal(self._convert_literal(node))

    def _convert_not(self, node: Any) -> Expression:
        match node.this:
            case exp.Is():
                return NullTest(self.convert(node.this.this), negated=True)
            case exp.In():
                inner = node.this
                return InList(self.convert(inner.this), self._convert_all(inner.expressions, inner), negated=True)
            case _:
                return UnaryOp("not", self.convert(node.this))

    def _convert_negative(self, node: Any) -> Expression:
        inner = self.convert(node.this)
        match inner:
            case Literal(decimal.Decimal() as value):
                return Literal(value.copy_negate())
            case Literal(int() | float() as value) if not isinstance(value, bool):
                return Literal(-value)
            case _:
                return UnaryOp("-", inner)

    def _convert_between(self, node: Any) -> Expression:
        operand = self.convert(node.this)
        low, high = self.convert(node.args["low"]), self.convert(node.args["high"])
        return BinaryOp("and", BinaryOp(">=", operand, low), BinaryOp("<=", operand, high))

    def _convert_like(self, node: Any) -> Expression:
        if not node.expression.is_string:
            raise self._sql.error(node.expression, "a quoted pattern")
        return Like(self.convert(node.this), node.expression.this, bool(node.args.get("negate")))

    def _convert_case(self, node: Any) -> Expression:
        if not node.args["ifs"]:
            raise InvalidInputError(f"CASE without WHEN: {self._sql.text!r}")
        subject = None if node.this is None else self.convert(node.this)
        branches = []
        for branch in node.args["ifs"]:
            condition = self.convert(branch.this)
            tested = condition if subject is None else BinaryOp("=", subject, condition)
            branches.append((tested, self.convert(branch.args["true"])))
        default = node.args.get("default")
        return Case(tuple(branches), Literal(None) if default is None else self.convert(default))

    def _convert_call(self, node: Any) -> Expression:
        name = node.name.lower()
        if name not in _FUNCTIONS:
            raise RequiresSparkError(f"unknown function {name} in {self._sql.text!r}; only Spark may support it")
        return ScalarFunction(name, self._convert_all(node.expressions, node))

    def _convert_all(self, nodes: list[Any], parent: Any) -> tuple[Expression, ...]:
        if not nodes:
            raise self._sql.error(parent, "at least one value in the list")
        return tuple(self.convert(node) for node in nodes)

    def _convert_literal(self, node: Any) -> LiteralValue:
        match node:
            case exp.Null():
                return None
            case exp.Boolean():
                return bool(node.this)
            case exp.Literal(is_string=True) | exp.RawString():
                return str(node.this)
            case exp.Literal():
                return _parse_number(node.this)
            case exp.HexString():
                return _parse_typed_literal("x", node.this)
            case exp.Introducer() if node.this.this in _TYPED and node.expression.is_string:
                return _parse_typed_literal(_TYPED[node.this.this], node.expression.this)
            case _:
                raise self._sql.error(node, "a column, a value or `(`")


def _parse_number(written: str) -> LiteralValue:
    if "e" in written.lower():
        return float(written)
    if sum(character.isdigit() for character in written) > _DIGITS_MAX:
        raise InvalidInputError(
            f"a number in the expression has more than {_DIGITS_MAX} digits; use an exponent, as in 1e40"
        )
    return int(written) if written.isdigit() else decimal.Decimal(written)


def _parse_typed_literal(word: str, written: str) -> LiteralValue:
    try:
        return _PARSERS[word](written)
    except ValueError as error:
        raise InvalidInputError(f"invalid {word} {written!r}: {error}") from error


def _parse_timestamp(written: str) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(written)
    return moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment


_TYPED: Final = {
    exp.DType.DATE: "date",
    exp.DType.TIMESTAMPTZ: "timestamp",
    exp.DType.TIMESTAMPNTZ: "timestamp_ntz",
}
_PARSERS: Final[dict[str, Callable[[str], LiteralValue]]] = {
    "date": datetime.date.fromisoformat,
    "timestamp": _parse_timestamp,
    "timestamp_ntz": datetime.datetime.fromisoformat,
    "x": bytes.fromhex,
}
