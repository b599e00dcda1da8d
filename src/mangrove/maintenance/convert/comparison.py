"""Comparison of two lakehouses by versions, objects and row counts.

The first and the newest version are compared in full, and all versions between them
by their changes, which by induction is equivalent.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mangrove.maintenance.context import MaintenanceContext
from mangrove.maintenance.convert.history import VersionStep, iterate_steps
from mangrove.maintenance.progress import Progress, ProgressCallback, format_quantity, ignore_progress
from mangrove.metastore import Commit
from mangrove.model.locators import (
    DeltaLocator,
    Kind,
    Locator,
    PartitionLocator,
    StreamLocator,
    TableVersionLocator,
)
from mangrove.model.objects import Delta, Object
from mangrove.model.settings import LakehouseSettings

__all__ = ["LakehouseComparison", "VersionMapping", "compare_lakehouses"]

_KINDS = tuple(kind for kind in Kind if kind is not Kind.LAKEHOUSE)
_DIFFERENCES_MAX = 100


@dataclass(frozen=True, slots=True)
class VersionMapping:
    """The versions of one lakehouse that correspond to those of the other, with the expected objects."""

    versions: Sequence[int]
    expected: Callable[[Object], Object | None]
    expected_settings: Callable[[LakehouseSettings], LakehouseSettings]


@dataclass(frozen=True, slots=True)
class LakehouseComparison:
    """What was compared, and the differences found."""

    versions: int
    objects: Mapping[str, int]
    """The number of objects of each kind in the newest version."""
    changes: int
    """The number of object changes in all versions."""
    rows: int
    """The number of rows in the manifests of the newest version."""
    differences: tuple[str, ...]

    def __str__(self) -> str:
        counts = ", ".join(format_quantity(count, kind) for kind, count in self.objects.items() if count)
        verdict = format_quantity(len(self.differences), "difference") if self.differences else "no difference"
        compared = f"{format_quantity(self.versions, 'version')} with {format_quantity(self.changes, 'change')}"
        return f"{verdict} in {compared}; the newest has {counts or 'no objects'}, {format_quantity(self.rows, 'row')}"


class _DifferenceLog:
    """The differences found, limited in number."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, what: str) -> None:
        if len(self.found) < _DIFFERENCES_MAX:
            self.found.append(what)


def compare_lakehouses(
    source: MaintenanceContext,
    other: MaintenanceContext,
    matched: VersionMapping,
    watch: ProgressCallback = ignore_progress,
) -> LakehouseComparison:
    """Return the differences between the source and the other lakehouse in all versions."""
    log = _DifferenceLog()
    changes = 0
    numbers = range(len(matched.versions))
    pairs = zip(iterate_steps(source, matched.versions), iterate_steps(other, numbers), strict=True)
    for number, (theirs, ours) in enumerate(pairs):
        where = f"version {number}"
        _compare_lines(theirs.commit, ours.commit, where, log)
        if matched.expected_settings(theirs.after.settings) != ours.after.settings:
            log.add(f"{where}: the lakehouse definition differs")
        expected = _changed_objects(source, theirs, matched.expected)
        changes += len(expected)
        _compare(expected, _changed_objects(other, ours, lambda value: value), where, log)
        watch(Progress("comparing versions", number + 1, len(numbers)))
    counted, rows = _compare_newest(source, other, matched, log)
    return LakehouseComparison(len(numbers), counted, changes, rows, tuple(log.found))


def _compare_lines(expected: Commit, found: Commit, where: str, log: _DifferenceLog) -> None:
    for name in ("message", "author", "properties"):
        if getattr(expected, name) != getattr(found, name):
            log.add(f"{where}: its {name} is {getattr(found, name)!r}, not {getattr(expected, name)!r}")
    if expected.transaction_id and expected.transaction_id != found.transaction_id:
        log.add(f"{where}: its transaction is {found.transaction_id}, not {expected.transaction_id}")


def _changed_objects(
    lake: MaintenanceContext, step: VersionStep, expected: Callable[[Object], Object | None]
) -> dict[Locator, Object | None]:
    before: dict[Locator, Object | None] = {}
    after: dict[Locator, Object | None] = {}
    for one in step.differences(lake):
        # A table that moves to another namespace is removed and added in the DeltaCAT layout.
        locator = _without_namespace_id(one.locator)
        if one.before is not None:
            before[locator] = expected(_without_locator_fields(one.before))
        if one.after is not None:
            after[locator] = expected(_without_locator_fields(one.after))
    locators = before.keys() | after.keys()
    return {locator: after.get(locator) for locator in locators if before.get(locator) != after.get(locator)}


def _without_namespace_id(locator: Locator) -> Locator:
    """Return the locator without the namespace id, which differs between layouts after a move."""
    parts = TableVersionLocator | StreamLocator | PartitionLocator | DeltaLocator
    return replace(locator, namespace_id="any") if isinstance(locator, parts) else locator


def _without_locator_fields(value: Object) -> Object:
    """Return the object without the fields that its locator repeats."""
    return replace(value, position=None) if isinstance(value, Delta) else value


def _compare(
    expected: Mapping[Locator, Object | None], found: Mapping[Locator, Object | None], where: str, log: _DifferenceLog
) -> None:
    for locator in sorted(expected.keys() | found.keys()):
        subject = f"{where}: {locator.kind.word} {locator}"
        if locator not in found:
            log.add(f"{subject} did not change")
        elif locator not in expected:
            log.add(f"{subject} changed unexpectedly")
        elif expected[locator] != found[locator]:
            log.add(f"{subject} differs")


def _compare_newest(
    source: MaintenanceContext, other: MaintenanceContext, matched: VersionMapping, log: _DifferenceLog
) -> tuple[dict[str, int], int]:
    """Compare the newest version in full, and return its object counts by kind and its row count."""
    counted: Counter[str] = Counter()
    rows = 0
    theirs = source.metastore.at_version(matched.versions[-1])
    ours = other.metastore.at_version(len(matched.versions) - 1)
    for kind in _KINDS:
        expected = dict(_objects(source.maintenance.objects(theirs, kind), matched.expected))
        found = dict(_objects(other.maintenance.objects(ours, kind), lambda value: value))
        _compare(expected, found, "the newest version", log)
        counted[kind.word] = len(found)
        rows += sum(value.manifest.row_count for value in found.values() if isinstance(value, Delta))
    return dict(counted), rows


def _objects(
    entries: Iterator[tuple[Locator, Object]], expected: Callable[[Object], Object | None]
) -> Iterator[tuple[Locator, Object]]:
    for locator, value in entries:
        converted = expected(_without_locator_fields(value))
        if converted is not None:
            yield _without_namespace_id(locator), converted
