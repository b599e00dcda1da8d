"""Keys, values and node files of the catalog index.

    1 <namespace's name>                 → its folder              4 <shared transaction's name> → its folder
    9 <alias's canonical string>         → its folder
    2 <namespace's id> <table's name>    → its folder              3 … the same for views
    5 … 8 <the parts of the locator>     → its newest revision
    o <folder>                           → the newest revision of a named object
    x <folder>                           → the number of revisions of a deleted object
    y <mapping folder>                   → the number of its files, and the id that the newest maps to

Parts are joined by a character below all characters of names and ids, so that keys
sort like locators. Numbers have a fixed width.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from mangrove.betree.node import Message, Node, NodeLimits
from mangrove.errors import FormatError, InvalidInputError
from mangrove.layouts.deltacat.fields import format_table_version, parse_table_version
from mangrove.layouts.deltacat.msgpack_maps import MsgpackMap, decode_with_checksum, encode_with_checksum
from mangrove.layouts.deltacat.paths import MANGROVE_FOLDER, NumberedFile
from mangrove.metastore import Parent
from mangrove.model.locators import (
    AliasLocator,
    DeltaLocator,
    Kind,
    Locator,
    NamespaceLocator,
    PartitionLocator,
    SharedTransactionLocator,
    StreamLocator,
    TableIdentity,
    TableLocator,
    TableVersionLocator,
    ViewLocator,
)

__all__ = [
    "INDEX_SHAPE",
    "IndexKeyRange",
    "MappingEntry",
    "NameEntry",
    "RevisionEntry",
    "TableDescendantLocator",
    "decode_node",
    "decode_node_map",
    "deleted_key",
    "encode_node",
    "encode_node_map",
    "folder_of",
    "folder_of_key",
    "key_class_of",
    "key_of_locator",
    "key_parts",
    "live_key",
    "locator_from_key",
    "locator_from_parts",
    "locator_of_key",
    "mapping_folder_of",
    "mapping_key",
    "name_key",
    "name_of",
    "namespace_id_of",
    "object_key",
    "parse_mapping_entry",
    "parse_name_entry",
    "parse_revision_entry",
    "range_below",
    "range_of_kind",
    "range_of_mappings",
]

TableDescendantLocator: TypeAlias = TableVersionLocator | StreamLocator | PartitionLocator | DeltaLocator
"""Locators of objects below a table, which contain ids only."""

_SEPARATOR: Final = "\t"
_DIGITS: Final = 19
_VERSION_PLACE, _POSITION_PLACE = 2, 5
_READ: Final[dict[int, Callable[[str], int]]] = {_VERSION_PLACE: parse_table_version, _POSITION_PLACE: int}
"""The numeric parts of a locator, with the parser of the folder name."""
_LAST_CHARACTER: Final = 0x10FFFF
_BELOW: Final[dict[Kind, type[TableDescendantLocator]]] = {
    Kind.TABLE_VERSION: TableVersionLocator,
    Kind.STREAM: StreamLocator,
    Kind.PARTITION: PartitionLocator,
    Kind.DELTA: DeltaLocator,
}

_TABLE_DEPTH: Final = 2
_KINDS_BELOW: Final = dict(enumerate(_BELOW, start=_TABLE_DEPTH + 1))
"""The kinds of objects below a table, by folder depth."""


class IndexKeyRange(NamedTuple):
    """The keys from `first` (inclusive) to `end` (exclusive)."""

    first: str
    end: str


def name_key(kind: Kind, namespace_id: str, name: str) -> str:
    """Return the key of a name; namespaces and shared transactions have no parent namespace."""
    return _join_parts(str(int(kind)), *([namespace_id] if kind in (Kind.TABLE, Kind.VIEW) else []), name)


def name_of(key: str) -> str:
    """Return the name whose key this is."""
    return key.rpartition(_SEPARATOR)[2]


def namespace_id_of(key: str) -> str:
    """Return the id of the namespace of a table or view name."""
    return key.split(_SEPARATOR)[1]


def range_of_kind(kind: Kind, *parts: str) -> IndexKeyRange:
    """Return the key range of all objects of a kind, or of those that start with some parts."""
    start = _join_parts(str(int(kind)), *parts, "")
    return IndexKeyRange(start, _end_of(start))


def key_of_locator(locator: TableDescendantLocator) -> str:
    """Return the key of an object below a table."""
    return _join_parts(str(int(locator.kind)), *_texts(locator.parts))


def locator_from_key(key: str) -> TableDescendantLocator:
    """Return the locator of an object below a table."""
    kind, *parts = key.split(_SEPARATOR)
    values = [int(part) if place in _READ else part for place, part in enumerate(parts)]
    return _BELOW[Kind(int(kind))](*values)  # type: ignore[arg-type]


def locator_of_key(key: str, namespace: str = "") -> Locator:
    """Return the locator of an object of any kind; a table or view needs the current name of its namespace."""
    kind = Kind(int(key_class_of(key)))
    match kind:
        case Kind.NAMESPACE:
            return NamespaceLocator(name_of(key))
        case Kind.SHARED_TRANSACTION:
            return SharedTransactionLocator(name_of(key))
        case Kind.ALIAS:
            return AliasLocator(name_of(key))
        case Kind.TABLE:
            return TableLocator(namespace, name_of(key))
        case Kind.VIEW:
            return ViewLocator(namespace, name_of(key))
        case _:
            return locator_from_key(key)


def locator_from_parts(kind: Kind, parts: list[str]) -> TableDescendantLocator:
    """Return the locator of an object below a table from the folders of its path."""
    try:
        values = [_READ[place](part) if place in _READ else part for place, part in enumerate(parts)]
        return _BELOW[kind](*values)  # type: ignore[arg-type]
    except (ValueError, TypeError, InvalidInputError, FormatError) as error:
        raise FormatError(f"{'/'.join(parts)} is not a valid {kind.word}: {error}") from error


def key_parts(folders: list[str]) -> list[str]:
    """Return the key parts of a folder path; the table version is a number."""
    return [
        f"{parse_table_version(part):0{_DIGITS}}" if place == _VERSION_PLACE else part
        for place, part in enumerate(folders)
    ]


def folder_of(locator: TableDescendantLocator) -> str:
    """Return the folder of an object below a table."""
    namespace_id, table_id, _, *below = locator.parts
    return "/".join(map(str, (namespace_id, table_id, format_table_version(locator.version), *below)))


def object_key(folder: str) -> str:
    """Return the key of the newest revision of a named object."""
    return _join_parts("o", folder)


def live_key(folder: str) -> str:
    """Return the index key of the newest revision of the object in a folder, of any kind."""
    parts = folder.split("/")
    if folder.startswith(MANGROVE_FOLDER) or len(parts) <= _TABLE_DEPTH:
        return object_key(folder)
    kind = _KINDS_BELOW.get(len(parts))
    if kind is None:
        raise FormatError(f"{folder} is nested deeper than any object; run `mangrove check`")
    return key_of_locator(locator_from_parts(kind, parts))


def deleted_key(folder: str) -> str:
    """Return the key of a deleted object's last revision number."""
    return _join_parts("x", folder)


