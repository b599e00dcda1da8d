"""Parsing and formatting of schemas and types as Spark SQL text.

    order_id bigint not null, customer string comment 'who', tags array<string>,
    place struct<city: string not null, at: map<string, int>>, ts timestamp default current_timestamp()

Text that is printed here parses back to the same schema. Where Spark has no word
we have our own: `time`, `timetz`, `fixed(n)`, and `not null` inside `array<…>`
and after the value of `map<…>`.
"""

import enum
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.model.names import quote_name
from mangrove.model.schema import NESTING_MAX, Schema, assign_fresh_ids
from mangrove.model.types import (
    ELEMENT_NAME,
    KEY_NAME,
    VALUE_NAME,
    Binary,
    Boolean,
    Char,
    Column,
    DataType,
    Date,
    Decimal,
    Fixed,
    Float32,
    Float64,
    Int16,
    Int32,
    Int64,
    List,
    Map,
    Struct,
    Time,
    Timestamp,
    TimestampTz,
    TimeTz,
    Varchar,
)

__all__ = [
    "SchemaToken",
    "SchemaTokenKind",
    "TokenReader",
    "format_schema",
    "format_type",
    "parse_column",
    "parse_schema",
    "parse_type",
    "quote_text",
    "tokenize",
]


class SchemaTokenKind(enum.Enum):
    """What a token is."""

    WORD = "word"
    NUMBER = "number"
    QUOTED_NAME = "quoted name"
    TEXT = "text"
    MARK = "mark"
    END = "end of the text"


@dataclass(frozen=True, slots=True)
class SchemaToken:
    """A piece of SQL text; `value` is what it means, the positions are where it stands."""

    kind: SchemaTokenKind
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
_ESCAPES: Final = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}


def tokenize(text: str) -> list[SchemaToken]:
    """Return the tokens of `text`, ending with one of kind END."""
    tokens: list[SchemaToken] = []
    position = 0
    while True:
        match = _TOKEN.match(text, position)
        assert match is not None
        token = _token_of(match, text)
        tokens.append(token)
        if token.kind is SchemaTokenKind.END:
            return tokens
        position = match.end()


def quote_text(text: str) -> str:
    """Return `text` as a literal that `tokenize` and Spark read back."""
    return "'" + "".join(_ESCAPES.get(character, character) for character in text) + "'"


def _token_of(match: re.Match[str], text: str) -> SchemaToken:
    group = match.lastgroup
    assert group is not None
    raw = match[group]
    start, end = match.span(group)
    match group:
        case "name":
            return SchemaToken(SchemaTokenKind.QUOTED_NAME, raw[1:-1].replace("``", "`"), start, end)
        case "text":
            return SchemaToken(SchemaTokenKind.TEXT, _unescape(raw[1:-1], raw[0]), start, end)
        case "number":
            return SchemaToken(SchemaTokenKind.NUMBER, raw, start, end)
        case "word":
            return SchemaToken(SchemaTokenKind.WORD, raw, start, end)
        case "end":
            return SchemaToken(SchemaTokenKind.END, "", start, end)
        case _:
            if raw in "`'\"":
                raise InvalidInputError(f"the quote {raw} at position {start} is never closed: {text[start:][:40]!r}")
            return SchemaToken(SchemaTokenKind.MARK, raw, start, end)


def _unescape(body: str, quote: str) -> str:
    def meaning(match: re.Match[str]) -> str:
        escaped = match[1]
        if escaped is None:
            return quote if match[0][0] == quote else match[0]
        if len(escaped) == 5:
            return chr(int(escaped[1:], 16))
        return _MEANINGS.get(escaped, escaped)

    return _ESCAPE.sub(meaning, body)


class TokenReader:
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
    def _next(self) -> SchemaToken:
        return self._tokens[self._place]

    @property
    def is_at_end(self) -> bool:
        """Whether all of the text was read."""
        return self._next.kind is SchemaTokenKind.END

    def expect_end(self, wanted: str) -> None:
        """Refuse what follows, where one of these was `wanted`."""
        if not self.is_at_end:
            raise self._error(wanted)

    def _name(self) -> str:
        if self._next.kind not in (SchemaTokenKind.WORD, SchemaTokenKind.QUOTED_NAME):
            raise self._error("a column's name")
        self._place += 1
        return self._tokens[self._place - 1].value

    def _is_word(self, *words: str) -> bool:
        return self._next.kind is SchemaTokenKind.WORD and self._next.value.lower() in words

    def _took_word(self, word: str) -> bool:
        if self._is_word(word):
            self._place += 1
            return True
        return False

    def _took_mark(self, mark: str) -> bool:
        if self._next.kind is SchemaTokenKind.MARK and self._next.value == mark:
            self._place += 1
            return True
        return False

    def _expect(self, mark: str) -> None:
        if not self._took_mark(mark):
            raise self._error(f"`{mark}`")

    def _expect_word(self, word: str) -> None:
        if not self._took_word(word):
            raise self._error(f"`{word}`")

    def _error(self, wanted: str, at: SchemaToken | None = None) -> InvalidInputError:
        token = at or self._next
        found = "the end" if token.kind is SchemaTokenKind.END else repr(self._text[token.start : token.end])
        return self._refusal(
            f"the {self._what} has {found} at position {token.start}, where {wanted} was expected: {self._text!r}"
            + self._advice
        )


