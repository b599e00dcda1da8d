"""Canonical strings: the names and ids on the path to an object, joined by bars.

    namespace        shop
    table, view      shop|orders
    table version    shop|orders|1
    stream           shop|orders|1|<stream id>|<format>
    partition        shop|orders|1|<stream id>|<format>|<partition id>|<partition values>
    delta            shop|orders|1|<stream id>|<format>|<partition id>|<partition values>|<position>

Namespaces and tables appear with their current names, so a rename changes the strings
of all objects below; locators have the ids, which stay. Names, ids and formats contain
no bar. Partition values are a JSON array, in which a bar is written as an escape, so
that splitting at bars takes every canonical string apart.
"""

import json
import re
from dataclasses import dataclass
from functools import total_ordering
from typing import Final

from mangrove.errors import FormatError, InvalidInputError
from mangrove.model.json_codec import value_from_json, value_to_json
from mangrove.model.locators import LARGEST_INTEGER, Kind
from mangrove.model.manifests import normalize_values
from mangrove.model.names import check_id, check_name, split_name
from mangrove.model.values import Value

__all__ = ["CanonicalName", "format_partition_values", "parse_canonical", "parse_object_name", "parse_partition_values"]

_BAR: Final = "|"
_VERSION_PART: Final = re.compile(r"version_([1-9]\d{0,18})")
_ESCAPED_BAR: Final = "\\u007c"
_KINDS: Final = {
    1: Kind.NAMESPACE, 2: Kind.TABLE, 3: Kind.TABLE_VERSION, 5: Kind.STREAM, 7: Kind.PARTITION, 8: Kind.DELTA
}  # fmt: skip
_NUMBER: Final = re.compile("[1-9][0-9]{0,18}")


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
        given = [part is not None for part in self._parts]
        if sorted(given, reverse=True) != given or sum(given) not in _KINDS:
            raise InvalidInputError(f"{self._parts!r} are not the parts of an object; a part between them is missing")
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
    def _parts(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__match_args__)

    @property
    def kind(self) -> Kind:
        """The kind of the object; a view is named like a table."""
        return _KINDS[sum(part is not None for part in self._parts)]

    @property
    def parent(self) -> "CanonicalName | None":
        """The name of the parent, or None for a namespace."""
        counts = list(_KINDS)
        place = counts.index(sum(part is not None for part in self._parts))
        return None if place == 0 else CanonicalName(*self._parts[: counts[place - 1]])  # type: ignore[arg-type]

    def __str__(self) -> str:
        given = (part for part in self._parts if part is not None)
        return _BAR.join(format_partition_values(part) if isinstance(part, tuple) else str(part) for part in given)

    def __lt__(self, other: object) -> bool:
        return str(self) < str(other) if isinstance(other, CanonicalName) else NotImplemented


def parse_canonical(text: str) -> CanonicalName:
    """Return the parts of a canonical string.

    >>> parse_canonical("shop|orders|1").version
    1
    """
    parts: list[object] = list(text.split(_BAR)) if isinstance(text, str) else []
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


def format_partition_values(values: tuple[Value | None, ...]) -> str:
    r"""Return partition values as a JSON array without bars.

    >>> print(format_partition_values(("a|b", 1, None)))
    ["a\u007cb",1,null]
    """
    text = json.dumps([value_to_json(value) for value in values], ensure_ascii=False, separators=(",", ":"))
    return text.replace(_BAR, _ESCAPED_BAR)


def parse_partition_values(text: str) -> tuple[Value | None, ...]:
    """Return the partition values of their text."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise InvalidInputError(f"partition values {text!r} are not a JSON array ({error})") from error
    if not isinstance(data, list):
        raise InvalidInputError(f"partition values {text!r} are not a JSON array")
    try:
        return normalize_values(tuple(value_from_json(one) for one in data))
    except FormatError as error:
        raise InvalidInputError(f"partition values {text!r}: {error}") from error


def _parse_number(text: str) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise InvalidInputError(f"{text!r} is not a version or position; expected digits without leading zeros")
    return int(text)