def key_class_of(key: str) -> str:
    """Return the class of the key: the digit of a kind, or a letter."""
    return key[0]


def folder_of_key(key: str) -> str:
    """Return the folder of a key, for a named object or a mapping."""
    return key.partition(_SEPARATOR)[2]


def mapping_key(folder: str) -> str:
    """Return the key of the newest file of a mapping folder."""
    return _join_parts("y", folder)


def range_of_mappings() -> IndexKeyRange:
    """Return the key range of all mapping folders."""
    start = mapping_key("")
    return IndexKeyRange(start, _end_of(start))


def mapping_folder_of(key: str) -> str:
    """Return the mapping folder of a key.

    >>> mapping_folder_of(mapping_key("sales/4f8a"))
    'sales/4f8a'
    """
    return key.removeprefix(mapping_key(""))


def range_below(kind: Kind, parent: Parent, namespace_id: str, prefix: str, after: Locator | None) -> IndexKeyRange:
    """Return the key range of the objects of a kind below a parent."""
    match parent:
        case None:
            parts: list[str] = []
        case NamespaceLocator():
            parts = [namespace_id]
        case TableIdentity():
            parts = [parent.namespace_id, parent.table_id]
        case _:
            parts = _texts(parent.parts)
    start = _join_parts(str(int(kind)), *parts, prefix)
    first = start
    match after:
        case None:
            pass
        case NamespaceLocator() | SharedTransactionLocator() | AliasLocator() | TableLocator() | ViewLocator():
            first = max(start, name_key(kind, namespace_id, after.name) + "\0")
        case _:
            first = max(start, key_of_locator(after) + "\0")
    return IndexKeyRange(first, _end_of(start))


