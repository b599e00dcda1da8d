"""Lance datasets through pylance."""

import lance  # type: ignore[import-not-found]
import pyarrow as pa
from benchmarks.peers.rows import KEY, SCHEMA
from benchmarks.peers.systems.port import Place, TableSystem, render_condition


class LanceTables(TableSystem):
    """A dataset per table, without indexes."""

    conflicts = (OSError,)

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._options = None
        if place.s3:
            self._options = {f"aws_{name}": value for name, value in place.s3.items()}
            self._options |= {"allow_http": "true"}

    def create(self, table: str) -> None:
        self._write(table, pa.schema(SCHEMA).empty_table(), "create")

    def append(self, table: str, rows: pa.Table) -> None:
        self._write(table, rows, "append")

    def scan(self, table: str) -> pa.Table:
        return self._read(table)

    def filter(self, table: str, column: str, low: float, high: float) -> pa.Table:
        return self._read(table, render_condition(column, low, high))

    def upsert(self, table: str, rows: pa.Table) -> None:
        self._open(table).merge_insert(KEY).when_matched_update_all().when_not_matched_insert_all().execute(rows)

    def compact(self, table: str) -> None:
        self._open(table).optimize.compact_files()

    def _read(self, table: str, condition: str | None = None) -> pa.Table:
        rows: pa.Table = self._open(table).to_table(filter=condition)
        return rows

    def _open(self, table: str) -> lance.LanceDataset:
        return lance.dataset(self._uri(table), storage_options=self._options)

    def _write(self, table: str, rows: pa.Table, mode: str) -> None:
        lance.write_dataset(rows, self._uri(table), mode=mode, storage_options=self._options)

    def _uri(self, table: str) -> str:
        return f"{self.place.data}/{table}.lance"
