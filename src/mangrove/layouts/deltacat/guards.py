"""Version guards with their codec and the lookup of the newest one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mangrove.betree.node import Node
from mangrove.errors import FormatError
from mangrove.layouts.deltacat.index import decode_node_map, encode_node_map
from mangrove.layouts.deltacat.msgpack_maps import MsgpackMap, decode_with_checksum, encode_with_checksum
from mangrove.layouts.deltacat.paths import (
    HINT_PATH,
    TAKEOVER_PATH,
    VERSION_FOLDER,
    guard_path,
    is_guard_path,
    version_of_guard,
)
from mangrove.layouts.deltacat.revision import DeltaCatRevision, find_revision
from mangrove.metastore import Commit
from mangrove.model.version_search import find_newest_version
from mangrove.storage.port import ObjectInfo, Store

__all__ = [
    "ForeignTransaction",
    "Guard",
    "WrittenKey",
    "build_empty_guard",
    "decode_guard",
    "encode_guard",
    "encode_hint",
    "find_newest_guard",
    "list_taken_versions",
    "list_versions_since",
    "read_guard",
    "read_guards",
    "read_hint",
    "read_live_guards",
    "read_retired_guards",
    "read_takeover_guard",
]

_MAJOR_VERSION = 1


@dataclass(frozen=True, slots=True)
class WrittenKey:
    """An index key that a transaction wrote, and a readable name of the object."""

    key: str
    description: str


@dataclass(frozen=True, slots=True)
class ForeignTransaction:
    """A transaction committed by another program, with its end time from the log."""

    id: str
    end: int


@dataclass(frozen=True, slots=True)
class Guard:
    """A version: its transaction, the keys it wrote, and the root of its index."""

    revision: DeltaCatRevision
    version: int
    commit: Commit
    transaction: str
    """The id of the transaction in the log and in file names."""
    end: int
    written: Sequence[WrittenKey]
    root: Node
    log: MsgpackMap | None
    """The content of the log file; None if another program wrote it."""
    first: int = 0
    """The first version with its own guard; another program committed the earlier ones."""
    imported_transactions: Sequence[str] = ()
    """Imported transactions of another program that are still in the searched part of the log."""
    is_expired: bool = False
    """Whether the version has expired; its name stays taken, so that a stalled writer cannot take it."""
    retired_path: str | None = None
    """The path of the copy of an expired guard, which exists until the grace period ends."""
    foreign: Sequence[ForeignTransaction] = ()
    """The imported transactions of another program, one per version."""
    clock_resets: Sequence[int] = ()
    """The versions up to this one whose commit time is earlier than that of the previous version, in order."""

    @property
    def path(self) -> str:
        """The path of the guard."""
        return guard_path(self.version)

    @property
    def is_foreign(self) -> bool:
        """Whether another program committed this version, which has no guard of its own."""
        return self.version < self.first

    @property
    def log_path(self) -> str:
        """The path of the transaction's log."""
        return self.revision.log_path(self.transaction, self.end)


def build_empty_guard(revision: DeltaCatRevision) -> Guard:
    """Return the base of the first version."""
    return Guard(revision, -1, Commit(-1, -1, ""), "", -1, (), Node(), None)


def encode_guard(guard: Guard) -> bytes:
    """Return the file of a guard."""
    commit = guard.commit
    fields: dict[str, Any] = {
        "major_version": _MAJOR_VERSION,
        "revision": guard.revision.name,
        "version": guard.version,
        "commit": {
            "created_at_millis": commit.created_at_millis,
            "transaction_id": commit.transaction_id,
            "message": commit.message,
            "author": commit.author,
            "properties": dict(commit.properties),
            "rolled_back_from": commit.rolled_back_from,
        },
        "transaction": guard.transaction,
        "end": guard.end,
        "written": [[written.key, written.description] for written in guard.written],
        "root": encode_node_map(guard.root),
        "log": guard.log,
        "first": guard.first,
        "absorbed": list(guard.imported_transactions),
        "expired": guard.is_expired,
        "retired": guard.retired_path,
        "foreign": [[foreign.id, foreign.end] for foreign in guard.foreign],
    }
    if guard.clock_resets:
        fields["clock_resets"] = list(guard.clock_resets)
    return encode_with_checksum(fields)


