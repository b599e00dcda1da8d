"""Parser for predicates and conditions in SQL.

comparisons  = == <> != < <= > >=        [not] between … and …      [not] in (…)
is [not] null      [not] like 'text%'      and  or  not  ( )      true  false
years, months, days, hours (column)      date '…'  timestamp '…'  x'0aff'
"""

import decimal
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mangrove.errors import InvalidInputError, MangroveError
from mangrove.expressions.expr import Expression
from mangrove.expressions.expression_parser import parse_expression
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
from mangrove.model.partitioning import Identity, Transform, parse_partition_field
from mangrove.model.schema import Schema
from mangrove.model.schema_text import SchemaToken, SchemaTokenKind, TokenReader
from mangrove.model.types import Boolean, Char, Column, Struct, Varchar, is_nested

__all__ = [
    "ALL_ROWS",
    "Condition",
    "SparkCondition",
    "bind_predicate",
    "parse_condition",
    "parse_predicate",
    "parse_pruning_predicate",
]

_NESTING_MAX: Final = 100
_NUMBER: Final = re.compile(r"[+-]?\s*\d+(?:\.\d*)?(?:[eE][+-]?\d+)?(?!\w)")
_OPERATORS: Final = {
    "=": Operator.EQUAL,
    "==": Operator.EQUAL,
    "<>": Operator.UNEQUAL,
    "!=": Operator.UNEQUAL,
    "<": Operator.LESS,
    "<=": Operator.LESS_OR_EQUAL,
    ">": Operator.GREATER,
    ">=": Operator.GREATER_OR_EQUAL,
}
_PERIODS: Final = ("year", "month", "day", "hour", "bucket", "truncate", "identity")
_ESCAPED: Final = re.compile(r"\\(.)|([%_])", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Term:
    """A column, or a period that is taken from it."""

    column: Column
    transform: Transform


def parse_predicate(text: str, schema: Schema) -> Predicate:
    """Return what `text` says about the columns of `schema`; refuse what it does not have or cannot compare."""
    parser = _Parser(text, schema)
    predicate = parser.either()
    parser.expect_end("`and`, `or` or the end")
    return predicate


def bind_predicate(where: str | Predicate | None, schema: Schema) -> Predicate | None:
    """Return the predicate that a caller gave as text or as a value, or None where all rows are meant."""
    if isinstance(where, str):
        return parse_predicate(where, schema)
    if where is not None and not isinstance(where, Predicate):
        raise InvalidInputError(f"`where` is {where!r}: give text such as 'amount < 0'")
    return where


class _Parser(TokenReader):
    """Reads one predicate on the columns of a schema."""

    _what = "predicate"
    _advice = "; to_spark(where=…) and SQL take any condition of Spark's"

    def __init__(self, text: str, schema: Schema) -> None:
        super().__init__(text)
        self._schema = schema

    def either(self) -> Predicate:
        parts = [self._both()]
        while self._took_word("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _both(self) -> Predicate:
        parts = [self._single()]
        while self._took_word("and"):
            parts.append(self._single())
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _single(self) -> Predicate:
        self._depth += 1
        if self._depth > _NESTING_MAX:
            raise InvalidInputError(f"the predicate nests more than {_NESTING_MAX} levels deep")
        try:
            if self._took_word("not"):
                return negate_predicate(self._single())
            if self._took_mark("("):
                inner = self.either()
                self._expect(")")
                return inner
            return self._condition()
        finally:
            self._depth -= 1

    def _condition(self) -> Predicate:
        if self._is_literal():
            return self._literal_first()
        term = self._term()
        operator = self._operator()
        if operator is not None:
            return self._compared(term, operator, self._literal())
        if self._took_word("is"):
            negated = self._took_word("not")
            self._expect_word("null")
            return IsNull(term.column.id, negated)
        negated = self._took_word("not")
        if self._took_word("in"):
            return self._listed(term, negated=negated)
        if self._took_word("between"):
            low = self._compared(term, Operator.GREATER_OR_EQUAL, self._literal())
            self._expect_word("and")
            both = AllOf((low, self._compared(term, Operator.LESS_OR_EQUAL, self._literal())))
            return negate_predicate(both) if negated else both
        if self._took_word("like"):
            return self._like(term, negated=negated)
        if not negated and isinstance(term.column.type, Boolean) and isinstance(term.transform, Identity):
            return ColumnComparison(term.column.id, Operator.EQUAL, value=True)
        raise self._error("a comparison, `in`, `between`, `like` or `is null`")

    def _literal_first(self) -> Predicate:
        literal = self._literal()
        operator = self._operator()
        if operator is not None:
            return self._compared(self._term(), operator.mirrored, literal)
        if isinstance(literal, bool):
            return ConstantPredicate(literal)
        raise self._error("a comparison")

    def _compared(self, term: _Term, operator: Operator, literal: LiteralInput) -> Predicate:
        if isinstance(term.transform, Identity):
            return exact_comparison(term.column, operator, literal)
        return build_period_comparison(term.column, term.transform, operator, str(literal))

    def _listed(self, term: _Term, *, negated: bool) -> Predicate:
        self._expect("(")
        literals = [self._literal()]
        while self._took_mark(","):
            literals.append(self._literal())
        self._expect(")")
        if isinstance(term.transform, Identity):
            return membership(term.column, literals, negated=negated)
        any_of = AnyOf(tuple(self._compared(term, Operator.EQUAL, literal) for literal in literals))
        return negate_predicate(any_of) if negated else any_of

    def _like(self, term: _Term, *, negated: bool) -> Predicate:
        token = self._next
        if not isinstance(term.column.type, Char | Varchar) or not isinstance(term.transform, Identity):
            raise InvalidInputError(f"`like` compares text, and column {term.column.name!r} is none")
        if token.kind is not SchemaTokenKind.TEXT:
            raise self._error("a pattern between quotes")
        self._place += 1
        pattern = token.value
        body, is_open = (pattern[:-1], True) if pattern.endswith("%") else (pattern, False)
        if any(match[2] for match in _ESCAPED.finditer(body)):
            raise InvalidInputError(f"the pattern {pattern!r} has a wildcard that is not one `%` at its end")
        plain = _ESCAPED.sub(lambda match: match[1], body)
        if is_open:
            return StartsWith(term.column.id, plain, negated)
        return ColumnComparison(term.column.id, Operator.UNEQUAL if negated else Operator.EQUAL, plain)

    def _term(self) -> _Term:
        token = self._next
        if token.kind not in (SchemaTokenKind.WORD, SchemaTokenKind.QUOTED_NAME):
            raise self._error("a column")
        following = self._tokens[self._place + 1]
        if token.kind is SchemaTokenKind.WORD and following.kind is SchemaTokenKind.MARK and following.value == "(":
            return self._period(token)
        path = [self._name()]
        while self._took_mark("."):
            path.append(self._name())
        return _Term(self._column(tuple(path)), Identity())

    def _period(self, first: SchemaToken) -> _Term:
        if self._text[first.start : first.end].lower().removesuffix("s") not in _PERIODS:
            raise self._error(f"a column or a period of one ({', '.join(_PERIODS)})")
        while not self._took_mark(")"):
            if self._next.kind is SchemaTokenKind.END:
                raise self._error("`)`")
            self._place += 1
        written = self._text[first.start : self._tokens[self._place - 1].end]
        field = parse_partition_field(written, self._schema)
        return _Term(self._column(self._schema.path_of(field.source_id)), field.transform)

    def _column(self, path: tuple[str, ...]) -> Column:
        column = self._schema.column(*path)
        for depth in range(1, len(path)):
            if not isinstance(self._schema.column(*path[:depth]).type, Struct):
                raise InvalidInputError(f"{'.'.join(path)!r} lies inside a list or map, which a predicate cannot reach")
        if is_nested(column.type) and not self._is_before_null_test():
            raise InvalidInputError(f"column {'.'.join(path)!r} is nested: only `is null` can be asked about it")
        return column

    def _is_before_null_test(self) -> bool:
        return self._next.kind is SchemaTokenKind.WORD and self._next.value.lower() == "is"

    def _is_literal(self) -> bool:
        token = self._next
        if token.kind is SchemaTokenKind.WORD:
            following = self._tokens[self._place + 1]
            word = token.value.lower()
            is_number = _NUMBER.match(self._text, token.start) is not None  # such as 1e2: all in it may stand in a name
            return is_number or word in ("true", "false") or (word in _TYPED and following.kind is SchemaTokenKind.TEXT)
        return token.kind in (SchemaTokenKind.TEXT, SchemaTokenKind.NUMBER) or token.value in ("-", "+")

    def _literal(self) -> LiteralInput:
        token = self._next
        if token.kind is SchemaTokenKind.TEXT:
            self._place += 1
            return token.value
        if token.kind is SchemaTokenKind.WORD and token.value.lower() in ("true", "false"):
            self._place += 1
            return token.value.lower() == "true"
        if token.kind is SchemaTokenKind.WORD and token.value.lower() in _TYPED and self._is_literal():
            self._place += 2
            return _TYPED[token.value.lower()](self._tokens[self._place - 1].value)
        if token.kind is SchemaTokenKind.WORD and token.value.lower() == "null":
            raise InvalidInputError("nothing is equal to null, nor unequal: write `is null` or `is not null`")
        number = _NUMBER.match(self._text, token.start)
        if number is None:
            raise self._error("a number, a text between quotes, true or false")
        while self._next.start < number.end() and self._next.kind is not SchemaTokenKind.END:
            self._place += 1
        try:
            return decimal.Decimal("".join(number[0].split()))
        except decimal.InvalidOperation as error:
            raise InvalidInputError(f"{number[0]} has an exponent that no number of a column has") from error

    def _operator(self) -> Operator | None:
        first, second = self._next, self._tokens[min(self._place + 1, len(self._tokens) - 1)]
        if first.kind is not SchemaTokenKind.MARK:
            return None
        if (
            second.kind is SchemaTokenKind.MARK
            and second.start == first.end
            and first.value + second.value in _OPERATORS
        ):
            self._place += 2
            return _OPERATORS[first.value + second.value]
        if first.value in _OPERATORS:
            self._place += 1
            return _OPERATORS[first.value]
        return None


def _bytes_of(digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError as error:
        raise InvalidInputError(f"x{digits!r} is no bytes: write two hexadecimal digits for each") from error


_TYPED: Final[dict[str, Callable[[str], LiteralInput]]] = {
    "date": str,
    "timestamp": str,
    "timestamp_ntz": str,
    "time": str,
    "x": _bytes_of,
}


@dataclass(frozen=True, slots=True)
class SparkCondition:
    """A condition in words that only Spark understands, and a predicate that all rows fulfil for which it is true."""

    text: str
    predicate: Predicate


@dataclass(frozen=True, slots=True)
class Condition:
    """What a caller asked for; exactly one of the two is there."""

    predicate: Predicate | None = None
    expression: Expression | None = None


ALL_ROWS = Condition(ConstantPredicate(holds=True))


def parse_condition(where: str | Predicate | SparkCondition | None, schema: Schema) -> Condition:
    """Return what `where` means to the engine in this process; None means all rows."""
    if where is None:
        return ALL_ROWS
    if isinstance(where, SparkCondition):
        return Condition(expression=parse_expression(where.text))
    if not isinstance(where, str):
        return Condition(bind_predicate(where, schema))
    predicate = parse_pruning_predicate(where, schema)
    return Condition(predicate) if predicate is not None else Condition(expression=parse_expression(where))


def parse_pruning_predicate(where: str | Predicate | None, schema: Schema) -> Predicate | None:
    """Return the predicate that a text is, or None where it says more than predicates do."""
    try:
        return bind_predicate(where, schema)
    except MangroveError:
        if isinstance(where, str):
            return None
        raise
