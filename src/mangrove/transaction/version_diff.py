"""Differences between versions, and the changes that restore an earlier version of the lakehouse or of a table.

Restored deltas take their former positions. So a restored table conflicts with all concurrent writes
below it: what was compared is guarded, and the streams are written even if they stay the same.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias, runtime_checkable

from mangrove.errors import ConflictError, NotFoundError
from mangrove.metastore import (
    BelowTable,
    Changes,
    Commit,
    Difference,
    Metastore,
    MetastoreSnapshot,
    ObjectRange,
    Parent,
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
    TableVersionLocator,
    ViewLocator,
)
from mangrove.model.manifests import FileKind
from mangrove.model.objects import (
    LAST_TABLE_VERSION,
    AliasEntry,
    Delta,
    DeltaType,
    NamespaceEntry,
    Object,
    SharedTransactionEntry,
    SharedTransactionState,
    TableEntry,
    TableVersion,
)
from mangrove.rebase import restore_object
from mangrove.transaction.catalog import (
    KIND_BELOW,
    CatalogReader,
    check_name_free,
    identity_of,
    load_table,
    scan_objects_below,
)
from mangrove.transaction.history import HistoryEntry
from mangrove.transaction.table_versions import (
    accepts_rows_of,
    find_last_number,
    load_table_versions,
)
from mangrove.transaction.workspace import Workspace

__all__ = [
    "SupportsRollback",
    "build_restore_changes",
    "check_undoable",
    "describe_object",
    "diff_snapshots",
    "find_changing_commit",
    "find_narrowed_versions",
    "restore_stream",
    "restore_table",
    "roll_back_table",
    "scan_all_objects",
    "scan_table_changes",
    "scan_table_history",
    "select_undone",
]

_Objects: TypeAlias = Mapping[BelowTable | DeltaLocator, Object]


@runtime_checkable
class _SupportsDiff(Protocol):
    """A metastore that compares versions by reading only what they do not share."""

    def differences(self, before: MetastoreSnapshot, after: MetastoreSnapshot) -> Iterator[Difference]: ...


@runtime_checkable
class SupportsRollback(Protocol):
    """A metastore with its own rollback."""

    def roll_back(self, to: MetastoreSnapshot, changes: Changes) -> MetastoreSnapshot:
        """Commit the content of `to` as the next version."""
        ...


def diff_snapshots(metastore: Metastore, before: MetastoreSnapshot, after: MetastoreSnapshot) -> Iterator[Difference]:
    """Yield the objects that differ; reads both versions in full if the layout cannot compare them."""
    if isinstance(metastore, _SupportsDiff):
        return metastore.differences(before, after)
    return _diff_by_scan(before, after)


def find_changing_commit(
    metastore: Metastore, locator: Locator, before: MetastoreSnapshot, after: MetastoreSnapshot
) -> Commit:
    """Return a commit after `before` in which the object got its state in `after`, if the two differ.

    This bisects. Changes of expired versions are attributed to the first live version
    after them.
    """
    value = after.get(locator)
    low, high, found = before.version, after.version, after.commit
    while high - low > 1:
        middle = (low + high) // 2
        try:
            snapshot = metastore.at_version(middle)
        except NotFoundError:
            low = middle
            continue
        if snapshot.get(locator) == value:
            high, found = middle, snapshot.commit
        else:
            low = middle
    return found


def scan_all_objects(snapshot: MetastoreSnapshot) -> Iterator[tuple[Locator, Object]]:
    """Yield every reachable object of a version."""
    yield from snapshot.children(Kind.SHARED_TRANSACTION, None)
    yield from snapshot.children(Kind.ALIAS, None)
    spaces = list(snapshot.children(Kind.NAMESPACE, None))
    yield from spaces
    parents: list[Parent] = []
    for space, _ in spaces:
        assert isinstance(space, NamespaceLocator)
        yield from snapshot.children(Kind.VIEW, space)
        for locator, table in snapshot.children(Kind.TABLE, space):
            yield locator, table
            assert isinstance(table, TableEntry)
            parents.append(TableIdentity(table.namespace_id, table.id))
    for kind in (Kind.TABLE_VERSION, Kind.STREAM, Kind.PARTITION, Kind.DELTA):
        found = [entry for parent in parents for entry in snapshot.children(kind, parent)]
        yield from found
        parents = [
            locator
            for locator, _ in found
            if isinstance(locator, TableVersionLocator | StreamLocator | PartitionLocator)
        ]


def build_restore_changes(differences: Iterable[Difference], transaction_id: str, message: str) -> Changes:
    """Return the changes that turn each `after` into its `before`.

    Restored deltas take their former positions, so concurrent writes to their
    partitions conflict.
    """
    puts: dict[Locator, Object] = {}
    deletes: set[Locator] = set()
    guards: set[Locator | ObjectRange] = set()
    found = list(differences)
    along = _renamed_with_namespace(found)
    for difference in found:
        locator = difference.locator
        if locator in along:
            continue
        if difference.before is None:
            deletes.add(locator)
            guards |= _scans_below(locator)
        else:
            puts[locator] = restore_object(difference.after, difference.before)
        if isinstance(locator, DeltaLocator):
            guards.add(ObjectRange(Kind.DELTA, locator.parent))
    return Changes(transaction_id, puts, frozenset(deletes), guards=frozenset(guards), message=message)


def _renamed_with_namespace(differences: Sequence[Difference]) -> set[Locator]:
    """Return the tables and views that differ only by the name of their namespace; renaming it restores them."""
    was = {one.before.id: one.locator for one in differences if isinstance(one.before, NamespaceEntry)}
    renamed = {
        was[one.after.id]: one.locator
        for one in differences
        if isinstance(one.after, NamespaceEntry) and was.get(one.after.id, one.locator) != one.locator
    }
    now = {one.locator: one.after for one in differences}
    moved: set[Locator] = set()
    for one in differences:
        if isinstance(one.locator, TableLocator | ViewLocator) and one.locator.parent in renamed:
            new = replace(one.locator, namespace=str(renamed[one.locator.parent].parts[-1]))
            if one.before is not None and now.get(new) == one.before:
                moved |= {one.locator, new}
    return moved


def _scans_below(locator: Locator) -> set[Locator | ObjectRange]:
    match locator:
        case NamespaceLocator():
            return {ObjectRange(Kind.TABLE, locator), ObjectRange(Kind.VIEW, locator), ObjectRange(Kind.ALIAS, None)}
        case TableLocator():
            return {ObjectRange(Kind.ALIAS, None)}
        case TableVersionLocator():
            return {ObjectRange(Kind.STREAM, locator)}
        case StreamLocator():
            return {ObjectRange(Kind.PARTITION, locator)}
        case PartitionLocator():
            return {ObjectRange(Kind.DELTA, locator)}
    return set()


def _diff_by_scan(before: MetastoreSnapshot, after: MetastoreSnapshot) -> Iterator[Difference]:
    was, now = dict(scan_all_objects(before)), dict(scan_all_objects(after))
    for locator in sorted(was.keys() | now.keys()):
        if was.get(locator) != now.get(locator):
            yield Difference(locator, was.get(locator), now.get(locator))


def select_undone(differences: Iterable[Difference]) -> list[Difference]:
    """Return the differences that an undo of a version reverts.

    A partition created by the version stays unless its stream is deleted too: later
    commits may have added to it, and an empty one is harmless. The record of the last
    streaming batch stays too, so that undone rows are not written again by the stream.
    """
    found = [one for one in differences if not _is_batch_record(one)]
    made = {one.locator for one in found if one.before is None}
    return [
        one
        for one in found
        if not isinstance(one.locator, PartitionLocator) or one.before is not None or one.locator.parent in made
    ]


def check_undoable(
    undone: Sequence[Difference],
    later: Iterable[Difference],
    version: int,
    name_table: Callable[[TableIdentity], str],
    has_keys: Callable[[TableVersionLocator], bool],
) -> None:
    """Raise an error if a later version changed an object of this one or depends on it.

    A table version that is restored must accept the rows that later versions wrote to it.
    The same holds if this version removed a change of rows, which the undo would restore, and a
    later one removed deltas before it: the change was computed from their rows. It also holds
    if the undo would bring rows back to a table with keys to which a later version added rows
    without a replacement by key: they may have the same keys. Shared transactions are ignored.
    """
    changed = {difference.locator for difference in undone}
    made = {difference.locator for difference in undone if difference.before is None}
    partitions = {locator.parent for locator in changed if isinstance(locator, DeltaLocator)}
    restored = _find_restored_changes(undone)
    regained = {stream for stream in _find_streams_that_regain_rows(undone) if has_keys(stream.parent)}
    narrowed = find_narrowed_versions(undone)
    for difference in later:
        locator = difference.locator
        if locator.kind is Kind.SHARED_TRANSACTION:
            continue
        # A rewrite of a partition writes the partition, and may have merged the deltas.
        is_rewritten = locator in partitions and difference.before is not None
        above = [difference.after.target_locator] if isinstance(difference.after, AliasEntry) else _ancestors(locator)
        is_read = (
            isinstance(locator, DeltaLocator)
            and difference.after is None
            and locator.position < restored.get(locator.parent, 0)
        )
        is_added = isinstance(locator, DeltaLocator) and locator.parent.parent in regained and _adds_rows(difference)
        is_invalid = (
            isinstance(locator, DeltaLocator) and difference.after is not None and not narrowed.isdisjoint(above)
        )
        if locator in changed or is_rewritten or is_read or is_added or is_invalid or any(one in made for one in above):
            raise ConflictError(
                f"version {version} cannot be undone: a later version changed {describe_object(locator, name_table)}. "
                "Undo the later versions first, or roll back the whole lakehouse"
            )


def find_narrowed_versions(undone: Iterable[Difference]) -> set[TableVersionLocator]:
    """Return the table versions that do not accept all rows any more when the differences are reverted."""
    return {
        one.locator
        for one in undone
        if isinstance(one.locator, TableVersionLocator)
        and isinstance(one.before, TableVersion)
        and isinstance(one.after, TableVersion)
        and not accepts_rows_of(one.before, one.after)
    }


def _find_restored_changes(undone: Sequence[Difference]) -> dict[PartitionLocator, int]:
    """Return the last positions of the restored deltas that change rows of earlier deltas, by partition."""
    positions: dict[PartitionLocator, int] = {}
    for one in undone:
        if (
            isinstance(one.locator, DeltaLocator)
            and isinstance(one.before, Delta)
            and one.after is None
            and one.before.type not in (DeltaType.APPEND, DeltaType.ADD)
        ):
            partition = one.locator.parent
            positions[partition] = max(one.locator.position, positions.get(partition, 0))
    return positions


def _find_streams_that_regain_rows(undone: Sequence[Difference]) -> set[StreamLocator]:
    """Return the streams in which the version deleted or replaced rows, or removed a delta with rows."""
    return {
        one.locator.parent.parent
        for one in undone
        if isinstance(one.locator, DeltaLocator)
        and (
            (isinstance(one.after, Delta) and one.after.type not in (DeltaType.APPEND, DeltaType.ADD))
            or (one.after is None and isinstance(one.before, Delta) and _has_rows(one.before))
        )
    }


def _adds_rows(difference: Difference) -> bool:
    """Return whether a difference is a new delta with rows that do not replace others by key."""
    added = difference.after
    return isinstance(added, Delta) and added.type is not DeltaType.UPSERT and _has_rows(added)


def _has_rows(delta: Delta) -> bool:
    return any(file.kind is FileKind.DATA for file in delta.manifest.entries)


def describe_object(locator: Locator, name_table: Callable[[TableIdentity], str]) -> str:
    """Return the kind and the name of an object; one below a table is named by its table and table version."""
    if not isinstance(locator, TableVersionLocator | StreamLocator | PartitionLocator | DeltaLocator):
        return f"{locator.kind.word} {locator}"
    table = name_table(TableIdentity(locator.namespace_id, locator.table_id))
    match locator:
        case TableVersionLocator():
            return f"table version {locator.version} of {table}"
        case StreamLocator():
            return f"stream {locator.stream_id} of {table}.version_{locator.version}"
        case _:
            return f"rows of table {table}.version_{locator.version}"


def _is_batch_record(difference: Difference) -> bool:
    value = difference.after or difference.before
    return isinstance(value, SharedTransactionEntry) and value.state is SharedTransactionState.PUBLISHED


def _ancestors(locator: Locator) -> Iterator[Locator]:
    above = locator.parent
    while isinstance(above, Locator):
        yield above
        above = above.parent if isinstance(above, PartitionLocator | StreamLocator) else None


def scan_table_history(
    metastore: Metastore, lines: Iterable[HistoryEntry], table: TableEntry
) -> Iterator[HistoryEntry]:
    """Yield those of the versions that changed a table, its table versions or its rows."""
    return (line for line, _ in scan_table_changes(metastore, lines, table))


def scan_table_changes(
    metastore: Metastore, lines: Iterable[HistoryEntry], table: TableEntry
) -> Iterator[tuple[HistoryEntry, list[Difference]]]:
    """Yield those of the versions that changed a table, with their differences that belong to it."""
    for line in lines:
        if line.version == 0:
            return
        after = metastore.at_version(line.version)
        try:
            before = metastore.at_version(line.version - 1)
        except NotFoundError:
            # What came before has expired, so it is unknown what this version changed.
            return
        found = [
            one
            for one in diff_snapshots(metastore, before, after)
            if any(_is_about(one.locator, value, table) for value in (one.before, one.after))
        ]
        if found:
            yield line, found


def _is_about(locator: Locator, value: Object | None, table: TableEntry) -> bool:
    if isinstance(value, TableEntry):
        return value.id == table.id
    return getattr(locator, "table_id", None) == table.id


def restore_table(workspace: Workspace, locator: TableLocator, past: MetastoreSnapshot, source: TableLocator) -> None:
    """Create a dropped table again as it was in an earlier version, with its id and rows but without its aliases."""
    check_name_free(workspace, locator)
    table = load_table(past, source)
    workspace.put(locator, replace(table, name=locator.name))
    for found, value in _load_below(past, identity_of(table)).items():
        workspace.put(found, value)


def roll_back_table(
    workspace: Workspace,
    locator: TableLocator,
    was: TableEntry,
    past: MetastoreSnapshot,
    maintained: Mapping[str, str],
) -> None:
    """Restore a table as `was` in an earlier version; its name, namespace, aliases and maintained properties stay.

    A number of a table version is not used again. Nothing is written if the table is the same.
    """
    table = load_table(workspace, locator)
    present = _load_below(workspace, identity_of(table))
    restored = {
        found: restore_object(present.get(found), value)
        for found, value in _load_below_in(past, identity_of(was), table.namespace_id).items()
    }
    properties = {**was.properties, **maintained}
    if present:
        last = find_last_number(table, load_table_versions(workspace, table))
        if last > max(found.version for found in restored):
            properties[LAST_TABLE_VERSION] = str(last)
    entry = replace(was, name=table.name, namespace_id=table.namespace_id, properties=properties)
    if entry == table and restored == present:
        return
    workspace.put(locator, entry)
    workspace.guard(ObjectRange(Kind.TABLE_VERSION, identity_of(table)))
    _replace_objects(workspace, present, restored)


def restore_stream(workspace: Workspace, stream: StreamLocator, past: MetastoreSnapshot, was: StreamLocator) -> None:
    """Restore the partitions and deltas of a stream as they were in an earlier version."""
    present, restored = _load_below(workspace, stream), _load_below_in(past, was, stream.namespace_id)
    _replace_objects(workspace, present, {**restored, stream: present[stream]})


def _replace_objects(workspace: Workspace, present: _Objects, restored: _Objects) -> None:
    for found in present:
        following = KIND_BELOW.get(found.kind)
        if following is not None:
            assert not isinstance(found, DeltaLocator)
            workspace.guard(ObjectRange(following, found))
        if found not in restored:
            workspace.delete(found)
    for found, value in restored.items():
        if present.get(found) != value or found.kind is Kind.STREAM:
            workspace.put(found, value)


def _load_below_in(
    past: MetastoreSnapshot, top: TableIdentity | StreamLocator, namespace_id: str
) -> dict[BelowTable | DeltaLocator, Object]:
    """Return the objects under the locators that they have in the present namespace of the table."""
    return {replace(found, namespace_id=namespace_id): value for found, value in _load_below(past, top).items()}


def _load_below(reading: CatalogReader, top: TableIdentity | StreamLocator) -> dict[BelowTable | DeltaLocator, Object]:
    found = [one for one in scan_objects_below(reading, top) if isinstance(one, BelowTable | DeltaLocator)]
    values = reading.get_many(found)
    return {locator: value for locator, value in zip(found, values, strict=True) if value is not None}
