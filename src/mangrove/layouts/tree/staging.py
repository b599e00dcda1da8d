"""Conversion of changes into definitions, new nodes and the next root."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from mangrove.betree.build import build_tree, write_new_nodes
from mangrove.betree.edit import apply_messages
from mangrove.betree.node import Entry, Message, Node
from mangrove.betree.search import scan
from mangrove.effects import Effects
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.layouts.tree.conflict_detection import LocatorKeyCodec
from mangrove.layouts.tree.definition_files import append_checksum, encode_inline_pointer, own_name_of
from mangrove.layouts.tree.definitions import encode_definition
from mangrove.layouts.tree.files import TreeFiles
from mangrove.layouts.tree.keys import KeyNames
from mangrove.layouts.tree.node_file import encode_node
from mangrove.layouts.tree.paths import definition_path, lakehouse_definition_path
from mangrove.layouts.tree.revision import CREATED_AT_MILLIS, TreeRevision
from mangrove.layouts.tree.root import Root, build_system_rows, shape_of
from mangrove.layouts.tree.snapshot import TreeSnapshot
from mangrove.metastore import Changes
from mangrove.model.locators import Kind, Locator, NamespaceLocator
from mangrove.model.objects import Delta, Namespace, Object
from mangrove.model.settings import LakehouseSettings

__all__ = [
    "StagedTreeWrite",
    "TreeNodeWriter",
    "build_first_entries",
    "build_next_root",
    "compression_of",
    "rebuild_tree",
    "scan_entries",
    "stage_changes",
]

_COMPRESSION = "tree.node-compression"
"""How new node files are compressed: `none` (unless set), `lz4` or `zstd`. A property of the lakehouse."""
_INLINE_BYTES_MAX = "tree.inline-definition-max-bytes"
"""Up to which length a definition is stored in the tree itself; unless set, 600 or what a node has room for. 0: never.

A property of the lakehouse; set it to 0 where other programs read the lakehouse too.
"""
_INLINE_BYTES_USUAL: Final = 600
"""Room for a delta of one file with bounds of about ten columns."""
_BESIDE_KEY_AND_VALUE_BYTES: Final = 52
"""What a row takes beside its key and its value: the id of a transaction, and where each column begins."""


def compression_of(settings: LakehouseSettings) -> str:
    """Return how the lakehouse's node files are compressed."""
    return settings.properties.get(_COMPRESSION, "none")


@dataclass(frozen=True, slots=True)
class StagedTreeWrite:
    """Changes whose definitions have a place, and the files that have yet to be written there."""

    changes: Changes
    pointers: Mapping[Locator, str]
    settings_path: str | None
    files: Mapping[str, bytes]


def stage_changes(base: TreeSnapshot, changes: Changes, new_id: Callable[[], str]) -> StagedTreeWrite:
    """Return the changes with each definition encoded and given a place.

    What an earlier reader found in a definition and did not know is written again.
    """
    settings = base.settings
    inline_max = _inline_bytes_max(settings)
    pointers: dict[Locator, str] = {}
    files: dict[str, bytes] = {}
    for locator, value in changes.puts.items():
        _check_names(locator, value, settings)
        # A delta's tree key says its position, and a rebase may change it.
        placeless = replace(value, position=None) if isinstance(value, Delta) else value
        data = encode_definition(placeless, base.carried(locator))
        pointer = encode_inline_pointer(data)
        if len(pointer) > inline_max:
            names = locator.parts[::-1] if locator.kind in _NAMED else ()
            pointer = definition_path(
                locator.kind, [str(name) for name in names], new_id(), settings.file_path_max_size_bytes
            )
            files[pointer] = append_checksum(data, locator.kind)
        pointers[locator] = pointer
    settings_path = None
    if changes.settings is not None:
        settings_path = lakehouse_definition_path(new_id())
        files[settings_path] = append_checksum(
            encode_definition(changes.settings, base.carried_settings), Kind.LAKEHOUSE
        )
    return StagedTreeWrite(changes, pointers, settings_path, files)


_NAMED = frozenset({Kind.NAMESPACE, Kind.TABLE, Kind.VIEW, Kind.SHARED_TRANSACTION})


def _inline_bytes_max(settings: LakehouseSettings) -> int:
    """Return how long a pointer that holds its definition may be, so that a full node of them keeps to its size."""
    text = settings.properties.get(_INLINE_BYTES_MAX, "")
    if text.isdecimal():
        return int(text)
    shape = shape_of(settings)
    path_bytes = settings.file_path_max_size_bytes
    names_bytes = settings.row_size_bytes - path_bytes
    without_children = settings.node_file_max_size_bytes - shape.keys_max * path_bytes
    room = without_children // (shape.keys_max + shape.buffer_max) - names_bytes - _BESIDE_KEY_AND_VALUE_BYTES
    return max(path_bytes, min(_INLINE_BYTES_USUAL, room))


