"""The difference of two trees against the difference of two dictionaries, and what it reads."""

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.betree.build import build_tree, write_new_nodes
from mangrove.betree.compact import compact_tree
from mangrove.betree.diff import KeyChange, diff_trees
from mangrove.betree.edit import apply_messages
from mangrove.betree.node import Entry, Message, Node, NodeLimits
from mangrove.betree.search import measure_height
from mangrove.errors import FormatError

Writes = list[tuple[str, str | None]]


class Nodes:
    """Nodes by pointer, with a count of what was read."""

    def __init__(self) -> None:
        self.held: dict[str, Node] = {}
        self.reads = 0

    def write(self, node: Node) -> str:
        pointer = f"node-{len(self.held)}"
        self.held[pointer] = node
        return pointer

    def read(self, pointers: Sequence[str]) -> list[Node]:
        self.reads += len(pointers)
        return [self.held[pointer] for pointer in pointers]

    def commit(self, root: Node, writes: Iterable[tuple[str, str | None]], shape: NodeLimits) -> Node:
        told = [Message(name, value, "t") for name, value in writes]
        return write_new_nodes(apply_messages(root, told, shape, self.read), self.write)


def key(number: int) -> str:
    return f"{number:06d}"


def of_dictionaries(before: dict[str, str], after: dict[str, str]) -> list[KeyChange]:
    names = sorted(before.keys() | after.keys())
    return [KeyChange(name, before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)]


def after_writes(model: dict[str, str], writes: Writes) -> dict[str, str]:
    result = dict(model)
    for name, value in writes:
        result.pop(name, None)
        if value is not None:
            result[name] = value
    return result


shapes = st.builds(
    NodeLimits,
    order=st.sampled_from([3, 4, 5, 7, 16, 128]),
    root_buffer_max=st.integers(1, 8),
    buffer_max=st.integers(1, 24),
    root_children_max=st.sampled_from([3, 4, 8, 32]),
    flush_min=st.integers(1, 8),
    inner_flush_min=st.integers(1, 12),
    root_leaf_bytes_max=st.sampled_from([0, 20, 1_000]),
)
keys = st.integers(0, 80).map(key)
writes = st.lists(st.tuples(keys, st.one_of(st.none(), st.text("ab", min_size=1, max_size=1))), min_size=1, max_size=12)


@given(st.lists(writes, max_size=50), shapes, st.data())
def test_any_two_versions_of_a_history_differ_as_dictionaries_do(
    history: list[Writes], shape: NodeLimits, data: st.DataObject
) -> None:
    nodes, root, model = Nodes(), Node(), dict[str, str]()
    versions = [(root, model)]
    for step in history:
        root, model = nodes.commit(root, step, shape), after_writes(model, step)
        versions.append((root, model))
    one = data.draw(st.integers(0, len(versions) - 1))
    other = data.draw(st.integers(0, len(versions) - 1))
    found = list(diff_trees(versions[one][0], versions[other][0], nodes.read))
    assert found == of_dictionaries(versions[one][1], versions[other][1])


@given(st.lists(writes, max_size=30), st.lists(writes, max_size=30), shapes, shapes)
def test_the_diff_of_unrelated_trees_equals_the_diff_of_dictionaries(
    one: list[Writes], other: list[Writes], shape: NodeLimits, other_shape: NodeLimits
) -> None:
    nodes = Nodes()
    left, before = Node(), dict[str, str]()
    for step in one:
        left, before = nodes.commit(left, step, shape), after_writes(before, step)
    right, after = Node(), dict[str, str]()
    for step in other:
        right, after = nodes.commit(right, step, other_shape), after_writes(after, step)
    assert list(diff_trees(left, right, nodes.read)) == of_dictionaries(before, after)


@given(st.lists(writes, max_size=40), shapes)
def test_a_compacted_tree_has_no_diff_to_the_original(history: list[Writes], shape: NodeLimits) -> None:
    nodes, root = Nodes(), Node()
    for step in history:
        root = nodes.commit(root, step, shape)
    compacted = write_new_nodes(compact_tree(root, shape, nodes.read), nodes.write)
    assert list(diff_trees(root, compacted, nodes.read)) == []
    assert list(diff_trees(compacted, root, nodes.read)) == []


