"""Locators, the typed addresses of lakehouse objects.

    NamespaceLocator ── TableLocator, ViewLocator            by name, which can change
    TableIdentity ── TableVersionLocator ── StreamLocator ── PartitionLocator ── DeltaLocator
                                                             by id, which never changes
    SharedTransactionLocator, AliasLocator

Objects below a table are located by the table's ids, so renaming a table or its
namespace does not move them. The string of a locator by ids begins with a bar, so that
no id is mistaken for a name. `model/canonical.py` parses it, and has the strings by name.

The format of a stream and the values of a partition follow from the ids. They are part
of the string and not compared; a locator that was read from a key lacks them.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import total_ordering
from typing import ClassVar, Final, TypeAlias

from mangrove.errors import InvalidInputError
from mangrove.model.bulk import build_unchecked, build_validated
from mangrove.model.json_codec import format_partition_values
from mangrove.model.names import are_names, check_id, check_name, join_name, split_name
from mangrove.model.values import Value

__all__ = [
    "LARGEST_INTEGER",
    "AliasLocator",
    "DeltaLocator",
    "Kind",
    "Locator",
    "NamespaceLocator",
    "PartitionLocator",
    "SharedTransactionLocator",
    "StreamLocator",
    "TableIdentity",
    "TableLocator",
    "TableVersionLocator",
    "ViewLocator",
    "build_delta_locators",
    "build_table_locators",
    "parse_table_name",
    "parse_view_name",
    "split_alias_name",
]

LARGEST_INTEGER: Final = 2**63 - 1
"""The largest signed 64-bit integer, which every language can represent."""


class Kind(enum.IntEnum):
    """The kind of an object, numbered as in tree keys."""

    LAKEHOUSE = 0
    NAMESPACE = 1
    TABLE = 2
    VIEW = 3
    SHARED_TRANSACTION = 4
    TABLE_VERSION = 5
    STREAM = 6
    PARTITION = 7
    DELTA = 8
    ALIAS = 9

    # Each commit looks up dozens of kinds, and the hash of an enumeration is a Python function.
    __hash__ = int.__hash__

    @property
    def word(self) -> str:
        """The readable name of the kind."""
        return self.name.lower().replace("_", " ")

    @property
    def is_below_table(self) -> bool:
        """Whether objects of the kind are located by the ids of their table."""
        return Kind.TABLE_VERSION <= self <= Kind.DELTA


@total_ordering
class _Located:
    """The common base of locators: parts, ordering and strings."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]]
    kind: ClassVar[Kind]

    @property
    def parts(self) -> tuple[str | int, ...]:
        """The parts of the parent, then the object's own."""
        return tuple([getattr(self, name) for name in self.__match_args__])

    @property
    def canonical(self) -> str:
        """The parts joined by bars, which are unique among all objects of the kind."""
        return "|".join(map(str, self.parts))

    def __str__(self) -> str:
        return self.canonical

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, _Located):
            return NotImplemented
        return (self.kind, self.parts) < (other.kind, other.parts)


@dataclass(frozen=True, slots=True)
class NamespaceLocator(_Located):
    """The locator of a namespace."""

    name: str
    kind: ClassVar[Kind] = Kind.NAMESPACE

    def __post_init__(self) -> None:
        check_name(self.name, "namespace")

    @property
    def parent(self) -> None:
        """None: a namespace is directly in the lakehouse."""
        return

    def __str__(self) -> str:
        return join_name(self.name)


@dataclass(frozen=True, slots=True)
class TableLocator(_Located):
    """The locator of a table by its current names."""

    namespace: str
    name: str
    kind: ClassVar[Kind] = Kind.TABLE

    def __post_init__(self) -> None:
        check_name(self.namespace, "namespace")
        check_name(self.name, "table")

    @property
    def parent(self) -> NamespaceLocator:
        """The namespace."""
        return NamespaceLocator(self.namespace)

    def __str__(self) -> str:
        return join_name(self.namespace, self.name)


def build_table_locators(namespace: str, names: Sequence[str]) -> list[TableLocator]:
    """Return the locators of the tables of a namespace; a listing of thousands validates their names at once."""
    columns = {"namespace": [namespace] * len(names), "name": names}
    build = build_unchecked if are_names([namespace, *names]) else build_validated
    return build(TableLocator, columns)


