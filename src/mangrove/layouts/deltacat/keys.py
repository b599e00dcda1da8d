"""The keys of the index: one for each name, each object, and each sequence of numbered files.

    1 <namespace's name>                 → its folder              4 <shared transaction's name> → its folder
    2 <namespace's id> <table's name>    → its folder              3 … the same for views
    5 … 8 <the parts of the locator>     → its newest revision
    o <folder>                           → the newest revision of an object that has a name
    x <folder>                           → how many revisions an object had before it was deleted
    y <mapping folder>                   → how many files it has, and the id that the newest leads to

Parts are joined by a character that is less than all that a name or an id may
hold, so that keys sort as locators do. Numbers have a fixed width.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from mangrove.errors import FormatError, InvalidInputError
from mangrove.layouts.deltacat.paths import OURS
from mangrove.layouts.deltacat.version_words import version_number, version_text
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
    "Below",
    "KeyRange",
    "below_of",
    "deleted_key",
    "folder_in",
    "folder_of",
    "key_of_below",
    "key_parts",
    "live_key",
    "locator_of_below",
    "mapping_folder_of",
    "mapping_key",
    "name_key",
    "name_of",
    "namespace_id_of",
    "object_key",
    "range_below",
    "range_of_kind",
    "range_of_mappings",
    "sort_of",
]

Below: TypeAlias = TableVersionLocator | StreamLocator | PartitionLocator | DeltaLocator
"""Locators of what lies below a table, which hold ids only."""

_SEPARATOR: Final = "\t"
_DIGITS: Final = 19
_VERSION_PLACE, _POSITION_PLACE = 2, 5
_READ: Final[dict[int, Callable[[str], int]]] = {_VERSION_PLACE: version_number, _POSITION_PLACE: int}
"""Which parts of a locator are numbers, and how the name of a folder is read as one."""
_LAST_CHARACTER: Final = 0x10FFFF
_BELOW: Final[dict[Kind, type[Below]]] = {
    Kind.TABLE_VERSION: TableVersionLocator,
    Kind.STREAM: StreamLocator,
    Kind.PARTITION: PartitionLocator,
    Kind.DELTA: DeltaLocator,
}

_TABLE_DEPTH: Final = 2
_KINDS_BELOW: Final = dict(enumerate(_BELOW, start=_TABLE_DEPTH + 1))
"""The kinds of objects below a table, by how many folders lead there."""


class KeyRange(NamedTuple):
    """All keys from `first` up to, but not with, `end`."""

    first: str
    end: str


def name_key(kind: Kind, namespace_id: str, name: str) -> str:
    """Return the key of a name; namespaces and shared transactions lie in no namespace."""
    return _joined(str(int(kind)), *([namespace_id] if kind in (Kind.TABLE, Kind.VIEW) else []), name)


def name_of(key: str) -> str:
    """Return the name whose key this is."""
    return key.rpartition(_SEPARATOR)[2]


def namespace_id_of(key: str) -> str:
    """Return the id of the namespace in which a table's or view's name lies."""
    return key.split(_SEPARATOR)[1]


def range_of_kind(kind: Kind, *parts: str) -> KeyRange:
    """Return where the keys of all objects of a kind lie, or of those that begin with some parts."""
    start = _joined(str(int(kind)), *parts, "")
    return KeyRange(start, _end_of(start))


def key_of_below(locator: Below) -> str:
    """Return the key of an object below a table."""
    return _joined(str(int(locator.kind)), *_texts(locator.parts))


def locator_of_below(key: str) -> Below:
    """Return the locator of an object below a table."""
    kind, *parts = key.split(_SEPARATOR)
    values = [int(part) if place in _READ else part for place, part in enumerate(parts)]
    return _BELOW[Kind(int(kind))](*values)  # type: ignore[arg-type]


def below_of(kind: Kind, parts: list[str]) -> Below:
    """Return the locator of an object below a table from the folders on the way to it."""
    try:
        values = [_READ[place](part) if place in _READ else part for place, part in enumerate(parts)]
        return _BELOW[kind](*values)  # type: ignore[arg-type]
    except (ValueError, TypeError, InvalidInputError, FormatError) as error:
        raise FormatError(f"{'/'.join(parts)} is no {kind.word} that Mangrove can show: {error}") from error


def key_parts(folders: list[str]) -> list[str]:
    """Return the parts of a folder on the way to an object as the keys have them: the table version is a number."""
    return [
        f"{version_number(part):0{_DIGITS}}" if place == _VERSION_PLACE else part for place, part in enumerate(folders)
    ]


def folder_of(locator: Below) -> str:
    """Return the folder of an object below a table."""
    namespace_id, table_id, _, *below = locator.parts
    return "/".join(map(str, (namespace_id, table_id, version_text(locator.version), *below)))


def object_key(folder: str) -> str:
    """Return the key of the newest revision of an object that has a name."""
    return _joined("o", folder)


def live_key(folder: str) -> str:
    """Return the key under which the index has the newest revision of the object in a folder, whatever its kind."""
    parts = folder.split("/")
    if folder.startswith(OURS) or len(parts) <= _TABLE_DEPTH:
        return object_key(folder)
    kind = _KINDS_BELOW.get(len(parts))
    if kind is None:
        raise FormatError(f"{folder} lies deeper than any object: run `mangrove check`")
    return key_of_below(below_of(kind, parts))


def deleted_key(folder: str) -> str:
    """Return the key under which a deleted object's last revision number is kept."""
    return _joined("x", folder)


def sort_of(key: str) -> str:
    """Return which sort of key it is: the digit of a kind, or a letter."""
    return key[0]


def folder_in(key: str) -> str:
    """Return the folder whose key this is, of an object that has a name or of a mapping."""
    return key.partition(_SEPARATOR)[2]


def mapping_key(folder: str) -> str:
    """Return the key of the newest file of a mapping folder."""
    return _joined("y", folder)


def range_of_mappings() -> KeyRange:
    """Return where the keys of all mapping folders lie."""
    start = mapping_key("")
    return KeyRange(start, _end_of(start))


def mapping_folder_of(key: str) -> str:
    """Return the mapping folder whose key this is.

    >>> mapping_folder_of(mapping_key("sales/4f8a"))
    'sales/4f8a'
    """
    return key.removeprefix(mapping_key(""))


def range_below(kind: Kind, parent: Parent, namespace_id: str, prefix: str, after: Locator | None) -> KeyRange:
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
    start = _joined(str(int(kind)), *parts, prefix)
    first = start
    match after:
        case None:
            pass
        case NamespaceLocator() | SharedTransactionLocator() | TableLocator() | ViewLocator():
            first = max(start, name_key(kind, namespace_id, after.name) + "\0")
        case _:
            first = max(start, key_of_below(after) + "\0")
    return KeyRange(first, _end_of(start))


def _joined(*parts: str) -> str:
    return _SEPARATOR.join(parts)


def _texts(parts: tuple[str | int, ...]) -> list[str]:
    return [f"{part:0{_DIGITS}}" if isinstance(part, int) else part for part in parts]


def _end_of(prefix: str) -> str:
    """Return the least text that is greater than all that start with `prefix`."""
    kept = prefix.rstrip(chr(_LAST_CHARACTER))
    following = ord(kept[-1]) + 1
    # Surrogates are no characters, and no file could hold them.
    return kept[:-1] + chr(0xE000 if 0xD800 <= following < 0xE000 else following)
