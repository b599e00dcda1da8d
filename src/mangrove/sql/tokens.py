"""Cutting SQL text into tokens that know where they stand, with comments left out.

Only what decides where names and statements begin and end is told apart here.
What an expression means is left to Spark.
"""

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mangrove.model.sql_tokens import TokenKind as ModelKind
from mangrove.model.sql_tokens import tokenize as model_tokenize
from mangrove.sql.places import error_at

__all__ = ["Token", "TokenKind", "name_chain", "text_value", "tokenize"]


class TokenKind(enum.Enum):
    """What a token is."""

    WORD = "word"
    QUOTED_NAME = "quoted name"
    TEXT = "text"
    NUMBER = "number"
    MARK = "mark"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of SQL text, and the characters from `start` to before `end` that it takes."""

    kind: TokenKind
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """The word in capitals, as the grammar knows it; empty for what is no word."""
        return self.text.upper() if self.kind is TokenKind.WORD else ""

    @property
    def is_name(self) -> bool:
        """Whether it can be a part of a name."""
        return self.kind in (TokenKind.WORD, TokenKind.QUOTED_NAME)

    @property
    def name(self) -> str:
        """The name that it stands for, without backticks."""
        return self.text[1:-1].replace("``", "`") if self.kind is TokenKind.QUOTED_NAME else self.text


_TOKEN: Final = re.compile(
    r"""(?P<blank>\s+|--[^\n]*)
      | (?P<comment>/\*)
      | (?P<raw>[rR](?:'[^']*'|"[^"]*"))
      | (?P<text>[xX]?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"))
      | (?P<name>`(?:[^`]|``)*`)
      | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:[lLsSyYfFdD]|bd|BD)?(?!\w))
      | (?P<word>\w+)
      | (?P<mark><=>|<>|!=|<=|>=|==|\|\||\|>|=>|->|::|[^\w\s])
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS: Final = {
    "raw": TokenKind.TEXT,
    "text": TokenKind.TEXT,
    "name": TokenKind.QUOTED_NAME,
    "number": TokenKind.NUMBER,
    "word": TokenKind.WORD,
    "mark": TokenKind.MARK,
}
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")


def tokenize(text: str, start: int = 0) -> list[Token]:
    """Return the tokens of `text` from `start` on, ending with one of kind END."""
    tokens: list[Token] = []
    position = start
    while position < len(text):
        match = _TOKEN.match(text, position)
        assert match is not None, "every character is blank, part of a word, or a mark"
        group = match.lastgroup
        if group == "comment":
            position = _comment_end(text, position)
            continue
        if group == "mark" and match[0] in "'\"`":
            raise error_at(text, position, f"the quote {match[0]} is never closed")
        if group in _KINDS:
            tokens.append(Token(_KINDS[group], match[0], match.start(), match.end()))
        position = match.end()
    tokens.append(Token(TokenKind.END, "", len(text), len(text)))
    return tokens


def name_chain(tokens: Sequence[Token], place: int) -> tuple[tuple[str, ...], int]:
    """Return the parts of the dotted name that begins at a place, and the place after it."""
    parts = [tokens[place].name]
    place += 1
    while tokens[place].text == "." and tokens[place + 1].is_name:
        parts.append(tokens[place + 1].name)
        place += 2
    return tuple(parts), place


def text_value(token: Token) -> str:
    """Return what a text literal means, without its quotes and escapes."""
    if token.text[0] in "rR":
        return token.text[2:-1]
    first = model_tokenize(token.text)[0]
    assert first.kind is ModelKind.TEXT
    return first.value


def _comment_end(text: str, start: int) -> int:
    """Return where a comment ends; comments nest, as they do in Spark."""
    depth, position = 1, start + 2
    while depth:
        edge = _COMMENT_EDGE.search(text, position)
        if edge is None:
            raise error_at(text, start, "the comment is never closed")
        depth += 1 if edge[0] == "/*" else -1
        position = edge.end()
    return position