def decode_guard(data: bytes, path: str) -> Guard:
    """Return the guard of a file."""
    fields = decode_with_checksum(data, path)
    if fields.get("major_version") != _MAJOR_VERSION:
        raise FormatError(
            f"{path}: unsupported major version {fields.get('major_version')!r}; expected {_MAJOR_VERSION}; "
            "use a newer release of mangrove-lake"
        )
    try:
        line = fields["commit"]
        return Guard(
            revision=find_revision(fields["revision"]),
            version=fields["version"],
            commit=Commit(
                version=fields["version"],
                created_at_millis=line["created_at_millis"],
                transaction_id=line["transaction_id"],
                message=line["message"],
                author=line["author"],
                properties=line["properties"],
                rolled_back_from=line["rolled_back_from"],
            ),
            transaction=fields["transaction"],
            end=fields["end"],
            written=tuple(WrittenKey(*pair) for pair in fields["written"]),
            root=decode_node_map(fields["root"], path),
            log=fields["log"],
            first=fields["first"],
            imported_transactions=tuple(fields["absorbed"]),
            is_expired=fields["expired"],
            retired_path=fields.get("retired"),
            foreign=tuple(ForeignTransaction(*pair) for pair in fields["foreign"]),
            clock_resets=tuple(fields.get("clock_resets", ())),
        )
    except (KeyError, TypeError) as error:
        raise FormatError(f"{path} is damaged: {error} is missing. Run `mangrove check`") from error


_HINT_DIGITS_MAX = 20


def read_guard(store: Store, version: int) -> Guard | None:
    """Return the guard of a version, or None if there is none."""
    return read_guards(store, [version])[0]


def read_live_guards(store: Store, versions: Sequence[int]) -> list[Guard]:
    """Return the guards of the live versions among these."""
    return [guard for guard in read_guards(store, versions) if guard is not None and not guard.is_expired]


def read_guards(store: Store, versions: Sequence[int]) -> list[Guard | None]:
    """Return the guards of several versions, including expired ones; None if there is none."""
    paths = [guard_path(version) for version in versions]
    return [
        None if data is None else decode_guard(data, path)
        for path, data in zip(paths, store.read_many(paths), strict=True)
    ]


def read_retired_guards(store: Store, versions: Sequence[int]) -> Iterator[tuple[str, Guard]]:
    """Yield the path and guard of the copy of each expired version among these, if it still exists."""
    paths = [guard.retired_path for guard in read_guards(store, versions) if guard is not None and guard.retired_path]
    for path, data in zip(paths, store.read_many(paths), strict=True):
        if data is not None:
            yield path, decode_guard(data, path)


def read_takeover_guard(store: Store) -> Guard | None:
    """Return the version that imported the commits of another program, or None."""
    (data,) = store.read_many([TAKEOVER_PATH])
    return None if data is None else decode_guard(data, TAKEOVER_PATH)


def encode_hint(version: int) -> bytes:
    """Return the content of the hint."""
    return str(version).encode()


def read_hint(store: Store) -> int | None:
    """Return the version that the hint names, or None if it is missing or unreadable."""
    (hint,) = store.read_many([HINT_PATH])
    return _decode_hint(hint)


def find_newest_guard(store: Store) -> Guard | None:
    """Return the newest guard, or None if there is none.

    With a missing or wrong hint the search starts at the first version, and at the
    result of a listing if that has expired too.
    """
    known = read_hint(store)
    newest = None if known is None else _newest_after(store, known)
    if newest is not None:
        return newest
    taken_over = read_takeover_guard(store)
    first = 0 if taken_over is None else taken_over.version + 1
    newest = _newest_after(store, first)
    if newest is None and taken_over is None:
        taken = list_taken_versions(store)
        newest = _newest_after(store, taken[-1]) if taken else None
    return newest or taken_over


def list_taken_versions(store: Store) -> list[int]:
    """Return all versions whose names are taken, including expired ones, oldest first; lists the store."""
    return [version_of_guard(entry.path) for entry in _guards(store)]


def list_versions_since(store: Store, millis: int) -> list[int]:
    """Return the versions whose guards were written at or after that time by the store's clock, oldest first."""
    return [version_of_guard(entry.path) for entry in _guards(store) if entry.modified_at_millis >= millis]


def _guards(store: Store) -> Iterator[ObjectInfo]:
    """Yield the guard files; other files are ignored."""
    for entry in store.list(VERSION_FOLDER):
        if isinstance(entry, ObjectInfo) and is_guard_path(entry.path):
            yield entry


def _newest_after(store: Store, known: int) -> Guard | None:
    """Return the newest guard if `known` has a guard; one more request if `known` is the newest."""
    guard = read_guard(store, known)
    if guard is None:
        return None
    newest = find_newest_version(lambda version: store.exists(guard_path(version)), known)
    return guard if newest == known else read_guard(store, newest)


def _decode_hint(data: bytes | None) -> int | None:
    text = b"" if data is None else data.strip()
    return int(text) if text.isdigit() and len(text) <= _HINT_DIGITS_MAX else None
