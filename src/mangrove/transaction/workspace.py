"""The staged writes of a transaction over its base version, with its read set.

Reads, scans and guards are recorded under the names of the base version, because
concurrent commits use these: a namespace that this transaction renamed still has
its old name for everyone else.
"""

import copy
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

from mangrove.errors import AlreadyExistsError, InvalidInputError
from mangrove.metastore import (
    BelowTable,
    Changes,
    DefaultVersion,
    Difference,
    Guarded,
    LoadObject,
    MetastoreSnapshot,
    ObjectRange,
    Parent,
    RowRange,
)
from mangrove.model.locators import (
    DeltaLocator,
    Kind,
    Locator,
    NamespaceLocator,
    PartitionLocator,
    StreamLocator,
    TableIdentity,
    TableLocator,
    ViewLocator,
)
from mangrove.model.objects import NamespaceEntry, Object, Partition, TableEntry
from mangrove.model.properties import NO_PROPERTIES
from mangrove.model.settings import LakehouseSettings

__all__ = ["Savepoint", "Workspace", "WriteOverlay", "merge_ordered"]

T = TypeVar("T")


class WriteOverlay:
    """The puts, by the transaction's locators, and the deletes, by the locators of the base version.

    They differ if the transaction renamed a namespace. A put masks the object of the
    base version at the same locator.
    """

    def __init__(self) -> None:
        self.puts: dict[Locator, Object] = {}
        self.deletes: set[Locator] = set()
        self._below: dict[tuple[Kind, Parent], set[Locator]] = {}

    def put(self, locator: Locator, value: Object) -> None:
        """Put the object over whatever exists at its locator."""
        self.puts[locator] = value
        self._below.setdefault((locator.kind, locator.parent), set()).add(locator)

    def withdraw(self, locator: Locator) -> None:
        """Remove a put, so that the object of the base version is visible again."""
        if self.puts.pop(locator, None) is not None:
            self._below[locator.kind, locator.parent].discard(locator)

    def copied(self) -> "WriteOverlay":
        """Return a copy of the puts and deletes."""
        copy = WriteOverlay()
        copy.puts, copy.deletes = dict(self.puts), set(self.deletes)
        copy._below = {place: set(locators) for place, locators in self._below.items()}
        return copy

    def below(
        self, kind: Kind, parent: Parent, *, prefix: str = "", after: Locator | None = None
    ) -> list[tuple[Locator, Object]]:
        """Return the puts of a kind below a parent, in order."""
        found = self._below.get((kind, parent), set())
        matching = sorted(
            locator
            for locator in found
            if (not prefix or str(locator.parts[-1]).startswith(prefix)) and (after is None or locator > after)
        )
        return [(locator, self.puts[locator]) for locator in matching]


def merge_ordered(there: Iterable[tuple[Locator, T]], put: Iterable[tuple[Locator, T]]) -> Iterator[tuple[Locator, T]]:
    """Yield both in order; `put` replaces existing objects at the same locator.

    Both must be ordered and below the same parent.
    """
    waiting = iter(put)
    following = next(waiting, None)
    for locator, value in there:
        while following is not None and following[0] < locator:
            yield following
            following = next(waiting, None)
        if following is not None and following[0] == locator:
            yield following
            following = next(waiting, None)
        else:
            yield locator, value
    if following is not None:
        yield following
    yield from waiting


class _Nowhere(enum.Enum):
    """The parent of objects that the base version cannot have."""

    NOWHERE = "nowhere"


_NOWHERE = _Nowhere.NOWHERE


@dataclass(frozen=True, slots=True)
class Savepoint:
    """The staged state of a transaction at one point."""

    staged: WriteOverlay
    guards: frozenset[Guarded]
    rows_guarded: frozenset[RowRange]
    settings: LakehouseSettings
    origins: Mapping[str, str]
    last_positions: Mapping[PartitionLocator, int]


class _Known(NamedTuple):
    """The state of a partition in the base version: absent, or the partition and its last position."""

    partition: Partition | None
    last_position: int


