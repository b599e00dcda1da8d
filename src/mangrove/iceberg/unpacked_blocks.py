"""Unpacking what a stranger packed, as far as it is allowed.

A small file may unpack to more than all memory holds, so no more is unpacked than is read.
"""

import bz2
import io
import zlib
from typing import Any, Final

from pyiceberg.avro.codecs import KNOWN_CODECS

__all__ = ["unpacked"]

_DEFLATE: Final = -15
"""Without what zlib puts before and behind, as Avro wants it."""
_CHECKSUM_BYTES: Final = 4


def unpacked(codec: str, block: bytes, size_max: int) -> bytes:
    """Return a block as it was before it was packed; refuse it when it comes to more than `size_max` bytes.

    >>> unpacked("null", b"abc", 3)
    b'abc'
    """
    match codec:
        case "null":
            found = block
        case "deflate":
            found = zlib.decompressobj(_DEFLATE).decompress(block, size_max + 1)
        case "bzip2":
            found = bz2.BZ2Decompressor().decompress(block, size_max + 1)
        case "zstandard":
            found = _of_zstandard(block, size_max + 1)
        case "snappy":
            found = _of_snappy(block, size_max)
        case _:
            raise ValueError(f"its blocks are packed by {codec!r}, which is none of {sorted(KNOWN_CODECS)}")
    if len(found) > size_max:
        raise _too_large(size_max)
    return found


def _of_zstandard(block: bytes, size_max: int) -> bytes:
    try:
        from zstandard import ZstdDecompressor, ZstdError  # noqa: PLC0415 (not installed everywhere)
    except ImportError as error:
        raise ValueError("zstandard is not installed here: pack it by deflate") from error
    try:
        with ZstdDecompressor().stream_reader(io.BytesIO(block)) as reader:
            return reader.read(size_max)
    except ZstdError as error:
        raise ValueError(f"a block is not packed by zstandard: {error}") from error


def _of_snappy(block: bytes, size_max: int) -> bytes:
    """Unpack a block that begins with the size that it will have, which is believed by whoever unpacks it."""
    size = 0
    for place, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            break
    if size > size_max:
        raise _too_large(size_max)
    codec: Any = KNOWN_CODECS["snappy"]
    try:
        return bytes(codec.decompress(block))
    except ImportError as error:
        raise ValueError("snappy is not installed here: pack it by deflate") from error


def _too_large(size_max: int) -> ValueError:
    return ValueError(f"its blocks unpack to more than the {size_max} bytes that are left of what is read")
