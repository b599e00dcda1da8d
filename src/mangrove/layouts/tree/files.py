"""Reading the immutable files of the tree layout, each of them once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mangrove.betree.node import Node
from mangrove.errors import FormatError
from mangrove.layouts.tree.definitions import decode_definition
from mangrove.layouts.tree.node_file import decode_node
from mangrove.layouts.tree.pointers import inlined
from mangrove.storage.recent import Recent
from mangrove.model.locators import Kind
from mangrove.model.objects import Object
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.port import Store

__all__ = ["Definition", "TreeFiles"]

_CACHE_BYTES_MAX = 128 * 1024 * 1024
_DECODED_PER_STORED_BYTE = 3
"""What text in Python objects takes more than in an Arrow file, roughly."""


@dataclass(frozen=True, slots=True)
class Definition:
    """An object with what its definition holds that this release does not know."""

    value: Object
    unknown: bytes


class TreeFiles:
    """The node files and definitions of one lakehouse.

    Their paths hold a fresh id, so that what was read once stays true; roots and
    the hint are not read here.
    """

    def __init__(self, store: Store, cache_bytes_max: int = _CACHE_BYTES_MAX) -> None:
        self.store = store
        self._nodes: Recent[Node] = Recent(cache_bytes_max)
        self._definitions: Recent[Definition] = Recent(cache_bytes_max // 4)

    def nodes(self, pointers: Sequence[str], order: int) -> list[Node]:
        """Return the nodes at these paths, reading those that are not held with one request for many."""
        found = {pointer: self._nodes.get(pointer) for pointer in pointers}
        missing = [pointer for pointer, node in found.items() if node is None]
        for pointer, data in zip(missing, self._read(missing), strict=True):
            node = decode_node(data, pointer, order=order).node
            self.hold_node(pointer, node, len(data))
            found[pointer] = node
        return [held for pointer in pointers if (held := found[pointer]) is not None]

    def definitions(self, kind: Kind, pointers: Sequence[str]) -> list[Definition]:
        """Return the definitions that these values of tree keys lead to, all of one kind."""
        found = {pointer: self._definitions.get(pointer) for pointer in pointers}
        missing = {pointer: inlined(pointer, "a node") for pointer, held in found.items() if held is None}
        stored = [pointer for pointer, data in missing.items() if data is None]
        missing |= dict(zip(stored, self._read(stored), strict=True))
        for pointer, data in missing.items():
            assert data is not None
            value, unknown = decode_definition(kind, data, pointer)
            definition = Definition(value, unknown)
            self.hold_definition(pointer, definition, len(data))
            found[pointer] = definition
        return [held for pointer in pointers if (held := found[pointer]) is not None]

    def settings(self, path: str) -> LakehouseSettings:
        """Return the lakehouse's own definition."""
        (definition,) = self.definitions(Kind.LAKEHOUSE, [path])
        assert isinstance(definition.value, LakehouseSettings)
        return definition.value

    def hold_node(self, pointer: str, node: Node, size_bytes: int) -> None:
        """Hold a node that was just read or written."""
        self._nodes.put(pointer, node, size_bytes * _DECODED_PER_STORED_BYTE)

    def hold_definition(self, pointer: str, definition: Definition, size_bytes: int) -> None:
        """Hold a definition that was just read or written."""
        self._definitions.put(pointer, definition, (size_bytes + len(pointer)) * _DECODED_PER_STORED_BYTE)

    def write(self, files: Mapping[str, bytes]) -> None:
        """Write new files, in parallel; nothing points to them yet."""
        if len(files) == 1:
            ((path, data),) = files.items()
            self.store.put(path, data)
        elif files:
            self.store.put_many(files)

    def _read(self, paths: Sequence[str]) -> list[bytes]:
        if not paths:
            return []
        contents = self.store.read_many(paths)
        for path, data in zip(paths, contents, strict=True):
            if data is None:
                raise FormatError(
                    f"{path} is missing in {self.store.uri}, though a version that is kept points to it: "
                    "run `mangrove check` to see what it affects"
                )
        return [data for data in contents if data is not None]
