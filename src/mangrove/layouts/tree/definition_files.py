"""Definition files with checksums, inline pointers and preserved unknown fields.

A definition is a protobuf message, in which any bit may change and leave another
valid message, and which does not say of which kind it is. So the last field of a
file of ours is the CRC-32 of its kind and of all bytes before it. A message that is
cut off between two fields is valid too, so the first field says that there is a
seal. A file with neither was written by another program, and is read; one with half
of them is damaged. Files of ours from before there was a mark have only the seal.

The model holds only what it knows. A definition in which something else was
found is carried along as it was read, and when the object is written again,
what was unknown is put back where it stood: into the message itself, into the
messages inside it, and in lists into the item that is still the same one.

Protobuf is imported when the first definition is read: who only asks what format
revisions there are, such as the command line for its help, need not wait for it.

A definition whose URI is short travels inside the value:
the commit has one file less to write, and a listing one less to read.
"""

import base64
import binascii
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from mangrove.errors import FormatError
from mangrove.layouts.tree.keys import NameSizes
from mangrove.model.locators import Kind, Locator
from mangrove.model.objects import Delta, Object, Partition, Stream, TableVersion
from mangrove.model.settings import LakehouseSettings

__all__ = [
    "MANGROVE_DEFINITIONS",
    "DecodedObject",
    "DecodedSettings",
    "DefinitionCodec",
    "append_checksum",
    "decode_inline_pointer",
    "encode_inline_pointer",
    "has_unknown_fields",
    "name_sizes_of",
    "own_name_of",
    "restore_unknown_fields",
    "verify_and_strip_checksum",
]

_MARK = b"\xf0\xff\x07\x01"
"""Field 16,382, the number 1: the file ends in a seal."""
_TAG = b"\xfd\xff\x07"
"""Field 16,383, of four bytes."""
_CHECKSUM_BYTES = len(_TAG) + 4
_CHANGED_BITS_MAX = 2
"""So many bits of a tag may have changed and it is still taken for one; else the seal would not protect itself."""


def append_checksum(definition: bytes, kind: Kind) -> bytes:
    """Return what the file of a definition holds.

    >>> verify_and_strip_checksum(append_checksum(b"small", Kind.TABLE), Kind.TABLE, "a path")
    b'small'
    """
    marked = _MARK + definition
    return marked + _TAG + _checksum(marked, kind)


def verify_and_strip_checksum(data: bytes, kind: Kind, path: str) -> bytes:
    """Return the definition of that kind that the file at `path` holds, as it was written or not at all."""
    changed_bits = _count_changed_bits(data[-_CHECKSUM_BYTES:-4], _TAG)
    if changed_bits and data.startswith(_MARK):
        raise FormatError(
            f"{path}: its beginning says that it ends in a checksum, and it does not, so it was cut off; "
            "copy it from an export; run `mangrove check`"
        )
    if changed_bits > _CHANGED_BITS_MAX:
        return data
    definition = data[:-_CHECKSUM_BYTES]
    if changed_bits or _checksum(definition, kind) != data[-4:]:
        raise FormatError(
            f"{path}: its checksum says that it is not the definition of a {kind.word} or was changed after it was "
            "written; run `mangrove check`"
        )
    return definition.removeprefix(_MARK)


def _count_changed_bits(mark: bytes, tag: bytes) -> int:
    if len(mark) != len(tag):
        return 8 * len(tag)
    return (int.from_bytes(mark, "big") ^ int.from_bytes(tag, "big")).bit_count()


def _checksum(definition: bytes, kind: Kind) -> bytes:
    return zlib.crc32(definition, zlib.crc32(kind.word.encode())).to_bytes(4, "little")


_IDENTITIES: Final = {
    "mangrove.tree.Column": "id",
    "mangrove.tree.Schema": "schema_id",
    "mangrove.tree.PartitionScheme": "id",
    "mangrove.tree.SortScheme": "id",
    "mangrove.tree.DataFile": "location",
    "mangrove.tree.ColumnStatistics": "column_id",
}
"""By which field the items of a list are known again; items of other lists by their place."""

AnyMessage = TypeVar("AnyMessage", bound=Message)


def has_unknown_fields(message: Message) -> bool:
    """Return whether anything unknown stands in the message or inside it; what is unknown is lost by asking."""
    size_bytes = message.ByteSize()
    message.DiscardUnknownFields()
    return message.ByteSize() != size_bytes


