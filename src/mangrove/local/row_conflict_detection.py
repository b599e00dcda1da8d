"""Comparison of the rows of two versions, with which a commit detects conflicts by rows.

Partition values and column statistics decide first. Only files that they do not
exclude are opened, and of these only key and predicate columns, unless a concurrent
commit rewrote them.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from mangrove.expressions.predicates import AllOf, ColumnComparison, Operator, Predicate
from mangrove.local.keys import filter_keys_in
from mangrove.local.parquet import read_columns
from mangrove.local.python_rows import to_python_rows
from mangrove.local.scan import run_scan_by_file
from mangrove.metastore import RowRange
from mangrove.model.locators import PartitionLocator
from mangrove.model.manifests import DataFile
from mangrove.model.types import Column
from mangrove.model.values import restore_zone
from mangrove.parallel import map_parallel
from mangrove.storage.port import Store
from mangrove.tables.change_feed import leave_out_compactions, plan_changed_files
from mangrove.tables.scan_plan import FileScan, ScanPlan, list_live_files
from mangrove.tables.table_state import TableState, load_partition_logs
from mangrove.transaction.catalog import CatalogReader

__all__ = ["have_rows_changed"]

_COMPARED_BYTES_MAX: Final = 1024**3
"""The maximum size of the files to open; above it the rows count as changed."""
_COMPARED_ROWS_MAX: Final = 1_000_000
"""The maximum number of whole rows to compare."""


def have_rows_changed(
    store: Store,
    rows: RowRange,
    partitions: Collection[PartitionLocator],
    before: CatalogReader,
    after: CatalogReader,
) -> bool:
    """Return whether a row of the range was added, changed or deleted; only these partitions were written."""
    was = load_partition_logs(before, rows.stream, sorted(partitions))
    now = load_partition_logs(after, rows.stream, sorted(partitions))
    if was is None or now is None:
        return True
    now = leave_out_compactions(was, replace(now, version=was.version))
    predicate = AllOf((rows.predicate, *_build_key_bounds(rows.key_files, was.key_columns)))
    _, old, new = plan_changed_files(was, now, predicate)
    if not old.scans and not new.scans:
        return False
    if sum(file.size_bytes for file in (*old.files(), *new.files(), *rows.key_files)) > _COMPARED_BYTES_MAX:
        return True
    return _Comparison(store, rows, predicate, was, now).differ(old, new)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """The comparison of a row range in two states of a table."""

    store: Store
    rows: RowRange
    predicate: Predicate
    was: TableState
    now: TableState

    def differ(self, old: ScanPlan, new: ScanPlan) -> bool:
        """Return whether the files contain different rows of the range."""
        keys = self._read_keys()
        live = {live.file.location for log in self.now.logs for live in list_live_files(log.deltas)}
        if any(scan.file.location not in live for scan in old.scans):
            return self._differ_by_value(old, new, keys)
        known = {scan.file.location for scan in old.scans}
        added = [scan for scan in new.scans if scan.file.location not in known]
        remaining = [scan for scan in new.scans if scan.file.location in known]
        # No file was rewritten, so the other files can only have lost rows.
        return bool(self._count(self.now, added, keys)) or (
            self._count(self.was, old.scans, keys) != self._count(self.now, remaining, keys)
        )

    def _differ_by_value(self, old: ScanPlan, new: ScanPlan, keys: pa.Table | None) -> bool:
        if sum(scan.file.row_count for scan in (*old.scans, *new.scans)) > _COMPARED_ROWS_MAX:
            return True
        return self._count_values(self.was, old, keys) != self._count_values(self.now, new, keys)

    def _count_values(self, state: TableState, plan: ScanPlan, keys: pa.Table | None) -> Counter[str]:
        parts = self._read(state, plan.scans, self.was.schema.columns, keys)
        return Counter(repr(row) for part in parts for row in to_python_rows(part))

    def _count(self, state: TableState, scans: Sequence[FileScan], keys: pa.Table | None) -> int:
        return sum(part.num_rows for part in self._read(state, scans, (), keys))

    def _read(
        self, state: TableState, scans: Sequence[FileScan], columns: Sequence[Column], keys: pa.Table | None
    ) -> list[pa.Table]:
        """Return the rows of the range in each file, with at least these columns."""
        key_columns = () if keys is None else self.was.key_columns
        requested = tuple(dict.fromkeys((*columns, *key_columns)))
        names = [column.name for column in requested]
        found = run_scan_by_file(self.store, state, ScanPlan(tuple(scans)), requested, self.predicate)
        parts = [part.select(names) if columns else part for _, part in found]
        return parts if keys is None else [filter_keys_in(part, keys, self.was.key_columns) for part in parts]

    def _read_keys(self) -> pa.Table | None:
        """Return the keys of the range, or None if it has no keys."""
        if not self.rows.key_files:
            return None
        columns = self.was.key_columns
        return pa.concat_tables(map_parallel(lambda file: read_columns(self.store, file, columns), self.rows.key_files))


def _build_key_bounds(files: Sequence[DataFile], keys: Sequence[Column]) -> list[Predicate]:
    """Return conditions that all rows with keys of these files satisfy, from the statistics of the files."""
    found: list[Predicate] = []
    for column in keys if files else ():
        statistics = [file.statistics_of(column.id) for file in files if file.row_count]
        if not statistics or any(one is None or one.null_count != 0 for one in statistics):
            continue
        for operator, ends in (
            (Operator.GREATER_OR_EQUAL, [one.minimum for one in statistics if one is not None]),
            (Operator.LESS_OR_EQUAL, [one.maximum for one in statistics if one is not None]),
        ):
            if None in ends:
                continue
            values = [restore_zone(end, column.type) for end in ends if end is not None]
            end = min(values) if operator is Operator.GREATER_OR_EQUAL else max(values)
            found.append(ColumnComparison(column.id, operator, end))
    return found
