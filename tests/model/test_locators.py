"""How objects are found, ordered and told apart."""

import pickle

import pytest

from mangrove.errors import InvalidInputError
from mangrove.model.locators import (
    DeltaLocator,
    Kind,
    Locator,
    NamespaceLocator,
    PartitionLocator,
    SharedTransactionLocator,
    StreamLocator,
    TableIdentity,
    TableLocator,
    TableVersionLocator,
    ViewLocator,
    parse_table_name,
    parse_view_name,
)

DELTA = DeltaLocator("n1", "t1", 1, "s1", "p1", 42)


def test_the_canonical_string_of_a_table_is_its_namespaces_and_its_own_name() -> None:
    assert NamespaceLocator("MyNamespace").canonical == "MyNamespace"
    assert TableLocator("MyNamespace", "MyTable").canonical == "MyNamespace|MyTable"


def test_locators_below_a_table_consist_of_ids() -> None:
    assert DELTA.canonical == "n1|t1|1|s1|p1|42"


def test_the_parents_of_a_delta_end_at_its_table_identity() -> None:
    partition = DELTA.parent
    assert partition == PartitionLocator("n1", "t1", 1, "s1", "p1")
    assert partition.parent == StreamLocator("n1", "t1", 1, "s1")
    assert partition.parent.parent == TableVersionLocator("n1", "t1", 1)
    assert partition.parent.parent.parent == TableIdentity("n1", "t1")


def test_the_parent_of_tables_and_views_is_a_namespace_and_namespaces_have_none() -> None:
    assert TableLocator("a", "b").parent == ViewLocator("a", "c").parent == NamespaceLocator("a")
    assert NamespaceLocator("a").parent is None
    assert SharedTransactionLocator("load").parent is None


def test_deltas_are_ordered_by_position_as_a_number() -> None:
    positions = [10, 9, 1, 100]
    found = sorted(DeltaLocator("n", "t", 1, "s", "p", position) for position in positions)
    assert [locator.position for locator in found] == [1, 9, 10, 100]


def test_locators_of_all_kinds_are_ordered_among_each_other() -> None:
    locators: list[Locator] = [DELTA, TableLocator("b", "a"), NamespaceLocator("z"), TableLocator("a", "b")]
    assert [str(locator) for locator in sorted(locators)] == ["z", "a.b", "b.a", "|n1|t1|1|s1||p1||42"]


def test_a_table_and_a_view_of_one_name_are_different_keys() -> None:
    assert len({TableLocator("a", "b"), ViewLocator("a", "b"), TableLocator("a", "b")}) == 2


def test_a_locator_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(DELTA)) == DELTA


def test_the_text_of_a_table_locator_is_its_quoted_name() -> None:
    assert str(TableLocator("sales", "orders.2026")) == "sales.`orders.2026`"
    assert parse_table_name("sales.`orders.2026`") == TableLocator("sales", "orders.2026")
    assert parse_view_name("sales.daily") == ViewLocator("sales", "daily")


@pytest.mark.parametrize("text", ["orders", "a.b.c"])
def test_a_table_name_has_two_parts(text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"namespace\.table"):
        parse_table_name(text)


@pytest.mark.parametrize("position", [0, -1, 2**63, True])
def test_an_invalid_stream_position_is_rejected(position: int) -> None:
    with pytest.raises(InvalidInputError, match="stream position"):
        DeltaLocator("n", "t", 1, "s", "p", position)


def test_names_with_ambiguous_canonical_strings_are_rejected() -> None:
    with pytest.raises(InvalidInputError, match=r"\|"):
        TableLocator("a|b", "c")


def test_kinds_have_the_numbers_of_the_trees_keys() -> None:
    assert [(kind.value, kind.word) for kind in Kind] == [
        (0, "lakehouse"),
        (1, "namespace"),
        (2, "table"),
        (3, "view"),
        (4, "shared transaction"),
        (5, "table version"),
        (6, "stream"),
        (7, "partition"),
        (8, "delta"),
        (9, "alias"),
    ]
