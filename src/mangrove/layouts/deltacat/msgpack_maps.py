"""MessagePack encoding of string-keyed maps, with optional checksums."""

import zlib
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgpack  # type: ignore[import-untyped]

from mangrove.errors import FormatError, InvalidInputError

__all__ = ["MsgpackMap", "compute_checksum", "decode_map", "decode_with_checksum", "encode_map", "encode_with_checksum"]

MsgpackMap: TypeAlias = Mapping[str, Any]


def encode_map(fields: MsgpackMap) -> bytes:
    """Return the bytes of a map, with its fields in the order given."""
    try:
        data = msgpack.packb(fields, use_bin_type=True)
    except (OverflowError, ValueError, TypeError) as error:
        raise InvalidInputError(f"a value cannot be stored as MessagePack: {error}") from error
    assert isinstance(data, bytes)
    return data


def decode_map(data: bytes, path: str) -> dict[str, Any]:
    """Return the map that the file at `path` holds."""
    try:
        # Damage raises one of these; a hostile length is bounded by the size of the data.
        fields = msgpack.unpackb(data, raw=False, strict_map_key=False)
    except (ValueError, TypeError, msgpack.exceptions.UnpackException) as error:
        raise FormatError(f"{path} is not MessagePack ({error}): run `mangrove check`") from error
    if not isinstance(fields, dict) or not all(isinstance(key, str) for key in fields):
        raise FormatError(f"{path} is not a map; run `mangrove check`")
    return fields


def compute_checksum(data: bytes) -> str:
    """Return the checksum of a file that cannot contain its own.

    >>> compute_checksum(b"content")
    'fec530a9'
    """
    return f"{zlib.crc32(data):08x}"


def encode_with_checksum(fields: MsgpackMap) -> bytes:
    """Return the bytes of a map with their checksum, for files that only Mangrove writes."""
    content = encode_map(fields)
    return encode_map({"crc32": zlib.crc32(content), "content": content})


def decode_with_checksum(data: bytes, path: str) -> dict[str, Any]:
    """Return the map; raise `FormatError` if the checksum does not match."""
    outer = decode_map(data, path)
    content = outer.get("content")
    if (
        not isinstance(content, bytes)
        or zlib.crc32(content) != outer.get("crc32")
        or outer.keys() != {"crc32", "content"}
    ):
        raise FormatError(f"{path} is damaged: its content does not match its checksum. Run `mangrove check`")
    return decode_map(content, path)
