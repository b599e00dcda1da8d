"""Parsing of expressions, predicates and conditions.

One parser, sqlglot, reads all of them. An expression is what the engines evaluate.
A predicate is the normal form of a condition that prunes files: comparisons of
columns with values, joined by `and`, `or` and `not`. It is written with

    comparisons  = == <> != < <= > >=        [not] between … and …      [not] in (…)
    is [not] null      [not] like 'text%'      and  or  not  ( )      true  false
    years, months, days, hours (column)      date '…'  timestamp '…'  x'0aff'
"""

import datetime
import decimal
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlglot import TokenType, exp

from mangrove.errors import InvalidInputError, MangroveError
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
    PreparedSql,
    RequiresSparkError,
    ScalarFunction,
    UnaryOp,
    split_like_pattern,
)
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
from mangrove.expressions.schema_text import convert_type
from mangrove.expressions.sql_tree import SqlText, column_path_of, parse_sql_tree, tokenize_text
from mangrove.model.names import quote_name
from mangrove.model.partitioning import Identity, Transform, parse_partition_field
from mangrove.model.schema import Schema
from mangrove.model.types import Boolean, Char, Column, Struct, Varchar, is_nested

__all__ = [
    "ALL_ROWS",
    "Condition",
    "ConditionToken",
    "SparkCondition",
    "bind_predicate",
    "check_not_empty",
    "parse_condition",
    "parse_expression",
    "parse_predicate",
    "parse_pruning_predicate",
    "tokenize_condition",
]

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


class _ExpressionConverter:
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
        if not isinstance(node.this, exp.Literal):
            # The negative of a negative number may not fit into its type.
            return UnaryOp("-", inner)
        match inner:
            case Literal(decimal.Decimal() as value):
                return Literal(value.copy_negate())
            case Literal(int() | float() as value):
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
        pattern = node.expression.this
        split_like_pattern(pattern)
        return Like(self.convert(node.this), pattern, bool(node.args.get("negate")))

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
    try:
        return int(written) if written.isdigit() else decimal.Decimal(written)
    except decimal.InvalidOperation as error:
        raise InvalidInputError(f"{written!r} in the expression is not a number") from error


def _parse_typed_literal(word: str, written: str) -> LiteralValue:
    if word.startswith("timestamp") and _NANOS.search(written):
        # Python would cut off the digits.
        raise RequiresSparkError(f"{word} {written!r} has more than six digits after the point; write it as a string")
    try:
        return _PARSERS[word](written)
    except ValueError as error:
        raise InvalidInputError(f"invalid {word} {written!r}: {error}") from error


_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_NANOS: Final = re.compile(r"\.\d{6}\d*[1-9]")


def _parse_date(written: str) -> datetime.date:
    if _DAY.fullmatch(written) is None:
        # Python also reads forms that Spark rejects, such as 20260101.
        raise ValueError("expected YYYY-MM-DD")
    return datetime.date.fromisoformat(written)


def _parse_timestamp(written: str) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(written)
    return moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment


_TYPED: Final = {
    exp.DType.DATE: "date",
    exp.DType.TIMESTAMPTZ: "timestamp",
    exp.DType.TIMESTAMPNTZ: "timestamp_ntz",
}
_PARSERS: Final[dict[str, Callable[[str], LiteralValue]]] = {
    "date": _parse_date,
    "timestamp": _parse_timestamp,
    "timestamp_ntz": datetime.datetime.fromisoformat,
    "x": bytes.fromhex,
}


_OPERATORS: Final[dict[type[exp.Expr], Operator]] = {
    exp.EQ: Operator.EQUAL,
    exp.NEQ: Operator.UNEQUAL,
    exp.LT: Operator.LESS,
    exp.LTE: Operator.LESS_OR_EQUAL,
    exp.GT: Operator.GREATER,
    exp.GTE: Operator.GREATER_OR_EQUAL,
}
_PERIODS: Final = ("year", "month", "day", "hour", "bucket", "truncate", "identity")
_TYPED_LITERALS: Final = frozenset({exp.DType.DATE, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPNTZ, exp.DType.TIME})


@dataclass(frozen=True, slots=True)
class _Term:
    """A column, or a period of it."""

    column: Column
    transform: Transform


