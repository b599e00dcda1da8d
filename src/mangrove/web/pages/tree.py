"""Metadata tree page and the geometry of its SVG drawing."""

from dataclasses import dataclass
from typing import Final

from mangrove.inspect.formatting import compute_share, format_count
from mangrove.inspect.tree import NodePosition, TreeInfo, TreeLevelInfo
from mangrove.maintenance.progress import format_quantity
from mangrove.web.links import Links
from mangrove.web.rendering import render_page

__all__ = ["render_tree_page"]

_NODE_HEIGHT: Final = 46
_LEVEL_HEIGHT: Final = 92
_LABEL_WIDTH: Final = 118
_TOP: Final = 4
_GAP_SHARE: Final = 0.25
_WIDTHS: Final = ((10, 52), (32, 30), (10**9, 16))
"""The largest number of nodes in a level, and the width of a node up to there."""


@dataclass(frozen=True, slots=True)
class _Bar:
    """The filled part of a node's keys or write buffer."""

    left: float
    top: float
    width: float
    height: float
    kind: str


@dataclass(frozen=True, slots=True)
class _Node:
    """The box of a node."""

    label: str
    url: str
    is_open: bool
    left: float
    top: int
    bars: list[_Bar]


@dataclass(frozen=True, slots=True)
class _Drawing:
    """The coordinates and labels of a tree."""

    width: int
    height: int
    node_width: int
    labels: list[tuple[str, int]]
    """Texts beside the levels, each with its y."""
    edges: list[str]
    """SVG paths."""
    nodes: list[_Node]
    node_height: int = _NODE_HEIGHT


def render_tree_page(info: TreeInfo, api_address: str) -> bytes:
    """Return the HTML of the tree page."""
    drawing = _build_drawing(info, Links(info.seen.requested)) if info.is_tree else None
    return render_page("tree.html", info, api_address, drawing=drawing)


def _build_drawing(info: TreeInfo, links: Links) -> _Drawing:
    widest = max(len(level.nodes) for level in info.levels)
    node_width = next(width for nodes_max, width in _WIDTHS if widest <= nodes_max)
    pitch = node_width * (1 + _GAP_SHARE)
    width = _LABEL_WIDTH + round(widest * pitch) + 8
    places = {
        node.way: (_x_of(index, len(level.nodes), pitch, width), _TOP + depth * _LEVEL_HEIGHT)
        for depth, level in enumerate(info.levels)
        for index, node in enumerate(level.nodes)
    }
    open_node = "" if info.node is None else info.node.way
    return _Drawing(
        width,
        _LEVEL_HEIGHT * (len(info.levels) - 1) + _NODE_HEIGHT + 2 * _TOP,
        node_width,
        labels=[label for depth, level in enumerate(info.levels) for label in _build_labels(depth, level)],
        edges=[_build_edge_path(places[_parent_of(node)], place) for node, place in places.items() if node],
        nodes=[
            _build_node(node, places[node.way], node_width, info, links, is_open=node.way == open_node)
            for level in info.levels
            for node in level.nodes
        ],
    )


def _x_of(index: int, count: int, pitch: float, width: int) -> float:
    return round((_LABEL_WIDTH + width) / 2 + (index - (count - 1) / 2) * pitch, 1)


def _parent_of(node: str) -> str:
    return node.rpartition(".")[0]


def _build_edge_path(above: tuple[float, int], below: tuple[float, int]) -> str:
    (x, y), (to_x, to_y) = above, below
    start = y + _NODE_HEIGHT
    middle = (start + to_y) / 2
    return f"M{x} {start}C{x} {middle} {to_x} {middle} {to_x} {to_y}"


def _build_labels(depth: int, level: TreeLevelInfo) -> list[tuple[str, int]]:
    texts = [f"Level {depth}", format_quantity(len(level.nodes), "node")]
    if level.left_out:
        texts.append(f"{format_count(level.left_out)} not drawn")
    top = _TOP + depth * _LEVEL_HEIGHT
    return [(text, top + 14 + 15 * line) for line, text in enumerate(texts)]


def _build_node(
    node: NodePosition, place: tuple[float, int], width: int, info: TreeInfo, links: Links, *, is_open: bool
) -> _Node:
    x, top = place
    left, half = x - width / 2, width / 2
    buffer_max = info.buffer_max if node.way else info.root_buffer_max
    label = (
        f"{f'Node {node.way}' if node.way else 'Root'}: {node.keys} of {info.keys_max} keys, "
        f"{node.messages} of {buffer_max} messages"
    )
    bars = (
        _build_bar(left, top, half, compute_share(node.keys, info.keys_max), "keys"),
        _build_bar(left + half, top, half, compute_share(node.messages, buffer_max), "buffer"),
    )
    url = links.tree(node.way or None) + "#node"
    return _Node(label, url, is_open, left, top, [bar for bar in bars if bar is not None])


def _build_bar(left: float, top: int, width: float, share: float, kind: str) -> _Bar | None:
    if not share:
        return None
    height = max(2.0, round(share * (_NODE_HEIGHT - 4), 1))
    return _Bar(left + 2, top + _NODE_HEIGHT - 2 - height, width - 3, height, kind)
