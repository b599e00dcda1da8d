"""What became of the columns of a table between two versions."""

from collections.abc import Set
from dataclasses import dataclass

from mangrove.lakehouse.diff import Diff
from mangrove.model.schema import Schema
from mangrove.model.sql_text import type_text

__all__ = ["ChangedFacts", "ColumnChange", "column_changes"]


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A column that came, went or is another now; as SQL text, None where there is none."""

    id: int
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class ChangedFacts:
    """What changed from one version to another, with the columns of tables, by the tables' names."""

    diff: Diff
    columns: dict[str, tuple[ColumnChange, ...]]
    settings_changed: bool


def column_changes(before: Schema | None, after: Schema | None) -> tuple[ColumnChange, ...]:
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
