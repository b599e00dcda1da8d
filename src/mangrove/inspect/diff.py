"""Differences between two versions by object and field."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from mangrove.inspect.formatting import format_count, format_size, format_value, shorten_text
from mangrove.inspect.page import VersionComparer
from mangrove.maintenance.progress import format_quantity
from mangrove.metastore import Difference, MetastoreSnapshot
from mangrove.model.json_codec import Json, to_json
from mangrove.model.locators import (
    DeltaLocator,
    Kind,
    Locator,
    PartitionLocator,
    StreamLocator,
    TableLocator,
    TableVersionLocator,
)
from mangrove.model.objects import AliasEntry, Delta, NamespaceEntry, Object, Partition, TableEntry, ViewEntry

__all__ = ["DiffEntry", "FieldChange", "diff_versions"]

_CHANGES_MAX: Final = 300
_TABLES_MAX: Final = 20_000
_FIELDS_MAX: Final = 30
_TEXT_CHARACTERS_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field that differs between two states of an object; None where a state lacks it."""

    field: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class DiffEntry:
    """An object that was added, changed, removed or renamed."""

    action: str
    kind: str
    name: str
    table: str | None
    """The name of the table that the object is or belongs to: of a removed object in the version before."""
    fields: tuple[FieldChange, ...]


def diff_versions(
    compared: VersionComparer, before: MetastoreSnapshot, after: MetastoreSnapshot
) -> tuple[tuple[DiffEntry, ...], bool]:
    """Return the changes from `before` to `after` up to a bound, and whether there are more."""
    differences = list(islice(compared.differences(before, after), _CHANGES_MAX + 1))
    page = differences[:_CHANGES_MAX]
    names = _Names(
        _table_names(compared, (after, before), page),
        _table_names(compared, (before,), [one for one in page if one.after is None]),
        _partition_names((after, before), page),
    )
    removed = _find_removed(page)
    renamed = {removed[key].locator for one in page if (key := _added_key(one)) in removed}
    changes = (_build_entry(one, names, removed) for one in page if one.locator not in renamed)
    return tuple(changes), len(differences) > _CHANGES_MAX


