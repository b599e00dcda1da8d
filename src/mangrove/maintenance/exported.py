"""Exports by their names: which version each of them is, and where its root node lies.

A lakehouse's definition records an export as its name and the location of its
root node, or of what is in its place in another layout: that file's name says the
version. Where a version has no file of its own, the location is that of the
lakehouse, and a fragment says the version: `s3://archive/lake/#version=41`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mangrove.errors import FormatError, InvalidInputError, NotFoundError
from mangrove.maintenance.version_files import version_at_location
from mangrove.model.names import check_text
from mangrove.model.settings import LakehouseSettings

__all__ = ["Export", "check_export_name", "export_named", "export_versions", "exports_of", "location_of"]

_FRAGMENT = re.compile(r"#version=([0-9]+)")
_NAME_CHARACTERS_MAX = 200


@dataclass(frozen=True, slots=True)
class Export:
    """A version with a name, kept for as long as it has it."""

    name: str
    version: int
    location: str
    """Where its root node lies: a path in the lakehouse itself, or a URI elsewhere."""

    def __post_init__(self) -> None:
        check_export_name(self.name)

    def __str__(self) -> str:
        return f"{self.name}: version {self.version} at {self.location}"


def check_export_name(name: str) -> None:
    """Refuse a name that time travel would take for a number or a time."""
    check_text(name, "an export's name")
    if not name or len(name) > _NAME_CHARACTERS_MAX or name != name.strip() or not name[0].isalpha():
        raise InvalidInputError(
            f"an export cannot be called {name!r}: a name starts with a letter, has no space at its ends "
            f"and at most {_NAME_CHARACTERS_MAX} characters"
        )


def location_of(uri: str, version: int, path: str | None) -> str:
    """Return what is recorded for a version whose file lies at a path below `uri`, or that has none."""
    return f"{uri}#version={version}" if path is None else f"{uri}{path}"


def exports_of(settings: LakehouseSettings) -> list[Export]:
    """Return the exports that the lakehouse's definition records, in order of their names."""
    return [_export(name, location) for name, location in settings.exported_snapshots.items()]


def export_versions(settings: LakehouseSettings) -> list[int]:
    """Return the versions that have names, without those whose names do not say of which version they are."""
    found = (_version_of(location) for location in settings.exported_snapshots.values())
    return sorted({version for version in found if version is not None})


def export_named(settings: LakehouseSettings, name: str, otherwise: str = "") -> Export:
    """Return the export with that name; `otherwise` is what else the caller could have meant, in words."""
    recorded: Mapping[str, str] = settings.exported_snapshots
    if not isinstance(name, str) or name not in recorded:
        known = f"there are {', '.join(recorded)}" if recorded else "there are none"
        raise NotFoundError(f"no export is called {name!r}: {known}{otherwise}")
    return _export(name, recorded[name])


def _export(name: str, location: str) -> Export:
    version = _version_of(location)
    if version is None:
        raise FormatError(
            f"the export {name!r} is recorded at {location!r}, which does not say of which version it is. "
            "Drop its name if nobody needs it; until then no version is deleted"
        )
    return Export(name, version, location)


def _version_of(location: str) -> int | None:
    fragment = _FRAGMENT.search(location)
    return version_at_location(location) if fragment is None else int(fragment[1])
