"""A cached reader of revision files and index nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mangrove.betree.node import Node
from mangrove.errors import FormatError
from mangrove.layouts.deltacat.index import RevisionEntry, decode_node
from mangrove.layouts.deltacat.msgpack_maps import compute_checksum
from mangrove.layouts.deltacat.object_codec import ObjectBody, decode_body
from mangrove.layouts.deltacat.revision import DeltaCatRevision
from mangrove.model.locators import Kind
from mangrove.storage.lru import LruCache
from mangrove.storage.port import Store

__all__ = ["DeltaCatFiles", "RevisionRef"]

_CACHE_BYTES_MAX = 128 * 1024 * 1024
_DECODED_PER_STORED_BYTE = 3
"""The approximate size ratio of text in Python objects to text in a MessagePack file."""


@dataclass(frozen=True, slots=True)
class RevisionRef:
    """A reference to a revision of an object."""

    kind: Kind
    folder: str
    stored: RevisionEntry


class DeltaCatFiles:
    """The revision files and index nodes of one catalog.

    Their paths contain a transaction id or an id of their own, so their content never
    changes and can be cached. Guards, the log and the hint are not read here.
    """

    def __init__(self, store: Store, revision: DeltaCatRevision, cache_bytes_max: int = _CACHE_BYTES_MAX) -> None:
        self.store = store
        self.revision = revision
        self.logged = ""
        """The newest log file that is known to exist, to save a request."""
        self._nodes: LruCache[Node] = LruCache(cache_bytes_max)
        self._bodies: LruCache[ObjectBody] = LruCache(cache_bytes_max // 2)

    def nodes(self, pointers: Sequence[str]) -> list[Node]:
        """Return the nodes at these paths; those not cached are read in one batch."""
        found = {pointer: self._nodes.get(pointer) for pointer in pointers}
        missing = [pointer for pointer, node in found.items() if node is None]
        for pointer, data in zip(missing, self._read(missing), strict=True):
            node = decode_node(data, pointer)
            self.cache_node(pointer, node, len(data))
            found[pointer] = node
        return [cached for pointer in pointers if (cached := found[pointer]) is not None]

    def cache_node(self, pointer: str, node: Node, size_bytes: int) -> None:
        """Cache a node that was just read or written."""
        self._nodes.put(pointer, node, size_bytes * _DECODED_PER_STORED_BYTE)

    def cache_body(self, path: str, body: ObjectBody, size_bytes: int) -> None:
        """Cache a body that was just read or written."""
        self._bodies.put(path, body, size_bytes * _DECODED_PER_STORED_BYTE)

    def bodies(self, requested: Sequence[RevisionRef]) -> list[ObjectBody]:
        """Return the bodies of these revisions; those not cached are read in one batch."""
        paths = [self.path_of(one) for one in requested]
        found = {path: self._bodies.get(path) for path in paths}
        by_path = dict(zip(paths, requested, strict=True))
        missing = [path for path, body in found.items() if body is None]
        for path, data in zip(missing, self._read(missing), strict=True):
            one = by_path[path]
            if one.stored.checksum and one.stored.checksum != compute_checksum(data):
                raise FormatError(f"{path} is damaged: it does not match its checksum. Run `mangrove check`")
            body = decode_body(one.kind, data, one.folder, path)
            self.cache_body(path, body, len(data))
            found[path] = body
        return [cached for path in paths if (cached := found[path]) is not None]

    def path_of(self, requested: RevisionRef) -> str:
        """Return the path of a revision file."""
        file = requested.stored.file(requested.folder)
        return self.revision.numbered_path(file.folder, file.number, file.file_name)

    def write(self, files: Mapping[str, bytes]) -> None:
        """Write new files in parallel; no version references them yet."""
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
                    f"{path} is missing in {self.store.uri}, but a live version references it; "
                    "run `mangrove check` to see what it affects"
                )
        return [data for data in contents if data is not None]
