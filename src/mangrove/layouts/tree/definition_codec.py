"""How the definitions of one format revision are read, as a value that the revision brings along.

Protobuf is imported when the first definition is read: who only asks what format
revisions there are, such as the command line for its help, need not wait for it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from mangrove.errors import FormatError
from mangrove.layouts.tree.keys import NameSizes
from mangrove.model.locators import Kind, Locator
from mangrove.model.objects import Delta, Object, Partition, Stream, TableVersion
from mangrove.model.settings import LakehouseSettings

__all__ = ["OWN_DEFINITIONS", "DefinitionCodec", "ObjectRead", "SettingsRead", "own_name_of", "sizes_of"]


class ObjectRead(NamedTuple):
    """An object, and what its definition holds beyond what this release knows."""

    value: Object
    unknown: bytes


class SettingsRead(NamedTuple):
    """The lakehouse's own definition, how long names are in its tree keys, and what of it is not known."""

    settings: LakehouseSettings
    sizes: NameSizes
    unknown: bytes


@dataclass(frozen=True, slots=True)
class DefinitionCodec:
    """Reads definitions. Each function takes the bytes, and the path for its errors."""

    settings_of: Callable[[bytes, str], SettingsRead]
    object_of: Callable[[Locator, bytes, str], ObjectRead]
    """Also takes the way to the object: some programs do not write an object's name into its definition."""

    def read(self, locator: Locator, data: bytes, path: str) -> ObjectRead:
        """Return the object to which `locator` leads; one that says that it is another is a `FormatError`."""
        found = self.object_of(locator, data, path)
        name = own_name_of(found.value)
        if name is not None and name != locator.parts[-1]:
            raise FormatError(
                f"{path} is the definition of {name!r}, but the tree key that leads there is that of the "
                f"{locator.kind.word} {locator}: run `mangrove check`"
            )
        return found


def own_name_of(value: Object) -> str | int | None:
    """Return what an object says that the last part of the way to it is; a delta does not say."""
    if isinstance(value, Delta | LakehouseSettings):
        return None
    if isinstance(value, TableVersion):
        return value.version
    return value.id if isinstance(value, Stream | Partition) else value.name


def sizes_of(settings: LakehouseSettings) -> NameSizes:
    """Return how long names may be in tree keys."""
    return NameSizes(settings.namespace_name_max_size_bytes, settings.table_name_max_size_bytes)


def _settings_of(data: bytes, path: str) -> SettingsRead:
    from mangrove.layouts.tree.definitions import decode_definition  # noqa: PLC0415

    value, unknown = decode_definition(Kind.LAKEHOUSE, data, path)
    assert isinstance(value, LakehouseSettings)
    return SettingsRead(value, sizes_of(value), unknown)


def _object_of(locator: Locator, data: bytes, path: str) -> ObjectRead:
    from mangrove.layouts.tree.definitions import decode_definition  # noqa: PLC0415

    return ObjectRead(*decode_definition(locator.kind, data, path, locator))


OWN_DEFINITIONS = DefinitionCodec(_settings_of, _object_of)
