"""The guard of a version: the file whose exclusive create makes the version real, and that leads to all of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mangrove.betree.node import Node
from mangrove.errors import FormatError
from mangrove.layouts.deltacat.index import node_map, node_of
from mangrove.layouts.deltacat.packed import Packed, seal, unseal
from mangrove.layouts.deltacat.paths import guard_path
from mangrove.layouts.deltacat.revision import Revision, revision_named
from mangrove.metastore import Commit

__all__ = ["ForeignTransaction", "Guard", "Written", "decode_guard", "encode_guard", "nothing_yet"]

_MAJOR_VERSION = 1


@dataclass(frozen=True, slots=True)
class Written:
    """A key of the index that a transaction wrote, and what people call the object."""

    key: str
    said: str


@dataclass(frozen=True, slots=True)
class ForeignTransaction:
    """A transaction that another program committed, with its end as the log has it."""

    id: str
    end: int


@dataclass(frozen=True, slots=True)
class Guard:
    """A version: which transaction made it, what it wrote, and the root of the index as it is then."""

    revision: Revision
    version: int
    commit: Commit
    transaction: str
    """The id under which the log and the names of files know the transaction."""
    end: int
    written: Sequence[Written]
    root: Node
    log: Packed | None
    """What the log file holds; None where another program wrote it."""
    first: int = 0
    """The first version that has a guard of its own; those before it were made by another program."""
    absorbed: Sequence[str] = ()
    """Transactions of another program that became versions, as long as the log is searched where they lie."""
    is_expired: bool = False
    """Whether the version is forgotten; its name stays taken, so that a writer who slept does not take it."""
    retired_path: str | None = None
    """Where a version that is forgotten is kept as it was, until nobody can still be using it."""
    foreign: Sequence[ForeignTransaction] = ()
    """Where another program's versions are taken over: its transactions, one for each of them."""
    clock_resets: Sequence[int] = ()
    """The versions up to this one that are dated earlier than the one before them, in order."""

    @property
    def path(self) -> str:
        """Where the guard lies."""
        return guard_path(self.version)

    @property
    def is_foreign(self) -> bool:
        """Whether another program made this version, and it has no guard of its own."""
        return self.version < self.first

    @property
    def log_path(self) -> str:
        """Where the transaction's log lies."""
        return self.revision.log_path(self.transaction, self.end)


def nothing_yet(revision: Revision) -> Guard:
    """Return what stands before the first version."""
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
        "written": [[written.key, written.said] for written in guard.written],
        "root": node_map(guard.root),
        "log": guard.log,
        "first": guard.first,
        "absorbed": list(guard.absorbed),
        "expired": guard.is_expired,
        "retired": guard.retired_path,
        "foreign": [[foreign.id, foreign.end] for foreign in guard.foreign],
    }
    if guard.clock_resets:
        fields["clock_resets"] = list(guard.clock_resets)
    return seal(fields)


def decode_guard(data: bytes, path: str) -> Guard:
    """Return the guard of a file."""
    fields = unseal(data, path)
    if fields.get("major_version") != _MAJOR_VERSION:
        raise FormatError(
            f"{path} has the major version {fields.get('major_version')!r}, and this release knows {_MAJOR_VERSION}: "
            "use a release of mangrove-lake that knows it"
        )
    try:
        line = fields["commit"]
        return Guard(
            revision=revision_named(fields["revision"]),
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
            written=tuple(Written(*pair) for pair in fields["written"]),
            root=node_of(fields["root"], path),
            log=fields["log"],
            first=fields["first"],
            absorbed=tuple(fields["absorbed"]),
            is_expired=fields["expired"],
            retired_path=fields.get("retired"),
            foreign=tuple(ForeignTransaction(*pair) for pair in fields["foreign"]),
            clock_resets=tuple(fields.get("clock_resets", ())),
        )
    except (KeyError, TypeError) as error:
        raise FormatError(f"{path} is damaged: it lacks {error}. Run `mangrove check`") from error
