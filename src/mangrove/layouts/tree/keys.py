"""The order-preserving encoding of locators as tree keys.

Every part has a shape with a known end, and is filled up with spaces, which sort
before every character that a name may have:

    name        padded to the most UTF-8 bytes that the lakehouse allows
    identifier  padded to 36 bytes and closed by one more space; a longer one is only closed
    number      decimal digits, zeros in front

What lies below a table carries the table's id in place of its names, so that
renaming a table or a namespace leaves all of it where it is.

The tree key of a table starts with its namespace's name. Were it always the
present name, renaming a namespace would write every table in it anew. So a
namespace keeps the name that it had when it was made as its *key name*, and the
root says which namespaces go by another name now: as many as were ever renamed,
usually none.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from mangrove.errors import FormatError, InvalidInputError
from mangrove.model.locators import (
    DeltaLocator,
    Kind,
    Locator,
    NamespaceLocator,
    PartitionLocator,
    SharedTransactionLocator,
    StreamLocator,
    TableLocator,
    TableVersionLocator,
    ViewLocator,
)

__all__ = [
    "IDENTIFIER_BYTES_MAX",
    "JAVA_KEYS",
    "NEWER_KEYS",
    "OLDER_KEYS",
    "KeyEncoding",
    "KeyNames",
    "KeyParts",
    "NameSizes",
    "Part",
    "TreeKeyRange",
    "encode_schema_id",
    "locator_of_parts",
    "parts_of_locator",
]

IDENTIFIER_BYTES_MAX = 100
_IDENTIFIER_WIDTH = len("6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8")
_NUMBER_DIGITS = 20
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_TEXT = re.compile("[^\x00-\x20\x7f/\ud800-\udfff]+")

Part = str | int


class KeyParts(NamedTuple):
    """What a tree key says: the kind of the object, and the parts of the way to it, outermost first."""

    kind: Kind
    parts: tuple[Part, ...]


class TreeKeyRange(NamedTuple):
    """The tree keys from `first` on and before `end`."""

    first: str
    end: str


@dataclass(frozen=True, slots=True)
class NameSizes:
    """How many UTF-8 bytes names may have, as the definition of the lakehouse says.

    Views count as tables where they have no size of their own.
    """

    namespace_bytes_max: int = 100
    table_bytes_max: int = 100
    view_bytes_max: int | None = None

    def __post_init__(self) -> None:
        if min(self.namespace_bytes_max, self.table_bytes_max, self.view_bytes_max or 1) < 1:
            raise ValueError(f"{self}: a name has at least one byte")


class _Shape(Enum):
    NAMESPACE_NAME = "namespace name"
    TABLE_NAME = "table name"
    VIEW_NAME = "view name"
    IDENTIFIER = "identifier"
    TABLE_VERSION = "table version"
    POSITION = "stream position"


_DIGITS = {_Shape.TABLE_VERSION: _NUMBER_DIGITS, _Shape.POSITION: _NUMBER_DIGITS}

# The lakehouse itself has no tree key: a system row of the root points to it.
_SHAPES: Mapping[Kind, tuple[_Shape, ...]] = {
    Kind.NAMESPACE: (_Shape.NAMESPACE_NAME,),
    Kind.TABLE: (_Shape.NAMESPACE_NAME, _Shape.TABLE_NAME),
    Kind.VIEW: (_Shape.NAMESPACE_NAME, _Shape.VIEW_NAME),
    Kind.SHARED_TRANSACTION: (_Shape.IDENTIFIER,),
    Kind.TABLE_VERSION: (_Shape.IDENTIFIER, _Shape.TABLE_VERSION),
    Kind.STREAM: (_Shape.IDENTIFIER, _Shape.TABLE_VERSION, _Shape.IDENTIFIER),
    Kind.PARTITION: (_Shape.IDENTIFIER, _Shape.TABLE_VERSION, _Shape.IDENTIFIER, _Shape.IDENTIFIER),
    Kind.DELTA: (_Shape.IDENTIFIER, _Shape.TABLE_VERSION, _Shape.IDENTIFIER, _Shape.IDENTIFIER, _Shape.POSITION),
}


def _usual_pattern(shapes: Sequence[_Shape]) -> re.Pattern[str] | None:
    """Return what finds the parts of a key that has no names, where every id is as long as a UUID."""
    if not set(shapes) <= {_Shape.IDENTIFIER, *_DIGITS}:
        return None
    identifier = rf"([!-.0-~]{{{_IDENTIFIER_WIDTH}}}) "
    return re.compile("".join(rf"(\d{{{_DIGITS[one]}}})" if one in _DIGITS else identifier for one in shapes), re.ASCII)


_USUAL: Mapping[Kind, re.Pattern[str]] = {
    kind: pattern for kind, shapes in _SHAPES.items() if (pattern := _usual_pattern(shapes)) is not None
}
"""How most keys below tables look: a table's log has thousands of them, and one match reads such a key."""
_NUMBERS: Mapping[Kind, frozenset[int]] = {
    kind: frozenset(place for place, shape in enumerate(shapes) if shape in _DIGITS) for kind, shapes in _SHAPES.items()
}


