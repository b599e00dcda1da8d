"""The defects of the reference programs, each with the tests that show that it is not here."""

import ast
import random
from pathlib import Path

import pytest

from mangrove.effects import Effects
from mangrove.errors import ConflictError, InvalidInputError, NotFoundError
from mangrove.layouts.tree.metastore import TreeMetastore, create_tree, open_tree
from mangrove.metastore import Changes, Isolation, ObjectRange
from mangrove.model.locators import Kind, NamespaceLocator, SharedTransactionLocator, TableLocator
from mangrove.model.objects import SharedTransactionEntry, SharedTransactionState
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects
from mangrove.testing.metastore_contract import commit_objects, make_namespace, make_table

ROOT = Path(__file__).parents[3]
TREE, PURE, CONTRACT = "tests/layouts/tree", "tests/betree/test_betree.py", "src/mangrove/testing"
DEFECTS = {
    "two transactions that create different tables lose one of them": [
        f"{CONTRACT}/metastore_contract.py::test_concurrent_creations_of_different_tables_both_commit",
        f"{CONTRACT}/metastore_contract.py::test_concurrent_commits_of_threads_lose_nothing",
    ],
    "updating a pivot loses its right subtree": [
        f"{PURE}::test_updating_a_pivot_does_not_lose_its_right_subtree",
        f"{TREE}/test_reference_defects.py::test_changing_or_dropping_a_table_does_not_affect_others",
    ],
    "deleting a pivot loses its right subtree": [
        f"{PURE}::test_deleting_a_pivot_does_not_lose_its_right_subtree",
        f"{TREE}/test_reference_defects.py::test_changing_or_dropping_a_table_does_not_affect_others",
    ],
    "a split of a stored node leaves a child unwritten": [
        f"{TREE}/test_tree_commit.py::test_a_fresh_reader_finds_everything_after_many_commits_with_random_names",
    ],
    "deletes leave tombstones for ever": [
        f"{PURE}::test_compaction_removes_all_tombstones",
        f"{PURE}::test_deletes_do_not_fill_the_root_buffer",
        f"{TREE}/test_reference_defects.py::test_created_and_dropped_tables_leave_no_entries",
    ],
    "a local create is not exclusive": [
        f"{TREE}/test_tree_faults.py::test_concurrent_commits_of_processes_on_local_disk_lose_nothing",
    ],
    "a hint with a newline, empty or ahead is not understood": [
        f"{TREE}/test_tree_commit.py::test_the_newest_version_is_found_with_any_hint",
    ],
    "the latest version cannot be asked for by its number": [
        f"{TREE}/test_reference_defects.py::test_the_latest_version_can_be_requested_by_its_number",
    ],
    "as-of exactly a commit's time, and as-of the future, fail": [
        f"{CONTRACT}/metastore_contract.py::test_time_travel_by_time_finds_the_newest_version_of_that_time",
        f"{TREE}/test_reference_defects.py::test_time_travel_to_a_commit_time_or_the_future_finds_that_commit",
    ],
    "names of several bytes per character are cut or padded wrongly": [
        f"{CONTRACT}/metastore_contract.py::test_names_of_many_bytes_work_and_too_long_ones_are_refused",
        f"{TREE}/test_keys.py::test_a_multi_byte_name_is_padded_by_its_bytes",
    ],
    "forbidden characters in names are accepted": [
        f"{TREE}/test_keys.py::test_forbidden_characters_and_names_of_too_many_bytes_are_refused",
        f"{TREE}/test_reference_defects.py::test_a_name_with_a_forbidden_character_never_reaches_storage",
    ],
    "listing one namespace shows another's tables": [
        f"{CONTRACT}/metastore_contract.py::test_listing_a_namespace_returns_only_its_tables",
    ],
    "dropping a namespace leaves its tables": [
        f"{CONTRACT}/metastore_contract.py::test_dropping_a_namespace_conflicts_with_a_concurrent_table_creation_in_it",
        f"{TREE}/test_reference_defects.py::test_a_recreated_namespace_does_not_contain_tables_of_the_dropped_one",
    ],
    "a saved transaction cannot be committed": [
        f"{TREE}/test_reference_defects.py::test_a_saved_transaction_can_be_committed_by_another_process",
    ],
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_each_defect_has_its_tests(defect: str) -> None:
    for test in DEFECTS[defect]:
        path, _, name = test.partition("::")
        tree = ast.parse((ROOT / path).read_text("utf-8"))
        names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert name in names, f"{test} is not there"


@pytest.fixture
def effects() -> Effects:
    return build_deterministic_effects(MemoryStore())


@pytest.fixture
def metastore(effects: Effects) -> TreeMetastore:
    metastore = create_tree(effects, LakehouseSettings(order=4), Changes("made"))
    commit_objects(metastore, metastore.latest(), make_namespace("sales"))
    return metastore


def opened(effects: Effects) -> TreeMetastore:
    return open_tree(build_deterministic_effects(effects.store, first_id=10**9))


def tables(metastore: TreeMetastore) -> dict[str, object]:
    found = metastore.latest().children(Kind.TABLE, NamespaceLocator("sales"))
    return {str(way.parts[-1]): value for way, value in found}


def test_changing_or_dropping_a_table_does_not_affect_others(effects: Effects, metastore: TreeMetastore) -> None:
    made = [make_table("sales", f"t{number:02d}") for number in range(40)]
    commit_objects(metastore, metastore.latest(), *made)
    base = metastore.compact(Changes("compaction"))
    assert base.root.node.children
    model = {way.name: value for way, value in made}
    for way, value in random.Random(1).sample(made, len(made)):
        changed = make_table("sales", way.name, description="changed")
        commit_objects(metastore, metastore.latest(), changed)
        assert tables(opened(effects)) == model | {way.name: changed[1]}
        commit_objects(metastore, metastore.latest(), deletes=frozenset([way]))
        assert tables(opened(effects)) == {name: kept for name, kept in model.items() if name != way.name}
        commit_objects(metastore, metastore.latest(), (way, value))


def test_created_and_dropped_tables_leave_no_entries(effects: Effects, metastore: TreeMetastore) -> None:
    made = [make_table("sales", f"t{number:02d}") for number in range(60)]
    for one in made:
        commit_objects(metastore, metastore.latest(), one)
    for way, _ in made:
        commit_objects(metastore, metastore.latest(), deletes=frozenset([way]))
    assert tables(opened(effects)) == {}
    root = metastore.compact(Changes("compaction")).root.node
    assert (len(root.keys), root.children, root.buffer) == (1, (), ())


def test_the_latest_version_can_be_requested_by_its_number(effects: Effects, metastore: TreeMetastore) -> None:
    commit_objects(metastore, metastore.latest(), make_table("sales", "orders"))
    for reader in (metastore, opened(effects)):
        assert reader.at_version(2).get(TableLocator("sales", "orders")) is not None
        with pytest.raises(NotFoundError, match="version 3"):
            reader.at_version(3)


def test_time_travel_to_a_commit_time_or_the_future_finds_that_commit(
    effects: Effects, metastore: TreeMetastore
) -> None:
    for number in range(5):
        commit_objects(metastore, metastore.latest(), make_table("sales", f"t{number}"))
    fresh = opened(effects)
    times = {line.version: line.created_at_millis for line in fresh.history()}
    assert {version: fresh.at_time(millis).version for version, millis in times.items()} == {
        version: version for version in times
    }
    assert fresh.at_time(2**62).version == max(times)


@pytest.mark.parametrize("name", ["", " ", "a b", "a\x00", "a\x1f", "a\x7f", "a/b", "\ud800", "x" * 101, "表" * 34])
def test_a_name_with_a_forbidden_character_never_reaches_storage(
    effects: Effects, metastore: TreeMetastore, name: str
) -> None:
    before = list(effects.store.list())
    with pytest.raises(InvalidInputError):
        commit_objects(metastore, metastore.latest(), make_table("sales", name))
    assert list(effects.store.list()) == before


def test_a_recreated_namespace_does_not_contain_tables_of_the_dropped_one(
    effects: Effects, metastore: TreeMetastore
) -> None:
    base = commit_objects(metastore, metastore.latest(), make_table("sales", "orders")).snapshot
    sales, orders = NamespaceLocator("sales"), TableLocator("sales", "orders")
    below = frozenset([ObjectRange(Kind.TABLE, sales)])
    commit_objects(metastore, base, make_table("sales", "late"))
    with pytest.raises(ConflictError, match=r"sales\.late"):
        commit_objects(metastore, base, deletes=frozenset([sales, orders]), guards=below)
    newest = metastore.latest()
    listed = [way for way, _ in newest.children(Kind.TABLE, sales)]
    commit_objects(metastore, newest, deletes=frozenset([sales, *listed]), guards=below)
    commit_objects(metastore, metastore.latest(), make_namespace("sales"))
    assert tables(opened(effects)) == {}


def test_a_saved_transaction_can_be_committed_by_another_process(effects: Effects, metastore: TreeMetastore) -> None:
    way = SharedTransactionLocator("load")
    begun = SharedTransactionEntry("load", metastore.latest().version, 1, 2**40, SharedTransactionState.OPEN, b"staged")
    commit_objects(metastore, metastore.latest(), (way, begun))
    other = opened(effects)
    newest = other.latest()
    saved = newest.get(way)
    assert saved == begun
    published = SharedTransactionEntry("load", begun.base_version, 1, 2**40, SharedTransactionState.PUBLISHED, b"")
    commit_objects(other, newest, (way, published), make_table("sales", "orders"), isolation=Isolation.SERIALIZABLE)
    assert list(tables(opened(effects))) == ["orders"]
    assert opened(effects).latest().get(way) == published