class Workspace:
    """One transaction's view of the lakehouse; used by one thread at a time."""

    def __init__(self, snapshot: MetastoreSnapshot) -> None:
        self.snapshot = snapshot
        self.staged = WriteOverlay()
        self.reads: set[Locator] = set()
        self.scans: set[ObjectRange] = set()
        self.guards: set[Guarded] = set()
        self.rows_read: set[RowRange] = set()
        self.rows_guarded: set[RowRange] = set()
        self.streams_read: set[StreamLocator] = set()
        """The streams whose rows were returned, here or to other participants of a shared transaction."""
        self.settings: LakehouseSettings = snapshot.settings
        self.met: dict[TableIdentity, Locator] = {}
        """The accessed tables by id, so that errors can name them."""
        self.origins: dict[str, str] = {}
        """The base version's name of each namespace that was renamed here, by namespace id."""
        self._last_positions: dict[PartitionLocator, int] = {}
        self._known: dict[PartitionLocator, _Known] = {}
        self._objects: dict[Locator, Object | None] = {}
        """The objects of the base version that were read, because all statements on a table read the same ones."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written."""
        return not (self.staged.puts or self.staged.deletes) and self.settings == self.snapshot.settings

    def savepoint(self) -> Savepoint:
        """Return the staged state for a later `restore`."""
        return Savepoint(
            self.staged.copied(),
            frozenset(self.guards),
            frozenset(self.rows_guarded),
            self.settings,
            dict(self.origins),
            dict(self._last_positions),
        )

    def restore(self, savepoint: Savepoint) -> None:
        """Restore the staged state of a savepoint.

        The read set is not reduced: the caller may have acted on what it read.
        """
        self.staged = savepoint.staged.copied()
        self.guards = set(savepoint.guards)
        self.rows_guarded = set(savepoint.rows_guarded)
        self.settings = savepoint.settings
        self.origins = dict(savepoint.origins)
        self._last_positions = dict(savepoint.last_positions)

    def get(self, locator: Locator) -> Object | None:
        """Return the object as this transaction sees it, or None."""
        staged = self.staged.puts.get(locator)
        there = self._there(locator)
        if staged is not None or there is None or there in self.staged.deletes:
            return staged
        self.reads.add(there)
        if there not in self._objects:
            self._objects[there] = self.snapshot.get(there)
        found = self._objects[there]
        if isinstance(found, TableEntry):
            self.met[TableIdentity(found.namespace_id, found.id)] = locator
        return found

    def get_many(self, locators: Sequence[Locator]) -> list[Object | None]:
        """Return the objects in the requested order; None if there is none."""
        requested: dict[Locator, Locator] = {}
        for locator in locators:
            there = self._there(locator)
            if locator not in self.staged.puts and there is not None and there not in self.staged.deletes:
                requested[locator] = there
        self.reads.update(requested.values())
        missing = [there for there in requested.values() if there not in self._objects]
        if missing:
            self._objects |= zip(missing, self.snapshot.get_many(missing), strict=True)
        found = {locator: self._objects[there] for locator, there in requested.items()}
        self.met |= {
            TableIdentity(value.namespace_id, value.id): locator
            for locator, value in found.items()
            if isinstance(value, TableEntry)
        }
        return [self.staged.puts.get(locator, found.get(locator)) for locator in locators]

    def look_up(self, partitions: Sequence[PartitionLocator]) -> None:
        """Prefetch many partitions and their last positions with batched reads."""
        unknown = [one for one in dict.fromkeys(partitions) if one not in self._known]
        if not unknown:
            return
        found = dict(zip(unknown, self.snapshot.get_many(unknown), strict=True))
        there = [one for one, value in found.items() if value is not None]
        last = dict(zip(there, self.snapshot.last_children(Kind.DELTA, there), strict=True))
        for one, value in found.items():
            end = last.get(one)
            position = end.position if isinstance(end, DeltaLocator) else 0
            self._known[one] = _Known(value if isinstance(value, Partition) else None, position)

    def partition(self, locator: PartitionLocator) -> Partition | None:
        """Return the partition, if it exists. This is not recorded as a read: its content is deterministic."""
        self.look_up([locator])
        value = self.staged.puts.get(locator) or self._known[locator].partition
        return value if isinstance(value, Partition) and locator not in self.staged.deletes else None

    def children(
        self, kind: Kind, parent: Parent, *, prefix: str = "", after: Locator | None = None
    ) -> Iterator[tuple[Locator, Object]]:
        """Yield the objects of `kind` below `parent` in order; the whole scan is recorded as read."""
        found = self._scan_base(self.snapshot.children, kind, parent, prefix, after)
        visible = ((_at(locator, parent), value) for locator, value in found)
        yield from merge_ordered(visible, self.staged.below(kind, parent, prefix=prefix, after=after))

    def list_children(
        self, kind: Kind, parent: Parent, *, prefix: str = "", after: Locator | None = None
    ) -> Iterator[tuple[Locator, LoadObject]]:
        """Yield the locators that `children` yields, each with a function that returns the object."""
        staged = self.staged.below(kind, parent, prefix=prefix, after=after)
        put: list[tuple[Locator, LoadObject]] = [(locator, partial(_return, value)) for locator, value in staged]
        found = self._scan_base(self.snapshot.list_children, kind, parent, prefix, after)
        yield from merge_ordered((_move(locator, parent, load) for locator, load in found), put)

    def _scan_base(
        self,
        scan: Callable[..., Iterator[tuple[Locator, T]]],
        kind: Kind,
        parent: Parent,
        prefix: str,
        after: Locator | None,
    ) -> Iterator[tuple[Locator, T]]:
        """Yield what a scan of the base version finds, without deleted objects, and record the scan as read."""
        there = self._parent_there(parent)
        if there is _NOWHERE:
            return
        self.scans.add(ObjectRange(kind, there, prefix))
        following = None if after is None else _at(after, there)
        deletes = self.staged.deletes
        for locator, item in scan(kind, there, prefix=prefix, after=following):
            if not deletes or locator not in deletes:
                yield locator, item

    def children_of(self, kind: Kind, parents: Sequence[BelowTable]) -> Iterator[tuple[Locator, Object]]:
        """Yield the objects of `kind` below any of the parents, all of one table, in order."""
        put = [found for parent in sorted(set(parents)) for found in self.staged.below(kind, parent)]
        self.scans.update(ObjectRange(kind, parent) for parent in parents)
        found = self.snapshot.children_of(kind, parents)
        yield from merge_ordered(
            ((locator, value) for locator, value in found if locator not in self.staged.deletes), put
        )

    def next_position(self, partition: PartitionLocator, *, is_new: bool, chosen: int | None = None) -> int:
        """Allocate the position after the last delta. This is not recorded as a read: deltas commute.

        A chosen position comes after the last delta, and conflicts with concurrent deltas.
        """
        if partition not in self._last_positions:
            self.look_up([partition])
            last = 0 if is_new else self._known[partition].last_position
            staged = (locator for locator, _ in self.staged.below(Kind.DELTA, partition))
            positions = (delta.position for delta in staged if isinstance(delta, DeltaLocator))
            self._last_positions[partition] = max((last, *positions))
        last = self._last_positions[partition]
        if chosen is not None:
            if chosen <= last:
                raise AlreadyExistsError(
                    f"stream position {chosen} is not free: the partition has deltas up to {last}; "
                    "choose a larger position"
                )
            self.guard(ObjectRange(Kind.DELTA, partition))
        self._last_positions[partition] = last + 1 if chosen is None else chosen
        return self._last_positions[partition]

    def put(self, locator: Locator, value: Object) -> None:
        """Write an object; its namespace is guarded."""
        self._guard_namespace(locator)
        self.staged.put(locator, value)

    def delete(self, locator: Locator) -> None:
        """Delete an existing object of the base version or of this transaction."""
        was_put = locator in self.staged.puts
        self.staged.withdraw(locator)
        there = self._there(locator)
        if there is not None and (not was_put or self.snapshot.get(there) is not None):
            self._guard_namespace(locator)
            self.staged.deletes.add(there)

    def guard(self, item: Locator | ObjectRange) -> None:
        """Conflict with concurrent writes of the object, or into the range, at every isolation level.

        Objects created by this transaction need no guard.
        """
        if isinstance(item, ObjectRange):
            parent = self._parent_there(item.parent)
            if parent is not _NOWHERE:
                self.guards.add(ObjectRange(item.kind, parent, item.prefix))
        elif (there := self._there(item)) is not None:
            self.guards.add(there)

    def read_rows(self, rows: RowRange) -> None:
        """Record rows as read; later writes to their table may depend on them."""
        self.rows_read.add(rows)
        self.streams_read.add(rows.stream)

    def guard_rows(self, rows: RowRange) -> None:
        """Conflict with concurrent changes of the rows at every isolation level."""
        self.rows_guarded.add(rows)

    def unrecorded(self) -> "Workspace":
        """Return a view of this workspace whose reads and scans are not recorded."""
        view = copy.copy(self)
        view.reads, view.scans = set(), set()
        return view

    def guard_default_version(self, locator: TableLocator, table: TableEntry) -> None:
        """Conflict with concurrent commits that change the default table version.

        A transaction that writes the table itself conflicts with them anyway.
        """
        there = self._there(locator)
        if isinstance(there, TableLocator) and locator not in self.staged.puts and table.default_version is not None:
            identity = TableIdentity(table.namespace_id, table.id)
            self.guards.add(DefaultVersion(there, identity, table.default_version))

    def move_namespace(self, old: NamespaceLocator, new: NamespaceLocator, value: NamespaceEntry) -> None:
        """Rename a namespace, including the objects that this transaction wrote in it."""
        before = self.snapshot.get(old)
        if isinstance(before, NamespaceEntry) and before.id == value.id:
            self.origins[value.id] = old.name
        inside = [*self.staged.below(Kind.TABLE, old), *self.staged.below(Kind.VIEW, old)]
        for locator, moved in inside:
            self.staged.withdraw(locator)
            self.staged.put(_at(locator, new), moved)
        self.delete(old)
        self.staged.put(new, value)

    def changes(
        self,
        transaction_id: str,
        message: str = "",
        author: str = "",
        properties: Mapping[str, str] = NO_PROPERTIES,
        commit_before_millis: int | None = None,
    ) -> Changes:
        """Return the changes to commit, with what must not have changed meanwhile."""
        puts = self.staged.puts
        replaced = {there for locator in puts if (there := self._there(locator)) is not None}
        deletes = self.staged.deletes - replaced
        for locator in deletes & puts.keys():
            raise InvalidInputError(
                f"{locator} was dropped and its name reused in another namespace of that name in the "
                "same transaction; use two transactions"
            )
        # Concurrent commits know objects in a renamed namespace by its former name only.
        guards = self.guards | replaced if self.origins else self.guards
        return Changes(
            transaction_id,
            puts=dict(puts),
            deletes=frozenset(deletes),
            reads=frozenset(self.reads),
            scans=frozenset(self.scans),
            guards=frozenset(guards),
            rows_read=frozenset(self.rows_read),
            rows_guarded=frozenset(self.rows_guarded),
            settings=None if self.settings == self.snapshot.settings else self.settings,
            message=message,
            author=author,
            properties=properties,
            commit_before_millis=commit_before_millis,
        )

    def differences(self) -> Iterator[Difference]:
        """Yield the differences that this transaction makes to its base version."""
        replaced: set[Locator] = set()
        for locator, value in self.staged.puts.items():
            there = self._there(locator)
            before = None if there is None else self.snapshot.get(there)
            if there is not None and there != locator:
                yield Difference(there, before, None)
                before = None
            if there is not None:
                replaced.add(there)
            yield Difference(locator, before, value)
        for locator in sorted(self.staged.deletes - replaced):
            yield Difference(locator, self.snapshot.get(locator), None)

    def _there(self, locator: Locator) -> Locator | None:
        """Return the base version's locator of `locator`; None if the base version cannot have it."""
        if not isinstance(locator, TableLocator | ViewLocator):
            return locator
        parent = self._parent_there(locator.parent)
        return None if parent is _NOWHERE else _at(locator, parent)

    def _parent_there(self, parent: Parent) -> Parent | _Nowhere:
        if not isinstance(parent, NamespaceLocator):
            return parent
        value = self.staged.puts.get(parent)
        if not isinstance(value, NamespaceEntry):
            return _NOWHERE if parent in self.staged.deletes else parent
        origin = self.origins.get(value.id)
        if origin is not None:
            return NamespaceLocator(origin)
        before = self.snapshot.get(parent)
        return parent if isinstance(before, NamespaceEntry) and before.id == value.id else _NOWHERE

    def _guard_namespace(self, locator: Locator) -> None:
        if isinstance(locator, TableLocator | ViewLocator):
            parent = self._parent_there(locator.parent)
            if isinstance(parent, NamespaceLocator):
                self.guards.add(parent)


def _return(value: Object, _: Locator) -> Object:
    return value


def _move(locator: Locator, parent: Parent, load: LoadObject) -> tuple[Locator, LoadObject]:
    """Return the same name in another namespace, with the function that loads the object."""
    moved = _at(locator, parent)
    return moved, load if moved is locator else lambda _: load(locator)


def _at(locator: Locator, parent: Parent) -> Locator:
    """Return the same name in another namespace."""
    if not isinstance(parent, NamespaceLocator) or not isinstance(locator, TableLocator | ViewLocator):
        return locator
    return locator if locator.namespace == parent.name else type(locator)(parent.name, locator.name)
