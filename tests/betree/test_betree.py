"""The pure tree against plain dictionaries, rule by rule."""

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.betree.build import build_tree, write_new_nodes
from mangrove.betree.compact import compact_tree
from mangrove.betree.edit import apply_messages
from mangrove.betree.node import Entry, Message, Node, NodeLimits
from mangrove.betree.search import DEPTH_MAX, get, get_many, last, measure_height, scan, scan_all
from mangrove.betree.verify import verify_tree
from mangrove.errors import FormatError


class Nodes:
    """Nodes by pointer, with a count of what was written and read."""

    def __init__(self) -> None:
        self.held: dict[str, Node] = {}
        self.writes = 0
        self.reads = 0

    def write(self, node: Node) -> str:
        assert all(isinstance(child, str) for child in node.children)
        self.writes += 1
        pointer = f"node-{self.writes}"
        self.held[pointer] = node
        return pointer

    def read(self, pointers: Sequence[str]) -> list[Node]:
        self.reads += len(pointers)
        return [self.held[pointer] for pointer in pointers]

    def commit(
        self, root: Node, messages: Iterable[tuple[str, str | None]], shape: NodeLimits, transaction: str = "t"
    ) -> Node:
        told = [Message(key, value, transaction) for key, value in messages]
        return write_new_nodes(apply_messages(root, told, shape, self.read), self.write)


def key(number: int) -> str:
    return f"{number:06d}"


def built(nodes: Nodes, count: int, shape: NodeLimits, step: int = 1) -> Node:
    return build_tree((Entry(key(number * step), f"v{number}") for number in range(count)), shape, nodes.write)


def entries(nodes: Nodes, root: Node) -> list[Entry]:
    return list(scan(root, "", None, nodes.read))


def assert_sound(nodes: Nodes, root: Node, shape: NodeLimits, *, compacted: bool = False) -> None:
    assert list(verify_tree(root, shape, nodes.read, compacted=compacted)) == []


class Compared(str):
    """A key that counts how often it is compared, so that a test can tell how many keys a search looked at."""

    times = 0

    def __lt__(self, other: str) -> bool:
        Compared.times += 1
        return str.__lt__(self, other)

    def __le__(self, other: str) -> bool:
        Compared.times += 1
        return str.__le__(self, other)

    def __gt__(self, other: str) -> bool:
        Compared.times += 1
        return str.__gt__(self, other)

    def __ge__(self, other: str) -> bool:
        Compared.times += 1
        return str.__ge__(self, other)


SMALL = NodeLimits(order=4, root_buffer_max=2, buffer_max=4)
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
keys = st.integers(0, 60).map(key)
transactions = st.lists(
    st.lists(st.tuples(keys, st.one_of(st.none(), st.text("ab", min_size=1, max_size=2))), min_size=1, max_size=12),
    max_size=60,
)


@given(transactions, shapes)
def test_any_history_of_commits_reads_like_a_dictionary(
    history: list[list[tuple[str, str | None]]], shape: NodeLimits
) -> None:
    nodes, root, model = Nodes(), Node(), dict[str, str]()
    for messages in history:
        root = nodes.commit(root, messages, shape)
        for name, value in messages:
            model.pop(name, None)
            if value is not None:
                model[name] = value
    assert_sound(nodes, root, shape)
    assert entries(nodes, root) == sorted(model.items())
    assert all(get(root, key(number), nodes.read) == model.get(key(number)) for number in range(61))


@given(transactions, shapes, keys, keys)
def test_a_range_holds_exactly_its_keys_and_its_last(
    history: list[list[tuple[str, str | None]]], shape: NodeLimits, one: str, other: str
) -> None:
    nodes, root, model = Nodes(), Node(), dict[str, str | None]()
    for messages in history:
        root = nodes.commit(root, messages, shape)
        model.update(messages)
    start, end = min(one, other), max(one, other)
    wanted = [item for item in sorted(model.items()) if item[1] is not None and start <= item[0] < end]
    assert list(scan(root, start, end, nodes.read)) == wanted
    assert last(root, start, end, nodes.read) == (wanted[-1] if wanted else None)