_Named = NamespaceEntry | TableEntry | ViewEntry | AliasEntry
"""The objects whose id stays when their name changes."""


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of tables by id, also in the version before, and of partitions by locator."""

    tables: dict[str, TableLocator]
    tables_before: dict[str, TableLocator]
    partitions: dict[PartitionLocator, str]


def _partition_names(snapshots: Iterable[MetastoreSnapshot], page: Iterable[Difference]) -> dict[PartitionLocator, str]:
    """Return the values of the partitions of the differences."""
    locators = (one.locator.parent if isinstance(one.locator, DeltaLocator) else one.locator for one in page)
    partitions = list(dict.fromkeys(locator for locator in locators if isinstance(locator, PartitionLocator)))
    names: dict[PartitionLocator, str] = {}
    for snapshot in snapshots:
        missing = [locator for locator in partitions if locator not in names]
        for locator, value in zip(missing, snapshot.get_many(missing), strict=True):
            if isinstance(value, Partition):
                names[locator] = ", ".join(format_value(part) for part in value.values) or "all rows"
    return names


def _find_removed(page: Iterable[Difference]) -> dict[tuple[Kind, str], Difference]:
    """Return the removed objects by kind and id, which a rename keeps."""
    return {
        (one.locator.kind, one.before.id): one for one in page if one.after is None and isinstance(one.before, _Named)
    }


def _added_key(one: Difference) -> tuple[Kind, str] | None:
    """Return the kind and id of an added object."""
    if one.before is None and isinstance(one.after, _Named):
        return one.locator.kind, one.after.id
    return None


def _table_names(
    compared: VersionComparer, snapshots: Iterable[MetastoreSnapshot], page: Iterable[Difference]
) -> dict[str, TableLocator]:
    """Return the names of the tables of the differences, by id; the first snapshot has precedence."""
    table_ids = {
        one.locator.table_id
        for one in page
        if isinstance(one.locator, TableVersionLocator | StreamLocator | PartitionLocator | DeltaLocator)
    }
    names: dict[str, TableLocator] = {}
    for snapshot in snapshots:
        if table_ids <= names.keys():
            break
        for locator, value in islice(compared.objects(snapshot, Kind.TABLE), _TABLES_MAX):
            if isinstance(value, TableEntry) and isinstance(locator, TableLocator) and value.id in table_ids:
                names.setdefault(value.id, locator)
    return names


def _build_entry(one: Difference, names: _Names, removed: dict[tuple[Kind, str], Difference]) -> DiffEntry:
    name, table = _name(one.locator, names, names.tables_before if one.after is None else names.tables)
    key = _added_key(one)
    origin = None if key is None else removed.get(key)
    before = one.before if origin is None else origin.before
    if origin is not None:
        action, name = "renamed", f"{origin.locator} to {one.locator}"
    else:
        action = "added" if before is None else "removed" if one.after is None else "changed"
    fields = tuple(islice(_fields(before, one.after), _FIELDS_MAX))
    return DiffEntry(action, one.locator.kind.word, name, None if table is None else str(table), fields)


def _name(locator: Locator, names: _Names, tables: dict[str, TableLocator]) -> tuple[str, TableLocator | None]:
    if isinstance(locator, TableLocator):
        return str(locator), locator
    if not isinstance(locator, TableVersionLocator | StreamLocator | PartitionLocator | DeltaLocator):
        return str(locator), None
    table = tables.get(locator.table_id)
    within = str(table or f"table {locator.table_id}")
    match locator:
        case TableVersionLocator():
            return f"{within}, table version {locator.version}", table
        case DeltaLocator():
            partition = names.partitions.get(locator.parent, f"partition {locator.partition_id}")
            return f"{within}, {partition}, position {format_count(locator.position)}", table
        case PartitionLocator():
            return f"{within}, {names.partitions.get(locator, locator.partition_id)}", table
        case _:
            return f"{within}, {locator.kind.word} {locator.parts[-1]}", table


def _fields(before: Object | None, after: Object | None) -> Iterator[FieldChange]:
    """Yield the fields that differ; of an added or removed object a short description."""
    if before is not None and after is not None:
        old, new = _flat(before), _flat(after)
        for field in sorted(old.keys() | new.keys()):
            if old.get(field) != new.get(field):
                yield FieldChange(field, old.get(field), new.get(field))
        return
    value = after if before is None else before
    description: tuple[tuple[str, str | None], ...] = ()
    match value:
        case Delta():
            description = (("delta", _delta_text(value)),)
        case ViewEntry():
            description = (("description", value.description), ("sql", value.sql))
        case AliasEntry():
            description = (("target", value.target),)
        case TableEntry() | NamespaceEntry():
            description = (("description", value.description),)
    for field, text in description:
        if text is not None:
            shortened = shorten_text(text, _TEXT_CHARACTERS_MAX)
            yield FieldChange(field, *((None, shortened) if before is None else (shortened, None)))


def _delta_text(delta: Delta) -> str:
    manifest = delta.manifest
    files = format_quantity(len(manifest.entries), "file")
    rows = format_quantity(manifest.row_count, "row")
    return f"{delta.type.value}: {rows} in {files}, {format_size(manifest.size_bytes)}"


def _flat(value: Object) -> dict[str, str]:
    """Return each field of an object as text, by its path."""
    return dict(_leaves(to_json(value), ""))


def _leaves(data: Json, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(data, dict):
        for name, inner in data.items():
            yield from _leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(data, list):
        for number, inner in enumerate(data):
            yield from _leaves(inner, f"{path}[{_label(inner, number)}]")
    else:
        yield path, shorten_text("null" if data is None else str(data), _TEXT_CHARACTERS_MAX)


def _label(data: Json, number: int) -> str:
    """Return the label of a list entry: its id, if it has one, so that an insertion relabels no other entry."""
    if isinstance(data, dict) and isinstance(data.get("id"), int | str):
        return str(data["id"])
    return str(number)
