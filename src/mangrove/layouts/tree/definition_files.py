"""Definition files with checksums, inline pointers and preserved unknown fields.

A definition is a protobuf message. Protobuf detects neither flipped bits nor the
wrong message type nor a truncation between two fields. Definition files therefore
end in a field with the CRC-32 of the kind and of all bytes before it, and start
with a field that marks the presence of this checksum. A file with neither field
was written by another program and is accepted; a file with only the first is
damaged. Files of early releases have the checksum without the mark.

Unknown fields are preserved: when an object is written again, they are restored
into the message, its nested messages, and the matching items of its lists.

Protobuf is imported when the first definition is read, to keep start-up fast.

A short definition is stored inline in the value of its tree key, as a data URI:
this saves one file per commit and one read per listing.
"""

import base64
import binascii
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import methodcaller
from typing import Final, NamedTuple, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from mangrove.errors import FormatError
from mangrove.layouts.tree.keys import NameSizes
from mangrove.model.locators import DeltaLocator, Kind, Locator
from mangrove.model.objects import Delta, Object, Partition, Stream, TableVersion
from mangrove.model.settings import LakehouseSettings

__all__ = [
    "DecodedObject",
    "DecodedSettings",
    "DefinitionCodec",
    "append_checksum",
    "decode_inline_pointer",
    "encode_inline_pointer",
    "has_unknown_fields",
    "list_unknown_fields",
    "name_sizes_of",
    "own_name_of",
    "restore_unknown_fields",
    "verify_and_strip_checksum",
]

_MARK = b"\xf0\xff\x07\x01"
"""Field 16,382 with the value 1: the file ends in a checksum."""
_TAG = b"\xfd\xff\x07"
"""Field 16,383, a fixed32."""
_CHECKSUM_BYTES = len(_TAG) + 4
_CHANGED_BITS_MAX = 2
"""The bits of a tag that may differ: a damaged tag is still recognized, so the checksum covers itself."""


def append_checksum(definition: bytes, kind: Kind) -> bytes:
    """Return the content of the definition file.

    >>> verify_and_strip_checksum(append_checksum(b"small", Kind.TABLE), Kind.TABLE, "a path")
    b'small'
    """
    marked = _MARK + definition
    return marked + _TAG + _checksum(marked, kind)


def verify_and_strip_checksum(data: bytes, kind: Kind, path: str) -> bytes:
    """Return the definition in the file at `path`; raise `FormatError` if the checksum does not match."""
    tag = data[-_CHECKSUM_BYTES:-4]
    changed_bits = 0 if tag == _TAG else _count_changed_bits(tag, _TAG)
    if changed_bits and data.startswith(_MARK):
        raise FormatError(
            f"{path} is truncated: the checksum at its end is missing; restore it from an export; run `mangrove check`"
        )
    if changed_bits > _CHANGED_BITS_MAX:
        return data
    definition = data[:-_CHECKSUM_BYTES]
    if changed_bits or _checksum(definition, kind) != data[-4:]:
        raise FormatError(
            f"{path}: checksum mismatch; it is damaged or not the definition of a {kind.word}; run `mangrove check`"
        )
    return definition.removeprefix(_MARK)


def _count_changed_bits(mark: bytes, tag: bytes) -> int:
    if len(mark) != len(tag):
        return 8 * len(tag)
    return (int.from_bytes(mark, "big") ^ int.from_bytes(tag, "big")).bit_count()


def _checksum(definition: bytes, kind: Kind) -> bytes:
    return zlib.crc32(definition, _KIND_CHECKSUMS[kind]).to_bytes(4, "little")


_KIND_CHECKSUMS: Final = {kind: zlib.crc32(kind.word.encode()) for kind in Kind}


_IDENTITIES: Final = {
    "mangrove.tree.Column": "id",
    "mangrove.tree.Schema": "schema_id",
    "mangrove.tree.PartitionScheme": "id",
    "mangrove.tree.SortScheme": "id",
    "mangrove.tree.DataFile": "location",
    "mangrove.tree.ColumnStatistics": "column_id",
}
"""The field that identifies the items of a list; items of other lists are matched by position."""

AnyMessage = TypeVar("AnyMessage", bound=Message)