def restore_unknown_fields(message: AnyMessage, carried: AnyMessage) -> None:
    """Put into `message` what is unknown in `carried`, of which nothing known is left afterwards."""
    for field, value in carried.ListFields():
        kind = field.message_type
        if kind is not None and not kind.GetOptions().map_entry:
            for old, new in _pairs(message, field, value):
                restore_unknown_fields(new, old)
        carried.ClearField(field.name)
    unknown = carried.SerializeToString(deterministic=True)
    if unknown:
        message.MergeFromString(unknown)


def _pairs(message: Message, field: FieldDescriptor, value: Message) -> Iterator[tuple[Message, Message]]:
    """Yield each message of the field as it was carried, with what it is now."""
    now = getattr(message, field.name)
    if not field.is_repeated:
        if message.HasField(field.name):
            yield value, now
        return
    identity = None if field.message_type is None else _IDENTITIES.get(field.message_type.full_name)
    if identity is None:
        yield from zip(value, now, strict=False)  # type: ignore[call-overload]
        return
    by_identity = {getattr(item, identity): item for item in now}
    for old in value:  # type: ignore[attr-defined]
        new = by_identity.get(getattr(old, identity))
        if new is not None:
            yield old, new


class DecodedObject(NamedTuple):
    """An object, and what its definition holds beyond what this release knows."""

    value: Object
    unknown: bytes


class DecodedSettings(NamedTuple):
    """The lakehouse's own definition, how long names are in its tree keys, and what of it is not known."""

    settings: LakehouseSettings
    sizes: NameSizes
    unknown: bytes


@dataclass(frozen=True, slots=True)
class DefinitionCodec:
    """Reads definitions. Each function takes the bytes, and the path for its errors."""

    settings_of: Callable[[bytes, str], DecodedSettings]
    object_of: Callable[[Locator, bytes, str], DecodedObject]
    """Also takes the way to the object: some programs do not write an object's name into its definition."""

    def read(self, locator: Locator, data: bytes, path: str) -> DecodedObject:
        """Return the object to which `locator` leads; one that says that it is another is a `FormatError`."""
        found = self.object_of(locator, data, path)
        name = own_name_of(found.value)
        if name is not None and name != locator.parts[-1]:
            raise FormatError(
                f"{path} is the definition of {name!r}, but the tree key that leads there is that of the "
                f"{locator.kind.word} {locator}: run `mangrove check`"
            )
        return found


def own_name_of(value: Object) -> str | int | None:
    """Return what an object says that the last part of the way to it is; a delta does not say."""
    if isinstance(value, Delta | LakehouseSettings):
        return None
    if isinstance(value, TableVersion):
        return value.version
    return value.id if isinstance(value, Stream | Partition) else value.name


def name_sizes_of(settings: LakehouseSettings) -> NameSizes:
    """Return how long names may be in tree keys."""
    return NameSizes(settings.namespace_name_max_size_bytes, settings.table_name_max_size_bytes)


def _settings_of(data: bytes, path: str) -> DecodedSettings:
    from mangrove.layouts.tree.definitions import decode_definition  # noqa: PLC0415

    value, unknown = decode_definition(Kind.LAKEHOUSE, data, path)
    assert isinstance(value, LakehouseSettings)
    return DecodedSettings(value, name_sizes_of(value), unknown)


def _object_of(locator: Locator, data: bytes, path: str) -> DecodedObject:
    from mangrove.layouts.tree.definitions import decode_definition  # noqa: PLC0415

    return DecodedObject(*decode_definition(locator.kind, data, path, locator))


MANGROVE_DEFINITIONS = DefinitionCodec(_settings_of, _object_of)


_INLINE = "data:application/protobuf;base64,"


def encode_inline_pointer(definition: bytes) -> str:
    """Return the pointer that holds the definition itself.

    >>> decode_inline_pointer(encode_inline_pointer(b"small"), "a node")
    b'small'
    """
    return _INLINE + base64.b64encode(definition).decode("ascii")


def decode_inline_pointer(pointer: str, holder: str) -> bytes | None:
    """Return the definition that the pointer holds, or None if the pointer is a path.

    `holder` says where the pointer stands, for the error.
    """
    if not pointer.startswith("data:"):
        return None
    if not pointer.startswith(_INLINE):
        raise FormatError(f"{holder}: the value {pointer[:60]!r}… holds data that is no base64 protobuf definition")
    try:
        return base64.b64decode(pointer[len(_INLINE) :], validate=True)
    except binascii.Error as error:
        raise FormatError(f"{holder}: the value {pointer[:60]!r}… is damaged ({error})") from error
