"""Walking over the tokens of a text once, from left to right: what all readers of texts in SQL share."""

from mangrove.errors import InvalidInputError
from mangrove.model.sql_tokens import Token, TokenKind, tokenize

__all__ = ["TokenWalk"]


class TokenWalk:
    """A place among the tokens of one text; `_took_…` goes on if the token is the one that is meant."""

    _what = "text"
    """What people call the text that is read."""
    _refusal: type[InvalidInputError] = InvalidInputError
    _advice = ""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._place = 0
        self._depth = 0

    @property
    def _next(self) -> Token:
        return self._tokens[self._place]

    @property
    def is_at_end(self) -> bool:
        """Whether all of the text was read."""
        return self._next.kind is TokenKind.END

    def expect_end(self, wanted: str) -> None:
        """Refuse what follows, where one of these was `wanted`."""
        if not self.is_at_end:
            raise self._error(wanted)

    def _name(self) -> str:
        if self._next.kind not in (TokenKind.WORD, TokenKind.QUOTED_NAME):
            raise self._error("a column's name")
        self._place += 1
        return self._tokens[self._place - 1].value

    def _is_word(self, *words: str) -> bool:
        return self._next.kind is TokenKind.WORD and self._next.value.lower() in words

    def _took_word(self, word: str) -> bool:
        if self._is_word(word):
            self._place += 1
            return True
        return False

    def _took_mark(self, mark: str) -> bool:
        if self._next.kind is TokenKind.MARK and self._next.value == mark:
            self._place += 1
            return True
        return False

    def _expect(self, mark: str) -> None:
        if not self._took_mark(mark):
            raise self._error(f"`{mark}`")

    def _expect_word(self, word: str) -> None:
        if not self._took_word(word):
            raise self._error(f"`{word}`")

    def _error(self, wanted: str, at: Token | None = None) -> InvalidInputError:
        token = at or self._next
        found = "the end" if token.kind is TokenKind.END else repr(self._text[token.start : token.end])
        return self._refusal(
            f"the {self._what} has {found} at position {token.start}, where {wanted} was expected: {self._text!r}"
            + self._advice
        )