def _check_names(locator: Locator, value: Object, settings: LakehouseSettings) -> None:
    name = own_name_of(value)
    if name is not None and name != locator.parts[-1]:
        raise InvalidInputError(f"{name!r} is the name or id of what is put at {locator}: both must say the same")
    if locator.kind in _NAMED:
        settings.check_object_name(locator.kind, str(locator.parts[-1]))


def build_first_entries(base: TreeSnapshot, staged: StagedTreeWrite) -> list[Entry]:
    """Return the tree keys with their pointers, in order, of a first version that is not empty."""
    return sorted(Entry(base.keys.key_of(locator), pointer) for locator, pointer in staged.pointers.items())


class TreeNodeWriter:
    """The files of the new nodes of one commit, as they are named."""

    def __init__(self, like: Root, settings: LakehouseSettings, now_millis: int, new_id: Callable[[], str]) -> None:
        self._revision = like.revision
        self._order = settings.order
        self._compression = compression_of(settings)
        self._system = {CREATED_AT_MILLIS: str(now_millis)}
        self._new_id = new_id
        self.files: dict[str, bytes] = {}
        self.nodes: dict[str, Node] = {}

    def write(self, node: Node) -> str:
        """Take the node's file, and return its path."""
        path = self._revision.node_path(self._new_id())
        self.files[path] = encode_node(node, self._system, self._revision, self._order, self._compression)
        self.nodes[path] = node
        return path


def build_next_root(base: TreeSnapshot, staged: StagedTreeWrite, nodes: TreeNodeWriter, created_at_millis: int) -> Root:
    """Return the root that follows `base`; the nodes below it that are new are in `nodes`."""
    names, keys = _names_after(base, staged.changes)
    transaction = staged.changes.transaction_id
    messages = [
        *(Message(base.keys.key_of(locator), None, transaction) for locator in sorted(staged.changes.deletes)),
        *(Message(keys.key_of(locator), staged.pointers[locator], transaction) for locator in staged.changes.puts),
    ]
    for message in messages:
        if message.key.startswith("\0"):
            raise NotFoundError(f"there is no namespace for the {message.key[1:]}: create it first")
    node = write_new_nodes(
        apply_messages(base.root.node, messages, shape_of(base.settings), base.read_nodes), nodes.write
    )
    settings_path = staged.settings_path or base.root.definition_path
    system = build_system_rows(base.root, staged.changes, settings_path, names, created_at_millis)
    return Root(base.version + 1, node, system, base.root.revision, names)


def _names_after(base: TreeSnapshot, changes: Changes) -> tuple[KeyNames, LocatorKeyCodec]:
    """Return the key names after the changes, and how the changes' own locators become tree keys.

    A locator of the changes may still name a namespace as it was called before it
    was renamed in the same transaction.
    """
    now = {
        locator.name: value.id
        for locator, value in changes.puts.items()
        if isinstance(locator, NamespaceLocator) and isinstance(value, Namespace)
    }
    touched = [*now, *(locator.name for locator in changes.deletes if isinstance(locator, NamespaceLocator))]
    if not touched:
        return base.root.key_names, base.keys
    there = base.get_many([NamespaceLocator(name) for name in touched])
    before = {name: value.id for name, value in zip(touched, there, strict=True) if isinstance(value, Namespace)}
    names = base.root.key_names.after(before, now, base.settings.namespace_name_max_size_bytes)
    former = {name: base.root.key_names.key_name_of(name) or name for name in before if name not in now}
    # Also those that go by their key name again, under which a former name may be filed here.
    again = {name: names.key_name_of(name) or name for name in now}
    return names, replace(base.keys, names=KeyNames(former | again | dict(names.renamed)))


_NODES_PER_WRITE = 128


def rebuild_tree(
    effects: Effects, files: TreeFiles, like: Root, settings: LakehouseSettings, entries: Iterable[Entry]
) -> Node:
    """Return the root of a tree of the entries, whose other nodes are written many at a time."""
    nodes = TreeNodeWriter(like, settings, effects.now_millis(), effects.new_id)

    def write(node: Node) -> str:
        if len(nodes.files) == _NODES_PER_WRITE:
            files.write(nodes.files)
            nodes.files.clear()
            nodes.nodes.clear()
        return nodes.write(node)

    root = build_tree(entries, shape_of(settings), write)
    files.write(nodes.files)
    return root


def scan_entries(revision: TreeRevision, base: TreeSnapshot) -> Iterator[Entry]:
    """Yield what the version holds, in the order and with the tree keys of another format revision."""
    old, sizes = base.keys.encoding, base.keys.sizes
    entries = scan(base.root.node, "", None, base.read_nodes)
    ways = ((old.parts_of(key, sizes), value) for key, value in entries)
    return iter(sorted(Entry(revision.keys.key_of(kind, parts, sizes), value) for (kind, parts), value in ways))
