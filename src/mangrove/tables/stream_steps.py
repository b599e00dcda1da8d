"""What each version of a table gives to those who follow it: new files, a change of rows, or nothing."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256

from mangrove.model.manifests import FileKind
from mangrove.model.objects import Delta, DeltaType
from mangrove.tables.scan_plan import FileScan, plan_scan
from mangrove.tables.table_state import Log, TableState

__all__ = ["Step", "Unit", "changed_versions", "fingerprint", "first_step", "step_between"]

_ADDING = frozenset({DeltaType.APPEND, DeltaType.ADD})


@dataclass(frozen=True, slots=True)
class Unit:
    """What a batch takes or leaves as a whole: a file of new rows, or all changes of a version."""

    row_count: int
    size_bytes: int
    scan: FileScan | None = None
    """The file; None for changes, which are found by comparing the version with the one before."""


@dataclass(frozen=True, slots=True)
class Step:
    """A version with what it gives, in an order that every reading of the history finds again."""

    version: int
    units: tuple[Unit, ...]
    is_first: bool = False
    """Whether this is the whole table as the version has it, with which a stream begins."""

    @property
    def is_change(self) -> bool:
        """Whether rows that were there before were changed or deleted."""
        return any(unit.scan is None for unit in self.units)


def first_step(state: TableState, version: int) -> Step:
    """Return the whole table, file by file, with what hides rows of each."""
    return Step(version, tuple(_unit(scan) for scan in plan_scan(state).scans), is_first=True)


def step_between(before: TableState, after: TableState, version: int) -> Step:
    """Return what a version added, told from its logs and those of the version before.

    A compaction puts other files in the place of the same rows, so it gives nothing.
    """
    was = {log.values: log for log in before.logs}
    units: list[Unit] = []
    remaining = {log.values for log in after.logs}
    is_change = any(log.deltas and log.values not in remaining for log in before.logs)
    for log in after.logs:
        there = was.get(log.values, Log(log.values))
        known = {delta.position: delta for delta in there.deltas}
        new = [delta for delta in log.deltas if known.get(delta.position) != delta]
        is_change = is_change or not _is_explained(there, log, new)
        for delta in new:
            if delta.type in _ADDING:
                units += _added(log, delta)
            elif not _is_compaction(there, delta):
                is_change = True
    if not is_change:
        return Step(version, tuple(units))
    old = {file.location for log in before.logs for delta in log.deltas for file in delta.manifest.entries}
    entries = [file for log in after.logs for delta in log.deltas for file in delta.manifest.entries]
    new_files = [file for file in entries if file.location not in old]
    rows, size_bytes = sum(file.row_count for file in new_files), sum(file.size_bytes for file in new_files)
    return Step(version, (Unit(max(1, rows), max(1, size_bytes)),))


def changed_versions(low: int, high: int, logs_of: Callable[[int], tuple[Log, ...]]) -> Iterator[int]:
    """Yield the versions after `low` up to `high` that have other logs than the one before, in order.

    Where both ends have the same logs, nothing between them is looked at: a table
    that rests costs two look-ups, however many versions other tables made meanwhile.
    """
    if low >= high or logs_of(low) == logs_of(high):
        return
    if high - low == 1:
        yield high
        return
    middle = (low + high) // 2
    yield from changed_versions(low, middle, logs_of)
    yield from changed_versions(middle, high, logs_of)


def fingerprint(state: TableState) -> str:
    """Return a short text that two versions share only where they have the same deltas."""
    digest = sha256()
    for log in state.logs:
        digest.update(repr(log.values).encode())
        for delta in log.deltas:
            locations = [file.location for file in delta.manifest.entries]
            digest.update(repr((delta.position, delta.type.value, locations)).encode())
    return digest.hexdigest()[:16]


def _is_explained(before: Log, after: Log, new: list[Delta]) -> bool:
    """Return whether every delta that is gone was compacted away; a rollback takes deltas away too."""
    through = max((delta.replaces_through or 0 for delta in new if _is_compaction(before, delta)), default=0)
    left = {delta.position: delta for delta in after.deltas}
    return all((delta.position or 0) <= through for delta in before.deltas if left.get(delta.position) != delta)


def _is_compaction(before: Log, delta: Delta) -> bool:
    """Return whether a delta stands for rows that were all there before.

    One that reaches further was written together with rows that nobody has seen.
    """
    through = delta.replaces_through
    return delta.type is DeltaType.REPLACE and through is not None and through <= before.last_position


def _added(log: Log, delta: Delta) -> Iterator[Unit]:
    assert delta.position is not None
    for file in delta.manifest.entries:
        if file.kind is FileKind.DATA and file.row_count:
            yield _unit(FileScan(file, delta.position, log.values))


def _unit(scan: FileScan) -> Unit:
    return Unit(scan.file.row_count, scan.file.size_bytes, scan)
