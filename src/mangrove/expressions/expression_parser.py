"""Parser for SQL expressions.

or  and  not      = == <> != < <= > >= <=>      is [not] null      [not] in (…)  between … and …  like '…'
|| + -      * / %      -x      case when … then … else … end      cast(… as type)      function(…)
"""

import datetime
import decimal
import re
from collections.abc import Callable
from typing import Final

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
from mangrove.model.schema_text import SchemaTokenKind, TokenReader, parse_type

__all__ = ["FUNCTIONS", "check_not_empty", "parse_expression"]

FUNCTIONS: Final = frozenset(
    {"abs", "coalesce", "concat", "greatest", "if", "least", "length", "lower", "nullif", "round", "trim", "upper"}
)
_NESTING_MAX: Final = 100
_DIGITS_MAX: Final = 38
_NUMBER: Final = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?(?!\w)")
_COMPARING: Final = ("<=>", "==", "<>", "!=", "<=", ">=", "=", "<", ">")
_SPELLINGS: Final = {"==": "=", "!=": "<>"}
_RESERVED: Final = frozenset(
    {"and", "as", "between", "case", "cast", "distinct", "else", "end", "exists", "false", "from", "in", "interval"}
    | {"is", "like", "not", "null", "or", "select", "then", "true", "when"}
)


def check_not_empty(text: str) -> None:
    """Refuse a text in which nothing stands: no engine could say more about it."""
    if not text.strip():
        raise InvalidInputError("an expression is empty: write what it shall be, such as amount > 0")


def parse_expression(text: str) -> Expression:
    """Return what `text` means; refuse what only Spark understands, saying so."""
    check_not_empty(text)
    parser = _Parser(text)
    found = parser.either()
    parser.expect_end("an operator or the end")
    return found


