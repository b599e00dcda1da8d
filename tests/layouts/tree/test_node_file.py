"""Proofs that a node survives its file, in both format revisions, and that its rows are the specified ones."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.betree.node import Message, Node
from mangrove.errors import FormatError, InvalidInputError
from mangrove.layouts.tree.node_file import NodeFile, decode_node, encode_node
from mangrove.layouts.tree.revision import NEWER, OLDER, TreeRevision

REVISIONS = pytest.mark.parametrize("revision", [NEWER, OLDER], ids=["newer", "older"])
ORDER = 5
ROOT_SYSTEM = {"created_at_millis": "1737070822189", "lakehouse_def": "_lakehouse_def_1.binpb"}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    keys = tuple(sorted(draw(st.sets(TEXTS, max_size=ORDER - 1))))
    values = tuple(draw(st.lists(TEXTS, min_size=len(keys), max_size=len(keys))))
    is_leaf = draw(st.booleans())
    children = () if is_leaf else tuple(draw(st.lists(TEXTS, min_size=len(keys) + 1, max_size=len(keys) + 1)))
    buffer = draw(st.lists(st.builds(Message, TEXTS, st.none() | TEXTS, TEXTS), max_size=8))
    return Node(keys, values, children, tuple(buffer))


def rows_of(data: bytes) -> list[dict[str, str | None]]:
    rows: list[dict[str, str | None]] = pa.ipc.open_file(data).read_all().to_pylist()
    return rows


def file_of(columns: Mapping[str, list[str | None]], batches: int = 1, kind: "pa.DataType | None" = None) -> bytes:
    batch = pa.record_batch({name: pa.array(texts, kind or pa.string()) for name, texts in columns.items()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        for _ in range(batches):
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


@given(nodes(), st.dictionaries(TEXTS, TEXTS, max_size=4), st.sampled_from(["none", "lz4", "zstd"]))
def test_a_node_of_the_newer_revision_round_trips(node: Node, more: dict[str, str], compression: str) -> None:
    system = more | ROOT_SYSTEM
    file = decode_node(encode_node(node, system, NEWER, ORDER, compression), "p", order=ORDER)
    assert file == NodeFile(system | {"n_keys": str(len(node.keys))}, node, NEWER)
    assert file.created_at_millis == 1737070822189


@given(nodes(), st.booleans())
def test_a_root_of_the_older_revision_keeps_whose_its_last_messages_are(node: Node, order_is_known: bool) -> None:
    data = encode_node(node, ROOT_SYSTEM, OLDER, ORDER)
    file = decode_node(data, "p", order=ORDER if order_is_known else None)
    last = node.buffer[-1].transaction if node.buffer else ""
    kept = list(node.buffer)
    for i in range(len(kept) - 1, -1, -1):
        if kept[i].transaction != last:
            kept[: i + 1] = [message._replace(transaction="") for message in kept[: i + 1]]
            break
    assert file.node == replace(node, buffer=tuple(kept))
    assert file.system == ROOT_SYSTEM | {"n_keys": str(len(node.keys))}
    assert file.revision is OLDER


@given(nodes())
def test_other_nodes_of_the_older_revision_have_no_system_rows(node: Node) -> None:
    file = decode_node(encode_node(node, {"created_at_millis": "1"}, OLDER, ORDER), "p", order=ORDER)
    assert file.system == {}
    assert file.node == replace(node, buffer=tuple(message._replace(transaction="") for message in node.buffer))


@REVISIONS
@given(node=nodes())
def test_the_table_of_keys_has_exactly_as_many_rows_as_the_order(revision: TreeRevision, node: Node) -> None:
    rows = rows_of(encode_node(node, {"created_at_millis": "1"}, revision, ORDER))
    keys = [row["key"] for row in rows]
    start = keys.index(None)
    table, buffer = rows[start : start + ORDER], rows[start + ORDER :]
    assert [row["key"] for row in table] == [None, *node.keys, *[None] * (ORDER - 1 - len(node.keys))]
    assert [row["key"] for row in buffer] == [message.key for message in node.buffer]


WORKED_EXAMPLE = Node(
    keys=("C===default table   ",),
    values=("0011/…-table-….binpb",),
    children=("1011/…-node-A.ipc", "0101/…-node-B.ipc"),
    buffer=(
        Message("C===default old     ", "1100/….binpb", "txn-6"),
        Message("C===default table   ", None, "txn-7"),
    ),
)
WORKED_SYSTEM = {
    "created_at_millis": "1737070822189",
    "n_keys": "1",
    "lakehouse_def": "_lakehouse_def_….binpb",
    "previous_root": "_01100000000000000000000000000000.ipc",
}
WORKED_ROWS: list[tuple[str | None, str | None, str | None, str | None]] = [
    ("created_at_millis", "1737070822189", None, None),
    ("n_keys", "1", None, None),
    ("lakehouse_def", "_lakehouse_def_….binpb", None, None),
    ("previous_root", "_01100000000000000000000000000000.ipc", None, None),
    (None, None, "1011/…-node-A.ipc", None),
    ("C===default table   ", "0011/…-table-….binpb", "0101/…-node-B.ipc", None),
    (None, None, None, None),
    (None, None, None, None),
    ("C===default old     ", "1100/….binpb", None, "txn-6"),
    ("C===default table   ", None, None, "txn-7"),
]


def worked_columns(rows: list[tuple[str | None, ...]] | None = None) -> dict[str, list[str | None]]:
    columns = [list(column) for column in zip(*(rows or WORKED_ROWS), strict=True)]
    return dict(zip(("key", "value", "pnode", "txn"), columns, strict=True))


def test_the_worked_example_of_the_specification_is_written_row_for_row() -> None:
    rows = rows_of(encode_node(WORKED_EXAMPLE, WORKED_SYSTEM, NEWER, order=4))
    assert [tuple(row.values()) for row in rows] == WORKED_ROWS


@pytest.mark.parametrize("order", [None, 4])
def test_the_worked_example_of_the_specification_is_read(order: int | None) -> None:
    assert decode_node(file_of(worked_columns()), "p", order=order) == NodeFile(WORKED_SYSTEM, WORKED_EXAMPLE, NEWER)


def test_columns_are_read_by_name_and_unknown_ones_are_left_alone() -> None:
    columns = worked_columns()
    shuffled = {name: columns[name] for name in ("txn", "pnode", "value", "key")} | {"later": [None] * len(WORKED_ROWS)}
    assert decode_node(file_of(shuffled), "p").node == WORKED_EXAMPLE


def test_text_with_large_offsets_is_read() -> None:
    assert decode_node(file_of(worked_columns(), kind=pa.large_string()), "p").node == WORKED_EXAMPLE


def test_a_file_is_uncompressed_by_default() -> None:
    plain = encode_node(WORKED_EXAMPLE, WORKED_SYSTEM, NEWER, order=4)
    assert b"C===default table   " in plain
    with pytest.raises(InvalidInputError, match="gzip"):
        encode_node(WORKED_EXAMPLE, WORKED_SYSTEM, NEWER, order=4, compression="gzip")


def test_node_encoding_is_deterministic() -> None:
    assert encode_node(WORKED_EXAMPLE, WORKED_SYSTEM, NEWER, 4) == encode_node(WORKED_EXAMPLE, WORKED_SYSTEM, NEWER, 4)


OLDER_FILE: dict[str, list[str | None]] = {
    "key": ["lakehouse", None, " ns1     B===", None, None, " ns1     t       D===", " ns1     B==="],
    "pvalue": ["def.binpb", None, "ns1.binpb", None, None, "t.binpb", None],
    "pnode": [None] * 7,
}


@pytest.mark.parametrize("order", [None, 4])
def test_a_file_of_the_older_revision_from_another_writer_is_read(order: int | None) -> None:
    file = decode_node(file_of(OLDER_FILE), "p", order=order)
    assert file.system == {"lakehouse_def": "def.binpb"}
    assert file.created_at_millis is None
    assert file.node == Node(
        keys=(" ns1     B===",),
        values=("ns1.binpb",),
        buffer=(Message(" ns1     t       D===", "t.binpb", ""), Message(" ns1     B===", None, "")),
    )


def full_older_file(child: str | None) -> bytes:
    return file_of(
        {"key": [None, "a", "b", "c"], "pvalue": [None, "1", "2", "3"], "pnode": [child, child, child, None]}
    )


def test_children_distinguish_keys_from_messages_in_a_full_node_of_the_older_revision() -> None:
    node = decode_node(full_older_file("n"), "p").node
    assert (node.keys, node.buffer) == (("a", "b"), (Message("c", "3", ""),))


def test_only_the_order_distinguishes_keys_from_messages_in_a_full_leaf_of_the_older_revision() -> None:
    node = decode_node(full_older_file(None), "p", order=3).node
    assert (node.keys, node.buffer) == (("a", "b"), (Message("c", "3", ""),))
    with pytest.raises(FormatError, match="order"):
        decode_node(full_older_file(None), "p")


def test_an_older_node_with_fewer_rows_than_its_order_is_refused() -> None:
    with pytest.raises(FormatError, match="order is 9"):
        decode_node(full_older_file(None), "p", order=9)


def changed(row: int, *values: str | None) -> Callable[[], bytes]:
    rows: list[tuple[str | None, ...]] = list(WORKED_ROWS)
    rows[row] = values
    return lambda: file_of(worked_columns(rows))


def without(*names: str) -> Callable[[], bytes]:
    return lambda: file_of({name: texts for name, texts in worked_columns().items() if name not in names})


BROKEN: dict[str, tuple[Callable[[], bytes], str]] = {
    "a system row without a value": (changed(0, "created_at_millis", None, None, None), "no value"),
    "a system row twice": (changed(0, "n_keys", "1", None, None), "duplicate"),
    "no row that opens the table": (changed(4, "x", "y", None, None), "row of the table|n_keys|opens"),
    "a value where the table opens": (changed(4, None, "y", None, None), "opening row"),
    "a creation time that is no number": (changed(0, "created_at_millis", "now", None, None), "not a number"),
    "a creation time beyond numbers": (changed(0, "created_at_millis", "1" * 5000, None, None), "not a number"),
    "a count of keys that is no number": (changed(1, "n_keys", "-1", None, None), "not a number"),
    "a count of keys that is wrong": (changed(1, "n_keys", "2", None, None), "n_keys is 2"),
    "a key without a value": (changed(5, "C===k", None, "x", None), "values"),
    "a key without its child": (changed(5, "C===k", "v", None, None), "children"),
    "only the leftmost child missing": (changed(4, None, None, None, None), "children"),
    "keys out of order": (changed(6, "C===a", "v", "x", None), "n_keys|order"),
    "a row after the empty rows": (changed(7, "C===z", "v", "x", None), "empty row"),
    "a pointer in an empty row": (changed(6, None, None, "x", None), "empty row"),
    "a value in an empty row": (changed(6, None, "v", None, None), "empty row"),
    "a message with a child": (changed(8, "C===k", "v", "x", "t"), "message"),
    "a message without a key": (changed(8, None, "v", None, "t"), "message"),
    "a message without a transaction": (changed(9, "C===k", "v", None, None), "transaction"),
    "no column for keys": (without("key"), "columns"),
    "no column for transactions": (without("txn"), "columns"),
    "no columns": (without("key", "value", "pnode", "txn"), "columns|Arrow"),
    "binary columns": (lambda: file_of(worked_columns(), kind=pa.binary()), "expected string"),
    "two record batches": (lambda: file_of(worked_columns(), batches=2), "record batches"),
    "no record batch": (lambda: file_of(worked_columns(), batches=0), "record batches"),
    "no bytes": (lambda: b"", "truncated"),
    "only the magic words": (lambda: b"ARROW1\0\0ARROW1", "truncated"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_node_file_is_refused_with_its_name_and_the_rule(name: str) -> None:
    make, rule = BROKEN[name]
    with pytest.raises(FormatError, match=rule) as caught:
        decode_node(make(), "1011/x-node-1.ipc")
    assert "1011/x-node-1.ipc" in str(caught.value)


def test_duplicate_column_names_are_rejected() -> None:
    texts = pa.array(["a"], pa.string())
    batch = pa.RecordBatch.from_arrays([texts] * 5, names=["key", "value", "pnode", "txn", "key"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with pytest.raises(FormatError, match="duplicate column"):
        decode_node(sink.getvalue().to_pybytes(), "p")


def test_more_keys_than_the_order_allows_are_refused() -> None:
    with pytest.raises(FormatError, match="order 1"):
        decode_node(file_of(worked_columns()), "p", order=1)
    with pytest.raises(ValueError, match="order 1"):
        encode_node(WORKED_EXAMPLE, WORKED_SYSTEM, NEWER, order=1)


def test_a_node_with_an_unwritten_child_has_no_file() -> None:
    with pytest.raises(ValueError, match="written"):
        encode_node(Node(children=(Node(),)), ROOT_SYSTEM, NEWER, ORDER)


def test_a_message_count_larger_than_the_buffer_is_rejected() -> None:
    columns = OLDER_FILE | {"key": ["n_messages", *OLDER_FILE["key"][1:]], "pvalue": ["3", *OLDER_FILE["pvalue"][1:]]}
    with pytest.raises(FormatError, match="n_messages is 3"):
        decode_node(file_of(columns), "p", order=4)


def test_text_that_utf_8_cannot_store_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="surrogate"):
        encode_node(Node(("\ud800",), ("v",)), ROOT_SYSTEM, NEWER, ORDER)


def test_text_equal_to_the_checksum_placeholder_round_trips() -> None:
    node = Node(("here-the-checksum-will-be-filled",), ("mangrove.checksum",))
    assert decode_node(encode_node(node, ROOT_SYSTEM, NEWER, ORDER), "p").node == node
