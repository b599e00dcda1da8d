"""Column data types and column definitions.

A type is a value. Nested types contain columns, because the elements of a struct, list
or map have an id and nullability like any other column.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from mangrove.errors import InvalidInputError
from mangrove.model.names import check_text
from mangrove.model.properties import NO_PROPERTIES, Properties

__all__ = [
    "COLUMN_ID_MAX",
    "DECIMAL_PRECISION_MAX",
    "ELEMENT_NAME",
    "KEY_NAME",
    "VALUE_NAME",
    "Binary",
    "Boolean",
    "Char",
    "Column",
    "DataType",
    "Date",
    "Decimal",
    "Fixed",
    "Float32",
    "Float64",
    "Int16",
    "Int32",
    "Int64",
    "List",
    "Map",
    "Struct",
    "Time",
    "TimeTz",
    "Timestamp",
    "TimestampNs",
    "TimestampTz",
    "TimestampTzNs",
    "Varchar",
    "check_column_names",
    "has_nanoseconds",
    "inner_columns",
    "is_nested",
    "list_of",
    "map_of",
    "replace_inner_columns",
]

COLUMN_ID_MAX: Final = 2**31 - 1
DECIMAL_PRECISION_MAX: Final = 38
ELEMENT_NAME: Final = "element"
KEY_NAME: Final = "key"
VALUE_NAME: Final = "value"
_LENGTH_MAX: Final = 2**31 - 1
_FIXED_LENGTH_MAX: Final = 2**28 - 1
"""The limit of Arrow, which stores the number of bits in a signed 32-bit integer."""


@dataclass(frozen=True, slots=True)
class Boolean:
    """True or false."""


@dataclass(frozen=True, slots=True)
class Int16:
    """A signed integer of 2 bytes."""


@dataclass(frozen=True, slots=True)
class Int32:
    """A signed integer of 4 bytes."""


@dataclass(frozen=True, slots=True)
class Int64:
    """A signed integer of 8 bytes."""


@dataclass(frozen=True, slots=True)
class Decimal:
    """An exact number of at most `precision` digits, `scale` of them after the point."""

    precision: int
    scale: int = 0

    def __post_init__(self) -> None:
        if type(self.precision) is not int or not 1 <= self.precision <= DECIMAL_PRECISION_MAX:
            raise InvalidInputError(
                f"decimal has precision {self.precision!r}; expected a whole number from 1 to {DECIMAL_PRECISION_MAX}"
            )
        if type(self.scale) is not int or not 0 <= self.scale <= self.precision:
            raise InvalidInputError(
                f"decimal has scale {self.scale!r}; expected a whole number from 0 to the precision, {self.precision}"
            )


@dataclass(frozen=True, slots=True)
class Float32:
    """A binary floating-point number of 4 bytes."""


@dataclass(frozen=True, slots=True)
class Float64:
    """A binary floating-point number of 8 bytes."""


@dataclass(frozen=True, slots=True)
class Char:
    """Text of exactly `length` characters."""

    length: int

    def __post_init__(self) -> None:
        _check_length(self.length, "char")


@dataclass(frozen=True, slots=True)
class Varchar:
    """Text of at most `length` characters; unlimited if None."""

    length: int | None = None

    def __post_init__(self) -> None:
        if self.length is not None:
            _check_length(self.length, "varchar")


@dataclass(frozen=True, slots=True)
class Date:
    """A day of the calendar."""


@dataclass(frozen=True, slots=True)
class Time:
    """A time of day in microseconds, without a zone."""


@dataclass(frozen=True, slots=True)
class TimeTz:
    """A time of day in microseconds, in UTC."""


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A date and time in microseconds, without a zone."""


@dataclass(frozen=True, slots=True)
class TimestampTz:
    """A point in time in microseconds, in UTC."""


@dataclass(frozen=True, slots=True)
class TimestampNs:
    """A date and time in nanoseconds, without a zone, from 1677 to 2262."""


@dataclass(frozen=True, slots=True)
class TimestampTzNs:
    """A point in time in nanoseconds, in UTC, from 1677 to 2262."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Exactly `length` bytes."""

    length: int

    def __post_init__(self) -> None:
        _check_length(self.length, "fixed", _FIXED_LENGTH_MAX)


@dataclass(frozen=True, slots=True)
class Binary:
    """Bytes of any length."""


@dataclass(frozen=True, slots=True)
class Struct:
    """Several named columns in one."""

    columns: "tuple[Column, ...]"

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        if not self.columns:
            raise InvalidInputError("a struct must have at least one column")
        check_column_names(self.columns, "a struct")
        for column in self.columns:
            if column.default is not None:
                raise InvalidInputError(f"{column.name!r} in a struct has a default; only table columns have one")


