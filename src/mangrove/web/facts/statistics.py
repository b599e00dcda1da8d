"""What several files together say about a column."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mangrove.model.manifests import ColumnStatistics, DataFile, FileKind
from mangrove.model.values import Value

__all__ = ["Bounds", "bounds_over"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is known about a column; None is what is not known."""

    null_count: int | None = None
    minimum: Value | None = None
    maximum: Value | None = None


def bounds_over(column_id: int, files: Sequence[DataFile]) -> Bounds:
    """Return the nulls and bounds of a column over all files that hold rows.

    A file that says nothing may hold anything, so then nothing is known of all.
    """
    found = [file.statistics_of(column_id) for file in files if file.row_count and file.kind is FileKind.DATA]
    known = [one for one in found if one is not None]
    if not known or len(known) < len(found):
        return Bounds()
    nulls = [one.null_count for one in known if one.null_count is not None]
    bounded = [one for one in known if not _is_all_null(one)]
    return Bounds(
        sum(nulls) if len(nulls) == len(known) else None,
        _outermost([one.minimum for one in bounded], min),
        _outermost([one.maximum for one in bounded], max),
    )


def _is_all_null(one: ColumnStatistics) -> bool:
    return one.minimum is None and one.value_count is not None and one.null_count == one.value_count


def _outermost(values: Sequence[Value | None], choose: Callable[[list[Any]], Any]) -> Value | None:
    kinds = {(type(value), getattr(value, "tzinfo", None) is None) for value in values}
    if len(kinds) != 1 or None in values:
        return None
    outermost: Value = choose(list(values))
    return outermost