def _join_parts(*parts: str) -> str:
    return _SEPARATOR.join(parts)


def _texts(parts: tuple[str | int, ...]) -> list[str]:
    return [f"{part:0{_DIGITS}}" if isinstance(part, int) else part for part in parts]


def _end_of(prefix: str) -> str:
    """Return the least string that is greater than all strings that start with `prefix`."""
    shortened = prefix.rstrip(chr(_LAST_CHARACTER))
    following = ord(shortened[-1]) + 1
    # Surrogates cannot be encoded, so skip them.
    return shortened[:-1] + chr(0xE000 if 0xD800 <= following < 0xE000 else following)


INDEX_SHAPE: Final = NodeLimits(order=128, root_buffer_max=96, buffer_max=768, writes_max=3)
"""Fewer nodes per write than in the tree layout: a commit here also writes revisions, mappings and a log."""


@dataclass(frozen=True, slots=True)
class RevisionEntry:
    """The newest revision of an object, the number of its names, and the key of the last name."""

    number: int
    operation: str
    transaction: str
    names: int = 0
    name: str = ""
    checksum: str = ""
    """Of the revision file. It is stored here because DeltaCAT reads the file; files of DeltaCAT have none."""

    @property
    def text(self) -> str:
        """The value in the index."""
        words = [str(self.number), self.operation, self.transaction, str(self.names), self.name]
        return " ".join([*words, self.checksum] if self.checksum else words)

    def file(self, folder: str) -> NumberedFile:
        """Return the file of this revision of the object in `folder`."""
        return NumberedFile.of_revision(folder, self.number, self.operation, self.transaction)


@dataclass(frozen=True, slots=True)
class MappingEntry:
    """The number of files of a mapping folder, and the newest target; empty if it was deleted."""

    number: int = 0
    target: str = ""

    @property
    def text(self) -> str:
        """The value in the index."""
        return f"{self.number} {self.target}"


@dataclass(frozen=True, slots=True)
class NameEntry:
    """The folder of a named object, and the folder that maps the name to it for DeltaCAT.

    In the first format revision the mapping folder is also a digest of the namespace's
    name at that time, so it cannot be computed from the current names.
    """

    folder: str
    mapping_folder: str = ""

    @property
    def text(self) -> str:
        """The value in the index."""
        return f"{self.folder} {self.mapping_folder}"


_DIGITS_MAX = 20


def parse_name_entry(text: str) -> NameEntry:
    """Return the decoded index value of a name."""
    folder, _, mapping_folder = text.partition(" ")
    return NameEntry(folder, mapping_folder)


def parse_revision_entry(text: str) -> RevisionEntry:
    """Return the decoded index value of a revision."""
    number, operation, transaction, names, name, *checksum = _split_fields(text, 5, 6)
    return RevisionEntry(
        _parse_number(number, text), operation, transaction, _parse_number(names, text), name, *checksum
    )


def parse_mapping_entry(text: str | None) -> MappingEntry:
    """Return the decoded index value of a mapping folder; None is a folder without files."""
    if text is None:
        return MappingEntry()
    number, target = _split_fields(text, 2)
    return MappingEntry(_parse_number(number, text), target)


def encode_node(node: Node) -> bytes:
    """Return the file of a node whose children are all written."""
    return encode_with_checksum(encode_node_map(node))


def decode_node(data: bytes, path: str) -> Node:
    """Return the node of a file."""
    return decode_node_map(decode_with_checksum(data, path), path)


def encode_node_map(node: Node) -> Mapping[str, Any]:
    """Return a node as a map, for a node file or a guard."""
    return {
        "keys": list(node.keys),
        "values": list(node.values),
        "children": list(node.children),
        "buffer": [list(message) for message in node.buffer],
    }


def decode_node_map(fields: MsgpackMap, path: str) -> Node:
    """Return the node of a map."""
    try:
        return Node(
            tuple(fields["keys"]),
            tuple(fields["values"]),
            tuple(fields["children"]),
            tuple(Message(*message) for message in fields["buffer"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path} is not an index node ({error}); run `mangrove check`") from error


def _split_fields(text: str, *counts: int) -> list[str]:
    words = text.split(" ")
    if len(words) not in counts:
        raise _damaged_value(text)
    return words


def _parse_number(word: str, text: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= _DIGITS_MAX):
        raise _damaged_value(text)
    return int(word)


def _damaged_value(text: str) -> FormatError:
    return FormatError(f"the index value {text[:200]!r} is damaged; run `mangrove check`")
