"""Lineage page and the geometry of its SVG drawing."""

from dataclasses import dataclass
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.inspect.formatting import shorten_text
from mangrove.inspect.lineage import LineageInfo, LineageNode
from mangrove.model.locators import parse_table_name, parse_view_name
from mangrove.web.links import Links
from mangrove.web.rendering import render_page

__all__ = ["render_lineage_page"]

_BOX_WIDTH: Final = 220
_BOX_HEIGHT: Final = 32
_COLUMN_WIDTH: Final = 300
_ROW_HEIGHT: Final = 44
_CHARACTERS_MAX: Final = 26


@dataclass(frozen=True, slots=True)
class _Box:
    """The box of a table or view."""

    left: int
    top: int
    text: str
    label: str
    url: str | None
    is_view: bool


@dataclass(frozen=True, slots=True)
class _Drawing:
    """The coordinates of a lineage graph: what is read is left of what reads it."""

    width: int
    height: int
    boxes: list[_Box]
    edges: list[str]
    """SVG paths."""
    box_width: int = _BOX_WIDTH
    box_height: int = _BOX_HEIGHT


def render_lineage_page(info: LineageInfo, api_address: str) -> bytes:
    """Return the page."""
    drawing = _build_drawing(info, Links(info.seen.requested)) if info.nodes else None
    return render_page("lineage.html", info, api_address, drawing=drawing)


def _build_drawing(info: LineageInfo, links: Links) -> _Drawing:
    boxes: dict[str, _Box] = {}
    heights: dict[int, int] = {}
    for node in info.nodes:
        row = heights.get(node.level, 0)
        heights[node.level] = row + 1
        boxes[node.name] = _Box(
            node.level * _COLUMN_WIDTH + 2,
            row * _ROW_HEIGHT + 2,
            shorten_text(node.name, _CHARACTERS_MAX),
            f"{'view' if node.is_view else 'table'} {node.name}",
            _node_url(node, links),
            node.is_view,
        )
    return _Drawing(
        max(heights) * _COLUMN_WIDTH + _BOX_WIDTH + 4,
        max(heights.values()) * _ROW_HEIGHT,
        list(boxes.values()),
        [_build_edge_path(boxes[name], boxes[node.name]) for node in info.nodes for name in node.reads],
    )


def _node_url(node: LineageNode, links: Links) -> str | None:
    try:
        return links.view(parse_view_name(node.name)) if node.is_view else links.table(parse_table_name(node.name))
    except InvalidInputError:
        # A view may read a table of another catalog, whose name has other parts.
        return None


def _build_edge_path(source: _Box, target: _Box) -> str:
    x, y = source.left + _BOX_WIDTH, source.top + _BOX_HEIGHT // 2
    to_x, to_y = target.left, target.top + _BOX_HEIGHT // 2
    middle = (x + to_x) // 2
    return f"M{x} {y}C{middle} {y} {middle} {to_y} {to_x} {to_y}"
