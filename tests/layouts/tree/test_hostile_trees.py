"""Trees that are damaged or made to harm: refused with a file's name, found by the check, not followed for ever."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.betree.node import Message, Node
from mangrove.effects import Effects
from mangrove.errors import FormatError, InvalidInputError
from mangrove.layouts.tree.commit import create_root
from mangrove.layouts.tree.definition_files import append_checksum, verify_and_strip_checksum
from mangrove.layouts.tree.metastore import TreeMetastore, create_tree, open_tree
from mangrove.layouts.tree.node_file import encode_node
from mangrove.layouts.tree.paths import newer_node_path
from mangrove.layouts.tree.revision import NEWER
from mangrove.layouts.tree.root import Root
from mangrove.layouts.tree.snapshot import TreeSnapshot
from mangrove.metastore import Changes
from mangrove.model.locators import Kind, Locator, NamespaceLocator, PartitionLocator, TableLocator
from mangrove.model.objects import Object, Partition, Stream, TableEntry, TableVersion
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects
from mangrove.testing.metastore_contract import commit_objects, make_delta, make_namespace, make_table

APART = LakehouseSettings(order=4, properties={"tree.inline-definition-max-bytes": "0"})
SALES = NamespaceLocator("sales")


@dataclass(frozen=True)
class Lake:
    """A small lakehouse, and ways to put a tree of one's own into its next version."""

    effects: Effects
    metastore: TreeMetastore

    @property
    def snapshot(self) -> TreeSnapshot:
        return self.metastore.latest()

    def key(self, locator: Locator) -> str:
        return self.snapshot.keys.key_of(locator)

    def pointer(self, locator: Locator) -> str:
        pointer = self.snapshot.pointer(locator)
        assert pointer is not None
        return pointer

    def path(self, number: int) -> str:
        return newer_node_path(f"00000000-0000-4000-9000-{number:012d}")

    def store_node(self, number: int, node: Node) -> str:
        path = self.path(number)
        self.effects.store.put(path, encode_node(node, {"created_at_millis": "1"}, NEWER, APART.order))
        return path

    def commit(self, node: Node) -> TreeMetastore:
        """Publish a root with this node, and return the lakehouse as somebody finds it who opens it then."""
        base = self.snapshot.root
        system = {**base.system, "transaction": "hostile", "previous_root": base.path}
        system["created_at_millis"] = str(base.created_at_millis + 1)
        assert create_root(self.effects, Root(base.version + 1, node, system, base.revision, base.key_names), APART)
        return open_tree(build_deterministic_effects(self.effects.store, first_id=10**9))


@pytest.fixture
def lake() -> Lake:
    effects = build_deterministic_effects(MemoryStore())
    metastore = create_tree(effects, APART, Changes("made"))
    commit_objects(metastore, metastore.latest(), make_namespace("sales"), make_namespace("orders"))
    commit_objects(metastore, metastore.latest(), make_table("sales", "orders"), make_table("sales", "users"))
    return Lake(effects, metastore)


def read_everything(metastore: TreeMetastore, snapshot: TreeSnapshot) -> dict[Locator, Object]:
    kinds = [kind for kind in Kind if kind is not Kind.LAKEHOUSE]
    return dict(pair for kind in kinds for pair in metastore.objects(snapshot, kind))


Walk = Callable[[TreeMetastore], object]
WALKS: dict[str, Walk] = {
    "children": lambda metastore: list(metastore.latest().children(Kind.TABLE, SALES)),
    "objects": lambda metastore: read_everything(metastore, metastore.latest()),
    "differences": lambda metastore: list(metastore.differences(metastore.at_version(1), metastore.latest())),
}
TREE_WALKS: dict[str, Walk] = {
    **WALKS,
    "last child": lambda metastore: metastore.latest().last_child(Kind.TABLE, SALES),
    "compaction": lambda metastore: metastore.compact(Changes("compaction")),
}


def assert_rejected(metastore: TreeMetastore, named: str, walks: dict[str, Walk]) -> None:
    for walk in walks.values():
        with pytest.raises(FormatError, match=named):
            walk(metastore)
    found = list(metastore.problems(metastore.latest()))
    assert found
    assert all(problem.path and problem.rule for problem in found)


def rows(lake: Lake, *names: str) -> Node:
    keys = [lake.key(TableLocator("sales", name)) for name in names]
    return Node(tuple(keys), (lake.pointer(TableLocator("sales", "orders")),) * len(keys))


@pytest.mark.parametrize("keyless", [True, False])
def test_a_node_that_is_its_own_child_is_refused(lake: Lake, keyless: bool) -> None:
    path, middle = lake.path(1), rows(lake, "m")
    loop = Node((), (), (path,)) if keyless else Node(middle.keys, middle.values, (path, path))
    assert lake.store_node(1, loop) == path
    assert_rejected(lake.commit(loop), "deep" if keyless else path, TREE_WALKS)


