"""Read-only support for lakehouses written by TrinityLake and Olympia in Java.

TrinityLake   two columns; system rows and keys in one unsorted table without a
              separator row; no children
Olympia       three columns and no write buffer; a deleted key keeps its row,
              without a value

Definitions do not contain names, which are in the tree keys. TrinityLake has no
ids, and Olympia gives one id to several tables. Ids are therefore derived from
names, so they are the same each time the lakehouse is opened. Columns are not
read: the tables are Iceberg tables, and the Iceberg metadata is authoritative.

TrinityLake   _<64 binary digits>.ipc    _latest_hint.txt    definitions at hashed paths
Olympia       vn/<64 binary digits>      vn/latest           def/<kind>/…    node/…
"""

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from types import MappingProxyType

from mangrove.betree.node import Message, Node
from mangrove.errors import FormatError, InvalidInputError
from mangrove.layouts.tree.definition_files import DecodedObject, DecodedSettings, DefinitionCodec
from mangrove.layouts.tree.keys import JAVA_KEYS, NameSizes
from mangrove.layouts.tree.node_rows import N_KEYS, NodeRows, NodeSections, read_key_table, read_system_section
from mangrove.layouts.tree.paths import RootNames
from mangrove.layouts.tree.revision import LAKEHOUSE_DEFINITION, NEWER, OLDER, NodeColumns, TreeRevision
from mangrove.model.locators import Locator, NamespaceLocator, TableLocator
from mangrove.model.objects import NamespaceEntry, TableEntry, TableType
from mangrove.model.settings import LakehouseSettings

__all__ = [
    "OLYMPIA_JAVA",
    "TRINITYLAKE_JAVA",
    "JavaDialect",
    "JavaFieldNumbers",
    "JavaSettings",
    "decode_java_object",
    "decode_java_settings",
    "decode_olympia_rows",
    "decode_trinitylake_rows",
    "list_java_revisions",
]

_OBJECT_KEY = re.compile(r"[A-Za-z0-9+/]===")


def decode_trinitylake_rows(rows: NodeRows, order: int | None) -> NodeSections:  # noqa: ARG001
    """Return the sections of a node file of TrinityLake's Java program, with the keys sorted.

    Such a tree has a single node, however many keys there are, so the order is ignored.
    """
    system: dict[str, str] = {}
    objects: dict[str, str] = {}
    for key, value in zip(rows.keys, rows.values, strict=True):
        if key is None or value is None:
            raise rows.broken("a row has no key or no value")
        section = objects if _OBJECT_KEY.match(key) else system
        if key in section:
            raise rows.broken(f"duplicate key {key!r}")
        section[key] = value
    if system.get(N_KEYS, str(len(objects))) != str(len(objects)):
        raise rows.broken(f"{N_KEYS} is {system[N_KEYS]!r}, but there are {len(objects)} keys")
    keys = sorted(objects)
    return NodeSections(system, Node(tuple(keys), tuple(objects[key] for key in keys)))


def decode_olympia_rows(rows: NodeRows, order: int | None) -> NodeSections:
    """Return the sections of a node file of Olympia's Java program.

    A deleted key between two children must stay, so it becomes a row with a
    delete message.
    """
    system, start = read_system_section(rows)
    keys, values, children = read_key_table(rows, start, len(rows.keys), system, order)
    table = [(key, value) for key, value in zip(keys, values, strict=True) if key is not None]
    if not children:
        table = [(key, value) for key, value in table if value is not None]
    try:
        return NodeSections(
            system,
            Node(
                keys=tuple(key for key, _ in table),
                values=tuple(value or "" for _, value in table),
                children=children,
                buffer=tuple(Message(key, None, "") for key, value in table if value is None),
            ),
        )
    except ValueError as error:
        raise rows.broken(str(error)) from None


_VARINT, _EIGHT_BYTES, _SIZED, _FOUR_BYTES = 0, 1, 2, 5
_VARINT_BYTES_MAX = 10
_DEFAULTS = LakehouseSettings()


@dataclass(frozen=True, slots=True)
class JavaFieldNumbers:
    """The numbers of the fields that are read; None if a program has no such field."""

    program: str
    lakehouse_exports: int
    lakehouse_path_size: int | None
    lakehouse_view_size: int | None
    lakehouse_age: int | None
    lakehouse_keep: int | None
    table_type: int
    table_format: int
    table_format_properties: int
    table_properties: int


