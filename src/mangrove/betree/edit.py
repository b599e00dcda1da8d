"""Applying a transaction's messages to a tree, with as few new nodes as possible.

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
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from mangrove.betree.join import joined
from mangrove.betree.node import Message, Node, ReadNodes, Shape, load, newest_of
from mangrove.betree.rows import Run, settled, split, with_messages

__all__ = ["apply"]

_AHEAD_MIN = 16
"""Where fewer nodes may be written, each is read when it is needed."""
_AHEAD_MAX = 64


def apply(root: Node, messages: Sequence[Message], shape: Shape, read: ReadNodes) -> Node:
    """Return the root that follows `root` when `messages` are committed, newest last.

    Nodes that have yet to be written hang below it in place of their pointers.
    """
    if len(root.buffer) + len(messages) > shape.root_buffer_max:
        root = _lightened_root(root, len(messages), shape, read)
    return replace(root, buffer=(*root.buffer, *messages))


def _lightened_root(root: Node, incoming: int, shape: Shape, read: ReadNodes) -> Node:
    """Return a root that has room for `incoming` messages, if few enough writes can make it."""
    root = settled(root)
    if root.is_leaf:
        return _grown(Run.of(with_messages(root, root.buffer)).chunked(shape), shape)
    excess = len(root.buffer) + incoming - shape.root_buffer_max
    # Large transactions pay for the work that they cause; a small one does not.
    spare = shape.writes_max - 1 + max(0, excess - shape.root_buffer_max)
    # Once it must flush, it makes room for some commits to come, as far as the writes allow:
    # few commits that write several nodes are better than many that write two.
    enough = shape.root_buffer_max - shape.root_buffer_max // 8
    held = _Held(read)
    held.read_ahead(root, len(root.buffer) + incoming - enough, spare)
    must = True
    while root.buffer and len(root.buffer) + incoming > enough and (must or spare >= 2):
        if len(root.keys) >= shape.keys_max:
            # The messages stay above the two halves, so that neither is given more than it may hold.
            halves = split(replace(root, buffer=()))
            root, written = replace(_grown(halves, shape), buffer=root.buffer), len(halves.nodes)
        else:
            root, written = _lighter(root, shape.root_buffer_max, shape, held, _Budget(spare, must))
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


class _Held:
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


def _grown(run: Run, shape: Shape) -> Node:
    """Return one root over the run's nodes, with what hangs on its pivots in its buffer."""
    while len(run.nodes) > 1:
        keys = tuple(pivot.key for pivot in run.pivots)
        run = Run.of(Node(keys, tuple(pivot.value for pivot in run.pivots), run.nodes, run.loose)).chunked(shape)
    return run.nodes[0]


def _lighter(node: Node, buffer_max: int, shape: Shape, read: _Held, budget: _Budget) -> tuple[Node, int]:
    """Return `node` with fewer messages in its buffer, and how many nodes were written below it, none if it can't be.

    `node` is settled, has children, and has room for another pivot.
    """
    on_pivots = [message for message in node.buffer if _is_pivot(node, message.key)]
    waiting = _by_child(node)
    index = max(waiting, key=lambda child: len(waiting[child]), default=None)
    # Deleted pivots go only when they crowd out everything else: it costs a path on both sides.
    if index is None or len(on_pivots) > max(buffer_max // 2, len(waiting[index])):
        return _without_pivot(node, on_pivots[0].key, shape, read)
    child = load(node.children[index], read)
    if child.is_leaf:
        # What would split the leaf in more than two waits for the next time.
        moving = waiting[index][: 2 * shape.keys_max + 1 - len(child.keys)]
        run = Run.of(with_messages(child, moving)).chunked(shape)
        return _placed(node, index, run, moving), len(run.nodes)
    if len(child.keys) >= shape.keys_max:
        run = split(settled(child))
        return _placed(node, index, run, ()), len(run.nodes)
    below = budget._replace(spare=budget.spare - 1)
    child, written = _with_room(settled(child), len(waiting[index]), shape, read, below)
    moving = waiting[index][: max(0, shape.buffer_max - len(child.buffer))]
    if not moving and not written:
        return node, 0
    child = replace(child, buffer=(*child.buffer, *moving))
    return _placed(node, index, Run.of(child), moving), written + 1


def _with_room(child: Node, wanted: int, shape: Shape, read: _Held, budget: _Budget) -> tuple[Node, int]:
    """Return `child` with room for some messages, for all the `wanted` ones if that is cheap."""
    written = 0
    read.read_ahead(child, len(child.buffer) + wanted - shape.buffer_max, budget.spare)
    while len(child.buffer) + wanted > shape.buffer_max and len(child.keys) < shape.keys_max:
        if not child.buffer or not budget.allows(written):
            break
        left = _Budget(budget.spare - written, budget.must and not written)
        child, more = _lighter(child, shape.buffer_max, shape, read, left)
        if not more:
            break
        written += more
    return child, written


def _without_pivot(node: Node, key: str, shape: Shape, read: ReadNodes) -> tuple[Node, int]:
    """Return `node` without the deleted pivot `key`, whose two children are joined."""
    index = bisect_left(node.keys, key)
    left, right = load(node.children[index], read), load(node.children[index + 1], read)
    run = joined(left, None, right, shape, read)
    bare = Node(
        node.keys[:index] + node.keys[index + 1 :],
        node.values[:index] + node.values[index + 1 :],
        node.children[:index] + node.children[index + 1 :],
        node.buffer,
    )
    gone = Message(key, None, "")
    return _placed(bare, index, run, (gone,)), len(run.nodes)


def _placed(node: Node, index: int, run: Run, moved: Sequence[Message]) -> Node:
    """Return `node` with `run` in place of its child `index`, and without the messages that moved there."""
    gone = {message.key for message in moved}
    staying = newest_of(message for message in node.buffer if message.key not in gone)
    # What the child's buffer said of its new pivots is older than what this buffer says.
    loose = tuple(message for message in run.loose if message.key not in staying)
    return settled(
        Node(
            node.keys[:index] + tuple(pivot.key for pivot in run.pivots) + node.keys[index:],
            node.values[:index] + tuple(pivot.value for pivot in run.pivots) + node.values[index:],
            node.children[:index] + tuple(run.nodes) + node.children[index + 1 :],
            loose + tuple(staying.values()),
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
