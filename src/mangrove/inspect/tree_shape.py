"""Fill levels of the nodes and write buffers of a metadata tree."""

from collections.abc import Callable
from dataclasses import dataclass

from mangrove.betree.node import Node, ReadNodes, Shape

__all__ = ["DrawableTree", "NodeShape", "measure_tree"]


@dataclass(frozen=True, slots=True)
class NodeShape:
    """A node, and those of its children that were looked at."""

    path: str
    keys: int
    keys_max: int
    messages: int
    messages_max: int
    first: str
    last: str
    children: int
    below: tuple["NodeShape", ...] = ()


@dataclass(frozen=True, slots=True)
class DrawableTree:
    """A tree that can be drawn, whichever layout keeps it."""

    path: str
    root: Node
    shape: Shape
    read: ReadNodes
    said: Callable[[str], str]
    """A key in the words of people."""


def measure_tree(tree: DrawableTree, *, depth: int, width: int) -> NodeShape:
    """Return the root with what lies below it, `depth` levels deep and at most `width` children of each node.

    Each level is read with one request for many.
    """
    return _measure_node(tree, tree.path, tree.root, depth, width, messages_max=tree.shape.root_buffer_max)


def _measure_node(tree: DrawableTree, path: str, node: Node, depth: int, width: int, *, messages_max: int) -> NodeShape:
    stored = [child for child in node.children if isinstance(child, str)][:width] if depth > 0 else []
    below = tuple(
        _measure_node(tree, child, inner, depth - 1, width, messages_max=tree.shape.buffer_max)
        for child, inner in zip(stored, tree.read(stored) if stored else [], strict=True)
    )
    return NodeShape(
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
