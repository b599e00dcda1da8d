"""The table API for reads, writes, schema evolution and constraints.

Rows that are a Spark DataFrame are written by Spark, all others in this process,
unless `engine` says "spark" or "local". A text that only Spark understands goes to
Spark by itself where Spark can see the store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, runtime_checkable

from mangrove.errors import ConflictError, InvalidInputError, MangroveError, NotFoundError
from mangrove.expressions.expr import RequiresSparkError
from mangrove.expressions.parse import SparkCondition, bind_predicate
from mangrove.expressions.predicates import Predicate
from mangrove.expressions.sql_expression import Expr, to_condition
from mangrove.lakehouse.engine_port import (
    Engine,
    Engines,
    TimeTravelCatalog,
    columns_of,
    is_spark_frame,
    make_repeatable,
    publish_iceberg_metadata,
)
from mangrove.lakehouse.merge import TableMerge
from mangrove.lakehouse.new_table import FEDERATED_CATALOG, FEDERATED_TABLE
from mangrove.lakehouse.scan import TableScan
from mangrove.lakehouse.schema_update import SchemaUpdate
from mangrove.lakehouse.table_staging import (
    load_opened_table_state,
    load_table_state,
    stage_into_opened_table,
    stage_write,
)
from mangrove.maintenance.engine_choice import COMPACTION_LIMITS, should_use_spark, validate_engine
from mangrove.maintenance.progress import ProgressCallback, ignore_progress
from mangrove.metastore import Metastore
from mangrove.model.locators import DeltaLocator, Locator, PartitionLocator, TableLocator
from mangrove.model.objects import Delta, Partition, TableEntry, TableType
from mangrove.model.partitioning import format_partition_field, format_sort_field
from mangrove.model.properties import NO_PROPERTIES
from mangrove.model.schema import Schema
from mangrove.tables.compaction import (
    CompactionBounds,
    auto_compaction_bounds_of,
    is_auto_compaction_enabled,
    is_compaction_due,
    sum_log_bytes,
)
from mangrove.tables.constraints import (
    check_constraints_of,
)
from mangrove.tables.merge import MergePlan
from mangrove.tables.schema_evolution import (
    evolve_schema,
)
from mangrove.tables.write_plan import find_missing_columns, plan_partial_upsert
from mangrove.transaction.catalog import load_table
from mangrove.transaction.compare import diff_snapshots
from mangrove.transaction.deltas import (
    OpenTable,
    open_table,
    put_table_version,
    scan_deltas_of_partitions,
    scan_partitions,
)
from mangrove.transaction.history import HistoryEntry
from mangrove.transaction.transaction import StagedTransaction
from mangrove.transaction.workspace import Workspace

if TYPE_CHECKING:
    import duckdb
    import pandas  # type: ignore[import-untyped]
    import polars
    import pyarrow as pa

    from mangrove.lakehouse.catalog import WritableCatalog
    from mangrove.tables.compaction import CompactionReport
    from mangrove.tables.merge import Assignable
    from mangrove.tables.table_state import TableState
    from mangrove.tables.write_plan import PlannedWrite, RowCounts
    from mangrove.transaction.catalog import CatalogReader


__all__ = ["CatalogClient", "Table", "TableReader", "TableSnapshot"]

_COMPACT: Final = "compact"
_LOGGER: Final = logging.getLogger(__name__)
_ENGINES: Final = (None, "local", "spark")
T = TypeVar("T")


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

    def __init__(self, catalog: TableReader, locator: TableLocator, value: TableEntry) -> None:
        self.catalog = catalog
        self.locator = locator
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.catalog, self.locator, self.value)

    def __str__(self) -> str:
        return str(self.locator)

    def __repr__(self) -> str:
        return f"<{self.value.table_type.value} table {self.locator}>"

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
        return check_constraints_of(open_table(self.catalog.reading(), self.locator).version)

    def opened(self) -> OpenTable:
        """Return its table version and stream, from which its rows are planned."""
        return open_table(self.catalog.reading(), self.locator)

    def partitions(self) -> Iterator[tuple[PartitionLocator, Partition]]:
        """Yield its partitions."""
        reading = self.catalog.reading()
        return scan_partitions(reading, open_table(reading, self.locator))

    def deltas(self) -> Iterator[tuple[DeltaLocator, Delta]]:
        """Yield its deltas, partition by partition, each in the order in which they apply."""
        reading = self.catalog.reading()
        return scan_deltas_of_partitions(
            reading, [way for way, _ in scan_partitions(reading, open_table(reading, self.locator))]
        )

    def state(self) -> TableState:
        """Return the table as engines take it."""
        return load_table_state(self.catalog.reading(), self.locator)

    def scan(self, where: str | Expr | Predicate | None = None, columns: Sequence[str] | None = None) -> TableScan:
        """Return a scan of all rows, or of those for which `where` holds, to be read or explained."""
        state, predicate = self._requested(where)
        return TableScan(state, predicate, columns, self._engines)

    def to_arrow(self, columns: Sequence[str] | None = None, where: str | Expr | Predicate | None = None) -> pa.Table:
        """Return the rows as a pyarrow Table, without a JVM."""
        self._engines().reader()
        return self.scan(where, columns).to_arrow()

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
        return publish_iceberg_metadata(self._engines(), self.catalog.reading(), self.locator)

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
        before, after = load_table_state(first, self.locator), load_table_state(last, self.locator)
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
        return islice(self._changing(self.catalog, table), limit)

    def _requested(self, where: str | Expr | Predicate | None) -> tuple[TableState, Predicate | None]:
        """Return what a read needs of the table, and which rows it means."""
        reading = self.catalog.reading()
        opened = open_table(reading, self.locator)
        schema = load_opened_table_state(reading, opened, with_logs=False).schema
        predicate = bind_predicate(to_condition(where), schema)
        return load_opened_table_state(reading, opened, predicate=predicate), predicate

    def _changing(self, catalog: _Historic, table: TableEntry) -> Iterator[HistoryEntry]:
        for line in catalog.history():
            if line.version == 0:
                return
            after = catalog.metastore.at_version(line.version)
            try:
                before = catalog.metastore.at_version(line.version - 1)
            except NotFoundError:
                # What came before has expired, so nobody can say what this version changed.
                return
            found = diff_snapshots(catalog.metastore, before, after)
            if any(_is_about(one.locator, value, table) for one in found for value in (one.before, one.after)):
                yield line

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


class Table(TableSnapshot):
    """A table of a lakehouse or a transaction, which can be written."""

    catalog: WritableCatalog

    def __init__(self, catalog: WritableCatalog, locator: TableLocator, value: TableEntry) -> None:
        super().__init__(catalog, locator, value)

    def append(
        self, rows: object, *, ordered: bool = True, evolve: bool = False, engine: str | None = None
    ) -> RowCounts:
        """Append rows: a Spark, pyarrow, pandas or polars frame, or a list of dicts.

        Keys are not compared: existing rows stay, and every given row is added. With
        `ordered=False` the position of the rows among other writes does not matter, and
        readers in order may return them anywhere. With `evolve` the table gets missing
        columns, and wider types where the rows need them.
        """
        rows = make_repeatable(rows)
        plan = self._on(
            engine, rows, lambda one, state, given: one.append(state, given) if ordered else one.add(state, given)
        )
        if not evolve:
            return self._write("append to", plan, with_logs=False)
        given = self._on(engine, rows, lambda one, state, found: one.detect_columns(state, found))

        def statement(transaction: StagedTransaction) -> RowCounts:
            workspace = transaction.workspace
            state = load_table_state(workspace, self.locator, with_logs=False)
            version = evolve_schema(state.version, given(state))
            if version != state.version:
                put_table_version(workspace, self.locator, version, stops_writers=False)
            write = plan(load_table_state(workspace, self.locator, with_logs=False))
            stage_write(workspace, self.locator, write, transaction.id)
            return write.counts

        return self.catalog.change(statement, f"append to {self.locator}")

    def upsert(self, rows: object, columns: Sequence[str] | None = None, *, engine: str | None = None) -> RowCounts:
        """Add rows in the place of those with the same keys.

        Columns that the rows lack, or that are not among `columns`, keep their values
        where a row is there, and are null in new rows. Only then is the table read.
        """
        if isinstance(columns, str):
            raise InvalidInputError(f"the columns of an upsert are {columns!r}: give a list of names")
        given = columns_of(rows) if columns is None else tuple(columns)

        def is_partial(state: TableState) -> bool:
            return given is not None and bool(find_missing_columns(state.schema, given))

        def plan(one: Engine, state: TableState, frame: object) -> PlannedWrite:
            if given is None or not is_partial(state):
                return one.upsert(state, frame)
            state.checked_keys("an upsert")
            return one.merge(state, frame, plan_partial_upsert(state, given))

        return self._write("upsert into", self._on(engine, rows, plan), with_logs=is_partial)

    def delete(self, where: str | Expr | Predicate | SparkCondition, *, engine: str | None = None) -> RowCounts:
        """Delete the rows for which a condition such as "amount < 0" holds."""
        condition = to_condition(where)
        if not isinstance(condition, str | Predicate | SparkCondition):
            raise InvalidInputError(
                f"delete expects a condition as SQL text, not {type(where).__name__}; "
                "delete rows by their keys with delete_keys"
            )
        return self._write("delete from", self._on(engine, None, lambda one, state, _: one.delete(state, condition)))

    def delete_keys(self, keys: object, *, engine: str | None = None) -> RowCounts:
        """Delete the rows with the keys of a frame or of a list of dicts; columns that are no keys are ignored."""
        if isinstance(keys, str | Expr | Predicate | SparkCondition):
            raise InvalidInputError("delete_keys expects a frame of keys; delete rows by a condition with delete")
        plan = self._on(engine, keys, lambda one, state, given: one.delete(state, given))
        return self._write("delete from", plan, with_logs=False)

    def overwrite(
        self, rows: object, where: str | Expr | Predicate | None = None, *, engine: str | None = None
    ) -> RowCounts:
        """Replace all rows, or those for which `where` holds; new rows for which it does not hold are refused."""
        condition = to_condition(where)
        return self._write(
            "overwrite", self._on(engine, rows, lambda one, state, given: one.overwrite(state, given, condition))
        )

    def overwrite_partitions(self, rows: object, *, engine: str | None = None) -> RowCounts:
        """Put rows in the place of all in the partitions that they lie in; other partitions stay as they are.

        The table is partitioned by columns or by years, months, days or hours. No rows
        replace nothing.
        """
        return self._write(
            "overwrite partitions of",
            self._on(engine, rows, lambda one, state, given: one.overwrite_partitions(state, given)),
        )

    def update(
        self,
        values: Mapping[str, Assignable],
        where: str | Expr | Predicate | SparkCondition | None = None,
        *,
        engine: str | None = None,
    ) -> RowCounts:
        """Set columns of all rows, or of those for which `where` holds.

        A Python value is set as it is, text too: "x", 5, None, a date. An SQL expression
        is `expr("amount * 1.1")`, another column is `col("name")`.
        """
        condition = to_condition(where)
        return self._write("update", self._on(engine, None, lambda one, state, _: one.update(state, values, condition)))

    def merge(
        self,
        source: object,
        on: str | Expr,
        *,
        target_name: str = "t",
        source_name: str = "s",
        engine: str | None = None,
    ) -> TableMerge:
        """Begin a merge of rows into the table, by a condition such as "t.id = s.id"; `execute` does it."""

        def run(plan: MergePlan) -> RowCounts:
            return self._write(
                "merge into", self._on(engine, source, lambda one, state, given: one.merge(state, given, plan))
            )

        return TableMerge(MergePlan(to_condition(on), (), target_name, source_name), run)

    def compact(
        self,
        *,
        engine: str | None = None,
        bytes_max: int | None = None,
        files_max: int | None = None,
        full: bool = False,
        watch: ProgressCallback = ignore_progress,
    ) -> CompactionReport:
        """Merge what was written into files that need no merging; others may write meanwhile.

        `engine` is "local" or "spark"; without it a table that fits into memory is
        compacted here. `bytes_max` and `files_max` bound what one call writes again; the
        report says what is left. With `full` large files are clustered anew too.
        """
        bounds = CompactionBounds(bytes_max, files_max, full)
        requested = validate_engine(engine)

        def plan(state: TableState) -> PlannedWrite:
            engines = self._engines()
            on_spark = should_use_spark(
                requested,
                COMPACTION_LIMITS,
                0,
                bounds.within(sum_log_bytes(state.logs)),
                spark_can=engines.can_spark_open(),
            )
            chosen: Engine = engines.spark() if on_spark else engines.local()
            done = chosen.compact(state, bounds, watch)
            reports.append(done.report)
            return done

        reports: list[CompactionReport] = []
        self._write(_COMPACT, plan)
        return reports[-1]

    def update_schema(self) -> SchemaUpdate:
        """Return an update of its columns and constraints, to be used in a `with` block or with `commit`."""
        return SchemaUpdate(self.locator, self._engines, self.catalog.change)

    def evolve(self, rows: object, *, engine: str | None = None) -> None:
        """Give the table the columns that it lacks, and wider types, so that such rows fit; none is written."""
        given = self._on(engine, rows, lambda one, state, found: one.detect_columns(state, found))

        def statement(transaction: StagedTransaction) -> None:
            workspace = transaction.workspace
            state = load_table_state(workspace, self.locator, with_logs=False)
            version = evolve_schema(state.version, given(state))
            if version != state.version:
                put_table_version(workspace, self.locator, version, stops_writers=False)

        self.catalog.change(statement, f"evolve {self.locator}")

    def fill(self, transaction: StagedTransaction, rows: object) -> None:
        """Add the first rows of a table in the transaction that makes it."""
        plan = self._on(None, rows, lambda one, state, given: one.append(state, given))
        write = plan(load_table_state(transaction.workspace, self.locator, with_logs=False))
        stage_write(transaction.workspace, self.locator, write, transaction.id)

    def alter(
        self, put: Mapping[str, str] = NO_PROPERTIES, remove: Iterable[str] | None = (), description: str | None = None
    ) -> Table:
        """Put or remove properties, or describe it anew."""
        return self.catalog.alter_table(self.locator, put, remove, description=description)

    def rename(self, name: str | TableLocator) -> Table:
        """Give it another name, in its namespace or in another."""
        return self.catalog.rename_table(self.locator, name)

    def drop(self) -> None:
        """Drop it."""
        self.catalog.drop_table(self.locator)

    def _write(
        self,
        verb: str,
        plan: Callable[[TableState], PlannedWrite],
        *,
        with_logs: bool | Callable[[TableState], bool] = True,
    ) -> RowCounts:
        def statement(transaction: StagedTransaction) -> tuple[RowCounts, TableState]:
            workspace = transaction.workspace
            opened = open_table(workspace, self.locator)
            state = load_opened_table_state(workspace, opened, with_logs=with_logs is True)
            if callable(with_logs) and with_logs(state):
                state = load_opened_table_state(workspace, opened)
            write = plan(state)
            stage_into_opened_table(workspace, opened, write, transaction.id)
            return write.counts, state

        counts, state = self.catalog.change(statement, f"{verb} {self.locator}")
        if (
            verb != _COMPACT
            and is_auto_compaction_enabled(state.properties)
            and isinstance(self.catalog, TimeTravelCatalog)
        ):
            self._compact_if_due()
        return counts

    def _compact_if_due(self) -> None:
        """Do a bounded part of a compaction if enough has gathered; where somebody else is at it, leave it to them.

        The write before it is committed. Were an error raised here, people would write
        their rows again, and have them twice: so it is logged, which never raises.
        """
        try:
            state = self.state()
            if is_compaction_due(state.properties, state.logs):
                self.compact(bytes_max=auto_compaction_bounds_of(state.properties).bytes_max)
        except ConflictError:
            return
        except MangroveError as error:
            _LOGGER.warning("rows were written to %s, and it could not compact itself: %s", self.locator, error)

    def _on(
        self, engine: str | None, rows: object, verb: Callable[[Engine, TableState, Any], T]
    ) -> Callable[[TableState], T]:
        """Return how to plan on the engine that is asked for, or on the one that fits."""
        if engine not in _ENGINES:
            raise InvalidInputError(f"{engine!r} is no engine: use local or spark")
        rows = make_repeatable(rows)
        frame: Any = rows

        def plan(state: TableState) -> T:
            engines = self._engines()
            if engine == "spark" or (engine is None and is_spark_frame(rows)):
                return verb(engines.spark(), state, rows)
            here = frame.toArrow() if is_spark_frame(rows) else rows
            if engine == "local":
                return verb(engines.local(), state, here)
            try:
                return verb(engines.local(), state, here)
            except RequiresSparkError as reason:
                try:
                    spark = engines.spark()
                except InvalidInputError:
                    # Spark cannot see the store, so what stopped the other engine is all there is to say.
                    raise reason from None
                return verb(spark, state, rows)

        return plan


def _is_about(locator: Locator, value: object, table: TableEntry) -> bool:
    if isinstance(value, TableEntry):
        return value.id == table.id
    return getattr(locator, "table_id", None) == table.id


def _names(schema: Schema | None, ids: tuple[int, ...]) -> tuple[str, ...]:
    return () if schema is None else tuple(schema.column_with_id(one).name for one in ids)