@dataclass(frozen=True, slots=True)
class List:
    """Any number of elements in order."""

    element: "Column"

    def __post_init__(self) -> None:
        _check_inner_name(self.element, ELEMENT_NAME)


@dataclass(frozen=True, slots=True)
class Map:
    """Values by key; a key is never null."""

    key: "Column"
    value: "Column"

    def __post_init__(self) -> None:
        _check_inner_name(self.key, KEY_NAME)
        _check_inner_name(self.value, VALUE_NAME)
        if self.key.nullable:
            raise InvalidInputError("a map's key is nullable: a key is never null")


DataType: TypeAlias = (
    Boolean
    | Int16
    | Int32
    | Int64
    | Decimal
    | Float32
    | Float64
    | Char
    | Varchar
    | Date
    | Time
    | TimeTz
    | Timestamp
    | TimestampTz
    | TimestampNs
    | TimestampTzNs
    | Fixed
    | Binary
    | Struct
    | List
    | Map
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its id never changes and is never reused, so its name may change."""

    id: int
    name: str
    type: DataType
    nullable: bool = True
    comment: str | None = None
    default: str | None = None
    """The default value as SQL text."""
    properties: Mapping[str, str] = NO_PROPERTIES

    def __post_init__(self) -> None:
        if type(self.id) is not int or not 0 <= self.id <= COLUMN_ID_MAX:
            raise InvalidInputError(f"column {self.name!r} has the id {self.id!r}: it is a number from 0 to 2³¹ − 1")
        if not isinstance(self.name, str) or not self.name:
            raise InvalidInputError(f"column {self.id} has the name {self.name!r}: a name has at least one character")
        if not isinstance(self.type, DataType):
            raise InvalidInputError(f"column {self.name!r} has the type {self.type!r}, which is not a data type")
        check_text(self.name, "a column's name")
        if self.comment is not None:
            check_text(self.comment, f"the comment of column {self.name!r}")
        if self.default is not None:
            check_text(self.default, f"the default of column {self.name!r}")
            if not self.default.strip():
                raise InvalidInputError(f"column {self.name!r} has an empty default: leave it out, or write null")
        if type(self.properties) is not Properties:
            object.__setattr__(self, "properties", Properties(self.properties))


def list_of(element: DataType, *, id: int = 0, nullable: bool = True) -> List:  # noqa: A002
    """Return a list of `element`; the id of its column is 0 until a schema assigns one."""
    return List(Column(id, ELEMENT_NAME, element, nullable))


def map_of(key: DataType, value: DataType, *, value_nullable: bool = True) -> Map:
    """Return a map from `key` to `value`; the ids of its columns are 0 until a schema assigns them."""
    return Map(Column(0, KEY_NAME, key, nullable=False), Column(0, VALUE_NAME, value, nullable=value_nullable))


def is_nested(data_type: DataType) -> bool:
    """Return whether `data_type` contains columns."""
    return isinstance(data_type, Struct | List | Map)


def has_nanoseconds(data_type: DataType) -> bool:
    """Return whether `data_type` is a nanosecond timestamp or contains one."""
    if isinstance(data_type, TimestampNs | TimestampTzNs):
        return True
    return any(has_nanoseconds(column.type) for column in inner_columns(data_type))


def inner_columns(data_type: DataType) -> "tuple[Column, ...]":
    """Return the columns directly inside `data_type`; empty for a primitive type."""
    match data_type:
        case Struct(columns):
            return columns
        case List(element):
            return (element,)
        case Map(key, value):
            return (key, value)
        case _:
            return ()


def replace_inner_columns(data_type: DataType, columns: Iterator[Column]) -> DataType:
    """Return `data_type` with its inner columns taken in order from `columns`."""
    match data_type:
        case Struct(old):
            return Struct(tuple(next(columns) for _ in old))
        case List():
            return replace(data_type, element=next(columns))
        case Map():
            return replace(data_type, key=next(columns), value=next(columns))
        case _:
            return data_type


def _check_length(length: int, word: str, length_max: int = _LENGTH_MAX) -> None:
    if type(length) is not int or not 1 <= length <= length_max:
        raise InvalidInputError(f"{word} has length {length!r}; expected a whole number from 1 to {length_max}")


def _check_inner_name(column: Column, name: str) -> None:
    if column.name != name:
        raise InvalidInputError(f"an inner column is called {column.name!r}: here it is always {name!r}")
    if column.default is not None:
        raise InvalidInputError(f"the inner column {name!r} has a default: only columns of the table have one")


def check_column_names(columns: tuple[Column, ...], where: str) -> None:
    """Raise an error for names that differ only in case, which Spark treats as equal."""
    seen: dict[str, str] = {}
    for column in columns:
        folded = column.name.casefold()
        if folded in seen:
            raise InvalidInputError(f"{where} has both {seen[folded]!r} and {column.name!r}; SQL treats them as equal")
        seen[folded] = column.name
