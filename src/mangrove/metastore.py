"""The metastore port, a versioned map from locators to objects with atomic commits.

Both layouts implement `Metastore`; everything above works with either.
"""

import enum
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, repeat
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from mangrove.errors import ConflictError, FormatError, InvalidInputError
from mangrove.expressions.predicates import ConstantPredicate, Predicate
from mangrove.model.locators import (
    Kind,
    Locator,
    NamespaceLocator,
    PartitionLocator,
    StreamLocator,
    TableIdentity,
    TableLocator,
    TableVersionLocator,
)
from mangrove.model.manifests import DataFile
from mangrove.model.names import check_text
from mangrove.model.objects import Object, kind_of
from mangrove.model.properties import NO_PROPERTIES
from mangrove.model.settings import LakehouseSettings, clock_tolerance_millis
from mangrove.model.times import format_iso_time
from mangrove.model.transaction_record import TransactionRecord, decode_members

__all__ = [
    "ALL_ROWS",
    "BelowTable",
    "Changes",
    "Commit",
    "CommitResult",
    "DefaultVersion",
    "Difference",
    "Guarded",
    "Isolation",
    "LoadObject",
    "Metastore",
    "MetastoreMaintenance",
    "MetastoreSnapshot",
    "ObjectPage",
    "ObjectRange",
    "OpenFailure",
    "Parent",
    "Problem",
    "RetiredVersion",
    "RowChangeDetector",
    "RowRange",
    "assume_rows_changed",
    "check_clock",
    "check_deadline",
    "commit_time_after",
    "list_pages",
    "load_pages",
    "split_into_pages",
]

BelowTable: TypeAlias = TableVersionLocator | StreamLocator | PartitionLocator
"""The locators of objects below a table that have children."""
Parent: TypeAlias = NamespaceLocator | TableIdentity | BelowTable | None
"""The parents of objects; None is the lakehouse itself."""


class Isolation(enum.Enum):
    """The isolation level of a transaction: what is validated at commit."""

    SNAPSHOT = "snapshot"
    """No concurrent commit wrote an object that the transaction writes, or changed rows that it read and writes."""
    SERIALIZABLE = "serializable"
    """As SNAPSHOT, and no concurrent commit wrote an object or changed rows that it read, or into a range of them."""


@dataclass(frozen=True, slots=True)
class ObjectRange:
    """All objects of one kind below a parent, or those whose name starts with `prefix`."""

    kind: Kind
    parent: Parent
    prefix: str = ""


ALL_ROWS: Final = ConstantPredicate(holds=True)
"""The predicate that every row satisfies."""


@dataclass(frozen=True, slots=True)
class RowRange:
    """The rows of a stream that satisfy `predicate`, or only those of them whose keys are in `key_files`."""

    stream: StreamLocator
    predicate: Predicate = ALL_ROWS
    key_files: tuple[DataFile, ...] = ()


@dataclass(frozen=True, slots=True)
class DefaultVersion:
    """A guard of a write by the name of a table: the table still has the same default table version at commit.

    Other changes of the table, such as a rename, do not conflict with it.
    """

    table: TableLocator
    """The name in the base version."""
    identity: TableIdentity
    version: int


