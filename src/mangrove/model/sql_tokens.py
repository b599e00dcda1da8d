"""The words, marks and literals that the SQL text of a schema is made of."""

import enum
import re
from dataclasses import dataclass
from typing import Final

from mangrove.errors import InvalidInputError

__all__ = ["Token", "TokenKind", "quoted_text", "tokenize"]


class TokenKind(enum.Enum):
    """What a token is."""

    WORD = "word"
    NUMBER = "number"
    QUOTED_NAME = "quoted name"
    TEXT = "text"
    MARK = "mark"
    END = "end of the text"


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of SQL text; `value` is what it means, the positions are where it stands."""

    kind: TokenKind
    value: str
    start: int
    end: int


_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<name>`(?:[^`]|``)+`)
      | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
      | (?P<number>\d+(?![\w]))
      | (?P<word>\w+)
      | (?P<mark>[^\s])
      | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)|''|\"\"", re.DOTALL)
_MEANINGS: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "Z": "\x1a"}
_WRITTEN: Final = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}


def tokenize(text: str) -> list[Token]:
    """Return the tokens of `text`, ending with one of kind END."""
    tokens: list[Token] = []
    position = 0
    while True:
        match = _TOKEN.match(text, position)
        assert match is not None
        token = _token_of(match, text)
        tokens.append(token)
        if token.kind is TokenKind.END:
            return tokens
        position = match.end()


def quoted_text(text: str) -> str:
    """Return `text` as a literal that `tokenize` and Spark read back."""
    return "'" + "".join(_WRITTEN.get(character, character) for character in text) + "'"


def _token_of(match: re.Match[str], text: str) -> Token:
    group = match.lastgroup
    assert group is not None
    raw = match[group]
    start, end = match.span(group)
    match group:
        case "name":
            return Token(TokenKind.QUOTED_NAME, raw[1:-1].replace("``", "`"), start, end)
        case "text":
            return Token(TokenKind.TEXT, _unescaped(raw[1:-1], raw[0]), start, end)
        case "number":
            return Token(TokenKind.NUMBER, raw, start, end)
        case "word":
            return Token(TokenKind.WORD, raw, start, end)
        case "end":
            return Token(TokenKind.END, "", start, end)
        case _:
            if raw in "`'\"":
                raise InvalidInputError(f"the quote {raw} at position {start} is never closed: {text[start:][:40]!r}")
            return Token(TokenKind.MARK, raw, start, end)


def _unescaped(body: str, quote: str) -> str:
    def meaning(match: re.Match[str]) -> str:
        escaped = match[1]
        if escaped is None:
            return quote if match[0][0] == quote else match[0]
        if len(escaped) == 5:
            return chr(int(escaped[1:], 16))
        return _MEANINGS.get(escaped, escaped)

    return _ESCAPE.sub(meaning, body)
