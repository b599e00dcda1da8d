"""How an object of one lakehouse looks in another one that it is converted into.

Nearly everything stays as it is. What names a version gets the number that the
version has there, and what names a data file leads to where that file is then.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from mangrove.errors import FormatError
from mangrove.maintenance.exported import export_named, location_of
from mangrove.model.manifests import DataFile
from mangrove.model.objects import Delta, Object, SharedTransaction, SharedTransactionState
from mangrove.model.settings import LakehouseSettings

__all__ = ["Carrying", "Relocate", "notes_on_settings"]

Relocate = Callable[[str], str]
"""Where the file at a location of the source lies for whoever reads the destination."""


@dataclass(frozen=True, slots=True)
class Carrying:
    """What changes on the way: the numbers of versions, and the locations of data files."""

    numbers: Mapping[int, int]
    """Which version of the destination each version of the source becomes."""
    relocate: Relocate
    keeps_shared: bool = True
    """Whether shared transactions stay; without the version that they stand on nobody could publish them."""
    dropped_properties: frozenset[str] = frozenset()
    """Properties of the lakehouse itself that mean nothing in the destination's layout."""

    def object(self, value: Object) -> Object | None:
        """Return the object as the destination has it, or None if it has no place there."""
        match value:
            case Delta():
                return self._delta(value)
            case SharedTransaction(state=SharedTransactionState.PUBLISHED):
                # It notes how far a stream has come, and stands on no version.
                return value
            case SharedTransaction():
                base = self.numbers.get(value.base_version)
                return replace(value, base_version=base) if self.keeps_shared and base is not None else None
            case _:
                return value

    def settings(self, value: LakehouseSettings) -> LakehouseSettings:
        """Return the lakehouse's own definition as the destination has it."""
        ages = value.maximum_version_age_millis_overrides
        properties = {name: text for name, text in value.properties.items() if name not in self.dropped_properties}
        return replace(
            value,
            properties=properties,
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
        """Return the location of a copy elsewhere if its name still says the right version, else the version alone."""
        location = settings.exported_snapshots[name]
        try:
            version = export_named(settings, name).version
        except FormatError:
            return location  # it names no version here either
        number = self.numbers.get(version)
        if number is None:
            return None
        return location if "://" in location and number == version else location_of("", number, None)

    def _delta(self, delta: Delta) -> Delta:
        entries = tuple(self._file(entry) for entry in delta.manifest.entries)
        replaced = tuple(self.relocate(location) for location in delta.replaced_locations)
        if entries == delta.manifest.entries and replaced == delta.replaced_locations:
            return delta
        return replace(delta, manifest=replace(delta.manifest, entries=entries), replaced_locations=replaced)

    def _file(self, file: DataFile) -> DataFile:
        applies_to = None if file.applies_to is None else self.relocate(file.applies_to)
        location = self.relocate(file.location)
        if (location, applies_to) == (file.location, file.applies_to):
            return file
        return replace(file, location=location, applies_to=applies_to)


def notes_on_settings(settings: LakehouseSettings, carrying: Carrying) -> list[str]:
    """Return what of a lakehouse's own definition is not carried over."""
    kept = carrying.settings(settings).exported_snapshots
    exports = [
        f"the export {name!r} names a version that is not converted, and its name is left out"
        for name in settings.exported_snapshots
        if name not in kept
    ]
    dropped = carrying.dropped_properties & settings.properties.keys()
    return exports + [f"the property {name} means nothing there, and is left out" for name in sorted(dropped)]
