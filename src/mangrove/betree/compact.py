"""Tree compaction, which flushes all buffered messages and merges small nodes.

Afterwards all buffers are empty, no deleted key is left, and every node but the root
is at least half full. Subtrees that already comply are reused by pointer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from mangrove.betree.edit import SiblingNodes, apply_to_leaf, join_nodes
from mangrove.betree.node import (
    Child,
    Entry,
    Message,
    Node,
    NodeLimits,
    ReadNodes,
    check_key_bounds,
    load_node,
    newest_by_key,
)
from mangrove.betree.search import DEPTH_MAX
from mangrove.errors import FormatError

__all__ = ["compact_tree"]


@dataclass(frozen=True, slots=True)
class _StoredNode:
    """A node with the pointer that can be reused for it."""

    child: Child
    node: Node


def compact_tree(root: Node, shape: NodeLimits, read: ReadNodes) -> Node:
    """Return a root with the same entries in compacted nodes without messages."""
    compacted, pivots = _push_down(_StoredNode(root, root), _NodeBounds(), shape, read)
    while len(compacted) > 1:
        compacted, pivots = _split_into_chunks(_parent(compacted, pivots), shape)
    top = compacted[0].node
    while not top.keys and top.children:
        top = load_node(top.children[0], read)
    return top


@dataclass(frozen=True, slots=True)
class _NodeBounds:
    """The key bounds of a node, the messages for it from above, and the remaining depth."""

    low: str | None = None
    high: str | None = None
    newer: Mapping[str, Message] = field(default_factory=dict)
    depth: int = DEPTH_MAX


def _push_down(
    here: _StoredNode, place: _NodeBounds, shape: NodeLimits, read: ReadNodes
) -> tuple[list[_StoredNode], list[Entry]]:
    """Return the nodes that replace `here` after the messages from above, and the pivots between them."""
    if place.depth == 0:
        raise FormatError(f"the tree is more than {DEPTH_MAX} nodes deep: its pointers form a cycle or are damaged")
    node = here.node
    check_key_bounds(here.child, node, place.low, place.high)
    if node.is_leaf:
        if not place.newer and not node.buffer and len(node.keys) <= shape.keys_max:
            return [here], []
        return _split_into_chunks(apply_to_leaf(node, (*node.buffer, *place.newer.values())), shape)
    pending = {**newest_by_key(node.buffer), **place.newer}
    children = _load_children(node.children, read)
    compacted: list[_StoredNode] = []
    between: list[Entry | None] = []
    for child, below, pivot in zip(children, _below(node, place, pending), _pivots(node, pending), strict=True):
        nodes, pivots = _push_down(child, below, shape, read)
        compacted += nodes
        between += [*pivots, pivot]
    # The last child has no pivot behind it.
    compacted, pivots = _join_small_nodes(compacted, between[:-1], shape, read)
    if not pending and [id(new.child) for new in compacted] == [id(old.child) for old in children]:
        return [here], []
    return _split_into_chunks(_parent(compacted, pivots), shape)


def _below(node: Node, place: _NodeBounds, pending: Mapping[str, Message]) -> Iterator[_NodeBounds]:
    """Yield the bounds of each child."""
    for low, high in pairwise([place.low, *node.keys, place.high]):
        yield _NodeBounds(low, high, _strictly_between(pending, low, high) if pending else {}, place.depth - 1)


def _pivots(node: Node, pending: Mapping[str, Message]) -> Iterator[Entry | None]:
    """Yield the pivot after each child: its current value, or None if it is deleted or missing."""
    for key, was in zip(node.keys, node.values, strict=True):
        value = pending[key].value if key in pending else was
        yield None if value is None else Entry(key, value)
    yield None


def _join_small_nodes(
    compacted: list[_StoredNode], between: list[Entry | None], shape: NodeLimits, read: ReadNodes
) -> tuple[list[_StoredNode], list[Entry]]:
    """Return the nodes with all missing pivots closed and every small node joined to a neighbour."""
    result, pivots = [compacted[0]], list[Entry]()
    for pivot, right in zip(between, compacted[1:], strict=True):
        left = result[-1]
        if pivot is not None and min(len(left.node.keys), len(right.node.keys)) >= shape.keys_min:
            result.append(right)
            pivots.append(pivot)
            continue
        run = join_nodes(left.node, pivot, right.node, shape, read)
        result[-1:] = [_StoredNode(node, node) for node in run.nodes]
        pivots += run.pivots
    return result, pivots


def _parent(compacted: list[_StoredNode], pivots: list[Entry]) -> Node:
    return Node(
        tuple(pivot.key for pivot in pivots),
        tuple(pivot.value for pivot in pivots),
        tuple(item.child for item in compacted),
    )


def _split_into_chunks(node: Node, shape: NodeLimits) -> tuple[list[_StoredNode], list[Entry]]:
    run = SiblingNodes.of(node).split_into_chunks(shape)
    return [_StoredNode(piece, piece) for piece in run.nodes], list(run.pivots)


def _load_children(children: tuple[Child, ...], read: ReadNodes) -> list[_StoredNode]:
    """Return all children; the stored ones are read in one batch."""
    stored = iter(read([child for child in children if isinstance(child, str)]))
    return [_StoredNode(child, child if isinstance(child, Node) else next(stored)) for child in children]


def _strictly_between(pending: Mapping[str, Message], low: str | None, high: str | None) -> dict[str, Message]:
    return {
        key: message for key, message in pending.items() if (low is None or key > low) and (high is None or key < high)
    }
