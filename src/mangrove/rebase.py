"""Conflict errors and the rebase of changes onto concurrent commits, shared by all layouts."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from mangrove.errors import ConflictError
from mangrove.metastore import (
    Changes,
    Commit,
    Isolation,
    MetastoreSnapshot,
    ObjectRange,
    RowChangeDetector,
)
from mangrove.model.access import load_rules, store_rules
from mangrove.model.locators import (
    DeltaLocator,
    Kind,
    Locator,
    NamespaceLocator,
    PartitionLocator,
    StreamLocator,
    TableIdentity,
)
from mangrove.model.manifests import FileKind
from mangrove.model.objects import Delta, DeltaType, Object, Partition, TableEntry, TableVersion
from mangrove.model.settings import LakehouseSettings

__all__ = [
    "REWRITTEN_BY",
    "assign_positions",
    "build_conflict_error",
    "build_rollback_conflict_error",
    "check_default_versions",
    "check_row_conflicts",
    "describe_object",
    "drop_identical_writes",
    "restore_object",
    "restore_settings",
]

REWRITTEN_BY: Final = "mangrove.rewritten-by"
"""The partition property with the transaction that last rewrote the partition."""


def build_conflict_error(concurrent_commit: Commit, names: Collection[str], advice: str = "") -> ConflictError:
    """Return the error for a conflict with a concurrent commit on the named objects."""
    advice = advice or (
        f"Nothing was committed; repeat the transaction on version {concurrent_commit.version} or later"
    )
    return ConflictError(
        f"{', '.join(sorted(names))}: {concurrent_commit.by(names)} changed it first, "
        f"in version {concurrent_commit.version}. {advice}"
    )


def describe_object(locator: Locator) -> str:
    """Return the kind and the name of an object, or the ids on its path, as conflicts and guards name it."""
    return f"{locator.kind.word} {locator.canonical if locator.kind.is_below_table else locator}"


def build_rollback_conflict_error(concurrent_commit: Commit) -> ConflictError:
    """Return the error for a conflict with a concurrent rollback."""
    return ConflictError(
        f"the whole lakehouse was rolled back by {concurrent_commit.by(())} in version {concurrent_commit.version}. "
        "Nothing was committed; repeat the transaction on the newest version"
    )


def restore_settings(newest: LakehouseSettings, to: LakehouseSettings) -> LakehouseSettings:
    """Return the settings after a rollback: those of `to` with the version bookkeeping and access rules of the newest.

    A rollback of data must not give revoked rights back.
    """
    kept = replace(
        to,
        exported_snapshots=newest.exported_snapshots,
        maximum_version_age_millis_overrides=newest.maximum_version_age_millis_overrides,
    )
    return store_rules(kept, load_rules(newest))


def restore_object(newest: Object | None, to: Object) -> Object:
    """Return an object after a rollback: its earlier state, which does not assign the ids of later columns again."""
    if not isinstance(newest, TableVersion) or not isinstance(to, TableVersion) or not newest.schema or not to.schema:
        return to
    last = max(newest.schema.last_column_id, to.schema.last_column_id)
    return replace(to, schema=replace(to.schema, last_column_id=last))


def check_row_conflicts(
    changes: Changes,
    isolation: Isolation,
    base: MetastoreSnapshot,
    concurrent_commits: Sequence[MetastoreSnapshot],
    partitions_written: Callable[[int, StreamLocator], Collection[PartitionLocator]],
    have_rows_changed: RowChangeDetector,
) -> None:
    """Raise `ConflictError` if concurrent commits changed rows that must not have changed.

    `partitions_written` returns the partitions of a stream whose deltas the commit with a
    number in the list wrote. The base is compared with the newest version. The commits in
    between are compared only to name the one that conflicts.
    """
    for rows in sorted(changes.rows_to_validate(isolation), key=repr):
        writers = {
            number: set(found)
            for number in range(len(concurrent_commits))
            if (found := partitions_written(number, rows.stream))
        }
        if not writers:
            continue
        partitions = set().union(*writers.values())
        if not have_rows_changed(rows, partitions, base, concurrent_commits[-1]):
            continue
        first = next(
            (
                number
                for number in list(writers)[:-1]
                if have_rows_changed(rows, partitions, base, concurrent_commits[number])
            ),
            max(writers),
        )
        raise build_conflict_error(
            concurrent_commits[first].commit, [f"{Kind.DELTA.word} {min(writers[first]).canonical}"]
        )


def drop_identical_writes(
    changes: Changes, base: MetastoreSnapshot, newest: MetastoreSnapshot, is_written: Callable[[Locator], bool]
) -> tuple[Changes, frozenset[Locator]]:
    """Return the changes without writes that concurrent commits made identically, and the puts that commute.

    Both concern partitions, whose first writer creates them. Creating a partition only
    states that it exists, so it is compatible with all concurrent changes after its
    concurrent creation. A rewrite of a partition that was concurrently created, but not
    rewritten, follows the concurrent deltas. Two rewrites of different files of a
    partition commute.
    """
    maybe = [locator for locator in changes.puts if is_written(locator)]
    there = dict(zip(maybe, newest.get_many(maybe), strict=True))
    same = {locator for locator in maybe if there[locator] == changes.puts[locator]}
    differing = [locator for locator in maybe if locator.kind is Kind.PARTITION and locator not in same]
    known = dict(zip(differing, base.get_many(differing), strict=True))
    created = [locator for locator, was in known.items() if was is None]
    for locator in created:
        put, now = changes.puts[locator], there[locator]
        assert isinstance(put, Partition)
        if isinstance(now, Partition) and put == _as_created(now):
            same.add(locator)
    remaining = {locator: value for locator, value in changes.puts.items() if locator not in same}
    commuting = frozenset(
        locator
        for locator in created
        if isinstance(now := there[locator], Partition) and locator in remaining and now == _as_created(now)
    )
    rewritten = {
        locator
        for locator, was in known.items()
        if isinstance(was, Partition) and _rewrites_commute(changes, locator, was, base, newest)
    }
    return (replace(changes, puts=remaining) if same else changes), commuting | rewritten


def _rewrites_commute(
    changes: Changes, locator: Locator, was: Partition, base: MetastoreSnapshot, newest: MetastoreSnapshot
) -> bool:
    """Return whether the changes and concurrent commits rewrote different files of a partition.

    A replaced file must have no other change. Position deletes of one file add up; whether
    they concern the same rows is decided by rows.
    """
    assert isinstance(locator, PartitionLocator)
    for partition in (changes.puts[locator], newest.get(locator)):
        if not isinstance(partition, Partition) or _without_rewriter(partition) != _without_rewriter(was):
            return False
    last = base.last_child(Kind.DELTA, locator)
    ours = [value for one, value in changes.puts.items() if one.kind is Kind.DELTA and one.parent == locator]
    theirs = [value for _, value in newest.children(Kind.DELTA, locator, after=last)]
    own, concurrent = _find_rewritten_files(ours), _find_rewritten_files(theirs)
    if own is None or concurrent is None:
        return False
    return not (
        own.replaced & (concurrent.replaced | concurrent.deleted_from) or own.deleted_from & concurrent.replaced
    )


class _RewrittenFiles(NamedTuple):
    """The locations of files that deltas replace, and of those of which they delete rows by position."""

    replaced: frozenset[str]
    deleted_from: frozenset[str | None]


def _find_rewritten_files(deltas: Iterable[Object]) -> _RewrittenFiles | None:
    """Return the files that deltas rewrite, or None if these are not listed or belong to a compaction."""
    replaced: set[str] = set()
    deleted_from: set[str | None] = set()
    for delta in deltas:
        assert isinstance(delta, Delta)
        if delta.type is DeltaType.REPLACE:
            if not delta.replaced_locations or delta.replaces_through is not None:
                return None
            replaced.update(delta.replaced_locations)
        positions = [file for file in delta.manifest.entries if file.kind is FileKind.POSITION_DELETES]
        if delta.type is DeltaType.POSITION_DELETE and not positions:
            return None
        deleted_from.update(file.applies_to for file in positions)
    return None if None in deleted_from else _RewrittenFiles(frozenset(replaced), frozenset(deleted_from))


def _without_rewriter(partition: Partition) -> Partition:
    properties = {name: value for name, value in partition.properties.items() if name != REWRITTEN_BY}
    return replace(partition, properties=properties)


def check_default_versions(changes: Changes, newest: MetastoreSnapshot) -> None:
    """Raise `ConflictError` if a table that was written by its name has another default table version now."""
    guarded = changes.default_versions
    for guard, there in zip(guarded, newest.get_many([guard.table for guard in guarded]), strict=True):
        is_same = isinstance(there, TableEntry) and TableIdentity(there.namespace_id, there.id) == guard.identity
        table = there if is_same else _find_table(newest, guard.identity)
        if isinstance(table, TableEntry) and table.default_version != guard.version:
            raise ConflictError(
                f"{guard.table}: a concurrent commit changed its default table version from {guard.version} to "
                f"{table.default_version}. Nothing was committed; repeat the transaction on version {newest.version} "
                "or later, or write to a table version by its number"
            )


def _find_table(snapshot: MetastoreSnapshot, identity: TableIdentity) -> TableEntry | None:
    """Return a table that was renamed; there is no index from ids to names."""
    for space, _ in snapshot.children(Kind.NAMESPACE, None):
        assert isinstance(space, NamespaceLocator)
        for _, table in snapshot.children(Kind.TABLE, space):
            if isinstance(table, TableEntry) and TableIdentity(table.namespace_id, table.id) == identity:
                return table
    return None


def _as_created(partition: Partition) -> Partition:
    """Return the partition as it was before any rewrite."""
    return Partition(partition.id, partition.values, partition.scheme_id)


def assign_positions(changes: Changes, base: MetastoreSnapshot) -> Changes:
    """Return the changes with new deltas moved behind those of `base`, in order."""
    partitions: dict[PartitionLocator, list[DeltaLocator]] = {}
    for locator in changes.puts:
        # Guarded partitions keep their positions: an undo restores deltas before later ones.
        if isinstance(locator, DeltaLocator) and ObjectRange(Kind.DELTA, locator.parent) not in changes.guards:
            partitions.setdefault(locator.parent, []).append(locator)
    moved: dict[Locator, Locator] = {}
    ends = base.last_children(Kind.DELTA, list(partitions))
    for deltas, last in zip(partitions.values(), ends, strict=True):
        if isinstance(last, DeltaLocator) and last.position >= min(deltas).position:
            moved |= {
                delta: replace(delta, position=last.position + number) for number, delta in enumerate(sorted(deltas), 1)
            }
    if not moved:
        return changes
    return replace(changes, puts={moved.get(locator, locator): value for locator, value in changes.puts.items()})