@given(transactions, shapes, st.sets(keys, max_size=12), st.booleans())
def test_a_scan_of_many_ranges_equals_single_scans_and_reads_no_node_twice(
    history: list[list[tuple[str, str | None]]],
    shape: NodeLimits,
    bounds: set[str],
    to_the_end: bool,
) -> None:
    nodes, root = Nodes(), Node()
    for messages in history:
        root = nodes.commit(root, messages, shape)
    cuts: list[str | None] = [*sorted(bounds), *([None] if to_the_end else [])]
    spans = [(start, end) for start, end in zip(cuts[::2], cuts[1::2], strict=False) if start is not None]
    wanted = [entry for start, end in spans for entry in scan(root, start, end, nodes.read)]
    requested: list[str] = []

    def read(pointers: Sequence[str]) -> list[Node]:
        requested.extend(pointers)
        return nodes.read(pointers)

    assert list(scan_all(root, spans, read)) == wanted
    assert len(requested) == len(set(requested))


@given(transactions, shapes, st.lists(keys, max_size=12))
def test_a_lookup_of_many_keys_equals_single_lookups(
    history: list[list[tuple[str, str | None]]], shape: NodeLimits, wanted: list[str]
) -> None:
    nodes, root = Nodes(), Node()
    for messages in history:
        root = nodes.commit(root, messages, shape)
    alone = {one: value for one in wanted if (value := get(root, one, nodes.read)) is not None}
    alone_reads, nodes.reads = nodes.reads, 0
    assert get_many(root, wanted, nodes.read) == alone
    assert nodes.reads <= alone_reads


@given(transactions, shapes)
def test_compaction_keeps_every_entry_and_leaves_no_message_and_no_small_node(
    history: list[list[tuple[str, str | None]]], shape: NodeLimits
) -> None:
    nodes, root = Nodes(), Node()
    for messages in history:
        root = nodes.commit(root, messages, shape)
    held = entries(nodes, root)
    compacted = write_new_nodes(compact_tree(root, shape, nodes.read), nodes.write)
    assert entries(nodes, compacted) == held
    assert_sound(nodes, compacted, shape, compacted=True)


@given(st.integers(0, 700), shapes, st.sampled_from([0.5, 0.75, 0.9, 1.0]))
def test_a_bulk_built_tree_contains_its_entries_in_at_least_half_full_nodes(
    count: int, shape: NodeLimits, fill: float
) -> None:
    nodes = Nodes()
    wanted = [Entry(key(number), str(number)) for number in range(count)]
    root = build_tree(iter(wanted), shape, nodes.write, fill)
    assert entries(nodes, root) == wanted
    assert_sound(nodes, root, shape, compacted=True)


@given(transactions, shapes)
def test_the_root_holds_every_message_of_the_transaction_that_wrote_it(
    history: list[list[tuple[str, str | None]]], shape: NodeLimits
) -> None:
    nodes, root = Nodes(), Node()
    for number, messages in enumerate(history):
        root = nodes.commit(root, messages, shape, f"t{number}")
        assert [(m.key, m.value) for m in root.buffer if m.transaction == f"t{number}"] == messages


@given(transactions, shapes)
def test_earlier_roots_are_unchanged_by_later_commits(
    history: list[list[tuple[str, str | None]]], shape: NodeLimits
) -> None:
    nodes, root = Nodes(), Node()
    past = []
    for messages in history:
        root = nodes.commit(root, messages, shape)
        past.append((root, entries(nodes, root)))
    assert all(entries(nodes, earlier) == then for earlier, then in past)


def a_tree_with_pivots(nodes: Nodes) -> Node:
    root = built(nodes, 40, SMALL)
    assert root.keys
    assert root.children
    return root


def test_updating_a_pivot_does_not_lose_its_right_subtree() -> None:
    nodes = Nodes()
    root = a_tree_with_pivots(nodes)
    pivot = root.keys[0]
    for number in range(12):
        root = nodes.commit(root, [(pivot, f"new{number}")], SMALL)
    root = nodes.commit(root, [(key(100 + number), "x") for number in range(6)], SMALL)
    root = nodes.commit(root, [(key(200), "x")], SMALL)
    assert get(root, pivot, nodes.read) == "new11"
    assert [name for name, _ in entries(nodes, root)][:40] == [key(number) for number in range(40)]
    assert_sound(nodes, root, SMALL)


