"""The interface of the engines that read rows, write rows and run SQL."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.table_staging import load_table_state
from mangrove.model.manifests import DataFile
from mangrove.model.types import DataType
from mangrove.storage.port import Store
from mangrove.transaction.workspace import Workspace

if TYPE_CHECKING:
    import duckdb
    import polars
    import pyarrow as pa

    from mangrove.expressions.parse import SparkCondition
    from mangrove.expressions.predicates import Predicate
    from mangrove.lakehouse.catalog import Catalog
    from mangrove.lakehouse.lakehouse import Lakehouse
    from mangrove.lakehouse.transaction import Transaction
    from mangrove.maintenance.check import CountRowsOfMany
    from mangrove.maintenance.copy import Copier
    from mangrove.maintenance.progress import ProgressCallback
    from mangrove.maintenance.vacuum import DeleteFiles
    from mangrove.metastore import RowRange
    from mangrove.model.locators import PartitionLocator, TableLocator
    from mangrove.tables.compaction import CompactionBounds, PlannedCompaction
    from mangrove.tables.merge import Assignable, MergePlan
    from mangrove.tables.stored_files import NewFile
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
    """Return whether rows are a DataFrame of Spark, classic or Connect."""
    return type(rows).__module__.partition(".")[0] == "pyspark"


def columns_of(rows: object) -> tuple[str, ...] | None:
    """Return the names of the columns that rows have, or None where nobody knows.

    A list of dicts has the columns that any of its dicts names. An empty one names none.
    The names of the index of a pandas frame are columns as well.
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
    """Return rows that can be looked at again, for their columns or after a lost race: a reader gives its rows once."""
    if type(rows).__name__ == "RecordBatchReader" and type(rows).__module__.partition(".")[0] == "pyarrow":
        reader: Any = rows
        return reader.read_all()
    return rows


class Engine(Protocol):
    """What reads and writes rows; a write is planned and not yet committed."""

    def read(
        self, state: TableState, columns: Sequence[str] | None = None, where: str | Predicate | None = None
    ) -> Any:
        """Return the rows of a table, or those that `where` means."""
        ...

    def append(self, state: TableState, rows: object) -> PlannedWrite:
        """Add rows."""
        ...

    def add(self, state: TableState, rows: object) -> PlannedWrite:
        """Add rows whose order does not matter."""
        ...

    def upsert(self, state: TableState, rows: object) -> PlannedWrite:
        """Add rows in the place of those with the same keys."""
        ...

    def delete(self, state: TableState, what: object) -> PlannedWrite:
        """Delete the rows that a predicate means, or those with the keys of a frame."""
        ...

    def overwrite(self, state: TableState, rows: object, where: str | Predicate | None = None) -> PlannedWrite:
        """Put rows in the place of all, or of those that `where` means."""
        ...

    def overwrite_partitions(self, state: TableState, rows: object) -> PlannedWrite:
        """Put rows in the place of those in the partitions that they lie in."""
        ...

    def update(
        self, state: TableState, values: Mapping[str, Assignable], where: str | Predicate | SparkCondition | None = None
    ) -> PlannedWrite:
        """Set columns of all rows, or of those that `where` means."""
        ...

    def merge(self, state: TableState, source: object, plan: MergePlan) -> PlannedWrite:
        """Do with each row of the source and of the table what the first clause says that applies."""
        ...

    def changes(self, before: TableState, after: TableState) -> Any:
        """Return the rows that differ, with what became of each beside it."""
        ...

    def examples(self, state: TableState, where: str) -> Sequence[Mapping[str, Any]]:
        """Return a few of the rows that a condition means."""
        ...

    def detect_columns(self, state: TableState | None, rows: object) -> Mapping[str, DataType | None]:
        """Return the columns that rows have, with None for the type of one that holds nulls alone."""
        ...

    def compact(
        self, state: TableState, bounds: CompactionBounds = ..., watch: ProgressCallback = ...
    ) -> PlannedCompaction:
        """Merge the deltas of each log, as far as the bounds allow."""
        ...


