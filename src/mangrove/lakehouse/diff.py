"""Differences between two versions, summarized by object with row and byte counts."""

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, fields, replace

from mangrove.lakehouse.listing import render_html
from mangrove.metastore import Difference, Metastore, MetastoreSnapshot
from mangrove.model.locators import Kind, Locator, NamespaceLocator, TableIdentity, TableLocator
from mangrove.model.manifests import FileKind
from mangrove.model.objects import AliasEntry, Delta, NamespaceEntry, TableEntry, ViewEntry
from mangrove.transaction.catalog import load_table_names
from mangrove.transaction.version_diff import diff_snapshots
from mangrove.transaction.workspace import Workspace

__all__ = [
    "ChangeKind",
    "Diff",
    "ObjectChange",
    "RowChange",
    "build_diff",
    "build_workspace_diff",
    "summarize_differences",
]


class ChangeKind(enum.Enum):
    """Kind of change of an object."""

    ADDED = "added"
    CHANGED = "changed"
    RENAMED = "renamed"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class RowChange:
    """Deltas added to and removed from a table, with the rows of their data files and the bytes of all their files."""

    deltas_added: int = 0
    deltas_removed: int = 0
    rows_added: int = 0
    rows_removed: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0

    def __add__(self, other: "RowChange") -> "RowChange":
        return RowChange(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def __bool__(self) -> bool:
        return self != _NO_ROWS

    def __str__(self) -> str:
        rows = f"+{self.rows_added:,} −{self.rows_removed:,} rows"
        return f"{rows}, +{self.bytes_added:,} −{self.bytes_removed:,} bytes"


_NO_ROWS = RowChange()


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """Change of a namespace, table, view, alias or shared transaction; for a table, also of its rows."""

    kind: Kind
    name: str
    change: ChangeKind
    name_before: str | None = None
    rows: RowChange = _NO_ROWS

    def __str__(self) -> str:
        was = f" (was {self.name_before})" if self.change is ChangeKind.RENAMED else ""
        return f"{self.change.value} {self.kind.word} {self.name}{was}{f': {self.rows}' if self.rows else ''}"


@dataclass(frozen=True, slots=True)
class Diff:
    """Differences between two versions, ordered by kind and name."""

    before: int
    after: int
    changes: tuple[ObjectChange, ...] = ()

    def __str__(self) -> str:
        lines = [f"from version {self.before} to version {self.after}:", *(f"  {change}" for change in self.changes)]
        return "\n".join(lines if self.changes else [*lines, "  nothing"])

    def _repr_html_(self) -> str:
        rows = [
            (one.change.value, one.kind.word, one.name, one.name_before, one.rows.rows_added, one.rows.rows_removed)
            for one in self.changes
        ]
        headings = ("change", "kind", "name", "previous name", "rows added", "rows removed")
        return render_html(f"from version {self.before} to version {self.after}", headings, rows)


def build_diff(metastore: Metastore, before: MetastoreSnapshot, after: MetastoreSnapshot) -> Diff:
    """Return the differences between two versions."""
    differences = diff_snapshots(metastore, before, after)
    changes = summarize_differences(differences, lambda tables: load_table_names(tables, after, before))
    return Diff(before.version, after.version, changes)


def build_workspace_diff(workspace: Workspace) -> Diff:
    """Return the changes that a transaction makes to its base version."""
    base = workspace.snapshot
    changes = summarize_differences(workspace.differences(), lambda tables: load_table_names(tables, base))
    return Diff(base.version, base.version, changes)


def summarize_differences(
    differences: Iterable[Difference], names_of: Callable[[set[TableIdentity]], Mapping[TableIdentity, str]]
) -> tuple[ObjectChange, ...]:
    """Summarize differences by named object.

    If only objects below a table changed, the table is identified by its ids:
    `names_of` is called once with the ids of all such tables.
    """
    named: dict[tuple[Kind, str], list[Difference]] = {}
    others: list[Difference] = []
    for difference in differences:
        locator = difference.locator
        if not locator.kind.is_below_table:
            named.setdefault((locator.kind, _id_of(difference)), []).append(difference)
        else:
            others.append(difference)
    identities = {key: {identity for one in both if (identity := _table_identity(one))} for key, both in named.items()}
    moved = frozenset[TableIdentity]().union(*(ids for ids in identities.values() if len(ids) > 1))
    below: dict[TableIdentity, RowChange] = {}
    for difference in _without_moves(others, moved):
        identity = _identity_of(difference.locator)
        below[identity] = below.get(identity, _NO_ROWS) + _row_change(difference)
    changes = []
    for key, both in named.items():
        rows = sum((below.pop(identity, _NO_ROWS) for identity in identities[key]), _NO_ROWS)
        changes.append(replace(_change(key[0], both), rows=rows))
    names = names_of(set(below)) if below else {}
    changes += [
        ObjectChange(Kind.TABLE, names.get(identity, str(identity)), ChangeKind.CHANGED, rows=rows)
        for identity, rows in below.items()
    ]
    return tuple(sorted(changes, key=lambda change: (change.kind, change.name)))


def _without_moves(differences: Iterable[Difference], moved: Set[TableIdentity]) -> Iterator[Difference]:
    """Yield the differences without objects that only moved with their table to another namespace."""
    pairs: dict[tuple[str | int, ...], Difference] = {}
    for difference in differences:
        if _identity_of(difference.locator) not in moved:
            yield difference
            continue
        place = difference.locator.parts[1:]
        other = pairs.pop(place, None)
        if other is None:
            pairs[place] = difference
        elif (difference.before or other.before) != (difference.after or other.after):
            yield from (other, difference)
    yield from pairs.values()


def _row_change(difference: Difference) -> RowChange:
    added, removed = _counts(difference.after), _counts(difference.before)
    return RowChange(added[0], removed[0], added[1], removed[1], added[2], removed[2])


def _counts(delta: object) -> tuple[int, int, int]:
    if not isinstance(delta, Delta):
        return 0, 0, 0
    rows = sum(entry.row_count for entry in delta.manifest.entries if entry.kind is FileKind.DATA)
    return 1, rows, delta.manifest.size_bytes


def _change(kind: Kind, both: list[Difference]) -> ObjectChange:
    before = next((one.locator for one in both if one.before is not None), None)
    after = next((one.locator for one in both if one.after is not None), None)
    if before is None or after is None:
        return ObjectChange(kind, str(after or before), ChangeKind.ADDED if before is None else ChangeKind.DROPPED)
    if before == after:
        return ObjectChange(kind, str(after), ChangeKind.CHANGED)
    return ObjectChange(kind, str(after), ChangeKind.RENAMED, str(before))


def _id_of(difference: Difference) -> str:
    """Return the identity of an object, which survives renames and differs for a replacement of the same name."""
    if difference.before is not None and difference.after is not None:
        return f"at {difference.locator}"
    value = difference.before or difference.after
    return (
        value.id if isinstance(value, NamespaceEntry | TableEntry | ViewEntry | AliasEntry) else str(difference.locator)
    )


def _table_identity(difference: Difference) -> TableIdentity | None:
    value = difference.after or difference.before
    return TableIdentity(value.namespace_id, value.id) if isinstance(value, TableEntry) else None


def _identity_of(locator: Locator) -> TableIdentity:
    assert not isinstance(locator, NamespaceLocator | TableLocator)
    namespace_id, table_id = locator.parts[:2]
    return TableIdentity(str(namespace_id), str(table_id))
