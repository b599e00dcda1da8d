"""The rows of a table that a write looks at, each with the file and the number by which it can be found again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from mangrove.errors import InvalidInputError
from mangrove.local.evaluating import Naming, is_met
from mangrove.local.masks import column_at, is_true, meant_rows
from mangrove.local.scanning import ROW, scanned_parts
from mangrove.model.arrow_form import schema_to_arrow
from mangrove.model.schema import Schema
from mangrove.model.types import Column, Struct
from mangrove.storage.port import Store
from mangrove.tables.conditions import Condition
from mangrove.tables.expressions import column_paths
from mangrove.tables.predicates import Predicate, column_ids
from mangrove.tables.scan_plan import FileScan, plan_scan
from mangrove.tables.table_state import TableState

__all__ = ["FILE", "TargetRows", "meant", "named_in", "needed_columns", "target_rows"]

FILE: Final = "mangrove file"


@dataclass(frozen=True, slots=True)
class TargetRows:
    """All visible rows of some files, one file after the other, with the columns `FILE` and `ROW`."""

    scans: tuple[FileScan, ...]
    counts: tuple[int, ...]
    """How many rows come from each of the files."""
    rows: pa.Table

    def parts(self, mask: Any) -> Iterable[tuple[FileScan, pa.Table, Any]]:
        """Yield each file with its rows and their part of a mask."""
        start = 0
        for scan, count in zip(self.scans, self.counts, strict=True):
            yield scan, self.rows.slice(start, count), mask.slice(start, count)
            start += count


def target_rows(
    store: Store, state: TableState, columns: Sequence[Column], pruning: Predicate | None = None
) -> TargetRows:
    """Return the visible rows of all files in which some can be meant; those that are not meant come along."""
    found = scanned_parts(store, state, plan_scan(state, pruning), columns)
    names = [*(column.name for column in columns), ROW]
    empty = schema_to_arrow(Schema(tuple(columns))).empty_table() if columns else pa.table({})
    empty = empty.append_column(ROW, pa.array([], pa.int64())).append_column(FILE, pa.array([], pa.string()))
    parts = [
        part.select(names).append_column(FILE, pa.array([scan.file.location] * part.num_rows, pa.string()))
        for scan, part in found
    ]
    scans = tuple(scan for scan, _ in found)
    return TargetRows(scans, tuple(part.num_rows for part in parts), pa.concat_tables([empty, *parts]))


def meant(rows: pa.Table, condition: Condition, schema: Schema) -> Any:
    """Return for each row whether it is meant."""
    if condition.expression is not None:
        return is_met(condition.expression, rows, named_in(schema))
    assert condition.predicate is not None
    found = is_true(meant_rows(rows, condition.predicate, schema))
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def named_in(schema: Schema) -> Naming:
    """Return how the names in an expression lead to the columns of a table."""

    def column_of(rows: pa.Table, names: tuple[str, ...]) -> Any:
        path: tuple[str, ...] = ()
        for name in names:
            if path and not isinstance(schema.column(*path).type, Struct):
                raise InvalidInputError(f"{'.'.join(names)!r} lies inside a list or map: only Spark looks into these")
            path = (*path, schema.column(*path, name).name)
        return column_at(rows, path)

    return column_of


def needed_columns(schema: Schema, condition: Condition) -> list[Column]:
    """Return the columns of a table that a condition looks at."""
    roots: set[str] = set()
    if condition.expression is not None:
        roots |= {names[0].casefold() for names in column_paths(condition.expression)}
    if condition.predicate is not None:
        roots |= {schema.path_of(column_id)[0].casefold() for column_id in column_ids(condition.predicate)}
    return [column for column in schema.columns if column.name.casefold() in roots]
