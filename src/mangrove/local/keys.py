"""Key comparison on Arrow tables: duplicates, anti-joins and key-based deletes."""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.errors import InvalidInputError
from mangrove.local.python_rows import to_python_rows
from mangrove.local.row_numbers import build_row_numbers
from mangrove.model.types import Column

__all__ = [
    "build_key_mask",
    "check_keys_unique",
    "deduplicate_keys",
    "filter_keys_in",
    "filter_keys_not_in",
    "filter_visible_rows",
    "find_newest_deletes",
]

_EXAMPLES_MAX: Final = 3


def check_keys_unique(table: str, rows: pa.Table, keys: Sequence[Column]) -> None:
    """Raise an error if several rows of one upsert have the same keys."""
    names = [column.name for column in keys]
    counts = _select_keys(rows, names).group_by(_places(names)).aggregate([([], "count_all")])
    repeated = counts.filter(pc.greater(counts.column("count_all"), pa.scalar(1, pa.int64())))
    if repeated.num_rows:
        examples = to_python_rows(repeated.slice(0, _EXAMPLES_MAX).rename_columns([*names, "rows"]))
        raise InvalidInputError(
            f"{repeated.num_rows} key(s) occur more than once in the rows for {table}, and nothing says which row is "
            f"newer, for example {examples}: keep one row for each key"
        )


def deduplicate_keys(rows: pa.Table, keys: Sequence[Column]) -> pa.Table:
    """Return each combination of keys once."""
    names = [column.name for column in keys]
    found = _select_keys(rows, names).group_by(_places(names)).aggregate([])
    return found.rename_columns(names).cast(rows.select(names).schema)


def build_key_mask(rows: pa.Table, wanted: pa.Table, keys: Sequence[Column]) -> Any:
    """Return for each row whether its keys occur in `wanted`."""
    names = [column.name for column in keys]
    beside = _select_keys(wanted, names).cast(_select_keys(rows, names).schema)
    found = _number_rows(_select_keys(rows, names)).join(beside, _places(names), join_type="left semi").column("row")
    numbers = build_row_numbers(rows.num_rows)
    return pc.is_in(numbers, found.combine_chunks())


def filter_keys_in(rows: pa.Table, wanted: pa.Table, keys: Sequence[Column]) -> pa.Table:
    """Return the rows whose keys occur in `wanted`, in order."""
    return _join_keys(rows, wanted, keys, "left semi")


def filter_keys_not_in(rows: pa.Table, excluded: pa.Table, keys: Sequence[Column]) -> pa.Table:
    """Return the rows whose keys do not occur in `excluded`, in order."""
    return _join_keys(rows, excluded, keys, "left anti")


def find_newest_deletes(delete_files: Sequence[tuple[pa.Table, int]], keys: Sequence[Column]) -> pa.Table:
    """Return each key once, with the largest position before which it deletes rows."""
    names = [column.name for column in keys]
    parts = [
        _select_keys(found, names).append_column(
            "hidden_before", pa.chunked_array([pa.repeat(position, found.num_rows)])
        )
        for found, position in delete_files
    ]
    return pa.concat_tables(parts).group_by(_places(names)).aggregate([("hidden_before", "max")])


def filter_visible_rows(
    parts: Sequence[tuple[pa.Table, int]], newest: pa.Table, keys: Sequence[Column]
) -> list[pa.Table]:
    """Return the rows of files at their positions, in order, that `find_newest_deletes` does not delete.

    All files are compared in one join: a join of few rows costs about as much as one of many.
    """
    names = [column.name for column in keys]
    keyed = [
        _select_keys(rows, names).append_column("position", pa.chunked_array([pa.repeat(position, rows.num_rows)]))
        for rows, position in parts
    ]
    met = _number_rows(pa.concat_tables(keyed)).join(newest, _places(names), join_type="inner")
    deleted_rows = met.filter(pc.greater(met.column("hidden_before_max"), met.column("position"))).column("row")
    if not len(deleted_rows):
        return [rows for rows, _ in parts]
    count = sum(rows.num_rows for rows, _ in parts)
    stays = pc.invert(pc.is_in(build_row_numbers(count), deleted_rows.combine_chunks()))
    found, start = [], 0
    for rows, _ in parts:
        found.append(rows.filter(stays.slice(start, rows.num_rows)))
        start += rows.num_rows
    return found


def _join_keys(rows: pa.Table, beside: pa.Table, keys: Sequence[Column], how: Any) -> pa.Table:
    names = [column.name for column in keys]
    found = _number_rows(_select_keys(rows, names)).join(_select_keys(beside, names), _places(names), join_type=how)
    return rows.take(_in_order(found.column("row")))


def _select_keys(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the key columns under unique names."""
    return rows.select(list(names)).rename_columns(_places(names)).replace_schema_metadata(None)


def _places(names: Sequence[str]) -> list[str]:
    return [f"key{place}" for place in range(len(names))]


def _number_rows(rows: pa.Table) -> pa.Table:
    return rows.append_column("row", build_row_numbers(rows.num_rows))


def _in_order(numbers: Any) -> Any:
    return pc.take(numbers, pc.sort_indices(numbers))