class _Parser(TokenReader):
    """Reads one expression; the tightest operators lie deepest."""

    _what = "expression"
    _refusal = RequiresSparkError

    def either(self) -> Expression:
        self._depth += 1
        if self._depth > _NESTING_MAX:
            raise InvalidInputError(f"the expression nests more than {_NESTING_MAX} levels deep")
        found = self._both()
        while self._took_word("or"):
            found = BinaryOp("or", found, self._both())
        self._depth -= 1
        return found

    def _both(self) -> Expression:
        found = self._negatable()
        while self._took_word("and"):
            found = BinaryOp("and", found, self._negatable())
        return found

    def _negatable(self) -> Expression:
        negations = 0
        while self._took_word("not"):
            negations += 1
        found = self._compared()
        return UnaryOp("not", found) if negations % 2 else found

    def _compared(self) -> Expression:
        found = self._joined()
        while True:
            operator = self._took_operator(_COMPARING)
            if operator is not None:
                found = BinaryOp(_SPELLINGS.get(operator, operator), found, self._joined())
            elif self._took_word("is"):
                negated = self._took_word("not")
                self._expect_word("null")
                found = NullTest(found, negated)
            elif self._is_word("in", "between", "like") or (
                self._is_word("not") and self._follows("in", "between", "like")
            ):
                found = self._ranged(found)
            else:
                return found

    def _ranged(self, operand: Expression) -> Expression:
        negated = self._took_word("not")
        if self._took_word("in"):
            self._expect("(")
            return InList(operand, self._arguments(), negated)
        if self._took_word("like"):
            token = self._next
            if token.kind is not SchemaTokenKind.TEXT:
                raise self._error("a pattern between quotes")
            self._place += 1
            return Like(operand, token.value, negated)
        self._expect_word("between")
        low = self._joined()
        self._expect_word("and")
        both = BinaryOp("and", BinaryOp(">=", operand, low), BinaryOp("<=", operand, self._joined()))
        return UnaryOp("not", both) if negated else both

    def _joined(self) -> Expression:
        return self._chain(("||", "+", "-"), lambda: self._chain(("*", "/", "%"), self._signed))

    def _chain(self, operators: tuple[str, ...], operand: Callable[[], Expression]) -> Expression:
        found = operand()
        while (operator := self._took_operator(operators)) is not None:
            found = BinaryOp(operator, found, operand())
        return found

    def _signed(self) -> Expression:
        if self._took_operator(("-",)):
            inner = self._signed()
            is_number = isinstance(inner, Literal) and type(inner.value) in (int, float, decimal.Decimal)
            if is_number:
                assert isinstance(inner, Literal)
                assert isinstance(inner.value, int | float | decimal.Decimal)
                return Literal(-inner.value)
            return UnaryOp("-", inner)
        if self._took_operator(("+",)):
            return self._signed()
        return self._single()

    def _single(self) -> Expression:
        token = self._next
        if self._took_mark("("):
            inner = self.either()
            self._expect(")")
            return inner
        if token.kind is SchemaTokenKind.TEXT:
            self._place += 1
            return Literal(token.value)
        if token.kind is SchemaTokenKind.NUMBER or (
            token.kind is not SchemaTokenKind.END and _NUMBER.match(self._text, token.start)
        ):
            return Literal(self._number())
        if token.kind is SchemaTokenKind.QUOTED_NAME:
            return self._column()
        if token.kind is not SchemaTokenKind.WORD:
            raise self._error("a column, a value or `(`")
        return self._worded(token.value.lower())

    def _worded(self, word: str) -> Expression:
        following = self._tokens[self._place + 1]
        if word in ("true", "false", "null"):
            self._place += 1
            return Literal({"true": True, "false": False, "null": None}[word])
        if word in _TYPED and following.kind is SchemaTokenKind.TEXT:
            self._place += 2
            return Literal(_parse_typed_literal(word, following.value))
        if word == "case":
            return self._case()
        if word == "cast":
            return self._cast()
        if following.kind is SchemaTokenKind.MARK and following.value == "(":
            if word not in FUNCTIONS:
                raise RequiresSparkError(f"the function {word} is known to Spark at most, in {self._text!r}")
            self._place += 2
            return ScalarFunction(word, self._arguments())
        if word in _RESERVED:
            raise self._error("a column or a value")
        return self._column()

    def _case(self) -> Expression:
        self._place += 1
        subject = None if self._is_word("when") else self.either()
        branches = []
        while self._took_word("when"):
            condition = self.either()
            self._expect_word("then")
            branches.append((condition if subject is None else BinaryOp("=", subject, condition), self.either()))
        otherwise = self.either() if self._took_word("else") else Literal(None)
        self._expect_word("end")
        if not branches:
            raise InvalidInputError(f"a case has no `when`: {self._text!r}")
        return Case(tuple(branches), otherwise)

    def _cast(self) -> Expression:
        self._place += 1
        self._expect("(")
        operand = self.either()
        self._expect_word("as")
        first, depth = self._next, 0
        while depth or not (self._next.kind is SchemaTokenKind.MARK and self._next.value == ")"):
            if self._next.kind is SchemaTokenKind.END:
                raise self._error("`)`")
            if self._next.kind is SchemaTokenKind.MARK:
                depth += {"(": 1, ")": -1}.get(self._next.value, 0)
            self._place += 1
        written = self._text[first.start : self._next.start]
        self._place += 1
        return Cast(operand, parse_type(written))

    def _arguments(self) -> tuple[Expression, ...]:
        found = [self.either()]
        while self._took_mark(","):
            found.append(self.either())
        self._expect(")")
        return tuple(found)

    def _column(self) -> Expression:
        names = [self._name()]
        while self._took_mark("."):
            names.append(self._name())
        return ColumnPath(tuple(names))

    def _number(self) -> LiteralValue:
        found = _NUMBER.match(self._text, self._next.start)
        if found is None:
            raise self._error("a number")
        while self._next.kind is not SchemaTokenKind.END and self._next.start < found.end():
            self._place += 1
        if found[2]:
            return float(found[0])
        if sum(character.isdigit() for character in found[1]) > _DIGITS_MAX:
            raise InvalidInputError(
                f"a number of an expression has more than {_DIGITS_MAX} digits: write it as in 1e40, if it is meant"
            )
        return int(found[1]) if found[1].isdigit() else decimal.Decimal(found[1])

    def _follows(self, *words: str) -> bool:
        following = self._tokens[self._place + 1]
        return following.kind is SchemaTokenKind.WORD and following.value.lower() in words

    def _took_operator(self, operators: tuple[str, ...]) -> str | None:
        """Take the first of the operators that stands here, written without a space inside."""
        for operator in operators:
            ahead = self._tokens[self._place : self._place + len(operator)]
            is_close = all(token.kind is SchemaTokenKind.MARK for token in ahead) and len(ahead) == len(operator)
            if is_close and self._text[ahead[0].start : ahead[-1].end] == operator:
                self._place += len(operator)
                return operator
        return None


def _parse_typed_literal(word: str, written: str) -> LiteralValue:
    try:
        return _TYPED[word](written)
    except ValueError as error:
        raise InvalidInputError(f"{word} {written!r} is none: {error}") from error


def _parse_timestamp(written: str) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(written)
    return moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment


_TYPED: Final[dict[str, Callable[[str], LiteralValue]]] = {
    "date": datetime.date.fromisoformat,
    "timestamp": _parse_timestamp,
    "timestamp_ntz": datetime.datetime.fromisoformat,
    "x": bytes.fromhex,
}