def test_deleting_a_pivot_does_not_lose_its_right_subtree() -> None:
    nodes = Nodes()
    root = a_tree_with_pivots(nodes)
    pivot = root.keys[0]
    root = nodes.commit(root, [(pivot, None)], SMALL)
    for number in range(30):
        root = nodes.commit(root, [(key(100 + number), "x")], SMALL)
    assert get(root, pivot, nodes.read) is None
    assert [name for name, _ in entries(nodes, root)][:39] == [
        key(number) for number in range(40) if key(number) != pivot
    ]


def test_a_buffered_value_is_not_lost_when_its_key_becomes_a_pivot() -> None:
    shape = NodeLimits(order=3, root_buffer_max=1, buffer_max=64)
    nodes, root, model = Nodes(), built(Nodes(), 0, shape), dict[str, str]()
    for round_number in range(8):
        for number in range(0, 64, 1 + round_number % 3):
            root = nodes.commit(root, [(key(number), f"r{round_number}")], shape)
            model[key(number)] = f"r{round_number}"
    assert entries(nodes, root) == sorted(model.items())


def test_compaction_removes_all_tombstones() -> None:
    nodes = Nodes()
    root = built(nodes, 300, SMALL)
    for number in range(300):
        root = nodes.commit(root, [(key(number), None)], SMALL)
    assert write_new_nodes(compact_tree(root, SMALL, nodes.read), nodes.write) == Node()


@pytest.mark.parametrize("shape", [NodeLimits(16, 8, 32), NodeLimits(8, 8, 64), NodeLimits(5, 5, 40), SMALL])
def test_deletes_do_not_fill_the_root_buffer(shape: NodeLimits) -> None:
    nodes = Nodes()
    root = built(nodes, 2000, shape)
    for number in range(2000):
        root = nodes.commit(root, [(key(number), None)], shape)
        assert len(root.buffer) <= 4 * shape.root_buffer_max
    assert entries(nodes, root) == []


def test_compaction_of_a_compacted_tree_writes_nothing() -> None:
    nodes = Nodes()
    root = built(nodes, 500, SMALL)
    before = nodes.writes
    assert write_new_nodes(compact_tree(root, SMALL, nodes.read), nodes.write) == root
    assert nodes.writes == before


@pytest.mark.parametrize("pattern", ["random", "ascending", "hot spot", "delete"])
def test_one_object_commits_write_one_node_nine_times_in_ten_and_never_more_than_six(pattern: str) -> None:
    shape, nodes, count = NodeLimits(), Nodes(), 60_000
    root = built(nodes, count, shape, step=10)
    written: list[int] = []
    number = 1
    for commit in range(4_000):
        number = number * 1_103_515_245 % 2_147_483_647
        place = {
            "random": number % (count * 10),
            "ascending": count * 10 + commit,
            "hot spot": number % 1000,
            "delete": number % count * 10,
        }[pattern]
        before = nodes.writes
        root = nodes.commit(root, [(key(place), None if pattern == "delete" else "new")], shape)
        written.append(1 + nodes.writes - before)
    assert sum(count == 1 for count in written) >= 0.9 * len(written)
    assert sum(written) <= 1.2 * len(written)
    assert max(written) <= 6
    assert_sound(nodes, root, shape)


def test_the_root_stays_small_while_commits_append_to_one_end_of_the_tree() -> None:
    shape, nodes, root = NodeLimits(), Nodes(), Node()
    for number in range(6_000):
        root = nodes.commit(root, [(key(number), "x")], shape)
        if not root.is_leaf:
            assert len(root.keys) <= shape.root_keys_max
            assert len(root.buffer) <= shape.flush_min
            # Messages that are due go from the last inner node to a leaf.
            last = nodes.held[str(root.children[-1])]
            assert len(last.buffer) <= shape.inner_flush_min + shape.flush_min
    assert_sound(nodes, root, shape)
    assert len(entries(nodes, root)) == 6_000


