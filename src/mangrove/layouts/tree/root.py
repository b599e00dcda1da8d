"""The root node of a version and its system rows."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mangrove.betree.node import Message, Node, NodeLimits
from mangrove.errors import FormatError
from mangrove.layouts.tree.keys import KeyNames
from mangrove.layouts.tree.node_file import decode_node, encode_node
from mangrove.layouts.tree.paths import ROOT_DIGITS_KNOWN, RootNames
from mangrove.layouts.tree.revision import (
    CREATED_AT_MILLIS,
    LAKEHOUSE_DEFINITION,
    NEWER,
    OLDER,
    PREVIOUS_ROOT,
    ROLLBACK_FROM_ROOT,
    TreeRevision,
)
from mangrove.metastore import Changes, Commit
from mangrove.model.settings import LakehouseSettings

__all__ = [
    "REWRITTEN_MESSAGES",
    "Root",
    "build_expired_root",
    "build_system_rows",
    "decode_root",
    "encode_root",
    "list_written_since",
    "shape_of",
]

_EXPIRED_AT_MILLIS = "expired_at_millis"
_TRANSACTION = "transaction"
_MESSAGE = "commit_message"
_AUTHOR = "commit_author"
_PROPERTIES = "commit_properties"
_RENAMED = "renamed_namespaces"
_RETIRED_ROOT = "retired_root"
_CLOCK_RESETS = "clock_resets"
REWRITTEN_MESSAGES = "rewritten_messages"
_OF_ONE_VERSION = (
    PREVIOUS_ROOT, ROLLBACK_FROM_ROOT, _TRANSACTION, _MESSAGE, _AUTHOR, _PROPERTIES, REWRITTEN_MESSAGES,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Root:
    """The root node of a version, with its system rows."""

    version: int
    node: Node
    system: Mapping[str, str]
    revision: TreeRevision
    key_names: KeyNames

    @property
    def path(self) -> str:
        """The path of the root."""
        return self.revision.roots.path(self.version)

    @property
    def created_at_millis(self) -> int:
        """The commit time; 0 if a root of the older format revision does not record it."""
        return int(self.system.get(CREATED_AT_MILLIS, "0"))

    @property
    def clock_resets(self) -> tuple[int, ...]:
        """The versions up to this one whose commit time is earlier than that of the previous version, in order."""
        text = self.system.get(_CLOCK_RESETS, "")
        try:
            return tuple(int(version) for version in text.split())
        except ValueError as error:
            raise FormatError(f"{self.path}: {_CLOCK_RESETS} is {text!r}; expected a list of versions") from error

    @property
    def definition_path(self) -> str:
        """The path of the lakehouse definition."""
        return self.system[LAKEHOUSE_DEFINITION]

    @property
    def transaction_id(self) -> str:
        """The transaction that committed the version. Other programs record it only in the last message."""
        last = self.node.buffer[-1].transaction if self.node.buffer else ""
        return self.system.get(_TRANSACTION, last)

    @property
    def written(self) -> list[Message]:
        """The messages of the transaction; the root still has all of them."""
        transaction_id = self.transaction_id
        return [message for message in self.node.buffer if message.transaction == transaction_id]

    @property
    def changed(self) -> list[Message]:
        """The messages of the transaction, without those that a strict tree added to rewrite names and schemas."""
        text = self.system.get(REWRITTEN_MESSAGES, "0")
        if not (text.isascii() and text.isdigit()):
            raise FormatError(f"{self.path}: {REWRITTEN_MESSAGES} is {text[:40]!r}; expected a number")
        written = self.written
        return written[: max(0, len(written) - int(text))]

    @property
    def is_expired(self) -> bool:
        """Whether this is an expired marker: see `build_expired_root`."""
        return _EXPIRED_AT_MILLIS in self.system

    @property
    def retired_path(self) -> str | None:
        """The path of the copy of an expired root, which exists until the grace period ends."""
        return self.system.get(_RETIRED_ROOT)

    @property
    def is_rollback(self) -> bool:
        """Whether this version is a rollback to an earlier one."""
        return ROLLBACK_FROM_ROOT in self.system

    @property
    def commit(self) -> Commit:
        """The history entry of this version."""
        rolled_back = self.system.get(ROLLBACK_FROM_ROOT)
        return Commit(
            version=self.version,
            created_at_millis=self.created_at_millis,
            transaction_id=self.transaction_id,
            message=self.system.get(_MESSAGE, ""),
            author=self.system.get(_AUTHOR, ""),
            properties=_properties(self.system.get(_PROPERTIES, ""), self.path),
            rolled_back_from=None if rolled_back is None else self.revision.roots.version_of(rolled_back),
        )


def list_written_since(base: Root, later: Root) -> list[str] | None:
    """Return the keys that the versions after `base` up to `later` wrote; None if the two roots do not show them.

    Commits append their messages to the buffer of the root, so as long as nothing is flushed, the
    later root has the keys, the children and the messages of the earlier one, and after them the
    messages of each transaction since. A flush changes a child or a key. A rollback, a rewrite of the
    tree and a change of the lakehouse definition have no messages: then there are fewer transactions
    than versions.
    """
    before, after = base.node, later.node
    start = len(before.buffer)
    is_appended = (
        base.revision.name == later.revision.name
        and not later.is_expired
        and (before.keys, before.values, before.children) == (after.keys, after.values, after.children)
        and tuple(before.buffer) == tuple(after.buffer[:start])
    )
    messages = after.buffer[start:] if is_appended else ()
    if len({message.transaction for message in messages}) != later.version - base.version:
        return None
    return [message.key for message in messages]


def decode_root(data: bytes, version: int, path: str, revisions: Iterable[TreeRevision] = (NEWER, OLDER)) -> Root:
    """Return the root node that a file holds."""
    file = decode_node(data, path, revisions)
    if LAKEHOUSE_DEFINITION not in file.system:
        raise FormatError(f"{path} is not a root node: the path of the lakehouse definition is missing")
    revision = file.revision.with_roots(_roots_named_like(file.revision, path))
    return Root(version, file.node, file.system, revision, KeyNames.decode(file.system.get(_RENAMED, ""), path))


def encode_root(root: Root, order: int, compression: str) -> bytes:
    """Return the file of a root node."""
    return encode_node(root.node, root.system, root.revision, order, compression)


def build_expired_root(root: Root, now_millis: int, retired_path: str) -> Root:
    """Return the expired marker that replaces the root of a version.

    If the name became free, a stalled writer could commit there, and a reader could
    take the previous version for the newest. The marker references no node, so that
    other programs fail instead of finding an empty lakehouse. Only vacuum follows it
    to the copy of the former root.
    """
    system = {
        CREATED_AT_MILLIS: str(root.created_at_millis),
        LAKEHOUSE_DEFINITION: "",
        _TRANSACTION: root.transaction_id,
        _EXPIRED_AT_MILLIS: str(now_millis),
        _RETIRED_ROOT: retired_path,
    }
    return Root(root.version, Node(), system, root.revision, KeyNames())


def build_system_rows(
    root: Root | None, changes: Changes, definition_path: str, key_names: KeyNames, created_at_millis: int
) -> dict[str, str]:
    """Return the system rows of the version that follows `root`, or of the first; unknown rows are preserved."""
    system: dict[str, str] = {}
    if root is not None:
        system = {name: value for name, value in root.system.items() if name not in (*_OF_ONE_VERSION, _RENAMED)}
        system[PREVIOUS_ROOT] = root.path
        if changes.resets_clock:
            system[_CLOCK_RESETS] = " ".join(str(version) for version in (*root.clock_resets, root.version + 1))
    system |= {
        CREATED_AT_MILLIS: str(created_at_millis),
        LAKEHOUSE_DEFINITION: definition_path,
        _TRANSACTION: changes.transaction_id,
    }
    optional = {
        _MESSAGE: changes.message,
        _AUTHOR: changes.author,
        _PROPERTIES: _properties_text(changes.properties),
        _RENAMED: key_names.encode(),
    }
    return system | {name: value for name, value in optional.items() if value}


def shape_of(settings: LakehouseSettings, revision: TreeRevision) -> NodeLimits:
    """Return the limits of keys and messages that keep a node file within its size limit.

    With the default settings the root's buffer holds at most as many messages as it has
    keys, and any other buffer eight times as many: see decision 0004.
    """
    row_bytes = settings.row_size_bytes(revision.schema_id_size_bytes)
    room = max(1, (settings.node_file_max_size_bytes - settings.order * row_bytes) // row_bytes)
    return NodeLimits(settings.order, min(settings.order, room), min(8 * settings.order, room))


def _roots_named_like(revision: TreeRevision, path: str) -> RootNames:
    digits = len(path.removeprefix(revision.roots.before).removesuffix(revision.roots.after))
    if digits not in ROOT_DIGITS_KNOWN:
        raise FormatError(
            f"{path} has the columns of the format revision {revision.name}, whose roots have other names"
        )
    return RootNames(digits, revision.roots.before, revision.roots.after)


def _properties_text(properties: Mapping[str, str]) -> str:
    return json.dumps(dict(properties), ensure_ascii=False, sort_keys=True) if properties else ""


def _properties(text: str, path: str) -> dict[str, str]:
    if not text:
        return {}
    try:
        properties = json.loads(text)
    except ValueError as error:
        raise FormatError(f"{path}: the properties of its commit are not JSON ({error})") from error
    if not isinstance(properties, dict):
        raise FormatError(f"{path}: the properties of its commit are not a JSON object")
    return {str(name): str(value) for name, value in properties.items()}
