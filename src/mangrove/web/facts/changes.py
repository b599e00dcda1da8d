"""What differs between two versions, object by object and field by field."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from mangrove.metastore import Difference, Snapshot
from mangrove.model.json_form import Json, to_json
from mangrove.model.locators import (
    DeltaLocator,
    Kind,
    Locator,
    PartitionLocator,
    StreamLocator,
    TableLocator,
    TableVersionLocator,
)
from mangrove.model.objects import Delta, Object, Table
from mangrove.web.facts.pinned import Comparing
from mangrove.web.words import count_text, counted, shortened, size_text

__all__ = ["Change", "FieldChange", "changes_between"]

_CHANGES_MAX: Final = 300
_TABLES_MAX: Final = 20_000
_FIELDS_MAX: Final = 30
_TEXT_CHARACTERS_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field that two states of an object have differently; None where one has it not."""

    field: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Change:
    """An object that was added, changed or removed."""

    action: str
    kind: str
    name: str
    table: str | None
    """The table below which it lies, or that it is, under the name that it has in either version."""
    fields: tuple[FieldChange, ...]


def changes_between(compared: Comparing, before: Snapshot, after: Snapshot) -> tuple[tuple[Change, ...], bool]:
    """Return what changes on the way from `before` to `after`, and whether there is more than is shown."""
    found = list(islice(compared.differences(before, after), _CHANGES_MAX + 1))
    shown = found[:_CHANGES_MAX]
    names = _table_names(compared, (after, before), shown)
    return tuple(_change(one, names) for one in shown), len(found) > _CHANGES_MAX


def _table_names(
    compared: Comparing, snapshots: Iterable[Snapshot], shown: Iterable[Difference]
) -> dict[str, TableLocator]:
    """Return the names of the tables below which something changed, by their ids, the later version's first."""
    wanted = {
        one.locator.table_id
        for one in shown
        if isinstance(one.locator, TableVersionLocator | StreamLocator | PartitionLocator | DeltaLocator)
    }
    names: dict[str, TableLocator] = {}
    for snapshot in snapshots:
        if wanted <= names.keys():
            break
        for locator, value in islice(compared.objects(snapshot, Kind.TABLE), _TABLES_MAX):
            if isinstance(value, Table) and isinstance(locator, TableLocator) and value.id in wanted:
                names.setdefault(value.id, locator)
    return names


def _change(one: Difference, names: dict[str, TableLocator]) -> Change:
    action = "added" if one.before is None else "removed" if one.after is None else "changed"
    name, table = _name(one.locator, names)
    return Change(action, one.locator.kind.word, name, None if table is None else str(table), _fields(one))


def _name(locator: Locator, names: dict[str, TableLocator]) -> tuple[str, TableLocator | None]:
    if isinstance(locator, TableLocator):
        return str(locator), locator
    if not isinstance(locator, TableVersionLocator | StreamLocator | PartitionLocator | DeltaLocator):
        return str(locator), None
    table = names.get(locator.table_id)
    within = str(table or f"table {locator.table_id}")
    match locator:
        case TableVersionLocator():
            return f"{within}, table version {locator.version}", table
        case DeltaLocator():
            return f"{within}, position {count_text(locator.position)}", table
        case _:
            return f"{within}, {locator.kind.word} {locator.parts[-1]}", table


def _fields(one: Difference) -> tuple[FieldChange, ...]:
    value = one.after if one.before is None else one.before
    if isinstance(value, Delta) and (one.before is None or one.after is None):
        text = _delta_text(value)
        return (FieldChange("delta", None, text) if one.before is None else FieldChange("delta", text, None),)
    return tuple(islice(_compared(_flat(one.before), _flat(one.after)), _FIELDS_MAX))


def _compared(before: dict[str, str], after: dict[str, str]) -> Iterator[FieldChange]:
    for field in sorted(before.keys() | after.keys()):
        if before.get(field) != after.get(field):
            yield FieldChange(field, before.get(field), after.get(field))


def _delta_text(delta: Delta) -> str:
    manifest = delta.manifest
    files = counted(len(manifest.entries), "file")
    return f"{delta.type.value}: {counted(manifest.row_count, 'row')} in {files}, {size_text(manifest.size_bytes)}"


def _flat(value: Object | None) -> dict[str, str]:
    """Return each field of an object as text under the way to it."""
    if value is None:
        return {}
    return dict(_leaves(to_json(value), ""))


def _leaves(data: Json, way: str) -> Iterator[tuple[str, str]]:
    if isinstance(data, dict):
        for name, inner in data.items():
            yield from _leaves(inner, f"{way}.{name}" if way else name)
    elif isinstance(data, list):
        for number, inner in enumerate(data):
            yield from _leaves(inner, f"{way}[{_label(inner, number)}]")
    else:
        yield way, shortened("null" if data is None else str(data), _TEXT_CHARACTERS_MAX)


def _label(data: Json, number: int) -> str:
    """Return what an entry of a list is called: a column by its id, so that an inserted one moves no other."""
    if isinstance(data, dict) and isinstance(data.get("id"), int | str):
        return str(data["id"])
    return str(number)
