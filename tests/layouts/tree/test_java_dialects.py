"""Proofs about rows, tree keys and definitions of the Java programs that their samples do not show."""

import pyarrow as pa
import pytest

from mangrove.betree.node import Message, Node
from mangrove.errors import FormatError
from mangrove.layouts.tree.java_formats import (
    OLYMPIA_JAVA,
    TRINITYLAKE_JAVA,
    decode_java_object,
    decode_java_settings,
    decode_olympia_rows,
    decode_trinitylake_rows,
)
from mangrove.layouts.tree.keys import JAVA_KEYS, KeyParts, NameSizes
from mangrove.layouts.tree.node_file import decode_node
from mangrove.layouts.tree.node_rows import NodeRows
from mangrove.layouts.tree.revision import NEWER, OLDER
from mangrove.model.locators import Kind, NamespaceLocator, TableLocator, ViewLocator
from mangrove.model.objects import TableEntry, TableType

SIZES = NameSizes(8, 8, 10)


@pytest.mark.parametrize(
    ("kind", "parts", "key"),
    [
        (Kind.NAMESPACE, ("üñ",), "B===üñ      "),
        (Kind.TABLE, ("ns", "😀t"), "C===ns      😀t     "),
        (Kind.VIEW, ("ns", "v"), "D===ns      v         "),
    ],
)
def test_the_java_programs_count_characters_of_java_in_names(kind: Kind, parts: tuple[str, ...], key: str) -> None:
    assert JAVA_KEYS.parts_of(key, SIZES) == KeyParts(kind, parts)
    assert JAVA_KEYS.key_of(kind, parts, SIZES) == key


def rows(*cells: tuple[str | None, str | None, str | None]) -> NodeRows:
    keys, values, children = zip(*cells, strict=True)
    return NodeRows(keys, values, children, [None] * len(cells), "vn/1")


def test_a_deleted_key_between_two_children_of_olympia_stays_deleted() -> None:
    sections = decode_olympia_rows(rows((None, None, "n0"), ("B===a", None, "n1"), ("B===b", "v", "n2")), 128)
    assert sections.node == Node(("B===a", "B===b"), ("", "v"), ("n0", "n1", "n2"), (Message("B===a", None, ""),))


def test_empty_rows_of_olympia_are_passed_over() -> None:
    sections = decode_olympia_rows(rows((None, None, None), ("B===a", "v", None), (None, None, None)), 128)
    assert sections.node == Node(("B===a",), ("v",))


@pytest.mark.parametrize(
    "broken",
    [
        rows(("n_keys", "0", None)),
        rows((None, None, None), ("B===b", "v", None), ("B===a", "v", None)),
        rows((None, None, "n0"), ("B===a", "v", None)),
        rows(("n_keys", "2", None), (None, None, None), ("B===a", "v", None)),
    ],
)
def test_broken_rows_of_olympia_are_refused(broken: NodeRows) -> None:
    with pytest.raises(FormatError, match="vn/1"):
        decode_olympia_rows(broken, 128)


@pytest.mark.parametrize(
    "broken",
    [
        rows((None, "v", None)),
        rows(("B===a", None, None)),
        rows(("B===a", "v", None), ("B===a", "w", None)),
        rows(("n_keys", "2", None), ("B===a", "v", None)),
    ],
)
def test_broken_rows_of_trinitylake_are_refused(broken: NodeRows) -> None:
    with pytest.raises(FormatError, match="vn/1"):
        decode_trinitylake_rows(broken, None)


@pytest.mark.parametrize("names", [["key", "value", "pnode"], ["key", "value", "txn"]])
def test_a_damaged_file_of_mangrove_is_not_mistaken_for_one_of_trinitylake(names: list[str]) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(["n_keys"]), pa.array(["0"]), pa.array(["x"])], names=names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with pytest.raises(FormatError, match="columns"):
        decode_node(sink.getvalue().to_pybytes(), "p", (NEWER, OLDER, TRINITYLAKE_JAVA.revision))


def field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2, len(value)]) + value


def entry(key: bytes, value: bytes) -> bytes:
    return field(1, key) + field(2, value)


def test_all_fields_of_a_table_of_olympia_are_decoded() -> None:
    data = field(2, b"EXTERNAL") + field(3, b"ICEBERG") + field(4, entry(b"a", b"1")) + field(5, entry(b"b", b"2"))
    table = decode_java_object(OLYMPIA_JAVA.numbers, TableLocator("ns", "t"), data, "def/x")
    assert isinstance(table, TableEntry)
    assert (table.table_type, table.table_format) == (TableType.EXTERNAL, "ICEBERG")
    assert (dict(table.format_properties), dict(table.properties)) == ({"a": "1"}, {"b": "2"})


def test_unused_fields_may_have_any_wire_type() -> None:
    data = b"\x79" + bytes(8) + b"\x7d" + bytes(4) + field(9, b"ICEBERG") + b"\x78\x01"
    table = decode_java_object(TRINITYLAKE_JAVA.numbers, TableLocator("ns", "t"), data, "def/x")
    assert isinstance(table, TableEntry)
    assert table.table_format == "ICEBERG"


@pytest.mark.parametrize(
    "data",
    [
        b"\x12",
        b"\x12\x05ab",
        b"\x12" + b"\xff" * 11,
        b"\x13",
        b"\x02\x00",
        b"\x10\x01",
        field(2, field(1, b"\xff")),
        field(2, b"\x08\x01"),
    ],
)
def test_a_broken_definition_is_refused_with_its_name(data: bytes) -> None:
    with pytest.raises(FormatError, match="def/x"):
        decode_java_object(TRINITYLAKE_JAVA.numbers, NamespaceLocator("ns"), data, "def/x")


@pytest.mark.parametrize("data", [b"\x10\x01", b"\x18\x00", field(3, b"x"), b"\x20\x00", b"\x38\x01"])
def test_an_invalid_lakehouse_definition_is_rejected(data: bytes) -> None:
    with pytest.raises(FormatError, match="def/x"):
        decode_java_settings(OLYMPIA_JAVA.numbers, data, "def/x")


def test_reading_a_view_of_a_java_program_is_rejected() -> None:
    with pytest.raises(FormatError, match="view written by Olympia"):
        decode_java_object(OLYMPIA_JAVA.numbers, ViewLocator("ns", "v"), b"", "def/x")


def test_an_unknown_type_of_table_is_refused() -> None:
    with pytest.raises(FormatError, match="def/x"):
        decode_java_object(OLYMPIA_JAVA.numbers, TableLocator("ns", "t"), field(2, b"ODD"), "def/x")