def list_unknown_fields(messages: Sequence[Message], encoded: Sequence[bytes]) -> list[bool]:
    """Return what `has_unknown_fields` returns for each of the messages; usually none has any."""
    for message in messages:
        message.DiscardUnknownFields()
    if list(map(methodcaller("ByteSize"), messages)) == list(map(len, encoded)):
        return [False] * len(messages)
    return list(map(has_unknown_fields, messages, encoded))


def has_unknown_fields(message: Message, data: bytes) -> bool:
    """Return whether the message with that encoding, or a nested message, has unknown fields; discards them."""
    message.DiscardUnknownFields()
    if message.ByteSize() == len(data):
        return False
    # Another program may have encoded known fields in a longer form.
    return type(message).FromString(data).ByteSize() != message.ByteSize()


def restore_unknown_fields(message: AnyMessage, carried: AnyMessage) -> None:
    """Copy the unknown fields of `carried` into `message`; clears the known fields of `carried`."""
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
    """Yield each nested message of the carried field with its current counterpart."""
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
    """An object and the unknown fields of its definition."""

    value: Object
    unknown: bytes


class DecodedSettings(NamedTuple):
    """The lakehouse definition, the name sizes of its tree keys, and its unknown fields."""

    settings: LakehouseSettings
    sizes: NameSizes
    unknown: bytes


@dataclass(frozen=True, slots=True)
class DefinitionCodec:
    """Decodes definitions. Each function takes the bytes, and the path for error messages."""

    settings_of: Callable[[bytes, str], DecodedSettings]
    object_of: Callable[[Locator, bytes, str], DecodedObject]
    """Also takes the locator: some programs do not write the name of an object into its definition."""
    deltas_of: Callable[[Sequence[tuple[DeltaLocator, bytes]]], list[DecodedObject]] | None = None
    """Decodes the deltas of a table together, which is faster. The error does not name the invalid one."""

    def read_all(self, requested: Sequence[tuple[Locator, bytes, str]]) -> list[DecodedObject]:
        """Return what `read` returns for each of the definitions."""
        deltas = [(locator, data) for locator, data, _ in requested if isinstance(locator, DeltaLocator)]
        if self.deltas_of is not None and len(deltas) == len(requested) > 1:
            with suppress(FormatError):
                return self.deltas_of(deltas)
        return [self.read(*one) for one in requested]

    def read(self, locator: Locator, data: bytes, path: str) -> DecodedObject:
        """Return the object at `locator`; raise `FormatError` if the definition names another object."""
        found = self.object_of(locator, data, path)
        name = own_name_of(found.value)
        if name is not None and name != locator.parts[-1]:
            raise FormatError(
                f"{path} is the definition of {name!r}, but its tree key is that of the "
                f"{locator.kind.word} {locator}; run `mangrove check`"
            )
        return found


def own_name_of(value: Object) -> str | int | None:
    """Return the last locator part that the object itself records, or None for a delta."""
    if isinstance(value, Delta | LakehouseSettings):
        return None
    if isinstance(value, TableVersion):
        return value.version
    return value.id if isinstance(value, Stream | Partition) else value.name


def name_sizes_of(settings: LakehouseSettings) -> NameSizes:
    """Return the maximum sizes of names in tree keys."""
    return NameSizes(settings.namespace_name_max_size_bytes, settings.table_name_max_size_bytes)


_INLINE = "data:application/protobuf;base64,"


def encode_inline_pointer(definition: bytes) -> str:
    """Return a pointer that contains the definition itself.

    >>> decode_inline_pointer(encode_inline_pointer(b"small"), "a node")
    b'small'
    """
    return _INLINE + base64.b64encode(definition).decode("ascii")


def decode_inline_pointer(pointer: str, holder: str) -> bytes | None:
    """Return the definition in the pointer, or None if the pointer is a path.

    `holder` locates the pointer in error messages.
    """
    if not pointer.startswith("data:"):
        return None
    if not pointer.startswith(_INLINE):
        raise FormatError(f"{holder}: the value {pointer[:60]!r}… is not a base64 protobuf definition")
    try:
        return binascii.a2b_base64(pointer[len(_INLINE) :], strict_mode=True)
    except ValueError as error:
        raise FormatError(f"{holder}: the value {pointer[:60]!r}… is damaged ({error})") from error
