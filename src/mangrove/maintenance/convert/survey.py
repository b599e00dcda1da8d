"""A scan of all versions before conversion for data files and unsupported objects."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from mangrove.errors import InvalidInputError
from mangrove.maintenance.context import MaintenanceContext
from mangrove.maintenance.convert.history import (
    ConversionMapping,
    VersionStep,
    describe_dropped_settings,
    iterate_steps,
)
from mangrove.maintenance.copy import load_file_sizes
from mangrove.maintenance.progress import Progress, ProgressCallback
from mangrove.maintenance.reachability import resolve_paths
from mangrove.metastore import MetastoreSnapshot
from mangrove.model.locators import Kind, Locator
from mangrove.model.objects import Delta, Object, TableEntry
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.port import ObjectInfo, Store

__all__ = ["Survey", "survey_versions"]

_NAMED = (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW, Kind.SHARED_TRANSACTION, Kind.ALIAS)
_NOTES_MAX = 100


@runtime_checkable
class _HasUnmappedFields(Protocol):
    """A layout whose files can contain more than the objects represent."""

    def list_unmapped_fields(
        self, snapshot: MetastoreSnapshot, locators: Sequence[Locator]
    ) -> list[tuple[str, ...]]: ...


@runtime_checkable
class _HasForeignCommits(Protocol):
    """A layout with commits of another program that are not imported as versions yet."""

    def list_foreign_commits(self) -> list[str]: ...


@dataclass
class Survey:
    """The result of the scan."""

    locations: set[str] = field(default_factory=set)
    """The data file locations in the manifests."""
    inline_locations: set[str] = field(default_factory=set)
    """The locations of inline rows, which are the same in the destination."""
    elsewhere: int = 0
    notes: dict[str, None] = field(default_factory=dict)
    changed: list[Locator] = field(default_factory=list)
    """The puts of the current version."""
    _unmapped_fields: set[tuple[Kind, str]] = field(default_factory=set)

    def note(self, what: str) -> None:
        """Add a note once; the number of notes is limited."""
        if len(self.notes) < _NOTES_MAX:
            self.notes[what] = None

    def note_unmapped_fields(self, lake: MaintenanceContext, snapshot: MetastoreSnapshot) -> None:
        """Note the fields of the changed objects that the destination cannot represent, each kind once."""
        changed, self.changed = self.changed, []
        if not isinstance(lake.maintenance, _HasUnmappedFields):
            return
        for locator, found in zip(changed, lake.maintenance.list_unmapped_fields(snapshot, changed), strict=True):
            for what in found:
                if (locator.kind, what) not in self._unmapped_fields:
                    self._unmapped_fields.add((locator.kind, what))
                    self.note(
                        f"{what} is not supported there and is dropped, e.g. of the {locator.kind.word} {locator}"
                    )

    def paths(self, source: Store) -> dict[str, str]:
        """Return the path below the source root of each data file below it, by location.

        URIs of other programs may be escaped or not; the variant that exists is used.
        """
        readings = {location: resolve_paths(location, source.uri) for location in self.locations}
        self.elsewhere = sum(not paths for paths in readings.values())
        found = {location: paths[0] for location, paths in readings.items() if len(paths) == 1}
        unsure = {location: paths for location, paths in readings.items() if len(paths) > 1}
        there = {entry.path for entry in source.list() if isinstance(entry, ObjectInfo)} if unsure else set()
        for location, paths in unsure.items():
            found[location] = next((path for path in paths if path in there), paths[0])
        return found

    def sizes(self, source: Store) -> dict[str, int]:
        """Return the sizes of the data files below the source root; raise an error if one is missing."""
        return load_file_sizes(source, set(self.paths(source).values()))


def survey_versions(
    lake: MaintenanceContext,
    versions: Sequence[int],
    conversion_mapping: ConversionMapping,
    *,
    ids_without_dots: bool,
    watch: ProgressCallback,
) -> Survey:
    """Scan the versions before conversion; raise an error for objects that the destination does not support."""
    survey = Survey()
    for transaction in (
        lake.maintenance.list_foreign_commits() if isinstance(lake.maintenance, _HasForeignCommits) else []
    ):
        survey.note(
            f"transaction {transaction} of DeltaCAT is not imported yet and cannot be converted; "
            f"run `mangrove check --repair` on {lake.store.uri} first"
        )
    for number, step in enumerate(iterate_steps(lake, versions), start=1):
        settings = conversion_mapping.settings(step.after.settings)
        for note in describe_dropped_settings(step.after.settings, conversion_mapping):
            survey.note(note)
        _survey_step(lake, step, settings, conversion_mapping, survey, ids_without_dots=ids_without_dots)
        survey.note_unmapped_fields(lake, step.after)
        watch(Progress("scanning versions", number, len(versions)))
    return survey


def _survey_step(
    lake: MaintenanceContext,
    step: VersionStep,
    settings: LakehouseSettings,
    conversion_mapping: ConversionMapping,
    survey: Survey,
    *,
    ids_without_dots: bool,
) -> None:
    for one in step.differences(lake):
        value = one.after
        if value is None:
            continue
        survey.changed.append(one.locator)
        where = f"{one.locator.kind.word} {one.locator} in version {step.after.version}"
        try:
            _check(one.locator, value, settings, ids_without_dots=ids_without_dots)
            if not settings.allows_inline_rows and conversion_mapping.store_rows is None:
                _check_no_inline_rows(value)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"{where} is not supported by the destination: {error}. To convert without it, remove it from the "
                "newest version and convert that one alone, with `--history latest`"
            ) from error
        if conversion_mapping.object(value) is None:
            survey.note(f"{where} is based on a version that is not converted; it is dropped")
        if isinstance(value, Delta):
            survey.locations.update(entry.location for entry in value.manifest.stored_files)
            survey.inline_locations.update(entry.location for entry in value.manifest.entries if entry.is_inline)
        elif isinstance(value, TableEntry) and value.location is not None:
            survey.note(f"{where} has its data at {value.location}, which is not copied")


def _check(locator: Locator, value: Object, settings: LakehouseSettings, *, ids_without_dots: bool) -> None:
    """Raise an error for an object that the destination layout does not support."""
    if locator.kind in _NAMED:
        settings.check_object_name(locator.kind, str(locator.parts[-1]))
    object_id = getattr(value, "id", None)
    if ids_without_dots and isinstance(object_id, str) and "." in object_id:
        raise InvalidInputError(f"its id {object_id!r} contains a dot, which DeltaCAT does not support")


def _check_no_inline_rows(value: Object) -> None:
    if isinstance(value, Delta) and any(entry.is_inline for entry in value.manifest.entries):
        raise InvalidInputError(
            "it has inline rows, which the format of a strict tree does not describe, and there is no engine that "
            "writes them as data files; open the lakehouse with mangrove.open"
        )
