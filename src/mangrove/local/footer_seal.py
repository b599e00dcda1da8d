"""The seal of a Parquet footer: a checksum in one of its texts, which other readers pass over.

Pages have checksums of their own, a footer has none, and one flipped bit in it
gives a column another id, name or bound. So a writer lets its Parquet library
put `UNSEALED` into the footer's metadata, and then writes the checksum of the
footer over the zeros in it. A footer without the text, or with the zeros, is
taken as it is: other programs write none, and not every file can be changed.
"""

import zlib
from typing import Final

__all__ = ["ENDING_BYTES", "UNSEALED", "footer_size_bytes", "is_as_sealed", "seal_of", "sealed"]

ENDING_BYTES: Final = 8
"""What stands behind a footer: its size in four bytes, and Parquet's own mark."""

_MARK: Final = b"mangrove.footer.crc32="
_ZEROS: Final = b"00000000"
UNSEALED: Final = (_MARK + _ZEROS).decode()
"""The text in which the seal goes, in the last place of a footer's metadata that holds one like it."""


def footer_size_bytes(end: bytes | memoryview) -> int:
    """Return how long a file's footer is, with what stands behind it, by the last bytes of the file."""
    return int.from_bytes(end[-ENDING_BYTES:-4], "little") + ENDING_BYTES


def seal_of(end: bytes | memoryview) -> tuple[int, bytes] | None:
    """Return how far before the file's end the seal stands, and what it must be; None for a footer without one.

    The bytes are a file, or the end of one with all of its footer.
    """
    footer = bytes(end[-footer_size_bytes(end) :])
    # Columns' names and bounds can hold any text, but they stand before the metadata.
    start = footer.rfind(_MARK) + len(_MARK)
    behind = start + len(_ZEROS)
    if start < len(_MARK) or behind > len(footer):
        return None
    # As though the zeros were still there: a checksum cannot be part of what it is of.
    seal = zlib.crc32(footer[behind:], zlib.crc32(footer[:start] + _ZEROS))
    return len(footer) - start, b"%08x" % seal


def sealed(data: memoryview) -> bytes:
    """Return a whole file with the seal where its footer has room for it."""
    found = seal_of(data)
    if found is None:
        return bytes(data)
    before_end, seal = found
    start = len(data) - before_end
    return b"".join([data[:start], seal, data[start + len(seal) :]])


def is_as_sealed(end: bytes) -> bool:
    """Return whether a footer is the one that was sealed, or has no seal; the bytes are a file's end with all of it."""
    found = seal_of(end)
    if found is None:
        return True
    before_end, seal = found
    start = len(end) - before_end
    return end[start : start + len(seal)] in (seal, _ZEROS)
