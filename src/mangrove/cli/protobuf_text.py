"""Protobuf messages whose definition nobody has at hand, taken apart by their wire format alone."""

from mangrove.errors import FormatError
from mangrove.model.json_form import Json

__all__ = ["wire_fields"]

_VARINT, _EIGHT_BYTES, _SIZED, _FOUR_BYTES = 0, 1, 2, 5
_VARINT_BYTES_MAX = 10
_DEPTH_MAX = 16


def wire_fields(data: bytes, where: str) -> list[Json]:
    """Return the fields in order, each as its number and value; bytes that read as a message are shown as one.

    >>> wire_fields(bytes([0x08, 0x96, 0x01, 0x12, 0x02, 0x68, 0x69]), "here")
    [{'field': 1, 'value': 150}, {'field': 2, 'value': 'hi'}]
    """
    found = _fields(data, _DEPTH_MAX)
    if found is None:
        raise FormatError(f"{where} is no protobuf message: run `mangrove check` on the lakehouse")
    return found


def _fields(data: bytes, depth: int) -> list[Json] | None:
    fields: list[Json] = []
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        number, wire_type = tag >> 3, tag & 7
        value: Json
        if place < 0 or number == 0 or depth == 0:
            return None
        if wire_type == _VARINT:
            value, place = _varint(data, place)
            if place < 0:
                return None
        elif wire_type == _SIZED:
            size, place = _varint(data, place)
            if place < 0 or place + size > len(data):
                return None
            value = _sized(data[place : place + size], depth)
            place += size
        elif wire_type in (_EIGHT_BYTES, _FOUR_BYTES):
            size = 8 if wire_type == _EIGHT_BYTES else 4
            if place + size > len(data):
                return None
            value = f"0x{data[place : place + size].hex()}"
            place += size
        else:
            return None
        fields.append({"field": number, "value": value})
    return fields


def _sized(data: bytes, depth: int) -> Json:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if text.isprintable():
        return text
    inner = _fields(data, depth - 1)
    return inner if inner is not None else f"0x{data.hex()}"


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Return the number at a place and the place after it, which is negative where there is none."""
    number = 0
    for count, byte in enumerate(data[place : place + _VARINT_BYTES_MAX]):
        number |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return number, place + count + 1
    return 0, -1
