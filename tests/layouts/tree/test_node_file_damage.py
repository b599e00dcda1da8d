"""Proofs that damaged or hostile node files are refused, and never hang, crash or give a wrong node."""

import struct
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mangrove.betree.node import Message, Node
from mangrove.errors import FormatError
from mangrove.layouts.tree.node_file import NodeFile, decode_node, encode_node
from mangrove.layouts.tree.revision import NEWER, OLDER

SYSTEM = {"created_at_millis": "1737070822189", "n_keys": "3", "lakehouse_def": "_lakehouse_def_1.binpb"}
NODE = Node(
    keys=("C===a ", "C===b ", "C===ü "),
    values=("v1", "v2", "v3"),
    children=("n0", "n1", "n2", "n3"),
    buffer=(Message("C===c ", "v4", "t1"), Message("C===a ", None, "t2")),
)
OLDER_NODE = Node(NODE.keys, NODE.values, NODE.children, (NODE.buffer[0]._replace(transaction=""), NODE.buffer[1]))
FILES = {
    (revision.name, compression): encode_node(NODE, SYSTEM, revision, 8, compression)
    for revision in (NEWER, OLDER)
    for compression in ("none", "lz4", "zstd")
}
ORIGINALS = {"newer": NodeFile(SYSTEM, NODE, NEWER), "older": NodeFile(SYSTEM, OLDER_NODE, OLDER)}
WHICH = st.sampled_from(sorted(FILES))


def rejected_or_equal(data: bytes, original: NodeFile) -> None:
    try:
        file = decode_node(data, "a/b.ipc", order=8)
    except FormatError as error:
        if "a/b.ipc" not in str(error):
            raise
        return
    assert file == original


@pytest.mark.parametrize("which", sorted(FILES))
def test_the_files_under_attack_are_sound(which: tuple[str, str]) -> None:
    assert decode_node(FILES[which], "p", order=8) == ORIGINALS[which[0]]


@given(WHICH, st.lists(st.tuples(st.integers(0), st.integers(0, 7)), min_size=1, max_size=6))
def test_flipped_bits_are_detected_or_harmless(which: tuple[str, str], flips: list[tuple[int, int]]) -> None:
    data = bytearray(FILES[which])
    for position, bit in flips:
        data[position % len(data)] ^= 1 << bit
    rejected_or_equal(bytes(data), ORIGINALS[which[0]])


@pytest.mark.parametrize("which", [("newer", "none"), ("older", "zstd")])
def test_each_single_flipped_bit_is_noticed_or_does_no_harm(which: tuple[str, str]) -> None:
    original = FILES[which]
    for position in range(len(original)):
        data = bytearray(original)
        data[position] ^= 1 << (position % 8)
        rejected_or_equal(bytes(data), ORIGINALS[which[0]])


@pytest.mark.parametrize("which", [("newer", "none"), ("newer", "zstd")])
def test_a_truncated_file_is_refused_at_every_length(which: tuple[str, str]) -> None:
    for size in range(len(FILES[which])):
        with pytest.raises(FormatError):
            decode_node(FILES[which][:size], "p")


@given(WHICH, st.integers(0), st.integers(0), st.binary(max_size=40))
def test_overwritten_and_shifted_bytes_are_noticed_or_do_no_harm(
    which: tuple[str, str], start: int, length: int, patch: bytes
) -> None:
    data = FILES[which]
    start %= len(data)
    rejected_or_equal(data[:start] + patch + data[start + length % 64 :], ORIGINALS[which[0]])


@given(st.binary(max_size=400))
@example(b"ARROW1\0\0" + b"\xff" * 40 + b"\x20\0\0\0ARROW1")
@example(b"ARROW1\0\0" + b"\0" * 40 + b"\x20\0\0\0ARROW1")
@example(b"ARROW1\0\0" + b"\0" * 40 + b"\xff\xff\xff\x7fARROW1")
@example(b"ARROW1\0\0" + b"\0" * 40 + b"\0\0\0\x80ARROW1")
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        decode_node(data, "p")


