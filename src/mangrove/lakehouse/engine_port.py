"""The interface of the engines that read rows, write rows and run SQL."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from mangrove.errors import InvalidInputError
from mangrove.model.manifests import DataFile
from mangrove.model.types import DataType
from mangrove.storage.port import Store
from mangrove.tables.table_state import load_table_state
from mangrove.transaction.workspace import Workspace

if TYPE_CHECKING:
    import duckdb
    import polars
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from mangrove.expressions.parse import SparkCondition
    from mangrove.expressions.predicates import Predicate
    from mangrove.lakehouse.catalog import Catalog
    from mangrove.lakehouse.lakehouse import Lakehouse
    from mangrove.lakehouse.sql_port import QueryResult, SqlEngine
    from mangrove.lakehouse.transaction import Transaction
    from mangrove.maintenance.check import CountRowsOfMany
    from mangrove.maintenance.copy import Copier
    from mangrove.maintenance.progress import ProgressCallback
    from mangrove.maintenance.vacuum import DeleteFiles
    from mangrove.metastore import RowRange
    from mangrove.model.locators import PartitionLocator, TableLocator
    from mangrove.tables.column_profile import ColumnProfile
    from mangrove.tables.compaction import CompactionBounds, PlannedCompaction
    from mangrove.tables.merge import Assignable, MergePlan
    from mangrove.tables.schemaless_files import NewFile
    from mangrove.tables.table_state import TableState
    from mangrove.tables.write_plan import PlannedWrite
    from mangrove.transaction.catalog import CatalogReader
    from mangrove.transaction.deltas import TableTarget


__all__ = [
    "SPARK_DIALECT",
    "Engine",
    "Engines",
    "IcebergPublisher",
    "LocalRowEngine",
    "MaintenanceExecutors",
    "RowReader",
    "SparkRowEngine",
    "SqlRunner",
    "TimeTravelCatalog",
    "columns_of",
    "find_view_references",
    "is_spark_frame",
    "make_repeatable",
    "publish_iceberg_metadata",
    "run_sql",
]


def is_spark_frame(rows: object) -> bool:
    """Return whether rows are a Spark DataFrame, classic or Connect."""
    return type(rows).__module__.partition(".")[0] == "pyspark"


def columns_of(rows: object) -> tuple[str, ...] | None:
    """Return the column names of rows, or None if they are unknown.

    The columns of a list of dicts are the keys of all its dicts; an empty list has none.
    The named index levels of a pandas frame are columns too.
    """
    frame: Any = rows
    if isinstance(rows, Sequence) and not isinstance(rows, str | bytes):
        named = dict.fromkeys(str(name) for row in rows if isinstance(row, Mapping) for name in row)
        return tuple(named) or None
    if type(rows).__module__.partition(".")[0] == "pyarrow":
        return tuple(frame.schema.names)
    if hasattr(frame, "columns"):
        is_pandas = type(rows).__module__.partition(".")[0] == "pandas" and hasattr(frame, "index")
        index = [name for name in frame.index.names if name is not None] if is_pandas else []
        return tuple(dict.fromkeys(str(name) for name in (*index, *frame.columns)))
    return None


def make_repeatable(rows: object) -> object:
    """Return rows that can be read more than once, for their columns or for a retry; a reader is consumed when read.

    Tables and scans of a lakehouse are read once, so that a retry writes the same rows.
    """
    source: Any = rows
    # The type is asked, because a frame of Spark Connect has a column for every attribute.
    if hasattr(type(rows), "to_reader"):
        return source.to_reader().read_all()
    if type(rows).__name__ == "RecordBatchReader" and type(rows).__module__.partition(".")[0] == "pyarrow":
        return source.read_all()
    return rows


class Engine(Protocol):
    """Interface that reads rows and plans writes; planned writes are not committed."""

    def read(
        self, state: TableState, columns: Sequence[str] | None = None, where: str | Predicate | None = None
    ) -> Any:
        """Return the rows of a table, or those that match `where`."""
        ...

    def cast_rows(self, state: TableState, rows: object) -> object:
        """Return rows whose columns are cast to the table's columns with the same names."""
        ...

    def append(self, state: TableState, rows: object) -> PlannedWrite:
        """Plan an append of rows."""
        ...

    def add(self, state: TableState, rows: object) -> PlannedWrite:
        """Plan an append of rows whose order does not matter."""
        ...

    def upsert(self, state: TableState, rows: object) -> PlannedWrite:
        """Plan an upsert: the rows replace existing rows with the same keys."""
        ...

    def delete(self, state: TableState, what: object) -> PlannedWrite:
        """Plan a delete of the rows that match a predicate, or that have the keys of a frame."""
        ...

    def overwrite(
        self, state: TableState, rows: object, where: str | Predicate | SparkCondition | None = None
    ) -> PlannedWrite:
        """Plan a replacement of all rows, or of those that match `where`."""
        ...

    def overwrite_partitions(self, state: TableState, rows: object) -> PlannedWrite:
        """Plan a replacement of all rows in the partitions to which the new rows belong."""
        ...

    def update(
        self, state: TableState, values: Mapping[str, Assignable], where: str | Predicate | SparkCondition | None = None
    ) -> PlannedWrite:
        """Plan an update of all rows, or of those that match `where`."""
        ...

    def merge(self, state: TableState, source: object, plan: MergePlan) -> PlannedWrite:
        """Plan a merge: for each row of the source and the table, the first clause that applies decides."""
        ...

    def changes(self, before: TableState, after: TableState) -> Any:
        """Return the rows that differ between two states, with the type of each change."""
        ...

    def examples(self, state: TableState, where: str) -> Sequence[Mapping[str, Any]]:
        """Return a few of the rows that match a condition."""
        ...

    def detect_columns(self, state: TableState | None, rows: object) -> Mapping[str, DataType | None]:
        """Return the columns of rows with their types; the type of a column with only nulls is None."""
        ...

    def compact(
        self, state: TableState, bounds: CompactionBounds = ..., watch: ProgressCallback = ...
    ) -> PlannedCompaction:
        """Plan a compaction that merges the deltas of each log, within the bounds."""
        ...


