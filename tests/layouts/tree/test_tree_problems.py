"""The check of the tree layout: each rule, broken on purpose, is named with the file that breaks it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest

from mangrove.betree.node import Message, Node
from mangrove.effects import Effects
from mangrove.layouts.tree.commit import create_root
from mangrove.layouts.tree.definition_files import encode_inline_pointer
from mangrove.layouts.tree.metastore import TreeMetastore, create_tree, open_tree
from mangrove.layouts.tree.node_file import encode_node
from mangrove.layouts.tree.paths import newer_node_path
from mangrove.layouts.tree.proto import mangrove_tree_pb2 as pb
from mangrove.layouts.tree.revision import NEWER, OLDER, TreeRevision
from mangrove.layouts.tree.root import Root
from mangrove.metastore import Changes, Problem
from mangrove.model.locators import Locator, NamespaceLocator, PartitionLocator, TableLocator
from mangrove.model.objects import Object, Partition, Stream, TableEntry, TableVersion
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects
from mangrove.testing.metastore_contract import commit_objects, make_delta, make_namespace, make_table

APART = LakehouseSettings(order=4, properties={"tree.inline-definition-max-bytes": "0"})
NOTHING: Mapping[str, str] = MappingProxyType({})
ORDERS = TableLocator("sales", "orders")


@pytest.fixture
def effects() -> Effects:
    return build_deterministic_effects(MemoryStore())


def made(effects: Effects, settings: LakehouseSettings = APART, revision: TreeRevision = NEWER) -> TreeMetastore:
    metastore = create_tree(effects, settings, Changes("made"), revision)
    commit_objects(metastore, metastore.latest(), make_namespace("sales"))
    for number in range(30):
        commit_objects(metastore, metastore.latest(), make_table("sales", f"t{number:02d}"))
    value = TableEntry("orders-id", "home", "orders")
    partition = PartitionLocator("home", value.id, 1, "s", "p")
    below: list[tuple[Locator, Object]] = [
        (partition.parent.parent, TableVersion(1, None)),
        (partition.parent, Stream("s")),
        (partition, Partition("p")),
        make_delta(partition, 1),
    ]
    commit_objects(metastore, metastore.latest(), (ORDERS, value), *below)
    return metastore


def found(effects: Effects) -> list[Problem]:
    fresh = open_tree(build_deterministic_effects(effects.store, first_id=10**9))
    return list(fresh.problems(fresh.latest()))


def published(
    effects: Effects, metastore: TreeMetastore, node: Node | None = None, system: Mapping[str, str] = NOTHING
) -> str:
    """Publish the newest version again with some of it changed, and return the path of its root."""
    base = metastore.latest().root
    rows = {**base.system, "transaction": "changed", "previous_root": base.path}
    rows["created_at_millis"] = str(base.created_at_millis + 1)
    root = Root(base.version + 1, node or base.node, {**rows, **system}, base.revision, base.key_names)
    assert create_root(effects, root, APART)
    return root.path


@pytest.mark.parametrize("revision", [NEWER, OLDER], ids=["newer", "older"])
@pytest.mark.parametrize("settings", [APART, LakehouseSettings(order=4), LakehouseSettings()])
def test_every_version_of_a_sound_lakehouse_has_no_problem(
    effects: Effects, revision: TreeRevision, settings: LakehouseSettings
) -> None:
    metastore = made(effects, settings, revision)
    metastore.compact(Changes("compaction"))
    metastore.roll_back(metastore.at_version(9), Changes("back"))
    metastore.expire([0, 1, 2, 20])
    for line in metastore.list_retained():
        assert list(metastore.problems(metastore.at_version(line.version))) == []


def test_checking_a_snapshot_of_an_expired_version_reports_the_expiry(effects: Effects) -> None:
    metastore = made(effects)
    past = metastore.at_version(5)
    metastore.expire([5])
    (problem,) = metastore.problems(past)
    assert (problem.path, "expired" in problem.rule) == (past.root.path, True)


@pytest.mark.parametrize(
    ("row", "value", "rule"),
    [
        ("previous_root", NEWER.roots.path(3), "previous_root is"),
        ("rollback_from_root", NEWER.roots.path(3), "rollback_from_root is"),
        ("created_at_millis", "5", "not after that of version 32"),
    ],
)
def test_a_root_that_does_not_follow_the_one_before_is_a_problem(
    effects: Effects, row: str, value: str, rule: str
) -> None:
    path = published(effects, made(effects), system={row: value})
    (problem,) = found(effects)
    assert problem.path == path
    assert rule in problem.rule


def test_a_node_larger_than_allowed_is_a_problem_and_a_root_is_not(effects: Effects) -> None:
    small = LakehouseSettings(
        order=4, node_file_max_size_bytes=4 * 404 + 1_000, properties={"tree.node-compression": "none"}
    )
    metastore = made(effects, small)
    over = {entry.path for entry in effects.store.list() if len(effects.store.read(entry.path)) > 2_616}
    newest = metastore.latest()
    nodes = {path for path in metastore.files_of([newest]) if "-node-" in path}
    assert newest.root.path in over
    assert over & nodes
    assert {problem.path for problem in found(effects)} == over & nodes


def lost_definition(effects: Effects, metastore: TreeMetastore) -> str:
    pointer = metastore.latest().pointer(ORDERS)
    assert pointer is not None
    effects.store.delete_many([pointer])
    return pointer


def lost_node(effects: Effects, metastore: TreeMetastore) -> str:
    pointer = next(child for child in metastore.latest().root.node.children if isinstance(child, str))
    effects.store.delete_many([pointer])
    return pointer


def miscounted_keys(effects: Effects, metastore: TreeMetastore) -> str:
    path = newer_node_path("00000000-0000-4000-9000-000000000001")
    data = encode_node(Node(), {"created_at_millis": "1"}, NEWER, 5)
    effects.store.put(path, data.replace(b"n_keys", b"n_keyz"))
    published(effects, metastore, Node((), (), (path,)))
    return path


def no_namespace(effects: Effects, metastore: TreeMetastore) -> str:
    commit_objects(metastore, metastore.latest(), make_namespace("gone"), make_table("gone", "left-behind"))
    pointer = metastore.latest().pointer(TableLocator("gone", "left-behind"))
    assert pointer is not None
    commit_objects(metastore, metastore.latest(), deletes=frozenset([NamespaceLocator("gone")]))
    return pointer


def no_partition(effects: Effects, metastore: TreeMetastore) -> str:
    partition = PartitionLocator("home", "orders-id", 1, "s", "p")
    commit_objects(metastore, metastore.latest(), deletes=frozenset([partition]))
    pointer = metastore.latest().pointer(make_delta(partition, 1)[0])
    assert pointer is not None
    return pointer


def another_name(effects: Effects, metastore: TreeMetastore) -> str:
    newest = metastore.latest()
    pointer = newest.pointer(TableLocator("sales", "t07"))
    assert pointer is not None
    message = Message(newest.keys.key_of(ORDERS), pointer, "changed")
    published(effects, metastore, replace(newest.root.node, buffer=(*newest.root.node.buffer, message)))
    return pointer


def invalid_statistics(effects: Effects, metastore: TreeMetastore) -> str:
    newest = metastore.latest()
    statistics = [pb.ColumnStatistics(column_id=number) for number in (2, 1)]
    file = pb.DataFile(location="data/t/damaged.parquet", kind=pb.FILE_KIND_DATA, statistics=statistics)
    pointer = encode_inline_pointer(pb.Delta(type=pb.DELTA_TYPE_APPEND, files=[file]).SerializeToString())
    key = newest.keys.key_of(PartitionLocator("home", "orders-id", 1, "s", "p").at(9))
    message = Message(key, pointer, "changed")
    published(effects, metastore, replace(newest.root.node, buffer=(*newest.root.node.buffer, message)))
    return file.location


def long_path(effects: Effects, metastore: TreeMetastore) -> str:
    newest = metastore.latest()
    pointer, path = newest.pointer(ORDERS), "x" * 201
    assert pointer is not None
    effects.store.put(path, effects.store.read(pointer))
    message = Message(newest.keys.key_of(ORDERS), path, "changed")
    published(effects, metastore, replace(newest.root.node, buffer=(*newest.root.node.buffer, message)))
    return path


@pytest.mark.parametrize(
    ("break_it", "rule"),
    [
        (lost_definition, "missing"),
        (lost_node, "missing"),
        (miscounted_keys, "checksum"),
        (no_namespace, "below a namespace that does not exist"),
        (no_partition, "below a partition that does not exist"),
        (another_name, "is the definition of 't07'"),
        (long_path, "takes 201 bytes"),
        (invalid_statistics, "column 2 before those of 1"),
    ],
)
def test_exactly_the_violated_rule_is_reported_with_its_file(
    effects: Effects, break_it: Callable[[Effects, TreeMetastore], str], rule: str
) -> None:
    path = break_it(effects, made(effects))
    (problem,) = found(effects)
    assert problem.path == path
    assert rule in problem.rule


def test_files_of_a_dropped_table_are_garbage_and_not_a_problem(effects: Effects) -> None:
    metastore = made(effects)
    commit_objects(metastore, metastore.latest(), deletes=frozenset([ORDERS]))
    partition = PartitionLocator("home", "orders-id", 1, "s", "p")
    commit_objects(metastore, metastore.latest(), deletes=frozenset([partition]))
    assert found(effects) == []


def test_a_missing_version_in_the_sequence_is_reported(effects: Effects) -> None:
    newest = made(effects).latest()
    lost = newest.root.revision.roots.path(newest.version - 1)
    effects.store.delete_many([lost])
    assert [problem.path for problem in found(effects)] == [lost]
