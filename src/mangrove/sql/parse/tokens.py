"""Tokenizer, token cursor, script splitting and error positions for SQL text.

The tokenizer recognizes only what determines where names and statements begin and
end; Spark parses the expressions.

A semicolon ends a statement, unless it is inside a Spark block, `BEGIN … END`. A
`BEGIN` alone or before `TRANSACTION` begins a transaction, not a block.
"""

import enum
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from mangrove.errors import InvalidInputError, MangroveError
from mangrove.expressions.sql_tree import unquote_text
from mangrove.model.names import split_name

__all__ = [
    "ScriptPart",
    "SqlFragment",
    "SqlName",
    "SqlToken",
    "SqlTokenKind",
    "TokenCursor",
    "begins_transaction",
    "build_error_at",
    "format_with_caret",
    "line_of",
    "locate_error",
    "locate_errors_at",
    "parse_name_chain",
    "parse_text_literal",
    "split_script",
    "tokenize",
]

_Kind = TypeVar("_Kind", bound=MangroveError)
_WIDTH_MAX = 100


def build_error_at(text: str, position: int, message: str) -> InvalidInputError:
    """Return the error for a position in the text."""
    return InvalidInputError(format_with_caret(text, position, message))


def locate_error(error: _Kind, text: str, position: int) -> _Kind:
    """Return the error with its position, unless it already has one."""
    message = str(error)
    return error if "\n" in message else type(error)(format_with_caret(text, position, message))


@contextmanager
def locate_errors_at(text: str, position: int) -> Iterator[None]:
    """Add this position to errors without one."""
    try:
        yield
    except MangroveError as error:
        raise locate_error(error, text, position) from error


def format_with_caret(text: str, position: int, message: str) -> str:
    r"""Return the message with its position.

    >>> print(format_with_caret("select *\nfrom ordrs", 14, "table ordrs does not exist"))
    line 2, column 6: table ordrs does not exist
        from ordrs
             ^
    """
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : len(text) if end < 0 else end].expandtabs(1)
    column = position - start
    cut = max(0, column - _WIDTH_MAX + 20)
    excerpt = line[cut : cut + _WIDTH_MAX]
    where = f"line {line_of(text, position)}, column {column + 1}"
    return f"{where}: {message}\n    {excerpt}\n    {' ' * (column - cut)}^"


def line_of(text: str, position: int) -> int:
    """Return the number of the line, from 1."""
    return text.count("\n", 0, position) + 1


class SqlTokenKind(enum.Enum):
    """The kind of a token."""

    WORD = "word"
    QUOTED_NAME = "quoted name"
    TEXT = "text"
    NUMBER = "number"
    MARK = "mark"
    END = "end"


@dataclass(frozen=True, slots=True)
class SqlToken:
    """A token, from `start` (inclusive) to `end` (exclusive)."""

    kind: SqlTokenKind
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """The word in upper case; empty if the token is not a word."""
        return self.text.upper() if self.kind is SqlTokenKind.WORD else ""

    @property
    def is_name(self) -> bool:
        """Whether it can be part of a name."""
        return self.kind in (SqlTokenKind.WORD, SqlTokenKind.QUOTED_NAME)

    @property
    def name(self) -> str:
        """The name without backticks."""
        return self.text[1:-1].replace("``", "`") if self.kind is SqlTokenKind.QUOTED_NAME else self.text


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
    "raw": SqlTokenKind.TEXT,
    "text": SqlTokenKind.TEXT,
    "name": SqlTokenKind.QUOTED_NAME,
    "number": SqlTokenKind.NUMBER,
    "word": SqlTokenKind.WORD,
    "mark": SqlTokenKind.MARK,
}
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")


def tokenize(text: str, start: int = 0) -> list[SqlToken]:
    """Return the tokens of `text` from `start` on, ending with one of kind END."""
    tokens: list[SqlToken] = []
    position = start
    while position < len(text):
        match = _TOKEN.match(text, position)
        assert match is not None, "every character is blank, part of a word, or a mark"
        group = match.lastgroup
        if group == "comment":
            position = _comment_end(text, position)
            continue
        if group == "mark" and match[0] in "'\"`":
            raise build_error_at(text, position, f"unterminated quote {match[0]}")
        if group in _KINDS:
            tokens.append(SqlToken(_KINDS[group], match[0], match.start(), match.end()))
        position = match.end()
    tokens.append(SqlToken(SqlTokenKind.END, "", len(text), len(text)))
    return tokens


def parse_name_chain(tokens: Sequence[SqlToken], place: int) -> tuple[tuple[str, ...], int]:
    """Return the parts of the dotted name that begins at this index, and the index after it."""
    parts = [tokens[place].name]
    place += 1
    while tokens[place].text == "." and tokens[place + 1].is_name:
        parts.append(tokens[place + 1].name)
        place += 2
    return tuple(parts), place


def parse_text_literal(token: SqlToken) -> str:
    """Return the value of a string literal."""
    if token.text[0] in "rR":
        return token.text[2:-1]
    return unquote_text(token.text)


def _comment_end(text: str, start: int) -> int:
    """Return where a comment ends; comments nest, as they do in Spark."""
    depth, position = 1, start + 2
    while depth:
        edge = _COMMENT_EDGE.search(text, position)
        if edge is None:
            raise build_error_at(text, start, "unterminated comment")
        depth += 1 if edge[0] == "/*" else -1
        position = edge.end()
    return position


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SqlName:
    """A dotted name and its position."""

    parts: tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SqlFragment:
    """A part of the text for Spark, such as a query or a condition, and its position."""

    text: str
    start: int


