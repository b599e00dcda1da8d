"""Fill levels of the nodes and write buffers of a metadata tree."""

from collections.abc import Callable
from dataclasses import dataclass

from mangrove.betree.node import Node, NodeLimits, ReadNodes
from mangrove.errors import FormatError
from mangrove.layouts.tree.keys import KeyEncoding, NameSizes

__all__ = ["DrawableTree", "NodeShape", "format_tree_key", "measure_tree"]


@dataclass(frozen=True, slots=True)
class NodeShape:
    """The fill level of a node, with those of its children that were read."""

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
    """The tree of any layout."""

    path: str
    root: Node
    shape: NodeLimits
    read: ReadNodes
    format_key: Callable[[str], str]
    """Returns a key as text for users."""


def format_tree_key(key: str, encoding: KeyEncoding, sizes: NameSizes) -> str:
    """Return a tree key as its kind and parts; a key with other name sizes is only stripped of padding."""
    try:
        kind, parts = encoding.parts_of(key, sizes)
    except FormatError:
        return " ".join(key.split())
    return " ".join([kind.word, *map(str, parts)])


def measure_tree(tree: DrawableTree, *, depth: int, width: int) -> NodeShape:
    """Return the root with its descendants, `depth` levels deep and at most `width` children of each node.

    The children of a node are read in one batch.
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
        first=tree.format_key(node.keys[0]) if node.keys else "",
        last=tree.format_key(node.keys[-1]) if node.keys else "",
        children=len(node.children),
        below=below,
    )
