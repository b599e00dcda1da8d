"""Keeping what a newer program or another one wrote into a definition and this release does not know.

The model holds only what it knows. A definition in which something else was
found is carried along as it was read, and when the object is written again,
what was unknown is put back where it stood: into the message itself, into the
messages inside it, and in lists into the item that is still the same one.
"""

from collections.abc import Iterator
from typing import Final, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

__all__ = ["has_unknown_fields", "put_back"]

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


def put_back(message: AnyMessage, carried: AnyMessage) -> None:
    """Put into `message` what is unknown in `carried`, of which nothing known is left afterwards."""
    for field, value in carried.ListFields():
        kind = field.message_type
        if kind is not None and not kind.GetOptions().map_entry:
            for old, new in _pairs(message, field, value):
                put_back(new, old)
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
