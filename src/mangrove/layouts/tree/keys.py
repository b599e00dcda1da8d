"""The order-preserving encoding of locators as tree keys.

Every part has a self-delimiting format and is padded with spaces, which sort
before every character that a name may contain:

    name        padded to the maximum number of UTF-8 bytes of the lakehouse
    identifier  padded to 36 bytes and terminated by one more space; a longer one is only terminated
    alias       its canonical string, in the form of an identifier
    number      decimal digits with leading zeros

Objects below a table carry the table id in place of its names, so renaming a
table or a namespace does not change their keys.

The tree key of a table starts with the name of its namespace. With the current
name, renaming a namespace would rewrite all its tables. A namespace therefore
keeps the name at its creation as its *key name*. The root lists the namespaces
whose current name differs, usually none.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from itertools import repeat
from types import MappingProxyType
from typing import Any, NamedTuple

from mangrove.errors import FormatError, InvalidInputError
from mangrove.metastore import ObjectRange
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
from mangrove.model.names import ID_BYTES_MAX

__all__ = [
    "JAVA_KEYS",
    "NEWER_KEYS",
    "OLDER_KEYS",
    "KeyEncoding",
    "KeyNames",
    "KeyParts",
    "LocatorKeyCodec",
    "NameSizes",
    "Part",
    "TreeKeyRange",
    "encode_schema_id",
    "locator_of_parts",
    "parts_of_locator",
]

_IDENTIFIER_WIDTH = len("6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8")
_NUMBER_DIGITS = 20
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_TEXT = re.compile("[^\x00-\x20\x7f/\ud800-\udfff]+")

Part = str | int


class KeyParts(NamedTuple):
    """The decoded tree key: the kind of the object and its locator parts, outermost first."""

    kind: Kind
    parts: tuple[Part, ...]


class TreeKeyRange(NamedTuple):
    """The tree keys from `first` (inclusive) to `end` (exclusive)."""

    first: str
    end: str


@dataclass(frozen=True, slots=True)
class NameSizes:
    """The maximum sizes of names in UTF-8 bytes, from the lakehouse definition.

    Views use the size of tables unless they have their own.
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
    ALIAS = "alias"
    TABLE_VERSION = "table version"
    POSITION = "stream position"


_DIGITS = {_Shape.TABLE_VERSION: _NUMBER_DIGITS, _Shape.POSITION: _NUMBER_DIGITS}

# The lakehouse itself has no tree key: a system row of the root points to it.
_TERMINATED = (_Shape.IDENTIFIER, _Shape.ALIAS)
_SHAPES: Mapping[Kind, tuple[_Shape, ...]] = {
    Kind.NAMESPACE: (_Shape.NAMESPACE_NAME,),
    Kind.TABLE: (_Shape.NAMESPACE_NAME, _Shape.TABLE_NAME),
    Kind.VIEW: (_Shape.NAMESPACE_NAME, _Shape.VIEW_NAME),
    Kind.SHARED_TRANSACTION: (_Shape.IDENTIFIER,),
    Kind.TABLE_VERSION: (_Shape.IDENTIFIER, _Shape.TABLE_VERSION),
    Kind.STREAM: (_Shape.IDENTIFIER, _Shape.TABLE_VERSION, _Shape.IDENTIFIER),
    Kind.PARTITION: (_Shape.IDENTIFIER, _Shape.TABLE_VERSION, _Shape.IDENTIFIER, _Shape.IDENTIFIER),
    Kind.DELTA: (_Shape.IDENTIFIER, _Shape.TABLE_VERSION, _Shape.IDENTIFIER, _Shape.IDENTIFIER, _Shape.POSITION),
    Kind.ALIAS: (_Shape.ALIAS,),
}


def _usual_pattern(shapes: Sequence[_Shape]) -> re.Pattern[str] | None:
    """Return a pattern for keys without names whose ids all have the length of a UUID."""
    if not set(shapes) <= {_Shape.IDENTIFIER, *_DIGITS}:
        return None
    identifier = rf"([!-.0-~]{{{_IDENTIFIER_WIDTH}}}) "
    return re.compile("".join(rf"(\d{{{_DIGITS[one]}}})" if one in _DIGITS else identifier for one in shapes), re.ASCII)


