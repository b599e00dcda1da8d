"""Cutting a script into its statements, each at its place in the script.

A semicolon ends a statement, unless it stands inside one of Spark's own blocks,
`BEGIN … END`. A bare `BEGIN`, or one before `TRANSACTION`, opens no block: it
begins a transaction.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mangrove.sql.tokens import Token, TokenKind, tokenize

__all__ = ["ScriptPart", "begins_transaction", "split_script"]

_OPENING: Final = frozenset({"BEGIN", "CASE"})
_ENDS_OTHERS: Final = frozenset({"IF", "WHILE", "FOR", "LOOP", "REPEAT"})
_AFTER_BEGIN: Final = frozenset({"TRANSACTION", "WORK", "ISOLATION", "MESSAGE"})


@dataclass(frozen=True, slots=True)
class ScriptPart:
    """One statement of a script, and where in the script it begins."""

    text: str
    start: int


def split_script(text: str) -> list[ScriptPart]:
    """Return the statements in order; empty ones are left out."""
    return [
        ScriptPart(text[tokens[0].start : tokens[-1].end], tokens[0].start)
        for tokens in _statements(tokenize(text))
        if tokens
    ]


def begins_transaction(tokens: list[Token]) -> bool:
    """Return whether a statement that begins with BEGIN begins a transaction, not a block of Spark's."""
    if not tokens or tokens[0].word != "BEGIN":
        return False
    return len(tokens) == 1 or tokens[1].kind is TokenKind.END or tokens[1].word in _AFTER_BEGIN


def _statements(tokens: list[Token]) -> Iterator[list[Token]]:
    current: list[Token] = []
    depth = 0
    for place, token in enumerate(tokens):
        if token.kind is TokenKind.END:
            break
        if depth == 0 and token.text == ";":
            yield current
            current = []
            continue
        following = tokens[place + 1]
        current.append(token)
        if depth == 0 and (len(current) > 1 or token.word != "BEGIN"):
            continue
        if depth == 0 and (following.text == ";" or begins_transaction([token, following])):
            continue
        if token.word in _OPENING:
            # `END CASE` ends what CASE began, and begins nothing.
            depth += current[-2].word != "END" if len(current) > 1 else 1
        elif token.word == "END" and following.word not in _ENDS_OTHERS:
            depth -= 1
    yield current
