"""Proofs that files lie where the specification says, and that every path fits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import FormatError, InvalidInputError
from mangrove.layouts.tree.paths import (
    RootNames,
    definition_path,
    hashed_path,
    lakehouse_definition_path,
    newer_node_path,
    older_node_path,
)
from mangrove.model.locators import Kind
from mangrove.model.paths import check_path

ID = "6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8"
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=["/"], min_codepoint=0x21), min_size=1)

SPECIFIED_PATHS = [
    ("my/path/my-table-definition.binpb", "1101/0111/0011/01111110-my-path-my-table-definition.binpb"),
    ("my-table-definition.binpb", "1011/1010/0010/11001011-my-table-definition.binpb"),
    (f"node-{ID}.ipc", f"1011/0000/1010/01001110-node-{ID}.ipc"),
    (f"table-t1-ns1-{ID}.binpb", f"1001/0011/1000/10010110-table-t1-ns1-{ID}.binpb"),
    (f"namespace-ns1-{ID}.binpb", f"0111/1000/0001/10011111-namespace-ns1-{ID}.binpb"),
]

PATHS_OF_JAVA = [
    "0101/1000/1100/11001010-default-table-3adc58fb-563b-46d4-a260-0c8166dadeff.binpb",
    "0101/1100/0111/10100011-default-a-a8ff46f9-1e7b-4e08-98a5-32cc26e4a840.binpb",
    "1000/0111/0100/01010010-default-1d810c5a-e58b-4c54-ad65-af692a4d1906.binpb",
    "1011/1010/0110/10100000-default-b-17a7ad57-2315-40f8-abb2-10aa6053f152.binpb",
    "1100/1110/0111/01001001-ns2-2bb5a8e2-b3cf-49d7-8e1a-962bdcab3b3e.binpb",
]


@pytest.mark.parametrize(("original", "stored"), SPECIFIED_PATHS)
def test_a_path_is_optimised_as_in_the_specification(original: str, stored: str) -> None:
    assert hashed_path(original) == stored


@pytest.mark.parametrize("stored", PATHS_OF_JAVA)
def test_a_path_is_optimised_as_the_java_program_did_it(stored: str) -> None:
    assert hashed_path(stored.partition("-")[2]) == stored


def test_the_newer_revision_names_nodes_by_their_id_in_text() -> None:
    assert newer_node_path(ID) == f"1011/0000/1010/01001110-node-{ID}.ipc"


def test_the_older_revision_names_nodes_by_their_id_in_base64() -> None:
    assert older_node_path(ID) == hashed_path("b8tRS7h4TJ2Vt43Dp85v2A.ipc")


def test_the_older_revision_has_no_slash_in_the_name_of_a_node() -> None:
    assert older_node_path("ffffffff-ffff-4fbe-bfff-ffffffffffff") == hashed_path("________T76__________w.ipc")


def test_a_definition_of_the_lakehouse_is_stored_at_the_top() -> None:
    assert lakehouse_definition_path(ID) == f"_lakehouse_def_{ID}.binpb"


@pytest.mark.parametrize(
    ("kind", "names", "stored"),
    [(Kind.TABLE, ("t1", "ns1"), SPECIFIED_PATHS[3][1]), (Kind.NAMESPACE, ("ns1",), SPECIFIED_PATHS[4][1])],
)
def test_a_definition_names_its_kind_then_the_object_then_its_namespace(
    kind: Kind, names: tuple[str, ...], stored: str
) -> None:
    assert definition_path(kind, names, ID, path_bytes_max=200) == stored


@given(st.lists(NAMES, max_size=3), st.uuids(), st.integers(80, 400), st.sampled_from([Kind.TABLE, Kind.TABLE_VERSION]))
def test_a_definition_path_always_fits_and_keeps_its_id(
    names: list[str], definition_id: object, path_bytes_max: int, kind: Kind
) -> None:
    path = definition_path(kind, names, str(definition_id), path_bytes_max)
    assert len(path.encode()) <= path_bytes_max
    check_path(path)
    assert path.count("/") == 3
    assert path.partition("-")[2].startswith("table")
    assert path.endswith(f"-{definition_id}.binpb")
    assert hashed_path(path.partition("-")[2]) == path


def test_a_name_of_multi_byte_characters_is_cut_between_characters() -> None:
    path = definition_path(Kind.TABLE, ("ü" * 100, "ns"), ID, path_bytes_max=100)
    readable = path.partition("-table-")[2].removesuffix(f"-{ID}.binpb")
    assert readable == "ü" * 13
    assert len(path.encode()) == 99


def test_url_special_characters_are_replaced_in_paths() -> None:
    path = definition_path(Kind.TABLE, ("50%?a=b#c:d\\e", "ns"), ID, path_bytes_max=200)
    assert f"-table-50__a=b_c_d_e-ns-{ID}.binpb" in path


def test_a_limit_that_leaves_no_room_for_the_id_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="file_path_max_size_bytes"):
        definition_path(Kind.TABLE, ("t1", "ns1"), ID, path_bytes_max=60)


@pytest.mark.parametrize("text", ["", "t1", ID.upper(), ID + "\n", ID.replace("-", "")])
def test_an_id_that_is_not_a_uuid_is_rejected_as_a_file_name(text: str) -> None:
    for name in (newer_node_path, older_node_path, lakehouse_definition_path):
        with pytest.raises(InvalidInputError, match="UUID"):
            name(text)


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (Kind.VIEW, "view"),
        (Kind.SHARED_TRANSACTION, "txn"),
        (Kind.TABLE_VERSION, "tableversion"),
        (Kind.STREAM, "stream"),
        (Kind.PARTITION, "partition"),
        (Kind.DELTA, "delta"),
    ],
)
def test_every_kind_has_one_word_in_definition_paths(kind: Kind, word: str) -> None:
    assert definition_path(kind, ("x",), ID, path_bytes_max=200).partition("-")[2] == f"{word}-x-{ID}.binpb"


def test_the_lakehouse_has_no_object_definition_path() -> None:
    with pytest.raises(InvalidInputError, match="lakehouse"):
        definition_path(Kind.LAKEHOUSE, ("x",), ID, path_bytes_max=200)


def test_version_100_has_the_name_of_the_specification() -> None:
    assert RootNames(digits=32).path(100) == "_00100110000000000000000000000000.ipc"


def test_the_java_programs_names_of_roots_are_read() -> None:
    assert RootNames(digits=64).version_of(f"_01{'0' * 62}.ipc") == 2
    assert RootNames(digits=64, before="vn/", after="").version_of(f"vn/1{'0' * 63}") == 1


@given(st.sampled_from([32, 64]), st.data())
def test_a_root_path_gives_its_version_back(digits: int, data: st.DataObject) -> None:
    version = data.draw(st.integers(0, 2**digits - 1))
    names = RootNames(digits)
    assert names.is_root(names.path(version))
    assert names.version_of(names.path(version)) == version


@pytest.mark.parametrize("version", [-1, 2**32])
def test_a_version_that_has_no_name_is_refused(version: int) -> None:
    with pytest.raises(InvalidInputError, match="version"):
        RootNames(digits=32).path(version)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "_.ipc",
        "_" + "0" * 31 + ".ipc",
        "_" + "0" * 64 + ".ipc",
        "_" + "0" * 31 + "2.ipc",
        "_" + "0" * 32 + ".ipc\n",
        "_" + "0" * 31 + "٠.ipc",
        "x/_" + "0" * 32 + ".ipc",
        "_latest_hint.txt",
    ],
)
def test_what_is_not_a_root_node_has_no_version(path: str) -> None:
    names = RootNames(digits=32)
    assert not names.is_root(path)
    with pytest.raises(FormatError, match="root node"):
        names.version_of(path)


def test_an_unknown_width_of_root_names_is_rejected() -> None:
    with pytest.raises(ValueError, match="16"):
        RootNames(digits=16)