def test_a_file_that_is_too_large_is_refused_before_it_is_read() -> None:
    data = FILES["newer", "none"]
    assert decode_node(data, "p", bytes_max=len(data)).node == NODE
    with pytest.raises(FormatError, match="bytes"):
        decode_node(data, "p", bytes_max=len(data) - 1)


def bomb(compression: str) -> bytes:
    wide = Node((), (), (), tuple(Message("k" * 1000, "v" * 1000, "t") for _ in range(1000)))
    return encode_node(wide, SYSTEM, NEWER, 8, compression)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_decompression_bomb_is_rejected_before_decompression(compression: str) -> None:
    data = bomb(compression)
    assert len(data) < 100_000
    assert len(decode_node(data, "p").node.buffer) == 1000
    with pytest.raises(FormatError, match="uncompressed size"):
        decode_node(data, "p", expanded_bytes_max=1_000_000)


@pytest.mark.parametrize("claim", [2**40, 2**62, 2**63 - 1])
def test_a_buffer_with_a_huge_declared_size_is_rejected(claim: int) -> None:
    data = bomb("zstd")
    at = data.index(struct.pack("<q", 1_000_000 + sum(map(len, SYSTEM))))
    forged = data[:at] + struct.pack("<q", claim) + data[at + 8 :]
    with pytest.raises(FormatError, match="uncompressed size"):
        decode_node(forged, "p")


def other_file(
    batch: "pa.RecordBatch", write: Callable[["pa.BufferOutputStream"], AbstractContextManager[Any]]
) -> bytes:
    sink = pa.BufferOutputStream()
    with write(sink) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def test_a_stream_in_place_of_a_file_is_refused() -> None:
    batch = pa.record_batch({"key": pa.array(["a"])})
    with pytest.raises(FormatError):
        decode_node(other_file(batch, lambda sink: pa.ipc.new_stream(sink, batch.schema)), "p")


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1, 2]),
        pa.array([["a"], ["b"]]),
        pa.nulls(2),
        pa.array(["a", "b"], pa.string_view()),
        pa.array([{"key": "a"}, None]),
    ],
    ids=lambda array: str(array.type),
)
def test_columns_of_other_types_are_refused(array: "pa.Array[pa.Scalar[pa.DataType]]") -> None:
    batch = pa.RecordBatch.from_arrays([array] * 4, names=["key", "value", "pnode", "txn"])
    with pytest.raises(FormatError, match="expected string"):
        decode_node(other_file(batch, lambda sink: pa.ipc.new_file(sink, batch.schema)), "p")


def column_of(offsets: list[int], texts: bytes) -> "pa.StringArray":
    array: pa.StringArray = pa.StringArray.from_buffers(
        len(offsets) - 1, pa.py_buffer(struct.pack(f"<{len(offsets)}i", *offsets)), pa.py_buffer(texts)
    )
    return array


@pytest.mark.parametrize(
    ("offsets", "texts"),
    [([0, 2**30, 2], b"ab"), ([0, -5, 2], b"ab"), ([0, 2, 1], b"ab"), ([0, 1, 2], b"a\xff")],
    ids=["beyond the end", "before the start", "backwards", "not UTF-8"],
)
def test_a_foreign_file_with_invalid_text_offsets_is_rejected(offsets: list[int], texts: bytes) -> None:
    batch = pa.RecordBatch.from_arrays([column_of(offsets, texts)] * 4, names=["key", "value", "pnode", "txn"])
    with pytest.raises(FormatError, match="Arrow cannot read it"):
        decode_node(other_file(batch, lambda sink: pa.ipc.new_file(sink, batch.schema)), "p")


def test_dictionaries_are_refused_before_they_are_unpacked() -> None:
    column = pa.array(["a", "a"]).dictionary_encode()
    batch = pa.RecordBatch.from_arrays([column] * 4, names=["key", "value", "pnode", "txn"])
    with pytest.raises(FormatError, match="dictionaries"):
        decode_node(other_file(batch, lambda sink: pa.ipc.new_file(sink, batch.schema)), "p")
