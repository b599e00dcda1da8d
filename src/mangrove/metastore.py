"""The metastore port, a versioned map from locators to objects with atomic commits.

Both layouts implement `Metastore`, and everything above works on either. Nothing
but these values crosses the port.
"""

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from mangrove.errors import ConflictError, FormatError, InvalidInputError
from mangrove.model.clock import clock_tolerance_millis
from mangrove.model.locators import (
    Kind,
    Locator,
    NamespaceLocator,
    PartitionLocator,
    StreamLocator,
    TableIdentity,
    TableVersionLocator,
)
from mangrove.model.names import check_text
from mangrove.model.objects import Object, kind_of
from mangrove.model.properties import NO_PROPERTIES
from mangrove.model.settings import LakehouseSettings
from mangrove.model.times import format_iso_time
from mangrove.model.transaction_record import TransactionRecord, decode_members

__all__ = [
    "BelowTable",
    "Changes",
    "Commit",
    "CommitResult",
    "Difference",
    "Isolation",
    "Metastore",
    "MetastoreMaintenance",
    "OpenFailure",
    "Parent",
    "Problem",
    "RetiredVersion",
    "Scan",
    "Snapshot",
    "check_clock",
    "check_deadline",
    "commit_time_after",
]

BelowTable: TypeAlias = TableVersionLocator | StreamLocator | PartitionLocator
"""What lies below a table and has something below itself."""
Parent: TypeAlias = NamespaceLocator | TableIdentity | BelowTable | None
"""What objects lie below; None is the lakehouse itself."""


class Isolation(enum.Enum):
    """How much of what a transaction saw must still hold when it commits."""

    SNAPSHOT = "snapshot"
    """Nobody else wrote what it writes."""
    SERIALIZABLE = "serializable"
    """And nobody else wrote what it read, or anything into a range that it listed."""


@dataclass(frozen=True, slots=True)
class Scan:
    """All objects of one kind below a parent, or those whose name starts with `prefix`."""

    kind: Kind
    parent: Parent
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Changes:
    """What a transaction wants: its writes, and what must not have changed meanwhile.

    `reads` and `scans` matter to a serializable transaction. `guards` matter at
    both levels of isolation: the parent of what is created, and a scan of what
    lies below whatever is dropped.

    Where a namespace is renamed too, what lies in it is put under its new name, and
    deleted, read and guarded under the one that the base has.

    New deltas commute: two transactions that add to one partition never contest
    it, the later one takes the positions after the earlier one's.
    """

    transaction_id: str
    puts: Mapping[Locator, Object] = field(default_factory=dict)
    deletes: frozenset[Locator] = frozenset()
    reads: frozenset[Locator] = frozenset()
    scans: frozenset[Scan] = frozenset()
    guards: frozenset[Locator | Scan] = frozenset()
    settings: LakehouseSettings | None = None
    """The lakehouse's own new definition, where it changes; writing it contests every other change of it."""
    message: str = ""
    author: str = ""
    properties: Mapping[str, str] = NO_PROPERTIES
    commit_before_millis: int | None = None
    """When it is too late to commit: what it stands on may be deleted some time after that. None is never."""
    resets_clock: bool = False
    """Whether the version is dated by this clock even if the newest one is dated later: see decision 0040."""

    def __post_init__(self) -> None:
        if not self.transaction_id:
            raise InvalidInputError("a transaction needs an id")
        check_text(self.message, "the message of a transaction")
        check_text(self.author, "the author of a transaction")
        both = self.deletes & self.puts.keys()
        if both:
            raise InvalidInputError(f"{min(both)} is both written and deleted in one transaction")
        for locator, value in self.puts.items():
            if kind_of(value) is not locator.kind:
                raise InvalidInputError(f"{locator} locates a {locator.kind.word}, not a {kind_of(value).word}")

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        return not (self.puts or self.deletes or self.settings)

    def targets_to_validate(
        self, isolation: Isolation, commuting: Set[Locator] = frozenset()
    ) -> tuple[set[Locator], set[Scan]]:
        """Return what nobody else may have written meanwhile: new deltas commute, so they are not part of it.

        Neither are the puts in `commuting`, of which `after_rivals` knows it.
        """
        watched: set[Locator | Scan] = {locator for locator in self.puts if locator.kind is not Kind.DELTA}
        watched -= commuting
        watched |= self.deletes | self.guards
        if isolation is Isolation.SERIALIZABLE:
            watched |= self.reads | self.scans
        scans = {item for item in watched if isinstance(item, Scan)}
        return {item for item in watched if not isinstance(item, Scan)}, scans