Guarded: TypeAlias = Locator | ObjectRange | DefaultVersion
"""What a transaction guards against concurrent commits."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The writes of a transaction, and what must not have changed meanwhile.

    `reads`, `scans` and `rows_read` are validated for serializable transactions. `guards`
    and `rows_guarded` are validated at both isolation levels: the parent of a created
    object, a scan below a dropped one, and rows that were read and are written.

    If a namespace is renamed, objects in it are put under the new name, and deleted,
    read and guarded under the name in the base version.

    New deltas commute: two transactions that add to one partition never conflict; the
    later one takes the positions after the earlier one.
    """

    transaction_id: str
    puts: Mapping[Locator, Object] = field(default_factory=dict)
    deletes: frozenset[Locator] = frozenset()
    reads: frozenset[Locator] = frozenset()
    scans: frozenset[ObjectRange] = frozenset()
    guards: frozenset[Guarded] = frozenset()
    rows_read: frozenset[RowRange] = frozenset()
    rows_guarded: frozenset[RowRange] = frozenset()
    settings: LakehouseSettings | None = None
    """The new lakehouse definition if it changes; conflicts with every concurrent change of it."""
    message: str = ""
    author: str = ""
    properties: Mapping[str, str] = NO_PROPERTIES
    commit_before_millis: int | None = None
    """The commit deadline: the base version may be deleted some time after it. None means no deadline."""
    resets_clock: bool = False
    """Whether the commit uses this clock even if the newest version is dated later: see decision 0040."""

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
    ) -> tuple[set[Locator], set[ObjectRange]]:
        """Return the locators and scans that no concurrent commit may have written.

        New deltas and the puts in `commuting` commute and are left out. Guarded default
        versions are compared by value: see `mangrove.rebase`.
        """
        watched: set[Guarded] = {locator for locator in self.puts if locator.kind is not Kind.DELTA}
        watched -= commuting
        watched |= self.deletes | self.guards
        if isolation is Isolation.SERIALIZABLE:
            watched |= self.reads | self.scans
        scans = {item for item in watched if isinstance(item, ObjectRange)}
        return {item for item in watched if not isinstance(item, ObjectRange | DefaultVersion)}, scans

    def with_strict_guards(self) -> "Changes":
        """Return the changes with guards of all namespaces, and of whole tables in place of default versions."""
        tables = [guard.table for guard in self.default_versions]
        return replace(self, guards=self.guards | {ObjectRange(Kind.NAMESPACE, None), *tables})

    @property
    def default_versions(self) -> list[DefaultVersion]:
        """The tables whose default table version must be the same at commit."""
        return [item for item in self.guards if isinstance(item, DefaultVersion)]

    def rows_to_validate(self, isolation: Isolation) -> frozenset[RowRange]:
        """Return the rows that no concurrent commit may have changed."""
        return self.rows_guarded | self.rows_read if isolation is Isolation.SERIALIZABLE else self.rows_guarded


@dataclass(frozen=True, slots=True)
class Commit:
    """A history entry: the transaction of a version, its time, message, author and properties."""

    version: int
    created_at_millis: int
    transaction_id: str
    message: str = ""
    author: str = ""
    properties: Mapping[str, str] = NO_PROPERTIES
    rolled_back_from: int | None = None

    @property
    def transactions(self) -> tuple[TransactionRecord, ...]:
        """The transactions of the version: one, or several threads in a group commit."""
        alone = TransactionRecord(self.transaction_id, self.message, self.author, self.properties)
        return decode_members(self.properties, f"version {self.version}") or (alone,)

    def by(self, names: Collection[str]) -> str:
        """Return a description of its transactions that wrote one of the named objects; all if that is unknown."""
        members = self.transactions
        writers = [one for one in members if any(wrote.is_about(name) for wrote in one.wrote for name in names)]
        return " and ".join(str(one) for one in writers or members)


@dataclass(frozen=True)
class CommitResult:
    """The version that a transaction committed, with its changes as committed."""

    snapshot: "MetastoreSnapshot"
    staged: Changes
    locate: Callable[[], Changes] | None = None
    """Reads where another process has committed the deltas; None: at the positions of `staged`."""

    @cached_property
    def changes(self) -> Changes:
        """The changes with the positions that their deltas have in the version."""
        return self.staged if self.locate is None else self.locate()


LoadObject: TypeAlias = Callable[[Locator], Object]
"""Returns the object at a locator of a page; the first call for a page reads all of its objects."""
_PAGE_FIRST, _PAGE_MAX = 16, 512
T = TypeVar("T")


class ObjectPage(Generic[T]):
    """Some objects of a listing by their locators and pointers, which are read and decoded together.

    A listing has thousands of objects, and the garbage collector visits each value that belongs
    to only one of them, so the objects of a page share everything but their locators.
    """

    def __init__(
        self,
        locators: Sequence[Locator],
        pointers: Sequence[T],
        load: Callable[[list[tuple[Locator, T]]], list[Object]],
    ) -> None:
        self.locators = locators
        self._pointers = pointers
        self._load = load
        self._objects: dict[Locator, Object] | None = None

    def load_all(self) -> Iterator[tuple[Locator, Object]]:
        """Yield the objects in order."""
        objects = self._load(list(zip(self.locators, self._pointers, strict=True)))
        return zip(self.locators, objects, strict=True)

    def load(self, locator: Locator) -> Object:
        """Return the object at a locator of the page."""
        if self._objects is None:
            self._objects = dict(self.load_all())
        return self._objects[locator]


