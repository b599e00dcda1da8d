"""Blocks of Avro are unpacked as far as is allowed, and no further."""

import bz2
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.avro.codecs import KNOWN_CODECS
from tests.iceberg.iceberg_client import Client

import mangrove
from mangrove.errors import InvalidInputError
from mangrove.iceberg.commit.avro_validation import DECOMPRESSED_BYTES_MAX, decompress_block

PACKED: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": lambda data: zlib.compress(data, wbits=-15),
    "bzip2": bz2.compress,
    "zstandard": zstandard.ZstdCompressor().compress,
}


@given(st.sampled_from(sorted(PACKED)), st.binary(max_size=2_000), st.integers(0, 2_000))
def test_a_block_within_the_size_limit_is_decompressed(codec: str, data: bytes, size_max: int) -> None:
    block = PACKED[codec](data)
    if len(data) <= size_max:
        assert decompress_block(codec, block, size_max) == data
        known: Any = next(found for name, found in KNOWN_CODECS.items() if name == codec)
        assert known is None or known.decompress(block) == data
    else:
        with pytest.raises(ValueError, match="decompresses to more"):
            decompress_block(codec, block, size_max)


def test_a_block_that_declares_a_too_large_size_is_rejected() -> None:
    with pytest.raises(ValueError, match="decompresses to more"):
        decompress_block("snappy", b"\xff\xff\xff\xff\x0f" + bytes(10), 1_000)


def test_an_unknown_codec_is_rejected() -> None:
    with pytest.raises(ValueError, match="unknown Avro codec 'lzma'"):
        decompress_block("lzma", b"", 1_000)


def number(value: int) -> bytes:
    """Return a number as Avro writes it."""
    value *= 2
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def test_a_manifest_list_that_decompresses_beyond_the_limit_is_rejected(tmp_path: Path) -> None:
    lake = mangrove.create(f"memory://{tmp_path.parent.name}-{tmp_path.name}")
    lake.create_namespace("shop")
    lake.create_table("shop.orders", "id bigint not null")
    client = Client(lake, "shop.orders")
    request = client.request([client.rows([{"id": 1}])])
    listed = request["updates"][0]["snapshot"]["manifest-list"]
    path = f"data/{lake.table('shop.orders').id}/{listed.removeprefix(client.shown.folder + '/')}"
    data = lake.effects.store.read(path)
    mark = data[-16:]
    packer = zlib.compressobj(9, wbits=-15)
    piece = bytes(DECOMPRESSED_BYTES_MAX // 16)
    block = b"".join([*(packer.compress(piece) for _ in range(17)), packer.flush()])
    head = data[: data.index(mark) + 16]
    lake.effects.store.put(path, head + number(1) + number(len(block)) + block + mark)
    assert b"deflate" in head
    before = lake.version
    with pytest.raises(InvalidInputError, match="decompresses to more"):
        client.send(request)
    assert lake.version == before
