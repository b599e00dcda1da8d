"""Nodes of the metadata tree by level, and the content of one node."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from mangrove.betree.node import Node
from mangrove.betree.search import DEPTH_MAX
from mangrove.errors import FormatError, InvalidInputError, NotFoundError
from mangrove.inspect.formatting import shorten_text
from mangrove.inspect.page import PageRequest, PageVersion, PinnedLakehouse
from mangrove.layouts.tree.root import shape_of
from mangrove.layouts.tree.snapshot import TreeSnapshot

__all__ = ["NodeInfo", "NodePosition", "NodeRowInfo", "TreeInfo", "TreeLevelInfo", "load_tree_info"]

_NODES_MAX: Final = 256
"""How many nodes are drawn in all."""
_LEVEL_NODES_MAX: Final = 128
_ROWS_MAX: Final = 200
_POINTER_CHARACTERS_MAX: Final = 90


@dataclass(frozen=True, slots=True)
class NodePosition:
    """A node in the drawing; `way` says which child to take at each level, as in `0.3`, and is empty for the root."""

    way: str
    keys: int
    messages: int
    children: int


@dataclass(frozen=True, slots=True)
class TreeLevelInfo:
    """The nodes of a level that are shown, from left to right."""

    nodes: tuple[NodePosition, ...]
    left_out: int
    """How many children of the level above are not shown; what lies below them is not counted."""


@dataclass(frozen=True, slots=True)
class NodeRowInfo:
    """A key of a node, or a message of its write buffer."""

    key: str
    value: str | None
    """Where it points; None for a message that deletes."""
    transaction: str | None = None


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """What one node holds."""

    way: str
    path: str
    keys: tuple[NodeRowInfo, ...]
    keys_left_out: int
    messages: tuple[NodeRowInfo, ...]
    """Newest first."""
    messages_left_out: int


@dataclass(frozen=True, slots=True)
class TreeInfo:
    """The drawing's facts; where the layout is not the tree layout there are no levels."""

    seen: PageVersion
    is_tree: bool
    keys_max: int
    root_buffer_max: int
    buffer_max: int
    levels: tuple[TreeLevelInfo, ...]
    node: NodeInfo | None


def load_tree_info(pinned: PinnedLakehouse, requested: PageRequest) -> TreeInfo:
    """Return the tree of the version, with the node open that the query's `node` leads to."""
    snapshot = pinned.snapshot
    if not isinstance(snapshot, TreeSnapshot):
        return TreeInfo(pinned.seen, False, 0, 0, 0, (), None)  # noqa: FBT003
    shape = shape_of(snapshot.settings)
    return TreeInfo(
        pinned.seen,
        is_tree=True,
        keys_max=shape.keys_max,
        root_buffer_max=shape.root_buffer_max,
        buffer_max=shape.buffer_max,
        levels=tuple(_levels(snapshot)),
        node=_node(snapshot, requested.text("node") or ""),
    )


def _levels(snapshot: TreeSnapshot) -> Iterator[TreeLevelInfo]:
    """Yield the levels from the root down, as far as the bound on nodes reaches."""
    level: list[tuple[str, Node]] = [("", snapshot.root.node)]
    left_out = 0
    room = _NODES_MAX
    for _ in range(DEPTH_MAX):
        room -= len(level)
        yield TreeLevelInfo(tuple(_place(way, node) for way, node in level), left_out)
        ways = [
            (f"{way}.{number}" if way else str(number), child)
            for way, node in level
            for number, child in enumerate(node.children)
        ]
        shown = ways[: min(room, _LEVEL_NODES_MAX)]
        left_out = len(ways) - len(shown)
        if not ways:
            return
        if not shown:
            yield TreeLevelInfo((), left_out)
            return
        level = list(zip((way for way, _ in shown), _read(snapshot, [child for _, child in shown]), strict=True))
    raise FormatError(f"the tree is more than {DEPTH_MAX} nodes deep: run `mangrove check`")


def _place(way: str, node: Node) -> NodePosition:
    return NodePosition(way, len(node.keys), len(node.buffer), len(node.children))


def _read(snapshot: TreeSnapshot, children: list[str | Node]) -> list[Node]:
    stored = iter(snapshot.read_nodes([child for child in children if isinstance(child, str)]))
    return [next(stored) if isinstance(child, str) else child for child in children]


def _node(snapshot: TreeSnapshot, way: str) -> NodeInfo:
    """Return the node at the end of a way. Nothing but the tree's own pointers is followed."""
    node, path = snapshot.root.node, snapshot.root.path
    for step in way.split(".")[:DEPTH_MAX] if way else ():
        if not (step.isascii() and step.isdecimal()) or len(step) > 9:
            raise InvalidInputError(f"{way!r} is no way to a node: it is numbers with dots between, as in 0.3")
        if int(step) >= len(node.children):
            raise NotFoundError(f"there is no node {way!r} in this version's tree: start from its root")
        child = node.children[int(step)]
        path = child if isinstance(child, str) else "not stored"
        node = _read(snapshot, [child])[0]
    keys = islice(zip(node.keys, node.values, strict=True), _ROWS_MAX)
    messages = islice(reversed(node.buffer), _ROWS_MAX)
    return NodeInfo(
        way,
        path,
        tuple(NodeRowInfo(_format_key(snapshot, key), _pointer(value)) for key, value in keys),
        max(0, len(node.keys) - _ROWS_MAX),
        tuple(NodeRowInfo(_format_key(snapshot, one.key), _pointer(one.value), one.transaction) for one in messages),
        max(0, len(node.buffer) - _ROWS_MAX),
    )


def _format_key(snapshot: TreeSnapshot, key: str) -> str:
    return snapshot.keys.describe_object(key)


def _pointer(value: str | None) -> str | None:
    if value is None:
        return None
    if value.startswith("data:"):
        return f"in the node itself, {len(value)} characters"
    return shorten_text(value, _POINTER_CHARACTERS_MAX)
