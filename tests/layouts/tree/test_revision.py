"""Proofs that a lakehouse itself tells which format revision it has."""

import pytest

from mangrove.errors import FormatError
from mangrove.layouts.tree.paths import RootNames, newer_node_path, older_node_path
from mangrove.layouts.tree.revision import NEWER, OLDER, TreeRevision, detect_revision, detect_root_names


@pytest.mark.parametrize(
    ("columns", "revision"),
    [
        (("key", "value", "pnode", "txn"), NEWER),
        (("txn", "pnode", "extra", "value", "key"), NEWER),
        (("key", "pvalue", "pnode"), OLDER),
        (("key", "value"), None),
        (("key", "value", "pvalue", "pnode"), None),
        (("key", "value", "pnode"), None),
        ((), None),
    ],
)
def test_the_columns_identify_the_format_revision(columns: tuple[str, ...], revision: TreeRevision | None) -> None:
    assert detect_revision(columns) is revision


def test_the_two_format_revisions_match_the_specification() -> None:
    assert NEWER.columns.names == ("key", "value", "pnode", "txn")
    assert OLDER.columns.names == ("key", "pvalue", "pnode")
    assert (NEWER.hint_path, OLDER.hint_path) == ("_latest_hint.txt", "_latest_hint")
    assert (NEWER.node_path, OLDER.node_path) == (newer_node_path, older_node_path)
    assert OLDER.system_names == {"lakehouse_def": "lakehouse"}


@pytest.mark.parametrize("digits", [32, 64])
def test_the_width_of_root_names_is_detected(digits: int) -> None:
    names = detect_root_names(["_latest_hint.txt", "0101/", f"_1{'0' * (digits - 1)}.ipc", f"_{'0' * digits}.ipc"])
    assert names == RootNames(digits)
    assert NEWER.with_roots(names).roots.path(1) == f"_1{'0' * (digits - 1)}.ipc"


def test_without_a_root_no_width_is_detected() -> None:
    assert detect_root_names(["_latest_hint.txt", "_lakehouse_def_x.binpb", "0101/"]) is None


def test_two_widths_of_root_names_are_not_mixed() -> None:
    with pytest.raises(FormatError, match="different numbers of digits"):
        detect_root_names([f"_{'0' * 32}.ipc", f"_{'0' * 64}.ipc"])
