"""The codec of tree node files."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mangrove.betree.node import Node
from mangrove.errors import FormatError
from mangrove.layouts.tree.node_rows import (
    BYTES_MAX,
    EXPANDED_BYTES_MAX,
    N_KEYS,
    NodeRows,
    decode_columns,
    encode_columns,
)
from mangrove.layouts.tree.revision import CREATED_AT_MILLIS, NEWER, OLDER, TreeRevision, detect_revision

__all__ = ["NodeFile", "decode_node", "encode_node"]


@dataclass(frozen=True, slots=True)
class NodeFile:
    """The content of a node file: system rows by their names in the newer format revision, and the node."""

    system: Mapping[str, str]
    node: Node
    revision: TreeRevision

    @property
    def created_at_millis(self) -> int | None:
        """When the node was written, or None if it is not recorded."""
        text = self.system.get(CREATED_AT_MILLIS)
        return None if text is None else int(text)


def encode_node(
    node: Node, system: Mapping[str, str], revision: TreeRevision, order: int, compression: str = "none"
) -> bytes:
    """Return the file of a node in a tree of that order.

    `system` has the creation time, and for a root the path of the lakehouse
    definition; the number of keys is added here.
    """
    revision.check_writable()
    assert revision.write_rows is not None
    if len(node.keys) > order - 1:
        raise ValueError(f"{len(node.keys)} keys in a node of order {order}")
    noted = {CREATED_AT_MILLIS: system[CREATED_AT_MILLIS], N_KEYS: str(len(node.keys))}
    noted |= {name: value for name, value in system.items() if name not in noted}
    in_file = {revision.system_names.get(name, name): value for name, value in noted.items()}
    rows = revision.write_rows(node, in_file if revision.has_system_rows(system) else {}, order)
    return encode_columns(revision.columns.named(rows.keys, rows.values, rows.children, rows.transactions), compression)


def decode_node(
    data: bytes,
    path: str,
    revisions: Iterable[TreeRevision] = (NEWER, OLDER),
    *,
    order: int | None = None,
    bytes_max: int = BYTES_MAX,
    expanded_bytes_max: int = EXPANDED_BYTES_MAX,
) -> NodeFile:
    """Return the content of the node file at `path`, in any format revision.

    Every violation is a `FormatError` that names the file.
    """
    known = tuple(revisions)
    names = {name for revision in known for name in revision.columns.names}
    columns = decode_columns(data, path, tuple(names), bytes_max=bytes_max, expanded_bytes_max=expanded_bytes_max)
    revision = detect_revision(columns, known)
    if revision is None:
        raise FormatError(f"{path!r} is not a node file: it has the columns {sorted(columns)}. Run `mangrove check`")
    nothing: list[str | None] = [None] * len(columns[revision.columns.key])
    rows = NodeRows(
        keys=columns[revision.columns.key],
        values=columns[revision.columns.value],
        children=columns.get(revision.columns.child or "", nothing),
        transactions=columns.get(revision.columns.transaction or "", nothing),
        path=path,
    )
    system, node = revision.read_rows(rows, order)
    usual = {in_file: name for name, in_file in revision.system_names.items()}
    noted = {usual.get(name, name): value for name, value in system.items()}
    created = noted.get(CREATED_AT_MILLIS, "0")
    if not (created.isascii() and created.isdigit() and len(created) < 20):
        raise rows.broken(f"{CREATED_AT_MILLIS} is {created[:40]!r}, which is not a number")
    return NodeFile(noted, node, revision)
