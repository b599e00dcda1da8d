"""One object of any kind, found by its name or canonical string."""

import json
from dataclasses import dataclass
from itertools import islice

from mangrove.errors import InvalidInputError
from mangrove.inspect.page import PageRequest, PageVersion, PinnedLakehouse
from mangrove.inspect.summary import CHILDREN_MAX
from mangrove.model.canonical import CanonicalName
from mangrove.model.json_codec import to_json
from mangrove.model.locators import Kind
from mangrove.transaction.canonical_names import list_children
from mangrove.transaction.deltas import TableTarget, build_table_target, open_table

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
    target: TableTarget | None = None
    """What is read by this name; None for a namespace or view."""
    ancestors: tuple[str, ...] = ()
    """Outermost first."""
    fields: tuple[tuple[str, str], ...] = ()
    children: tuple[str, ...] = ()
    """The canonical strings of the first streams, partitions or deltas in it."""
    is_readable: bool = True
    """False in a deleted table version: the page of the table version says so."""


def load_object_info(pinned: PinnedLakehouse, requested: PageRequest) -> CanonicalObjectInfo:
    """Return the object that the query's `name` names, by its name, an alias or its canonical string."""
    name = requested.text("name")
    if name is None:
        return CanonicalObjectInfo(pinned.seen, None)
    found = pinned.lake_snapshot.resolve(name)
    stored = to_json(found.value)
    fields = stored.items() if isinstance(stored, dict) else ()
    target = None if found.kind in (Kind.NAMESPACE, Kind.VIEW) else build_table_target(found.name)
    return CanonicalObjectInfo(
        pinned.seen,
        name,
        found.canonical,
        found.kind.word,
        str(found.locator),
        found.name.namespace,
        found.name.table,
        target,
        tuple(_list_ancestors(found.name)),
        tuple((key, json.dumps(value, ensure_ascii=False)) for key, value in fields),
        tuple(map(str, islice(list_children(pinned.snapshot, found), CHILDREN_MAX))),
        target is None or _is_readable(pinned, target),
    )


def _is_readable(pinned: PinnedLakehouse, target: TableTarget) -> bool:
    try:
        open_table(pinned.snapshot, target)
    except InvalidInputError:
        return False
    return True


def _list_ancestors(name: CanonicalName) -> list[str]:
    above = name.parent
    return [] if above is None else [*_list_ancestors(above), str(above)]
