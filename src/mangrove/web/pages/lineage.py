"""Lineage page and the geometry of its SVG drawing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mangrove.inspect.formatting import shorten_text
from mangrove.inspect.lineage import LineageInfo
from mangrove.model.locators import Kind
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
    """Return the HTML of the lineage page."""
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
            f"{node.kind or 'table'} {node.name}",
            links.source(node.name, node.kind),
            node.kind == Kind.VIEW.word,
        )
    levels = {node.name: node.level for node in info.nodes}
    edges: list[str] = []
    lanes: dict[tuple[str, int], int] = {}
    for node in info.nodes:
        for name in node.reads:
            for level in range(levels[name] + 1, node.level):
                # An edge passes the columns between in a row of its own, below their boxes.
                if (name, level) not in lanes:
                    lanes[name, level] = heights[level]
                    heights[level] += 1
            stops = [
                (level * _COLUMN_WIDTH + 2, lanes[name, level] * _ROW_HEIGHT + 2)
                for level in range(levels[name] + 1, node.level)
            ]
            edges.append(_build_edge_path(boxes[name], stops, boxes[node.name]))
    return _Drawing(
        max(heights) * _COLUMN_WIDTH + _BOX_WIDTH + 4,
        max(heights.values()) * _ROW_HEIGHT,
        list(boxes.values()),
        edges,
    )


def _build_edge_path(source: _Box, stops: Sequence[tuple[int, int]], target: _Box) -> str:
    """Return a curve from the right side of a box to the left side of another, through the empty places between."""
    x, y = source.left + _BOX_WIDTH, source.top + _BOX_HEIGHT // 2
    path = f"M{x} {y}"
    for left, top in (*stops, (target.left, target.top)):
        middle, to_y = (x + left) // 2, top + _BOX_HEIGHT // 2
        path += f"C{middle} {y} {middle} {to_y} {left} {to_y}"
        x, y = left + _BOX_WIDTH, to_y
        path += f"H{x}"
    return path.rpartition("H")[0]
