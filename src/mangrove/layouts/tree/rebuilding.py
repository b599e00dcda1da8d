"""Writing a whole tree anew: from entries, or from a version in another format revision."""

from collections.abc import Iterable, Iterator

from mangrove.betree.build import build
from mangrove.betree.node import Entry, Node
from mangrove.betree.search import scan
from mangrove.effects import Effects
from mangrove.layouts.tree.files import TreeFiles
from mangrove.layouts.tree.revision import Revision
from mangrove.layouts.tree.root import Root, shape_of
from mangrove.layouts.tree.snapshot import TreeSnapshot
from mangrove.layouts.tree.staging import NodeFiles
from mangrove.model.settings import LakehouseSettings

__all__ = ["built", "entries_in"]

_NODES_AT_ONCE = 128


def built(
    effects: Effects, files: TreeFiles, like: Root, settings: LakehouseSettings, entries: Iterable[Entry]
) -> Node:
    """Return the root of a tree of the entries, whose other nodes are written many at a time."""
    nodes = NodeFiles(like, settings, effects.now_millis(), effects.new_id)

    def write(node: Node) -> str:
        if len(nodes.files) == _NODES_AT_ONCE:
            files.write(nodes.files)
            nodes.files.clear()
            nodes.nodes.clear()
        return nodes.write(node)

    root = build(entries, shape_of(settings), write)
    files.write(nodes.files)
    return root


def entries_in(revision: Revision, base: TreeSnapshot) -> Iterator[Entry]:
    """Yield what the version holds, in the order and with the tree keys of another format revision."""
    old, sizes = base.keys.encoding, base.keys.sizes
    entries = scan(base.root.node, "", None, base.read_nodes)
    ways = ((old.parts_of(key, sizes), value) for key, value in entries)
    return iter(sorted(Entry(revision.keys.key_of(kind, parts, sizes), value) for (kind, parts), value in ways))