class _PredicateConverter:
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
        parts = split_like_pattern(pattern)
        is_open = parts[-1:] == [("%", True)]
        body = parts[:-1] if is_open else parts
        if any(is_wildcard for _, is_wildcard in body):
            raise InvalidInputError(
                f"unsupported pattern {pattern!r}; the only wildcard of a predicate is one `%` at the end"
            )
        plain = "".join(character for character, _ in body)
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
                return _parse_decimal(node.this)
            case exp.Neg(this=exp.Literal(is_string=False)):
                return _parse_decimal(node.this.this).copy_negate()
            case exp.HexString():
                return _parse_bytes(node.this)
            case exp.Introducer() if node.this.this in _TYPED_LITERALS and node.expression.is_string:
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


def _parse_decimal(written: str) -> decimal.Decimal:
    try:
        return decimal.Decimal(written)
    except decimal.InvalidOperation as error:
        raise InvalidInputError(f"the exponent of {written} is out of range") from error


def _parse_bytes(digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError as error:
        raise InvalidInputError(f"invalid bytes x{digits!r}; expected two hexadecimal digits per byte") from error


@dataclass(frozen=True, slots=True)
class SparkCondition:
    """A condition that only Spark can evaluate, and a predicate that it implies."""

    text: str
    predicate: Predicate


@dataclass(frozen=True, slots=True)
class Condition:
    """A predicate, or a local expression with a predicate that it implies, if one is known."""

    predicate: Predicate | None = None
    expression: Expression | None = None


class ConditionToken(NamedTuple):
    """A token of a condition; `value` is a name without its backticks, or a symbol."""

    value: str
    start: int
    is_word: bool = False
    is_name: bool = False
    """Whether it can be part of a name: a word, or quoted with backticks."""

    @property
    def is_mark(self) -> bool:
        """Whether the token is punctuation: neither a name nor a value."""
        return not self.is_name and len(self.value) == 1


ALL_ROWS = Condition(ConstantPredicate(holds=True))


def check_not_empty(text: str, what: str = "expression") -> None:
    """Raise an error for an empty text."""
    if not text.strip():
        raise InvalidInputError(f"the {what} is empty; give one, such as amount > 0")


def parse_expression(text: str) -> Expression:
    """Parse an expression; raise RequiresSparkError for syntax that only Spark supports."""
    if isinstance(text, PreparedSql):
        return text.expression
    check_not_empty(text)
    sql = SqlText(text, "expression", RequiresSparkError)
    return _ExpressionConverter(sql).convert(parse_sql_tree(sql))


def parse_predicate(text: str, schema: Schema) -> Predicate:
    """Parse a predicate on the columns of `schema`; raise an error for unknown columns and invalid comparisons."""
    check_not_empty(text, "predicate")
    sql = SqlText(text, "predicate", advice="; to_spark(where=…) and SQL support any Spark condition")
    return _PredicateConverter(sql, schema).convert(parse_sql_tree(sql))


def tokenize_condition(text: str) -> list[ConditionToken]:
    """Return the tokens of a Spark condition; the last one is empty."""
    found = []
    for token in tokenize_text(text, "condition"):
        is_value = token.token_type in (TokenType.STRING, TokenType.NUMBER, TokenType.RAW_STRING, TokenType.HEX_STRING)
        is_quoted = token.token_type is TokenType.IDENTIFIER
        is_word = not is_value and not is_quoted and token.text.replace("_", "a").isalnum()
        value = "" if is_value else token.text
        found.append(ConditionToken(value, token.start, is_word, is_word or is_quoted))
    return [*found, ConditionToken("", len(text))]


def bind_predicate(where: str | Predicate | None, schema: Schema) -> Predicate | None:
    """Return the predicate of an argument given as text or as a value, or None for all rows."""
    if isinstance(where, str):
        return parse_predicate(where, schema)
    if where is not None and not isinstance(where, Predicate):
        raise InvalidInputError(f"invalid `where` {where!r}; expected text such as 'amount < 0'")
    return where


def parse_condition(where: str | Predicate | SparkCondition | None, schema: Schema) -> Condition:
    """Return the condition for the local engine, or None for all rows."""
    if where is None:
        return ALL_ROWS
    if isinstance(where, SparkCondition):
        return Condition(where.predicate, parse_expression(where.text))
    if not isinstance(where, str):
        return Condition(bind_predicate(where, schema))
    predicate = parse_pruning_predicate(where, schema)
    return Condition(predicate) if predicate is not None else Condition(expression=parse_expression(where))


def parse_pruning_predicate(where: str | Predicate | None, schema: Schema) -> Predicate | None:
    """Return the equivalent predicate of a text, or None if there is none."""
    try:
        return bind_predicate(where, schema)
    except MangroveError:
        if isinstance(where, str):
            return None
        raise
