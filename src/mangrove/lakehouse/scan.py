"""A scan: some rows and columns of one state of a table, for any reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.lakehouse.arguments import validate_count, validate_limit
from mangrove.lakehouse.listing import render_html
from mangrove.tables.aggregates import count_rows_from_metadata
from mangrove.tables.scan_plan import ScanPlan, plan_scan

if TYPE_CHECKING:
    import duckdb
    import pandas  # type: ignore[import-untyped]
    import polars
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from mangrove.expressions.predicates import Predicate
    from mangrove.lakehouse.engine_port import Engines
    from mangrove.model.manifests import DataFile
    from mangrove.tables.table_state import TableState

__all__ = ["StoredFileScan", "TableScan"]


class TableScan:
    """The rows of a table that match a condition, as of the creation of the scan."""

    def __init__(
        self,
        state: TableState,
        predicate: Predicate | None,
        columns: Sequence[str] | None,
        engines: Callable[[], Engines],
    ) -> None:
        self._name = state.name
        self._state = state
        self._predicate = predicate
        self._columns = columns
        self._engines = engines

    def __repr__(self) -> str:
        return f"<scan of {self._name}>"

    def _repr_html_(self) -> str:
        return render_html(f"scan of {self._name}", ("plan",), [[line] for line in self.explain().splitlines()])

    @cached_property
    def plan(self) -> ScanPlan:
        """Files to read with their deletes, and the reasons why other files are skipped."""
        return plan_scan(self._state, self._predicate)

    def files(self) -> list[DataFile]:
        """Return the files to read, without duplicates."""
        return self.plan.files()

    def explain(self) -> str:
        """Describe which files are read, and why the others are skipped."""
        return self.plan.explain()

    def count(self) -> int:
        """Return the number of rows; no data file is read if no row is deleted and all rows of the files match."""
        known = count_rows_from_metadata(self._state, self.plan, self._predicate)
        return self._engines().reader().count(self._state, self._predicate) if known is None else known

    def to_arrow(self) -> pa.Table:
        """Return the rows as a pyarrow Table, without a JVM."""
        return self._engines().reader().read(self._state, self._columns, self._predicate)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as pyarrow RecordBatches; only a bounded number of row groups is in memory."""
        return self._engines().reader().read_batches(self._state, self._columns, self._predicate)

    def to_reader(self, *, limit: int | None = None) -> pa.RecordBatchReader:
        """Return a pyarrow RecordBatchReader, which reads all or the first rows on demand in bounded memory."""
        reader = self._engines().reader()
        return reader.open_reader(self._state, self._columns, self._predicate, validate_limit(limit))

    def head(self, rows: int = 10) -> pa.Table:
        """Return the first rows as a pyarrow Table; later files are not read."""
        return self.to_reader(limit=validate_count(rows, "the number of rows")).read_all()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as an Arrow stream, so that other libraries read the scan without a conversion."""
        reader: Any = self.to_reader()
        return reader.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a pandas DataFrame."""
        rows = self.to_arrow()
        try:
            return rows.to_pandas()
        except ModuleNotFoundError as error:
            raise InvalidInputError(f"{error.name} is not installed: pip install pandas, or use to_arrow") from error
        except (OverflowError, ValueError):
            return _to_wide_range_pandas(self._name, rows)

    def to_polars(self) -> polars.DataFrame:
        """Return the rows as a polars DataFrame."""
        return self._engines().local().polars_frame(self.to_arrow())

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Return the rows as a DuckDB relation, in a connection or in the default one."""
        return self._engines().local().duckdb_relation(self.to_arrow(), connection)

    def to_spark(self) -> DataFrame:
        """Return the rows as a Spark DataFrame that Spark's own reader scans."""
        rows: DataFrame = self._engines().spark().read(self._state, self._columns, self._predicate)
        return rows


class StoredFileScan(TableScan):
    """The rows of the files of a table without a schema, as of the creation of the scan; they are read as a whole."""

    def __init__(
        self, name: str, files: Sequence[DataFile], columns: Sequence[str] | None, engines: Callable[[], Engines]
    ) -> None:
        self._name = name
        self._files = files
        self._columns = columns
        self._engines = engines

    @cached_property
    def plan(self) -> ScanPlan:
        """Raise an error, because files without statistics are neither skipped nor merged."""
        raise InvalidInputError(f"{self._name} has no schema, so its scan has no plan: list its files")

    def files(self) -> list[DataFile]:
        """Return the files of the table."""
        return list(self._files)

    def explain(self) -> str:
        """Describe which files are read."""
        return f"scan of {self._name}: all {len(self._files)} files are read, because the table has no schema"

    def count(self) -> int:
        """Return the number of rows, which are read."""
        return self.to_arrow().num_rows

    def to_arrow(self) -> pa.Table:
        """Return the rows as a pyarrow Table with the columns of all files."""
        rows = self._engines().reader().read_files(self._files, self._name)
        for column in self._columns or ():
            if column not in rows.column_names:
                raise NotFoundError(f"no file of {self._name} has a column {column!r}")
        return rows if self._columns is None else rows.select(list(self._columns))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as pyarrow RecordBatches."""
        yield from self.to_arrow().to_batches()

    def to_reader(self, *, limit: int | None = None) -> pa.RecordBatchReader:
        """Return a pyarrow RecordBatchReader of all or the first rows."""
        return self.to_arrow().slice(0, validate_limit(limit)).to_reader()

    def to_spark(self) -> DataFrame:
        """Return the rows as a Spark DataFrame."""
        # Spark reads no rows after a chunk without rows.
        return self._engines().spark().session.createDataFrame(self.to_arrow().combine_chunks())


def _to_wide_range_pandas(name: str, rows: pa.Table) -> pandas.DataFrame:
    """Return rows with dates outside the years 1 to 9999; all dates become timestamps, which have a wider range."""
    for place, field in enumerate(rows.schema):
        if str(field.type) == "date32[day]":
            rows = rows.set_column(place, field.name, rows.column(place).cast("timestamp[ms]"))
    try:
        return rows.to_pandas()
    except (OverflowError, ValueError) as error:
        raise InvalidInputError(
            f"rows of {name} hold a value that pandas cannot ({error}), such as a time outside the years 1 to 9999 "
            "inside a structure: use to_arrow, leave out the column, or leave out the rows by `where`"
        ) from error
