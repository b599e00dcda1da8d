"""Message insertion with buffer flushes, node splits and node merges.

A commit appends its messages to the root's buffer, and usually that is all. When
the buffer is full, messages of *earlier* transactions sink to the child that has
most of them waiting, and from there only as far as is needed to make room. A
transaction's own messages always stay in the root that it commits, where a
writer that lost the race reads what its rival wrote.

Three rules keep every answer right:

* A message for a pivot is never pushed below it, where the pivot's older value
  would hide it: a new value is put into the pivot's row, and a delete stays in
  the buffer, where it hides the row.
* A key that moves up to become a pivot takes along what any buffer on its way
  says about it.
* A node is split before it is entered when it has no room for one more pivot,
  so one commit writes one path and splits at most one node of it.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from mangrove.betree.node import Entry, Message, Node, ReadNodes, Shape, load_node, newest_by_key

__all__ = ["SiblingNodes", "apply_messages", "apply_to_leaf", "collapse_buffer", "join_nodes", "split_node"]


@dataclass(frozen=True, slots=True)
class SiblingNodes:
    """Neighbouring nodes of one level, the pivots between them, and messages that hang on those pivots."""

    nodes: tuple[Node, ...]
    pivots: tuple[Entry, ...] = ()
    loose: tuple[Message, ...] = ()

    @staticmethod
    def of(node: Node) -> "SiblingNodes":
        """Return a run of one node."""
        return SiblingNodes((node,))

    def split_into_chunks(self, shape: Shape) -> "SiblingNodes":
        """Return a run of one bufferless node divided evenly into as few nodes as may hold its keys."""
        (node,) = self.nodes
        if len(node.keys) <= shape.keys_max:
            return self
        pieces = -(-(len(node.keys) + 1) // shape.order)
        bounds = [round(piece * (len(node.keys) + 1) / pieces) for piece in range(pieces + 1)]
        nodes = tuple(
            Node(node.keys[low : high - 1], node.values[low : high - 1], node.children[low:high])
            for low, high in pairwise(bounds)
        )
        return SiblingNodes(nodes, tuple(Entry(node.keys[high - 1], node.values[high - 1]) for high in bounds[1:-1]))


def collapse_buffer(node: Node) -> Node:
    """Return `node` with one message for each key, and new values of its pivots in their rows."""
    buffer = []
    values = list(node.values)
    for message in node.newest.values():
        index = bisect_left(node.keys, message.key)
        if message.value is not None and index < len(node.keys) and node.keys[index] == message.key:
            values[index] = message.value
        else:
            buffer.append(message)
    return replace(node, values=tuple(values), buffer=tuple(buffer))


def apply_to_leaf(leaf: Node, messages: Iterable[Message]) -> Node:
    """Return the leaf's rows after the messages, however many they become."""
    rows: dict[str, str] = dict(zip(leaf.keys, leaf.values, strict=True))
    for message in messages:
        if message.value is None:
            rows.pop(message.key, None)
        else:
            rows[message.key] = message.value
    keys = tuple(sorted(rows))
    return Node(keys, tuple(rows[key] for key in keys))


def split_node(node: Node) -> SiblingNodes:
    """Return the two halves of a settled node, its middle key between them.

    A delete of the middle key hangs loose: it belongs to the buffer of whichever
    node the key becomes a pivot of.
    """
    middle = len(node.keys) // 2
    pivot = Entry(node.keys[middle], node.values[middle])
    left = Node(
        node.keys[:middle],
        node.values[:middle],
        node.children[: middle + 1],
        tuple(message for message in node.buffer if message.key < pivot.key),
    )
    right = Node(
        node.keys[middle + 1 :],
        node.values[middle + 1 :],
        node.children[middle + 1 :],
        tuple(message for message in node.buffer if message.key > pivot.key),
    )
    return SiblingNodes((left, right), (pivot,), tuple(message for message in node.buffer if message.key == pivot.key))


def join_nodes(left: Node, pivot: Entry | None, right: Node, shape: Shape, read: ReadNodes) -> SiblingNodes:
    """Return the one or two nodes that hold what `left`, `pivot` and `right` held.

    Without a pivot nothing stands between the last child of `left` and the first
    of `right`, so these are joined too, down to the leaves. A node without keys
    may have a child that is too small to stand alone; that one is joined as well.
    """
    left, right = collapse_buffer(left), collapse_buffer(right)
    between = () if pivot is None else (pivot,)
    keys = left.keys + tuple(entry.key for entry in between) + right.keys
    values = left.values + tuple(entry.value for entry in between) + right.values
    if left.is_leaf:
        return SiblingNodes.of(Node(keys, values)).split_into_chunks(shape)
    children = left.children + right.children
    if pivot is None or not left.keys or not right.keys:
        near = load_node(left.children[-1], read), load_node(right.children[0], read)
        if pivot is None or any(len(child.keys) < shape.keys_min for child in near):
            run = join_nodes(near[0], pivot, near[1], shape, read)
            keys = left.keys + tuple(entry.key for entry in run.pivots) + right.keys
            values = left.values + tuple(entry.value for entry in run.pivots) + right.values
            children = left.children[:-1] + run.nodes + right.children[1:]
            both = (*run.loose, *left.buffer, *right.buffer)
            return _split_if_full(collapse_buffer(Node(keys, values, children, both)), shape)
    return _split_if_full(collapse_buffer(Node(keys, values, children, left.buffer + right.buffer)), shape)