_PLAIN: Final[dict[str, DataType]] = {
    "boolean": Boolean(),
    "bool": Boolean(),
    "tinyint": Int16(),
    "byte": Int16(),
    "smallint": Int16(),
    "short": Int16(),
    "int2": Int16(),
    "int": Int32(),
    "integer": Int32(),
    "int4": Int32(),
    "bigint": Int64(),
    "long": Int64(),
    "int8": Int64(),
    "float": Float32(),
    "real": Float32(),
    "float4": Float32(),
    "double": Float64(),
    "float8": Float64(),
    "string": Varchar(),
    "text": Varchar(),
    "date": Date(),
    "time": Time(),
    "timetz": TimeTz(),
    "timestamp": TimestampTz(),
    "timestamp_ltz": TimestampTz(),
    "timestamptz": TimestampTz(),
    "timestamp_ntz": Timestamp(),
    "binary": Binary(),
    "bytes": Binary(),
}
_SIZED: Final[dict[str, Callable[[int], DataType]]] = {
    "char": Char,
    "character": Char,
    "varchar": Varchar,
    "fixed": Fixed,
}
_DECIMALS: Final = ("decimal", "dec", "numeric")
_DECIMAL_PRECISION: Final = 10
_ALLOWED: Final = (
    "boolean, tinyint, smallint, int, bigint, decimal(p,s), float, double, char(n), varchar(n), string, date, time, "
    "timetz, timestamp, timestamp_ntz, fixed(n), binary, array<…>, map<…,…>, struct<…>"
)
_TYPE_NAMES: Final[dict[type, str]] = {
    Boolean: "boolean",
    Int16: "smallint",
    Int32: "int",
    Int64: "bigint",
    Float32: "float",
    Float64: "double",
    Date: "date",
    Time: "time",
    TimeTz: "timetz",
    Timestamp: "timestamp_ntz",
    TimestampTz: "timestamp",
    Binary: "binary",
}


def parse_schema(text: str, schema_id: int = 0) -> Schema:
    """Return the schema that `text` describes, its columns numbered from 1."""
    parser = _Parser(text)
    columns = parser.columns(is_nested=False)
    parser.expect_end("a comma or the end")
    return Schema(assign_fresh_ids(columns), schema_id)


def parse_column(text: str, after: int = 0) -> Column:
    """Return the one column that `text` describes, numbered from `after` + 1 on."""
    parser = _Parser(text)
    column = parser.column(is_nested=False)
    parser.expect_end("the end")
    return assign_fresh_ids([column], after)[0]


def parse_type(text: str) -> DataType:
    """Return the type that `text` describes; the columns inside it are numbered from 1."""
    parser = _Parser(text)
    data_type = parser.type()
    parser.expect_end("the end")
    return assign_fresh_ids([Column(0, "type", data_type)], -1)[0].type


def format_schema(schema: Schema) -> str:
    """Return text that `parse_schema` reads back; ids and properties are not part of it."""
    return ", ".join(_column_text(column, " ") for column in schema.columns)


def format_type(data_type: DataType) -> str:
    """Return text that `parse_type` reads back."""
    match data_type:
        case Decimal(precision, scale):
            return f"decimal({precision},{scale})"
        case Char(length):
            return f"char({length})"
        case Varchar(None):
            return "string"
        case Varchar(length):
            return f"varchar({length})"
        case Fixed(length):
            return f"fixed({length})"
        case Struct(columns):
            return f"struct<{', '.join(_column_text(column, ': ') for column in columns)}>"
        case List(element):
            return f"array<{_inner_text(element)}>"
        case Map(key, value):
            return f"map<{_inner_text(key, is_key=True)}, {_inner_text(value)}>"
        case _:
            return _TYPE_NAMES[type(data_type)]


def _column_text(column: Column, between: str) -> str:
    text = f"{quote_name(column.name)}{between}{_inner_text(column)}"
    if column.default is None:
        return text
    parser = _Parser(column.default)
    if parser.default() != column.default or not parser.is_at_end:
        raise InvalidInputError(f"the default {column.default!r} of column {column.name!r} is not one SQL expression")
    return f"{text} default {column.default}"


