"""The seal of a definition's file: a checksum at its end, which other readers of protobuf pass over.

A definition is a protobuf message, in which any bit may change and leave another
valid message, and which does not say of which kind it is. So the last field of a
file of ours is the CRC-32 of its kind and of all bytes before it. A message that is
cut off between two fields is valid too, so the first field says that there is a
seal. A file with neither was written by another program, and is read; one with half
of them is damaged. Files of ours from before there was a mark have only the seal.
"""

import zlib

from mangrove.errors import FormatError
from mangrove.model.locators import Kind

__all__ = ["sealed", "unsealed"]

_MARK = b"\xf0\xff\x07\x01"
"""Field 16,382, the number 1: the file ends in a seal."""
_TAG = b"\xfd\xff\x07"
"""Field 16,383, of four bytes."""
_SEAL_BYTES = len(_TAG) + 4
_CHANGED_BITS_MAX = 2
"""So many bits of a tag may have changed and it is still taken for one; else the seal would not protect itself."""


def sealed(definition: bytes, kind: Kind) -> bytes:
    """Return what the file of a definition holds.

    >>> unsealed(sealed(b"small", Kind.TABLE), Kind.TABLE, "a path")
    b'small'
    """
    marked = _MARK + definition
    return marked + _TAG + _checksum(marked, kind)


def unsealed(data: bytes, kind: Kind, path: str) -> bytes:
    """Return the definition of that kind that the file at `path` holds, as it was written or not at all."""
    changed_bits = _bits_between(data[-_SEAL_BYTES:-4], _TAG)
    if changed_bits and data.startswith(_MARK):
        raise FormatError(
            f"{path}: its beginning says that it ends in a checksum, and it does not, so it was cut off; "
            "copy it from an export; run `mangrove check`"
        )
    if changed_bits > _CHANGED_BITS_MAX:
        return data
    definition = data[:-_SEAL_BYTES]
    if changed_bits or _checksum(definition, kind) != data[-4:]:
        raise FormatError(
            f"{path}: its checksum says that it is not the definition of a {kind.word} or was changed after it was "
            "written; run `mangrove check`"
        )
    return definition.removeprefix(_MARK)


def _bits_between(mark: bytes, tag: bytes) -> int:
    if len(mark) != len(tag):
        return 8 * len(tag)
    return (int.from_bytes(mark, "big") ^ int.from_bytes(tag, "big")).bit_count()


def _checksum(definition: bytes, kind: Kind) -> bytes:
    return zlib.crc32(definition, zlib.crc32(kind.word.encode())).to_bytes(4, "little")