def test_a_tree_that_is_too_deep_is_refused(lake: Lake) -> None:
    child = lake.store_node(0, Node())
    for number in range(1, 50):
        child = lake.store_node(number, Node((), (), (child,)))
    assert_rejected(lake.commit(Node((), (), (child,))), "nodes deep", TREE_WALKS)


def test_a_node_with_two_parents_is_refused(lake: Lake) -> None:
    shared, middle = lake.store_node(1, rows(lake, "a", "b")), rows(lake, "m")
    assert_rejected(lake.commit(Node(middle.keys, middle.values, (shared, shared))), shared, TREE_WALKS)


def test_levels_that_share_their_nodes_are_rejected(lake: Lake) -> None:
    middle = rows(lake, "m")
    child = lake.store_node(0, Node())
    for number in range(1, 30):
        child = lake.store_node(number, Node(middle.keys, middle.values, (child, child)))
    assert_rejected(lake.commit(Node(middle.keys, middle.values, (child, child))), "outside its range", TREE_WALKS)


@pytest.mark.parametrize("as_message", [True, False])
def test_a_child_outside_its_range_is_refused(lake: Lake, as_message: bool) -> None:
    middle, stray = rows(lake, "m"), rows(lake, "a")
    if as_message:
        stray = Node(buffer=(Message(stray.keys[0], stray.values[0], "t"),))
    left, right = lake.store_node(1, Node()), lake.store_node(2, stray)
    metastore = lake.commit(Node(middle.keys, middle.values, (left, right)))
    assert_rejected(metastore, right, TREE_WALKS)
    with pytest.raises(FormatError, match=right):
        metastore.latest().get(TableLocator("sales", "z"))


def test_a_pointer_to_a_missing_node_is_refused(lake: Lake) -> None:
    assert_rejected(lake.commit(Node((), (), (lake.path(9),))), lake.path(9), TREE_WALKS)


@pytest.mark.parametrize("pointer", ["", "../outside", "/absolute", "a//b", "a\x00b", "x" * 2000])
def test_an_invalid_pointer_is_rejected(lake: Lake, pointer: str) -> None:
    assert_rejected(lake.commit(Node((), (), (pointer,))), "invalid path", TREE_WALKS)
    key = lake.key(TableLocator("sales", "orders"))
    assert_rejected(lake.commit(Node((key,), (pointer,))), "invalid path", WALKS)


@pytest.mark.parametrize("kind", ["namespace", "other namespace", "other table", "lakehouse", "node"])
def test_a_definition_of_another_kind_under_a_table_key_is_rejected(lake: Lake, kind: str) -> None:
    key = lake.key(TableLocator("sales", "orders"))
    pointer = {
        "namespace": lambda: lake.pointer(NamespaceLocator("orders")),
        "other namespace": lambda: lake.pointer(SALES),
        "other table": lambda: lake.pointer(TableLocator("sales", "users")),
        "lakehouse": lambda: lake.snapshot.root.definition_path,
        "node": lambda: lake.snapshot.root.path,
    }[kind]()
    assert_rejected(lake.commit(Node((key,), (pointer,))), pointer, WALKS)


def test_a_table_definition_under_a_key_of_another_kind_is_rejected(lake: Lake) -> None:
    pointer = lake.pointer(TableLocator("sales", "orders"))
    partition = PartitionLocator("home", "t", 1, "s", "orders")
    for locator in (NamespaceLocator("orders"), partition, partition.parent.parent, make_delta(partition, 1)[0]):
        metastore = lake.commit(Node((lake.key(locator),), (pointer,)))
        with pytest.raises(FormatError, match=pointer):
            metastore.latest().get(locator)
        assert list(metastore.problems(metastore.latest()))


@pytest.mark.parametrize("key", ["zzz", "C===", "C===sales", "B===sales\U0010ffff", "I===0", "", " "])
def test_an_invalid_key_is_reported_and_other_objects_are_still_read(lake: Lake, key: str) -> None:
    real = lake.key(TableLocator("sales", "orders"))
    pairs = sorted([(key, "x"), (real, lake.pointer(TableLocator("sales", "orders")))])
    metastore = lake.commit(Node(tuple(name for name, _ in pairs), tuple(value for _, value in pairs)))
    assert isinstance(metastore.latest().get(TableLocator("sales", "orders")), TableEntry)
    assert any(repr(key) in problem.rule for problem in metastore.problems(metastore.latest()))


@pytest.mark.parametrize("pointer", ["data:text/plain,x", "data:application/protobuf;base64,====", "data:"])
def test_an_inline_definition_that_is_damaged_is_refused(lake: Lake, pointer: str) -> None:
    key = lake.key(TableLocator("sales", "orders"))
    assert_rejected(lake.commit(Node((key,), (pointer,))), "data", WALKS)


def test_putting_an_object_under_the_key_of_another_is_rejected(lake: Lake) -> None:
    before = lake.snapshot.version
    _, value = make_table("sales", "orders")
    with pytest.raises(InvalidInputError, match="'orders'"):
        commit_objects(lake.metastore, lake.snapshot, (TableLocator("sales", "users"), value))
    assert lake.snapshot.version == before


