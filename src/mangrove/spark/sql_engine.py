"""SQL engine on a Spark session."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from mangrove.expressions.predicates import Predicate
from mangrove.lakehouse.sql_port import Arguments, PositionedText, SqlErrorInfo
from mangrove.maintenance.engine_choice import SPARK
from mangrove.model.schema import Schema
from mangrove.spark import statements
from mangrove.spark.engine import SparkEngine
from mangrove.spark.row_changes import translate_spark_errors
from mangrove.spark.statements import Frame, SessionNames
from mangrove.spark.store_assignment import cast_for_assignment
from mangrove.tables.scan_plan import ScanPlan
from mangrove.tables.table_state import TableState

__all__ = ["SparkSqlEngine"]

_OVERWRITE_MODE: Final = "spark.sql.sources.partitionOverwriteMode"


class SparkSqlEngine:
    """Runs queries in the active Spark session, or in one that starts with the first query."""

    name: Final = SPARK
    row_engine: Final = SPARK
    runtime_errors: Final = statements.RUNTIME_ERRORS

    def __init__(self, start: Callable[[], SparkEngine]) -> None:
        self._start = start

    @cached_property
    def engine(self) -> SparkEngine:
        """The engine that reads and writes rows."""
        return self._start()

    @cached_property
    def names(self) -> SessionNames:
        """The temporary views of the frames in queries."""
        return SessionNames(self.engine.session)

    @property
    def is_started(self) -> bool:
        """Whether the session is in use, and may have temporary views."""
        return "engine" in self.__dict__

    @property
    def filters_scans(self) -> bool:
        """False: Spark's reader filters row groups itself."""
        return False

    @property
    def prunes_columns(self) -> bool:
        """Whether Spark itself reads the files, and not Python workers."""
        return not self.engine.reads_in_workers

    def describe_runtime_error(self, error: Exception) -> SqlErrorInfo:
        """Return the description of an error during execution."""
        return statements.describe_runtime_error(error)

    def suppress_logging(self) -> AbstractContextManager[None]:
        """Suppress Spark's log output of an error that is reported to the user."""
        return statements.suppress_spark_logging()

    def run(self, pieces: Sequence[PositionedText | Frame], arguments: Arguments = None) -> Frame | SqlErrorInfo:
        """Return the rows of the query that the fragments and frames form."""
        return statements.run_sql_text(self.names, pieces, arguments)

    def read_files(
        self,
        state: TableState,
        plan: ScanPlan,
        predicate: Predicate | None,
        columns: Sequence[str] | None,
        needed: Predicate | None = None,  # noqa: ARG002 - Spark's reader filters row groups itself
    ) -> Frame:
        """Return the rows of a scan plan that match a predicate."""
        return self.engine.read_files(state, plan, predicate, columns)

    def read_external_files(self, file_format: str, location: str, options: Mapping[str, str]) -> Frame:
        """Return the rows of an external table."""
        return statements.read_external_files(self.engine.session, file_format, location, options)

    def read_changes(self, before: TableState, after: TableState) -> Frame:
        """Return the rows that differ between two states."""
        return self.engine.changes(before, after)

    def create_frame(self, schema: str, rows: Sequence[tuple[Any, ...]]) -> Frame:
        """Return a DataFrame of rows."""
        return statements.create_frame(self.engine.session, schema, rows)

    def create_frame_of_arrow(self, rows: pa.Table) -> Frame:
        """Return a DataFrame of the rows of an Arrow table."""
        return statements.create_frame_of_arrow(self.engine.session, rows)

    def create_one_row(self, name: str) -> Frame:
        """Return one row with one column."""
        return statements.create_one_row(self.engine.session, name)

    def create_constant_row(self, frame: Frame, values: Sequence[Any]) -> Frame:
        """Return one row of these values with the columns of a frame, without computing the frame."""
        return statements.create_constant_row(frame, values)

    def rename_columns(self, frame: Frame, names: Sequence[str]) -> Frame:
        """Rename all columns."""
        return statements.rename_columns(frame, names)

    def cast_for_assignment(
        self, frame: Frame, names: Sequence[str], schema: Schema, table: str, *, fields_by_name: bool
    ) -> Frame:
        """Return the rows with their columns, in order, renamed and cast to the columns of a table."""
        return cast_for_assignment(frame, names, schema, table, fields_by_name=fields_by_name)

    def add_literal_columns(self, frame: Frame, values: Mapping[str, str], schema: Schema) -> Frame:
        """Add constant columns, given as SQL."""
        return statements.add_literal_columns(frame, values, schema)

    def compute_literals(self, values: Mapping[str, str], schema: Schema) -> pa.Table:
        """Return one row of constants, given as SQL, with the types of these columns of a table."""
        with translate_spark_errors():
            return statements.compute_literals(self.engine.session, values, schema)

    def iterate_rows(self, frame: Frame, limit: int | None = None) -> Iterator[tuple[Any, ...]]:
        """Yield rows incrementally; with a limit no more rows are computed."""
        return statements.iterate_rows(frame, limit)

    def collect_rows(self, frame: Frame) -> list[tuple[Any, ...]]:
        """Compute all rows."""
        with self.suppress_logging():
            return [tuple(row) for row in frame.collect()]

    def read_as_of_value(self, frame: Frame) -> object:
        """Return the single value of a row."""
        return statements.read_as_of_value(frame)

    def list_temporary_views(self, names: Collection[str]) -> frozenset[str]:
        """Return which of these names are temporary views of the session."""
        return self.names.temporary_views(names)

    def create_temporary_view(self, frame: Frame, name: str, *, or_replace: bool, is_global: bool) -> None:
        """Create a temporary view of the session or a global one."""
        statements.create_temporary_view(frame, name, or_replace=or_replace, is_global=is_global)

    def drop_temporary_view(self, name: str) -> bool:
        """Drop a temporary view; a session that has not started has none."""
        return self.is_started and statements.drop_temporary_view(self.engine.session, name)

    def cache_rows(self, frame: Frame, *, eager: bool) -> None:
        """Cache rows in Spark's memory."""
        statements.cache_rows(frame, eager=eager)

    def uncache_rows(self, frame: Frame) -> None:
        """Remove rows from the cache."""
        statements.uncache_rows(frame)

    def time_zone(self) -> str:
        """Return the session time zone."""
        return str(self.engine.session.conf.get("spark.sql.session.timeZone"))

    def is_overwrite_dynamic(self) -> bool:
        """Return whether INSERT OVERWRITE replaces only the partitions of the new rows."""
        return str(self.engine.session.conf.get(_OVERWRITE_MODE, "static")).lower() == "dynamic"