class RowReader(Protocol):
    """Reads rows in this process."""

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

    def count(self, state: TableState, where: str | Predicate | None = None) -> int:
        """Return the number of rows of a table, or of those that match `where`."""
        ...

    def read_files(self, files: Sequence[DataFile], table: str) -> pa.Table:
        """Return the rows of the files of a table without a schema."""
        ...

    def count_rows(self, store: Store, file: DataFile) -> int:
        """Return how many rows a data file really has, having read all of them."""
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
    """An engine in this process, whose rows other tools of this process take."""

    def add_files(self, table_id: str, files: Sequence[NewFile]) -> list[DataFile]:
        """Write files as they are; nothing is committed."""
        ...

    def polars_frame(self, rows: pa.Table) -> polars.DataFrame:
        """Return rows that were read as a polars DataFrame."""
        ...

    def duckdb_relation(
        self, rows: pa.Table, connection: duckdb.DuckDBPyConnection | None = None
    ) -> duckdb.DuckDBPyRelation:
        """Return rows that were read as a relation of DuckDB."""
        ...


class MaintenanceExecutors(Protocol):
    """Upkeep on many machines."""

    @property
    def row_counter(self) -> CountRowsOfMany:
        """Return what counts the rows that files really have."""
        ...

    @property
    def delete_files(self) -> DeleteFiles:
        """Return what deletes files."""
        ...


class SparkRowEngine(Engine, Protocol):
    """An engine in a Spark session that others may use too."""

    session: Any

    def add_catalog_hints(self, namespaces: Callable[[], Collection[str]]) -> None:
        """Let Spark's errors about names in these namespaces say what to write instead."""
        ...

    def copier(self, destination_options: Mapping[str, str] | None = None) -> Copier:
        """Return what copies files on executors."""
        ...

    def executors(self, options: Mapping[str, str] | None = None) -> MaintenanceExecutors:
        """Return what looks after the lakehouse's own files on executors, or after those that the options open."""
        ...


@runtime_checkable
class TimeTravelCatalog(Protocol):
    """A catalog that knows what it was."""

    def at(self, where: int | str | datetime) -> Catalog:
        """Return the catalog as of a version, a time or the name of an export."""
        ...


class Engines(Protocol):
    """The engines of a lakehouse, each started when it is first needed."""

    def reader(self) -> RowReader:
        """Return what reads in this process, without all that it takes to write."""
        ...

    def local(self) -> LocalRowEngine:
        """Return the engine in this process."""
        ...

    def can_spark_open(self, *others: str) -> bool:
        """Return whether there is a Spark whose processes can open the lakehouse and other places."""
        ...

    def spark(self, *, jars: bool = False) -> SparkRowEngine:
        """Return the engine on Spark, which brings Hadoop's JARs for the bucket where it is asked to."""
        ...


@runtime_checkable
class IcebergPublisher(Protocol):
    """Engines that also show tables to Iceberg."""

    def iceberg_address(self, state: TableState, at_millis: int) -> str:
        """Write what is missing to show a state, which was committed then, and return where its metadata lies."""
        ...


def publish_iceberg_metadata(engines: object, reading: CatalogReader, locator: TableLocator | TableTarget) -> str:
    """Return where the metadata lies that shows a table, and say what to do where it cannot be shown."""
    if isinstance(reading, Workspace):
        raise InvalidInputError(
            f"{locator} is shown to Iceberg as it was committed, and this transaction has yet to end: commit it, "
            "and ask the lakehouse itself"
        )
    if not isinstance(engines, IcebergPublisher):
        raise InvalidInputError(
            f"{locator} cannot be shown to Iceberg: open the lakehouse with mangrove.open or mangrove.create"
        )
    return engines.iceberg_address(load_table_state(reading, locator), reading.commit.created_at_millis)


SPARK_DIALECT: Final = "spark"
"""The dialect of views that is understood here."""


@runtime_checkable
class SqlRunner(Protocol):
    """Engines that also understand SQL."""

    def sql(self, lake: Lakehouse, transaction: Transaction | None, text: str, arguments: Any) -> Any:
        """Run the statements of a text, and return the rows of the last one."""
        ...

    def find_referenced_names(self, text: str, namespace: str) -> tuple[str, ...]:
        """Return the tables and views that a query names; bare names are in the namespace."""
        ...


def run_sql(engines: object, lake: Lakehouse | None, transaction: Transaction | None, text: str, arguments: Any) -> Any:
    """Run SQL where the engines understand it, and say what to do where they do not."""
    if lake is None or not isinstance(engines, SqlRunner):
        raise InvalidInputError("SQL needs Spark: open the lakehouse with mangrove.open or mangrove.create")
    return engines.sql(lake, transaction, text, arguments)


def find_view_references(engines: object, text: str, dialect: str, namespace: str) -> tuple[str, ...]:
    """Return what a query names where the engines understand it, else nothing."""
    if dialect != SPARK_DIALECT or not isinstance(text, str) or not isinstance(engines, SqlRunner):
        return ()
    return engines.find_referenced_names(text, namespace)