def test_large_values_leave_a_root_without_children_and_come_back_after_a_compaction() -> None:
    shape, nodes, root = NodeLimits(root_leaf_bytes_max=4_000), Nodes(), Node()
    written = []
    for number in range(100):
        root = nodes.commit(root, [(key(number), "x" * 100)], shape)
        written.append(sum(len(value) for value in root.values) + sum(len(one.value or "") for one in root.buffer))
    assert not root.keys
    assert max(written) <= 4_000 + 100 * shape.flush_min
    assert max(written[60:]) <= 100 * (shape.flush_min + 1)
    assert entries(nodes, root) == [(key(number), "x" * 100) for number in range(100)]
    assert_sound(nodes, root, shape)
    for number in range(98):
        root = nodes.commit(root, [(key(number), None)], shape)
    assert [name for name, _ in entries(nodes, root)] == [key(98), key(99)]
    assert compact_tree(root, shape, nodes.read).is_leaf


def test_a_large_transaction_is_flushed_by_the_following_commits() -> None:
    shape, nodes = NodeLimits(order=16, root_buffer_max=16, buffer_max=64), Nodes()
    root = built(nodes, 3000, shape, step=10)
    root = nodes.commit(root, [(key(number * 10 + 5), "x") for number in range(2000)], shape)
    for number in range(40):
        root = nodes.commit(root, [(key(number * 10 + 6), "x")], shape)
    assert len(root.buffer) <= 2 * shape.root_buffer_max
    assert len(entries(nodes, root)) == 3000 + 2000 + 40


def test_the_flush_of_a_large_transaction_reads_many_nodes_per_request() -> None:
    nodes, shape = Nodes(), NodeLimits()
    root = built(nodes, 20_000, shape, step=10)
    root = nodes.commit(root, [(key(number * 10 + 5), "x") for number in range(0, 20_000, 5)], shape)
    requested: list[list[str]] = []

    def read(pointers: Sequence[str]) -> list[Node]:
        requested.append(list(pointers))
        return nodes.read(pointers)

    following = write_new_nodes(apply_messages(root, [Message(key(6), "x", "t")], shape, read), nodes.write)
    every = [pointer for pointers in requested for pointer in pointers]
    assert len(every) >= 50
    assert len(every) == len(set(every))
    assert len(requested) <= len(every) // 3
    assert len(entries(nodes, following)) == 20_000 + 4_000 + 1


def test_a_lookup_reads_at_most_one_node_per_level() -> None:
    nodes = Nodes()
    root = built(nodes, 20_000, NodeLimits())
    for number in (0, 7, 9_999, 19_999):
        nodes.reads = 0
        assert get(root, key(number), nodes.read) == f"v{number}"
        assert nodes.reads <= measure_height(root, lambda pointers: [nodes.held[pointer] for pointer in pointers]) - 1


def test_the_first_page_of_a_scan_reads_only_its_nodes() -> None:
    nodes = Nodes()
    root = built(nodes, 20_000, NodeLimits())
    nodes.reads = 0
    page = [entry for entry, _ in zip(scan(root, key(500), None, nodes.read), range(100), strict=False)]
    assert len(page) == 100
    assert nodes.reads <= 3 + 100 // 60


def compared_in_short_searches(count: int) -> int:
    """Return how many keys are looked at while each of `count` waiting messages is looked for on its own."""
    root = Node(buffer=tuple(Message(Compared(key(number)), "v", "t") for number in range(count)))
    Compared.times = 0
    for number in range(count):
        wanted = Entry(key(number), "v")
        assert list(scan(root, key(number), key(number + 1), Nodes().read)) == [wanted]
        assert last(root, key(number), key(number + 1), Nodes().read) == wanted
    return Compared.times


def test_as_many_short_searches_as_a_buffer_has_messages_look_at_few_keys_each() -> None:
    """A scan of a table asks for the deltas of each partition, and one append may have made them all."""
    few, many = compared_in_short_searches(100), compared_in_short_searches(200)
    assert few >= 100
    assert many <= 3 * few


