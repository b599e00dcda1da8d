"""Compaction: every message goes to the row that it is about, and small nodes join their neighbours.

Afterwards no buffer holds anything, no deleted key is left anywhere, and every
node but the root is at least half full. Subtrees that are so already are kept
as they are, by their pointers.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mangrove.betree.join import joined
from mangrove.betree.node import Child, Entry, Message, Node, ReadNodes, Shape, check_place, load
from mangrove.betree.rows import Run, with_messages
from mangrove.betree.search import DEPTH_MAX
from mangrove.errors import FormatError

__all__ = ["compact"]


@dataclass(frozen=True, slots=True)
class _Kept:
    """A node with the pointer that may go on standing for it."""

    child: Child
    node: Node


def compact(root: Node, shape: Shape, read: ReadNodes) -> Node:
    """Return a root that holds the same entries in whole nodes without messages."""
    kept, pivots = _pushed(_Kept(root, root), (None, None), {}, shape, read, DEPTH_MAX)
    while len(kept) > 1:
        kept, pivots = _chunked(_parent(kept, pivots), shape)
    top = kept[0].node
    while not top.keys and top.children:
        top = load(top.children[0], read)
    return top


def _pushed(
    here: _Kept,
    place: tuple[str | None, str | None],
    newer: Mapping[str, Message],
    shape: Shape,
    read: ReadNodes,
    depth: int,
) -> tuple[list[_Kept], list[Entry]]:
    """Return the nodes that hold what `here` held after the messages from above, and the pivots between them."""
    if depth == 0:
        raise FormatError(f"the tree is more than {DEPTH_MAX} nodes deep: its pointers form a cycle or are damaged")
    node = here.node
    check_place(here.child, node, *place)
    if node.is_leaf:
        if not newer and not node.buffer and len(node.keys) <= shape.keys_max:
            return [here], []
        return _chunked(with_messages(node, (*node.buffer, *newer.values())), shape)
    pending = {**node.newest, **newer}
    children = _loaded(node.children, read)
    kept: list[_Kept] = []
    between: list[Entry | None] = []
    for index, child in enumerate(children):
        low = node.keys[index - 1] if index else place[0]
        high = node.keys[index] if index < len(node.keys) else place[1]
        below = _strictly_between(pending, low, high) if pending else {}
        nodes, pivots = _pushed(child, (low, high), below, shape, read, depth - 1)
        kept += nodes
        between += pivots
        if index < len(node.keys):
            message = pending.get(node.keys[index])
            value = node.values[index] if message is None else message.value
            between.append(None if value is None else Entry(node.keys[index], value))
    kept, pivots = _joined_where_small(kept, between, shape, read)
    if (
        not pending
        and len(kept) == len(children)
        and all(new.child is old.child for new, old in zip(kept, children, strict=True))
    ):
        return [here], []
    return _chunked(_parent(kept, pivots), shape)


def _joined_where_small(
    kept: list[_Kept], between: list[Entry | None], shape: Shape, read: ReadNodes
) -> tuple[list[_Kept], list[Entry]]:
    """Return the nodes with every gap closed and every small node joined to a neighbour."""
    result, pivots = [kept[0]], list[Entry]()
    for pivot, right in zip(between, kept[1:], strict=True):
        left = result[-1]
        if pivot is not None and min(len(left.node.keys), len(right.node.keys)) >= shape.keys_min:
            result.append(right)
            pivots.append(pivot)
            continue
        run = joined(left.node, pivot, right.node, shape, read)
        result[-1:] = [_Kept(node, node) for node in run.nodes]
        pivots += run.pivots
    return result, pivots


def _parent(kept: list[_Kept], pivots: list[Entry]) -> Node:
    return Node(
        tuple(pivot.key for pivot in pivots), tuple(pivot.value for pivot in pivots), tuple(item.child for item in kept)
    )


def _chunked(node: Node, shape: Shape) -> tuple[list[_Kept], list[Entry]]:
    run = Run.of(node).chunked(shape)
    return [_Kept(piece, piece) for piece in run.nodes], list(run.pivots)


def _loaded(children: tuple[Child, ...], read: ReadNodes) -> list[_Kept]:
    """Return all the children, the stored ones read with one request for many."""
    stored = iter(read([child for child in children if isinstance(child, str)]))
    return [_Kept(child, child if isinstance(child, Node) else next(stored)) for child in children]


def _strictly_between(pending: Mapping[str, Message], low: str | None, high: str | None) -> dict[str, Message]:
    return {
        key: message for key, message in pending.items() if (low is None or key > low) and (high is None or key < high)
    }