@dataclass(frozen=True, slots=True)
class Commit:
    """One line of the history: which transaction made a version, when, and what it said about itself."""

    version: int
    created_at_millis: int
    transaction_id: str
    message: str = ""
    author: str = ""
    properties: Mapping[str, str] = NO_PROPERTIES
    rolled_back_from: int | None = None

    @property
    def transactions(self) -> tuple[TransactionRecord, ...]:
        """What the version holds: one transaction, or those of several threads that committed at once."""
        alone = TransactionRecord(self.transaction_id, self.message, self.author, self.properties)
        return decode_members(self.properties, self.version) or (alone,)

    def by(self, said: Collection[str]) -> str:
        """Return which of its transactions wrote something of what is said; all of them where it cannot be told."""
        members = self.transactions
        meant = [one for one in members if any(wrote.is_about(text) for wrote in one.wrote for text in said)]
        return " and ".join(str(one) for one in meant or members)


@dataclass(frozen=True, slots=True)
class CommitResult:
    """A transaction that became a version, with its changes as they were made real."""

    snapshot: "Snapshot"
    changes: Changes


class Snapshot(Protocol):
    """The whole lakehouse as one version has it; it never changes."""

    @property
    def version(self) -> int:
        """The version's number; the first is 0."""
        ...

    @property
    def commit(self) -> Commit:
        """The history's line about this version."""
        ...

    @property
    def settings(self) -> LakehouseSettings:
        """The lakehouse's own definition."""
        ...

    def get(self, locator: Locator) -> Object | None:
        """Return the object, or None if there is none."""
        ...

    def get_many(self, locators: Sequence[Locator]) -> list[Object | None]:
        """Return the objects in the order asked, None where there is none."""
        ...

    def children(
        self, kind: Kind, parent: Parent, *, prefix: str = "", after: Locator | None = None
    ) -> Iterator[tuple[Locator, Object]]:
        """Yield the objects of `kind` below `parent` in order of their locators, as they are asked for.

        Only names that start with `prefix`, and only what comes after `after`.
        """
        ...

    def children_of(self, kind: Kind, parents: Sequence[BelowTable]) -> Iterator[tuple[Locator, Object]]:
        """Yield the objects of `kind` below any of the parents, which are of one table, in order of their locators.

        It is one pass over all of them, with few requests for many.
        """
        ...

    def last_child(self, kind: Kind, parent: Parent) -> Locator | None:
        """Return the last of the objects of `kind` below `parent`, or None if there is none."""
        ...

    def last_children(self, kind: Kind, parents: Sequence[BelowTable]) -> list[Locator | None]:
        """Return the last of the objects of `kind` below each of the parents, with few requests for many."""
        ...


class Metastore(Protocol):
    """All versions of one lakehouse."""

    def latest(self) -> Snapshot:
        """Return the newest version that is committed now."""
        ...

    def at_version(self, version: int) -> Snapshot:
        """Return a version by its number."""
        ...

    def at_time(self, millis: int) -> Snapshot:
        """Return the newest version that was committed at that time or before."""
        ...

    def history(self, *, before: int | None = None) -> Iterator[Commit]:
        """Yield the versions that are kept, newest first, optionally only those before a version."""
        ...

    def commit(self, base: Snapshot, changes: Changes, isolation: Isolation) -> CommitResult:
        """Make the changes real as the next version, or raise a `ConflictError` and change nothing.

        Where others committed after `base`, the changes follow theirs as long as
        nothing that matters at this isolation was touched.
        """
        ...


@dataclass(frozen=True, slots=True)
class Difference:
    """An object that two versions have differently; None where one of them does not have it."""

    locator: Locator
    before: Object | None
    after: Object | None


@dataclass(frozen=True, slots=True)
class Problem:
    """A rule that something on storage breaks: where, and which."""

    path: str
    rule: str


@dataclass(frozen=True, slots=True)
class RetiredVersion:
    """A version that has expired, as it was before, and the file that still leads to what it needs."""

    path: str
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class OpenFailure:
    """Why a lakehouse cannot be opened, and the newest version that could be if it were the newest of all."""

    problems: tuple[Problem, ...]
    opens: int | None


