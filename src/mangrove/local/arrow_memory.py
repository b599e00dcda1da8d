"""Bytes in memory of Arrow's own.

Arrow decodes in threads that Python does not know, and one of them may be the last
to let go of the bytes that it read from. If those belong to Python while the
process ends, Python ends the thread instead, and that aborts the process. So what
Arrow's threads read is copied once, into memory that needs no Python.
"""

import pyarrow as pa

__all__ = ["arrow_bytes", "put_bytes"]


def arrow_bytes(data: bytes) -> pa.Buffer:
    """Return the bytes in memory of Arrow's.

    >>> arrow_bytes(b"abc").to_pybytes()
    b'abc'
    """
    buffer = pa.allocate_buffer(len(data))
    put_bytes(buffer, 0, data)
    return buffer


def put_bytes(buffer: pa.Buffer, start: int, data: bytes) -> None:
    """Put bytes into a buffer that was just allocated, from a place on."""
    if data:
        memoryview(buffer).cast("B")[start : start + len(data)] = data