def _split_if_full(node: Node, shape: Shape) -> SiblingNodes:
    too_heavy = len(node.buffer) > shape.buffer_max and len(node.keys) >= 3
    if len(node.keys) > shape.keys_max or too_heavy:
        return split_node(node)
    return SiblingNodes.of(node)


_AHEAD_MIN = 16
"""Where fewer nodes may be written, each is read when it is needed."""
_AHEAD_MAX = 64


def apply_messages(root: Node, messages: Sequence[Message], shape: Shape, read: ReadNodes) -> Node:
    """Return the root that follows `root` when `messages` are committed, newest last.

    Nodes that have yet to be written hang below it in place of their pointers.
    """
    if len(root.buffer) + len(messages) > shape.root_buffer_max:
        root = _make_room_in_root(root, len(messages), shape, read)
    return replace(root, buffer=(*root.buffer, *messages))


def _make_room_in_root(root: Node, incoming: int, shape: Shape, read: ReadNodes) -> Node:
    """Return a root that has room for `incoming` messages, if few enough writes can make it."""
    root = collapse_buffer(root)
    if root.is_leaf:
        return _grow_root(SiblingNodes.of(apply_to_leaf(root, root.buffer)).split_into_chunks(shape), shape)
    excess = len(root.buffer) + incoming - shape.root_buffer_max
    # Large transactions pay for the work that they cause; a small one does not.
    spare = shape.writes_max - 1 + max(0, excess - shape.root_buffer_max)
    # Once it must flush, it makes room for some commits to come, as far as the writes allow:
    # few commits that write several nodes are better than many that write two.
    enough = shape.root_buffer_max - shape.root_buffer_max // 8
    held = _NodeReader(read)
    held.read_ahead(root, len(root.buffer) + incoming - enough, spare)
    must = True
    while root.buffer and len(root.buffer) + incoming > enough and (must or spare >= 2):
        if len(root.keys) >= shape.keys_max:
            # The messages stay above the two halves, so that neither is given more than it may hold.
            halves = split_node(replace(root, buffer=()))
            root, written = replace(_grow_root(halves, shape), buffer=root.buffer), len(halves.nodes)
        else:
            root, written = _flush_buffer(root, shape.root_buffer_max, shape, held, _Budget(spare, must))
            must = False
        if not written:
            break
        spare -= written
    return root


class _Budget(NamedTuple):
    """How many nodes may be written; where it `must`, one way down to a leaf is written whatever it takes."""

    spare: int
    must: bool

    def allows(self, written: int) -> bool:
        """Whether one more node, which may have to be split in two, can be written."""
        return (self.must and not written) or self.spare - written >= 2


class _NodeReader:
    """Reads nodes, and has at hand those that are about to be needed, which were read many at once.

    A large transaction leaves messages for hundreds of nodes behind. Whoever makes
    room for more would else wait for the store once for each of them.
    """

    def __init__(self, read: ReadNodes) -> None:
        self._read = read
        self._nodes: dict[str, Node] = {}

    def __call__(self, pointers: Sequence[str]) -> list[Node]:
        """Return the nodes that the pointers lead to."""
        return [
            self._nodes.pop(pointer) if pointer in self._nodes else self._read([pointer])[0] for pointer in pointers
        ]

    def read_ahead(self, node: Node, messages: int, spare: int) -> None:
        """Read the children that are entered until so many messages have sunk, as far as the writes allow."""
        pointers: list[str] = []
        by_child = _by_child(node) if spare >= _AHEAD_MIN else {}
        for index, waiting in sorted(by_child.items(), key=lambda item: -len(item[1]))[: min(spare, _AHEAD_MAX)]:
            child = node.children[index]
            if messages <= 0:
                break
            messages -= len(waiting)
            if isinstance(child, str) and child not in self._nodes:
                pointers.append(child)
        if pointers:
            self._nodes.update(zip(pointers, self._read(pointers), strict=True))


