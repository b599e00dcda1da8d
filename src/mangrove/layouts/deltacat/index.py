"""Keys, values and node files of the catalog index.

    1 <namespace's name>                 → its folder              4 <shared transaction's name> → its folder
    2 <namespace's id> <table's name>    → its folder              3 … the same for views
    5 … 8 <the parts of the locator>     → its newest revision
    o <folder>                           → the newest revision of an object that has a name
    x <folder>                           → how many revisions an object had before it was deleted
    y <mapping folder>                   → how many files it has, and the id that the newest leads to

Parts are joined by a character that is less than all that a name or an id may
hold, so that keys sort as locators do. Numbers have a fixed width.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from mangrove.betree.node import Message, Node, Shape
from mangrove.errors import FormatError, InvalidInputError
from mangrove.layouts.deltacat.fields import format_table_version, parse_table_version
from mangrove.layouts.deltacat.msgpack_maps import MsgpackMap, decode_with_checksum, encode_with_checksum
from mangrove.layouts.deltacat.paths import MANGROVE_FOLDER, NumberedFile
from mangrove.metastore import Parent
from mangrove.model.locators import (
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
"""Locators of what lies below a table, which hold ids only."""

_SEPARATOR: Final = "\t"
_DIGITS: Final = 19
_VERSION_PLACE, _POSITION_PLACE = 2, 5
_READ: Final[dict[int, Callable[[str], int]]] = {_VERSION_PLACE: parse_table_version, _POSITION_PLACE: int}
"""Which parts of a locator are numbers, and how the name of a folder is read as one."""
_LAST_CHARACTER: Final = 0x10FFFF
_BELOW: Final[dict[Kind, type[TableDescendantLocator]]] = {
    Kind.TABLE_VERSION: TableVersionLocator,
    Kind.STREAM: StreamLocator,
    Kind.PARTITION: PartitionLocator,
    Kind.DELTA: DeltaLocator,
}

_TABLE_DEPTH: Final = 2
_KINDS_BELOW: Final = dict(enumerate(_BELOW, start=_TABLE_DEPTH + 1))
"""The kinds of objects below a table, by how many folders lead there."""


class IndexKeyRange(NamedTuple):
    """All keys from `first` up to, but not with, `end`."""

    first: str
    end: str


def name_key(kind: Kind, namespace_id: str, name: str) -> str:
    """Return the key of a name; namespaces and shared transactions lie in no namespace."""
    return _join_parts(str(int(kind)), *([namespace_id] if kind in (Kind.TABLE, Kind.VIEW) else []), name)


def name_of(key: str) -> str:
    """Return the name whose key this is."""
    return key.rpartition(_SEPARATOR)[2]


def namespace_id_of(key: str) -> str:
    """Return the id of the namespace in which a table's or view's name lies."""
    return key.split(_SEPARATOR)[1]


def range_of_kind(kind: Kind, *parts: str) -> IndexKeyRange:
    """Return where the keys of all objects of a kind lie, or of those that begin with some parts."""
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


def locator_from_parts(kind: Kind, parts: list[str]) -> TableDescendantLocator:
    """Return the locator of an object below a table from the folders on the way to it."""
    try:
        values = [_READ[place](part) if place in _READ else part for place, part in enumerate(parts)]
        return _BELOW[kind](*values)  # type: ignore[arg-type]
    except (ValueError, TypeError, InvalidInputError, FormatError) as error:
        raise FormatError(f"{'/'.join(parts)} is no {kind.word} that Mangrove can show: {error}") from error


def key_parts(folders: list[str]) -> list[str]:
    """Return the parts of a folder on the way to an object as the keys have them: the table version is a number."""
    return [
        f"{parse_table_version(part):0{_DIGITS}}" if place == _VERSION_PLACE else part
        for place, part in enumerate(folders)
    ]


def folder_of(locator: TableDescendantLocator) -> str:
    """Return the folder of an object below a table."""
    namespace_id, table_id, _, *below = locator.parts
    return "/".join(map(str, (namespace_id, table_id, format_table_version(locator.version), *below)))


def object_key(folder: str) -> str:
    """Return the key of the newest revision of an object that has a name."""
    return _join_parts("o", folder)


def live_key(folder: str) -> str:
    """Return the key under which the index has the newest revision of the object in a folder, whatever its kind."""
    parts = folder.split("/")
    if folder.startswith(MANGROVE_FOLDER) or len(parts) <= _TABLE_DEPTH:
        return object_key(folder)
    kind = _KINDS_BELOW.get(len(parts))
    if kind is None:
        raise FormatError(f"{folder} lies deeper than any object: run `mangrove check`")
    return key_of_locator(locator_from_parts(kind, parts))


def deleted_key(folder: str) -> str:
    """Return the key under which a deleted object's last revision number is kept."""
    return _join_parts("x", folder)


