"""Conflict errors and the rebase of changes onto concurrent commits, shared by all layouts."""

from collections.abc import Callable, Collection
from dataclasses import replace

from mangrove.errors import ConflictError
from mangrove.metastore import Changes, Commit, Scan, Snapshot
from mangrove.model.locators import DeltaLocator, Kind, Locator, PartitionLocator
from mangrove.model.objects import Partition

__all__ = ["assign_positions", "build_conflict_error", "build_rollback_conflict_error", "drop_identical_writes"]


def build_conflict_error(concurrent_commit: Commit, said: Collection[str], advice: str = "") -> ConflictError:
    """Return the error for whoever meets a rival at the objects of which this is said."""
    advice = advice or (
        f"Nothing was committed; read again as of version {concurrent_commit.version} or later, "
        "and repeat the transaction"
    )
    return ConflictError(
        f"{', '.join(sorted(said))}: {concurrent_commit.by(said)} changed it first, "
        f"in version {concurrent_commit.version}. {advice}"
    )


def build_rollback_conflict_error(concurrent_commit: Commit) -> ConflictError:
    """Return the error for whoever finds that a rival has rolled the lakehouse back."""
    return ConflictError(
        f"the whole lakehouse was rolled back by {concurrent_commit.by(())} in version {concurrent_commit.version}, "
        "which contests everything. Nothing was committed; read again and repeat the transaction"
    )


def drop_identical_writes(
    changes: Changes, base: Snapshot, newest: Snapshot, is_written: Callable[[Locator], bool]
) -> tuple[Changes, frozenset[Locator]]:
    """Return the changes without what rivals wrote in just the same way, and the puts that commute with theirs.

    Both concern partitions, which whoever comes first to their values makes. To make
    one says only that it is there, so it agrees with whatever rivals did to it after
    one of them made it, too. And to rewrite one that nobody else has rewritten
    follows rivals that made it, as it would follow the deltas that they added.
    """
    maybe = [locator for locator in changes.puts if is_written(locator)]
    there = dict(zip(maybe, newest.get_many(maybe), strict=True))
    same = {locator for locator in maybe if there[locator] == changes.puts[locator]}
    differing = [locator for locator in maybe if locator.kind is Kind.PARTITION and locator not in same]
    made = [locator for locator, was in zip(differing, base.get_many(differing), strict=True) if was is None]
    for locator in made:
        put, now = changes.puts[locator], there[locator]
        assert isinstance(put, Partition)
        if isinstance(now, Partition) and put == _as_created(now):
            same.add(locator)
    kept = {locator: value for locator, value in changes.puts.items() if locator not in same}
    commuting = frozenset(
        locator
        for locator in made
        if isinstance(now := there[locator], Partition) and locator in kept and now == _as_created(now)
    )
    return (replace(changes, puts=kept) if same else changes), commuting


def _as_created(partition: Partition) -> Partition:
    """Return the partition as it was before anybody rewrote it."""
    return Partition(partition.id, partition.values, partition.scheme_id)


def assign_positions(changes: Changes, base: Snapshot) -> Changes:
    """Return the changes with new deltas moved behind those that `base` has, in their order."""
    partitions: dict[PartitionLocator, list[DeltaLocator]] = {}
    for locator in changes.puts:
        # Where nobody may have added any they stay: what an undo brings back stands before what came later.
        if isinstance(locator, DeltaLocator) and Scan(Kind.DELTA, locator.parent) not in changes.guards:
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