def _inner_text(column: Column, *, is_key: bool = False) -> str:
    null = "" if column.nullable or is_key else " not null"
    comment = "" if column.comment is None else f" comment {quote_text(column.comment)}"
    return f"{format_type(column.type)}{null}{comment}"


class _Parser(TokenReader):
    """Reads a type, a column or several."""

    _what = "schema text"

    def columns(self, *, is_nested: bool) -> list[Column]:
        columns = [self.column(is_nested=is_nested)]
        while self._took_mark(","):
            columns.append(self.column(is_nested=is_nested))
        return columns

    def column(self, *, is_nested: bool) -> Column:
        name = self._name()
        self._took_mark(":")
        return self._typed_column(name, is_nested=is_nested)

    def type(self) -> DataType:
        token = self._next
        if token.kind is not SchemaTokenKind.WORD:
            raise self._error("a type", token)
        self._place += 1
        word = token.value.lower()
        if word in ("array", "list", "map", "struct"):
            return self._nested(word, token)
        if word in _DECIMALS:
            sizes = self._sizes(2)
            return Decimal(*sizes) if sizes else Decimal(_DECIMAL_PRECISION)
        if word in _SIZED:
            sizes = self._sizes(1)
            if sizes:
                return _SIZED[word](sizes[0])
            if word == "varchar":
                return Varchar()
            raise self._error(f"a length in brackets after {word}")
        if word in _PLAIN:
            return _PLAIN[word]
        raise self._error(f"one of the types {_ALLOWED}", token)

    def default(self) -> str:
        """Take an expression: up to a comma, a comment or `not null` outside of brackets."""
        first = self._next
        open_brackets = 0
        last: SchemaToken | None = None
        while not self.is_at_end:
            token = self._next
            if open_brackets == 0 and last is not None and self._is_after_default(last):
                break
            if token.kind is SchemaTokenKind.MARK:
                if open_brackets == 0 and token.value in ",)]":
                    break
                open_brackets += (token.value in "([") - (token.value in ")]")
            last = token
            self._place += 1
        if last is None or open_brackets:
            raise self._error("an expression with as many closing as opening brackets")
        return self._text[first.start : last.end]

    def _name(self) -> str:
        """Take a name; in a schema it may be a number, because nothing else could be meant."""
        if self._next.kind is not SchemaTokenKind.NUMBER:
            return super()._name()
        self._place += 1
        return self._tokens[self._place - 1].value

    def _typed_column(self, name: str, *, is_nested: bool, is_key: bool = False) -> Column:
        data_type = self.type()
        nullable, comment, default = not is_key, None, None
        while True:
            if self._took_words("not", "null"):
                nullable = False
            elif self._took_words("null"):
                nullable = not is_key
            elif self._took_words("comment"):
                if self._next.kind is not SchemaTokenKind.TEXT:
                    raise self._error("a comment between quotes")
                comment = self._next.value
                self._place += 1
            elif not is_nested and self._took_words("default"):
                default = self.default()
            else:
                return Column(0, name, data_type, nullable, comment, default)

    def _nested(self, word: str, token: SchemaToken) -> DataType:
        self._depth += 1
        if self._depth >= NESTING_MAX:
            raise InvalidInputError(
                f"types lie more than {NESTING_MAX} levels deep in each other at position {token.start}"
            )
        self._expect("<")
        data_type: DataType
        if word == "struct":
            data_type = Struct(tuple(self.columns(is_nested=True)))
        elif word == "map":
            key = self._typed_column(KEY_NAME, is_nested=True, is_key=True)
            self._expect(",")
            data_type = Map(key, self._typed_column(VALUE_NAME, is_nested=True))
        else:
            data_type = List(self._typed_column(ELEMENT_NAME, is_nested=True))
        self._expect(">")
        self._depth -= 1
        return data_type

    def _sizes(self, count_max: int) -> list[int]:
        if not self._took_mark("("):
            return []
        sizes = [self._number()]
        while len(sizes) < count_max and self._took_mark(","):
            sizes.append(self._number())
        self._expect(")")
        return sizes

    def _number(self) -> int:
        token = self._next
        if token.kind is not SchemaTokenKind.NUMBER or len(token.value) > 10:
            raise self._error("a whole number", token)
        self._place += 1
        return int(token.value)

    def _took_words(self, *words: str) -> bool:
        tokens = self._tokens[self._place : self._place + len(words)]
        if [token.value.lower() for token in tokens if token.kind is SchemaTokenKind.WORD] != list(words):
            return False
        self._place += len(words)
        return True

    def _is_after_default(self, last: SchemaToken) -> bool:
        here = self._place
        found = self._took_words("not", "null") and last.value.lower() != "is"
        self._place = here
        following = self._tokens[min(here + 1, len(self._tokens) - 1)]
        is_comment = self._took_words("comment") and following.kind is SchemaTokenKind.TEXT
        self._place = here
        return found or is_comment
