"""The hint file: the newest version that somebody knew when it was written.

A hint is advice. Whatever it holds, a reader goes on: a hint that cannot be
understood is the same as none, and one that is behind or ahead only costs probes.
"""

import re

__all__ = ["decode_hint", "encode_hint"]

_HINT = re.compile(rb"\s*([0-9]{1,20})\s*", re.ASCII)
_VERSION_END = 2**64
_BYTES_MAX = 64


def encode_hint(version: int) -> bytes:
    """Return the content of the hint file: ASCII decimal digits without a newline."""
    return b"%d" % version


def decode_hint(data: bytes) -> int | None:
    """Return the version that the hint names, or None where it names none.

    >>> decode_hint(b"100")
    100
    >>> decode_hint(b"") is None
    True
    """
    match = _HINT.fullmatch(data) if len(data) <= _BYTES_MAX else None
    version = _VERSION_END if match is None else int(match[1])
    return version if version < _VERSION_END else None
