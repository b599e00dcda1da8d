"""Avro of strangers, read once with care before PyIceberg reads it fast.

PyIceberg's decoder in C believes the lengths that a file tells, and one that lies would end
the whole process. The decoder in Python refuses to read past the end.
"""

from typing import Final

from pyiceberg.avro.codecs import KNOWN_CODECS
from pyiceberg.avro.decoder import StreamingBinaryDecoder
from pyiceberg.avro.file import META_SCHEMA, AvroFileHeader
from pyiceberg.avro.resolver import construct_reader

from mangrove.iceberg.unpacked_blocks import unpacked

__all__ = ["UNPACKED_BYTES_MAX", "check_avro"]

_MARK_BYTES: Final = 16
UNPACKED_BYTES_MAX: Final = 256 * 1024 * 1024
"""So much a file may come to: a manifest of 8 MiB, after which clients begin another, has a fraction of it."""


def check_avro(data: bytes) -> None:
    """Raise what PyIceberg raises of a file that is no Avro, or in which some length does not fit."""
    decoder = StreamingBinaryDecoder(data)
    header: AvroFileHeader = construct_reader(META_SCHEMA, {-1: AvroFileHeader}).read(decoder)
    reader = construct_reader(header.get_schema())
    codec = header.compression_codec()
    name = next(name for name, known in KNOWN_CODECS.items() if known is codec)
    left = UNPACKED_BYTES_MAX
    while decoder.tell() < len(data):
        count, block = decoder.read_int(), decoder.read_bytes()
        plain = unpacked(name, block, left)
        left -= len(plain)
        if not 0 <= count <= len(plain):
            raise ValueError(f"a block of {len(plain)} bytes cannot hold {count} records")
        records = StreamingBinaryDecoder(plain)
        for _ in range(count):
            reader.read(records)
        if decoder.read(_MARK_BYTES) != header.sync:
            raise ValueError("a block does not end with the mark of its file")
