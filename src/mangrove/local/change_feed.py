"""Row changes between two table states, computed with Arrow."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mangrove.local.python_rows import to_python_rows
from mangrove.local.scan import RowMaskCache, run_scan
from mangrove.model.arrow_schema import schema_to_arrow
from mangrove.storage.port import Store
from mangrove.tables.change_feed import CHANGE_TYPE, DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, plan_changed_files
from mangrove.tables.table_state import TableState

__all__ = ["CHANGE_TYPE", "compute_changed_rows"]


def compute_changed_rows(
    store: Store, before: TableState, after: TableState, vectors: RowMaskCache | None = None
) -> pa.Table:
    """Return the rows that differ, as of the later state, with their change types.

    `insert` and `delete` are added and removed rows; `update_before` and, directly after it,
    `update_after` are a changed row with the same keys. Files that both states read in the
    same way are not opened. A compaction changes no rows.
    """
    was, plan_before, plan_after = plan_changed_files(before, after)
    old = run_scan(store, was, plan_before, after.schema.columns, vectors=vectors)
    new = run_scan(store, after, plan_after, after.schema.columns, vectors=vectors)
    compared = _ComparedRows(
        [*to_python_rows(old), *to_python_rows(new)], [column.name for column in after.key_columns]
    )
    places = range(old.num_rows + new.num_rows)
    was_there, is_there = places[: old.num_rows], places[old.num_rows :]
    found = _pair_changes(
        compared, _find_surplus(compared, was_there, is_there), _find_surplus(compared, is_there, was_there)
    )
    taken = pa.concat_tables([old, new]).take(pa.array([place for _, place in found], pa.int64()))
    rows = pa.Table.from_arrays(taken.columns, schema=schema_to_arrow(after.schema))
    return rows.append_column(CHANGE_TYPE, pa.array([word for word, _ in found], pa.string()))


@dataclass(frozen=True)
class _ComparedRows:
    """The rows to compare: the old ones, then the new ones; a row is identified by its index."""

    rows: list[dict[str, Any]]
    keys: list[str]

    def text_at(self, place: int) -> str:
        """Return a string that equal rows share; unlike the values it is hashable."""
        return repr(self.rows[place])

    def keys_at(self, place: int) -> tuple[Any, ...]:
        """Return the keys of a row."""
        return tuple(self.rows[place][key] for key in self.keys)


def _pair_changes(compared: _ComparedRows, gone: list[int], came: list[int]) -> list[tuple[str, int]]:
    """Return each row with its change type; a deleted and an inserted row with the same keys are an update."""
    waiting: dict[tuple[Any, ...], list[int]] = {}
    for place in gone:
        waiting.setdefault(compared.keys_at(place), []).append(place)
    found = []
    for place in came:
        old = waiting.get(compared.keys_at(place)) if compared.keys else None
        if old:
            found += [(UPDATE_BEFORE, old.pop()), (UPDATE_AFTER, place)]
        else:
            found.append((INSERT, place))
    return [*((DELETE, place) for places in waiting.values() for place in places), *found]


def _find_surplus(compared: _ComparedRows, places: Sequence[int], others: Sequence[int]) -> list[int]:
    """Return the rows that occur more often than in the other set."""
    left = Counter(compared.text_at(place) for place in others)
    found = []
    for place in places:
        text = compared.text_at(place)
        if left[text]:
            left[text] -= 1
        else:
            found.append(place)
    return found
