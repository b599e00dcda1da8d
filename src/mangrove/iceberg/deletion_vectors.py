"""Encoding and validation of Iceberg deletion vectors in Puffin files.

A Puffin file has any number of blobs between its magic bytes and a JSON footer. Published
files have one blob: the deleted positions of one data file. A manifest entry has the offset
and the length of its blob, so the footer is not needed to read it.

    blob     length of magic and bitmap, magic, 64-bit Roaring bitmap, CRC-32 of magic and bitmap
"""

import json
import zlib
from array import array
from typing import Any, Final

import pyarrow as pa
from pyroaring import BitMap64

from mangrove.errors import InvalidInputError

__all__ = ["BLOB_OFFSET", "decode_deletion_vector", "encode_deletion_vector", "encode_puffin"]

_PUFFIN_MAGIC: Final = b"PFA1"
_VECTOR_MAGIC: Final = bytes.fromhex("d1d33964")
BLOB_OFFSET: Final = len(_PUFFIN_MAGIC)
"""Where the only blob of a published file begins."""
_ROW_POSITION_ID: Final = 2**31 - 3
"""Iceberg field id of the row position."""
_POSITIONS_MAX: Final = 2**27
"""Limit of decoded positions: a few bytes can stand for billions of them."""


def encode_deletion_vector(positions: Any) -> bytes:
    """Return the blob of deleted positions, an Arrow array of int64 values from 0."""
    bitmap = BitMap64(array("Q", bytes(memoryview(positions.buffers()[1])[: positions.nbytes])))
    bitmap.run_optimize()
    vector = _VECTOR_MAGIC + bitmap.serialize()
    return len(vector).to_bytes(4, "big") + vector + zlib.crc32(vector).to_bytes(4, "big")


def decode_deletion_vector(blob: bytes, count: int, where: str) -> Any:
    """Return the positions in a client's blob as an Arrow array; raise InvalidInputError if it is invalid."""
    vector = blob[4:-4]
    is_framed = blob[:4] == len(vector).to_bytes(4, "big") and vector.startswith(_VECTOR_MAGIC)
    if not is_framed or blob[-4:] != zlib.crc32(vector).to_bytes(4, "big"):
        raise InvalidInputError(f"{where} is not a deletion vector, or its checksum is wrong; rewrite it")
    try:
        bitmap = BitMap64.deserialize(vector[len(_VECTOR_MAGIC) :])
        if len(bitmap) != count or count > _POSITIONS_MAX:
            raise ValueError(f"{len(bitmap)} positions, but {count} in its manifest and at most {_POSITIONS_MAX}")
        return pa.Array.from_buffers(pa.uint64(), count, [None, pa.py_buffer(bitmap.to_array())]).cast(pa.int64())
    except ValueError as error:
        raise InvalidInputError(f"{where} has an invalid bitmap ({error}); rewrite it") from error


def encode_puffin(blob: bytes, data_file: str, count: int) -> bytes:
    """Return a Puffin file with the deletion vector of one data file."""
    metadata = {
        "type": "deletion-vector-v1",
        "fields": [_ROW_POSITION_ID],
        # Unknown, because the file is written before its snapshot.
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": BLOB_OFFSET,
        "length": len(blob),
        "properties": {"referenced-data-file": data_file, "cardinality": str(count)},
    }
    footer = json.dumps({"blobs": [metadata], "properties": {"created-by": "mangrove"}}, ensure_ascii=False).encode()
    size, flags = len(footer).to_bytes(4, "little"), bytes(4)
    return b"".join([_PUFFIN_MAGIC, blob, _PUFFIN_MAGIC, footer, size, flags, _PUFFIN_MAGIC])
