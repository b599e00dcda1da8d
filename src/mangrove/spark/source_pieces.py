"""Pieces of a table that a task of Spark reads by itself, and how it reads them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from mangrove.local.scanning import scanned
from mangrove.model.types import Column
from mangrove.spark.pyspark_versions import arrow_schema
from mangrove.storage.port import Store
from mangrove.tables.predicates import Predicate
from mangrove.tables.scan_plan import FileScan, ScanPlan
from mangrove.tables.table_state import TableState

__all__ = ["PIECE_SIZE_BYTES", "FilesPiece", "PieceReader", "bare", "batches", "gathered"]

PIECE_SIZE_BYTES: Final = 32 * 1024 * 1024
"""Small files are read together up to this size, since each task costs time of its own."""
_BATCH_ROWS: Final = 65_536


@dataclass
class FilesPiece(InputPartition):
    """Files of rows, each with the files of keys that hide some of them."""

    scans: tuple[FileScan, ...]
    version: int
    """The version that gave these rows, for readers of a change feed."""


@dataclass(frozen=True, slots=True)
class PieceReader:
    """What a task needs to know to read a piece: no logs, which are long and stay with the planner."""

    state: TableState
    columns: tuple[Column, ...]
    predicate: Predicate | None = None

    def rows(self, store: Store, scans: Sequence[FileScan]) -> pa.Table:
        """Return the rows of some files that are visible and meant."""
        return scanned(store, self.state, ScanPlan(tuple(scans)), self.columns, self.predicate)


def gathered(scans: Sequence[FileScan], version: int, size_bytes: int = PIECE_SIZE_BYTES) -> list[FilesPiece]:
    """Return the files as pieces of about equal size, in order."""
    pieces: list[FilesPiece] = []
    waiting: list[FileScan] = []
    waiting_bytes = 0
    for scan in scans:
        if waiting and waiting_bytes + scan.file.size_bytes > size_bytes:
            pieces.append(FilesPiece(tuple(waiting), version))
            waiting, waiting_bytes = [], 0
        waiting.append(scan)
        waiting_bytes += scan.file.size_bytes
    return [*pieces, FilesPiece(tuple(waiting), version)] if waiting else pieces


def bare(state: TableState) -> TableState:
    """Return the table without its logs, as it is sent to workers."""
    return replace(state, logs=())


def batches(rows: pa.Table, schema: StructType) -> Iterator[Any]:
    """Yield the rows in exactly the types that Spark asks for."""
    wanted = arrow_schema(schema)
    yield from rows.select(wanted.names).cast(wanted).to_batches(max_chunksize=_BATCH_ROWS)
