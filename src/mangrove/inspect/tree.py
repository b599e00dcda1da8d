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
"""How many nodes are listed in all."""
_LEVEL_NODES_MAX: Final = 128
_ROWS_MAX: Final = 200
_POINTER_CHARACTERS_MAX: Final = 90


@dataclass(frozen=True, slots=True)
class NodePosition:
    """A node of a level; `way` is its path of child indexes, as in `0.3`, and empty for the root."""

    way: str
    keys: int
    messages: int
    children: int


@dataclass(frozen=True, slots=True)
class TreeLevelInfo:
    """The listed nodes of a level, from left to right."""

    nodes: tuple[NodePosition, ...]
    left_out: int
    """How many children of the level above are left out, without their descendants."""


@dataclass(frozen=True, slots=True)
class NodeRowInfo:
    """A key of a node, or a message of its write buffer."""

    key: str
    value: str | None
    """The pointer; None for a delete message."""
    transaction: str | None = None


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """The content of one node."""

    way: str
    path: str
    keys: tuple[NodeRowInfo, ...]
    keys_left_out: int
    messages: tuple[NodeRowInfo, ...]
    """Newest first."""
    messages_left_out: int


@dataclass(frozen=True, slots=True)
class TreeInfo:
    """The metadata tree of a version; other layouts than the tree layout have no levels."""

    seen: PageVersion
    is_tree: bool
    keys_max: int
    root_buffer_max: int
    buffer_max: int
    levels: tuple[TreeLevelInfo, ...]
    node: NodeInfo | None


def load_tree_info(pinned: PinnedLakehouse, requested: PageRequest) -> TreeInfo:
    """Return the tree of the pinned version with the content of the query's `node`."""
    snapshot = pinned.snapshot
    if not isinstance(snapshot, TreeSnapshot):
        return TreeInfo(pinned.seen, False, 0, 0, 0, (), None)  # noqa: FBT003
    shape = shape_of(snapshot.settings, snapshot.root.revision)
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
    """Yield the levels from the root down, up to the bound on nodes."""
    level: list[tuple[str, Node]] = [("", snapshot.root.node)]
    left_out = 0
    room = _NODES_MAX
    for _ in range(DEPTH_MAX):
        room -= len(level)
        yield TreeLevelInfo(tuple(_build_position(path, node) for path, node in level), left_out)
        children = [
            (f"{path}.{number}" if path else str(number), child)
            for path, node in level
            for number, child in enumerate(node.children)
        ]
        listed = children[: min(room, _LEVEL_NODES_MAX)]
        left_out = len(children) - len(listed)
        if not children:
            return
        if not listed:
            yield TreeLevelInfo((), left_out)
            return
        level = list(zip((path for path, _ in listed), _read(snapshot, [child for _, child in listed]), strict=True))
    raise FormatError(f"the tree is more than {DEPTH_MAX} nodes deep; run `mangrove check`")


def _build_position(path: str, node: Node) -> NodePosition:
    return NodePosition(path, len(node.keys), len(node.buffer), len(node.children))


def _read(snapshot: TreeSnapshot, children: list[str | Node]) -> list[Node]:
    stored = iter(snapshot.read_nodes([child for child in children if isinstance(child, str)]))
    return [next(stored) if isinstance(child, str) else child for child in children]


def _node(snapshot: TreeSnapshot, node_path: str) -> NodeInfo:
    """Return the node at a path of child indexes; only pointers of this tree are followed."""
    node, path = snapshot.root.node, snapshot.root.path
    for step in node_path.split(".")[:DEPTH_MAX] if node_path else ():
        if not (step.isascii() and step.isdecimal()) or len(step) > 9:
            raise InvalidInputError(f"invalid node {node_path!r}; expected child indexes separated by dots, as in 0.3")
        if int(step) >= len(node.children):
            raise NotFoundError(f"node {node_path!r} does not exist in the tree of this version; start from the root")
        child = node.children[int(step)]
        path = child if isinstance(child, str) else "not stored"
        node = _read(snapshot, [child])[0]
    keys = islice(zip(node.keys, node.values, strict=True), _ROWS_MAX)
    messages = islice(reversed(node.buffer), _ROWS_MAX)
    return NodeInfo(
        node_path,
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