@dataclass(frozen=True, slots=True)
class JavaSettings:
    """The definition of a lakehouse created by a Java program, and the name sizes of its tree keys."""

    settings: LakehouseSettings
    sizes: NameSizes


def decode_java_settings(numbers: JavaFieldNumbers, data: bytes, path: str) -> JavaSettings:
    """Return the settings from the definition of the lakehouse, or catalog, at `path`."""
    message = _Message(data, path)
    try:
        settings = LakehouseSettings(
            major_version=message.number(2, 0),
            order=message.number(3, _DEFAULTS.order),
            namespace_name_max_size_bytes=message.number(4, _DEFAULTS.namespace_name_max_size_bytes),
            table_name_max_size_bytes=message.number(5, _DEFAULTS.table_name_max_size_bytes),
            file_path_max_size_bytes=message.number(numbers.lakehouse_path_size, _DEFAULTS.file_path_max_size_bytes),
            node_file_max_size_bytes=message.number(7, _DEFAULTS.node_file_max_size_bytes),
            properties=message.texts_by_key(8),
            maximum_version_age_millis=message.number(numbers.lakehouse_age, _DEFAULTS.maximum_version_age_millis),
            minimum_versions_to_keep=message.number(numbers.lakehouse_keep, _DEFAULTS.minimum_versions_to_keep),
            exported_snapshots=message.texts_by_key(numbers.lakehouse_exports),
        )
        view_size = message.number(numbers.lakehouse_view_size, settings.table_name_max_size_bytes)
        sizes = NameSizes(settings.namespace_name_max_size_bytes, settings.table_name_max_size_bytes, view_size)
    except (InvalidInputError, ValueError) as error:
        raise message.broken(str(error)) from None
    return JavaSettings(settings, sizes)


def decode_java_object(
    numbers: JavaFieldNumbers, locator: Locator, data: bytes, path: str
) -> NamespaceEntry | TableEntry:
    """Return the object at `locator` from its definition at `path`."""
    message = _Message(data, path)
    try:
        if isinstance(locator, NamespaceLocator):
            return NamespaceEntry(_id(numbers, locator.name), locator.name, message.texts_by_key(2))
        if isinstance(locator, TableLocator):
            return TableEntry(
                id=_id(numbers, locator.namespace, locator.name),
                namespace_id=_id(numbers, locator.namespace),
                name=locator.name,
                table_type=TableType((message.text(numbers.table_type) or TableType.MANAGED.value).lower()),
                table_format=message.text(numbers.table_format),
                format_properties=message.texts_by_key(numbers.table_format_properties),
                properties=message.texts_by_key(numbers.table_properties),
            )
    except (InvalidInputError, ValueError) as error:
        raise message.broken(str(error)) from None
    raise message.broken(f"a {locator.kind.word} written by {numbers.program}'s Java program is not supported")