def list_pages(pages: Iterable[ObjectPage[T]]) -> Iterator[tuple[Locator, LoadObject]]:
    """Yield the locators of pages, each with the function that returns the object."""
    return chain.from_iterable(zip(page.locators, repeat(page.load), strict=False) for page in pages)


def load_pages(pages: Iterable[ObjectPage[T]]) -> Iterator[tuple[Locator, Object]]:
    """Yield the objects of pages."""
    return chain.from_iterable(page.load_all() for page in pages)


def split_into_pages(chunks: Iterable[tuple[Sequence[str], Sequence[str]]]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield keys and values in lists that grow to a limit, so that the first items of a long listing come early."""
    keys: list[str] = []
    values: list[str] = []
    size = _PAGE_FIRST
    for more_keys, more_values in chunks:
        keys += more_keys
        values += more_values
        start = 0
        while len(keys) - start >= size:
            yield keys[start : start + size], values[start : start + size]
            start += size
            size = min(2 * size, _PAGE_MAX)
        keys, values = keys[start:], values[start:]
    if keys:
        yield keys, values


class MetastoreSnapshot(Protocol):
    """The immutable state of the whole lakehouse in one version."""

    @property
    def nests_tables_in_namespaces(self) -> bool:
        """Whether the objects of a table are stored below its namespace, so that a move to another rewrites them."""
        ...

    @property
    def allows_groups(self) -> bool:
        """Whether the next version may be committed by its number, and contain several transactions."""
        ...

    @property
    def inline_rows_default(self) -> int:
        """The maximum size of inline rows in tables without a property for it; 0 if other readers expect files."""
        ...

    @property
    def version(self) -> int:
        """The version number; the first is 0."""
        ...

    @property
    def commit(self) -> Commit:
        """The history entry of this version."""
        ...

    @property
    def settings(self) -> LakehouseSettings:
        """The lakehouse definition."""
        ...

    def get(self, locator: Locator) -> Object | None:
        """Return the object, or None if there is none."""
        ...

    def get_many(self, locators: Sequence[Locator]) -> list[Object | None]:
        """Return the objects in the requested order; None if there is none."""
        ...

    def children(
        self, kind: Kind, parent: Parent, *, prefix: str = "", after: Locator | None = None
    ) -> Iterator[tuple[Locator, Object]]:
        """Yield the objects of `kind` below `parent` lazily, in locator order.

        Only names that start with `prefix`, and only those after `after`.
        """
        ...

    def list_children(
        self, kind: Kind, parent: Parent, *, prefix: str = "", after: Locator | None = None
    ) -> Iterator[tuple[Locator, LoadObject]]:
        """Yield the locators that `children` yields, each with a function that returns the object.

        Definitions are read and decoded page by page, when an object of the page is requested.
        """
        ...

    def children_of(self, kind: Kind, parents: Sequence[BelowTable]) -> Iterator[tuple[Locator, Object]]:
        """Yield the objects of `kind` below any of the parents, all of one table, in locator order.

        This is one pass with batched reads.
        """
        ...

    def last_child(self, kind: Kind, parent: Parent) -> Locator | None:
        """Return the last object of `kind` below `parent`, or None."""
        ...

    def last_children(self, kind: Kind, parents: Sequence[BelowTable]) -> list[Locator | None]:
        """Return the last object of `kind` below each of the parents, with batched reads."""
        ...


class RowChangeDetector(Protocol):
    """Finds out whether rows changed between two versions; an effect, because it may have to read data files."""

    def __call__(
        self,
        rows: RowRange,
        partitions: Collection[PartitionLocator],
        before: MetastoreSnapshot,
        after: MetastoreSnapshot,
    ) -> bool:
        """Return whether a row of the range was added, changed or deleted; only these partitions were written."""
        ...


def assume_rows_changed(
    rows: RowRange,  # noqa: ARG001 - the port
    partitions: Collection[PartitionLocator],  # noqa: ARG001 - the port
    before: object,  # noqa: ARG001 - the port
    after: object,  # noqa: ARG001 - the port
) -> bool:
    """Return True: without an engine that reads rows, every write of a partition counts as a change of its rows."""
    return True


class Metastore(Protocol):
    """All versions of one lakehouse."""

    def latest(self) -> MetastoreSnapshot:
        """Return the newest committed version."""
        ...

    def latest_since(self, millis: int) -> MetastoreSnapshot | None:
        """Return the newest version in memory if it was the newest at that time or later. This makes no request."""
        ...

    def at_version(self, version: int) -> MetastoreSnapshot:
        """Return a version by its number."""
        ...

    def at_time(self, millis: int) -> MetastoreSnapshot:
        """Return the newest version committed at or before that time."""
        ...

    def history(self, *, before: int | None = None) -> Iterator[Commit]:
        """Yield the live versions, newest first, optionally only those before a version."""
        ...

    def commit(
        self,
        base: MetastoreSnapshot,
        changes: Changes,
        isolation: Isolation,
        have_rows_changed: RowChangeDetector = assume_rows_changed,
    ) -> CommitResult:
        """Commit the changes as the next version, or raise `ConflictError` and change nothing.

        The changes are rebased on concurrent commits after `base` unless they conflict at
        this isolation level. Rows are compared only if a concurrent commit wrote to their
        stream.
        """
        ...

    def commit_next(self, base: MetastoreSnapshot, changes: Changes) -> CommitResult | None:
        """Commit the changes as the version after `base`, or return None if that version is taken.

        This is one attempt of `commit`: the changes are not rebased.
        """
        ...

    def load_later(self, base: MetastoreSnapshot, count: int) -> Sequence[MetastoreSnapshot]:
        """Return those of the next `count` versions after `base` that exist, oldest first; read in parallel."""
        ...

    def encode_version(self, snapshot: MetastoreSnapshot) -> Mapping[str, bytes]:
        """Return the file that commits a version, and those that a commit after it reads, for another process."""
        ...

    def decode_version(self, version: int, files: Mapping[str, bytes]) -> MetastoreSnapshot:
        """Return the version whose files `encode_version` of another process returned."""
        ...

    def remember(self, snapshot: MetastoreSnapshot, at_millis: int = 0) -> None:
        """Keep a version in memory; it was the newest at that time or later."""
        ...

    def is_affected(
        self,
        base: MetastoreSnapshot,
        later: Sequence[MetastoreSnapshot],
        changes: Changes,
        isolation: Isolation,
    ) -> bool:
        """Return whether one of the versions after `base` wrote anything that concerns the changes.

        This is stricter than a conflict: equal values and rows are not compared, and every
        rollback and every change of a namespace counts. It depends only on what was
        written, so changes that are affected once stay affected.
        """
        ...

    def rebase(
        self,
        base: MetastoreSnapshot,
        changes: Changes,
        isolation: Isolation,
        have_rows_changed: RowChangeDetector = assume_rows_changed,
    ) -> tuple[MetastoreSnapshot, Changes]:
        """Return the newest version that is in memory, and the changes rebased on it, or raise `ConflictError`.

        This is what `commit` does after a lost race, without a request for the newest
        version. The arguments are returned if versions in between cannot be read, and if concurrent
        commits made the same changes: changes without content would not be in the history.
        """
        ...


@dataclass(frozen=True, slots=True)
class Difference:
    """An object that differs between two versions; None if a version does not have it."""

    locator: Locator
    before: Object | None
    after: Object | None


@dataclass(frozen=True, slots=True)
class Problem:
    """A violated invariant of an object on storage, with its path."""

    path: str
    rule: str


@dataclass(frozen=True, slots=True)
class RetiredVersion:
    """An expired version as it was, and the file that still references its content."""

    path: str
    snapshot: MetastoreSnapshot


@dataclass(frozen=True, slots=True)
class OpenFailure:
    """Why a lakehouse cannot be opened, and the newest version that is readable."""

    problems: tuple[Problem, ...]
    opens: int | None


class MetastoreMaintenance(Protocol):
    """The operations that maintenance needs in addition to reading and committing."""

    @property
    def is_read_only(self) -> bool:
        """Whether the lakehouse was written by another program and cannot be changed."""
        ...

    def list_retained(self) -> list[Commit]:
        """Return the live versions, oldest first."""
        ...

    def roll_back(self, to: MetastoreSnapshot, changes: Changes) -> MetastoreSnapshot:
        """Commit the content of `to` as the next version; concurrent commits conflict only if they are rollbacks."""
        ...

    def differences(self, before: MetastoreSnapshot, after: MetastoreSnapshot) -> Iterator[Difference]:
        """Yield the objects that differ, in locator order; reads only what the versions do not share."""
        ...

    def objects(self, snapshot: MetastoreSnapshot, kind: Kind) -> Iterator[tuple[Locator, Object]]:
        """Yield every object of a kind in the whole version."""
        ...

    def files_of(self, snapshots: Iterable[MetastoreSnapshot]) -> Iterator[str]:
        """Yield the paths of the metadata files that these versions reference, each once, without data files."""
        ...

    def owns(self, path: str) -> bool:
        """Return whether `path` belongs to the layout, so that the file may be deleted if it is unreferenced."""
        ...

    def deletion_rank(self, path: str) -> int:
        """Return the step in which vacuum deletes the file at `path`: the lowest number first.

        A step begins when all files of the previous step are deleted.
        """
        ...

    def expire(self, versions: Iterable[int]) -> None:
        """Expire these versions; files that only they reference become garbage."""
        ...

    def list_retired(self, since_millis: int, kept: Set[int]) -> list[RetiredVersion]:
        """Return the versions that expired at that time or later and can still be read, oldest first.

        The store's clock is used; `kept` are versions known to be live. A reader that
        opened one of them just before may still use its files.
        """
        ...

    def problems(self, snapshot: MetastoreSnapshot) -> Iterator[Problem]:
        """Yield each violated invariant of this version."""
        ...

    def encode_hint(self, snapshot: MetastoreSnapshot) -> tuple[str, bytes]:
        """Return the path and content of the hint file of a copy whose newest version is this one."""
        ...

    def repair(self) -> list[str]:
        """Repair what can be repaired safely, such as a wrong hint, and return what was repaired."""
        ...


def check_deadline(changes: Changes, now_millis: int) -> None:
    """Raise `ConflictError` after the commit deadline; called right before each exclusive create."""
    limit_millis = changes.commit_before_millis
    if limit_millis is not None and now_millis > limit_millis:
        raise ConflictError(
            f"transaction {changes.transaction_id} exceeded its commit deadline {format_iso_time(limit_millis)}; it is "
            f"{format_iso_time(now_millis)}, and its base version may be deleted. Nothing was committed; restart it"
        )


def commit_time_after(base: MetastoreSnapshot, changes: Changes, now_millis: int, tolerance_millis: int | None) -> int:
    """Return the commit time of the version after `base`; raise an error if `base` is dated in the future.

    Commit times increase strictly even if clocks do not, so that a time identifies one
    version and a search by time can bisect. Only a version that resets the clock is
    dated earlier than the version before it.
    """
    if changes.resets_clock:
        return now_millis
    created_at_millis = base.commit.created_at_millis
    if created_at_millis >= now_millis:
        check_clock(base, now_millis, tolerance_millis)
    return max(now_millis, created_at_millis + 1)


def check_clock(newest: MetastoreSnapshot, now_millis: int, tolerance_millis: int | None) -> None:
    """Raise an error if the newest version is dated further in the future than the clock tolerance.

    If `tolerance_millis` is None, the lakehouse setting applies; it is read only when needed.
    """
    ahead_millis = newest.commit.created_at_millis - now_millis
    if ahead_millis <= 0:
        return
    allowed_millis = clock_tolerance_millis(newest.settings) if tolerance_millis is None else tolerance_millis
    if ahead_millis > allowed_millis:
        raise FormatError(
            f"version {newest.version} is dated {format_iso_time(newest.commit.created_at_millis)}, but the clock of "
            f"this machine is at {format_iso_time(now_millis)}: one of the two clocks is off by more than the "
            f"{allowed_millis / 1000:g} s that are tolerated. "
            "If this clock is wrong, set it. If it is right, run `mangrove repair-clock`. To commit anyway, open "
            "the lakehouse with a larger clock_tolerance"
        )
