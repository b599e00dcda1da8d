"""Writes that read first: deleting the rows that a predicate means, and putting others in their place."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.local.files import FileWriter
from mangrove.local.masks import is_true, meant_rows
from mangrove.local.row_keys import distinct, with_keys_in, without_keys_in
from mangrove.local.scanning import scanned, scanned_parts
from mangrove.model.manifests import DataFile
from mangrove.model.objects import Delta
from mangrove.model.types import Column
from mangrove.model.values import Value, canonical_value
from mangrove.tables.predicates import AllOf, Comparison, Operator, Predicate
from mangrove.tables.row_counts import RowCounts
from mangrove.tables.scan_plan import plan_scan
from mangrove.tables.table_state import TableState
from mangrove.tables.writing import PlannedWrite, appended, deleted, placed, planned, rewritten

__all__ = ["replaced"]


def replaced(files: FileWriter, state: TableState, predicate: Predicate, rows: pa.Table | None) -> PlannedWrite:
    """Return how to put `rows` in the place of those that are meant, as they are seen now.

    A table with keys hides them by their keys; one without gets new files in the
    place of those that have some.
    """
    new = {} if rows is None else placed(state, files.write(state, rows))
    deltas: dict[tuple[Value | None, ...], Delta] = {}
    counts = RowCounts(inserted=0 if rows is None else rows.num_rows)
    for values in dict.fromkeys([*(log.values for log in state.logs), *new]):
        alone = replace(state, logs=(state.log_with(values),))
        delta, deleted_count = (
            _hidden(files, alone, predicate, rows, new.get(values, ()))
            if state.version.keys
            else _rewritten(files, alone, predicate, new.get(values, ()))
        )
        counts += RowCounts(deleted=deleted_count)
        if delta is not None:
            deltas[values] = delta
    return planned(deltas, (log.values for log in state.logs), counts)


def _hidden(
    files: FileWriter, state: TableState, predicate: Predicate, rows: pa.Table | None, added: Sequence[DataFile]
) -> tuple[Delta | None, int]:
    """Return the delta that hides the keys of the rows that are meant, and how many rows go.

    Rows that were appended may share a key with one that is meant without being
    meant themselves. They are hidden with it, so they are written again.
    """
    keys = state.checked_keys("a delete")
    found = scanned(files.store, state, plan_scan(state, predicate), keys, predicate)
    wanted = distinct(found, keys)
    deleted_count = found.num_rows
    staying = _staying(files, state, predicate, wanted, keys)
    if rows is not None:
        # A row that is written takes the place of the one with its keys, whether or not that one is meant.
        new_keys = rows.select([column.name for column in keys]).cast(wanted.schema)
        beside = _staying(files, state, predicate, distinct(new_keys, keys), keys)
        deleted_count += beside.num_rows
        staying = without_keys_in(staying, new_keys, keys)
        wanted = distinct(pa.concat_tables([wanted, new_keys]), keys)
    if not wanted.num_rows:
        return None, 0
    key_files = [file for _, file in files.write_keys(state, wanted)]
    kept = [file for there in placed(state, files.write(state, staying)).values() for file in there]
    return deleted(key_files, state.version.keys, [*kept, *added]), deleted_count


def _staying(
    files: FileWriter, state: TableState, predicate: Predicate, wanted: pa.Table, keys: Sequence[Column]
) -> pa.Table:
    """Return the rows with wanted keys that are not meant; only files within the bounds of the keys are opened."""
    bounds: list[Predicate] = []
    for column in keys:
        ends = pc.min_max(wanted.column(column.name))
        for operator, end in ((Operator.GREATER_OR_EQUAL, ends["min"]), (Operator.LESS_OR_EQUAL, ends["max"])):
            if end.is_valid:
                bounds.append(Comparison(column.id, operator, canonical_value(end.as_py())))
    near = AllOf(tuple(bounds)) if wanted.num_rows else None
    plan = plan_scan(state, near)
    if near is None:
        plan = replace(plan, scans=())
    beside = scanned(files.store, state, plan, state.schema.columns, near)
    is_meant = is_true(meant_rows(beside, predicate, state.schema))
    return with_keys_in(beside.filter(pc.invert(is_meant)), wanted, keys)


def _rewritten(
    files: FileWriter, state: TableState, predicate: Predicate, added: Sequence[DataFile]
) -> tuple[Delta | None, int]:
    deleted_count = 0
    gone: list[str] = []
    kept: list[DataFile] = []
    for scan, rows in scanned_parts(files.store, state, plan_scan(state, predicate), state.schema.columns):
        is_meant = is_true(meant_rows(rows, predicate, state.schema))
        if pc.any(is_meant).as_py():
            gone.append(scan.file.location)
            deleted_count += pc.sum(is_meant).as_py()
            left = rows.filter(pc.invert(is_meant))
            kept += [file for there in placed(state, files.write(state, left)).values() for file in there]
    if not gone:
        return appended(added) if added else None, 0
    return rewritten(gone, [*kept, *added]), deleted_count
