"""What two versions hold differently, summed up for people: tables, columns, rows and bytes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from mangrove.metastore import Difference
from mangrove.model.locators import DeltaLocator, NamespaceLocator, TableLocator, TableVersionLocator, ViewLocator
from mangrove.model.objects import Delta, Namespace, Table, TableVersion, View
from mangrove.model.schema import Schema
from mangrove.model.sql_text import type_text

__all__ = ["ChangedFacts", "ColumnChange", "EntryChange", "TableChange", "changed_facts", "table_ids_below"]


@dataclass(frozen=True, slots=True)
class EntryChange:
    """A namespace or view that came, went, was renamed or was changed."""

    kind: str
    change: str
    name: str
    name_before: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A column that came, went or is another now; as SQL text, None where there is none."""

    id: int
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class TableChange:
    """A table that came, went, was renamed or was changed, with what was added to and taken from its data."""

    change: str
    name: str
    name_before: str | None = None
    columns: tuple[ColumnChange, ...] = ()
    deltas_added: dict[str, int] = field(default_factory=dict)
    deltas_removed: dict[str, int] = field(default_factory=dict)
    rows_added: int = 0
    """Rows that the added deltas hold; an upsert's may replace others."""
    rows_removed: int = 0
    files_added: int = 0
    files_removed: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0


@dataclass(frozen=True, slots=True)
class ChangedFacts:
    """What changed from one version to another."""

    version_before: int
    version_after: int
    entries: tuple[EntryChange, ...]
    tables: tuple[TableChange, ...]
    lakehouse_changed: bool = False


@dataclass(slots=True)
class _Gathered:
    """What was met of one table."""

    before: tuple[TableLocator, Table] | None = None
    after: tuple[TableLocator, Table] | None = None
    schema_before: Schema | None = None
    schema_after: Schema | None = None
    added: list[Delta] = field(default_factory=list)
    removed: list[Delta] = field(default_factory=list)


def table_ids_below(differences: Iterable[Difference]) -> set[str]:
    """Return the ids of tables below which something differs while their own entry does not."""
    own: set[str] = set()
    below: set[str] = set()
    for one in differences:
        if isinstance(one.locator, TableLocator):
            own |= {value.id for value in (one.before, one.after) if isinstance(value, Table)}
        elif isinstance(one.locator, TableVersionLocator | DeltaLocator):
            below.add(one.locator.table_id)
    return below - own


def changed_facts(
    before: int, after: int, differences: Iterable[Difference], names: Mapping[str, str], *, settings_changed: bool
) -> ChangedFacts:
    """Sum up what differs; `names` are those of the tables whose own entry does not, by their ids."""
    tables: dict[str, _Gathered] = {}
    named: dict[str, list[Difference]] = {}
    for one in differences:
        match one.locator:
            case TableLocator():
                _gather_entry(tables, one.locator, one)
            case TableVersionLocator(_, table_id, _):
                gathered = tables.setdefault(table_id, _Gathered())
                gathered.schema_before = _schema(one.before) or gathered.schema_before
                gathered.schema_after = _schema(one.after) or gathered.schema_after
            case DeltaLocator():
                gathered = tables.setdefault(one.locator.table_id, _Gathered())
                gathered.removed += [one.before] if isinstance(one.before, Delta) else []
                gathered.added += [one.after] if isinstance(one.after, Delta) else []
            case NamespaceLocator() | ViewLocator():
                for value in (one.before, one.after):
                    if isinstance(value, Namespace | View):
                        named.setdefault(value.id, []).append(one)
            case _:
                pass
    entries = [_entry_change(found) for found in named.values()]
    changes = [_table_change(table_id, gathered, names) for table_id, gathered in tables.items()]
    return ChangedFacts(
        before,
        after,
        tuple(sorted(entries, key=lambda entry: (entry.kind, entry.name))),
        tuple(sorted(changes, key=lambda change: change.name)),
        settings_changed,
    )


def _gather_entry(tables: dict[str, _Gathered], locator: TableLocator, one: Difference) -> None:
    if isinstance(one.before, Table):
        tables.setdefault(one.before.id, _Gathered()).before = (locator, one.before)
    if isinstance(one.after, Table):
        tables.setdefault(one.after.id, _Gathered()).after = (locator, one.after)


def _entry_change(found: list[Difference]) -> EntryChange:
    kind = found[0].locator.kind.word
    old = next((str(one.locator) for one in found if one.before is not None), None)
    new = next((str(one.locator) for one in found if one.after is not None), None)
    return EntryChange(kind, _word(old, new), new or old or "", old if old != new and new is not None else None)


def _table_change(table_id: str, gathered: _Gathered, names: Mapping[str, str]) -> TableChange:
    old = None if gathered.before is None else str(gathered.before[0])
    new = None if gathered.after is None else str(gathered.after[0])
    if old is None and new is None:
        old = new = names.get(table_id, f"(a table of id {table_id})")
    change = _word(old, new)
    return TableChange(
        change,
        new or old or "",
        old if change == "renamed" else None,
        () if change == "removed" else _column_changes(gathered.schema_before, gathered.schema_after),
        _types(gathered.added),
        _types(gathered.removed),
        sum(delta.manifest.row_count for delta in gathered.added),
        sum(delta.manifest.row_count for delta in gathered.removed),
        sum(len(delta.manifest.entries) for delta in gathered.added),
        sum(len(delta.manifest.entries) for delta in gathered.removed),
        sum(delta.manifest.size_bytes for delta in gathered.added),
        sum(delta.manifest.size_bytes for delta in gathered.removed),
    )


def _word(old: str | None, new: str | None) -> str:
    if old is None:
        return "added"
    if new is None:
        return "removed"
    return "changed" if old == new else "renamed"


def _schema(value: object) -> Schema | None:
    return value.schema if isinstance(value, TableVersion) else None


def _column_changes(before: Schema | None, after: Schema | None) -> tuple[ColumnChange, ...]:
    """Return the columns that differ, known by their ids, so that a renamed column is one change and not two."""
    old, new = _column_texts(before), _column_texts(after)
    ids: Set[int] = old.keys() | new.keys()
    return tuple(ColumnChange(one, old.get(one), new.get(one)) for one in sorted(ids) if old.get(one) != new.get(one))


def _column_texts(schema: Schema | None) -> dict[int, str]:
    if schema is None:
        return {}
    return {
        column.id: f"{column.name} {type_text(column.type)}{'' if column.nullable else ' not null'}"
        for column in schema.columns
    }


def _types(deltas: Iterable[Delta]) -> dict[str, int]:
    return dict(Counter(delta.type.value for delta in deltas))
