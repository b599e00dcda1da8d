"""Canonical strings: the names and ids on the path to an object, joined by bars.

    namespace        shop
    table, view      shop|orders
    table version    shop|orders|1
    stream           shop|orders|1|<stream id>|<format>
    partition        shop|orders|1|<stream id>|<format>|<partition id>|<partition values>
    delta            shop|orders|1|<stream id>|<format>|<partition id>|<partition values>|<position>

Namespaces and tables appear with their current names, so a rename changes the strings
of all objects below. The strings of locators begin with a bar, and have the ids of the
namespace and table in place of the names:

    table            |<namespace id>|<table id>
    table version    |<namespace id>|<table id>|1

Names, ids and formats contain no bar. Partition values are a JSON array, in which a bar
is written as an escape, so that splitting at bars takes every string apart.
"""

import json
import re
from dataclasses import dataclass
from functools import total_ordering
from typing import Any, Final, TypeAlias

from mangrove.errors import InvalidInputError
from mangrove.model.json_codec import format_partition_values, parse_partition_values
from mangrove.model.locators import (
    LARGEST_INTEGER,
    DeltaLocator,
    Kind,
    NamespaceLocator,
    PartitionLocator,
    StreamLocator,
    TableIdentity,
    TableLocator,
    TableVersionLocator,
)
from mangrove.model.names import check_id, check_name, split_name
from mangrove.model.values import Value, normalize_values

__all__ = [
    "CanonicalName",
    "LocatorById",
    "build_locator",
    "is_named_by_ids",
    "parse_canonical",
    "parse_locator",
    "parse_object_name",
]

_BAR: Final = "|"
_VERSION_PART: Final = re.compile(r"version_([1-9]\d{0,18})")
_KINDS: Final = {
    1: Kind.NAMESPACE, 2: Kind.TABLE, 3: Kind.TABLE_VERSION, 5: Kind.STREAM, 7: Kind.PARTITION, 8: Kind.DELTA
}  # fmt: skip
_NUMBER: Final = re.compile("[1-9][0-9]{0,18}")
_VALUES_PLACE: Final = 6


@total_ordering
@dataclass(frozen=True, slots=True)
class CanonicalName:
    """The parts of a canonical string; the kind follows from the first part that is None.

    >>> str(CanonicalName("shop", "orders", 1))
    'shop|orders|1'
    """

    namespace: str
    table: str | None = None
    version: int | None = None
    stream_id: str | None = None
    stream_format: str | None = None
    partition_id: str | None = None
    partition_values: tuple[Value | None, ...] | None = None
    position: int | None = None

    def __post_init__(self) -> None:
        given = [part is not None for part in self.parts]
        if sorted(given, reverse=True) != given or sum(given) not in _KINDS:
            raise InvalidInputError(f"{self.parts!r} are not the parts of an object; a part between them is missing")
        check_name(self.namespace, "namespace")
        if self.table is not None:
            check_name(self.table, "table")
        for number, what in ((self.version, "table version"), (self.position, "stream position")):
            if number is not None and (type(number) is not int or not 1 <= number <= LARGEST_INTEGER):
                raise InvalidInputError(f"invalid {what} {number!r}; expected an integer from 1 to {LARGEST_INTEGER}")
        for identifier, what in (
            (self.stream_id, "stream id"),
            (self.stream_format, "stream format"),
            (self.partition_id, "partition id"),
        ):
            if identifier is not None:
                check_id(identifier, what)
        if self.partition_values is not None:
            object.__setattr__(self, "partition_values", normalize_values(self.partition_values))

    @property
    def parts(self) -> tuple[Any, ...]:
        """The parts in order; those below the object are None."""
        return tuple(getattr(self, name) for name in self.__match_args__)

    @property
    def kind(self) -> Kind:
        """The kind of the object; a view is named like a table."""
        return _KINDS[sum(part is not None for part in self.parts)]

    @property
    def parent(self) -> "CanonicalName | None":
        """The name of the parent, or None for a namespace."""
        counts = list(_KINDS)
        place = counts.index(sum(part is not None for part in self.parts))
        return None if place == 0 else CanonicalName(*self.parts[: counts[place - 1]])

    def __str__(self) -> str:
        given = (part for part in self.parts if part is not None)
        return _BAR.join(format_partition_values(part) if isinstance(part, tuple) else str(part) for part in given)

    def __lt__(self, other: object) -> bool:
        return str(self) < str(other) if isinstance(other, CanonicalName) else NotImplemented


