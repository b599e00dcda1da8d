"""How files and the tree look on a terminal."""

import json

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from mangrove.cli.catalog_views import facts_table, list_table
from mangrove.cli.inspection import Inspected
from mangrove.cli.tree_facts import NodeFacts
from mangrove.maintenance.progress import said_bytes

__all__ = ["fill_bar", "inspected_view", "tree_view"]

_BAR_CELLS = 10


def fill_bar(count: int, count_max: int) -> str:
    """Return how full something is, as a bar; what is not empty shows.

    >>> fill_bar(5, 10), fill_bar(1, 1000), fill_bar(0, 10)
    ('█████░░░░░', '█░░░░░░░░░', '░░░░░░░░░░')
    """
    cells = min(_BAR_CELLS, -(-count * _BAR_CELLS // count_max)) if count_max else 0
    return "█" * cells + "░" * (_BAR_CELLS - cells)


def tree_view(root: NodeFacts, version: int) -> RenderableType:
    """Return the tree as a drawing."""
    drawing = Tree(_node_text(root, f"root of version {version}"), guide_style="dim")
    _grow(drawing, root)
    return drawing


def inspected_view(found: Inspected) -> RenderableType:
    """Return what a file holds."""
    parts: list[RenderableType] = [Text(found.what, style="bold"), Text(said_bytes(found.size_bytes), style="dim")]
    if isinstance(found.fields, dict) and all(isinstance(value, str) for value in found.fields.values()):
        parts.append(facts_table([(name, str(value)) for name, value in found.fields.items()]))
    elif found.fields is not None:
        parts.append(Text(json.dumps(found.fields, ensure_ascii=False, indent=2)))
    if found.rows:
        has_children = any(row.child is not None for row in found.rows)
        table = list_table("key", "value", *(["child right of it"] if has_children else []))
        for row in found.rows:
            child = [row.child or ""] if has_children else []
            table.add_row(Text(row.key or "(leftmost)", style="cyan"), row.value or "", *child)
        parts += [Text("\nkey table", style="bold"), table]
    if found.buffer:
        messages = list_table("key", "value", "transaction")
        for message in found.buffer:
            value = Text("(delete)", style="red") if message.value is None else Text(message.value)
            messages.add_row(Text(message.key, style="cyan"), value, message.transaction)
        parts += [Text("\nwrite buffer, oldest first", style="bold"), messages]
    return Group(*parts)


def _grow(drawing: Tree, node: NodeFacts) -> None:
    for child in node.below:
        _grow(drawing.add(_node_text(child, child.path)), child)
    left = node.children - len(node.below)
    if left:
        drawing.add(Text(f"… {left:,} more", style="dim"))


def _node_text(node: NodeFacts, title: str) -> Text:
    text = Text(title, style="cyan")
    keys = f"\n{fill_bar(node.keys, node.keys_max)} {node.keys:,} of {node.keys_max:,} keys"
    text.append(keys, style="default")
    buffer = f"\n{fill_bar(node.messages, node.messages_max)} {node.messages:,} of {node.messages_max:,} messages"
    text.append(buffer, style="yellow" if node.messages else "dim")
    if node.first:
        text.append(f"\n{node.first} … {node.last}", style="dim")
    return text
