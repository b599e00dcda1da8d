"""The changes of each source version, mapped to the destination.

Version numbers and data file locations are mapped; everything else is unchanged.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mangrove.errors import FormatError
from mangrove.maintenance.context import MaintenanceContext
from mangrove.maintenance.export_records import find_export, format_export_location, parse_pin_end
from mangrove.metastore import Changes, Commit, Difference, MetastoreSnapshot
from mangrove.model.locators import Kind, Locator
from mangrove.model.manifests import DataFile
from mangrove.model.objects import Delta, Object, SharedTransactionEntry, SharedTransactionState
from mangrove.model.settings import STRICT_TREE, LakehouseSettings
from mangrove.rebase import restore_object

__all__ = [
    "ConversionMapping",
    "Relocate",
    "StoreRows",
    "VersionStep",
    "build_step_changes",
    "describe_dropped_settings",
    "find_rollback_target",
    "iterate_steps",
]

Relocate = Callable[[str], str]
"""Maps a data file location of the source to one of the destination."""
StoreRows = Callable[[DataFile], DataFile]
"""Writes the inline rows of an entry as a data file, and returns the entry of the file."""


@dataclass(frozen=True, slots=True)
class ConversionMapping:
    """The mapping of version numbers and data file locations."""

    numbers: Mapping[int, int]
    """The destination version of each source version."""
    relocate: Relocate
    keeps_shared: bool = True
    """Whether shared transactions are converted; without their base version they cannot be published."""
    dropped_properties: frozenset[str] = frozenset()
    """Lakehouse properties without meaning in the destination layout."""
    strict: bool = False
    """Whether the destination is a strict tree."""
    path_bytes_min: int = 0
    """The size of the longest path in the destination, which its limit must allow."""
    store_rows: StoreRows | None = None
    """Writes inline rows as data files; None if the destination has inline rows too."""

    def object(self, value: Object) -> Object | None:
        """Return the object for the destination, or None if it is not converted."""
        match value:
            case Delta():
                return self._delta(value)
            case SharedTransactionEntry(state=SharedTransactionState.PUBLISHED):
                # It records the progress of a stream and has no base version.
                return value
            case SharedTransactionEntry():
                base = self.numbers.get(value.base_version)
                return replace(value, base_version=base) if self.keeps_shared and base is not None else None
            case _:
                return value

    def settings(self, value: LakehouseSettings) -> LakehouseSettings:
        """Return the lakehouse definition for the destination."""
        ages = value.maximum_version_age_millis_overrides
        dropped = self.dropped_properties | {STRICT_TREE}
        properties = {name: text for name, text in value.properties.items() if name not in dropped}
        if self.strict:
            properties[STRICT_TREE] = "true"
        return replace(
            value,
            properties=properties,
            file_path_max_size_bytes=max(value.file_path_max_size_bytes, self.path_bytes_min),
            maximum_version_age_millis_overrides={
                self.numbers[version]: age for version, age in ages.items() if version in self.numbers
            },
            exported_snapshots={
                name: kept
                for name in value.exported_snapshots
                if (kept := self._export_location(value, name)) is not None
            },
        )

    def _export_location(self, settings: LakehouseSettings, name: str) -> str | None:
        """Return the location of an export if its name still has the right version, else the version alone."""
        location = settings.exported_snapshots[name]
        try:
            version = find_export(settings, name).version
        except FormatError:
            return location  # it names no version here either
        number = self.numbers.get(version)
        if number is None:
            return None
        if "://" in location and number == version:
            return location
        return format_export_location("", number, None, parse_pin_end(location))

    def _delta(self, delta: Delta) -> Delta:
        entries = tuple(self._file(entry) for entry in delta.manifest.entries)
        replaced = tuple(self.relocate(location) for location in delta.replaced_locations)
        if entries == delta.manifest.entries and replaced == delta.replaced_locations:
            return delta
        return replace(delta, manifest=replace(delta.manifest, entries=entries), replaced_locations=replaced)

    def _file(self, file: DataFile) -> DataFile:
        if file.is_inline:
            return file if self.store_rows is None else self.store_rows(file)
        applies_to = None if file.applies_to is None else self.relocate(file.applies_to)
        location = self.relocate(file.location)
        if (location, applies_to) == (file.location, file.applies_to):
            return file
        return replace(file, location=location, applies_to=applies_to)


def describe_dropped_settings(settings: LakehouseSettings, conversion_mapping: ConversionMapping) -> list[str]:
    """Return what of a lakehouse's own definition is not carried over."""
    kept = conversion_mapping.settings(settings).exported_snapshots
    exports = [
        f"the export {name!r} names a version that is not converted; it is dropped"
        for name in settings.exported_snapshots
        if name not in kept
    ]
    dropped = conversion_mapping.dropped_properties & settings.properties.keys()
    return exports + [
        f"the property {name} has no meaning in the destination; it is dropped" for name in sorted(dropped)
    ]


