"""The table API for reads, writes, schema evolution and constraints.

Spark DataFrames are written by Spark, all other rows in this process, unless `engine`
is "spark" or "local". An SQL expression that only Spark supports is evaluated by
Spark if Spark can access the store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mangrove.errors import InvalidInputError
from mangrove.expressions.expr import RequiresSparkError
from mangrove.expressions.parse import SparkCondition
from mangrove.expressions.predicates import Predicate
from mangrove.expressions.sql_expression import Expr, to_condition
from mangrove.lakehouse.arguments import validate_count, validate_texts
from mangrove.lakehouse.engine_port import (
    Engine,
    columns_of,
    is_spark_frame,
    make_repeatable,
)
from mangrove.lakehouse.merge import TableMerge
from mangrove.lakehouse.new_files import read_new_files
from mangrove.lakehouse.schema_update import SchemaUpdate, validate_new_checks
from mangrove.lakehouse.table_snapshot import TableSnapshot
from mangrove.lakehouse.table_staging import stage_into_opened_table, stage_write, validate_property_changes
from mangrove.lakehouse.table_versions import (
    parse_state,
    plan_next_version,
)
from mangrove.maintenance.engine_choice import COMPACTION_LIMITS, LOCAL, SPARK, should_use_spark, validate_engine
from mangrove.maintenance.progress import ProgressCallback, ignore_progress
from mangrove.metastore import LoadObject
from mangrove.model.locators import Kind, PartitionLocator, TableLocator
from mangrove.model.manifests import Author, DataFile, Manifest
from mangrove.model.names import check_id
from mangrove.model.objects import (
    STREAM_FORMAT,
    Delta,
    DeltaType,
    TableEntry,
    TableVersionState,
)
from mangrove.model.properties import NO_PROPERTIES
from mangrove.model.types import has_nanoseconds
from mangrove.model.values import Value
from mangrove.tables.compaction import (
    UNBOUNDED,
    CompactionBounds,
    auto_compaction_bounds_of,
    is_auto_compaction_enabled,
    is_compaction_due,
    sum_log_bytes,
)
from mangrove.tables.copy_on_write import is_append_only, plan_copy_on_write
from mangrove.tables.iceberg_names import keep_client_properties
from mangrove.tables.inline_flush import is_flush_check_due, plan_inline_flushes
from mangrove.tables.merge import MergePlan
from mangrove.tables.schema_evolution import (
    evolve_schema,
)
from mangrove.tables.schemaless_files import load_live_files, plan_file_removal
from mangrove.tables.table_state import load_opened_table_state, load_table_state
from mangrove.tables.write_plan import (
    PlannedDelta,
    PlannedWrite,
    describe_deltas,
    find_missing_columns,
    plan_partial_upsert,
)
from mangrove.transaction.catalog import CatalogReader
from mangrove.transaction.deltas import (
    VERSION_PREFIX,
    TableTarget,
    add_deltas,
    check_writable,
    find_target_table,
    open_table,
    put_table_version,
)
from mangrove.transaction.table_versions import (
    alter_table_version,
    commit_stream,
    create_partition,
    create_stream,
    create_table_version,
    drop_stream,
    drop_table_version,
    set_table_version_state,
)
from mangrove.transaction.transaction import StagedTransaction
from mangrove.transaction.version_diff import roll_back_table

if TYPE_CHECKING:
    from datetime import datetime

    from mangrove.lakehouse.catalog import WritableCatalog
    from mangrove.tables.compaction import CompactionReport
    from mangrove.tables.merge import Assignable
    from mangrove.tables.table_state import TableState
    from mangrove.tables.write_plan import RowCounts
    from mangrove.transaction.deltas import OpenTable
    from mangrove.transaction.workspace import Workspace


__all__ = ["Table", "maintain_table"]

_COMPACT: Final = "compact"
_FLUSH: Final = "move inline rows of"
T = TypeVar("T")


class Table(TableSnapshot):
    """A writable table of a lakehouse or a transaction."""

    catalog: WritableCatalog

    if TYPE_CHECKING:

        def __init__(
            self,
            catalog: WritableCatalog,
            locator: TableLocator,
            value: TableEntry | LoadObject,
            target: TableTarget | None = None,
        ) -> None: ...

    def append(
        self,
        rows: object,
        *,
        ordered: bool = True,
        evolve: bool = False,
        cast: bool = False,
        engine: str | None = None,
        properties: Mapping[str, str] = NO_PROPERTIES,
        author: str | Author | None = None,
        position: int | None = None,
    ) -> RowCounts:
        """Append rows: a Spark, pyarrow, pandas or polars frame, any Arrow stream, or a list of dicts.

        Keys are not compared: existing rows remain, and every given row is added. With
        `ordered=False` the position of the rows among other writes does not matter, and
        ordered reads may return them anywhere. `evolve` adds missing columns to the table, and
        widens types if the rows need it. `cast` converts columns to the table's types, such as
        floats to decimals and text to timestamps, and fails if a value does not fit.
        `properties`, `author` and `position` (a chosen stream position) are those of the delta.

        >>> orders.append(pandas.read_csv("orders.csv"), cast=True)  # doctest: +SKIP
        """
        rows = make_repeatable(rows)
        describe = describe_deltas(properties, author, position)

        def prepare(one: Engine, state: TableState, given: object) -> object:
            return one.cast_rows(state, given) if cast else given

        def append(one: Engine, state: TableState, given: object) -> PlannedWrite:
            prepared = prepare(one, state, given)
            return describe(one.append(state, prepared) if ordered else one.add(state, prepared))

        plan = self._on(engine, rows, append)
        if not evolve:
            return self._write("append to", plan, with_logs=False)
        given = self._on(engine, rows, lambda one, state, found: one.detect_columns(state, prepare(one, state, found)))

        def statement(transaction: StagedTransaction) -> tuple[PlannedWrite, TableState]:
            workspace = transaction.workspace
            self._open_for_write(workspace)
            state = load_table_state(workspace, self.target, with_logs=False)
            version = evolve_schema(state.version, given(state))
            if version != state.version:
                put_table_version(workspace, self.target, version, stops_writers=False)
            write = plan(load_table_state(workspace, self.target, with_logs=False))
            stage_write(workspace, self.target, write, transaction.id)
            return write, state

        return self._count_and_maintain(*self.catalog._change(statement, f"append to {self}"))

    def add_files(
        self,
        files: Iterable[str | os.PathLike[str]] | Mapping[str, bytes],
        *,
        content_type: str | None = None,
        properties: Mapping[str, str] = NO_PROPERTIES,
        author: str | Author | None = None,
        position: int | None = None,
    ) -> list[DataFile]:
        """Add files unchanged to a table without a schema, in one commit, and return the stored files.

        `files` contains paths, or names with bytes. Every file is accepted. By default the
        content type is derived from the file extension; a file of an unknown extension, or with
        that of Parquet and other content, is `application/octet-stream`. `properties`, `author`
        and `position` (a chosen stream position) are those of the delta.
        """
        describe = describe_deltas(properties, author, position)
        check_writable(self.target)
        given = read_new_files(files, content_type)
        added: list[DataFile] = []

        def statement(transaction: StagedTransaction) -> None:
            opened = self._open_for_write(transaction.workspace)
            if opened.version.schema is not None:
                raise InvalidInputError(f"{self} has a schema, so files cannot be added as they are: append their rows")
            if not added:
                # A repeated attempt commits the files of the first one.
                path_bytes_max = transaction.workspace.settings.file_path_max_size_bytes
                added.extend(self._engines().local().add_files(opened.table.id, given, path_bytes_max))
            write = describe(PlannedWrite((PlannedDelta((), Delta(DeltaType.APPEND, Manifest(tuple(added)))),)))
            additions = [(planned.log_values, planned.delta) for planned in write.deltas]
            add_deltas(transaction.workspace, opened, additions, transaction.id)

        self.catalog._change(statement, f"add files to {self}")
        return added

    def remove_files(self, files: Iterable[str | DataFile]) -> list[DataFile]:
        """Remove files from a table without a schema, in one commit, and return them.

        `files` contains locations, or files as `files` lists them. Earlier versions still have them.

        >>> table.remove_files([table.files()[0]])  # doctest: +SKIP
        """
        if isinstance(files, str | bytes | DataFile):
            raise InvalidInputError(f"the files are {files!r}: give a list of locations or files")
        locations = {one.location if isinstance(one, DataFile) else one for one in files}
        if not locations:
            raise InvalidInputError("there are no files to remove: give at least one")

        def statement(transaction: StagedTransaction) -> list[DataFile]:
            workspace = transaction.workspace
            opened = self._open_for_write(workspace)
            if opened.version.schema is not None:
                raise InvalidInputError(f"{self} has a schema, so files cannot be removed: delete rows")
            write, removed = plan_file_removal(load_live_files(workspace, opened), locations, str(self.target))
            stage_into_opened_table(workspace, opened, write, transaction.id)
            return removed

        return self.catalog._change(statement, f"remove files from {self}")

    def upsert(
        self,
        rows: object,
        columns: Sequence[str] | None = None,
        *,
        engine: str | None = None,
        properties: Mapping[str, str] = NO_PROPERTIES,
        author: str | Author | None = None,
        position: int | None = None,
    ) -> RowCounts:
        """Insert rows, and replace existing rows with the same keys.

        Columns that the rows lack, or that are not in `columns`, keep their values in existing
        rows, and get their default or null in new rows; only in this case is the table read.
        `properties`, `author` and `position` (a chosen stream position) are those of the delta.
        """
        rows = make_repeatable(rows)
        describe = describe_deltas(properties, author, position)
        if isinstance(columns, str):
            raise InvalidInputError(f"the columns of an upsert are {columns!r}: give a list of names")
        given = columns_of(rows) if columns is None else tuple(columns)

        def is_partial(state: TableState) -> bool:
            return given is not None and bool(find_missing_columns(state.schema, given))

        def plan(one: Engine, state: TableState, frame: object) -> PlannedWrite:
            if given is None or not is_partial(state):
                return describe(one.upsert(state, frame))
            state.checked_keys("an upsert")
            return describe(one.merge(state, frame, plan_partial_upsert(state, given)))

        return self._write("upsert into", self._on(engine, rows, plan), with_logs=is_partial)

    def delete(self, where: str | Expr | Predicate | SparkCondition, *, engine: str | None = None) -> RowCounts:
        """Delete the rows that match a condition such as "amount < 0"."""
        condition = to_condition(where)
        if not isinstance(condition, str | Predicate | SparkCondition):
            raise InvalidInputError(
                f"delete expects a condition as SQL text, not {type(where).__name__}; "
                "delete rows by their keys with delete_keys"
            )
        return self._write("delete from", self._on(engine, None, lambda one, state, _: one.delete(state, condition)))

    def delete_keys(
        self,
        keys: object,
        *,
        engine: str | None = None,
        properties: Mapping[str, str] = NO_PROPERTIES,
        author: str | Author | None = None,
        position: int | None = None,
    ) -> RowCounts:
        """Delete the rows with the keys of a frame or of a list of dicts; columns that are not keys are ignored.

        `properties`, `author` and `position` (a chosen stream position) are those of the delta.
        """
        describe = describe_deltas(properties, author, position)
        if isinstance(keys, str | Expr | Predicate | SparkCondition):
            raise InvalidInputError("delete_keys expects a frame of keys; delete rows by a condition with delete")
        plan = self._on(engine, keys, lambda one, state, given: describe(one.delete(state, given)))
        return self._write("delete from", plan, with_logs=False)

    def overwrite(
        self, rows: object, where: str | Expr | Predicate | SparkCondition | None = None, *, engine: str | None = None
    ) -> RowCounts:
        """Replace all rows, or those that match `where`; new rows that do not match `where` are refused."""
        condition = to_condition(where)
        return self._write(
            "overwrite", self._on(engine, rows, lambda one, state, given: one.overwrite(state, given, condition))
        )

    def overwrite_partitions(self, rows: object, *, engine: str | None = None) -> RowCounts:
        """Replace all rows in the partitions to which the new rows belong; other partitions do not change.

        The table must be partitioned by columns or by years, months, days or hours. Without
        rows, nothing is replaced.
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
        """Update columns of all rows, or of those that match `where`.

        Python values, including text, are set as literals: "x", 5, None, a date. So is
        "amount * 1.1": an SQL expression is `mangrove.expr("amount * 1.1")`, and another column
        is `mangrove.col("name")`.
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
        """Begin a merge of source rows by a condition such as "t.id = s.id"; `TableMerge.execute` executes it."""

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
        """Merge deltas into files that need no merging; concurrent writes are allowed.

        `engine` is "local" or "spark"; by default a table that fits into memory is compacted
        in this process. `bytes_max` and `files_max` limit what one call rewrites; the report
        says what remains. With `full`, large files are clustered again too.
        """
        bounds = CompactionBounds(bytes_max, files_max, full)
        requested = validate_engine(engine)

        def plan(state: TableState) -> PlannedWrite:
            done = self._compaction_engine(state, bounds, requested).compact(state, bounds, watch)
            reports.append(done.report)
            return done

        reports: list[CompactionReport] = []
        self._write(_COMPACT, plan)
        return reports[-1]

    def update_schema(self) -> SchemaUpdate:
        """Return an update of columns and constraints, for use in a `with` block or with `commit`."""
        self._check_target("update_schema", Kind.TABLE_VERSION)
        return SchemaUpdate(self.target, self._engines, self.catalog._change)

    def _evolve(self, rows: object, *, engine: str | None = None) -> None:
        """Add missing columns and widen types so that the rows fit; no rows are written."""
        self._check_target("evolve", Kind.TABLE_VERSION)
        given = self._on(engine, rows, lambda one, state, found: one.detect_columns(state, found))

        def statement(transaction: StagedTransaction) -> None:
            workspace = transaction.workspace
            state = load_table_state(workspace, self.target, with_logs=False)
            version = evolve_schema(state.version, given(state))
            if version != state.version:
                put_table_version(workspace, self.target, version, stops_writers=False)

        self.catalog._change(statement, f"evolve {self}")

    def _fill(self, transaction: StagedTransaction, rows: object) -> None:
        """Write the initial rows of a table in the transaction that creates it."""
        plan = self._on(None, rows, lambda one, state, given: one.append(state, given))
        self._open_for_write(transaction.workspace)
        write = plan(load_table_state(transaction.workspace, self.target, with_logs=False))
        stage_write(transaction.workspace, self.target, write, transaction.id)

    def alter(
        self, put: Mapping[str, str] = NO_PROPERTIES, remove: Iterable[str] | None = (), description: str | None = None
    ) -> Table:
        """Set or remove properties, or change the description, of the table or of the chosen table version.

        A table version inherits the properties of its table, and its own replace them.

        >>> table.version(2).alter({"write.delete-mode": "position"})  # doctest: +SKIP
        """
        self._check_target("alter", Kind.TABLE_VERSION)
        if self.target.version is None:
            return self.catalog.alter_table(self._table_target, put, remove, description=description)
        gone = validate_texts(remove, "the properties to remove")

        def statement(transaction: StagedTransaction) -> Table:
            validate_property_changes(transaction.workspace, self.target, put)
            alter_table_version(transaction.workspace, self.target, put=put, removed=gone, description=description)
            return self

        return self.catalog._change(statement, f"alter {self}")

    def rename(self, name: str | TableLocator) -> Table:
        """Rename the table, within its namespace or into another; this object then has the new name."""
        self._check_target("rename", Kind.TABLE)
        renamed = self.catalog.rename_table(self._table_target, name)
        self._locator, self._value = renamed.locator, renamed.value
        self._target = replace(self.target, locator=renamed.locator)
        return renamed

    def drop(self) -> None:
        """Drop the table with all its table versions."""
        self._check_target("drop", Kind.TABLE)
        self.catalog.drop_table(self._table_target)

    def rollback(self, to: int | str | datetime) -> None:
        """Restore the table as it was in an earlier version of the lakehouse: rows, columns, keys and properties.

        Its name, namespace and aliases stay. Other tables do not change, and the history keeps all versions.

        >>> table.rollback(to="year-end")  # doctest: +SKIP
        """
        self._check_target("rollback", Kind.TABLE)

        def statement(transaction: StagedTransaction) -> None:
            workspace = transaction.workspace
            locator, table = find_target_table(workspace, self.target)
            past = self.catalog._snapshot_at(to)
            _, was = find_target_table(past, replace(self.target, table_id=table.id))
            roll_back_table(workspace, locator, was, past, keep_client_properties(table.properties, was.properties))

        self.catalog._change(statement, f"roll back {self} to {to}")

    def create_version(
        self,
        schema: object | None = None,
        *,
        keys: Sequence[str] | None = None,
        partition_by: Sequence[str] | None = None,
        sort_by: Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        description: str | None = None,
        checks: Mapping[str, str] | None = None,
        version: int | None = None,
        state: TableVersionState | str = TableVersionState.UNRELEASED,
        stream_id: str | None = None,
        schemaless: bool = False,
    ) -> Table:
        """Create the next table version, without rows, and return the table bound to it.

        Arguments that are not given are as in the current version. `version` is a number larger
        than all others; by default the next one. The new version becomes the default once it is
        the newest active one: `table.version(2).set_state("active")`. A `schemaless` version
        contains files, added with `add_files`, instead of rows.
        """
        self._check_target("create_version", Kind.TABLE_VERSION)

        def statement(transaction: StagedTransaction) -> Table:
            workspace = transaction.workspace
            planned, stream = plan_next_version(
                workspace, self.target, self.catalog._new_id, schema=schema, schemaless=schemaless, keys=keys,
                partition_by=partition_by, sort_by=sort_by, properties=properties, description=description,
                checks=checks, version=version, state=state, stream_id=stream_id,
            )  # fmt: skip
            create_table_version(workspace, self.target, planned, stream)
            if self.catalog.engines is not None and planned.schema is not None:
                target = replace(self.target, version=planned.version)
                validate_new_checks(self.catalog.engines, transaction, target)
            locator, table = find_target_table(workspace, self.target)
            return Table(self.catalog, locator, table, replace(self.target, locator=locator, version=planned.version))

        return self.catalog._change(statement, f"create a table version of {self.locator}")

    def set_state(self, state: TableVersionState | str) -> None:
        """Set the lifecycle state of the table version: unreleased, beta, active, deprecated or deleted.

        The newest active version is the default. A deleted version cannot be read or written.
        """
        self._check_target("set_state", Kind.TABLE_VERSION)
        number, requested = self._chosen_version("set its state"), parse_state(state)
        self.catalog._change(
            lambda transaction: set_table_version_state(transaction.workspace, self.target, number, requested),
            f"set table version {number} of {self.locator} {requested.value}",
        )

    def drop_version(self, number: int | None = None) -> None:
        """Drop a table version, by default the chosen one, with its rows; earlier versions of the lakehouse keep it."""
        self._check_target("drop_version", Kind.TABLE_VERSION)
        dropped = self._chosen_version("drop") if number is None else number
        validate_count(dropped, "the number of a table version", 1)
        self.catalog._change(
            lambda transaction: drop_table_version(transaction.workspace, self.target, dropped),
            f"drop table version {dropped} of {self.locator}",
        )

    def create_stream(self, stream_id: str | None = None, stream_format: str = STREAM_FORMAT) -> Table:
        """Create a staged stream of the table version, and return the table bound to it.

        Its rows are not visible to other readers until `commit_stream` replaces the current
        stream with it.
        """
        self._check_target("create_stream", Kind.TABLE_VERSION)
        new_id = self.catalog._new_id() if stream_id is None else stream_id
        check_id(new_id, "stream id")
        check_id(stream_format, "stream format")
        self.catalog._change(
            lambda transaction: create_stream(transaction.workspace, self.target, new_id, stream_format),
            f"create stream {new_id} of {self.locator}",
        )
        return Table(self.catalog, self._locator, self.value, replace(self.target, stream_id=new_id))

    def commit_stream(self) -> None:
        """Make this stream the current one of its table version; the previous one becomes deprecated."""
        self._check_target("commit_stream", Kind.STREAM)
        self._check_chosen_stream("commit")
        self.catalog._change(lambda transaction: commit_stream(transaction.workspace, self.target), f"commit {self}")

    def drop_stream(self) -> None:
        """Drop this stream, which must be staged or replaced, with its rows."""
        self._check_target("drop_stream", Kind.STREAM)
        self._check_chosen_stream("drop")
        self.catalog._change(lambda transaction: drop_stream(transaction.workspace, self.target), f"drop {self}")

    def create_partition(self, values: Sequence[Value | None], partition_id: str) -> PartitionLocator:
        """Create a partition with a chosen id, to which all rows with these partition values are written."""
        self._check_target("create_partition", Kind.STREAM)
        check_id(partition_id, "partition id")
        return self.catalog._change(
            lambda transaction: create_partition(transaction.workspace, self.target, values, partition_id),
            f"create partition {partition_id} of {self}",
        )

    @property
    def _table_target(self) -> TableTarget:
        """The whole table."""
        return replace(self._version_target, version=None)

    def _check_target(self, operation: str, smallest: Kind) -> None:
        """Raise an error if the operation does not apply to a part of a table as small as this one."""
        kind = self.target.kind
        if kind > smallest:
            accepted = [one.word for one in (Kind.TABLE, Kind.TABLE_VERSION, Kind.STREAM) if one <= smallest]
            raise InvalidInputError(
                f"{self} is a {kind.word}, a part of the table {self.locator}; {operation} is for a "
                f"{' or '.join(accepted)}"
            )

    def _chosen_version(self, purpose: str) -> int:
        if self.target.version is None:
            raise InvalidInputError(
                f"choose a table version of {self.locator} to {purpose}, by its number or as in "
                f"{self.locator}.{VERSION_PREFIX}{self.value.default_version}"
            )
        return self.target.version

    def _check_chosen_stream(self, purpose: str) -> None:
        if self.target.stream_id is None:
            raise InvalidInputError(f"choose a stream of {self} to {purpose}, by its id or canonical string")

    def _open_for_write(self, workspace: Workspace) -> OpenTable:
        """Open the table for a write; a principal without the privilege is refused before any file is written."""
        opened = open_table(workspace, self.target)
        self.catalog._check_write_privilege(workspace, opened)
        return opened

    def _write(
        self,
        verb: str,
        plan: Callable[[TableState], PlannedWrite],
        *,
        with_logs: bool | Callable[[TableState], bool] = True,
    ) -> RowCounts:
        check_writable(self.target)

        def statement(transaction: StagedTransaction) -> tuple[PlannedWrite, TableState]:
            workspace = transaction.workspace
            opened = self._open_for_write(workspace)
            state = load_opened_table_state(workspace, opened, with_logs=with_logs is True, is_recorded=False)
            if callable(with_logs) and with_logs(state):
                state = load_opened_table_state(workspace, opened, is_recorded=False)
            write = plan(state)
            if workspace.settings.is_readable_by_deltacat and not is_append_only(write):
                complete = load_opened_table_state(workspace, opened)
                write = plan_copy_on_write(complete, write, self._compaction_engine(complete).compact)
            stage_into_opened_table(workspace, opened, write, transaction.id)
            return write, state

        write, state = self.catalog._change(statement, f"{verb} {self}", is_blind=with_logs is not True)
        return write.counts if verb in (_COMPACT, _FLUSH) else self._count_and_maintain(write, state)

    def _count_and_maintain(self, write: PlannedWrite, state: TableState) -> RowCounts:
        """Return the row counts of a write; schedule maintenance if it may be due."""
        if is_auto_compaction_enabled(state.properties) or is_flush_check_due(write):
            self.catalog._schedule_maintenance(self.target)
        return write.counts

    def _compaction_engine(
        self, state: TableState, bounds: CompactionBounds = UNBOUNDED, requested: str | None = None
    ) -> Engine:
        """Return the requested engine, or the local one if the rewritten data fits into memory."""
        engines = self._engines()
        size_bytes = bounds.within(sum_log_bytes(state.logs))
        can = engines.can_spark_open() and not any(has_nanoseconds(column.type) for column in state.schema.columns)
        on_spark = should_use_spark(requested, COMPACTION_LIMITS, 0, size_bytes, spark_can=can)
        return engines.spark() if on_spark else engines.local()

    def _maintain_if_due(self, reading: CatalogReader) -> None:
        """Run a bounded part of a compaction, or move inline rows into data files if there are many."""
        opened = open_table(reading, self.target)
        if opened.version.schema is None:
            return
        state = load_opened_table_state(reading, opened)
        if is_compaction_due(state.properties, state.logs):
            self.compact(bytes_max=auto_compaction_bounds_of(state.properties).bytes_max)
        elif plan_inline_flushes(state):
            self._write(_FLUSH, lambda state: self._engines().local().flush_inline_rows(state))

    def _on(
        self, engine: str | None, rows: object, verb: Callable[[Engine, TableState, Any], T]
    ) -> Callable[[TableState], T]:
        """Return a function that plans on the requested engine, or on the one that suits the rows."""
        if engine is not None:
            validate_engine(engine)
        rows = make_repeatable(rows)
        frame: Any = rows

        def plan(state: TableState) -> T:
            engines = self._engines()
            if engine == SPARK or (engine is None and is_spark_frame(rows)):
                return verb(engines.spark(), state, rows)
            here = frame.toArrow() if is_spark_frame(rows) else rows
            if engine == LOCAL:
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


def maintain_table(lake: WritableCatalog, target: TableTarget, reading: CatalogReader) -> None:
    """Run the maintenance of a table after a write if a recent version says that it is due."""
    table = Table(lake, target.locator, lambda _: find_target_table(lake._reading(), target)[1], target)
    table._maintain_if_due(reading)
