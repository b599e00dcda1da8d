"""Metadata tree page with an SVG drawing."""

from typing import Final

from mangrove.inspect.formatting import compute_share, format_count, format_quantity
from mangrove.inspect.tree import NodeInfo, NodePosition, TreeInfo, TreeLevelInfo
from mangrove.web.html import Element, element
from mangrove.web.links import Links
from mangrove.web.pages.frame import render_frame
from mangrove.web.pages.pieces import code, grid, note, render_definition_list, render_long_code

__all__ = ["render_tree_page"]

_NODE_HEIGHT: Final = 46
_LEVEL_HEIGHT: Final = 92
_LABEL_WIDTH: Final = 118
_TOP: Final = 4
_GAP_SHARE: Final = 0.25
_WIDTHS: Final = ((10, 52), (32, 30), (10**9, 16))
"""How wide a node is drawn where the widest level has at most so many."""


def render_tree_page(facts: TreeInfo, api_address: str) -> Element:
    """Return the page."""
    links = Links(facts.seen.requested)
    shown = _render_levels(facts, links) if facts.is_tree else [note(_no_tree(facts))]
    return render_frame(
        facts.seen,
        "Tree",
        (("Overview", links.overview()), ("Tree", None)),
        "Tree",
        api_address,
        shown,
    )


def _no_tree(facts: TreeInfo) -> str:
    return (
        f"This lakehouse lies in the {facts.seen.layout} layout, which keeps its objects in files of their own "
        "and has no tree to draw."
    )


def _render_levels(facts: TreeInfo, links: Links) -> list[Element | None]:
    return [
        element(
            "p",
            f"{format_quantity(len(facts.levels), 'level')}, a node holds up to {format_count(facts.keys_max)} keys. "
            "The root's "
            f"write buffer holds up to {format_count(facts.root_buffer_max)} messages, any other "
            f"{format_count(facts.buffer_max)}.",
        ),
        element(
            "p",
            element("span", "keys", class_="legend keys"),
            " ",
            element("span", "write buffer", class_="legend buffer"),
            class_="legends",
        ),
        _drawing(facts, links),
        _left_out(facts),
        None if facts.node is None else _node(facts.node),
    ]


def _left_out(facts: TreeInfo) -> Element | None:
    missing = sum(level.left_out for level in facts.levels)
    if not missing:
        return None
    return note(f"{format_quantity(missing, 'more node')} and what lies below them are not drawn.")


def _drawing(facts: TreeInfo, links: Links) -> Element:
    widest = max(len(level.nodes) for level in facts.levels)
    node_width = next(width for most, width in _WIDTHS if widest <= most)
    pitch = node_width * (1 + _GAP_SHARE)
    width = _LABEL_WIDTH + round(widest * pitch) + 8
    height = _LEVEL_HEIGHT * (len(facts.levels) - 1) + _NODE_HEIGHT + 2 * _TOP
    places = {
        node.way: (_x_of(place, len(level.nodes), pitch, width), _TOP + depth * _LEVEL_HEIGHT)
        for depth, level in enumerate(facts.levels)
        for place, node in enumerate(level.nodes)
    }
    edges = (_edge(places[_parent(way)], place) for way, place in places.items() if way)
    opened = "" if facts.node is None else facts.node.way
    nodes = (
        _box(node, places[node.way], node_width, facts, links, is_open=node.way == opened)
        for level in facts.levels
        for node in level.nodes
    )
    labels = (_label(depth, level) for depth, level in enumerate(facts.levels))
    return element(
        "div",
        element(
            "svg",
            labels,
            edges,
            nodes,
            viewBox=f"0 0 {width} {height}",
            width=width,
            height=height,
            role="group",
            aria_label="The nodes of the tree",
        ),
        class_="scroll drawing",
        tabindex=0,
        role="region",
        aria_label="The nodes of the tree",
    )


def _x_of(place: int, count: int, pitch: float, width: int) -> float:
    return round((_LABEL_WIDTH + width) / 2 + (place - (count - 1) / 2) * pitch, 1)


def _parent(way: str) -> str:
    return way.rpartition(".")[0]


def _edge(above: tuple[float, int], below: tuple[float, int]) -> Element:
    (x, y), (to_x, to_y) = above, below
    start = y + _NODE_HEIGHT
    middle = (start + to_y) / 2
    return element("path", d=f"M{x} {start}C{x} {middle} {to_x} {middle} {to_x} {to_y}", class_="edge")


def _label(depth: int, level: TreeLevelInfo) -> list[Element]:
    top = _TOP + depth * _LEVEL_HEIGHT
    texts = [f"Level {depth}", format_quantity(len(level.nodes), "node")]
    if level.left_out:
        texts.append(f"{format_count(level.left_out)} not drawn")
    return [element("text", text, x=0, y=top + 14 + 15 * line, class_="axis") for line, text in enumerate(texts)]


def _box(
    node: NodePosition, place: tuple[float, int], width: int, facts: TreeInfo, links: Links, *, is_open: bool
) -> Element:
    x, y = place
    left, half = x - width / 2, width / 2
    buffer_max = facts.buffer_max if node.way else facts.root_buffer_max
    label = (
        f"{f'Node {node.way}' if node.way else 'Root'}: {node.keys} of {facts.keys_max} keys, "
        f"{node.messages} of {buffer_max} messages"
    )
    return element(
        "a",
        element("title", label),
        element("rect", x=left, y=y, width=width, height=_NODE_HEIGHT, rx=4, class_="node"),
        _fill(left, y, half, compute_share(node.keys, facts.keys_max), "keys"),
        _fill(left + half, y, half, compute_share(node.messages, buffer_max), "buffer"),
        element("rect", x=left, y=y, width=width, height=_NODE_HEIGHT, rx=4, class_="outline"),
        href=links.tree(node.way or None) + "#node",
        class_="open" if is_open else None,
        aria_label=label,
    )


def _fill(left: float, top: float, width: float, part: float, kind: str) -> Element | None:
    if not part:
        return None
    height = max(2.0, round(part * (_NODE_HEIGHT - 4), 1))
    return element(
        "rect", x=left + 2, y=top + _NODE_HEIGHT - 2 - height, width=width - 3, height=height, rx=1, class_=kind
    )


def _node(node: NodeInfo) -> Element:
    keys = ((one.key, render_long_code(one.value or "")) for one in node.keys)
    messages = (
        (
            element(
                "span",
                "delete" if one.value is None else "put",
                class_=f"badge {'removed' if one.value is None else 'added'}",
            ),
            one.key,
            render_long_code(one.value) if one.value is not None else "",
            code(one.transaction or ""),
        )
        for one in node.messages
    )
    return element(
        "section",
        element("h2", f"Node {node.way}" if node.way else "Root"),
        render_definition_list([("File", code(node.path))]),
        element("h3", "Keys"),
        grid("Keys of the node", ("Object", "Points to"), keys) if node.keys else note("It holds no keys."),
        note(f"{format_quantity(node.keys_left_out, 'more key')} not shown.") if node.keys_left_out else None,
        element("h3", "Write buffer, newest first"),
        grid("Messages of the node", ("What", "Object", "Points to", "Transaction"), messages)
        if node.messages
        else note("It is empty."),
        note(f"{format_quantity(node.messages_left_out, 'more message')} not shown.")
        if node.messages_left_out
        else None,
        id="node",
    )
