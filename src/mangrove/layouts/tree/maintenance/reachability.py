"""The nodes and definitions that tree versions reference."""

import re
from collections.abc import Iterable, Iterator

from mangrove.betree.node import Node
from mangrove.layouts.tree.paths import DEFINITION_PREFIXES, hashed_path
from mangrove.layouts.tree.snapshot import TreeSnapshot

__all__ = ["is_layout_file", "list_reachable_files"]

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_LAKEHOUSE_DEFINITION = re.compile(f"_lakehouse_def_{_UUID}\\.binpb")
_OPTIMISED = re.compile(
    f"(?:[01]{{4}}/){{3}}[01]{{8}}-(node-{_UUID}\\.ipc|[A-Za-z0-9_-]{{22}}\\.ipc"
    f"|(?:{'|'.join(DEFINITION_PREFIXES)})-(?:.+-)?{_UUID}\\.binpb)"
)
_NODES_PER_READ = 64


def list_reachable_files(snapshots: Iterable[TreeSnapshot]) -> Iterator[str]:
    """Yield the paths of the roots, nodes and definitions that these versions reference, each once.

    A subtree shared by versions is walked once. A definition counts as referenced if
    any reachable node names it, even if a message in a node above deletes it.
    """
    met: set[str] = set()

    def fresh(paths: Iterable[str]) -> Iterator[str]:
        for path in paths:
            if path not in met:
                met.add(path)
                yield path

    for snapshot in snapshots:
        yield from fresh((snapshot.root.path, snapshot.root.definition_path))
        yield from fresh(_definitions_in(snapshot.root.node))
        waiting = list(fresh(_children_of(snapshot.root.node)))
        while waiting:
            batch = waiting[-_NODES_PER_READ:]
            del waiting[-_NODES_PER_READ:]
            yield from batch
            for node in snapshot.read_nodes(batch):
                yield from fresh(_definitions_in(node))
                waiting.extend(fresh(_children_of(node)))


def is_layout_file(path: str) -> bool:
    """Return whether `path` is the path of a node or definition of this layout.

    Roots are removed by expiry and the hint is overwritten, so neither is garbage. A
    hashed path starts with bits of its own hash, which no foreign file does.

    >>> is_layout_file("1011/0000/1010/01001110-node-6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8.ipc")
    True
    >>> is_layout_file("1111/0000/1010/01001110-node-6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8.ipc")
    False
    """
    if _LAKEHOUSE_DEFINITION.fullmatch(path) is not None:
        return True
    match = _OPTIMISED.fullmatch(path)
    return match is not None and hashed_path(match[1]) == path


def _children_of(node: Node) -> Iterator[str]:
    return (child for child in node.children if isinstance(child, str))


def _definitions_in(node: Node) -> Iterator[str]:
    newest = node.newest
    rows = (value for key, value in zip(node.keys, node.values, strict=True) if key not in newest)
    return (
        value
        for values in (rows, newest.values())
        for value in values
        if value is not None and not value.startswith("data:")
    )
