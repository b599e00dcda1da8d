"""Tables as they are read: description, columns, versions, rows, changes and history.

Rows are read in this process, or by Spark with `to_spark`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, runtime_checkable

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.expressions.parse import bind_predicate
from mangrove.expressions.predicates import Predicate
from mangrove.expressions.sql_expression import Expr, to_condition
from mangrove.lakehouse.arguments import validate_count
from mangrove.lakehouse.engine_port import (
    Engine,
    Engines,
    TimeTravelCatalog,
    publish_iceberg_metadata,
)
from mangrove.lakehouse.new_table import FEDERATED_CATALOG, FEDERATED_TABLE
from mangrove.lakehouse.scan import TableScan
from mangrove.lakehouse.table_staging import (
    load_opened_table_state,
    load_table_state,
)
from mangrove.lakehouse.table_versions import (
    StreamInfo,
    TableVersionInfo,
    list_streams,
    list_table_versions,
)
from mangrove.metastore import Metastore
from mangrove.model.locators import AliasLocator, DeltaLocator, PartitionLocator, TableLocator
from mangrove.model.manifests import DataFile
from mangrove.model.names import check_id
from mangrove.model.objects import (
    Delta,
    Partition,
    TableEntry,
    TableType,
)
from mangrove.model.partitioning import format_partition_field, format_sort_field
from mangrove.model.schema import Schema
from mangrove.tables.constraints import (
    check_constraints_of,
)
from mangrove.tables.stored_files import list_live_files
from mangrove.transaction.aliases import list_aliases
from mangrove.transaction.catalog import load_table
from mangrove.transaction.compare import scan_table_history
from mangrove.transaction.deltas import (
    OpenTable,
    TableTarget,
    build_no_version_error,
    open_table,
    scan_deltas_of_partitions,
    scan_partitions,
)
from mangrove.transaction.history import HistoryEntry
from mangrove.transaction.table_versions import (
    load_table_versions,
)
from mangrove.transaction.workspace import Workspace

if TYPE_CHECKING:
    import duckdb
    import pandas  # type: ignore[import-untyped]
    import polars
    import pyarrow as pa

    from mangrove.tables.table_state import TableState
    from mangrove.transaction.catalog import CatalogReader


__all__ = ["CatalogClient", "TableReader", "TableSnapshot"]

_ENGINES: Final = (None, "local", "spark")


class CatalogClient(Protocol):
    """What a lakehouse asks of another catalog about the tables that it federates."""

    def schema_of(self, table: str) -> Schema:
        """Return the columns of the other catalog's table."""
        ...


class TableReader(Protocol):
    """What a table is read through: a lakehouse, a transaction or a snapshot."""

    clients: Mapping[str, CatalogClient]
    engines: Engines | None

    def reading(self) -> CatalogReader:
        """Return where objects are read from now."""
        ...


@runtime_checkable
class _Historic(Protocol):
    """A catalog that knows how it became what it is."""

    metastore: Metastore

    def history(self, *, before: int | None = None, limit: int | None = None) -> Iterator[HistoryEntry]:
        """Yield the versions that are kept, newest first."""
        ...


