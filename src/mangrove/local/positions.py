"""Rows that are hidden by their numbers: how the files that say so look, and which rows of a file they mean.

The two columns have the names and ids that Iceberg gives them, so that its readers
understand the files as they are.
"""

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.local.parquet import read_columns
from mangrove.model.arrow_form import schema_to_arrow
from mangrove.model.schema import Schema
from mangrove.model.types import Column, Int8, Varchar
from mangrove.storage.port import Store
from mangrove.tables.scan_plan import FileScan

__all__ = ["FILE_PATH", "POSITION", "deleted_positions", "position_rows"]

FILE_PATH: Final = Column(2_147_483_546, "file_path", Varchar())
POSITION: Final = Column(2_147_483_545, "pos", Int8())


def position_rows(location: str, positions: Any) -> pa.Table:
    """Return the rows of a file that hides rows of the file at `location`."""
    ordered = pc.take(positions, pc.sort_indices(positions))
    arrow = schema_to_arrow(Schema((FILE_PATH, POSITION)))
    return pa.table([pa.repeat(pa.scalar(location), len(ordered)), ordered.cast(pa.int64())], schema=arrow)


def deleted_positions(store: Store, scan: FileScan) -> Any:
    """Return the numbers of the rows of a file that are hidden, as one array."""
    found = []
    for file in scan.position_deletes:
        rows = read_columns(store, file, (FILE_PATH, POSITION))
        found.append(rows.filter(pc.equal(rows.column("file_path"), pa.scalar(scan.file.location))).column("pos"))
    return pa.chunked_array([chunk for column in found for chunk in column.chunks], pa.int64()).combine_chunks()
