"""A tree driven at random by a state machine, beside a sorted dictionary."""

from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mangrove.betree.build import build_tree, write_new_nodes
from mangrove.betree.compact import compact_tree
from mangrove.betree.edit import apply_messages
from mangrove.betree.node import Entry, Message, Node, NodeLimits
from mangrove.betree.search import get, last, scan
from mangrove.betree.verify import verify_tree

SPACE = 400
keys = st.integers(0, SPACE - 1).map(lambda number: f"{number:04d}")


class TreeMachine(RuleBasedStateMachine):
    """Inserts, updates, deletes, hot spots and ascending names, at random points flushed, split, merged and rebuilt."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: dict[str, Node] = {}
        self.model: dict[str, str] = {}
        self.root = Node()
        self.commits = 0
        self.ascending = 0
        self.shape = NodeLimits()
        self.past: list[tuple[Node, dict[str, str]]] = []

    @initialize(
        order=st.sampled_from([3, 4, 5, 8, 16, 128]),
        root_buffer_max=st.integers(1, 12),
        buffer_max=st.integers(1, 40),
        flush_min=st.integers(1, 12),
        root_children_max=st.sampled_from([3, 8, 32]),
        root_leaf_bytes_max=st.sampled_from([0, 100, 10_000]),
        count=st.integers(0, SPACE),
    )
    def begin(self, count: int, **limits: int) -> None:
        self.shape = NodeLimits(**limits, inner_flush_min=2 * limits["flush_min"])
        self.model = {f"{number:04d}": "built" for number in range(count)}
        self.root = build_tree((Entry(*item) for item in sorted(self.model.items())), self.shape, self.write)

    def write(self, node: Node) -> str:
        pointer = f"node-{len(self.nodes)}"
        self.nodes[pointer] = node
        return pointer

    def read(self, pointers: Sequence[str]) -> list[Node]:
        return [self.nodes[pointer] for pointer in pointers]

    def commit(self, told: Sequence[tuple[str, str | None]]) -> None:
        self.commits += 1
        messages = [Message(key, value, f"t{self.commits}") for key, value in told]
        self.root = write_new_nodes(apply_messages(self.root, messages, self.shape, self.read), self.write)
        for key, value in told:
            if value is None:
                self.model.pop(key, None)
            else:
                self.model[key] = value

    @rule(told=st.lists(st.tuples(keys, st.sampled_from(["a", "b", None])), min_size=1, max_size=6))
    def change_a_few(self, told: list[tuple[str, str | None]]) -> None:
        self.commit(told)

    @rule(start=st.integers(0, SPACE - 1), count=st.integers(1, 80), delete=st.booleans())
    def change_a_whole_range(self, start: int, count: int, delete: bool) -> None:
        self.commit([(f"{number % SPACE:04d}", None if delete else "range") for number in range(start, start + count)])

    @rule(count=st.integers(1, 30))
    def add_ascending_names_one_by_one(self, count: int) -> None:
        for _ in range(count):
            self.ascending += 1
            self.commit([(f"z{self.ascending:06d}", "up")])

    @rule(key=keys, count=st.integers(1, 30))
    def write_one_name_again_and_again(self, key: str, count: int) -> None:
        for number in range(count):
            self.commit([(key, None if number % 3 == 2 else f"hot{number}")])

    @rule()
    def compact_it(self) -> None:
        self.root = write_new_nodes(compact_tree(self.root, self.shape, self.read), self.write)
        assert list(verify_tree(self.root, self.shape, self.read, compacted=True)) == []

    @rule()
    def keep_this_version(self) -> None:
        if len(self.past) < 5:
            self.past.append((self.root, dict(self.model)))

    @rule(one=keys, other=keys)
    def a_range_is_right(self, one: str, other: str) -> None:
        start, end = min(one, other), max(one, other)
        wanted = [item for item in sorted(self.model.items()) if start <= item[0] < end]
        assert list(scan(self.root, start, end, self.read)) == wanted
        assert last(self.root, start, end, self.read) == (wanted[-1] if wanted else None)

    @rule(key=keys)
    def a_lookup_is_right(self, key: str) -> None:
        assert get(self.root, key, self.read) == self.model.get(key)

    @invariant()
    def every_rule_holds(self) -> None:
        assert list(verify_tree(self.root, self.shape, self.read)) == []

    def teardown(self) -> None:
        for root, model in [*self.past, (self.root, self.model)]:
            assert list(scan(root, "", None, self.read)) == sorted(model.items())


TestTreeMachine = TreeMachine.TestCase