class MetastoreMaintenance(Protocol):
    """What maintenance needs of a metastore beyond reading and committing."""

    @property
    def is_read_only(self) -> bool:
        """Whether the lakehouse is another program's, whose files are read here and never written."""
        ...

    def kept(self) -> list[Commit]:
        """Return the versions that are kept, oldest first."""
        ...

    def roll_back(self, to: Snapshot, changes: Changes) -> Snapshot:
        """Commit what `to` holds as the next version; whatever else is being committed contests it."""
        ...

    def differences(self, before: Snapshot, after: Snapshot) -> Iterator[Difference]:
        """Yield the objects that differ, in order of their locators, reading only what the two do not share."""
        ...

    def objects(self, snapshot: Snapshot, kind: Kind) -> Iterator[tuple[Locator, Object]]:
        """Yield every object of a kind in the whole version."""
        ...

    def files_of(self, snapshots: Iterable[Snapshot]) -> Iterator[str]:
        """Yield the paths of the layout's own files that these versions need, each once, data files not among them."""
        ...

    def owns(self, path: str) -> bool:
        """Return whether a file at `path` can only be the layout's own, so that it may go when nothing needs it."""
        ...

    def deletion_rank(self, path: str) -> int:
        """Return in which step a file at `path` is deleted, when it is garbage: the lowest number first.

        A step begins when all files of the one before it are gone.
        """
        ...

    def expire(self, versions: Iterable[int]) -> None:
        """Forget these versions; what only they needed becomes garbage."""
        ...

    def retired(self, since_millis: int, kept: Set[int]) -> list[RetiredVersion]:
        """Return the versions that expired at that time or later, oldest first, as far as they can still be read.

        The store's clock tells when; `kept` are versions that were found not to have
        expired. Whoever read one of these just before may still use what it needs.
        """
        ...

    def problems(self, snapshot: Snapshot) -> Iterator[Problem]:
        """Yield each rule of the layout that this version breaks; nothing when it is sound."""
        ...

    def repair(self) -> list[str]:
        """Mend what can be mended safely, such as a wrong hint, and say what was done."""
        ...


def check_deadline(changes: Changes, now_millis: int) -> None:
    """Refuse changes whose time is over; asked right before each exclusive create."""
    limit_millis = changes.commit_before_millis
    if limit_millis is not None and now_millis > limit_millis:
        raise ConflictError(
            f"transaction {changes.transaction_id} had until {format_iso_time(limit_millis)} to commit, and it is "
            f"{format_iso_time(now_millis)}: others may delete what it stands on. Nothing was committed; begin it again"
        )


def commit_time_after(base: Snapshot, changes: Changes, now_millis: int, tolerance_millis: int | None) -> int:
    """Return the time of the version that follows `base`, or refuse to commit where `base` is dated in the future.

    Times grow strictly from version to version even when clocks do not, so that a
    time names one version and a search by time can bisect. Only a version that resets
    the clock is dated earlier than the one before it.
    """
    if changes.resets_clock:
        return now_millis
    check_clock(base, now_millis, tolerance_millis)
    return max(now_millis, base.commit.created_at_millis + 1)


def check_clock(newest: Snapshot, now_millis: int, tolerance_millis: int | None) -> None:
    """Refuse a newest version that is dated further in the future than clocks may differ.

    `tolerance_millis` of None stands for the setting of the lakehouse, which is read only when it matters.
    """
    ahead_millis = newest.commit.created_at_millis - now_millis
    if ahead_millis <= 0:
        return
    allowed_millis = clock_tolerance_millis(newest.settings) if tolerance_millis is None else tolerance_millis
    if ahead_millis > allowed_millis:
        raise FormatError(
            f"version {newest.version} is dated {format_iso_time(newest.commit.created_at_millis)}, and the clock of "
            f"this machine says {format_iso_time(now_millis)}: one of the two clocks is wrong by more than the "
            f"{allowed_millis / 1000:g} s that are tolerated, and a commit would be dated after that version. "
            "If this clock is wrong, set it. If it is right, run `mangrove repair-clock`. To commit anyway, open "
            "the lakehouse with a larger clock_tolerance"
        )
