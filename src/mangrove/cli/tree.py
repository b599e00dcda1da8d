"""The tree command, which draws the metadata tree and its fill levels."""

import click
from rich.console import RenderableType
from rich.text import Text
from rich.tree import Tree

from mangrove.cli.command import at_option, lake_command
from mangrove.cli.context import CommandContext
from mangrove.errors import InvalidInputError
from mangrove.inspect.summary import summary_to_json
from mangrove.inspect.tree_shape import DrawableTree, NodeShape, format_tree_key, measure_tree
from mangrove.lakehouse.time_travel import load_snapshot_at
from mangrove.layouts.deltacat.index import INDEX_SHAPE
from mangrove.layouts.deltacat.snapshot import DeltaCatSnapshot
from mangrove.layouts.tree.root import shape_of
from mangrove.layouts.tree.snapshot import TreeSnapshot
from mangrove.metastore import MetastoreSnapshot

__all__ = ["render_fill_bar", "render_tree", "tree_command"]

_BAR_CELLS = 10


def render_fill_bar(count: int, count_max: int) -> str:
    """Return a fill level as a bar; any count above zero fills at least one cell.

    >>> render_fill_bar(5, 10), render_fill_bar(1, 1000), render_fill_bar(0, 10)
    ('█████░░░░░', '█░░░░░░░░░', '░░░░░░░░░░')
    """
    cells = min(_BAR_CELLS, -(-count * _BAR_CELLS // count_max)) if count_max else 0
    return "█" * cells + "░" * (_BAR_CELLS - cells)


def render_tree(root: NodeShape, version: int) -> RenderableType:
    """Return a drawing of the tree."""
    drawing = Tree(_node_text(root, f"root of version {version}"), guide_style="dim")
    _add_children(drawing, root)
    return drawing


def _add_children(drawing: Tree, node: NodeShape) -> None:
    for child in node.below:
        _add_children(drawing.add(_node_text(child, child.path)), child)
    omitted = node.children - len(node.below)
    if omitted:
        drawing.add(Text(f"… {omitted:,} more", style="dim"))


def _node_text(node: NodeShape, title: str) -> Text:
    text = Text(title, style="cyan")
    keys = f"\n{render_fill_bar(node.keys, node.keys_max)} {node.keys:,} of {node.keys_max:,} keys"
    text.append(keys, style="default")
    buffer = (
        f"\n{render_fill_bar(node.messages, node.messages_max)} {node.messages:,} of {node.messages_max:,} messages"
    )
    text.append(buffer, style="yellow" if node.messages else "dim")
    if node.first:
        text.append(f"\n{node.first} … {node.last}", style="dim")
    return text


@lake_command("tree", "mangrove tree ./lake\nmangrove tree ./lake --at 41 --depth 1")
@at_option
@click.option(
    "--depth", type=click.IntRange(0, 10), default=2, show_default=True, help="Number of levels below the root."
)
@click.option(
    "--width",
    type=click.IntRange(1, 1000),
    default=8,
    show_default=True,
    help="Maximum number of children drawn per node.",
)
def tree_command(session: CommandContext, lake: str, at: str | None, depth: int, width: int) -> None:
    """Draw the catalog's B-epsilon tree with the fill levels of nodes and write buffers."""
    opened = session.open_metastore(lake)
    snapshot = opened.metastore.latest() if at is None else load_snapshot_at(opened.metastore, at)
    tree = _tree_of(snapshot) or _index_of(snapshot)
    if tree is None:
        raise InvalidInputError(f"the {opened.layout} layout has no tree to draw")
    root = measure_tree(tree, depth=depth, width=width)
    session.answer(
        {"version": snapshot.version, "root": summary_to_json(root)}, lambda: render_tree(root, snapshot.version)
    )


def _tree_of(snapshot: MetastoreSnapshot) -> DrawableTree | None:
    if not isinstance(snapshot, TreeSnapshot):
        return None
    root, keys = snapshot.root, snapshot.keys
    return DrawableTree(
        root.path,
        root.node,
        shape_of(snapshot.settings, root.revision),
        snapshot.read_nodes,
        lambda key: format_tree_key(key, keys.encoding, keys.sizes),
    )


def _index_of(snapshot: MetastoreSnapshot) -> DrawableTree | None:
    if not isinstance(snapshot, DeltaCatSnapshot):
        return None
    guard, files = snapshot.guard, snapshot.files
    return DrawableTree(guard.path, guard.root, INDEX_SHAPE, files.nodes, lambda key: key.replace("\t", " "))
