"""How the tree looks on a terminal."""

from rich.console import RenderableType
from rich.text import Text
from rich.tree import Tree

from mangrove.cli.tree_facts import NodeFacts

__all__ = ["fill_bar", "tree_view"]

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
