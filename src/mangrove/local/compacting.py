"""Compaction: what a log means, written anew in as few files as needed."""

from dataclasses import replace

import pyarrow as pa

from mangrove.local.files import FileWriter
from mangrove.local.scanning import scanned_parts
from mangrove.model.manifests import DataFile
from mangrove.model.objects import Delta
from mangrove.tables.compaction import can_stay, needs_compaction, staying_file
from mangrove.tables.scan_plan import plan_scan
from mangrove.tables.table_state import Log, TableState
from mangrove.tables.writing import compacted, placed

__all__ = ["compacted_log"]


def compacted_log(files: FileWriter, state: TableState, log: Log) -> Delta | None:
    """Return the delta that stands in the place of all of a log, or None if it would change nothing."""
    if not needs_compaction(log):
        return None
    alone = replace(state, logs=(log,))
    plan = plan_scan(alone)
    staying = [staying_file(scan) for scan in plan.scans if can_stay(scan, files.file_size_bytes)]
    merged = replace(plan, scans=tuple(scan for scan in plan.scans if not can_stay(scan, files.file_size_bytes)))
    parts = [rows for _, rows in scanned_parts(files.store, alone, merged, state.schema.columns)]
    new: list[DataFile] = []
    if parts:
        rows = pa.concat_tables([part.select(list(state.schema.names)) for part in parts])
        new = [file for there in placed(alone, files.write(alone, rows)).values() for file in there]
    return compacted([*staying, *new], log.last_position)
