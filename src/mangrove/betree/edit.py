"""Message insertion with buffer flushes, node splits and node merges.

A commit appends its messages to the root's buffer, and usually nothing else. When the
buffer is full, or has many messages for one child, messages of *earlier* transactions
are flushed to the child with the most messages, and from there only as far as
necessary. The messages of a transaction always stay in the root that it commits, where
conflict detection of concurrent writers reads them.

Three rules preserve the newest value of each key:

* A message for a pivot is never flushed below it, where the pivot's older value would
  mask it: a new value is stored in the pivot's row, and a delete stays in the buffer,
  where it masks the row.
* A key that moves up to become a pivot takes along its messages in all buffers on the
  path.
* A node without space for another pivot is split before it is entered, so one commit
  writes one path and splits at most one node of it.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from mangrove.betree.node import Entry, Message, Node, NodeLimits, ReadNodes, load_node, newest_by_key

__all__ = ["SiblingNodes", "apply_messages", "apply_to_leaf", "collapse_buffer", "join_nodes", "split_node"]


@dataclass(frozen=True, slots=True)
class SiblingNodes:
    """Neighbouring nodes of one level, the pivots between them, and pending messages for those pivots."""

    nodes: tuple[Node, ...]
    pivots: tuple[Entry, ...] = ()
    loose: tuple[Message, ...] = ()

    @staticmethod
    def of(node: Node) -> "SiblingNodes":
        """Return a run of one node."""
        return SiblingNodes((node,))

    def split_into_chunks(self, shape: NodeLimits) -> "SiblingNodes":
        """Return a run with one bufferless node split evenly into as few nodes as possible."""
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
    """Return `node` with one message per key, and new pivot values stored in their rows."""
    buffer = []
    values = list(node.values)
    for message in newest_by_key(node.buffer).values():
        index = bisect_left(node.keys, message.key)
        if message.value is not None and index < len(node.keys) and node.keys[index] == message.key:
            values[index] = message.value
        else:
            buffer.append(message)
    return replace(node, values=tuple(values), buffer=tuple(buffer))


def apply_to_leaf(leaf: Node, messages: Iterable[Message]) -> Node:
    """Return the leaf's rows after the messages; the result may exceed the node size."""
    rows: dict[str, str] = dict(zip(leaf.keys, leaf.values, strict=True))
    for message in messages:
        if message.value is None:
            rows.pop(message.key, None)
        else:
            rows[message.key] = message.value
    keys = tuple(sorted(rows))
    return Node(keys, tuple(rows[key] for key in keys))


def split_node(node: Node) -> SiblingNodes:
    """Return the two halves of a node with a collapsed buffer, and its middle key between them.

    A delete of the middle key stays pending: it goes to the buffer of the node in which
    the key becomes a pivot.
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


def join_nodes(left: Node, pivot: Entry | None, right: Node, shape: NodeLimits, read: ReadNodes) -> SiblingNodes:
    """Return the one or two nodes with the content of `left`, `pivot` and `right`.

    Without a pivot the last child of `left` and the first of `right` are adjacent, so
    they are joined too, down to the leaves. The too small child of a node without keys is
    joined as well.
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
    return _split_if_full(collapse_buffer(Node(keys, values, children, (*left.buffer, *right.buffer))), shape)


def _split_if_full(node: Node, shape: NodeLimits) -> SiblingNodes:
    too_heavy = len(node.buffer) > shape.buffer_max and len(node.keys) >= 3
    if len(node.keys) > shape.keys_max or too_heavy:
        return split_node(node)
    return SiblingNodes.of(node)


_AHEAD_MIN = 16
"""With a smaller write budget, nodes are read on demand."""
_AHEAD_MAX = 64


def apply_messages(root: Node, messages: Sequence[Message], shape: NodeLimits, read: ReadNodes) -> Node:
    """Return the root that follows `root` after committing `messages`, newest last.

    Unwritten nodes are referenced directly in place of pointers.
    """
    is_full = len(root.buffer) + len(messages) > shape.root_buffer_max
    if is_full or _is_flush_due(root, shape.flush_min) or _is_large_leaf(root, shape):
        root = _make_room_in_root(root, len(messages), shape, read)
    return replace(root, buffer=(*root.buffer, *messages))


def _is_flush_due(node: Node, flush_min: int) -> bool:
    """Return whether one child has so many messages that writing it costs less than carrying them further."""
    if node.is_leaf or len(node.buffer) < flush_min:
        return False
    return max(map(len, _by_child(node).values()), default=0) >= flush_min


def _is_large_leaf(root: Node, shape: NodeLimits) -> bool:
    """Return whether the rows and messages of a root without children are too large to be written by every commit."""
    if not root.is_leaf or len(root.buffer) < shape.flush_min:
        return False
    messages = sum(len(message.value or "") for message in root.buffer)
    return messages + sum(map(len, root.values)) > shape.root_leaf_bytes_max


