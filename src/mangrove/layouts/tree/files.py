"""A cached reader of node files and definitions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from mangrove.betree.node import Node
from mangrove.errors import FormatError, InvalidInputError
from mangrove.layouts.tree.definition_files import (
    DecodedObject,
    DecodedSettings,
    DefinitionCodec,
    decode_inline_pointer,
    verify_and_strip_checksum,
)
from mangrove.layouts.tree.definitions import MANGROVE_DEFINITIONS
from mangrove.layouts.tree.node_file import decode_node
from mangrove.layouts.tree.revision import TreeRevision
from mangrove.model.locators import Kind, Locator, TableLocator
from mangrove.model.objects import TableEntry
from mangrove.model.paths import check_path
from mangrove.storage.lru import LruCache
from mangrove.storage.port import Store

__all__ = ["TreeFiles"]

_CACHE_BYTES_MAX = 128 * 1024 * 1024
_DECODED_PER_STORED_BYTE = 3
"""The approximate size ratio of text in Python objects to text in an Arrow file."""
_LOCATOR_BYTES = 400
"""The approximate size of a table id with a locator."""


class _Definition(NamedTuple):
    """The bytes of a definition, and the object decoded from them for `locator`."""

    data: bytes
    locator: Locator
    read: DecodedObject


class TreeFiles:
    """The node files and definitions of one lakehouse.

    Their paths contain a fresh id, so their content never changes and can be cached.
    Roots and the hint are not read here.
    """

    def __init__(self, store: Store, cache_bytes_max: int = _CACHE_BYTES_MAX) -> None:
        self.store = store
        self._nodes: LruCache[Node] = LruCache(cache_bytes_max)
        self._definitions: LruCache[_Definition] = LruCache(cache_bytes_max // 4)
        self._settings: LruCache[DecodedSettings] = LruCache(cache_bytes_max // 64)
        self._table_locators: LruCache[TableLocator] = LruCache(cache_bytes_max // 64)

    def nodes(self, pointers: Sequence[str], order: int, revisions: Iterable[TreeRevision]) -> list[Node]:
        """Return the nodes at these paths; those not cached are read in one batch."""
        if len(pointers) == 1 and (only := self._nodes.get(pointers[0])) is not None:
            return [only]
        found = {pointer: self._nodes.get(pointer) for pointer in pointers}
        missing = [pointer for pointer, node in found.items() if node is None]
        found |= self.add_nodes(dict(zip(missing, self._read(missing), strict=True)), order, revisions)
        return [cached for pointer in pointers if (cached := found[pointer]) is not None]

    def add_nodes(self, files: Mapping[str, bytes], order: int, revisions: Iterable[TreeRevision]) -> dict[str, Node]:
        """Cache the nodes of these files, and return them."""
        nodes = {path: decode_node(data, path, revisions, order=order).node for path, data in files.items()}
        for path, node in nodes.items():
            self.cache_node(path, node, len(files[path]))
        return nodes

    def objects(self, codec: DefinitionCodec, requested: Sequence[tuple[Locator, str]]) -> list[DecodedObject]:
        """Return the objects at the locators, given with the values of their tree keys.

        Definitions that are not cached are read in one batch.
        """
        if len(requested) == 1:
            ((locator, pointer),) = requested
            known = self._definitions.get(pointer)
            if known is not None and known.locator == locator:
                return [known.read]
        cached = {pointer: self._definitions.get(pointer) for _, pointer in requested}
        contents = {
            pointer: decode_inline_pointer(pointer, "a node")
            for pointer, definition in cached.items()
            if definition is None
        }
        stored = [pointer for pointer, data in contents.items() if data is None]
        contents |= dict(zip(stored, self._read(stored), strict=True))
        if codec == MANGROVE_DEFINITIONS:
            for pointer in stored:
                if not contents[pointer]:
                    raise _truncated_file_error(pointer)
        # Two tree keys can share a definition, and the decoded object may depend on the key.
        found = [
            definition.read if (definition := cached[pointer]) is not None and definition.locator == locator else None
            for locator, pointer in requested
        ]
        missing = [one for one, read in zip(requested, found, strict=True) if read is None]
        contents |= {pointer: one.data for pointer, one in cached.items() if one is not None}
        decoded = iter(self._decode(codec, missing, contents))
        return [next(decoded) if read is None else read for read in found]

    def definition(self, kind: Kind, path: str) -> bytes:
        """Return the bytes of a definition of that kind."""
        cached = self._definitions.get(path)
        return verify_and_strip_checksum(self._read([path])[0] if cached is None else cached.data, kind, path)

    def settings(self, codec: DefinitionCodec, path: str) -> DecodedSettings:
        """Return the lakehouse definition."""
        settings = self._settings.get(path)
        if settings is None:
            (data,) = self._read([path])
            if not data:
                raise _truncated_file_error(path)
            settings = codec.settings_of(verify_and_strip_checksum(data, Kind.LAKEHOUSE, path), path)
            self._settings.put(path, settings, len(data) * _DECODED_PER_STORED_BYTE)
        return settings

    def last_table_locator(self, table_id: str) -> TableLocator | None:
        """Return the locator at which this process last read the table; it may have another name now."""
        return self._table_locators.get(table_id)

    def cached_node(self, pointer: str) -> Node | None:
        """Return a cached node, or None; reads nothing from storage."""
        return self._nodes.get(pointer)

    def cache_node(self, pointer: str, node: Node, size_bytes: int) -> None:
        """Cache a node that was just read or written."""
        self._nodes.put(pointer, node, size_bytes * _DECODED_PER_STORED_BYTE)

    def write(self, files: Mapping[str, bytes]) -> None:
        """Write new files in parallel; no version references them yet."""
        if len(files) == 1:
            ((path, data),) = files.items()
            self.store.put(path, data)
        elif files:
            self.store.put_many(files)

    def _decode(
        self, codec: DefinitionCodec, requested: Sequence[tuple[Locator, str]], contents: Mapping[str, bytes | None]
    ) -> list[DecodedObject]:
        """Return the objects with these definitions, and cache them."""
        definitions = [(locator, contents[pointer] or b"", pointer) for locator, pointer in requested]
        found = codec.read_all(
            [
                (locator, verify_and_strip_checksum(data, locator.kind, path), path)
                for locator, data, path in definitions
            ]
        )
        for (locator, _, _), read in zip(definitions, found, strict=True):
            if isinstance(locator, TableLocator) and isinstance(read.value, TableEntry):
                self._table_locators.put(read.value.id, locator, _LOCATOR_BYTES)
        self._definitions.put_all(
            (pointer, _Definition(data, locator, read), (2 * len(data) + len(pointer)) * _DECODED_PER_STORED_BYTE)
            for (locator, data, pointer), read in zip(definitions, found, strict=True)
        )
        return found

    def _read(self, paths: Sequence[str]) -> list[bytes]:
        if not paths:
            return []
        for path in paths:
            try:
                check_path(path)
            except InvalidInputError as error:
                raise FormatError(f"a node or root contains an invalid path: {error}; run `mangrove check`") from error
        contents = self.store.read_many(paths)
        for path, data in zip(paths, contents, strict=True):
            if data is None:
                raise FormatError(
                    f"{path} is missing in {self.store.uri}, but a live version references it; "
                    "run `mangrove check` to see what it affects"
                )
        return [data for data in contents if data is not None]


def _truncated_file_error(path: str) -> FormatError:
    return FormatError(f"{path} is empty; restore it from an export; run `mangrove check`")
