"""Validation of untrusted Avro files with a bounds-checked decoder and bounded decompression.

A small file may decompress to more than fits into memory, so decompression is bounded.

PyIceberg's C decoder trusts the lengths in a file, and a wrong length crashes the process.
The Python decoder does not read past the end.
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
"""Raw deflate without zlib header and trailer, as Avro uses it."""
_CHECKSUM_BYTES: Final = 4


def decompress_block(codec: str, block: bytes, size_max: int) -> bytes:
    """Return a decompressed block; raise ValueError if it exceeds `size_max` bytes.

    >>> decompress_block("null", b"abc", 3)
    b'abc'
    """
    match codec:
        case "null":
            plain = block
        case "deflate":
            plain = zlib.decompressobj(_DEFLATE).decompress(block, size_max + 1)
        case "bzip2":
            plain = bz2.BZ2Decompressor().decompress(block, size_max + 1)
        case "zstandard":
            plain = _decompress_zstandard(block, size_max + 1)
        case "snappy":
            plain = _decompress_snappy(block, size_max)
        case _:
            raise ValueError(f"unknown Avro codec {codec!r}; expected one of {sorted(KNOWN_CODECS)}")
    if len(plain) > size_max:
        raise _too_large(size_max)
    return plain


def _decompress_zstandard(block: bytes, size_max: int) -> bytes:
    try:
        from zstandard import ZstdDecompressor, ZstdError  # noqa: PLC0415 (optional dependency)
    except ImportError as error:
        raise ValueError("zstandard is not installed on the server; use the deflate codec") from error
    try:
        with ZstdDecompressor().stream_reader(io.BytesIO(block)) as reader:
            return reader.read(size_max)
    except ZstdError as error:
        raise ValueError(f"a block is not valid zstandard: {error}") from error


def _decompress_snappy(block: bytes, size_max: int) -> bytes:
    """Decompress a block after checking the size in its header, which the codec trusts."""
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
        raise ValueError("snappy is not installed on the server; use the deflate codec") from error


def _too_large(size_max: int) -> ValueError:
    return ValueError(f"a block decompresses to more than the remaining limit of {size_max} bytes")


_SYNC_MARKER_BYTES: Final = 16
DECOMPRESSED_BYTES_MAX: Final = 256 * 1024 * 1024
"""Maximum decompressed size of a file; clients start a new manifest after 8 MiB."""


def validate_avro(data: bytes) -> None:
    """Raise an error of PyIceberg or ValueError if a file is not valid Avro or has an invalid length."""
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
        if decoder.read(_SYNC_MARKER_BYTES) != header.sync:
            raise ValueError("a block does not end with the sync marker of its file")