@pytest.mark.parametrize("place", [0, 1, 12_345, 50_000, 99_999, 100_000])
@pytest.mark.parametrize("value", ["new", None])
def test_a_diff_of_one_change_among_a_hundred_thousand_reads_one_path(place: int, value: str | None) -> None:
    nodes = Nodes()
    root = build_tree((Entry(key(number), f"v{number}") for number in range(100_000)), NodeLimits(), nodes.write)
    tall = measure_height(root, nodes.read)
    after = nodes.commit(root, [(key(place), value)], NodeLimits())
    nodes.reads = 0
    expected = [KeyChange(key(place), f"v{place}" if place < 100_000 else None, value)]
    assert list(diff_trees(root, after, nodes.read)) == [change for change in expected if change[1] != change[2]]
    assert nodes.reads <= tall - 1


def test_a_diff_of_a_flushed_change_reads_its_path_in_both_trees() -> None:
    shape, nodes = NodeLimits(), Nodes()
    root = build_tree((Entry(key(number), f"v{number}") for number in range(100_000)), shape, nodes.write)
    tall = measure_height(root, nodes.read)
    after = root
    for _ in range(3 * shape.root_buffer_max):
        after = nodes.commit(after, [(key(500), "new")], shape)
    written = {child for child in after.children if child not in root.children}
    nodes.reads = 0
    assert list(diff_trees(root, after, nodes.read)) == [KeyChange(key(500), "v500", "new")]
    assert nodes.reads <= 2 * tall * max(1, len(written))


def test_a_diff_of_a_version_with_itself_reads_nothing() -> None:
    nodes = Nodes()
    root = build_tree((Entry(key(number), "v") for number in range(5_000)), NodeLimits(), nodes.write)
    assert list(diff_trees(root, root, nodes.read)) == []
    assert nodes.reads == 0


def test_the_same_message_above_a_shared_subtree_reads_nothing() -> None:
    nodes = Nodes()
    root = build_tree((Entry(key(number), "v") for number in range(5_000)), NodeLimits(), nodes.write)
    one = nodes.commit(root, [(key(7), "same")], NodeLimits())
    other = nodes.commit(nodes.commit(root, [(key(7), "old")], NodeLimits()), [(key(7), "same")], NodeLimits())
    assert list(diff_trees(one, other, nodes.read)) == []
    assert nodes.reads == 0


def test_a_diff_over_a_new_tree_level_reads_only_changed_paths() -> None:
    shape, nodes = NodeLimits(order=8, root_buffer_max=4, buffer_max=16), Nodes()
    root, versions = Node(), [Node()]
    for number in range(3_000):
        root = nodes.commit(root, [(key(number), "v")], shape)
        versions.append(root)
    tall = measure_height(root, nodes.read)
    for number in range(len(versions) - 1):
        nodes.reads = 0
        assert list(diff_trees(versions[number], versions[number + 1], nodes.read)) == [
            KeyChange(key(number), None, "v")
        ]
        assert nodes.reads <= 8 * tall


def test_a_cycle_of_pointers_is_an_error() -> None:
    loop = Node((), (), ("loop",))
    with pytest.raises(FormatError, match="nodes deep"):
        list(diff_trees(Node(), loop, lambda pointers: [loop for _ in pointers]))


@pytest.mark.parametrize("stray", [Node(("z",), ("v",)), Node((), (), (), (Message("z", "v", "t"),))])
def test_a_node_outside_its_range_is_named(stray: Node) -> None:
    root = Node(("m",), ("v",), ("left", "right"))
    nodes = {"left": stray, "right": Node(("n",), ("v",))}
    with pytest.raises(FormatError, match="node left has keys from 'z'"):
        list(diff_trees(root, Node(), lambda pointers: [nodes[pointer] for pointer in pointers]))