_USUAL: Mapping[Kind, re.Pattern[str]] = {
    kind: pattern for kind, shapes in _SHAPES.items() if (pattern := _usual_pattern(shapes)) is not None
}
"""A fast path: most keys below tables match one of these patterns, and a table has thousands of them."""
_NUMBERS: Mapping[Kind, frozenset[int]] = {
    kind: frozenset(place for place, shape in enumerate(shapes) if shape in _DIGITS) for kind, shapes in _SHAPES.items()
}


def _usual_parts(kind: Kind, text: str) -> tuple[Part, ...] | None:
    """Return the parts of a key that matches its `_USUAL` pattern, else None."""
    pattern = _USUAL.get(kind)
    match = None if pattern is None else pattern.fullmatch(text)
    if match is None:
        return None
    numbers = _NUMBERS[kind]
    return tuple([int(part) if place in numbers else part for place, part in enumerate(match.groups())])


_USUAL_FORMS: Mapping[Kind, str] = {
    kind: "".join(f"{{:0{_DIGITS[one]}d}}" if one in _DIGITS else "{} " for one in _SHAPES[kind]) for kind in _USUAL
}
_KINDS_BY_SHAPES: Mapping[tuple[_Shape, ...], Kind] = {_SHAPES[kind]: kind for kind in _USUAL}
_PARENT_KINDS: Mapping[tuple[Kind, int], Kind] = {
    (kind, size): _KINDS_BY_SHAPES[shapes[:size]]
    for kind, shapes in _SHAPES.items()
    for size in range(1, len(shapes))
    if shapes[:size] in _KINDS_BY_SHAPES
}
"""The kind whose keys have the same parts as the first parts of a key, by kind and number of parts."""


@lru_cache(maxsize=4096)
def _encode_usual_parts(kind: Kind, parts: tuple[Part, ...]) -> str | None:
    """Return the encoded parts if `_usual_parts` decodes them to the same parts, else None.

    The last ones are cached: all writes to a table need the keys of the same few objects.
    """
    form = _USUAL_FORMS.get(kind)
    if form is None:
        return None
    try:
        text = form.format(*parts)
    except (ValueError, TypeError, IndexError):
        return None
    return text if _usual_parts(kind, text) == parts else None


def encode_schema_id(schema_id: int) -> str:
    """Return the four characters that encode a schema id in a tree key.

    >>> encode_schema_id(2)
    'C==='
    """
    return _ALPHABET[schema_id] + "==="


