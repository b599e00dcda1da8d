"""What a lakehouse asks of the engines that read and write rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from mangrove.model.manifests import DataFile
from mangrove.model.types import DataType
from mangrove.storage.port import Store

if TYPE_CHECKING:
    # The catalog has the engines and a dated one is a catalog.
    from mangrove.lakehouse.catalog import Catalog
    from mangrove.maintenance.checked_files import CountMany
    from mangrove.maintenance.copying import Copier
    from mangrove.maintenance.progress import Watch
    from mangrove.maintenance.vacuum import DeleteFiles
    from mangrove.tables.assigning import Assignable
    from mangrove.tables.compaction import CompactionBounds, PlannedCompaction
    from mangrove.tables.conditions import Narrowed
    from mangrove.tables.merging import MergePlan
    from mangrove.tables.predicates import Predicate
    from mangrove.tables.table_state import TableState
    from mangrove.tables.writing import PlannedWrite

__all__ = ["Dated", "Engine", "Engines", "Executors", "LocalRows", "RowReader", "SparkRows"]


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
        self, state: TableState, values: Mapping[str, Assignable], where: str | Predicate | Narrowed | None = None
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

    def given_columns(self, state: TableState | None, rows: object) -> Mapping[str, DataType | None]:
        """Return the columns that rows have, with None for the type of one that holds nulls alone."""
        ...

    def compact(self, state: TableState, bounds: CompactionBounds = ..., watch: Watch = ...) -> PlannedCompaction:
        """Merge the deltas of each log, as far as the bounds allow."""
        ...


class RowReader(Protocol):
    """What reads rows in this process, and looks into single files."""

    def read(
        self, state: TableState, columns: Sequence[str] | None = None, where: str | Predicate | None = None
    ) -> Any:
        """Return the rows of a table, or those that `where` means."""
        ...

    def count_rows(self, store: Store, file: DataFile) -> int:
        """Return how many rows a data file really has, having read all of them."""
        ...


class LocalRows(RowReader, Engine, Protocol):
    """An engine in this process, whose rows other tools of this process take."""

    def polars_frame(self, rows: Any) -> Any:
        """Return rows that were read as a polars DataFrame."""
        ...

    def duckdb_relation(self, rows: Any, connection: Any | None = None) -> Any:
        """Return rows that were read as a relation of DuckDB."""
        ...


class Executors(Protocol):
    """Upkeep on many machines."""

    @property
    def counted_rows(self) -> CountMany:
        """Return what counts the rows that files really have."""
        ...

    @property
    def delete_files(self) -> DeleteFiles:
        """Return what deletes files."""
        ...


class SparkRows(Engine, Protocol):
    """An engine in a Spark session that others may use too."""

    session: Any

    def add_catalog_hints(self, namespaces: Callable[[], Collection[str]]) -> None:
        """Let Spark's errors about names in these namespaces say what to write instead."""
        ...

    def copier(self, destination_options: Mapping[str, str] | None = None) -> Copier:
        """Return what copies files on executors."""
        ...

    def executors(self, options: Mapping[str, str] | None = None) -> Executors:
        """Return what looks after the lakehouse's own files on executors, or after those that the options open."""
        ...


@runtime_checkable
class Dated(Protocol):
    """A catalog that knows what it was."""

    def at(self, where: int | str | datetime) -> Catalog:
        """Return the catalog as of a version, a time or the name of an export."""
        ...


class Engines(Protocol):
    """The engines of a lakehouse, each started when it is first needed."""

    def reader(self) -> RowReader:
        """Return what reads in this process, without all that it takes to write."""
        ...

    def local(self) -> LocalRows:
        """Return the engine in this process."""
        ...

    def spark_sees(self, *others: str) -> bool:
        """Return whether there is a Spark whose processes can open the lakehouse and other places."""
        ...

    def spark(self, *, jars: bool = False) -> SparkRows:
        """Return the engine on Spark, which brings Hadoop's JARs for the bucket where it is asked to."""
        ...
