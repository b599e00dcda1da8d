"""Validation of untrusted Avro files with a bounds-checked decoder and bounded decompression.

A small file may unpack to more than all memory holds, so no more is unpacked than is read.

PyIceberg's decoder in C believes the lengths that a file tells, and one that lies would end
the whole process. The decoder in Python refuses to read past the end.
"""

import bz2
import io
import zlib
from typing import Any, Final

from pyiceberg.avro.codecs import KNOWN_CODECS
from pyiceberg.avro.decoder import StreamingBinaryDecoder
from pyiceberg.avro.file import META_SCHEMA, AvroFileHeader
from pyiceberg.avro.resolver import construct_reader

__all__ = ["DECOMPRESSED_BYTES_MAX", "decompress_block", "validate_avro"]

_DEFLATE: Final = -15
"""Without what zlib puts before and behind, as Avro wants it."""
_CHECKSUM_BYTES: Final = 4


def decompress_block(codec: str, block: bytes, size_max: int) -> bytes:
    """Return a block as it was before it was packed; refuse it when it comes to more than `size_max` bytes.

    >>> decompress_block("null", b"abc", 3)
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


_MARK_BYTES: Final = 16
DECOMPRESSED_BYTES_MAX: Final = 256 * 1024 * 1024
"""So much a file may come to: a manifest of 8 MiB, after which clients begin another, has a fraction of it."""


def validate_avro(data: bytes) -> None:
    """Raise what PyIceberg raises of a file that is no Avro, or in which some length does not fit."""
    decoder = StreamingBinaryDecoder(data)
    header: AvroFileHeader = construct_reader(META_SCHEMA, {-1: AvroFileHeader}).read(decoder)
    reader = construct_reader(header.get_schema())
    codec = header.compression_codec()
    name = next(name for name, known in KNOWN_CODECS.items() if known is codec)
    left = DECOMPRESSED_BYTES_MAX
    while decoder.tell() < len(data):
        count, block = decoder.read_int(), decoder.read_bytes()
        plain = decompress_block(name, block, left)
        left -= len(plain)
        if not 0 <= count <= len(plain):
            raise ValueError(f"a block of {len(plain)} bytes cannot hold {count} records")
        records = StreamingBinaryDecoder(plain)
        for _ in range(count):
            reader.read(records)
        if decoder.read(_MARK_BYTES) != header.sync:
            raise ValueError("a block does not end with the mark of its file")