@dataclass(frozen=True, slots=True)
class KeyEncoding:
    """The prefix and suffix of tree keys of each kind in one format revision.

    Sizes count UTF-8 bytes. The Java programs count UTF-16 code units, so their
    encoding has another `codec` and `unit_bytes`.
    """

    before: Mapping[Kind, str]
    after: Mapping[Kind, str]
    codec: str = "utf-8"
    unit_bytes: int = 1
    _frames: tuple[tuple[str, str, Kind], ...] = field(init=False, repr=False, compare=False)
    """Prefix, suffix and kind, for each kind."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_frames", tuple((self.before[one], self.after[one], one) for one in _SHAPES))
        if len(_SHAPES) not in {len(set(self.before.values())), len(set(self.after.values()))}:
            raise ValueError("two kinds of objects have the same tree key prefix and suffix")

    def key_of(self, kind: Kind, parts: Sequence[Part], sizes: NameSizes) -> str:
        """Return the tree key of the object of that kind with these locator parts.

        >>> NEWER_KEYS.key_of(Kind.TABLE, ("default", "table"), NameSizes(8, 8))
        'C===default table   '
        """
        shapes = _SHAPES.get(kind, ())
        if not shapes:
            raise InvalidInputError(f"a {kind.word} has no tree key")
        if len(parts) != len(shapes):
            raise InvalidInputError(
                f"the locator of a {kind.word} has {len(shapes)} parts, not {len(parts)}: {parts!r}"
            )
        text = _encode_usual_parts(kind, tuple(parts)) or self._encode_parts(shapes, parts, sizes)
        return self.before[kind] + text + self.after[kind]

    def parts_of(self, key: str, sizes: NameSizes) -> KeyParts:
        """Return the decoded tree key; raise `FormatError` for an invalid one."""
        for before, after, kind in self._frames:
            if key.startswith(before) and key.endswith(after) and len(key) > len(before) + len(after):
                text = key[len(before) : len(key) - len(after)]
                parts = _usual_parts(kind, text) or self._decode_parts(_SHAPES[kind], text, sizes)
                if parts is not None:
                    return KeyParts(kind, parts)
        raise FormatError(f"{key!r} is not a valid tree key; run `mangrove check`")

    def range_below(
        self,
        kind: Kind,
        parent: Sequence[Part],
        sizes: NameSizes,
        *,
        name_prefix: str = "",
        after: Part | None = None,
    ) -> TreeKeyRange:
        """Return the range that contains the tree keys of all objects of that kind below `parent`.

        `parent` may be more than one level up. `name_prefix` and `after` (the last key
        already seen) need the direct parent. The range may contain keys of other kinds:
        filter them with `is_of_kind`.
        """
        shapes = _SHAPES[kind]
        if len(parent) >= len(shapes) or ((name_prefix or after is not None) and len(parent) != len(shapes) - 1):
            raise InvalidInputError(f"{tuple(parent)!r} is not the direct parent of a {kind.word}")
        if name_prefix:
            if shapes[-1] in _DIGITS:
                raise InvalidInputError(f"a {kind.word} has a number, not a name; a name prefix is not supported")
            _check_text(name_prefix, "name prefix")
        like = _PARENT_KINDS.get((kind, len(parent)))
        usual = None if like is None else _encode_usual_parts(like, tuple(parent))
        start = self.before[kind] + (usual or self._encode_parts(shapes[: len(parent)], parent, sizes))
        first = start + name_prefix
        if after is not None:
            # No key is a prefix of another key of its kind, so this is the next string.
            first = max(
                first, start + self._encode_parts(shapes[len(parent) :], (after,), sizes) + self.after[kind] + "\0"
            )
        end = _after_all_with_prefix(start + name_prefix)
        return TreeKeyRange(min(first, end), end)

    def is_of_kind(self, key: str, kind: Kind, sizes: NameSizes) -> bool:
        """Return whether a key from a range of that kind belongs to an object of that kind."""
        return self.parts_of(key, sizes).kind is kind

    def _encode_parts(self, shapes: Sequence[_Shape], parts: Sequence[Part], sizes: NameSizes) -> str:
        return "".join(self._encode_part(shape, part, sizes) for shape, part in zip(shapes, parts, strict=True))

    def _encode_part(self, shape: _Shape, part: Part, sizes: NameSizes) -> str:
        digits = _DIGITS.get(shape)
        if digits is not None:
            if not isinstance(part, int) or not 0 <= part < 10**digits:
                raise InvalidInputError(
                    f"{part!r} is not a {shape.value}; expected an integer of up to {digits} digits"
                )
            return f"{part:0{digits}d}"
        if not isinstance(part, str):
            raise InvalidInputError(f"{part!r} is not a {shape.value}; expected a string")
        _check_text(part, shape.value)
        size, size_max = self._size(part), _bytes_max(shape, sizes)
        if size > size_max:
            raise InvalidInputError(
                f"the {shape.value} {part!r} has {size} bytes; this lakehouse allows at most {size_max}"
            )
        return part + " " * (max(_IDENTIFIER_WIDTH + 1 - size, 1) if shape in _TERMINATED else size_max - size)

    def _decode_parts(self, shapes: Sequence[_Shape], text: str, sizes: NameSizes) -> tuple[Part, ...] | None:
        """Return the parts, or None if `text` is not the encoding of parts with these shapes."""
        parts: list[Part] = []
        rest = text
        try:
            for shape in shapes:
                part, rest = self._decode_first_part(shape, rest, sizes)
                parts.append(part)
            if rest or self._encode_parts(shapes, parts, sizes) != text:
                return None
        except (InvalidInputError, ValueError):
            return None
        return tuple(parts)

    def _decode_first_part(self, shape: _Shape, text: str, sizes: NameSizes) -> tuple[Part, str]:
        digits = _DIGITS.get(shape)
        if digits is not None:
            return int(text[:digits]), text[digits:]
        if shape in _TERMINATED:
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
    """Return the parts of the object's tree key.

    For tables and views of a renamed namespace, `namespace_key_name` is the key
    name of the namespace.
    """
    if isinstance(locator, TableLocator | ViewLocator):
        return KeyParts(locator.kind, (namespace_key_name or locator.namespace, locator.name))
    if isinstance(locator, NamespaceLocator | SharedTransactionLocator | AliasLocator):
        return KeyParts(locator.kind, locator.parts)
    # The table id suffices: it is unique in the lakehouse.
    return KeyParts(locator.kind, locator.parts[1:])


def locator_of_parts(key_parts: KeyParts, *, namespace: str | None = None, namespace_id: str | None = None) -> Locator:
    """Return the locator of the object with these tree key parts.

    `namespace` is the current name of the namespace if it differs from the key name.
    `namespace_id` is required for objects below a table; tree keys do not contain it.
    """
    kind, parts = key_parts
    locator: Any = _LOCATORS.get(kind)
    if locator is None or len(parts) != len(_SHAPES[kind]):
        raise InvalidInputError(f"{key_parts!r} is not a valid tree key")
    if kind in (Kind.TABLE, Kind.VIEW):
        return locator(namespace or parts[0], parts[1])  # type: ignore[no-any-return]
    if not kind.is_below_table:
        return locator(*parts)  # type: ignore[no-any-return]
    if namespace_id is None:
        raise InvalidInputError(f"the locator of a {kind.word} needs the id of the table's namespace")
    return locator(namespace_id, *parts)  # type: ignore[no-any-return]


_LOCATORS: Mapping[Kind, type[Locator]] = {
    one.kind: one
    for one in (
        NamespaceLocator, TableLocator, ViewLocator, SharedTransactionLocator, AliasLocator,
        TableVersionLocator, StreamLocator, PartitionLocator, DeltaLocator,
    )
}  # fmt: skip


def _newer() -> KeyEncoding:
    return KeyEncoding(
        before={kind: encode_schema_id(kind) for kind in _SHAPES},
        after=dict.fromkeys(_SHAPES, ""),
    )


def _older() -> KeyEncoding:
    """The specification defines the ids of namespaces and tables only; 2, between them, may be used elsewhere.

    Objects of other kinds have their id as a prefix too, so that the children of one
    parent are neighbours.
    """
    ids: Mapping[Kind, int] = {kind: kind for kind in _SHAPES} | {Kind.TABLE: 3, Kind.VIEW: 9, Kind.ALIAS: 10}
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
    if shape is _Shape.ALIAS:
        return sizes.namespace_bytes_max + len("|") + sizes.table_bytes_max
    return sizes.table_bytes_max if shape is _Shape.TABLE_NAME else ID_BYTES_MAX


def _check_text(text: str, what: str) -> None:
    if _TEXT.fullmatch(text) is None:
        raise InvalidInputError(
            f"{text!r} is not a valid {what}: empty, or has a space, control character, slash or lone surrogate"
        )


def _after_all_with_prefix(prefix: str) -> str:
    """Return the least string that is greater than every string that starts with `prefix`.

    Every prefix here starts with a character that has a successor, so it exists.
    """
    stem = prefix.rstrip("\U0010ffff")
    return stem[:-1] + ("\ue000" if stem[-1] == "\ud7ff" else chr(ord(stem[-1]) + 1))


@dataclass(frozen=True, slots=True)
class KeyNames:
    """The key names of the renamed namespaces, by current name."""

    renamed: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def key_name_of(self, name: str) -> str | None:
        """Return the key name of the namespace `name`.

        None means that no such namespace exists: `name` is a former name and the key
        name of a renamed namespace.
        """
        key_name = self.renamed.get(name)
        return name if key_name is None and name not in self.renamed.values() else key_name

    def name_filed_under(self, key_name: str) -> str | None:
        """Return the current name of the namespace with this key name, or None."""
        for name, filed in self.renamed.items():
            if filed == key_name:
                return name
        return None if key_name in self.renamed else key_name

    def after(self, before: Mapping[str, str], now: Mapping[str, str], bytes_max: int) -> "KeyNames":
        """Return the key names after a transaction.

        `before` and `now` map the names of the namespaces that it wrote or deleted to
        their ids. If the name of a new namespace is the key name of another one, the id
        of the new namespace becomes its key name.
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
        """Return the value of the root's system row; empty if no namespace was renamed."""
        return json.dumps(dict(self.renamed), ensure_ascii=False, separators=(",", ":")) if self.renamed else ""

    @staticmethod
    def decode(text: str, path: str) -> "KeyNames":
        """Return the key names from the system row of the root at `path`."""
        if not text:
            return KeyNames()
        try:
            renamed = json.loads(text)
        except ValueError as error:
            raise FormatError(f"{path}: the list of renamed namespaces is not JSON ({error})") from error
        if not isinstance(renamed, dict) or not all(isinstance(key, str) for key in renamed.values()):
            raise FormatError(f"{path}: the list of renamed namespaces does not map names to names")
        return KeyNames(MappingProxyType(renamed))


