"""Parsing and evaluation of AS OF expressions."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.sql_port import Arguments, PositionedText, SqlEngine, SqlErrorInfo
from mangrove.sql.errors import format_spark_error
from mangrove.sql.parse.tokens import SqlToken, SqlTokenKind, parse_name_chain

__all__ = ["AsOfExpression", "evaluate_as_of", "find_expression_end", "parse_as_of_expression"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_QUERY_STARTS: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
_OPERATORS: Final = frozenset({"+", "-", "*", "/", "%", "||", "::", "&", "|", "^"})
_UNITS: Final = frozenset(
    unit + ending
    for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
    for ending in ("", "S")
)


@dataclass(frozen=True, slots=True)
class AsOfExpression:
    """An expression for a version or a time, and its position in the query."""

    kind: str
    """One of version, time."""
    text: str
    start: int
    end: int

    @property
    def clause(self) -> str:
        """The keywords before it."""
        return "VERSION AS OF" if self.kind == "version" else "TIMESTAMP AS OF"


def evaluate_as_of(expression: AsOfExpression, engine: SqlEngine, arguments: Arguments) -> int | str:
    """Return the version, the export name or the timestamp to which the engine evaluates the expression.

    As in Spark, a date is its midnight, and a timestamp without a zone is in the time
    zone of the session. A string is treated like a literal.
    """
    outcome = engine.run([PositionedText(f"SELECT ({expression.text}) AS as_of", None)], arguments)
    if isinstance(outcome, SqlErrorInfo):
        if outcome.condition.startswith("UNRESOLVED_COLUMN"):
            raise InvalidInputError(
                f"{expression.clause} is evaluated before any row is read and cannot use column "
                f"{outcome.parameters.get('objectName')}; use a value, a function or a parameter"
            )
        raise InvalidInputError(f"cannot evaluate {expression.clause}: {format_spark_error(outcome)}")
    value = engine.read_as_of_value(outcome)
    if isinstance(value, timedelta) and expression.kind == "time":
        return (_EPOCH + value).isoformat()
    is_version = isinstance(value, int | str) and not isinstance(value, bool) and expression.kind == "version"
    if is_version or (isinstance(value, str) and expression.kind == "time"):
        return value  # type: ignore[return-value]
    expected = (
        "a version number or an export name" if expression.kind == "version" else "a timestamp, a date or a string"
    )
    raise InvalidInputError(f"{expression.clause} {expression.text} is {value!r}; expected {expected}")


def find_expression_end(tokens: Sequence[SqlToken], place: int) -> int:
    """Return the index after the expression that begins at this index, up to an alias."""
    while True:
        while tokens[place].text in ("+", "-", "~"):
            place += 1
        place = _operand_end(tokens, place)
        if tokens[place].text not in _OPERATORS and tokens[place].word != "DIV":
            return place
        place += 1


def parse_as_of_expression(kind: str, tokens: Sequence[SqlToken]) -> AsOfExpression:
    """Return the AS OF expression of these tokens; raise an error for a subquery."""
    # Between two tokens is a blank, so that nothing but the places inside is lost.
    expression = AsOfExpression(kind, " ".join(token.text for token in tokens), tokens[0].start, tokens[-1].end)
    if any(one.text == "(" and other.word in _QUERY_STARTS for one, other in itertools.pairwise(tokens)):
        raise InvalidInputError(
            f"{expression.clause} cannot contain a subquery; run it first and pass its value as a parameter"
        )
    return expression


def _operand_end(tokens: Sequence[SqlToken], place: int) -> int:
    token = tokens[place]
    if token.word == "INTERVAL":
        return _interval_end(tokens, place + 1)
    if token.word == "CASE":
        return _find_closing(tokens, place, "CASE", "END")
    if token.text == ":" and tokens[place + 1].is_name:
        place += 2
    elif token.text == "(":
        place = _find_closing(tokens, place, "(", ")")
    elif token.is_name:
        _, place = parse_name_chain(tokens, place)
        if tokens[place].kind is SqlTokenKind.TEXT:
            place += 1
        elif tokens[place].text == "(":
            place = _find_closing(tokens, place, "(", ")")
    elif token.kind is not SqlTokenKind.END:
        place += 1
    while tokens[place].text == "[":
        place = _find_closing(tokens, place, "[", "]")
    return place


def _interval_end(tokens: Sequence[SqlToken], place: int) -> int:
    """Return the index after `1 DAY 2 HOURS`, `'1-2' YEAR TO MONTH` or `'1 day'`."""
    while tokens[place].kind is not SqlTokenKind.END:
        place += tokens[place].text in ("+", "-")
        place = _operand_end(tokens, place)
        if tokens[place].word not in _UNITS:
            break
        place += 1
        if tokens[place].word == "TO" and tokens[place + 1].word in _UNITS:
            return place + 2
        if tokens[place].kind is not SqlTokenKind.NUMBER:
            break
    return place


def _find_closing(tokens: Sequence[SqlToken], place: int, opening: str, closing: str) -> int:
    """Return the index after the closing bracket of the bracket at this index, or the end."""
    depth = 0
    while tokens[place].kind is not SqlTokenKind.END:
        seen = (tokens[place].text, tokens[place].word)
        depth += (opening in seen) - (closing in seen)
        place += 1
        if depth == 0:
            break
    return place
