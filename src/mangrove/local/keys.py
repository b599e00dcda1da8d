"""Key comparison on Arrow tables: duplicates, anti-joins and key-based deletes."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.errors import InvalidInputError
from mangrove.local.python_rows import to_python_rows
from mangrove.local.row_numbers import build_row_numbers
from mangrove.model.types import Column, Float32, Float64
from mangrove.parallel import map_parallel

__all__ = [
    "build_key_mask",
    "check_keys_unique",
    "deduplicate_keys",
    "filter_keys_in",
    "filter_keys_not_in",
    "find_visible_rows",
]

_PC: Final[Any] = pc
"""Functions that the type stubs do not have."""
_EXAMPLES_MAX: Final = 3
_POSITION: Final = "position"
_SPARSENESS_MAX: Final = 2
"""How many integers there may be between the lowest and the highest key for each row; it bounds memory."""
_SMALL_SPAN: Final = 2**23
"""How many there may be in any case (64 MB), if there are at most eight for each compared key."""
_RANGE_SPAN: Final = 2**18
"""How many integers one lookup table of sorted keys has."""


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
    """Return for each row whether its keys occur in `selected`; null occurs nowhere."""
    names = [column.name for column in keys]
    compared = _select_keys(rows, names)
    columns = [selected.column(name).cast(compared.field(place).type) for place, name in enumerate(names)]
    if _is_indexable(keys):
        values, value_set = compared.column(0).combine_chunks(), columns[0].combine_chunks()
        found = _find_by_offset([values], value_set, pa.repeat(pa.scalar(value=True), len(value_set)))
        return pc.is_in(values, value_set=value_set, skip_nulls=True) if found is None else pc.is_valid(found[0])
    other = pa.table(columns, names=_places(names))
    matches = _number_rows(compared).join(other, _places(names), join_type="left semi").column("row")
    return pc.is_in(build_row_numbers(rows.num_rows), value_set=matches.combine_chunks())


def filter_keys_in(rows: pa.Table, selected: pa.Table, keys: Sequence[Column]) -> pa.Table:
    """Return the rows whose keys occur in `selected`, in order."""
    return rows.filter(build_key_mask(rows, selected, keys))


def filter_keys_not_in(rows: pa.Table, excluded: pa.Table, keys: Sequence[Column]) -> pa.Table:
    """Return the rows whose keys do not occur in `excluded`, in order."""
    return rows.filter(pc.invert(build_key_mask(rows, excluded, keys)))


def _is_indexable(keys: Sequence[Column]) -> bool:
    """Return whether a hash table of one column compares the keys as SQL does; zeros and NaN need a join."""
    return len(keys) == 1 and not isinstance(keys[0].type, Float32 | Float64)


_Part = tuple[pa.Table, int]
"""The key columns of some rows, and their position."""
_Keys = tuple[Any, int]
"""The only key column of some rows, and their position."""


def find_visible_rows(parts: Sequence[_Part], deletes: Sequence[_Part], keys: Sequence[Column]) -> list[Any]:
    """Return a mask for each part, which is true for rows whose keys occur in no delete at a later position."""
    names = [column.name for column in keys]
    oldest_first = sorted(deletes, key=itemgetter(1))
    if len(keys) == 1 and pa.types.is_integer(deletes[0][0].column(names[0]).type):
        masks = _find_by_range(_combine_column(parts, names[0]), _combine_column(oldest_first, names[0]))
        if masks is not None:
            return masks
    delete_keys = _select_keys(pa.concat_tables([rows.select(names) for rows, _ in oldest_first]), names)
    delete_keys = delete_keys.append_column(
        _POSITION,
        pa.concat_arrays([pa.repeat(pa.scalar(position, pa.int64()), len(rows)) for rows, position in oldest_first]),
    )
    if not _is_indexable(keys):
        return _find_masks(parts, delete_keys, names, _find_by_join)
    newest = _find_by_offset(
        [column for column, _ in _combine_column(parts, names[0])],
        delete_keys.column(0).combine_chunks(),
        delete_keys.column(_POSITION).combine_chunks(),
    )
    if newest is not None:
        oldest = oldest_first[0][1]
        return [_is_visible(found, position, oldest) for found, (_, position) in zip(newest, parts, strict=True)]
    newest_first = delete_keys.take(build_row_numbers(len(delete_keys))[::-1])
    tasks = _split_evenly(parts, newest_first)
    return [
        mask for some in map_parallel(lambda task: _find_masks(*task, names, _find_by_index), tasks) for mask in some
    ]


def _combine_column(parts: Sequence[_Part], name: str) -> list[_Keys]:
    return [(rows.column(name).combine_chunks(), position) for rows, position in parts]


def _find_by_range(parts: Sequence[_Keys], deletes: Sequence[_Keys]) -> list[Any] | None:
    """Return the masks of sorted integer keys, or None if they are not sorted or far apart; deletes are oldest first.

    Ranges of keys are compared one by one, so that a lookup table fits into the cache of a processor.
    """
    numbered = [(column.cast(pa.int64()), position) for column, position in parts]
    chosen = [(column.cast(pa.int64()), position) for column, position in deletes]
    if not all(map_parallel(_is_sorted, [column for column, _ in (*numbered, *chosen)])):
        return None
    filled = [column for column, _ in numbered if len(column)]
    if not filled:
        return [_is_visible(pa.nulls(0, pa.int64()), position, 0) for _, position in numbered]
    low, high = min(column[0].as_py() for column in filled), max(column[-1].as_py() for column in filled)
    if high - low > _compute_span_max(sum(map(len, filled)), sum(len(column) for column, _ in chosen)):
        return None
    starts = range(low, high + 1, _RANGE_SPAN)
    cuts = [_cut_sorted(column, starts, high) for column, _ in (*numbered, *chosen)]
    oldest = chosen[0][1]

    def compare(place: int) -> list[Any]:
        slices = [
            (column.slice(cut[place], cut[place + 1] - cut[place]), position)
            for (column, position), cut in zip((*numbered, *chosen), cuts, strict=True)
        ]
        start: Any = pa.scalar(starts[place], pa.int64())
        keys = pc.subtract(pa.concat_arrays([column for column, _ in slices[len(parts) :]]), start)
        values = [pa.repeat(pa.scalar(position, pa.int64()), len(column)) for column, position in slices[len(parts) :]]
        newest = _PC.scatter(pa.concat_arrays(values), keys, max_index=_RANGE_SPAN - 1)
        return [
            _is_visible(pc.take(newest, pc.subtract(column, start)), position, oldest)
            for column, position in slices[: len(parts)]
        ]

    by_range = map_parallel(compare, range(len(starts)))
    return [pa.concat_arrays(masks) for masks in zip(*by_range, strict=True)]


def _is_sorted(column: Any) -> bool:
    """Return whether a column has no nulls and ascending values."""
    return not column.null_count and pc.all(pc.less_equal(column[:-1], column[1:])).as_py() is not False


def _cut_sorted(column: Any, starts: range, high: int) -> list[int]:
    """Return where each range begins in a sorted column, and where the last one ends."""
    values = memoryview(column.buffers()[1] or b"").cast("B").cast("q")[column.offset : column.offset + len(column)]
    return [*(bisect_left(values, start) for start in starts), bisect_right(values, high)]


def _compute_span_max(count: int, selected_count: int) -> int:
    """Return how many integers there may be between the bounds of some keys for a lookup table of all of them."""
    return max(_SPARSENESS_MAX * count, min(_SMALL_SPAN, 8 * (count + selected_count)))


def _find_by_offset(columns: Sequence[Any], selected: Any, values: Any) -> list[Any] | None:
    """Return the value of the last equal selected key for each key, null if there is none, without a hash table.

    A key is found by its distance from the lowest one. Return None if the keys are no integers, or few of those
    between their bounds.
    """
    if not pa.types.is_integer(selected.type):
        return None
    integers: list[Any] = [column.cast(pa.int64()) for column in columns]
    bounds = pc.min_max(pa.chunked_array(integers, pa.int64()))
    low, high = bounds["min"], bounds["max"]
    if not low.is_valid or high.as_py() - low.as_py() > _compute_span_max(sum(map(len, integers)), len(selected)):
        return None
    chosen = selected.cast(pa.int64())
    is_near = pc.and_(pc.greater_equal(chosen, low), pc.less_equal(chosen, high))
    offsets = pc.subtract(chosen.filter(is_near), low)
    found = _PC.scatter(values.filter(is_near), offsets, max_index=high.as_py() - low.as_py())
    return map_parallel(lambda column: pc.take(found, pc.subtract(column, low)), integers)


def _is_visible(newest: Any, position: int, oldest: int = 0) -> Any:
    """Return for each row whether its newest delete, null if there is none, is not later than the row's position.

    A row that is older than the oldest delete is visible if no delete has its key.
    """
    if position < oldest:
        return pc.is_null(newest)
    return pc.fill_null(pc.less_equal(newest, pa.scalar(position, pa.int64())), pa.scalar(value=True))


def _split_evenly(parts: Sequence[_Part], delete_keys: pa.Table) -> list[tuple[Sequence[_Part], pa.Table]]:
    """Return as many buckets of parts as processors, because each one builds a hash table of all delete keys."""
    count = min(pa.cpu_count(), len(parts))
    ends = [len(parts) * place // count for place in range(count + 1)]
    return [(parts[start:end], delete_keys) for start, end in pairwise(ends)]


def _find_masks(
    parts: Sequence[_Part], delete_keys: pa.Table, names: Sequence[str], find: Callable[[pa.Table, pa.Table], Any]
) -> list[Any]:
    newest = find(_select_keys(pa.concat_tables([rows.select(names) for rows, _ in parts]), names), delete_keys)
    masks, start = [], 0
    for rows, position in parts:
        masks.append(_is_visible(newest.slice(start, len(rows)), position))
        start += len(rows)
    return masks


def _find_by_index(rows: pa.Table, delete_keys: pa.Table) -> Any:
    """Return for each row the position of the first delete with its key, null if there is none."""
    value_set = delete_keys.column(0).combine_chunks()
    indices: Any = pc.index_in(rows.column(0), value_set=value_set, skip_nulls=True)
    return pc.take(delete_keys.column(_POSITION).combine_chunks(), indices.combine_chunks())


def _find_by_join(rows: pa.Table, delete_keys: pa.Table) -> Any:
    """Return the same for keys of several columns."""
    names = rows.column_names
    newest = delete_keys.group_by(names).aggregate([(_POSITION, "max")])
    matches = _number_rows(rows).join(newest, names, join_type="inner").combine_chunks()
    indices = pc.index_in(build_row_numbers(rows.num_rows), value_set=matches.column("row").combine_chunks())
    return pc.take(matches.column(f"{_POSITION}_max").combine_chunks(), indices)


def _select_keys(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the key columns under unique names."""
    return rows.select(list(names)).rename_columns(_places(names)).replace_schema_metadata(None)


def _places(names: Sequence[str]) -> list[str]:
    return [f"key{place}" for place in range(len(names))]


def _number_rows(rows: pa.Table) -> pa.Table:
    return rows.append_column("row", build_row_numbers(rows.num_rows))
