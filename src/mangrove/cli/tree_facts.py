"""The shape of the tree that holds the catalog: how full its nodes are, and what waits in their write buffers."""

from collections.abc import Callable
from dataclasses import dataclass

from mangrove.betree.node import Node, ReadNodes, Shape

__all__ = ["NodeFacts", "tree_facts"]


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


def tree_facts(
    path: str, root: Node, shape: Shape, read: ReadNodes, said: Callable[[str], str], *, depth: int, width: int
) -> NodeFacts:
    """Return the root with what lies below it, `depth` levels deep and at most `width` children of each node.

    Each level is read with one request for many.
    """
    return _facts(path, root, shape, read, said, depth, width, messages_max=shape.root_buffer_max)


def _facts(
    path: str, node: Node, shape: Shape, read: ReadNodes, said: Callable[[str], str], depth: int, width: int,
    *, messages_max: int,
) -> NodeFacts:  # fmt: skip
    stored = [child for child in node.children if isinstance(child, str)][:width] if depth > 0 else []
    below = tuple(
        _facts(child, inner, shape, read, said, depth - 1, width, messages_max=shape.buffer_max)
        for child, inner in zip(stored, read(stored) if stored else [], strict=True)
    )
    return NodeFacts(
        path=path,
        keys=len(node.keys),
        keys_max=shape.keys_max,
        messages=len(node.buffer),
        messages_max=messages_max,
        first=said(node.keys[0]) if node.keys else "",
        last=said(node.keys[-1]) if node.keys else "",
        children=len(node.children),
        below=below,
    )