class TableSnapshot:
    """A table that is only read. Its entry is as of the lookup; columns and rows are read from its catalog."""

    def __init__(
        self, catalog: TableReader, locator: TableLocator, value: TableEntry, target: TableTarget | None = None
    ) -> None:
        self.catalog = catalog
        self.locator = locator
        self.value = value
        self.target = target or TableTarget(locator)
        """What is read and written: the default table version, or a chosen one."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.catalog, self.locator, self.value, self.target)

    def __str__(self) -> str:
        return str(self.target)

    def __repr__(self) -> str:
        return f"<{self.value.table_type.value} table {self.target}>"

    @property
    def name(self) -> str:
        """Its name within its namespace."""
        return self.locator.name

    @property
    def id(self) -> str:
        """What stays when its name changes."""
        return self.value.id

    @property
    def table_type(self) -> TableType:
        """Who keeps its data."""
        return self.value.table_type

    @property
    def location(self) -> str | None:
        """Where an external table's data lies."""
        return self.value.location

    @property
    def aliases(self) -> tuple[str, ...]:
        """Its other names."""
        return tuple(str(AliasLocator(one.name)) for one in list_aliases(self.catalog.reading(), self.locator))

    @property
    def properties(self) -> Mapping[str, str]:
        """What people attached to it."""
        return self.value.properties

    @property
    def description(self) -> str | None:
        """What people say that it is for."""
        return self.value.description

    @property
    def schema(self) -> Schema | None:
        """Its columns; None where nobody says them."""
        if self.table_type is TableType.MANAGED:
            return self.opened().version.schema
        if self.value.schema is not None or self.table_type is TableType.EXTERNAL:
            return self.value.schema
        return self._client().schema_of(self.value.format_properties[FEDERATED_TABLE])

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the columns that identify a row."""
        if self.table_type is TableType.MANAGED:
            version = self.opened().version
            return _names(version.schema, version.keys)
        return _names(self.value.schema, self.value.keys)

    @property
    def partition_by(self) -> tuple[str, ...]:
        """By what its rows are grouped, in the words of `create_table`."""
        version = self.opened().version
        if version.schema is None:
            return ()
        return tuple(format_partition_field(field, version.schema) for field in version.partition_scheme.fields)

    @property
    def sort_by(self) -> tuple[str, ...]:
        """By what the rows of its files are ordered."""
        version = self.opened().version
        if version.schema is None:
            return ()
        return tuple(format_sort_field(field, version.schema) for field in version.sort_scheme.fields)

    @property
    def checks(self) -> dict[str, str]:
        """Its check constraints, by name."""
        return check_constraints_of(open_table(self.catalog.reading(), self.target).version)

    def versions(self) -> list[TableVersionInfo]:
        """Return its table versions, oldest first, with their states and what their rows are."""
        return list_table_versions(self.catalog.reading(), self.locator)

    def version(self, number: int) -> Self:
        """Return the table bound to one of its table versions, whatever the default is."""
        reading = self.catalog.reading()
        table = load_table(reading, self.locator)
        if validate_count(number, "the number of a table version", 1) not in load_table_versions(reading, table):
            raise build_no_version_error(reading, self.locator, table, number)
        return type(self)(self.catalog, self.locator, table, TableTarget(self.locator, number))

    def streams(self) -> list[StreamInfo]:
        """Return the streams of the table version, with their formats and states."""
        return list_streams(self.catalog.reading(), replace(self.target, stream_id=None))

    def stream(self, stream_id: str) -> Self:
        """Return the table bound to a stream, such as one that is staged or was replaced."""
        check_id(stream_id, "stream id")
        opened = open_table(self.catalog.reading(), replace(self.target, stream_id=stream_id))
        return type(self)(self.catalog, self.locator, opened.table, opened.target)

    def opened(self) -> OpenTable:
        """Return its table version and stream, from which its rows are planned."""
        return open_table(self.catalog.reading(), self.target)

    def partitions(self) -> Iterator[tuple[PartitionLocator, Partition]]:
        """Yield its partitions."""
        reading = self.catalog.reading()
        return scan_partitions(reading, open_table(reading, self.target))

    def deltas(self) -> Iterator[tuple[DeltaLocator, Delta]]:
        """Yield its deltas, partition by partition, each in the order in which they apply."""
        reading = self.catalog.reading()
        return scan_deltas_of_partitions(
            reading, [way for way, _ in scan_partitions(reading, open_table(reading, self.target))]
        )

    def state(self) -> TableState:
        """Return the table as engines take it."""
        return load_table_state(self.catalog.reading(), self.target)

    def files(self) -> list[DataFile]:
        """Return its data files with location, content type, encoding and size, in the order of their deltas."""
        reading = self.catalog.reading()
        opened = open_table(reading, self.target)
        if opened.version.schema is not None:
            return self.scan().files()
        partitions = [way for way, _ in scan_partitions(reading, opened)]
        deltas = list(scan_deltas_of_partitions(reading, partitions))
        return [
            file
            for way in partitions
            for file in list_live_files([delta for at, delta in deltas if at.parent == way], str(self.target))
        ]

    def _read_files(self, columns: Sequence[str] | None, where: object) -> pa.Table:
        """Return the rows of the files of a table without a schema."""
        if where is not None:
            raise InvalidInputError(f"{self.target} has no schema for a condition: read all rows and filter them")
        rows = self._engines().reader().read_files(self.files(), str(self.target))
        missing = [name for name in columns or () if name not in rows.column_names]
        if missing:
            raise NotFoundError(f"no file of {self.target} has a column {missing[0]!r}")
        return rows if columns is None else rows.select(list(columns))

    def scan(self, where: str | Expr | Predicate | None = None, columns: Sequence[str] | None = None) -> TableScan:
        """Return a scan of all rows, or of those for which `where` holds, to be read or explained."""
        state, predicate = self._requested(where)
        return TableScan(state, predicate, columns, self._engines)

    def to_arrow(self, columns: Sequence[str] | None = None, where: str | Expr | Predicate | None = None) -> pa.Table:
        """Return the rows as a pyarrow Table, without a JVM.

        Of a table without a schema, these are the rows of its files, if their formats say the columns.
        """
        self._engines().reader()
        if self.table_type is TableType.MANAGED and self.schema is None:
            return self._read_files(columns, where)
        return self.scan(where, columns).to_arrow()

    def to_pandas(
        self, columns: Sequence[str] | None = None, where: str | Expr | Predicate | None = None
    ) -> pandas.DataFrame:
        """Return the rows as a pandas DataFrame."""
        self._engines().reader()
        if self.table_type is TableType.MANAGED and self.schema is None:
            return self._read_files(columns, where).to_pandas()
        return self.scan(where, columns).to_pandas()

    def to_polars(
        self, columns: Sequence[str] | None = None, where: str | Expr | Predicate | None = None
    ) -> polars.DataFrame:
        """Return the rows as a polars DataFrame."""
        self._engines().local()
        return self.scan(where, columns).to_polars()

    def to_duckdb(
        self,
        connection: duckdb.DuckDBPyConnection | None = None,
        columns: Sequence[str] | None = None,
        where: str | Expr | Predicate | None = None,
    ) -> duckdb.DuckDBPyRelation:
        """Return the rows as a relation of DuckDB, in a connection or in the one that DuckDB shares."""
        self._engines().local()
        return self.scan(where, columns).to_duckdb(connection)

    def to_spark(self, columns: Sequence[str] | None = None, where: str | Expr | Predicate | None = None) -> Any:
        """Return the rows as a Spark DataFrame that Spark's own reader scans."""
        self._engines().spark()
        return self.scan(where, columns).to_spark()

    def iceberg(self) -> str:
        """Return the address of a metadata file by which engines that read Iceberg find the rows as they are now.

        What it leads to is written where it is missing, below the table's own folder; the
        rows stay where they are. Later writes do not change what it shows: ask again
        after them. Vacuum takes away what shows earlier states, a day later at the earliest.
        """
        return publish_iceberg_metadata(self._engines(), self.catalog.reading(), self.target)

    def changes(
        self,
        from_version: int | str | datetime,
        to_version: int | str | datetime | None = None,
        *,
        engine: str | None = None,
    ) -> Any:
        """Return the rows that differ between two moments, or since one, as a pyarrow Table.

        The column `_change_type` says what happened: `insert`, `delete`, or
        `update_before` and `update_after` for a row with the same keys. With
        engine="spark" it is a DataFrame, and rows are in no order.
        """
        if not isinstance(self.catalog, TimeTravelCatalog):
            raise InvalidInputError(
                f"changes of {self.locator} are asked of the lakehouse itself: lake.table(…).changes"
            )
        if engine not in (None, "local", "spark"):
            raise InvalidInputError(f"{engine!r} is no engine: use local or spark")
        first = self.catalog.at(from_version).reading()
        last = self.catalog.reading() if to_version is None else self.catalog.at(to_version).reading()
        assert not isinstance(first, Workspace), "only what is committed has moments"
        assert not isinstance(last, Workspace), "only what is committed has moments"
        if first.version > last.version:
            raise InvalidInputError(
                f"changes of {self.locator} are asked from version {first.version} back to {last.version}: "
                "give the earlier one first"
            )
        before, after = load_table_state(first, self.target), load_table_state(last, self.target)
        chosen: Engine = self._engines().spark() if engine == "spark" else self._engines().local()
        return chosen.changes(before, after)

    def history(self, *, limit: int | None = None) -> Iterator[HistoryEntry]:
        """Yield the versions that changed this table, its columns or its rows, newest first.

        Each version is compared with the one before it, of which only what differs is
        read, so asking for the newest few is cheap.
        """
        if not isinstance(self.catalog, _Historic):
            raise InvalidInputError(
                f"the history of {self.locator} is asked of the lakehouse itself: lake.table(…).history"
            )
        table = load_table(self.catalog.reading(), self.locator)
        return islice(scan_table_history(self.catalog.metastore, self.catalog.history(), table), limit)

    def _requested(self, where: str | Expr | Predicate | None) -> tuple[TableState, Predicate | None]:
        """Return what a read needs of the table, and which rows it means."""
        reading = self.catalog.reading()
        opened = open_table(reading, self.target)
        schema = load_opened_table_state(reading, opened, with_logs=False).schema
        predicate = bind_predicate(to_condition(where), schema)
        return load_opened_table_state(reading, opened, predicate=predicate), predicate

    def _engines(self) -> Engines:
        engines = self.catalog.engines
        if engines is None:
            raise InvalidInputError(
                f"the rows of {self.locator} need an engine: open the lakehouse with mangrove.open or mangrove.create"
            )
        return engines

    def _client(self) -> CatalogClient:
        catalog = self.value.format_properties[FEDERATED_CATALOG]
        client = self.catalog.clients.get(catalog)
        if client is None:
            raise InvalidInputError(
                f"{self.locator} lies in the catalog {catalog!r}, for which there is no client here: "
                f"open the lakehouse with clients={{{catalog!r}: …}}"
            )
        return client


def _names(schema: Schema | None, ids: tuple[int, ...]) -> tuple[str, ...]:
    return () if schema is None else tuple(schema.column_with_id(one).name for one in ids)