def parse_canonical(text: str) -> CanonicalName:
    """Return the parts of a canonical string.

    >>> parse_canonical("shop|orders|1").version
    1
    """
    if is_named_by_ids(text):
        raise InvalidInputError(
            f"{text!r} is the string of a locator, with ids; expected a canonical string, with names"
        )
    parts: list[object] = list(_split(text)) if isinstance(text, str) else []
    if len(parts) not in _KINDS:
        raise InvalidInputError(
            f"{text!r} is not a canonical string: it has {len(parts)} parts; a namespace has 1, a table 2, "
            "a table version 3, a stream 5 with its format, a partition 7 with its values, a delta 8"
        )
    for place, parse in ((2, _parse_number), (6, parse_partition_values), (7, _parse_number)):
        if place < len(parts):
            parts[place] = parse(str(parts[place]))
    return CanonicalName(*parts)  # type: ignore[arg-type]


def parse_object_name(text: str) -> CanonicalName:
    """Return the parts of a canonical string or of a dotted name of a namespace, table or view.

    >>> parse_object_name("shop.orders") == parse_object_name("shop|orders")
    True
    """
    if not isinstance(text, str) or _BAR not in text:
        parts = split_name(text)
        if len(parts) == 3 and (version := _VERSION_PART.fullmatch(parts[2])):
            return CanonicalName(parts[0], parts[1], int(version[1]))
        if len(parts) > 2:
            raise InvalidInputError(f"{text!r} has {len(parts)} parts; expected namespace, namespace.table or a|b|…")
        return CanonicalName(parts[0], parts[1] if len(parts) == 2 else None)
    return parse_canonical(text)


LocatorById: TypeAlias = TableIdentity | TableVersionLocator | StreamLocator | PartitionLocator | DeltaLocator
"""A locator that contains the ids of the namespace and table."""


def is_named_by_ids(name: object) -> bool:
    """Return whether a name is a locator that contains ids, or the string of one."""
    return isinstance(name, LocatorById) or (isinstance(name, str) and name.startswith(_BAR))


def parse_locator(text: str) -> NamespaceLocator | TableLocator | LocatorById:
    """Return the locator that is printed as `text`; an empty format or empty values are unknown.

    >>> parse_locator("|n1|t1|1|main|deltacat").format
    'deltacat'
    """
    if not is_named_by_ids(text):
        name = parse_object_name(text)
        if name.kind not in (Kind.NAMESPACE, Kind.TABLE):
            raise InvalidInputError(f"{text!r} has names and no ids, so it is no locator; look it up with resolve")
        return NamespaceLocator(name.namespace) if name.table is None else TableLocator(name.namespace, name.table)
    parts: list[Any] = _split(text[1:])
    if len(parts) not in _KINDS or len(parts) == 1:
        raise InvalidInputError(
            f"{text!r} is not a locator: it has {len(parts)} parts after the first bar; a table has 2, a table version "
            "3, a stream 5 with its format, a partition 7 with its values, a delta 8"
        )
    for place, parse in ((2, _parse_number), (6, parse_partition_values), (7, _parse_number)):
        if place < len(parts):
            parts[place] = parse(parts[place]) if parts[place] or place != 6 else None
    if len(parts) > 4:
        parts[4] = parts[4] or None
    table = TableIdentity(parts[0], parts[1])
    return table if len(parts) == 2 else build_locator(table, *parts[2:])


def build_locator(
    table: TableIdentity,
    version: int,
    stream_id: str | None = None,
    stream_format: str | None = None,
    partition_id: str | None = None,
    partition_values: tuple[Value | None, ...] | None = None,
    position: int | None = None,
) -> TableVersionLocator | StreamLocator | PartitionLocator | DeltaLocator:
    """Return the locator of a table version, or of the smallest part of it that is given."""
    ids = (table.namespace_id, table.table_id, version)
    if stream_id is None:
        return TableVersionLocator(*ids)
    if partition_id is None:
        return StreamLocator(*ids, stream_id, format=stream_format)
    partition = PartitionLocator(*ids, stream_id, partition_id, format=stream_format, partition_values=partition_values)
    return partition if position is None else partition.at(position)


def _split(text: str) -> list[str]:
    """Return the parts between the bars.

    Bars in partition values are accepted: a string literal of SQL turns the escape sequence of a bar into a bar.

    >>> _split('shop|orders|1|main|deltacat|p1|["a|b"]|7')[6:]
    ['["a|b"]', '7']
    """
    *before, last = text.split(_BAR, _VALUES_PLACE)
    if len(before) < _VALUES_PLACE:
        return [*before, last]
    try:
        end = json.JSONDecoder().raw_decode(last)[1]
    except (ValueError, RecursionError):
        return [*before, *last.split(_BAR)]
    return [*before, last[:end] + last[end:].partition(_BAR)[0], *last[end:].split(_BAR)[1:]]


def _parse_number(text: str) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise InvalidInputError(
            f"{text!r} is not a table version or stream position; expected a whole number from 1 to {LARGEST_INTEGER}"
        )
    return int(text)
