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
from mangrove.layouts.tree.definition_files import append_checksum, encode_inline_pointer, own_name_of
from mangrove.layouts.tree.definitions import encode_definition
from mangrove.layouts.tree.files import TreeFiles
from mangrove.layouts.tree.keys import KeyNames, LocatorKeyCodec
from mangrove.layouts.tree.node_file import encode_node
from mangrove.layouts.tree.paths import definition_path, lakehouse_definition_path
from mangrove.layouts.tree.revision import CREATED_AT_MILLIS, TreeRevision
from mangrove.layouts.tree.rewrites import Rewrites, copies_schema, find_written_namespaces
from mangrove.layouts.tree.root import REWRITTEN_MESSAGES, Root, build_system_rows, shape_of
from mangrove.layouts.tree.snapshot import TreeSnapshot
from mangrove.metastore import Changes
from mangrove.model.locators import Kind, Locator
from mangrove.model.objects import Delta, Object, TableVersion
from mangrove.model.schema_text import format_type
from mangrove.model.settings import STRICT_TREE, LakehouseSettings
from mangrove.model.types import TimestampNs, TimestampTzNs

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
"""The lakehouse property for the compression of new node files: `lz4` (default), `zstd` or `none`.

The default of a strict tree is `none`.
"""
_INLINE_BYTES_MAX = "tree.inline-definition-max-bytes"
"""The lakehouse property for the maximum size of inline definitions. Default: 600 or what fits a node; 0: never inline.

A strict tree has no inline definitions.
"""
_INLINE_BYTES_USUAL: Final = 600
"""Enough for a delta of one file with bounds of about ten columns."""
_BESIDE_KEY_AND_VALUE_BYTES: Final = 52
"""The size of a row without its key and value: a transaction id and the column offsets."""


def compression_of(settings: LakehouseSettings) -> str:
    """Return the compression of the lakehouse's node files."""
    return settings.properties.get(_COMPRESSION) or ("none" if settings.is_strict_tree else "lz4")


@dataclass(frozen=True, slots=True)
class StagedTreeWrite:
    """Changes with the paths and content of the files to write."""

    changes: Changes
    pointers: Mapping[Locator, str]
    settings_path: str | None
    files: Mapping[str, bytes]


def stage_changes(base: TreeSnapshot, changes: Changes, new_id: Callable[[], str]) -> StagedTreeWrite:
    """Return the changes with each definition encoded and a pointer assigned.

    Unknown fields that were read with a definition are written back.
    """
    settings = base.settings
    strict = settings.is_strict_tree
    inline_max, rows_max = (0, 0) if strict else _inline_bytes_max(settings, base.root.revision)
    pointers: dict[Locator, str] = {}
    files: dict[str, bytes] = {}
    for locator, value in changes.puts.items():
        _check_names(locator, value, settings)
        if strict:
            _check_types(value)
        if strict and copies_schema(value):
            continue  # `build_rewrites` writes it, because its definition depends on the version before it
        listed = value.manifest.entries if isinstance(value, Delta) else ()
        for file in listed:
            settings.check_data_path(file.location)
        data = encode_definition(_without_position(value), base.carried(locator))
        pointer = encode_inline_pointer(data)
        has_rows = any(file.is_inline for file in listed)
        if len(pointer) > (rows_max if has_rows else inline_max):
            names = locator.parts[::-1] if locator.kind in _NAMED else ()
            pointer = definition_path(
                locator.kind, [str(name) for name in names], new_id(), settings.file_path_max_size_bytes
            )
            files[pointer] = append_checksum(data, locator.kind)
        pointers[locator] = pointer
    settings_path = None
    if changes.settings is not None:
        if changes.settings.is_strict_tree != strict:
            raise InvalidInputError(
                f"the property {STRICT_TREE} is fixed at creation; nothing was changed; convert the lakehouse instead"
            )
        settings_path = lakehouse_definition_path(new_id())
        files[settings_path] = append_checksum(
            encode_definition(changes.settings, base.carried_settings), Kind.LAKEHOUSE
        )
    return StagedTreeWrite(changes, pointers, settings_path, files)


def _without_position(value: Object) -> Object:
    """Return a delta without its position, which is in its tree key only, because a rebase may change it."""
    return replace(value, position=None) if isinstance(value, Delta) and value.position is not None else value


_NAMED = frozenset({Kind.NAMESPACE, Kind.TABLE, Kind.VIEW, Kind.SHARED_TRANSACTION, Kind.ALIAS})


def _inline_bytes_max(settings: LakehouseSettings, revision: TreeRevision) -> tuple[int, int]:
    """Return the maximum size of an inline pointer, and of one to a delta with inline rows.

    With the first any full node stays within its size limit, with the second a full root. Inline rows are
    moved into data files before there are enough of them to fill another node.
    """
    text = settings.properties.get(_INLINE_BYTES_MAX, "")
    if text.isdecimal():
        return int(text), int(text)
    shape = shape_of(settings, revision)
    path_bytes = settings.file_path_max_size_bytes
    names_bytes = settings.row_size_bytes(revision.schema_id_size_bytes) - path_bytes
    without_children = settings.node_file_max_size_bytes - shape.keys_max * path_bytes
    in_node, in_root = (
        without_children // (shape.keys_max + messages) - names_bytes - _BESIDE_KEY_AND_VALUE_BYTES
        for messages in (shape.buffer_max, shape.root_buffer_max)
    )
    return max(path_bytes, min(_INLINE_BYTES_USUAL, in_node)), max(path_bytes, in_root)


