"""Key comparison on Arrow tables: duplicates, anti-joins and key-based deletes."""

from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.errors import InvalidInputError
from mangrove.local.parallel import map_parallel
from mangrove.local.python_rows import to_python_rows
from mangrove.local.row_numbers import build_row_numbers
from mangrove.model.types import Column, Float32, Float64

__all__ = [
    "build_key_mask",
    "check_keys_unique",
    "deduplicate_keys",
    "filter_keys_in",
    "filter_keys_not_in",
    "find_visible_rows",
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
    distinct = _select_keys(rows, names).group_by(_places(names)).aggregate([])
    return distinct.rename_columns(names).cast(rows.select(names).schema)


def build_key_mask(rows: pa.Table, selected: pa.Table, keys: Sequence[Column]) -> Any:
    """Return for each row whether its keys occur in `selected`."""
    names = [column.name for column in keys]
    other = _select_keys(selected, names).cast(_select_keys(rows, names).schema)
    if len(names) == 1:
        return pc.is_in(rows.column(names[0]), value_set=other.column(0)).combine_chunks()
    matches = _number_rows(_select_keys(rows, names)).join(other, _places(names), join_type="left semi").column("row")
    numbers = build_row_numbers(rows.num_rows)
    return pc.is_in(numbers, matches.combine_chunks())


def filter_keys_in(rows: pa.Table, selected: pa.Table, keys: Sequence[Column]) -> pa.Table:
    """Return the rows whose keys occur in `selected`, in order."""
    return _join_keys(rows, selected, keys, "left semi")


def filter_keys_not_in(rows: pa.Table, excluded: pa.Table, keys: Sequence[Column]) -> pa.Table:
    """Return the rows whose keys do not occur in `excluded`, in order."""
    return _join_keys(rows, excluded, keys, "left anti")


def find_visible_rows(
    parts: Sequence[tuple[pa.Table, int]], deletes: Sequence[tuple[pa.Table, int]], keys: Sequence[Column]
) -> list[Any]:
    """Return a mask for each part, which is true for rows whose keys occur in no delete at a later position.

    Parts and deletes are tables with the key columns, and their positions.
    """
    newest_first = sorted(deletes, key=itemgetter(1), reverse=True)
    find = _find_by_index if len(keys) == 1 and not isinstance(keys[0].type, Float32 | Float64) else _find_by_join
    names = [column.name for column in keys]
    delete_keys = _select_keys(pa.concat_tables([rows.select(names) for rows, _ in newest_first]), names)
    positions = pa.concat_arrays(
        [pa.repeat(pa.scalar(position, pa.int64()), len(rows)) for rows, position in newest_first]
    )

    def find_masks(some: Sequence[tuple[pa.Table, int]]) -> list[Any]:
        compared = _select_keys(pa.concat_tables([rows.select(names) for rows, _ in some]), names)
        newest = find(compared, delete_keys, positions)
        masks, start = [], 0
        for rows, position in some:
            is_older = pc.less_equal(newest.slice(start, len(rows)), pa.scalar(position, pa.int64()))
            masks.append(pc.fill_null(is_older, pa.scalar(value=True)))
            start += len(rows)
        return masks

    # Each bucket builds its own hash table of the delete keys; a join is parallel by itself.
    count = min(pa.cpu_count(), len(parts)) if find is _find_by_index else 1
    ends = [len(parts) * place // count for place in range(count + 1)]
    buckets = [parts[start:end] for start, end in pairwise(ends)]
    return [mask for masks in map_parallel(find_masks, buckets) for mask in masks]


def _find_by_index(rows: pa.Table, delete_keys: pa.Table, positions: Any) -> Any:
    """Return for each row the position of the first delete with its key, null if there is none."""
    value_set = delete_keys.column(0).combine_chunks()
    indices: Any = pc.index_in(rows.column(0), value_set=value_set, skip_nulls=True)
    return pc.take(positions, indices.combine_chunks())


def _find_by_join(rows: pa.Table, delete_keys: pa.Table, positions: Any) -> Any:
    """Return the same for keys of several columns."""
    names = delete_keys.column_names
    newest = delete_keys.append_column("position", positions).group_by(names).aggregate([("position", "max")])
    matches = _number_rows(rows).join(newest, names, join_type="inner").combine_chunks()
    indices = pc.index_in(build_row_numbers(rows.num_rows), value_set=matches.column("row").combine_chunks())
    return pc.take(matches.column("position_max").combine_chunks(), indices)


def _join_keys(rows: pa.Table, other: pa.Table, keys: Sequence[Column], how: Any) -> pa.Table:
    names = [column.name for column in keys]
    matches = _number_rows(_select_keys(rows, names)).join(_select_keys(other, names), _places(names), join_type=how)
    return rows.take(_in_order(matches.column("row")))


def _select_keys(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the key columns under unique names."""
    return rows.select(list(names)).rename_columns(_places(names)).replace_schema_metadata(None)


def _places(names: Sequence[str]) -> list[str]:
    return [f"key{place}" for place in range(len(names))]


def _number_rows(rows: pa.Table) -> pa.Table:
    return rows.append_column("row", build_row_numbers(rows.num_rows))


def _in_order(numbers: Any) -> Any:
    return pc.take(numbers, pc.sort_indices(numbers))
