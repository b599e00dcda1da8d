"""The shape of the tree that holds the catalog: how full its nodes are, and what waits in their write buffers."""

from collections.abc import Callable
from dataclasses import dataclass

from mangrove.betree.node import Node, ReadNodes, Shape

__all__ = ["Drawable", "NodeFacts", "tree_facts"]


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node, and those of its children that were looked at."""

    path: str
    keys: int
    keys_max: int
    messages: int
    messages_max: int
    first: str
    last: str
    children: int
    below: tuple["NodeFacts", ...] = ()


@dataclass(frozen=True, slots=True)
class Drawable:
    """A tree that can be drawn, whichever layout keeps it."""

    path: str
    root: Node
    shape: Shape
    read: ReadNodes
    said: Callable[[str], str]
    """A key in the words of people."""


def tree_facts(tree: Drawable, *, depth: int, width: int) -> NodeFacts:
    """Return the root with what lies below it, `depth` levels deep and at most `width` children of each node.

    Each level is read with one request for many.
    """
    return _facts(tree, tree.path, tree.root, depth, width, messages_max=tree.shape.root_buffer_max)


def _facts(tree: Drawable, path: str, node: Node, depth: int, width: int, *, messages_max: int) -> NodeFacts:
    stored = [child for child in node.children if isinstance(child, str)][:width] if depth > 0 else []
    below = tuple(
        _facts(tree, child, inner, depth - 1, width, messages_max=tree.shape.buffer_max)
        for child, inner in zip(stored, tree.read(stored) if stored else [], strict=True)
    )
    return NodeFacts(
        path=path,
        keys=len(node.keys),
        keys_max=tree.shape.keys_max,
        messages=len(node.buffer),
        messages_max=messages_max,
        first=tree.said(node.keys[0]) if node.keys else "",
        last=tree.said(node.keys[-1]) if node.keys else "",
        children=len(node.children),
        below=below,
    )
