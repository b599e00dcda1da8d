"""The seal of a definition's file: a checksum at its end, which other readers of protobuf pass over.

A definition is a protobuf message, in which any bit may change and leave another
valid message, and which does not say of which kind it is. So the last field of a
file of ours is the CRC-32 of its kind and of all bytes before it. A file without a
seal was written by another program, and is read.
"""

import zlib

from mangrove.errors import FormatError
from mangrove.model.locators import Kind

__all__ = ["sealed", "unsealed"]

_TAG = b"\xfd\xff\x07"
"""Field 16,383, of four bytes."""
_SEAL_BYTES = len(_TAG) + 4


def sealed(definition: bytes, kind: Kind) -> bytes:
    """Return what the file of a definition holds.

    >>> unsealed(sealed(b"small", Kind.TABLE), Kind.TABLE, "a path")
    b'small'
    """
    return definition + _TAG + _checksum(definition, kind)


def unsealed(data: bytes, kind: Kind, path: str) -> bytes:
    """Return the definition of that kind that the file at `path` holds, as it was written or not at all."""
    if data[-_SEAL_BYTES:-4] != _TAG:
        return data
    definition = data[:-_SEAL_BYTES]
    if _checksum(definition, kind) != data[-4:]:
        raise FormatError(
            f"{path}: its checksum says that it is not the definition of a {kind.word} or was changed after it was "
            "written; run `mangrove check`"
        )
    return definition


def _checksum(definition: bytes, kind: Kind) -> bytes:
    return zlib.crc32(definition, zlib.crc32(kind.word.encode())).to_bytes(4, "little")