def _make_room_in_root(root: Node, incoming: int, shape: NodeLimits, read: ReadNodes) -> Node:
    """Return a root with space for `incoming` messages, if the write budget allows it."""
    is_large, root = _is_large_leaf(root, shape), collapse_buffer(root)
    if root.is_leaf:
        run = SiblingNodes.of(apply_to_leaf(root, root.buffer)).split_into_chunks(shape)
        return Node(children=run.nodes) if len(run.nodes) == 1 and is_large else _grow_root(run, shape)
    excess = len(root.buffer) + incoming - shape.root_buffer_max
    # Large transactions pay for the flushes that they cause; small ones do not.
    spare = shape.writes_max - 1 + max(0, excess - shape.root_buffer_max)
    # A flush makes space for some later commits too, as far as the budget allows:
    # few commits that write several nodes are better than many that write two.
    enough = shape.root_buffer_max - shape.root_buffer_max // 8
    reader = _NodeReader(read)
    reader.read_ahead(root, len(root.buffer) + incoming - enough, spare)
    must = True
    while len(root.buffer) + incoming > enough or _is_flush_due(root, shape.flush_min):
        if not root.buffer or not (must or spare >= 2):
            break
        if len(root.keys) >= shape.root_keys_max:
            # The messages stay above the two halves, so that neither overflows.
            halves = split_node(replace(root, buffer=()))
            root, written = replace(_grow_root(halves, shape), buffer=root.buffer), len(halves.nodes)
        else:
            root, written = _flush_buffer(root, shape.root_buffer_max, shape, reader, _Budget(spare, must))
            must = False
        if not written:
            break
        spare -= written
    return root


class _Budget(NamedTuple):
    """The number of nodes that may be written; with `must`, one path to a leaf is always allowed."""

    spare: int
    must: bool

    def allows(self, written: int) -> bool:
        """Whether one more node, which may have to be split, can be written."""
        return (self.must and not written) or self.spare - written >= 2


class _NodeReader:
    """Reads nodes, with a batched prefetch of those needed next.

    A large transaction leaves messages for hundreds of nodes; without the prefetch a
    flush would wait for the store once per node.
    """

    def __init__(self, read: ReadNodes) -> None:
        self._read = read
        self._nodes: dict[str, Node] = {}

    def __call__(self, pointers: Sequence[str]) -> list[Node]:
        """Return the nodes at these pointers."""
        return [
            self._nodes.pop(pointer) if pointer in self._nodes else self._read([pointer])[0] for pointer in pointers
        ]

    def read_ahead(self, node: Node, messages: int, spare: int) -> None:
        """Prefetch the children that a flush of that many messages enters, within the write budget."""
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


def _grow_root(run: SiblingNodes, shape: NodeLimits) -> Node:
    """Return one root over the run's nodes, with the pending messages in its buffer."""
    while len(run.nodes) > 1:
        keys = tuple(pivot.key for pivot in run.pivots)
        run = SiblingNodes.of(
            Node(keys, tuple(pivot.value for pivot in run.pivots), run.nodes, run.loose)
        ).split_into_chunks(shape)
    return run.nodes[0]


def _flush_buffer(
    node: Node, buffer_max: int, shape: NodeLimits, read: _NodeReader, budget: _Budget
) -> tuple[Node, int]:
    """Return `node` with fewer buffered messages, and the number of nodes written below it; 0 if impossible.

    `node` has a collapsed buffer, children, and space for another pivot.
    """
    on_pivots = [message for message in node.buffer if _is_pivot(node, message.key)]
    waiting = _by_child(node)
    index = max(waiting, key=lambda child: len(waiting[child]), default=None)
    # Deleted pivots are removed only if they fill the buffer: it costs a path on both sides.
    if index is None or len(on_pivots) > max(buffer_max // 2, len(waiting[index])):
        return _remove_pivot(node, on_pivots[0].key, shape, read)
    child = load_node(node.children[index], read)
    if child.is_leaf:
        # Messages that would split the leaf into more than two nodes wait for the next flush.
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


def _make_room(child: Node, requested: int, shape: NodeLimits, read: _NodeReader, budget: _Budget) -> tuple[Node, int]:
    """Return `child` with space for some messages, for all `requested` ones if that is cheap."""
    written = 0
    read.read_ahead(child, len(child.buffer) + requested - shape.buffer_max, budget.spare)
    while len(child.buffer) + requested > shape.buffer_max or _is_flush_due(child, shape.inner_flush_min):
        if not child.buffer or len(child.keys) >= shape.keys_max or not budget.allows(written):
            break
        left = _Budget(budget.spare - written, budget.must and not written)
        child, more = _flush_buffer(child, shape.buffer_max, shape, read, left)
        if not more:
            break
        written += more
    return child, written


def _remove_pivot(node: Node, key: str, shape: NodeLimits, read: ReadNodes) -> tuple[Node, int]:
    """Return `node` without the deleted pivot `key`; its two children are joined."""
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
    """Return `node` with `run` in place of child `index`, without the messages that were flushed to it."""
    gone = {message.key for message in moved}
    retained = newest_by_key(message for message in node.buffer if message.key not in gone)
    # Messages of the child's buffer for its new pivots are older than those of this buffer.
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
    """Return the messages that may be flushed, by child."""
    waiting: dict[int, list[Message]] = {}
    for message in node.buffer:
        index = bisect_left(node.keys, message.key)
        if index == len(node.keys) or node.keys[index] != message.key:
            waiting.setdefault(index, []).append(message)
    return waiting