class TokenCursor:
    """A cursor over the tokens of one statement."""

    def __init__(self, text: str, start: int = 0, computed: "Callable[[SqlFragment], str] | None" = None) -> None:
        self.text = text
        self.tokens = tokenize(text, start)
        self.place = 0
        self.computed = computed
        """Evaluates the expression in `IDENTIFIER(…)` to a name."""

    @property
    def next(self) -> SqlToken:
        """The next token."""
        return self.tokens[self.place]

    @property
    def is_at_end(self) -> bool:
        """Whether all tokens are consumed."""
        return self.next.kind is SqlTokenKind.END

    def peek(self, ahead: int = 1) -> SqlToken:
        """Return a later token, or the end token."""
        return self.tokens[min(self.place + ahead, len(self.tokens) - 1)]

    def is_next(self, *words: str) -> bool:
        """Return whether the next tokens are these words or marks."""
        return all(word in (self.peek(ahead).word, self.peek(ahead).text) for ahead, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Consume these words or marks if they are next."""
        if not self.is_next(*words):
            return False
        self.place += len(words)
        return True

    def accept_one_of(self, *words: str) -> str | None:
        """Consume and return one of these words if it is next."""
        return next((word for word in words if self.accept(word)), None)

    def expect(self, *words: str) -> None:
        """Consume these words or marks, or raise an error."""
        if not self.accept(*words):
            raise self.unexpected(" ".join(words))

    def expect_end(self) -> None:
        """Raise an error unless all tokens are consumed."""
        if not self.is_at_end:
            raise self.unexpected("the end of the statement")

    def name(self) -> SqlName:
        """Consume a dotted name."""
        if not self.next.is_name:
            raise self.unexpected("a name")
        start = self.next.start
        if self.computed is not None and self.accept("IDENTIFIER", "("):
            self.place -= 1
            parts = split_name(self.computed(self.expect_parenthesized()))
            return SqlName(parts, start, self.tokens[self.place - 1].end)
        parts, self.place = parse_name_chain(self.tokens, self.place)
        return SqlName(parts, start, self.tokens[self.place - 1].end)

    def expect_single_name(self) -> str:
        """Consume a name of one part."""
        if not self.next.is_name:
            raise self.unexpected("a name")
        self.place += 1
        return self.tokens[self.place - 1].name

    def expect_text(self) -> str:
        """Consume a string literal and return its value."""
        if self.next.kind is not SqlTokenKind.TEXT:
            raise self.unexpected("a quoted string")
        self.place += 1
        return parse_text_literal(self.tokens[self.place - 1])

    def expect_integer(self) -> int:
        """Consume an integer."""
        token = self.next
        if token.kind is not SqlTokenKind.NUMBER or not token.text.isdecimal():
            raise self.unexpected("an integer")
        self.place += 1
        return int(token.text)

    def expect_list(self, take: Callable[[], T]) -> tuple[T, ...]:
        """Consume a list in parentheses."""
        self.expect("(")
        found = [take()]
        while self.accept(","):
            found.append(take())
        self.expect(")")
        return tuple(found)

    def take_until(self, *stops: str) -> SqlFragment:
        """Consume everything before one of these words or marks outside of parentheses and CASE, or the end."""
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
            raise self.unexpected("an expression")
        start = self.tokens[first].start
        return SqlFragment(self.text[start : self.tokens[self.place - 1].end], start)

    def take_rest(self) -> SqlFragment:
        """Consume all remaining tokens."""
        start = self.next.start
        if self.is_at_end:
            raise self.unexpected("a query")
        self.place = len(self.tokens) - 1
        return SqlFragment(self.text[start : self.tokens[-2].end], start)

    def expect_parenthesized(self) -> SqlFragment:
        """Consume an expression in parentheses, and return it without them."""
        self.expect("(")
        piece = self.take_until(")")
        self.expect(")")
        return piece

    def unexpected(self, expected: str) -> InvalidInputError:
        """Return the error for an unexpected token."""
        token = self.next
        actual = "end of statement" if token.kind is SqlTokenKind.END else repr(token.text)
        return build_error_at(self.text, token.start, f"unexpected {actual}; expected {expected}")


_OPENING: Final = frozenset({"BEGIN", "CASE"})
_ENDS_OTHERS: Final = frozenset({"IF", "WHILE", "FOR", "LOOP", "REPEAT"})
_AFTER_BEGIN: Final = frozenset({"TRANSACTION", "WORK", "ISOLATION", "MESSAGE"})


@dataclass(frozen=True, slots=True)
class ScriptPart:
    """One statement of a script and its position."""

    text: str
    start: int


def split_script(text: str) -> list[ScriptPart]:
    """Return the statements in order; empty ones are left out."""
    return [
        ScriptPart(text[tokens[0].start : tokens[-1].end], tokens[0].start)
        for tokens in _statements(tokenize(text))
        if tokens
    ]


def begins_transaction(tokens: list[SqlToken]) -> bool:
    """Return whether a statement that starts with BEGIN begins a transaction, not a Spark block."""
    if not tokens or tokens[0].word != "BEGIN":
        return False
    return len(tokens) == 1 or tokens[1].kind is SqlTokenKind.END or tokens[1].word in _AFTER_BEGIN


def _statements(tokens: list[SqlToken]) -> Iterator[list[SqlToken]]:
    current: list[SqlToken] = []
    depth = 0
    for place, token in enumerate(tokens):
        if token.kind is SqlTokenKind.END:
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
