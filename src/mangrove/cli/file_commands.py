"""The commands that look below the surface: inspect, tree."""

import os

import click

from mangrove.cli.command import lake_command
from mangrove.cli.facts import as_json
from mangrove.cli.file_views import inspected_view, tree_view
from mangrove.cli.inspection import inspected, key_text
from mangrove.cli.places import folder_and_name, resolved
from mangrove.cli.session import Session
from mangrove.cli.tree_facts import NodeFacts, tree_facts
from mangrove.errors import InvalidInputError
from mangrove.layouts.deltacat.index import SHAPE
from mangrove.layouts.deltacat.snapshot import CatalogSnapshot
from mangrove.layouts.tree.root import shape_of
from mangrove.layouts.tree.snapshot import TreeSnapshot
from mangrove.metastore import Snapshot

__all__ = ["inspect_command", "tree_command"]


@lake_command(
    "inspect",
    "mangrove inspect ./lake/_00000000000000000000000000000000.ipc\n"
    "mangrove inspect s3://bucket/lake/_latest_hint.txt --json",
    takes_lake=False,
)
@click.argument("file")
def inspect_command(session: Session, file: str) -> None:
    """Print any file of either layout as text: nodes, definitions, guards, logs, hints."""
    folder, name = folder_and_name(resolved(file, os.getcwd()))
    store = session.store(folder)
    found = inspected(f"{folder}/{name}", store.read(name))
    session.answer(as_json(found), lambda: inspected_view(found))


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
    facts = _facts_of(snapshot, depth, width)
    session.answer({"version": snapshot.version, "root": as_json(facts)}, lambda: tree_view(facts, snapshot.version))


def _facts_of(snapshot: Snapshot, depth: int, width: int) -> NodeFacts:
    if isinstance(snapshot, TreeSnapshot):
        root, keys = snapshot.root, snapshot.keys
        return tree_facts(
            root.path,
            root.node,
            shape_of(snapshot.settings),
            snapshot.read_nodes,
            lambda key: key_text(key, keys.encoding, keys.sizes),
            depth=depth,
            width=width,
        )
    if isinstance(snapshot, CatalogSnapshot):
        guard, files = snapshot.guard, snapshot.files
        return tree_facts(
            guard.path,
            guard.root,
            SHAPE,
            files.nodes,
            lambda key: key.replace("\t", " "),
            depth=depth,
            width=width,
        )
    raise InvalidInputError("this lakehouse's layout keeps no tree that could be drawn")
