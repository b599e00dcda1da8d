"""The command that draws the tree which holds the catalog."""

import click

from mangrove.cli.command import lake_command
from mangrove.cli.facts import as_json
from mangrove.cli.key_text import key_text
from mangrove.cli.session import Session
from mangrove.cli.tree_facts import Drawable, tree_facts
from mangrove.cli.tree_view import tree_view
from mangrove.errors import InvalidInputError
from mangrove.metastore import Snapshot

__all__ = ["tree_command"]

# Each layout is imported only where a lakehouse may be in it.
# ruff: noqa: PLC0415


@lake_command("tree", "mangrove tree ./lake\nmangrove tree ./lake --at 41 --depth 1")
@click.option("--at", metavar="WHEN", help="As of a version, a time or the name of an export.")
@click.option(
    "--depth", type=click.IntRange(0, 10), default=2, show_default=True, help="How many levels below the root."
)
@click.option(
    "--width", type=click.IntRange(1, 1000), default=8, show_default=True, help="How many children of a node."
)
def tree_command(session: Session, lake: str, at: str | None, depth: int, width: int) -> None:
    """Draw the tree that holds the catalog: how full its nodes and write buffers are."""
    opened = session.open(lake)
    snapshot = opened.reading() if at is None else opened.snapshot_at(at)
    found = _tree_of(snapshot) or _index_of(snapshot)
    if found is None:
        raise InvalidInputError(f"the {opened.layout} layout keeps no tree that could be drawn")
    facts = tree_facts(found, depth=depth, width=width)
    session.answer({"version": snapshot.version, "root": as_json(facts)}, lambda: tree_view(facts, snapshot.version))


def _tree_of(snapshot: Snapshot) -> Drawable | None:
    from mangrove.layouts.tree.root import shape_of
    from mangrove.layouts.tree.snapshot import TreeSnapshot

    if not isinstance(snapshot, TreeSnapshot):
        return None
    root, keys = snapshot.root, snapshot.keys
    return Drawable(
        root.path,
        root.node,
        shape_of(snapshot.settings),
        snapshot.read_nodes,
        lambda key: key_text(key, keys.encoding, keys.sizes),
    )


def _index_of(snapshot: Snapshot) -> Drawable | None:
    from mangrove.layouts.deltacat.index import SHAPE
    from mangrove.layouts.deltacat.snapshot import CatalogSnapshot

    if not isinstance(snapshot, CatalogSnapshot):
        return None
    guard, files = snapshot.guard, snapshot.files
    return Drawable(guard.path, guard.root, SHAPE, files.nodes, lambda key: key.replace("\t", " "))
