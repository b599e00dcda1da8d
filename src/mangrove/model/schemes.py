"""Partition schemes and sort schemes: by what a table's rows are grouped and ordered, with their text.

days(ts)   bucket(16, id)   truncate(4, name)   country        a partition field
ts desc nulls last                                             a sort field
"""

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.model.names import check_id, check_text, quoted_name
from mangrove.model.schema import Schema
from mangrove.model.transforms import (
    Bucket,
    Days,
    Hours,
    Identity,
    Months,
    Transform,
    Truncate,
    Years,
    result_type,
    word_of,
)
from mangrove.model.types import COLUMN_ID_MAX, DataType

__all__ = [
    "UNPARTITIONED",
    "UNSORTED",
    "Direction",
    "Nulls",
    "PartitionField",
    "PartitionScheme",
    "SortField",
    "SortScheme",
    "parse_partition_field",
    "parse_partition_scheme",
    "parse_sort_field",
    "parse_sort_scheme",
    "partition_field_text",
    "sort_field_text",
]

_IDENTITY: Final = Identity()


class Direction(enum.Enum):
    """Which end comes first."""

    ASCENDING = "asc"
    DESCENDING = "desc"


class Nulls(enum.Enum):
    """Where rows without a value go."""

    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One value by which rows are grouped; `name` is what the value is called."""

    source_id: int
    transform: Transform
    name: str

    def __post_init__(self) -> None:
        _check_source(self.source_id, self.transform)
        if not self.name:
            raise InvalidInputError("a partition field has an empty name")
        check_text(self.name, "a partition field's name")


@dataclass(frozen=True, slots=True)
class PartitionScheme:
    """By what a table's rows are grouped into partitions; no fields mean one partition for all."""

    fields: tuple[PartitionField, ...] = ()
    id: str = "0"
    name: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))
        check_id(self.id, "partition scheme id")
        if self.name is not None:
            check_text(self.name, "a partition scheme's name")
        folded = [field.name.casefold() for field in self.fields]
        if len(set(folded)) != len(folded):
            raise InvalidInputError(
                f"two fields of a partition scheme have one name: {', '.join(field.name for field in self.fields)}"
            )

    def result_types(self, schema: Schema) -> tuple[DataType, ...]:
        """Return the types of the partition values; refuse a scheme that does not fit `schema`."""
        return tuple(result_type(field.transform, schema.column_with_id(field.source_id).type) for field in self.fields)


@dataclass(frozen=True, slots=True)
class SortField:
    """One value by which rows are ordered."""

    source_id: int
    direction: Direction = Direction.ASCENDING
    nulls: Nulls = Nulls.FIRST
    transform: Transform = _IDENTITY

    def __post_init__(self) -> None:
        _check_source(self.source_id, self.transform)
        if not isinstance(self.direction, Direction) or not isinstance(self.nulls, Nulls):
            raise InvalidInputError(f"a sort field has {self.direction!r} and {self.nulls!r}: use Direction and Nulls")


@dataclass(frozen=True, slots=True)
class SortScheme:
    """By what the rows in a file are ordered; no fields mean in no order."""

    fields: tuple[SortField, ...] = ()
    id: str = "0"
    name: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))
        check_id(self.id, "sort scheme id")
        if self.name is not None:
            check_text(self.name, "a sort scheme's name")


UNPARTITIONED: Final = PartitionScheme()
UNSORTED: Final = SortScheme()

_SIMPLE: Final[dict[str, Transform]] = {
    "identity": Identity(),
    "years": Years(),
    "year": Years(),
    "months": Months(),
    "month": Months(),
    "days": Days(),
    "day": Days(),
    "hours": Hours(),
    "hour": Hours(),
}
_PARAMETRISED: Final[dict[str, type[Bucket] | type[Truncate]]] = {"bucket": Bucket, "truncate": Truncate}
_PATH: Final = r"(?:`(?:[^`]|``)+`|[^\s`.(),]+)(?:\.(?:`(?:[^`]|``)+`|[^\s`.(),]+))*"
_PATH_PART: Final = re.compile(r"`((?:[^`]|``)+)`|([^\s`.(),]+)")
_PARTITION_FIELD: Final = re.compile(
    rf"\s*(?:(?P<word>\w+)\s*\(\s*(?:(?P<parameter>\d{{1,10}})\s*,\s*)?(?P<source>{_PATH})\s*\)|(?P<bare>{_PATH}))\s*"
)
_SORT_ENDING: Final = re.compile(
    r"(?P<term>.*?)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?\s*",
    re.IGNORECASE | re.DOTALL,
)