def _grow_root(run: SiblingNodes, shape: Shape) -> Node:
    """Return one root over the run's nodes, with what hangs on its pivots in its buffer."""
    while len(run.nodes) > 1:
        keys = tuple(pivot.key for pivot in run.pivots)
        run = SiblingNodes.of(
            Node(keys, tuple(pivot.value for pivot in run.pivots), run.nodes, run.loose)
        ).split_into_chunks(shape)
    return run.nodes[0]


def _flush_buffer(node: Node, buffer_max: int, shape: Shape, read: _NodeReader, budget: _Budget) -> tuple[Node, int]:
    """Return `node` with fewer messages in its buffer, and how many nodes were written below it, none if it can't be.

    `node` is settled, has children, and has room for another pivot.
    """
    on_pivots = [message for message in node.buffer if _is_pivot(node, message.key)]
    waiting = _by_child(node)
    index = max(waiting, key=lambda child: len(waiting[child]), default=None)
    # Deleted pivots go only when they crowd out everything else: it costs a path on both sides.
    if index is None or len(on_pivots) > max(buffer_max // 2, len(waiting[index])):
        return _remove_pivot(node, on_pivots[0].key, shape, read)
    child = load_node(node.children[index], read)
    if child.is_leaf:
        # What would split the leaf in more than two waits for the next time.
        moving = waiting[index][: 2 * shape.keys_max + 1 - len(child.keys)]
        run = SiblingNodes.of(apply_to_leaf(child, moving)).split_into_chunks(shape)
        return _replace_child(node, index, run, moving), len(run.nodes)
    if len(child.keys) >= shape.keys_max:
        run = split_node(collapse_buffer(child))
        return _replace_child(node, index, run, ()), len(run.nodes)
    below = budget._replace(spare=budget.spare - 1)
    child, written = _make_room(collapse_buffer(child), len(waiting[index]), shape, read, below)
    moving = waiting[index][: max(0, shape.buffer_max - len(child.buffer))]
    if not moving and not written:
        return node, 0
    child = replace(child, buffer=(*child.buffer, *moving))
    return _replace_child(node, index, SiblingNodes.of(child), moving), written + 1


def _make_room(child: Node, wanted: int, shape: Shape, read: _NodeReader, budget: _Budget) -> tuple[Node, int]:
    """Return `child` with room for some messages, for all the `wanted` ones if that is cheap."""
    written = 0
    read.read_ahead(child, len(child.buffer) + wanted - shape.buffer_max, budget.spare)
    while len(child.buffer) + wanted > shape.buffer_max and len(child.keys) < shape.keys_max:
        if not child.buffer or not budget.allows(written):
            break
        left = _Budget(budget.spare - written, budget.must and not written)
        child, more = _flush_buffer(child, shape.buffer_max, shape, read, left)
        if not more:
            break
        written += more
    return child, written


def _remove_pivot(node: Node, key: str, shape: Shape, read: ReadNodes) -> tuple[Node, int]:
    """Return `node` without the deleted pivot `key`, whose two children are joined."""
    index = bisect_left(node.keys, key)
    left, right = load_node(node.children[index], read), load_node(node.children[index + 1], read)
    run = join_nodes(left, None, right, shape, read)
    bare = Node(
        node.keys[:index] + node.keys[index + 1 :],
        node.values[:index] + node.values[index + 1 :],
        node.children[:index] + node.children[index + 1 :],
        node.buffer,
    )
    gone = Message(key, None, "")
    return _replace_child(bare, index, run, (gone,)), len(run.nodes)


def _replace_child(node: Node, index: int, run: SiblingNodes, moved: Sequence[Message]) -> Node:
    """Return `node` with `run` in place of its child `index`, and without the messages that moved there."""
    gone = {message.key for message in moved}
    retained = newest_by_key(message for message in node.buffer if message.key not in gone)
    # What the child's buffer said of its new pivots is older than what this buffer says.
    loose = tuple(message for message in run.loose if message.key not in retained)
    return collapse_buffer(
        Node(
            node.keys[:index] + tuple(pivot.key for pivot in run.pivots) + node.keys[index:],
            node.values[:index] + tuple(pivot.value for pivot in run.pivots) + node.values[index:],
            node.children[:index] + tuple(run.nodes) + node.children[index + 1 :],
            loose + tuple(retained.values()),
        )
    )


def _is_pivot(node: Node, key: str) -> bool:
    index = bisect_left(node.keys, key)
    return index < len(node.keys) and node.keys[index] == key


def _by_child(node: Node) -> dict[int, list[Message]]:
    """Return the messages that may sink, by the child that they would sink to."""
    waiting: dict[int, list[Message]] = {}
    for message in node.buffer:
        index = bisect_left(node.keys, message.key)
        if index == len(node.keys) or node.keys[index] != message.key:
            waiting.setdefault(index, []).append(message)
    return waiting
