"""Bulk loading of a tree from sorted entries, and writing of its new nodes."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import TypeAlias

from mangrove.betree.node import Entry, Node, NodeLimits

__all__ = ["WriteNode", "build_tree", "write_new_nodes"]

WriteNode: TypeAlias = Callable[[Node], str]
"""Takes a node whose children are all pointers, and returns its pointer."""


def write_new_nodes(root: Node, write: WriteNode) -> Node:
    """Return `root` with all unwritten nodes below it written and replaced by pointers, children first."""
    if all(isinstance(child, str) for child in root.children):
        return root
    return replace(
        root,
        children=tuple(
            child if isinstance(child, str) else write(write_new_nodes(child, write)) for child in root.children
        ),
    )


def build_tree(entries: Iterable[Entry], shape: NodeLimits, write: WriteNode, fill: float = 0.9) -> Node:
    """Return the root of a tree of the entries, which must be strictly ascending.

    Every node but the root is passed to `write` as soon as it is full, so the tree may be
    larger than memory. `fill` leaves space for later insertions.
    """
    if not 0.5 <= fill <= 1:
        raise ValueError(f"invalid fill factor {fill}; expected 0.5 to 1")
    target = max((shape.order + 1) // 2, int(shape.order * fill))
    level = _nodes(chain(((None, entry) for entry in entries), [(None, None)]), target, shape.order)
    while True:
        first = next(level)
        second = next(level, None)
        if second is None:
            return first[0]
        below = chain([first, second], level)
        level = _nodes(((write(node), pivot) for node, pivot in below), target, shape.order)


_Item: TypeAlias = tuple[str | None, Entry | None]
"""A child and the pivot to its right: leaves have no child, and the last item has no pivot."""


def _nodes(items: Iterable[_Item], target: int, order: int) -> Iterator[tuple[Node, Entry | None]]:
    """Yield the nodes of one level, each with the pivot to its right."""
    window: list[_Item] = []
    for item in items:
        window.append(item)
        if len(window) == target + order:  # keep enough for the last node to be half full
            yield _node(window[:target])
            del window[:target]
    if len(window) > order:
        half = len(window) // 2
        yield _node(window[:half])
        del window[:half]
    yield _node(window)


def _node(items: list[_Item]) -> tuple[Node, Entry | None]:
    pivots = [pivot for _, pivot in items[:-1] if pivot is not None]
    children = tuple(child for child, _ in items if child is not None)
    return Node(tuple(key for key, _ in pivots), tuple(value for _, value in pivots), children), items[-1][1]