def _usual_parts(kind: Kind, text: str) -> tuple[Part, ...] | None:
    """Return the parts of a key of the usual form, or None where it has another."""
    pattern = _USUAL.get(kind)
    match = None if pattern is None else pattern.fullmatch(text)
    if match is None:
        return None
    numbers = _NUMBERS[kind]
    return tuple([int(part) if place in numbers else part for place, part in enumerate(match.groups())])


def encode_schema_id(schema_id: int) -> str:
    """Return the four characters that stand for a schema id in a tree key.

    >>> encode_schema_id(2)
    'C==='
    """
    return _ALPHABET[schema_id] + "==="


@dataclass(frozen=True, slots=True)
class KeyEncoding:
    """How one format revision frames the parts of a tree key: what stands before and after them.

    Sizes count bytes of UTF-8. The Java programs count their own characters, which
    are halves of UTF-16, so theirs is another `codec` with another `unit_bytes`.
    """

    before: Mapping[Kind, str]
    after: Mapping[Kind, str]
    codec: str = "utf-8"
    unit_bytes: int = 1
    _frames: tuple[tuple[str, str, Kind], ...] = field(init=False, repr=False, compare=False)
    """What stands before and after the parts, for each kind in turn."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_frames", tuple((self.before[one], self.after[one], one) for one in _SHAPES))
        if len(_SHAPES) not in {len(set(self.before.values())), len(set(self.after.values()))}:
            raise ValueError("two kinds of objects would share their tree keys")

    def key_of(self, kind: Kind, parts: Sequence[Part], sizes: NameSizes) -> str:
        """Return the tree key of the object of that kind to which the parts lead.

        >>> NEWER_KEYS.key_of(Kind.TABLE, ("default", "table"), NameSizes(8, 8))
        'C===default table   '
        """
        shapes = _SHAPES.get(kind, ())
        if not shapes:
            raise InvalidInputError(f"a {kind.word} has no tree key")
        if len(parts) != len(shapes):
            raise InvalidInputError(f"the way to a {kind.word} has {len(shapes)} parts, not {len(parts)}: {parts!r}")
        return self.before[kind] + self._written(shapes, parts, sizes) + self.after[kind]

    def parts_of(self, key: str, sizes: NameSizes) -> KeyParts:
        """Return what the tree key says; one that no object can have is a `FormatError`."""
        for before, after, kind in self._frames:
            if key.startswith(before) and key.endswith(after) and len(key) > len(before) + len(after):
                text = key[len(before) : len(key) - len(after)]
                parts = _usual_parts(kind, text) or self._read(_SHAPES[kind], text, sizes)
                if parts is not None:
                    return KeyParts(kind, parts)
        raise FormatError(f"{key!r} is not the tree key of any object: run `mangrove check`")

    def range_below(
        self,
        kind: Kind,
        parent: Sequence[Part],
        sizes: NameSizes,
        *,
        name_prefix: str = "",
        after: Part | None = None,
    ) -> TreeKeyRange:
        """Return where the tree keys of the objects of that kind below `parent` lie.

        A parent that is more than one level up stands for everything of that kind
        below it. `name_prefix` and `after` (the last one already seen) need the
        direct parent. Other keys may lie in the range too: `is_of_kind` tells.
        """
        shapes = _SHAPES[kind]
        if len(parent) >= len(shapes) or ((name_prefix or after is not None) and len(parent) != len(shapes) - 1):
            raise InvalidInputError(f"{tuple(parent)!r} is not what a {kind.word} lies directly below")
        if name_prefix:
            if shapes[-1] in _DIGITS:
                raise InvalidInputError(f"a {kind.word} has a number and not a name that could start so")
            _check_text(name_prefix, "prefix of a name")
        start = self.before[kind] + self._written(shapes[: len(parent)], parent, sizes)
        first = start + name_prefix
        if after is not None:
            # No key is a beginning of another one of its kind, so this is the very next text.
            first = max(first, start + self._written(shapes[len(parent) :], (after,), sizes) + self.after[kind] + "\0")
        end = _after_all_with_prefix(start + name_prefix)
        return TreeKeyRange(min(first, end), end)

    def is_of_kind(self, key: str, kind: Kind, sizes: NameSizes) -> bool:
        """Return whether a key that was found in a range of that kind belongs there."""
        return self.parts_of(key, sizes).kind is kind

    def _written(self, shapes: Sequence[_Shape], parts: Sequence[Part], sizes: NameSizes) -> str:
        return "".join(self._part_written(shape, part, sizes) for shape, part in zip(shapes, parts, strict=True))

    def _part_written(self, shape: _Shape, part: Part, sizes: NameSizes) -> str:
        digits = _DIGITS.get(shape)
        if digits is not None:
            if not isinstance(part, int) or not 0 <= part < 10**digits:
                raise InvalidInputError(
                    f"{part!r} is not a {shape.value}: that is a whole number of up to {digits} digits"
                )
            return f"{part:0{digits}d}"
        if not isinstance(part, str):
            raise InvalidInputError(f"{part!r} is not a {shape.value}: that is a text")
        _check_text(part, shape.value)
        size, size_max = self._size(part), _bytes_max(shape, sizes)
        if size > size_max:
            raise InvalidInputError(f"the {shape.value} {part!r} has {size} bytes; this lakehouse allows {size_max}")
        return part + " " * (max(_IDENTIFIER_WIDTH + 1 - size, 1) if shape is _Shape.IDENTIFIER else size_max - size)

    def _read(self, shapes: Sequence[_Shape], text: str, sizes: NameSizes) -> tuple[Part, ...] | None:
        """Return the parts, or None where `text` was not written by `_written` with these shapes."""
        parts: list[Part] = []
        rest = text
        try:
            for shape in shapes:
                part, rest = self._first_part(shape, rest, sizes)
                parts.append(part)
            if rest or self._written(shapes, parts, sizes) != text:
                return None
        except (InvalidInputError, ValueError):
            return None
        return tuple(parts)

    def _first_part(self, shape: _Shape, text: str, sizes: NameSizes) -> tuple[Part, str]:
        digits = _DIGITS.get(shape)
        if digits is not None:
            return int(text[:digits]), text[digits:]
        if shape is _Shape.IDENTIFIER:
            end = text.index(" ")
            return text[:end], text[end + max(_IDENTIFIER_WIDTH + 1 - self._size(text[:end]), 1) :]
        width = _bytes_max(shape, sizes)
        if text.isascii():
            return text[:width].rstrip(" "), text[width:]
        data = text.encode(self.codec)
        cut = width * self.unit_bytes
        return data[:cut].decode(self.codec).rstrip(" "), data[cut:].decode(self.codec)

    def _size(self, text: str) -> int:
        return len(text) if text.isascii() else len(text.encode(self.codec)) // self.unit_bytes


def parts_of_locator(locator: Locator, namespace_key_name: str | None = None) -> KeyParts:
    """Return what the tree key of the object says.

    A namespace that was renamed keeps the name under which its tables and views
    are filed: for those, `namespace_key_name` is that name.
    """
    if isinstance(locator, TableLocator | ViewLocator):
        return KeyParts(locator.kind, (namespace_key_name or locator.namespace, locator.name))
    if isinstance(locator, NamespaceLocator | SharedTransactionLocator):
        return KeyParts(locator.kind, locator.parts)
    # A table's id is enough: it is unique in the lakehouse, whatever namespace it was born in.
    return KeyParts(locator.kind, locator.parts[1:])


def locator_of_parts(way: KeyParts, *, namespace: str | None = None, namespace_id: str | None = None) -> Locator:
    """Return the locator of the object that a tree key names.

    `namespace` is the present name of the namespace where it differs from the
    one in the key; `namespace_id`, needed for what lies below a table, is not in
    the key at all.
    """
    match way:
        case (Kind.NAMESPACE, (str(name),)):
            return NamespaceLocator(name)
        case (Kind.SHARED_TRANSACTION, (str(name),)):
            return SharedTransactionLocator(name)
        case (Kind.TABLE, (str(key_name), str(name))):
            return TableLocator(namespace or key_name, name)
        case (Kind.VIEW, (str(key_name), str(name))):
            return ViewLocator(namespace or key_name, name)
    if namespace_id is None:
        raise InvalidInputError(f"the locator of a {way.kind.word} needs the id of the table's namespace")
    match way:
        case (Kind.TABLE_VERSION, (str(table_id), int(version))):
            return TableVersionLocator(namespace_id, table_id, version)
        case (Kind.STREAM, (str(table_id), int(version), str(stream_id))):
            return StreamLocator(namespace_id, table_id, version, stream_id)
        case (Kind.PARTITION, (str(table_id), int(version), str(stream_id), str(partition_id))):
            return PartitionLocator(namespace_id, table_id, version, stream_id, partition_id)
        case (Kind.DELTA, (str(table_id), int(version), str(stream_id), str(partition_id), int(position))):
            return DeltaLocator(namespace_id, table_id, version, stream_id, partition_id, position)
    raise InvalidInputError(f"{way!r} leads to no object")


def _newer() -> KeyEncoding:
    return KeyEncoding(
        before={kind: encode_schema_id(kind) for kind in _SHAPES},
        after=dict.fromkeys(_SHAPES, ""),
    )


def _older() -> KeyEncoding:
    """Only the ids of namespaces and tables are given; 2, between them, may mean something to another program.

    Objects that only we write also have their id in front, so that those below one
    parent are neighbours in this format revision too.
    """
    ids: Mapping[Kind, int] = {kind: kind for kind in _SHAPES} | {Kind.TABLE: 3, Kind.VIEW: 9}
    given = {Kind.NAMESPACE, Kind.TABLE}
    return KeyEncoding(
        before={kind: " " if kind in given else " " + encode_schema_id(ids[kind]) for kind in _SHAPES},
        after={kind: encode_schema_id(ids[kind]) for kind in _SHAPES},
    )


NEWER_KEYS = _newer()
OLDER_KEYS = _older()
JAVA_KEYS = replace(NEWER_KEYS, codec="utf-16-le", unit_bytes=2)


def _bytes_max(shape: _Shape, sizes: NameSizes) -> int:
    if shape is _Shape.NAMESPACE_NAME:
        return sizes.namespace_bytes_max
    if shape is _Shape.VIEW_NAME:
        return sizes.view_bytes_max or sizes.table_bytes_max
    return sizes.table_bytes_max if shape is _Shape.TABLE_NAME else IDENTIFIER_BYTES_MAX


def _check_text(text: str, what: str) -> None:
    if _TEXT.fullmatch(text) is None:
        raise InvalidInputError(
            f"{text!r} cannot be a {what}: it is empty or has a space, a control character, a slash or half a surrogate"
        )


def _after_all_with_prefix(prefix: str) -> str:
    """Return the least text that is greater than every text that starts with `prefix`.

    Every prefix here starts with a character that has a successor, so there is one.
    """
    stem = prefix.rstrip("\U0010ffff")
    return stem[:-1] + ("\ue000" if stem[-1] == "\ud7ff" else chr(ord(stem[-1]) + 1))


@dataclass(frozen=True, slots=True)
class KeyNames:
    """The key name of each namespace that has another name now."""

    renamed: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def key_name_of(self, name: str) -> str | None:
        """Return the name under which the tables of the namespace `name` are filed.

        None means that there is no such namespace: the name was left behind by one
        that still files its tables under it.
        """
        found = self.renamed.get(name)
        return name if found is None and name not in self.renamed.values() else found

    def name_filed_under(self, key_name: str) -> str | None:
        """Return the present name of the namespace whose tables are filed under `key_name`; None if there is none."""
        for name, filed in self.renamed.items():
            if filed == key_name:
                return name
        return None if key_name in self.renamed else key_name

    def after(self, before: Mapping[str, str], now: Mapping[str, str], bytes_max: int) -> "KeyNames":
        """Return the key names after a transaction.

        `before` and `now` hold the ids of the namespaces that it wrote or deleted, by
        their names then and now. A namespace that is new under a name which still
        files another's tables is given its id as key name.
        """
        former = {namespace_id: name for name, namespace_id in before.items()}
        renamed = {name: key for name, key in self.renamed.items() if name not in before and name not in now}
        for name, namespace_id in now.items():
            if namespace_id in former:
                renamed[name] = self.key_name_of(former[namespace_id]) or former[namespace_id]
        for name, namespace_id in now.items():
            if namespace_id not in former:
                renamed[name] = _choose_key_name(name, namespace_id, set(renamed.values()), bytes_max)
        return KeyNames(MappingProxyType({name: key for name, key in sorted(renamed.items()) if name != key}))

    def encode(self) -> str:
        """Return the text of the root's system row; empty where no namespace was renamed."""
        return json.dumps(dict(self.renamed), ensure_ascii=False, separators=(",", ":")) if self.renamed else ""

    @staticmethod
    def decode(text: str, path: str) -> "KeyNames":
        """Return what the system row of the root at `path` says."""
        if not text:
            return KeyNames()
        try:
            renamed = json.loads(text)
        except ValueError as error:
            raise FormatError(f"{path}: its list of renamed namespaces is not JSON ({error})") from error
        if not isinstance(renamed, dict) or not all(isinstance(key, str) for key in renamed.values()):
            raise FormatError(f"{path}: its list of renamed namespaces does not map names to names")
        return KeyNames(MappingProxyType(renamed))


def _choose_key_name(name: str, namespace_id: str, taken: set[str], bytes_max: int) -> str:
    """Return `name` if no other namespace's tables are filed under it, else the like of its id."""
    for candidate in (name, namespace_id.encode()[:bytes_max].decode(errors="ignore")):
        if candidate not in taken:
            return candidate
    for number in range(len(taken) + 1):
        candidate = f"{number}"[-bytes_max:]
        if candidate not in taken:
            return candidate
    raise FormatError(f"no key name of {bytes_max} bytes is left for the namespace {name!r}")