def _check_names(locator: Locator, value: Object, settings: LakehouseSettings) -> None:
    name = own_name_of(value)
    if name is not None and name != locator.parts[-1]:
        raise InvalidInputError(f"the object at {locator} has the name or id {name!r}; both must be the same")
    if locator.kind in _NAMED:
        settings.check_object_name(locator.kind, str(locator.parts[-1]))


def _check_types(value: Object) -> None:
    """Raise an error for types that readers of a strict tree do not know."""
    schemas = value.schemas if isinstance(value, TableVersion) else (getattr(value, "schema", None),)
    for path, column in (pair for schema in schemas if schema is not None for pair in schema.all_columns()):
        if isinstance(column.type, TimestampNs | TimestampTzNs):
            raise InvalidInputError(
                f"column {'.'.join(path)!r} is {format_type(column.type)}, which the tree format does not have; use "
                "timestamp or timestamp_ntz, or a lakehouse that is not a strict tree"
            )


def build_first_entries(base: TreeSnapshot, pointers: Mapping[Locator, str]) -> list[Entry]:
    """Return the sorted tree keys and pointers of a non-empty first version."""
    return sorted(Entry(base.keys.key_of(locator), pointer) for locator, pointer in pointers.items())


class TreeNodeWriter:
    """Collects the files of the new nodes of one commit."""

    def __init__(self, like: Root, settings: LakehouseSettings, now_millis: int, new_id: Callable[[], str]) -> None:
        self._revision = like.revision
        self._order = settings.order
        self._compression = compression_of(settings)
        self._system = {CREATED_AT_MILLIS: str(now_millis)}
        self._new_id = new_id
        self.files: dict[str, bytes] = {}
        self.nodes: dict[str, Node] = {}

    def write(self, node: Node) -> str:
        """Encode the node, assign its path, and return the path."""
        path = self._revision.node_path(self._new_id())
        self.files[path] = encode_node(node, self._system, self._revision, self._order, self._compression)
        self.nodes[path] = node
        return path


def build_next_root(
    base: TreeSnapshot, staged: StagedTreeWrite, rewrites: Rewrites, nodes: TreeNodeWriter, created_at_millis: int
) -> Root:
    """Return the root that follows `base`; new nodes below it are added to `nodes`."""
    names, keys = (KeyNames(), base.keys) if base.settings.is_strict_tree else _names_after(base, staged.changes)
    pointers = {**staged.pointers, **rewrites.pointers}
    changed: dict[str, str | None] = {base.keys.key_of(locator): None for locator in sorted(staged.changes.deletes)}
    changed |= dict.fromkeys(sorted(rewrites.replaced))
    changed |= {keys.key_of(rewrites.locate(locator)): pointers[locator] for locator in staged.changes.puts}
    messages = [
        Message(key, value, staged.changes.transaction_id)
        for part in (changed, rewrites.entries)
        for key, value in part.items()
    ]
    for message in messages:
        if message.key.startswith("\0"):
            raise NotFoundError(f"the namespace of the {message.key[1:]} does not exist; create it first")
    node = write_new_nodes(
        apply_messages(base.root.node, messages, shape_of(base.settings, base.root.revision), base.read_nodes),
        nodes.write,
    )
    settings_path = staged.settings_path or base.root.definition_path
    system = build_system_rows(base.root, staged.changes, settings_path, names, created_at_millis)
    if rewrites.entries:
        system[REWRITTEN_MESSAGES] = str(len(rewrites.entries))
    return Root(base.version + 1, node, system, base.root.revision, names)


def _names_after(base: TreeSnapshot, changes: Changes) -> tuple[KeyNames, LocatorKeyCodec]:
    """Return the key names after the changes, and the codec for the locators of the changes.

    A locator of the changes may use the former name of a namespace that the same
    transaction renames.
    """
    namespaces = find_written_namespaces(base, changes)
    before, now = namespaces.before, namespaces.after
    if not (before or now):
        return base.root.key_names, base.keys
    names = base.root.key_names.after(before, now, base.settings.namespace_name_max_size_bytes)
    former = {name: base.root.key_names.key_name_of(name) or name for name in before if name not in now}
    # Also namespaces renamed back to their key name, which may be a former name here.
    again = {name: names.key_name_of(name) or name for name in now}
    return names, replace(base.keys, names=KeyNames(former | again | dict(names.renamed)))


_NODES_PER_WRITE = 128


def rebuild_tree(
    effects: Effects, files: TreeFiles, like: Root, settings: LakehouseSettings, entries: Iterable[Entry]
) -> Node:
    """Return the root of a tree of the entries; the other nodes are written in batches."""
    nodes = TreeNodeWriter(like, settings, effects.now_millis(), effects.new_id)

    def write(node: Node) -> str:
        if len(nodes.files) == _NODES_PER_WRITE:
            files.write(nodes.files)
            nodes.files.clear()
            nodes.nodes.clear()
        return nodes.write(node)

    root = build_tree(entries, shape_of(settings, like.revision), write)
    files.write(nodes.files)
    return root


def scan_entries(revision: TreeRevision, base: TreeSnapshot) -> Iterator[Entry]:
    """Yield the entries of the version, in the order and with the tree keys of another format revision."""
    old, sizes = base.keys.encoding, base.keys.sizes
    entries = scan(base.root.node, "", None, base.read_nodes)
    decoded = ((old.parts_of(key, sizes), value) for key, value in entries)
    return iter(sorted(Entry(revision.keys.key_of(kind, parts, sizes), value) for (kind, parts), value in decoded))