def parse_partition_field(text: str, schema: Schema) -> PartitionField:
    """Return the field that `text` describes, named after its column and transform."""
    transform, path = _parse_term(text)
    column = schema.column(*path)
    result_type(transform, column.type)
    name = ".".join(schema.path_of(column.id))
    return PartitionField(
        column.id, transform, name if isinstance(transform, Identity) else f"{name}_{word_of(transform)}"
    )


def parse_partition_scheme(texts: Iterable[str], schema: Schema, scheme_id: str = "0") -> PartitionScheme:
    """Return the scheme that groups by each of `texts`."""
    return PartitionScheme(tuple(parse_partition_field(text, schema) for text in texts), scheme_id)


def parse_sort_field(text: str, schema: Schema) -> SortField:
    """Return the field that `text` describes; as in SQL, nulls come first ascending and last descending."""
    match = _SORT_ENDING.fullmatch(text)
    assert match is not None
    transform, path = _parse_term(match["term"])
    column = schema.column(*path)
    result_type(transform, column.type)
    direction = Direction((match["direction"] or "asc").lower())
    nulls = match["nulls"] or ("first" if direction is Direction.ASCENDING else "last")
    return SortField(column.id, direction, Nulls(nulls.lower()), transform)


def parse_sort_scheme(texts: Iterable[str], schema: Schema, scheme_id: str = "0") -> SortScheme:
    """Return the scheme that orders by each of `texts` in turn."""
    return SortScheme(tuple(parse_sort_field(text, schema) for text in texts), scheme_id)


def partition_field_text(field: PartitionField, schema: Schema) -> str:
    """Return the text that `parse_partition_field` takes."""
    return _term_text(field.transform, schema.path_of(field.source_id))


def sort_field_text(field: SortField, schema: Schema) -> str:
    """Return the text that `parse_sort_field` takes."""
    term = _term_text(field.transform, schema.path_of(field.source_id))
    return f"{term} {field.direction.value} nulls {field.nulls.value}"


def _parse_term(text: str) -> tuple[Transform, tuple[str, ...]]:
    match = _PARTITION_FIELD.fullmatch(text)
    if match is None:
        raise InvalidInputError(
            f"{text!r} is no partition or sort field: write a column, or years, months, days, hours (column), "
            "bucket (count, column) or truncate (width, column)"
        )
    path = tuple(
        part[1].replace("``", "`") if part[1] else part[2]
        for part in _PATH_PART.finditer(match["bare"] or match["source"])
    )
    if match["bare"]:
        return Identity(), path
    word = match["word"].lower()
    if word in _PARAMETRISED and match["parameter"]:
        return _PARAMETRISED[word](int(match["parameter"])), path
    if word in _SIMPLE and not match["parameter"]:
        return _SIMPLE[word], path
    raise InvalidInputError(
        f"{text!r} is no transform: write bucket(count, column) and truncate(width, column); "
        "identity, years, months, days and hours take the column alone"
    )


def _term_text(transform: Transform, path: tuple[str, ...]) -> str:
    source = ".".join(quoted_name(name) for name in path)
    match transform:
        case Identity():
            return source
        case Bucket(number) | Truncate(number):
            return f"{word_of(transform)}({number}, {source})"
        case _:
            return f"{word_of(transform)}({source})"


def _check_source(source_id: int, transform: Transform) -> None:
    if type(source_id) is not int or not 0 <= source_id <= COLUMN_ID_MAX:
        raise InvalidInputError(f"a field's column id is {source_id!r}: it is a number from 0 to 2³¹ − 1")
    if not isinstance(transform, Transform):
        raise InvalidInputError(f"a field's transform is {transform!r}, which is not a transform")