class RowReader(Protocol):
    """Interface that reads rows in this process."""

    def read(
        self, state: TableState, columns: Sequence[str] | None = None, where: str | Predicate | None = None
    ) -> pa.Table:
        """Return the rows of a table, or those that match `where`."""
        ...

    def read_batches(
        self, state: TableState, columns: Sequence[str] | None = None, where: str | Predicate | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table, or those that match `where`, in batches with bounded memory."""
        ...

    def open_reader(
        self,
        state: TableState,
        columns: Sequence[str] | None = None,
        where: str | Predicate | None = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """Return a reader of the same rows, or of the first ones, which knows their schema."""
        ...

    def count(self, state: TableState, where: str | Predicate | None = None) -> int:
        """Return the number of rows of a table, or of those that match `where`."""
        ...

    def profile(self, rows: pa.RecordBatchReader) -> list[ColumnProfile]:
        """Return statistics of each column of rows, in bounded memory."""
        ...

    def read_files(self, files: Sequence[DataFile], table: str) -> pa.Table:
        """Return the rows of the files of a table without a schema."""
        ...

    def count_rows(self, store: Store, file: DataFile) -> int:
        """Return the number of rows of a data file, counted by reading the whole file."""
        ...

    def encode_rows(self, file: DataFile) -> bytes:
        """Return the inline rows of an entry as a data file."""
        ...

    def have_rows_changed(
        self,
        rows: RowRange,
        partitions: Collection[PartitionLocator],
        before: CatalogReader,
        after: CatalogReader,
    ) -> bool:
        """Return whether rows of a range differ between two versions."""
        ...


class LocalRowEngine(RowReader, Engine, Protocol):
    """Engine that runs in this process and exchanges rows with other libraries in it."""

    def add_files(self, table_id: str, files: Sequence[NewFile], path_bytes_max: int) -> list[DataFile]:
        """Write files unchanged to the store, without a commit."""
        ...

    def flush_inline_rows(self, state: TableState) -> PlannedWrite:
        """Plan deltas that move inline rows into data files, for each log that has many."""
        ...

    def polars_frame(self, rows: pa.Table) -> polars.DataFrame:
        """Convert rows that were read into a Polars DataFrame."""
        ...

    def duckdb_relation(
        self, rows: pa.Table, connection: duckdb.DuckDBPyConnection | None = None
    ) -> duckdb.DuckDBPyRelation:
        """Convert rows that were read into a DuckDB relation."""
        ...


class MaintenanceExecutors(Protocol):
    """Distributed maintenance operations."""

    @property
    def row_counter(self) -> CountRowsOfMany:
        """Function that counts the rows of files by reading them."""
        ...

    @property
    def delete_files(self) -> DeleteFiles:
        """Function that deletes files."""
        ...


class SparkRowEngine(Engine, Protocol):
    """Engine on a Spark session, which other code may share."""

    session: SparkSession

    def add_catalog_hints(self, namespaces: Callable[[], Collection[str]]) -> None:
        """Add hints to Spark's errors about unknown names in these namespaces."""
        ...

    def copier(self, destination_options: Mapping[str, str] | None = None) -> Copier:
        """Return a function that copies files on executors."""
        ...

    def executors(self, options: Mapping[str, str] | None = None) -> MaintenanceExecutors:
        """Return maintenance operations on executors, for the lakehouse's store or the one that the options open."""
        ...


@runtime_checkable
class TimeTravelCatalog(Protocol):
    """A catalog that supports time travel."""

    def at(self, where: int | str | datetime) -> Catalog:
        """Return the catalog as of a version, a time or the name of an export."""
        ...


class Engines(Protocol):
    """The engines of a lakehouse, each started on first use."""

    def reader(self) -> RowReader:
        """Return the reader of this process, without loading what only writes need."""
        ...

    def local(self) -> LocalRowEngine:
        """Return the engine that runs in this process."""
        ...

    def can_spark_open(self, *others: str) -> bool:
        """Return whether Spark is available and its processes can open the lakehouse and other locations."""
        ...

    def spark(self, *, jars: bool = False) -> SparkRowEngine:
        """Return the engine on Spark; `jars` adds Hadoop's JARs for the bucket."""
        ...


@runtime_checkable
class IcebergPublisher(Protocol):
    """Engines that also publish tables as Iceberg metadata."""

    def publish_iceberg_state(self, state: TableState, at_millis: int) -> str:
        """Write missing Iceberg metadata of a state committed at that time; return the metadata file's location."""
        ...


def publish_iceberg_metadata(engines: object, reading: CatalogReader, locator: TableLocator | TableTarget) -> str:
    """Return the location of the Iceberg metadata of a table; raise an error with advice if it cannot be published."""
    if isinstance(reading, Workspace):
        raise InvalidInputError(
            f"{locator} is published to Iceberg as it was committed, and this transaction is still open; commit it, "
            "and ask the lakehouse itself"
        )
    if not isinstance(engines, IcebergPublisher):
        raise InvalidInputError(
            f"{locator} cannot be published to Iceberg; open the lakehouse with mangrove.open or mangrove.create"
        )
    return engines.publish_iceberg_state(load_table_state(reading, locator), reading.commit.created_at_millis)


SPARK_DIALECT: Final = "spark"
"""SQL dialect of views that the engines support."""


@runtime_checkable
class SqlRunner(Protocol):
    """Engines that also run SQL."""

    def sql_engine(self, name: str | None = None) -> SqlEngine:
        """Return the SQL engine with this name; without a name Spark if it has a session, else DuckDB if installed."""
        ...

    def without_spark(self) -> AbstractContextManager[None]:
        """Refuse to start Spark for what this thread does meanwhile."""
        ...

    def sql(
        self, lake: Lakehouse, transaction: Transaction | None, text: str, arguments: Any, engine: str | None = None
    ) -> QueryResult | DataFrame:
        """Run the statements of an SQL text, and return the rows of the last one."""
        ...

    def find_referenced_names(self, text: str, namespace: str) -> tuple[str, ...]:
        """Return the tables and views that a query references; unqualified names are resolved in the namespace."""
        ...


def run_sql(
    engines: object,
    lake: Lakehouse | None,
    transaction: Transaction | None,
    text: str,
    arguments: Any,
    engine: str | None = None,
) -> QueryResult | DataFrame:
    """Run SQL if the engines support it; otherwise raise an error with advice."""
    if lake is None or not isinstance(engines, SqlRunner):
        raise InvalidInputError("SQL needs an engine: open the lakehouse with mangrove.open or mangrove.create")
    if not isinstance(text, str):
        raise InvalidInputError(f"SQL is a text, not {type(text).__name__}")
    return engines.sql(lake, transaction, text, arguments, engine)


def find_view_references(engines: object, text: str, dialect: str, namespace: str) -> tuple[str, ...]:
    """Return the names that a query references, or none if the engines do not support SQL."""
    if dialect != SPARK_DIALECT or not isinstance(text, str) or not isinstance(engines, SqlRunner):
        return ()
    return engines.find_referenced_names(text, namespace)
