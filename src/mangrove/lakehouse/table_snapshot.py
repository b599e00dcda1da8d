"""Tables as they are read: description, columns, versions, rows, changes and history.

Rows are read in this process, or by Spark with `to_spark`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self, overload, runtime_checkable

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.expressions.parse import bind_predicate
from mangrove.expressions.predicates import Predicate
from mangrove.expressions.sql_expression import Expr, to_condition
from mangrove.lakehouse.arguments import validate_count, validate_limit
from mangrove.lakehouse.engine_port import (
    Engine,
    Engines,
    TimeTravelCatalog,
    publish_iceberg_metadata,
)
from mangrove.lakehouse.listing import Listing, render_html
from mangrove.lakehouse.new_table import FEDERATED_CATALOG, FEDERATED_TABLE
from mangrove.lakehouse.scan import StoredFileScan, TableScan
from mangrove.lakehouse.table_versions import (
    PartitionStats,
    StreamInfo,
    TableVersionInfo,
    list_deltas,
    list_partition_stats,
    list_partitions,
    list_streams,
    list_table_versions,
)
from mangrove.maintenance.engine_choice import SPARK, validate_engine
from mangrove.metastore import LoadObject, Metastore
from mangrove.model.locators import AliasLocator, DeltaLocator, PartitionLocator, TableIdentity, TableLocator
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
from mangrove.model.schema_text import format_type
from mangrove.tables.constraints import (
    check_constraints_of,
)
from mangrove.tables.schemaless_files import load_live_files
from mangrove.tables.table_state import load_opened_table_state, load_table_state
from mangrove.transaction.aliases import list_aliases
from mangrove.transaction.catalog import identity_of
from mangrove.transaction.deltas import (
    OpenTable,
    TableTarget,
    build_no_version_error,
    find_target_table,
    open_table,
)
from mangrove.transaction.history import HistoryEntry
from mangrove.transaction.table_versions import (
    load_table_versions,
)
from mangrove.transaction.version_diff import scan_table_history
from mangrove.transaction.workspace import Workspace

if TYPE_CHECKING:
    import duckdb
    import pandas  # type: ignore[import-untyped]
    import polars
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from mangrove.tables.column_profile import ColumnProfile
    from mangrove.tables.table_state import TableState
    from mangrove.transaction.catalog import CatalogReader


__all__ = ["HISTORY_COLUMNS", "PROFILE_COLUMNS", "CatalogClient", "TableReader", "TableSnapshot"]

HISTORY_COLUMNS: Final[Mapping[str, Callable[[Any], object]]] = {
    "version": lambda entry: entry.version,
    "committed (UTC)": lambda entry: entry.created_at.strftime("%Y-%m-%d %H:%M:%S"),
    "author": lambda entry: entry.author,
    "message": lambda entry: entry.message,
}
"""The columns of the HTML form of a history."""
PROFILE_COLUMNS: Final[Mapping[str, Callable[[Any], object]]] = {
    "column": lambda profile: profile.name,
    "type": lambda profile: profile.type,
    "nulls": lambda profile: profile.nulls,
    "distinct": lambda profile: (
        None if profile.distinct is None else f"{'' if profile.is_distinct_exact else '~'}{profile.distinct}"
    ),
    "min": lambda profile: profile.minimum,
    "max": lambda profile: profile.maximum,
    "most frequent": lambda profile: profile.frequent[0][0] if profile.frequent else "",
}
"""The columns of the table of profiles."""


class CatalogClient(Protocol):
    """Interface to another catalog whose tables are federated."""

    def schema_of(self, table: str) -> Schema:
        """Return the schema of a table of the other catalog."""
        ...


class TableReader(Protocol):
    """Interface through which a table is read: a lakehouse, a transaction or a snapshot."""

    clients: Mapping[str, CatalogClient]
    engines: Engines | None

    def _reading(self) -> CatalogReader:
        """Return the catalog state that reads currently use."""
        ...


@runtime_checkable
class _Historic(Protocol):
    """A catalog with a history."""

    metastore: Metastore

    def history(self, *, before: int | None = None, limit: int | None = None) -> Listing[HistoryEntry]:
        """Return the retained versions, newest first."""
        ...


class TableSnapshot:
    """A read-only table. Its catalog entry is as of the lookup; columns and rows are read from its catalog.

    A table that was looked up by its name is the one that has the name at each use. A table
    that was looked up by an alias or by ids, as in a locator, stays the same through renames.
    """

    def __init__(
        self,
        catalog: TableReader,
        locator: TableLocator,
        value: TableEntry | LoadObject,
        target: TableTarget | None = None,
    ) -> None:
        self.catalog = catalog
        self._locator = locator
        self._value = value
        self._target = target

    @property
    def value(self) -> TableEntry:
        """The catalog entry; a table from a listing loads it with those of the other tables of its page."""
        if not isinstance(self._value, TableEntry):
            loaded = self._value(self._locator)
            assert isinstance(loaded, TableEntry)
            self._value = loaded
        return self._value

    @property
    def locator(self) -> TableLocator:
        """Locator of the table: the name that was looked up, or the current one after a lookup by an alias or ids."""
        target = self._target
        if target is not None and target.table_id is not None:
            with suppress(NotFoundError):
                locator, table = find_target_table(self.catalog._reading(), target)
                if locator != self._locator:
                    self._locator, self._value = locator, table
                    self._target = replace(target, locator=locator)
        return self._locator

    @property
    def target(self) -> TableTarget:
        """The table version and stream to read and write: the default, or a chosen one."""
        return self._target or TableTarget(self._locator)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.catalog, self._locator, self.value, self.target)

    def __str__(self) -> str:
        return str(replace(self.target, locator=self.locator))

    def __repr__(self) -> str:
        return f"<{self.value.table_type.value} table {self}>"

    def _repr_html_(self) -> str:
        schema = self.schema
        columns = () if schema is None else schema.columns
        rows = [(one.name, format_type(one.type), "" if one.nullable else "not null", one.comment) for one in columns]
        note = f"keys: {', '.join(self.keys)}" if self.keys else ""
        notes = "; ".join(filter(None, (self.description, note)))
        return render_html(f"table {self}", ("column", "type", "", "comment") if rows else (), rows, note=notes)

    @property
    def name(self) -> str:
        """Name of the table within its namespace."""
        return self.locator.name

    @property
    def id(self) -> str:
        """Id of the table, which does not change when it is renamed."""
        return self.value.id

    @property
    def identity(self) -> TableIdentity:
        """Locator of the table by ids, by which `lake.table` opens it under any name."""
        return identity_of(self.value)

    @property
    def table_type(self) -> TableType:
        """Whether the table is managed, external or federated."""
        return self.value.table_type

    @property
    def location(self) -> str | None:
        """Location of the data of an external table, or None."""
        return self.value.location

    @property
    def aliases(self) -> tuple[str, ...]:
        """Aliases of the table."""
        reading = self.catalog._reading()
        locator, _ = find_target_table(reading, self.target)
        return tuple(str(AliasLocator(one.name)) for one in list_aliases(reading, locator))

    @property
    def properties(self) -> Mapping[str, str]:
        """Properties set by users; a chosen table version inherits those of the table, and its own replace them."""
        return self.value.properties if self.target.version is None else self.opened().properties

    @property
    def description(self) -> str | None:
        """Description set by the user, or None; a chosen table version without one has that of the table."""
        if self.target.version is None:
            return self.value.description
        opened = self.opened()
        return opened.table.description if opened.version.description is None else opened.version.description

    @property
    def schema(self) -> Schema | None:
        """Schema of the table; None for a table without a schema, or if it is unknown."""
        if self.table_type is TableType.MANAGED:
            return self.opened().version.schema
        if self.value.schema is not None or self.table_type is TableType.EXTERNAL:
            return self.value.schema
        return self._client().schema_of(self.value.format_properties[FEDERATED_TABLE])

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the key columns."""
        if self.table_type is TableType.MANAGED:
            version = self.opened().version
            return _names(version.schema, version.keys)
        return _names(self.value.schema, self.value.keys)

    @property
    def partition_by(self) -> tuple[str, ...]:
        """Partition expressions, as in `create_table`."""
        version = self.opened().version
        if version.schema is None:
            return ()
        return tuple(format_partition_field(field, version.schema) for field in version.partition_scheme.fields)

    @property
    def sort_by(self) -> tuple[str, ...]:
        """Sort order of the rows in data files."""
        version = self.opened().version
        if version.schema is None:
            return ()
        return tuple(format_sort_field(field, version.schema) for field in version.sort_scheme.fields)

    @property
    def checks(self) -> dict[str, str]:
        """Check constraints by name."""
        return check_constraints_of(open_table(self.catalog._reading(), self.target).version)

    def versions(self) -> list[TableVersionInfo]:
        """Return the table versions, oldest first, with their states and definitions."""
        return list_table_versions(self.catalog._reading(), self.target)

    def version(self, number: int) -> Self:
        """Return the table bound to one of its table versions instead of the default."""
        reading = self.catalog._reading()
        locator, table = find_target_table(reading, self.target)
        if validate_count(number, "the number of a table version", 1) not in load_table_versions(reading, table):
            raise build_no_version_error(reading, locator, table, number)
        target = TableTarget(locator, number, table_id=self.target.table_id)
        return type(self)(self.catalog, locator, table, target)

    def _bind(self, target: TableTarget) -> Self:
        """Return the table bound to the table version, stream, partition or delta that a target chooses."""
        chosen = self if target.version is None else self.version(target.version)
        return type(self)(self.catalog, self._locator, chosen.value, replace(target, locator=self._locator))

    def streams(self) -> list[StreamInfo]:
        """Return the streams of the table version, with their formats and states."""
        return list_streams(self.catalog._reading(), self._version_target)

    def stream(self, stream_id: str) -> Self:
        """Return the table bound to a stream, such as a staged or replaced one."""
        check_id(stream_id, "stream id")
        opened = open_table(self.catalog._reading(), replace(self._version_target, stream_id=stream_id))
        return type(self)(self.catalog, opened.locator, opened.table, opened.target)

    @property
    def _version_target(self) -> TableTarget:
        """The table, or the chosen table version of it."""
        return replace(self.target, stream_id=None, partition_id=None, position=None)

    def opened(self) -> OpenTable:
        """Return the table version and stream from which rows are planned."""
        return open_table(self.catalog._reading(), self.target)

    def partitions(self) -> Listing[tuple[PartitionLocator, Partition]]:
        """Return the partitions of the table."""
        reading = self.catalog._reading()
        return Listing(list_partitions(reading, open_table(reading, self.target)))

    def partition_stats(self) -> list[PartitionStats]:
        """Return the partitions with their numbers of deltas, data files, rows and bytes.

        >>> [(one.values, one.row_count) for one in table.partition_stats()]  # doctest: +SKIP
        """
        return list_partition_stats(self.catalog._reading(), self.target)

    def deltas(self) -> Listing[tuple[DeltaLocator, Delta]]:
        """Return the deltas, partition by partition, in the order in which they apply."""
        reading = self.catalog._reading()
        return Listing(list_deltas(reading, open_table(reading, self.target)))

    def state(self) -> TableState:
        """Return the state of the table for engines."""
        return load_table_state(self.catalog._reading(), self.target)

    def files(self) -> list[DataFile]:
        """Return the data files with location, content type, encoding and size, in the order of their deltas."""
        return self.scan().files()

    def scan(self, where: str | Expr | Predicate | None = None, columns: Sequence[str] | None = None) -> TableScan:
        """Return a scan of all rows, or of those that match `where`, which can be read or explained.

        A table without a schema has the rows of its files, if their formats define columns, and takes no condition.
        """
        reading = self.catalog._reading()
        opened = open_table(reading, self.target)
        if opened.version.schema is None:
            if where is not None:
                raise InvalidInputError(f"{self.target} has no schema for a condition: read all rows and filter them")
            files = [file for _, files in load_live_files(reading, opened) for file in files]
            return StoredFileScan(str(self.target), files, columns, self._engines)
        predicate = bind_predicate(to_condition(where), opened.version.schema)
        return TableScan(
            load_opened_table_state(reading, opened, predicate=predicate), predicate, columns, self._engines
        )

    def to_arrow(self, columns: Sequence[str] | None = None, where: str | Expr | Predicate | None = None) -> pa.Table:
        """Return the rows as a pyarrow Table, without a JVM."""
        self._engines().reader()
        return self.scan(where, columns).to_arrow()

    def to_reader(
        self,
        columns: Sequence[str] | None = None,
        where: str | Expr | Predicate | None = None,
        *,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """Return a pyarrow RecordBatchReader, which reads all or the first rows on demand in bounded memory."""
        self._engines().reader()
        return self.scan(where, columns).to_reader(limit=limit)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as an Arrow stream, so that other libraries read the table without a conversion.

        >>> polars.DataFrame(lake["shop.orders"])  # doctest: +SKIP
        """
        reader: Any = self.to_reader()
        return reader.__arrow_c_stream__(requested_schema)

    def head(self, rows: int = 10, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the first rows as a pyarrow Table; later files are not read."""
        return self.to_reader(columns, limit=validate_count(rows, "the number of rows")).read_all()

    def count(self, where: str | Expr | Predicate | None = None) -> int:
        """Return the number of rows, or of those that match `where`; only what the answer needs is read."""
        return self.scan(where).count()

    def profile(
        self, columns: Sequence[str] | None = None, where: str | Expr | Predicate | None = None
    ) -> Listing[ColumnProfile]:
        """Return statistics of each column: nulls, distinct and frequent values, bounds and a histogram.

        All rows that match `where` are read, in bounded memory. More than 16,384 distinct values
        are estimated, with an error of about 1 %.
        """
        return Listing(self._engines().reader().profile(self.to_reader(columns, where)), PROFILE_COLUMNS)

    def to_pandas(
        self, columns: Sequence[str] | None = None, where: str | Expr | Predicate | None = None
    ) -> pandas.DataFrame:
        """Return the rows as a pandas DataFrame."""
        self._engines().reader()
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
        """Return the rows as a DuckDB relation, in a connection or in the default one."""
        self._engines().local()
        return self.scan(where, columns).to_duckdb(connection)

    def to_spark(self, columns: Sequence[str] | None = None, where: str | Expr | Predicate | None = None) -> DataFrame:
        """Return the rows as a Spark DataFrame that Spark's own reader scans."""
        self._engines().spark()
        return self.scan(where, columns).to_spark()

    def iceberg(self) -> str:
        """Return the location of an Iceberg metadata file of the current rows, for engines that read Iceberg.

        Missing metadata is written below the table's folder; data files are not copied. Later
        writes do not change the metadata: call this again after them. Vacuum deletes the
        metadata of earlier states, after one day at the earliest.
        """
        if self.target.partition_id is not None:
            raise InvalidInputError(f"{self.target} is a part of a table; publish the table")
        return publish_iceberg_metadata(self._engines(), self.catalog._reading(), self.target)

    @overload
    def changes(
        self,
        from_version: int | str | datetime,
        to_version: int | str | datetime | None = None,
        *,
        engine: Literal["local"] | None = None,
    ) -> pa.Table: ...
    @overload
    def changes(
        self,
        from_version: int | str | datetime,
        to_version: int | str | datetime | None = None,
        *,
        engine: Literal["spark"],
    ) -> DataFrame: ...
    def changes(
        self,
        from_version: int | str | datetime,
        to_version: int | str | datetime | None = None,
        *,
        engine: str | None = None,
    ) -> pa.Table | DataFrame:
        """Return the rows that differ between two versions or points in time, or since one, as a pyarrow Table.

        The column `_change_type` is `insert`, `delete`, or `update_before` and `update_after`
        for a row with the same keys. With engine="spark" the result is a DataFrame, whose rows
        are unordered.
        """
        if not isinstance(self.catalog, TimeTravelCatalog):
            raise InvalidInputError(
                f"the changes of {self.locator} are available from the lakehouse only; use lake.table(…).changes"
            )
        validate_engine(engine)
        first = self.catalog.at(from_version)._reading()
        last = self.catalog._reading() if to_version is None else self.catalog.at(to_version)._reading()
        assert not isinstance(first, Workspace), "a time travel catalog reads committed versions"
        assert not isinstance(last, Workspace), "a time travel catalog reads committed versions"
        if first.version > last.version:
            raise InvalidInputError(
                f"the changes of {self.locator} from version {first.version} to {last.version} are in reverse order; "
                "give the earlier one first"
            )
        # The table can have had another name.
        target = replace(self.target, table_id=find_target_table(self.catalog._reading(), self.target)[1].id)
        before, after = load_table_state(first, target), load_table_state(last, target)
        chosen: Engine = self._engines().spark() if engine == SPARK else self._engines().local()
        changed: pa.Table | DataFrame = chosen.changes(before, after)
        return changed

    def history(self, *, limit: int | None = None) -> Listing[HistoryEntry]:
        """Return the versions that changed this table, its columns or its rows, newest first.

        Each version is compared with the previous one when it is first used, by reading only
        what differs, so the newest few entries are cheap.
        """
        if not isinstance(self.catalog, _Historic):
            raise InvalidInputError(
                f"the history of {self.locator} is available from the lakehouse only; use lake.table(…).history"
            )
        _, table = find_target_table(self.catalog._reading(), self.target)
        entries = scan_table_history(self.catalog.metastore, self.catalog.history(), table)
        return Listing(islice(entries, validate_limit(limit)), HISTORY_COLUMNS)

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
                f"{self.locator} is in the catalog {catalog!r}, for which there is no client here; "
                f"open the lakehouse with clients={{{catalog!r}: …}}"
            )
        return client


def _names(schema: Schema | None, ids: tuple[int, ...]) -> tuple[str, ...]:
    return () if schema is None else tuple(schema.column_with_id(one).name for one in ids)
