"""Parsing of lakehouse-wide AS OF clauses, and errors for unsupported dialects."""

from collections.abc import Sequence
from typing import Final

from mangrove.sql.parse.as_of import AsOfExpression, find_expression_end, parse_as_of_expression
from mangrove.sql.parse.statements import Query
from mangrove.sql.parse.tokens import (
    SqlFragment,
    SqlToken,
    SqlTokenKind,
    TokenCursor,
    build_error_at,
    parse_text_literal,
)

__all__ = ["UNSUPPORTED_CONSTRAINTS", "parse_query", "refuse_unsupported_constraints", "refuse_unsupported_syntax"]

_MERGE: Final = (
    "use MERGE INTO … USING … ON … WHEN MATCHED THEN UPDATE SET … WHEN NOT MATCHED THEN INSERT …, or the method upsert"
)
_COMPUTED: Final = "generated columns are not supported; compute the values when writing, or in a view"
_REFERENCES: Final = "foreign keys are not supported; find rows without a referenced row with a query"
UNSUPPORTED_CONSTRAINTS: Final = {
    "UNIQUE": "UNIQUE is not supported; use PRIMARY KEY",
    "REFERENCES": _REFERENCES,
    "FOREIGN": _REFERENCES,
    "GENERATED": _COMPUTED,
    "AUTO_INCREMENT": _COMPUTED,
    "IDENTITY": _COMPUTED,
}
"""Unsupported keywords after the type of a column or instead of a column."""
_BEFORE_NAMES: Final = frozenset(
    {"ALL", "AND", "AS", "BY", "DISTINCT", "FROM", "INTO", "JOIN", "NOT", "ON", "OR", "SELECT", "SET", "TABLE", "WHERE"}
)
"""After these keywords RETURNING is the name of a column or a table."""
_BEHIND_NAMES: Final = frozenset(
    {"AND", "AS", "BETWEEN", "FROM", "GROUP", "IN", "IS", "JOIN", "LIKE", "LIMIT", "NOT", "ON", "OR", "ORDER", "SET"}
    | {"UNION", "USING", "VALUES", "WHEN", "WHERE"}
)
"""Before these keywords as well."""


def refuse_unsupported_syntax(cursor: TokenCursor) -> None:
    """Raise an error for syntax that Spark does not support either, at the unsupported word."""
    tokens, depth = cursor.tokens[cursor.place :], 0
    first = [token.word for token in tokens[:2]]
    if first in (["UPSERT", "INTO"], ["REPLACE", "INTO"], ["INSERT", "OR"]):
        raise build_error_at(cursor.text, tokens[0].start, f"{' '.join(first)} is not supported; {_MERGE}")
    for place, token in enumerate(tokens[:-1]):
        depth += (token.text == "(") - (token.text == ")")
        message = None if depth else _find_unsupported(tokens, place)
        if message is not None:
            raise build_error_at(cursor.text, token.start, message)


def refuse_unsupported_constraints(cursor: TokenCursor) -> None:
    """Raise an error for a constraint of other engines, at its position."""
    message = UNSUPPORTED_CONSTRAINTS.get(cursor.next.word)
    if message is not None:
        raise build_error_at(cursor.text, cursor.next.start, message)


def _find_unsupported(tokens: Sequence[SqlToken], place: int) -> str | None:
    """Return the error message for unsupported syntax that begins at this token, or None."""
    words = [token.word for token in tokens[place : place + 3]]
    if words == ["ON", "DUPLICATE", "KEY"]:
        return f"ON DUPLICATE KEY is not supported; {_MERGE}"
    if words[:2] == ["ON", "CONFLICT"] and any(token.word == "DO" for token in tokens[place:]):
        return f"ON CONFLICT is not supported; {_MERGE}"
    if words == ["THEN", "DO", "NOTHING"]:
        return "DO NOTHING is not supported; remove the clause and add its negated condition to the clauses after it"
    if words[:2] == ["DEFAULT", "VALUES"] and tokens[place + 2].text != "(":
        return "DEFAULT VALUES is not supported; use VALUES (DEFAULT, …) with one DEFAULT per column"
    if words[0] == "RETURNING" and _ends_clause(tokens[place - 1]) and _begins_list(tokens[place + 1]):
        return (
            "RETURNING is not supported, statements return row counts; remove it and SELECT the rows in the "
            "same transaction"
        )
    return None


def _ends_clause(token: SqlToken) -> bool:
    return token.text == ")" or (token.kind is not SqlTokenKind.MARK and token.word not in _BEFORE_NAMES)


def _begins_list(token: SqlToken) -> bool:
    return token.text == "*" or (
        token.kind not in (SqlTokenKind.MARK, SqlTokenKind.END) and token.word not in _BEHIND_NAMES
    )


_KINDS = {"VERSION": "version", "TIMESTAMP": "time"}


def parse_query(cursor: TokenCursor) -> Query:
    """Parse the rest as a query, without a trailing `AT LAKE VERSION 41` or `AT LAKE TIMESTAMP '…'`."""
    first = cursor.place
    piece = cursor.take_rest()
    tokens = cursor.tokens
    for place in range(first + 1, len(tokens) - 3):
        words = [token.word for token in tokens[place : place + 3]]
        if (
            words[:2] == ["AT", "LAKE"]
            and words[2] in _KINDS
            and find_expression_end(tokens, place + 3) == len(tokens) - 1
        ):
            cursor.place = place + 3
            query = SqlFragment(cursor.text[piece.start : tokens[place - 1].end], piece.start)
            at = _parse_as_of(cursor, _KINDS[words[2]])
            cursor.place = len(tokens) - 1
            return Query(query, at)
    return Query(piece)


def _parse_as_of(cursor: TokenCursor, kind: str) -> int | str | AsOfExpression:
    operands = cursor.tokens[cursor.place : -1]
    if len(operands) == 1 and kind == "version" and operands[0].kind is SqlTokenKind.NUMBER:
        return cursor.expect_integer()
    if len(operands) == 1 and operands[0].kind is SqlTokenKind.TEXT:
        return parse_text_literal(operands[0])
    if not operands or (len(operands) == 1 and operands[0].kind is SqlTokenKind.NUMBER):
        raise cursor.unexpected(
            "AT LAKE VERSION with a number or an export name, or AT LAKE TIMESTAMP with a timestamp"
        )
    return parse_as_of_expression(kind, operands)
