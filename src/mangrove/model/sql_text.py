"""Schemas and types as Spark SQL text.

    order_id bigint not null, customer string comment 'who', tags array<string>,
    place struct<city: string not null, at: map<string, int>>, ts timestamp default current_timestamp()

Text that is printed here parses back to the same schema. Where Spark has no word
we have our own: `time`, `timetz`, `fixed(n)`, and `not null` inside `array<…>`
and after the value of `map<…>`.
"""

from collections.abc import Callable
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.model.names import quoted_name
from mangrove.model.schema import NESTING_MAX, Schema, with_fresh_ids
from mangrove.model.sql_tokens import Token, TokenKind, quoted_text
from mangrove.model.token_walk import TokenWalk
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
    Float4,
    Float8,
    Int2,
    Int4,
    Int8,
    List,
    Map,
    Struct,
    Time,
    Timestamp,
    TimestampTz,
    TimeTz,
    Varchar,
)

__all__ = ["parse_column", "parse_schema", "parse_type", "schema_text", "type_text"]

_PLAIN: Final[dict[str, DataType]] = {
    "boolean": Boolean(),
    "bool": Boolean(),
    "tinyint": Int2(),
    "byte": Int2(),
    "smallint": Int2(),
    "short": Int2(),
    "int2": Int2(),
    "int": Int4(),
    "integer": Int4(),
    "int4": Int4(),
    "bigint": Int8(),
    "long": Int8(),
    "int8": Int8(),
    "float": Float4(),
    "real": Float4(),
    "float4": Float4(),
    "double": Float8(),
    "float8": Float8(),
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
_WORDS: Final[dict[type, str]] = {
    Boolean: "boolean",
    Int2: "smallint",
    Int4: "int",
    Int8: "bigint",
    Float4: "float",
    Float8: "double",
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
    return Schema(with_fresh_ids(columns), schema_id)


def parse_column(text: str, after: int = 0) -> Column:
    """Return the one column that `text` describes, numbered from `after` + 1 on."""
    parser = _Parser(text)
    column = parser.column(is_nested=False)
    parser.expect_end("the end")
    return with_fresh_ids([column], after)[0]


def parse_type(text: str) -> DataType:
    """Return the type that `text` describes; the columns inside it are numbered from 1."""
    parser = _Parser(text)
    data_type = parser.type()
    parser.expect_end("the end")
    return with_fresh_ids([Column(0, "type", data_type)], -1)[0].type


def schema_text(schema: Schema) -> str:
    """Return text that `parse_schema` reads back; ids and properties are not part of it."""
    return ", ".join(_column_text(column, " ") for column in schema.columns)


def type_text(data_type: DataType) -> str:
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
            return _WORDS[type(data_type)]


def _column_text(column: Column, between: str) -> str:
    text = f"{quoted_name(column.name)}{between}{_inner_text(column)}"
    if column.default is None:
        return text
    parser = _Parser(column.default)
    if parser.default() != column.default or not parser.is_at_end:
        raise InvalidInputError(f"the default {column.default!r} of column {column.name!r} is not one SQL expression")
    return f"{text} default {column.default}"


def _inner_text(column: Column, *, is_key: bool = False) -> str:
    null = "" if column.nullable or is_key else " not null"
    comment = "" if column.comment is None else f" comment {quoted_text(column.comment)}"
    return f"{type_text(column.type)}{null}{comment}"


class _Parser(TokenWalk):
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
        if token.kind is not TokenKind.WORD:
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
        last: Token | None = None
        while not self.is_at_end:
            token = self._next
            if open_brackets == 0 and last is not None and self._is_after_default(last):
                break
            if token.kind is TokenKind.MARK:
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
        if self._next.kind is not TokenKind.NUMBER:
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
                if self._next.kind is not TokenKind.TEXT:
                    raise self._error("a comment between quotes")
                comment = self._next.value
                self._place += 1
            elif not is_nested and self._took_words("default"):
                default = self.default()
            else:
                return Column(0, name, data_type, nullable, comment, default)

    def _nested(self, word: str, token: Token) -> DataType:
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
        if token.kind is not TokenKind.NUMBER or len(token.value) > 10:
            raise self._error("a whole number", token)
        self._place += 1
        return int(token.value)

    def _took_words(self, *words: str) -> bool:
        tokens = self._tokens[self._place : self._place + len(words)]
        if [token.value.lower() for token in tokens if token.kind is TokenKind.WORD] != list(words):
            return False
        self._place += len(words)
        return True

    def _is_after_default(self, last: Token) -> bool:
        here = self._place
        found = self._took_words("not", "null") and last.value.lower() != "is"
        self._place = here
        following = self._tokens[min(here + 1, len(self._tokens) - 1)]
        is_comment = self._took_words("comment") and following.kind is TokenKind.TEXT
        self._place = here
        return found or is_comment