def _id(numbers: JavaFieldNumbers, *names: str) -> str:
    """Return an id derived from names; names contain no slash, so different names give different ids."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "/".join((numbers.program, *names))))


class _Message:
    """The fields of one protobuf message by number; the last value of a single field wins."""

    def __init__(self, data: bytes, path: str) -> None:
        self._path = path
        self._fields: dict[int, list[int | bytes]] = {}
        for number, value in self._read(data):
            self._fields.setdefault(number, []).append(value)

    def broken(self, rule: str) -> FormatError:
        return FormatError(f"definition {self._path!r} cannot be read: {rule}. Run `mangrove check`")

    def number(self, field: int | None, default: int) -> int:
        values = self._all(field)
        if not all(isinstance(value, int) for value in values):
            raise self.broken(f"field {field} is not a number")
        return int(values[-1]) if values else default

    def text(self, field: int) -> str:
        values = self._all(field)
        last = values[-1] if values else b""
        if not isinstance(last, bytes):
            raise self.broken(f"field {field} is not a string")
        try:
            return last.decode()
        except UnicodeDecodeError:
            raise self.broken(f"field {field} is not valid UTF-8") from None

    def texts_by_key(self, field: int) -> Mapping[str, str]:
        entries: dict[str, str] = {}
        for value in self._all(field):
            if not isinstance(value, bytes):
                raise self.broken(f"field {field} is not a map")
            entry = _Message(value, self._path)
            entries[entry.text(1)] = entry.text(2)
        return entries

    def _all(self, field: int | None) -> Sequence[int | bytes]:
        return () if field is None else self._fields.get(field, ())

    def _read(self, data: bytes) -> Iterator[tuple[int, int | bytes]]:
        at = 0
        while at < len(data):
            tag, at = self._varint(data, at)
            number, wire_type = tag >> 3, tag & 7
            if wire_type == _VARINT:
                value, at = self._varint(data, at)
                yield number, value
                continue
            if wire_type == _SIZED:
                size, at = self._varint(data, at)
            else:
                size = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}.get(wire_type, -1)
            if number == 0 or size < 0 or at + size > len(data):
                raise self.broken("it is truncated, or not a protobuf message")
            yield number, data[at : at + size]
            at += size

    def _varint(self, data: bytes, at: int) -> tuple[int, int]:
        value = 0
        for i, byte in enumerate(data[at : at + _VARINT_BYTES_MAX]):
            value |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                return value, at + i + 1
        raise self.broken("a number is truncated or too long")


@dataclass(frozen=True, slots=True)
class JavaDialect:
    """The format of one of the Java programs: its nodes as a format revision, and its definitions."""

    revision: TreeRevision
    numbers: JavaFieldNumbers


def _dialect(revision: TreeRevision, numbers: JavaFieldNumbers) -> JavaDialect:
    definitions = DefinitionCodec(partial(_settings_of, numbers), partial(_object_of, numbers))
    return JavaDialect(replace(revision, definitions=definitions), numbers)


def _settings_of(numbers: JavaFieldNumbers, data: bytes, path: str) -> DecodedSettings:
    found = decode_java_settings(numbers, data, path)
    return DecodedSettings(found.settings, found.sizes, b"")


def _object_of(numbers: JavaFieldNumbers, locator: Locator, data: bytes, path: str) -> DecodedObject:
    return DecodedObject(decode_java_object(numbers, locator, data, path), b"")


TRINITYLAKE_JAVA = _dialect(
    revision=replace(
        NEWER,
        name="TrinityLake's Java program",
        columns=NodeColumns("key", "value", None, None),
        roots=RootNames(digits=64),
        keys=JAVA_KEYS,
        read_rows=decode_trinitylake_rows,
        write_rows=None,
    ),
    numbers=JavaFieldNumbers(
        program="TrinityLake",
        lakehouse_path_size=6,
        lakehouse_view_size=None,
        lakehouse_age=9,
        lakehouse_keep=10,
        lakehouse_exports=12,
        table_type=8,
        table_format=9,
        table_format_properties=10,
        table_properties=11,
    ),
)

OLYMPIA_JAVA = _dialect(
    revision=replace(
        NEWER,
        name="Olympia's Java program",
        columns=NodeColumns("key", "value", "pnode", None),
        roots=RootNames(digits=64, before="vn/", after=""),
        hint_path="vn/latest",
        keys=JAVA_KEYS,
        read_rows=decode_olympia_rows,
        write_rows=None,
        system_names=MappingProxyType({LAKEHOUSE_DEFINITION: "catalog_def"}),
    ),
    numbers=JavaFieldNumbers(
        program="Olympia",
        lakehouse_path_size=None,
        lakehouse_view_size=6,
        lakehouse_age=None,
        lakehouse_keep=None,
        lakehouse_exports=11,
        table_type=2,
        table_format=3,
        table_format_properties=4,
        table_properties=5,
    ),
)


@cache
def list_java_revisions(roots: RootNames) -> tuple[TreeRevision, ...]:
    """Return the Java format revisions that use these root node names."""
    if roots == OLYMPIA_JAVA.revision.roots:
        return (OLYMPIA_JAVA.revision,)
    ours = (NEWER.with_roots(roots), OLDER.with_roots(roots))
    return (*ours, TRINITYLAKE_JAVA.revision) if roots == TRINITYLAKE_JAVA.revision.roots else ours
