"""One object of any kind, found by its name or canonical string."""

import json
from dataclasses import dataclass

from mangrove.inspect.page import PageRequest, PageVersion, PinnedLakehouse
from mangrove.model.canonical import CanonicalName
from mangrove.model.json_codec import to_json
from mangrove.model.locators import DeltaLocator, Locator, PartitionLocator, TableVersionLocator
from mangrove.model.objects import TableVersion

__all__ = ["CanonicalObjectInfo", "load_object_info"]


@dataclass(frozen=True, slots=True)
class CanonicalObjectInfo:
    """An object with all its fields, and the canonical strings of its ancestors; empty without a name."""

    seen: PageVersion
    name: str | None
    canonical: str | None = None
    kind: str | None = None
    locator: str | None = None
    namespace: str = ""
    table: str | None = None
    table_version: int | None = None
    partition_id: str | None = None
    position: int | None = None
    ancestors: tuple[str, ...] = ()
    """Outermost first."""
    fields: tuple[tuple[str, str], ...] = ()
    has_page: bool = True
    """False for a partition or delta of a stream that is not read, which only this page describes."""


def load_object_info(pinned: PinnedLakehouse, requested: PageRequest) -> CanonicalObjectInfo:
    """Return the object that the query's `name` names, by its name, an alias or its canonical string."""
    name = requested.text("name")
    if name is None:
        return CanonicalObjectInfo(pinned.seen, None)
    found = pinned.lake_snapshot.resolve(name)
    stored = to_json(found.value)
    fields = stored.items() if isinstance(stored, dict) else ()
    return CanonicalObjectInfo(
        pinned.seen,
        name,
        found.canonical,
        found.kind.word,
        str(found.locator),
        found.name.namespace,
        found.name.table,
        found.name.version,
        found.name.partition_id,
        found.name.position,
        tuple(_list_ancestors(found.name)),
        tuple((key, json.dumps(value, ensure_ascii=False)) for key, value in fields),
        _is_served(pinned, found.locator),
    )


def _is_served(pinned: PinnedLakehouse, locator: Locator) -> bool:
    if not isinstance(locator, PartitionLocator | DeltaLocator):
        return True
    version = pinned.snapshot.get(TableVersionLocator(locator.namespace_id, locator.table_id, locator.version))
    return isinstance(version, TableVersion) and version.latest_stream_id == locator.stream_id


def _list_ancestors(name: CanonicalName) -> list[str]:
    above = name.parent
    return [] if above is None else [*_list_ancestors(above), str(above)]
