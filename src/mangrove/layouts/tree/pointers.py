"""Where a value points: to a definition's file, or to the definition itself as an RFC 2397 `data:` URI.

A definition whose URI is short travels inside the value:
the commit has one file less to write, and a listing one less to read.
"""

import base64
import binascii

from mangrove.errors import FormatError

__all__ = ["inline_pointer", "inlined"]

_INLINE = "data:application/protobuf;base64,"


def inline_pointer(definition: bytes) -> str:
    """Return the pointer that holds the definition itself.

    >>> inlined(inline_pointer(b"small"), "a node")
    b'small'
    """
    return _INLINE + base64.b64encode(definition).decode("ascii")


def inlined(pointer: str, holder: str) -> bytes | None:
    """Return the definition that the pointer holds, or None if the pointer is a path.

    `holder` says where the pointer stands, for the error.
    """
    if not pointer.startswith("data:"):
        return None
    if not pointer.startswith(_INLINE):
        raise FormatError(f"{holder}: the value {pointer[:60]!r}… holds data that is no base64 protobuf definition")
    try:
        return base64.b64decode(pointer[len(_INLINE) :], validate=True)
    except binascii.Error as error:
        raise FormatError(f"{holder}: the value {pointer[:60]!r}… is damaged ({error})") from error
