"""Definitions as the Java programs write them, read into our own model.

They hold neither names, which are in the tree keys, nor, in TrinityLake, ids;
and Olympia gives one id to several tables. So ids are made from names: whoever
opens the lakehouse again finds the same ones. Columns are not read: the tables
are Iceberg tables, and what Iceberg says about them is what counts.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mangrove.errors import FormatError, InvalidInputError
from mangrove.layouts.tree.keys import NameSizes
from mangrove.model.locators import Locator, NamespaceLocator, TableLocator
from mangrove.model.objects import Namespace, Table, TableType
from mangrove.model.settings import LakehouseSettings

__all__ = ["JavaNumbers", "JavaSettings", "decode_java_object", "decode_java_settings"]

_VARINT, _EIGHT_BYTES, _SIZED, _FOUR_BYTES = 0, 1, 2, 5
_VARINT_BYTES_MAX = 10
_DEFAULTS = LakehouseSettings()


@dataclass(frozen=True, slots=True)
class JavaNumbers:
    """The numbers of the fields that are read; None where a program has no such field."""

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
    """The definition of a lakehouse that a Java program made, and the sizes of names in its tree keys."""

    settings: LakehouseSettings
    sizes: NameSizes


def decode_java_settings(numbers: JavaNumbers, data: bytes, path: str) -> JavaSettings:
    """Return what the definition of the lakehouse, or catalog, at `path` says."""
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


def decode_java_object(numbers: JavaNumbers, locator: Locator, data: bytes, path: str) -> Namespace | Table:
    """Return the object to which `locator` leads, from its definition at `path`."""
    message = _Message(data, path)
    try:
        if isinstance(locator, NamespaceLocator):
            return Namespace(_id(numbers, locator.name), locator.name, message.texts_by_key(2))
        if isinstance(locator, TableLocator):
            return Table(
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
    raise message.broken(f"a {locator.kind.word} made by {numbers.program}'s Java program cannot be read here")


def _id(numbers: JavaNumbers, *names: str) -> str:
    """Return an id made from names, which hold no slash: different names, different ids."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "/".join((numbers.program, *names))))


class _Message:
    """The fields of one protobuf message, by their numbers; the last one counts where a field is single."""

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
            raise self.broken(f"field {field} is not a text")
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
                raise self.broken("it is cut off, or not a protobuf message")
            yield number, data[at : at + size]
            at += size

    def _varint(self, data: bytes, at: int) -> tuple[int, int]:
        value = 0
        for i, byte in enumerate(data[at : at + _VARINT_BYTES_MAX]):
            value |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                return value, at + i + 1
        raise self.broken("a number in it is cut off or too long")