@dataclass(frozen=True, slots=True)
class ViewLocator(_Located):
    """The locator of a view by its current names."""

    namespace: str
    name: str
    kind: ClassVar[Kind] = Kind.VIEW

    def __post_init__(self) -> None:
        check_name(self.namespace, "namespace")
        check_name(self.name, "view")

    @property
    def parent(self) -> NamespaceLocator:
        """The namespace."""
        return NamespaceLocator(self.namespace)

    def __str__(self) -> str:
        return join_name(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class SharedTransactionLocator(_Located):
    """The locator of a shared transaction."""

    name: str
    kind: ClassVar[Kind] = Kind.SHARED_TRANSACTION

    def __post_init__(self) -> None:
        check_name(self.name, "shared transaction")

    @property
    def parent(self) -> None:
        """None: a shared transaction is directly in the lakehouse."""
        return

    def __str__(self) -> str:
        return join_name(self.name)


@dataclass(frozen=True, slots=True)
class AliasLocator(_Located):
    """The locator of an alias: its canonical string, `name` for a namespace or `namespace|name` for a table."""

    name: str
    kind: ClassVar[Kind] = Kind.ALIAS

    def __post_init__(self) -> None:
        split_alias_name(self.name)

    @property
    def parent(self) -> None:
        """None: all aliases are directly in the lakehouse, so that one scan lists them."""
        return

    @property
    def named(self) -> NamespaceLocator | TableLocator:
        """The locator of a namespace or table with this name."""
        return split_alias_name(self.name)

    def __str__(self) -> str:
        return str(self.named)


def split_alias_name(canonical: str) -> NamespaceLocator | TableLocator:
    """Return the locator of the namespace or table with this canonical string."""
    parts = canonical.split("|") if isinstance(canonical, str) else []
    if len(parts) not in (1, 2):
        raise InvalidInputError(
            f"{canonical!r} is not the name of a namespace or table; expected name or namespace|name"
        )
    return NamespaceLocator(parts[0]) if len(parts) == 1 else TableLocator(parts[0], parts[1])


@dataclass(frozen=True, slots=True, order=True)
class TableIdentity:
    """The immutable identity of a table: the parent of all objects below it.

    `namespace_id` is that of the namespace in which the table was created.
    """

    namespace_id: str
    table_id: str

    def __post_init__(self) -> None:
        check_id(self.namespace_id, "namespace id")
        check_id(self.table_id, "table id")

    @property
    def canonical(self) -> str:
        """The ids joined by a bar."""
        return f"{self.namespace_id}|{self.table_id}"

    def __str__(self) -> str:
        return f"|{self.canonical}"


@dataclass(frozen=True, slots=True)
class TableVersionLocator(_Located):
    """The locator of a table version."""

    namespace_id: str
    table_id: str
    version: int
    kind: ClassVar[Kind] = Kind.TABLE_VERSION

    def __post_init__(self) -> None:
        check_id(self.namespace_id, "namespace id")
        check_id(self.table_id, "table id")
        _check_ordinal(self.version, "table version")

    @property
    def parent(self) -> TableIdentity:
        """The table, by its ids."""
        return TableIdentity(self.namespace_id, self.table_id)

    def __str__(self) -> str:
        return f"{self.parent}|{self.version}"


@dataclass(frozen=True, slots=True)
class StreamLocator(_Located):
    """The locator of a stream of a table version."""

    namespace_id: str
    table_id: str
    version: int
    stream_id: str
    format: str | None = field(default=None, compare=False, kw_only=True)
    kind: ClassVar[Kind] = Kind.STREAM

    def __post_init__(self) -> None:
        check_id(self.namespace_id, "namespace id")
        check_id(self.table_id, "table id")
        _check_ordinal(self.version, "table version")
        check_id(self.stream_id, "stream id")
        _check_format(self.format)

    @property
    def parent(self) -> TableVersionLocator:
        """The table version."""
        return TableVersionLocator(self.namespace_id, self.table_id, self.version)

    def __str__(self) -> str:
        return f"{self.parent}|{self.stream_id}|{self.format or ''}"


@dataclass(frozen=True, slots=True)
class PartitionLocator(_Located):
    """The locator of a partition of a stream."""

    namespace_id: str
    table_id: str
    version: int
    stream_id: str
    partition_id: str
    format: str | None = field(default=None, compare=False, kw_only=True)
    partition_values: tuple[Value | None, ...] | None = field(default=None, compare=False, kw_only=True)
    kind: ClassVar[Kind] = Kind.PARTITION

    def __post_init__(self) -> None:
        check_id(self.namespace_id, "namespace id")
        check_id(self.table_id, "table id")
        _check_ordinal(self.version, "table version")
        check_id(self.stream_id, "stream id")
        check_id(self.partition_id, "partition id")
        _check_format(self.format)

    @property
    def parent(self) -> StreamLocator:
        """The stream."""
        return StreamLocator(self.namespace_id, self.table_id, self.version, self.stream_id, format=self.format)

    def __str__(self) -> str:
        values = "" if self.partition_values is None else format_partition_values(self.partition_values)
        return f"{self.parent}|{self.partition_id}|{values}"

    def at(self, position: int, partition_values: tuple[Value | None, ...] | None = None) -> "DeltaLocator":
        """Return the locator of the delta at a position, with the partition values unless they are known."""
        return DeltaLocator(
            self.namespace_id, self.table_id, self.version, self.stream_id, self.partition_id, position,
            format=self.format,
            partition_values=self.partition_values if partition_values is None else partition_values,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class DeltaLocator(_Located):
    """The locator of a delta of a partition; deltas apply in the order of their positions."""

    namespace_id: str
    table_id: str
    version: int
    stream_id: str
    partition_id: str
    position: int
    format: str | None = field(default=None, compare=False, kw_only=True)
    partition_values: tuple[Value | None, ...] | None = field(default=None, compare=False, kw_only=True)
    kind: ClassVar[Kind] = Kind.DELTA

    def __post_init__(self) -> None:
        check_id(self.namespace_id, "namespace id")
        check_id(self.table_id, "table id")
        _check_ordinal(self.version, "table version")
        check_id(self.stream_id, "stream id")
        check_id(self.partition_id, "partition id")
        _check_ordinal(self.position, "stream position")
        _check_format(self.format)

    @property
    def parent(self) -> PartitionLocator:
        """The partition."""
        return PartitionLocator(
            self.namespace_id, self.table_id, self.version, self.stream_id, self.partition_id,
            format=self.format, partition_values=self.partition_values,
        )  # fmt: skip

    def __str__(self) -> str:
        return f"{self.parent}|{self.position}"


def build_delta_locators(like: DeltaLocator, positions: Sequence[int]) -> list[DeltaLocator]:
    """Return the locators of deltas of the same partition; a log of thousands validates their positions at once."""
    columns: dict[str, Sequence[object]] = {
        name: [getattr(like, name)] * len(positions) for name in (*like.__match_args__, "format", "partition_values")
    }
    is_valid = min(positions) >= 1 and max(positions) <= LARGEST_INTEGER
    build = build_unchecked if is_valid else build_validated
    return build(DeltaLocator, columns | {"position": positions})


Locator: TypeAlias = (
    NamespaceLocator
    | TableLocator
    | ViewLocator
    | SharedTransactionLocator
    | AliasLocator
    | TableVersionLocator
    | StreamLocator
    | PartitionLocator
    | DeltaLocator
)


_PARTS_BELOW_TABLES: Final = {3: Kind.TABLE_VERSION, 5: Kind.STREAM, 7: Kind.PARTITION, 8: Kind.DELTA}
"""The kinds of objects below tables by the numbers of parts of their canonical strings."""


def parse_table_name(text: str) -> TableLocator:
    """Return the table that `namespace.table` or the canonical string `namespace|table` names."""
    return TableLocator(*_two_parts(text, "table"))


def parse_view_name(text: str) -> ViewLocator:
    """Return the view that `namespace.view` or the canonical string `namespace|view` names."""
    return ViewLocator(*_two_parts(text, "view"))


def _two_parts(text: str, what: str) -> tuple[str, str]:
    # No name contains a bar, so a text with one is a canonical string.
    is_canonical = isinstance(text, str) and "|" in text
    if is_canonical and text.startswith("|"):
        raise InvalidInputError(f"{text!r} contains ids; expected the name of a {what}")
    parts = tuple(text.split("|")) if is_canonical else split_name(text)
    if is_canonical and len(parts) in _PARTS_BELOW_TABLES:
        raise InvalidInputError(f"{text!r} names a {_PARTS_BELOW_TABLES[len(parts)].word}; expected a {what}")
    if len(parts) != 2:
        raise InvalidInputError(
            f"{text!r} has {len(parts)} part(s); expected namespace.{what}, "
            "with backticks around a part that contains a dot"
        )
    return parts[0], parts[1]


def _check_format(stream_format: str | None) -> None:
    if stream_format is not None:
        check_id(stream_format, "stream format")


def _check_ordinal(number: int, what: str) -> None:
    if type(number) is not int or not 1 <= number <= LARGEST_INTEGER:
        raise InvalidInputError(f"invalid {what} {number!r}; expected an integer from 1 to {LARGEST_INTEGER}")
