"""Looking through all versions before any of them is converted: which data files there are, and what cannot stay."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from mangrove.errors import InvalidInputError
from mangrove.maintenance.convert_carrying import Carrying, notes_on_settings
from mangrove.maintenance.convert_history import Step, steps
from mangrove.maintenance.copying import sizes_of
from mangrove.maintenance.maintained import Maintained
from mangrove.maintenance.needed import paths_below
from mangrove.maintenance.progress import Progress, Watch
from mangrove.metastore import Snapshot
from mangrove.model.locators import Kind, Locator
from mangrove.model.objects import Delta, Object, Table
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.port import ObjectInfo, Store

__all__ = ["Survey", "surveyed"]

_NAMED = (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW, Kind.SHARED_TRANSACTION)
_NOTES_MAX = 100


@runtime_checkable
class _LeavesBehind(Protocol):
    """A layout whose files can say more of an object than the object itself."""

    def left_behind(self, snapshot: Snapshot, locators: Sequence[Locator]) -> list[tuple[str, ...]]: ...


@runtime_checkable
class _WorksBeside(Protocol):
    """A layout into which another program commits what becomes a version only when somebody looks."""

    def unabsorbed(self) -> list[str]: ...


@dataclass
class Survey:
    """What a walk over the versions met."""

    locations: set[str] = field(default_factory=set)
    """The data files, as manifests name them."""
    elsewhere: int = 0
    notes: dict[str, None] = field(default_factory=dict)
    changed: list[Locator] = field(default_factory=list)
    """What the version that is looked at has put."""
    _left_behind: set[tuple[Kind, str]] = field(default_factory=set)

    def note(self, what: str) -> None:
        """Keep a note once, and of very many only the first."""
        if len(self.notes) < _NOTES_MAX:
            self.notes[what] = None

    def note_left_behind(self, lake: Maintained, snapshot: Snapshot) -> None:
        """Note what of the objects that this version changed only their own layout can hold, each sort of it once."""
        changed, self.changed = self.changed, []
        if not isinstance(lake.upkeep, _LeavesBehind):
            return
        for locator, found in zip(changed, lake.upkeep.left_behind(snapshot, changed), strict=True):
            for what in found:
                if (locator.kind, what) not in self._left_behind:
                    self._left_behind.add((locator.kind, what))
                    self.note(f"{what} has no place there and stays behind, as of the {locator.kind.word} {locator}")

    def paths(self, source: Store) -> dict[str, str]:
        """Return where in the source's root each data file lies that lies there at all, by its location.

        Whether another program's URI is escaped cannot be seen from it; which of
        the readings is a file can.
        """
        readings = {location: paths_below(location, source.uri) for location in self.locations}
        self.elsewhere = sum(not paths for paths in readings.values())
        found = {location: paths[0] for location, paths in readings.items() if len(paths) == 1}
        unsure = {location: paths for location, paths in readings.items() if len(paths) > 1}
        there = {entry.path for entry in source.list() if isinstance(entry, ObjectInfo)} if unsure else set()
        for location, paths in unsure.items():
            found[location] = next((path for path in paths if path in there), paths[0])
        return found

    def sizes(self, source: Store) -> dict[str, int]:
        """Return the sizes of the data files below the source's root, or refuse if one is missing."""
        return sizes_of(source, set(self.paths(source).values()))


def surveyed(
    lake: Maintained, versions: Sequence[int], carrying: Carrying, *, ids_without_dots: bool, watch: Watch
) -> Survey:
    """Return what the versions hold that conversion must know, or refuse what has no place in the destination."""
    survey = Survey()
    for transaction in lake.upkeep.unabsorbed() if isinstance(lake.upkeep, _WorksBeside) else []:
        survey.note(
            f"transaction {transaction} of DeltaCAT is in no version yet, so it is not converted: "
            f"check {lake.store.uri} with repair first"
        )
    for number, step in enumerate(steps(lake, versions), start=1):
        settings = carrying.settings(step.after.settings)
        for note in notes_on_settings(step.after.settings, carrying):
            survey.note(note)
        _look_at(lake, step, settings, carrying, survey, ids_without_dots=ids_without_dots)
        survey.note_left_behind(lake, step.after)
        watch(Progress("looking through versions", number, len(versions)))
    return survey


def _look_at(
    lake: Maintained,
    step: Step,
    settings: LakehouseSettings,
    carrying: Carrying,
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
        except InvalidInputError as error:
            raise InvalidInputError(f"{where} has no place in the destination: {error}") from error
        if carrying.object(value) is None:
            survey.note(f"{where} stands on a version that is not converted, and is left out")
        if isinstance(value, Delta):
            survey.locations.update(entry.location for entry in value.manifest.entries)
        elif isinstance(value, Table) and value.location is not None:
            survey.note(f"{where} keeps its data at {value.location}, which stays where it is")


def _check(locator: Locator, value: Object, settings: LakehouseSettings, *, ids_without_dots: bool) -> None:
    """Refuse what the destination's layout would refuse."""
    if locator.kind in _NAMED:
        settings.check_object_name(locator.kind, str(locator.parts[-1]))
    object_id = getattr(value, "id", None)
    if ids_without_dots and isinstance(object_id, str) and "." in object_id:
        raise InvalidInputError(f"its id {object_id!r} holds a dot, after which DeltaCAT would look for the id alone")