@cache
def sound() -> tuple[dict[str, bytes], dict[int, dict[Locator, Object]]]:
    """Return the files of a lakehouse with everything in it, and what each version holds."""
    effects = build_deterministic_effects(MemoryStore())
    metastore = create_tree(effects, LakehouseSettings(order=4, name="sound"), Changes("made"))
    commit_objects(
        metastore, metastore.latest(), make_namespace("sales", description="d" * 300, properties={"owner": "ana"})
    )
    for number in range(12):
        way, value = make_table("sales", f"t{number}", "home", description="x" * (300 * (number % 2)))
        partition = PartitionLocator("home", value.id, 1, "s", "p")
        below: list[tuple[Locator, Object]] = [
            (partition.parent.parent, TableVersion(1, None, properties={"note": "n" * 200})),
            (partition.parent, Stream("s")),
            (partition, Partition("p", ("2026-11-15", number, None))),
            make_delta(partition, 1, note="m" * 200),
        ]
        commit_objects(metastore, metastore.latest(), (way, value), *below)
    files = {entry.path: effects.store.read(entry.path) for entry in effects.store.list()}
    versions = [metastore.at_version(line.version) for line in metastore.list_retained()]
    return files, {snapshot.version: read_everything(metastore, snapshot) for snapshot in versions}


@given(st.data(), st.lists(st.tuples(st.integers(0), st.integers(0, 7)), min_size=1, max_size=3))
def test_flipped_bits_in_any_file_give_the_right_answer_or_a_format_error(
    data: st.DataObject, flips: list[tuple[int, int]]
) -> None:
    files, expected = sound()
    path = data.draw(st.sampled_from(sorted(files)))
    version = data.draw(st.sampled_from(sorted(expected)))
    damaged = bytearray(files[path])
    for position, bit in flips:
        damaged[position % len(damaged)] ^= 1 << bit
    store = MemoryStore()
    for name, content in files.items():
        store.put(name, bytes(damaged) if name == path else content)
    try:
        metastore = open_tree(build_deterministic_effects(store))
        snapshot = metastore.at_version(version)
        found = read_everything(metastore, snapshot)
        settings = snapshot.settings
    except FormatError as error:
        if path not in str(error):
            raise
        return
    assert found == expected[version]
    assert settings.name == "sound"


@given(st.data(), st.integers(0), st.integers(0, 7))
def test_the_check_finds_a_flipped_bit_in_any_file_that_a_version_needs(
    data: st.DataObject, position: int, bit: int
) -> None:
    files, expected = sound()
    newest = max(expected)
    store = MemoryStore()
    for name, content in files.items():
        store.put(name, content)
    metastore = open_tree(build_deterministic_effects(store))
    snapshot = metastore.at_version(newest)
    read_everything(metastore, snapshot)
    path = data.draw(st.sampled_from(sorted(metastore.files_of([snapshot]))))
    damaged = bytearray(files[path])
    damaged[position % len(damaged)] ^= 1 << bit
    store.put(path, bytes(damaged))
    assert [problem.path for problem in metastore.problems(snapshot)] == [path]


def test_a_checksum_detects_every_flipped_bit() -> None:
    data = append_checksum(b"a definition", Kind.TABLE)
    assert verify_and_strip_checksum(data, Kind.TABLE, "p") == b"a definition"
    assert verify_and_strip_checksum(b"no seal", Kind.TABLE, "p") == b"no seal"
    with pytest.raises(FormatError, match="not the definition of a view"):
        verify_and_strip_checksum(data, Kind.VIEW, "p")
    for position in range(len(b"a definition") * 8):
        changed = bytearray(data)
        changed[position // 8] ^= 1 << position % 8
        with pytest.raises(FormatError, match="p: checksum mismatch"):
            verify_and_strip_checksum(bytes(changed), Kind.TABLE, "p")


def test_a_checksummed_file_without_a_start_marker_is_read() -> None:
    definition = b"a definition"
    before = definition + b"\xfd\xff\x07" + zlib.crc32(b"table" + definition).to_bytes(4, "little")
    assert verify_and_strip_checksum(before, Kind.TABLE, "p") == definition
    with pytest.raises(FormatError, match="checksum mismatch"):
        verify_and_strip_checksum(before[1:], Kind.TABLE, "p")


def test_a_truncated_definition_is_reported_at_every_length() -> None:
    store = MemoryStore()
    metastore = create_tree(
        build_deterministic_effects(store),
        replace(APART, exported_snapshots={"year-end": "memory://a-copy"}),
        Changes("first", puts=dict([make_namespace("sales")])),
    )
    snapshot = metastore.latest()
    definitions = sorted(path for path in metastore.files_of([snapshot]) if path.endswith(".binpb"))
    assert len(definitions) == 2
    for path in definitions:
        (data,) = store.read_many([path])
        assert data is not None
        for length in range(len(data)):
            store.put(path, data[:length])
            assert [problem.path for problem in metastore.problems(snapshot)] == [path], length
        store.put(path, data)
    assert not list(metastore.problems(snapshot))
