"""Proofs that lakehouses made by TrinityLake's and Olympia's Java programs open, read-only."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.betree.node import Node
from mangrove.errors import FormatError, InvalidInputError
from mangrove.layouts.tree.java_formats import (
    OLYMPIA_JAVA,
    TRINITYLAKE_JAVA,
    JavaDialect,
    decode_java_object,
    decode_java_settings,
    list_java_revisions,
)
from mangrove.layouts.tree.keys import NameSizes, locator_of_parts
from mangrove.layouts.tree.node_file import NodeFile, decode_node, encode_node
from mangrove.layouts.tree.revision import NEWER, OLDER
from mangrove.layouts.tree.versions import decode_hint
from mangrove.model.locators import NamespaceLocator, TableLocator
from mangrove.model.objects import NamespaceEntry, TableEntry

FIXTURES = Path(__file__).parent / "fixtures"
TRINITYLAKE = FIXTURES / "trinitylake-java"
OLYMPIA = FIXTURES / "olympia-java"


def root(lakehouse: Path, dialect: JavaDialect, version: int) -> NodeFile:
    path = dialect.revision.roots.path(version)
    return decode_node((lakehouse / path).read_bytes(), path, list_java_revisions(dialect.revision.roots))


def objects(lakehouse: Path, dialect: JavaDialect, version: int) -> Iterator[NamespaceEntry | TableEntry]:
    file = root(lakehouse, dialect, version)
    definition_path = file.system["lakehouse_def"]
    sizes = decode_java_settings(dialect.numbers, (lakehouse / definition_path).read_bytes(), definition_path).sizes
    for key, path in zip(file.node.keys, file.node.values, strict=True):
        locator = locator_of_parts(file.revision.keys.parts_of(key, sizes))
        yield decode_java_object(dialect.numbers, locator, (lakehouse / path).read_bytes(), path)


@pytest.mark.parametrize(("lakehouse", "dialect"), [(TRINITYLAKE, TRINITYLAKE_JAVA), (OLYMPIA, OLYMPIA_JAVA)])
def test_the_program_that_created_a_lakehouse_is_detected(lakehouse: Path, dialect: JavaDialect) -> None:
    file = root(lakehouse, dialect, 2)
    assert file.revision == dialect.revision
    assert decode_hint((lakehouse / dialect.revision.hint_path).read_bytes()) == 2
    assert {path.name for path in lakehouse.rglob("*[01]*") if len(path.stem.strip("_")) == 64} == {
        Path(dialect.revision.roots.path(version)).name for version in range(3)
    }


def test_lakehouses_of_mangrove_are_not_mistaken_for_those_of_other_programs() -> None:
    assert list_java_revisions(NEWER.roots) == (NEWER, OLDER)


@pytest.mark.parametrize(
    ("version", "names"),
    [(0, []), (1, [("default",), ("default", "table")]), (2, [("default",), ("default", "a"), ("default", "table")])],
)
def test_each_version_of_trinitylakes_lakehouse_has_its_objects(version: int, names: list[tuple[str, ...]]) -> None:
    file = root(TRINITYLAKE, TRINITYLAKE_JAVA, version)
    found = [file.revision.keys.parts_of(key, NameSizes(8, 8)).parts for key in file.node.keys]
    assert found == names
    assert file.system.get("previous_root") == (None if version == 0 else file.revision.roots.path(version - 1))
    assert file.created_at_millis == [1794723619175, 1794723619976, 1794723620008][version]


def test_definitions_of_trinitylake_are_decoded() -> None:
    namespace, a, table = objects(TRINITYLAKE, TRINITYLAKE_JAVA, 2)
    assert isinstance(namespace, NamespaceEntry)
    assert (namespace.name, dict(namespace.properties)) == ("default", {"k": "v"})
    assert isinstance(a, TableEntry)
    assert (a.name, a.table_format, a.namespace_id) == ("a", "", namespace.id)
    assert isinstance(table, TableEntry)
    assert (table.name, table.table_format) == ("table", "ICEBERG")


@pytest.mark.parametrize(
    ("version", "names"),
    [(0, []), (1, [("ns1",), ("ns1", "a"), ("ns1", "b")]), (2, [("ns1",), ("ns1", "b")])],
)
def test_each_version_of_olympias_lakehouse_has_its_objects_and_not_its_deleted_ones(
    version: int, names: list[tuple[str, ...]]
) -> None:
    file = root(OLYMPIA, OLYMPIA_JAVA, version)
    found = [file.revision.keys.parts_of(key, NameSizes(8, 8)).parts for key in file.node.keys]
    assert found == names
    assert file.system["lakehouse_def"].startswith("def/catalog/")
    assert file.node.is_leaf


def test_olympias_definitions_give_each_table_an_id_of_its_own() -> None:
    namespace, a, b = objects(OLYMPIA, OLYMPIA_JAVA, 1)
    assert (namespace.name, a.name, b.name) == ("ns1", "a", "b")
    assert len({namespace.id, a.id, b.id}) == 3
    assert [found.id for found in objects(OLYMPIA, OLYMPIA_JAVA, 1)] == [namespace.id, a.id, b.id]


@pytest.mark.parametrize(
    ("lakehouse", "dialect", "path_bytes_max", "sizes"),
    [
        (TRINITYLAKE, TRINITYLAKE_JAVA, 200, NameSizes(8, 8, 8)),
        (OLYMPIA, OLYMPIA_JAVA, 200, NameSizes(8, 8, 100)),
    ],
)
def test_the_definition_of_the_lakehouse_gives_its_sizes(
    lakehouse: Path, dialect: JavaDialect, path_bytes_max: int, sizes: NameSizes
) -> None:
    path = root(lakehouse, dialect, 0).system["lakehouse_def"]
    found = decode_java_settings(dialect.numbers, (lakehouse / path).read_bytes(), path)
    assert found.sizes == sizes
    assert found.settings.order == 128
    assert found.settings.file_path_max_size_bytes == path_bytes_max
    assert found.settings.node_file_max_size_bytes == 1024 * 1024


@pytest.mark.parametrize("dialect", [TRINITYLAKE_JAVA, OLYMPIA_JAVA])
def test_writing_in_the_format_of_a_java_program_is_rejected(dialect: JavaDialect) -> None:
    with pytest.raises(InvalidInputError, match="is read-only"):
        encode_node(Node(), {"created_at_millis": "1"}, dialect.revision, 128)


@pytest.mark.parametrize(("lakehouse", "dialect"), [(TRINITYLAKE, TRINITYLAKE_JAVA), (OLYMPIA, OLYMPIA_JAVA)])
@given(
    flips=st.lists(st.tuples(st.integers(0), st.integers(0, 7)), min_size=1, max_size=6),
    cut=st.sampled_from([0, 0, 1, 40]),
)
def test_a_damaged_node_of_a_java_program_is_refused_or_read(
    lakehouse: Path, dialect: JavaDialect, flips: list[tuple[int, int]], cut: int
) -> None:
    path = dialect.revision.roots.path(2)
    data = bytearray((lakehouse / path).read_bytes())
    for position, bit in flips:
        data[position % len(data)] ^= 1 << bit
    try:
        file = decode_node(bytes(data[cut:]), path, [dialect.revision])
    except FormatError as error:
        if path not in str(error):
            raise
        return
    assert len(file.node.keys) == len(file.node.values)


@pytest.mark.parametrize("dialect", [TRINITYLAKE_JAVA, OLYMPIA_JAVA])
@pytest.mark.parametrize("locator", [NamespaceLocator("ns"), TableLocator("ns", "t")])
@given(data=st.binary(max_size=60))
def test_arbitrary_bytes_are_a_definition_or_a_format_error(
    dialect: JavaDialect, locator: NamespaceLocator | TableLocator, data: bytes
) -> None:
    try:
        found = decode_java_object(dialect.numbers, locator, data, "def/x")
        decode_java_settings(dialect.numbers, data, "def/x")
    except FormatError as error:
        if "def/x" not in str(error):
            raise
        return
    assert found.name == locator.name