_KINDS = tuple(kind for kind in Kind if kind is not Kind.LAKEHOUSE)


@dataclass(frozen=True, slots=True)
class VersionStep:
    """One version of the source and its predecessor."""

    before: MetastoreSnapshot | None
    after: MetastoreSnapshot

    @property
    def commit(self) -> Commit:
        """The history entry of the version."""
        return self.after.commit

    def differences(self, lake: MaintenanceContext) -> Iterator[Difference]:
        """Yield the changes of the version, parents before children; for the first version all objects."""
        if self.before is not None:
            yield from lake.maintenance.differences(self.before, self.after)
            return
        for kind in _KINDS:
            for locator, value in lake.maintenance.objects(self.after, kind):
                yield Difference(locator, None, value)


def iterate_steps(lake: MaintenanceContext, versions: Sequence[int], done: int = 0) -> Iterator[VersionStep]:
    """Yield the versions in order, without the first `done` of them."""
    before = lake.metastore.at_version(versions[done - 1]) if done else None
    for version in versions[done:]:
        after = lake.metastore.at_version(version)
        yield VersionStep(before, after)
        before = after


def build_step_changes(
    lake: MaintenanceContext, step: VersionStep, conversion_mapping: ConversionMapping, transaction_id: str
) -> Changes:
    """Return the changes that turn the destination's newest version into this one.

    A version without changes, such as one that only rewrote the tree, is converted too:
    it writes the definition again.
    """
    puts: dict[Locator, Object] = {}
    deletes: set[Locator] = set()
    for one in step.differences(lake):
        before = None if one.before is None else conversion_mapping.object(one.before)
        after = None if one.after is None else conversion_mapping.object(one.after)
        if after is not None and after != before:
            puts[one.locator] = after
        elif after is None and before is not None:
            deletes.add(one.locator)
    settings = conversion_mapping.settings(step.after.settings)
    is_new = step.before is None or settings != conversion_mapping.settings(step.before.settings)
    commit = step.commit
    return Changes(
        transaction_id,
        puts=puts,
        deletes=frozenset(deletes),
        settings=settings if is_new or not (puts or deletes) else None,
        message=commit.message,
        author=commit.author,
        properties=commit.properties,
    )


def find_rollback_target(lake: MaintenanceContext, versions: Sequence[int], number: int) -> int | None:
    """Return the earlier version that a rollback at this index restored, or None if it has expired.

    The history does not record it, so versions are compared, latest first. A version
    shares nearly all nodes with its rollback target, so each comparison costs few requests.
    None is also returned for a rollback of an earlier release that let column ids be
    assigned again, because a rollback does not repeat it.
    """
    after = lake.metastore.at_version(versions[number])
    replaced = lake.metastore.at_version(versions[number - 1])
    if not all(map(_keeps_column_ids, lake.maintenance.differences(replaced, after))):
        return None
    for earlier in reversed(range(number)):
        before = lake.metastore.at_version(versions[earlier])
        if all(map(_is_restored, lake.maintenance.differences(before, after))) and _same_settings(before, after):
            return earlier
    return None


def _keeps_column_ids(rollback: Difference) -> bool:
    return rollback.after is None or restore_object(rollback.before, rollback.after) == rollback.after


def _is_restored(difference: Difference) -> bool:
    """Return whether an object of a version and that of a rollback to it differ only in what a rollback preserves."""
    return difference.before is not None and restore_object(difference.after, difference.before) == difference.after


def _same_settings(before: MetastoreSnapshot, after: MetastoreSnapshot) -> bool:
    """Return whether two versions have the same definition, ignoring the version bookkeeping."""

    def content(snapshot: MetastoreSnapshot) -> LakehouseSettings:
        return replace(snapshot.settings, exported_snapshots={}, maximum_version_age_millis_overrides={})

    return content(before) == content(after)