def _choose_key_name(name: str, namespace_id: str, taken: set[str], bytes_max: int) -> str:
    """Return `name` if no other namespace has it as key name, else a name derived from the id."""
    for candidate in (name, namespace_id.encode()[:bytes_max].decode(errors="ignore")):
        if candidate not in taken:
            return candidate
    for number in range(len(taken) + 1):
        candidate = f"{number}"[-bytes_max:]
        if candidate not in taken:
            return candidate
    raise FormatError(f"no free key name of {bytes_max} bytes for the namespace {name!r}")


@dataclass(frozen=True, slots=True)
class LocatorKeyCodec:
    """Maps locators to tree keys in one version of one lakehouse."""

    encoding: KeyEncoding
    sizes: NameSizes
    names: KeyNames

    def key_of(self, locator: Locator) -> str:
        """Return the object's tree key; for an object in an unknown namespace, a string that is not a tree key."""
        filed: str | None = None
        if isinstance(locator, TableLocator | ViewLocator):
            filed = self.names.key_name_of(locator.namespace)
            if filed is None:
                return f"\0{locator.kind.word} {locator}"
        kind, parts = parts_of_locator(locator, filed)
        return self.encoding.key_of(kind, parts, self.sizes)

    def table_names_in(self, keys: Sequence[str]) -> list[str] | None:
        """Return the names in tree keys of tables of one namespace; None if only `parts_of` can decode them.

        A fast path for listings of thousands of tables.
        """
        before, after = self.encoding.before[Kind.TABLE], self.encoding.after[Kind.TABLE]
        start = len(before) + self.sizes.namespace_bytes_max
        end = start + self.sizes.table_bytes_max
        padded = [key[start:end] for key in keys]
        text = " ".join(padded)
        names = text.split()
        is_framed = {*map(len, keys)} == {end + len(after)} and all(map(str.endswith, keys, repeat(after)))
        is_usual = is_framed and len(keys) == len(names) and text.isascii()
        # A key with two words would go with one that has none, which starts with no word.
        return names if is_usual and all(map(str.startswith, padded, names)) else None

    def delta_positions_in(self, keys: Sequence[str]) -> list[int] | None:
        """Return the positions in tree keys of deltas of one partition; None if only `parts_of` can decode them.

        A fast path for logs of thousands of deltas.
        """
        before, after = self.encoding.before[Kind.DELTA], self.encoding.after[Kind.DELTA]
        end = len(keys[0]) - len(after)
        partition = keys[0][: end - _NUMBER_DIGITS]
        digits = [key[end - _NUMBER_DIGITS : end] for key in keys if len(key) == end + len(after)]
        text = "".join(digits)
        is_usual = (
            partition.startswith(before)
            and len(text) == _NUMBER_DIGITS * len(keys)
            and text.isascii()
            and text.isdigit()
            and all(map(str.startswith, keys, repeat(partition)))
            and all(map(str.endswith, keys, repeat(after)))
        )
        return [int(position) for position in digits] if is_usual else None

    def describe_object(self, key: str) -> str:
        """Return a readable name of the object with this tree key."""
        kind, parts = self.encoding.parts_of(key, self.sizes)
        names = [str(part) for part in parts]
        if kind in (Kind.TABLE, Kind.VIEW):
            names[0] = next((name for name, filed in self.names.renamed.items() if filed == names[0]), names[0])
        return f"{kind.word} {'.'.join(names)}"

    def range_of(self, scan: ObjectRange, after: Locator | None = None) -> TreeKeyRange:
        """Return the range of tree keys that a scan covers."""
        parent: tuple[str | int, ...]
        match scan.parent:
            case None:
                parent = ()
            case NamespaceLocator(name):
                filed = self.names.key_name_of(name)
                if filed is None:
                    return TreeKeyRange("", "")
                parent = (filed,)
            case TableIdentity(_, table_id):
                parent = (table_id,)
            case below:
                parent = parts_of_locator(below).parts
        last_part = None if after is None else after.parts[-1]
        return self.encoding.range_below(scan.kind, parent, self.sizes, name_prefix=scan.prefix, after=last_part)