def key_class_of(key: str) -> str:
    """Return which sort of key it is: the digit of a kind, or a letter."""
    return key[0]


def folder_of_key(key: str) -> str:
    """Return the folder whose key this is, of an object that has a name or of a mapping."""
    return key.partition(_SEPARATOR)[2]


def mapping_key(folder: str) -> str:
    """Return the key of the newest file of a mapping folder."""
    return _join_parts("y", folder)


def range_of_mappings() -> IndexKeyRange:
    """Return where the keys of all mapping folders lie."""
    start = mapping_key("")
    return IndexKeyRange(start, _end_of(start))


def mapping_folder_of(key: str) -> str:
    """Return the mapping folder whose key this is.

    >>> mapping_folder_of(mapping_key("sales/4f8a"))
    'sales/4f8a'
    """
    return key.removeprefix(mapping_key(""))


def range_below(kind: Kind, parent: Parent, namespace_id: str, prefix: str, after: Locator | None) -> IndexKeyRange:
    """Return where the keys of the objects of a kind below a parent lie."""
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
        case NamespaceLocator() | SharedTransactionLocator() | TableLocator() | ViewLocator():
            first = max(start, name_key(kind, namespace_id, after.name) + "\0")
        case _:
            first = max(start, key_of_locator(after) + "\0")
    return IndexKeyRange(first, _end_of(start))


def _join_parts(*parts: str) -> str:
    return _SEPARATOR.join(parts)


def _texts(parts: tuple[str | int, ...]) -> list[str]:
    return [f"{part:0{_DIGITS}}" if isinstance(part, int) else part for part in parts]


def _end_of(prefix: str) -> str:
    """Return the least text that is greater than all that start with `prefix`."""
    kept = prefix.rstrip(chr(_LAST_CHARACTER))
    following = ord(kept[-1]) + 1
    # Surrogates are no characters, and no file could hold them.
    return kept[:-1] + chr(0xE000 if 0xD800 <= following < 0xE000 else following)


INDEX_SHAPE: Final = Shape(order=128, root_buffer_max=96, buffer_max=768, writes_max=3)
"""Fewer writes at once than the tree layout allows itself: a commit here also writes revisions, mappings and a log."""


@dataclass(frozen=True, slots=True)
class RevisionEntry:
    """The newest revision of an object, how many names lead to it, and the key of the name that was given last."""

    number: int
    operation: str
    transaction: str
    names: int = 0
    name: str = ""
    checksum: str = ""
    """That of the revision's file. It lies here because DeltaCAT reads the file; what DeltaCAT wrote has none."""

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
    """How many files a mapping folder has had, and what the newest leads to: nothing where it was deleted."""

    number: int = 0
    target: str = ""

    @property
    def text(self) -> str:
        """The value in the index."""
        return f"{self.number} {self.target}"


@dataclass(frozen=True, slots=True)
class NameEntry:
    """Where the object with a name lies, and the folder that maps the name to it for DeltaCAT.

    In the seed's form that folder is a digest of the namespace's name too, as it
    was when the name was given, so it cannot be found from the names of today.
    """

    folder: str
    mapping_folder: str = ""

    @property
    def text(self) -> str:
        """The value in the index."""
        return f"{self.folder} {self.mapping_folder}"


def parse_name_entry(text: str) -> NameEntry:
    """Return what a value of the index says of a name."""
    folder, _, mapping_folder = text.partition(" ")
    return NameEntry(folder, mapping_folder)


def parse_revision_entry(text: str) -> RevisionEntry:
    """Return the revision that a value of the index tells of."""
    number, operation, transaction, names, name, *checksum = _split_fields(text, 5, 6)
    return RevisionEntry(int(number), operation, transaction, int(names), name, *checksum)


def parse_mapping_entry(text: str | None) -> MappingEntry:
    """Return what a value of the index says of a mapping folder; None is a folder without files."""
    if text is None:
        return MappingEntry()
    number, target = _split_fields(text, 2)
    return MappingEntry(int(number), target)


def encode_node(node: Node) -> bytes:
    """Return the file of a node whose children are all written."""
    return encode_with_checksum(encode_node_map(node))


def decode_node(data: bytes, path: str) -> Node:
    """Return the node of a file."""
    return decode_node_map(decode_with_checksum(data, path), path)


def encode_node_map(node: Node) -> Mapping[str, Any]:
    """Return a node as a map, which is a file of its own or part of a guard."""
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
        raise FormatError(f"{path} holds no node of the index ({error}): run `mangrove check`") from error


def _split_fields(text: str, *counts: int) -> list[str]:
    words = text.split(" ")
    if len(words) not in counts or not words[0].isdigit():
        raise FormatError(f"the index holds {text!r}, which is damaged: run `mangrove check`")
    return words