def test_a_long_scan_requests_many_nodes_at_once() -> None:
    nodes = Nodes()
    root = built(nodes, 20_000, NodeLimits())
    requests: list[int] = []

    def read(pointers: Sequence[str]) -> list[Node]:
        requests.append(len(pointers))
        return nodes.read(pointers)

    assert sum(1 for _ in scan(root, "", None, read)) == 20_000
    assert max(requests) >= 16
    assert len(requests) <= 40


def test_ranges_in_a_hundred_leaves_are_read_in_few_requests_for_many_nodes_each() -> None:
    nodes = Nodes()
    root = built(nodes, 20_000, NodeLimits())
    requests: list[int] = []

    def read(pointers: Sequence[str]) -> list[Node]:
        requests.append(len(pointers))
        return nodes.read(pointers)

    starts = range(100, 20_000, 200)
    found = list(scan_all(root, [(key(start), key(start + 2)) for start in starts], read))
    assert found == [Entry(key(number), f"v{number}") for start in starts for number in (start, start + 1)]
    assert sum(requests) <= len(starts) + 4
    assert len(requests) <= 10


@pytest.mark.parametrize(
    ("loop", "rule"),
    [
        (Node((), (), ("loop",)), f"{DEPTH_MAX} nodes deep"),
        (Node(("m",), ("v",), ("loop", "loop")), "node loop has keys .* outside its range"),
    ],
)
def test_a_cycle_of_pointers_is_an_error(loop: Node, rule: str) -> None:

    def read(pointers: Sequence[str]) -> list[Node]:
        return [loop for _ in pointers]

    with pytest.raises(FormatError, match=rule):
        get(loop, "a", read)
    with pytest.raises(FormatError, match=rule):
        last(loop, "a", "z", read)
    with pytest.raises(FormatError, match=f"{DEPTH_MAX} nodes deep"):
        measure_height(loop, read)
    with pytest.raises(FormatError, match=rule):
        list(scan(loop, "", None, read))
    with pytest.raises(FormatError, match=f"deep|{rule}"):
        compact_tree(loop, SMALL, read)
    assert any("two nodes point to this node" in problem.rule for problem in verify_tree(loop, SMALL, read))


def test_a_node_shared_by_pointers_on_every_level_is_an_error() -> None:
    levels = [Node(("m",), ("v",), (f"level-{number + 1}",) * 2) for number in range(DEPTH_MAX - 2)]
    nodes = {f"level-{number}": node for number, node in enumerate(levels)} | {f"level-{DEPTH_MAX - 2}": Node()}

    def read(pointers: Sequence[str]) -> list[Node]:
        return [nodes[pointer] for pointer in pointers]

    with pytest.raises(FormatError, match="outside its range"):
        list(scan(levels[0], "", None, read))
    with pytest.raises(FormatError, match="outside its range"):
        compact_tree(levels[0], SMALL, read)


@pytest.mark.parametrize(
    ("child", "rule"),
    [
        (Node(("z",), ("v",)), "outside"),
        (Node(("a",), ("v",), (), (Message("z", "v", "t"),)), "outside"),
        (Node(("b",), ("v",), (Node(), Node())), "equally deep"),
        (Node(("a", "b", "c", "d"), ("1", "2", "3", "4")), "at most 3 keys"),
    ],
)
def test_verify_names_the_rule_that_a_node_breaks(child: Node, rule: str) -> None:
    root = Node(("m",), ("v",), ("left", "right"))
    nodes = {"left": child, "right": Node(("n",), ("v",))}
    problems = list(verify_tree(root, SMALL, lambda pointers: [nodes[pointer] for pointer in pointers]))
    assert any(rule in problem.rule for problem in problems)


@pytest.mark.parametrize(
    ("node_keys", "values", "children"),
    [(("b", "a"), ("1", "2"), ()), (("a", "a"), ("1", "2"), ()), (("a",), (), ()), (("a",), ("1",), ("only",))],
)
def test_an_invalid_node_is_rejected(
    node_keys: tuple[str, ...], values: tuple[str, ...], children: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError, match="keys"):
        Node(node_keys, values, children)
