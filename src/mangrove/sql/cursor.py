"""A reader of tokens that goes from left to right, takes what the grammar asks for, and says where it was refused."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from mangrove.errors import InvalidInputError
from mangrove.model.names import split_name
from mangrove.sql.places import error_at
from mangrove.sql.tokens import Token, TokenKind, name_chain, text_value, tokenize

__all__ = ["Cursor", "Piece", "SqlName"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SqlName:
    """A dotted name, and where it stands."""

    parts: tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the text that Spark is to understand, such as a query or a condition, and where it begins."""

    text: str
    start: int


class Cursor:
    """Walks over one statement."""

    def __init__(self, text: str, start: int = 0, computed: "Callable[[Piece], str] | None" = None) -> None:
        self.text = text
        self.tokens = tokenize(text, start)
        self.place = 0
        self.computed = computed
        """What tells the name that the expression in `IDENTIFIER(…)` is."""

    @property
    def next(self) -> Token:
        """The token that comes."""
        return self.tokens[self.place]

    @property
    def is_at_end(self) -> bool:
        """Whether nothing comes."""
        return self.next.kind is TokenKind.END

    def peek(self, ahead: int = 1) -> Token:
        """Return a later token; past the end, the end."""
        return self.tokens[min(self.place + ahead, len(self.tokens) - 1)]

    def sees(self, *words: str) -> bool:
        """Return whether these words or marks come."""
        return all(wanted in (self.peek(ahead).word, self.peek(ahead).text) for ahead, wanted in enumerate(words))

    def took(self, *words: str) -> bool:
        """Take these words or marks, if they come."""
        if not self.sees(*words):
            return False
        self.place += len(words)
        return True

    def took_one_of(self, *words: str) -> str | None:
        """Take one of these words, if it comes, and return it."""
        return next((word for word in words if self.took(word)), None)

    def expect(self, *words: str) -> None:
        """Take these words or marks, or refuse what comes."""
        if not self.took(*words):
            raise self.refusal(" ".join(words))

    def expect_end(self) -> None:
        """Refuse whatever comes."""
        if not self.is_at_end:
            raise self.refusal("the end of the statement")

    def name(self) -> SqlName:
        """Take a dotted name."""
        if not self.next.is_name:
            raise self.refusal("a name")
        start = self.next.start
        if self.computed is not None and self.took("IDENTIFIER", "("):
            self.place -= 1
            parts = split_name(self.computed(self.bracketed()))
            return SqlName(parts, start, self.tokens[self.place - 1].end)
        parts, self.place = name_chain(self.tokens, self.place)
        return SqlName(parts, start, self.tokens[self.place - 1].end)

    def single_name(self) -> str:
        """Take a name of one part."""
        if not self.next.is_name:
            raise self.refusal("a name")
        self.place += 1
        return self.tokens[self.place - 1].name

    def words_text(self) -> str:
        """Take a text literal, and return what it means."""
        if self.next.kind is not TokenKind.TEXT:
            raise self.refusal("a text between quotes")
        self.place += 1
        return text_value(self.tokens[self.place - 1])

    def whole_number(self) -> int:
        """Take a whole number."""
        token = self.next
        if token.kind is not TokenKind.NUMBER or not token.text.isdecimal():
            raise self.refusal("a whole number")
        self.place += 1
        return int(token.text)

    def listed(self, take: Callable[[], T]) -> tuple[T, ...]:
        """Take a list between brackets."""
        self.expect("(")
        found = [take()]
        while self.took(","):
            found.append(take())
        self.expect(")")
        return tuple(found)

    def piece_until(self, *stops: str) -> Piece:
        """Take what comes before one of these words or marks outside of brackets and CASE, or the end."""
        first, depth = self.place, 0
        while not self.is_at_end:
            token = self.next
            if depth == 0 and (token.word in stops or token.text in stops):
                break
            if token.text in ("(", "[") or token.word == "CASE":
                depth += 1
            elif token.text in (")", "]") or (token.word == "END" and depth):
                depth -= 1
                if depth < 0:
                    break
            self.place += 1
        if first == self.place:
            raise self.refusal("an expression")
        start = self.tokens[first].start
        return Piece(self.text[start : self.tokens[self.place - 1].end], start)

    def rest(self) -> Piece:
        """Take everything that comes."""
        start = self.next.start
        if self.is_at_end:
            raise self.refusal("a query")
        self.place = len(self.tokens) - 1
        return Piece(self.text[start : self.tokens[-2].end], start)

    def bracketed(self) -> Piece:
        """Take an expression between brackets, and return it without them."""
        self.expect("(")
        piece = self.piece_until(")")
        self.expect(")")
        return piece

    def refusal(self, wanted: str) -> InvalidInputError:
        """Return the error that something else was expected here."""
        token = self.next
        found = "the statement ends" if token.kind is TokenKind.END else f"there is {token.text!r}"
        return error_at(self.text, token.start, f"{found} where {wanted} was expected")
