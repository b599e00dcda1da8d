"""Delta Lake through delta-rs."""

import deltalake
import pyarrow as pa
import pyarrow.dataset as ds
from benchmarks.peers.rows import KEY, SCHEMA
from benchmarks.peers.systems.port import Place, TableSystem
from deltalake.exceptions import CommitFailedError


class DeltaRs(TableSystem):
    """A Delta table per table, with the defaults of delta-rs."""

    conflicts = (CommitFailedError,)

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._options = None
        if place.s3:
            self._options = {f"AWS_{name.upper()}": value for name, value in place.s3.items()}
            self._options |= {"AWS_ENDPOINT_URL": place.s3["endpoint"], "AWS_ALLOW_HTTP": "true"}

    def create(self, table: str) -> None:
        deltalake.DeltaTable.create(self._uri(table), pa.schema(SCHEMA), storage_options=self._options)

    def append(self, table: str, rows: pa.Table) -> None:
        deltalake.write_deltalake(self._uri(table), rows, mode="append", storage_options=self._options)

    def scan(self, table: str) -> pa.Table:
        return self._open(table).to_pyarrow_table()

    def filter(self, table: str, column: str, low: float, high: float) -> pa.Table:
        condition = (ds.field(column) >= low) & (ds.field(column) < high)
        return self._open(table).to_pyarrow_dataset().to_table(filter=condition)

    def upsert(self, table: str, rows: pa.Table) -> None:
        merge = self._open(table).merge(rows, f"t.{KEY} = s.{KEY}", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def compact(self, table: str) -> None:
        self._open(table).optimize.compact()

    def _open(self, table: str) -> deltalake.DeltaTable:
        return deltalake.DeltaTable(self._uri(table), storage_options=self._options)

    def _uri(self, table: str) -> str:
        return f"{self.place.data}/{table}"
