"""The interface of the engines that run the queries of SQL statements."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, runtime_checkable

from mangrove.errors import InvalidInputError
from mangrove.maintenance.engine_choice import SPARK

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]
    import polars
    import pyarrow as pa

    from mangrove.expressions.predicates import Predicate
    from mangrove.model.schema import Schema
    from mangrove.tables.scan_plan import ScanPlan
    from mangrove.tables.table_state import TableState

__all__ = [
    "DUCKDB",
    "SQL_ENGINES",
    "Arguments",
    "Frame",
    "PositionedText",
    "QueryResult",
    "SqlEngine",
    "SqlErrorInfo",
    "ValueComputer",
    "check_sql_engine",
    "locate_position",
]

DUCKDB: Final = "duckdb"
SQL_ENGINES: Final = (DUCKDB, SPARK)
"""The names of the SQL engines."""

Arguments: TypeAlias = Mapping[str, Any] | Sequence[Any] | None
"""The values of parameters, by name or by position."""
Frame: TypeAlias = Any
"""The lazy rows of a query inside an engine: a Spark DataFrame, or a `QueryResult`."""


class QueryResult(Protocol):
    """The rows of a query on DuckDB, which are computed each time that they are read."""

    @property
    def columns(self) -> list[str]:
        """The column names."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the columns."""
        ...

    def to_arrow(self, limit: int | None = None) -> pa.Table:
        """Compute the rows, or at most `limit` of them, as a pyarrow Table."""
        ...

    def to_batches(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Compute the rows, or at most `limit` of them, in batches."""
        ...

    def to_pandas(self) -> pandas.DataFrame:
        """Compute the rows as a pandas DataFrame."""
        ...

    def to_polars(self) -> polars.DataFrame:
        """Compute the rows as a polars DataFrame."""
        ...

    def collect(self, limit: int | None = None) -> Sequence[Any]:
        """Compute the rows, or at most `limit` of them, as Python values."""
        ...

    def explain(self) -> str:
        """Return the plan of the query."""
        ...

    def cancel(self) -> None:
        """Cancel the reads that are in progress, from any thread."""
        ...

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

    def _repr_html_(self) -> str: ...


@dataclass(frozen=True, slots=True)
class PositionedText:
    """A fragment of SQL and its position in the user's text, or None if generated."""

    text: str
    start: int | None


@dataclass(frozen=True, slots=True)
class SqlErrorInfo:
    """Message and position of an error of an SQL engine; positions refer to the user's text, or are None.

    The conditions and parameters are those of Spark.
    """

    condition: str
    message: str
    parameters: Mapping[str, str]
    start: int | None = None
    end: int | None = None


class SqlEngine(Protocol):
    """Runs queries in Spark SQL over tables that are resolved already; starts with the first query."""

    @property
    def name(self) -> str:
        """The name of the engine: one of `SQL_ENGINES`."""
        ...

    @property
    def row_engine(self) -> str:
        """The engine that changes rows in statements without a source: "local" or "spark"."""
        ...

    @property
    def filters_scans(self) -> bool:
        """Whether scans differ by the rows that a query needs, because the reader of the engine cannot filter them."""
        ...

    @property
    def prunes_columns(self) -> bool:
        """Whether the engine reads only the columns of a table that the whole query uses."""
        ...

    @property
    def runtime_errors(self) -> tuple[type[Exception], ...]:
        """The exceptions that the engine raises while it computes rows."""
        ...

    def describe_runtime_error(self, error: Exception) -> SqlErrorInfo:
        """Return the description of one of `runtime_errors`."""
        ...

    def suppress_logging(self) -> AbstractContextManager[None]:
        """Suppress the log output of errors that are reported to the user."""
        ...

    def run(self, pieces: Sequence[PositionedText | Frame], arguments: Arguments = None) -> Frame | SqlErrorInfo:
        """Return the rows of the query that the fragments and frames form, without computing them."""
        ...

    def read_files(
        self,
        state: TableState,
        plan: ScanPlan,
        predicate: Predicate | None,
        columns: Sequence[str] | None,
        needed: Predicate | None = None,
    ) -> Frame:
        """Return the rows of a scan plan that match a predicate; rows that do not match `needed` may be left out."""
        ...

    def read_external_files(self, file_format: str, location: str, options: Mapping[str, str], /) -> Frame:
        """Return the rows of an external table."""
        ...

    def read_changes(self, before: TableState, after: TableState) -> Frame:
        """Return the rows that differ between two states, with the type of each change."""
        ...

    def create_frame(self, schema: str, rows: Sequence[tuple[Any, ...]]) -> Frame:
        """Return a frame of rows; `schema` is text such as "version bigint, message string"."""
        ...

    def create_frame_of_arrow(self, rows: pa.Table) -> Frame:
        """Return a frame of the rows of an Arrow table."""
        ...

    def create_one_row(self, name: str) -> Frame:
        """Return one row with one column."""
        ...

    def create_constant_row(self, frame: Frame, values: Sequence[Any]) -> Frame:
        """Return one row of these values with the columns of a frame, without computing the frame."""
        ...

    def rename_columns(self, frame: Frame, names: Sequence[str]) -> Frame:
        """Rename all columns."""
        ...

    def cast_for_assignment(
        self, frame: Frame, names: Sequence[str], schema: Schema, table: str, *, fields_by_name: bool
    ) -> Frame:
        """Return the rows with their columns, in order, renamed and cast to the columns of a table."""
        ...

    def add_literal_columns(self, frame: Frame, values: Mapping[str, str], schema: Schema) -> Frame:
        """Add constant columns, given as SQL."""
        ...

    def compute_literals(self, values: Mapping[str, str], schema: Schema) -> pa.Table:
        """Return one row of constants, given as SQL, with the types of these columns of a table."""
        ...

    def iterate_rows(self, frame: Frame, limit: int | None = None) -> Iterator[tuple[Any, ...]]:
        """Yield rows as Python values; with a limit no more rows are computed."""
        ...

    def collect_rows(self, frame: Frame) -> list[tuple[Any, ...]]:
        """Compute all rows as Python values."""
        ...

    def read_as_of_value(self, frame: Frame) -> object:
        """Return the single value of a row; dates and timestamps as an offset from the Unix epoch."""
        ...

    def list_temporary_views(self, names: Collection[str]) -> frozenset[str]:
        """Return which of these names are temporary views."""
        ...

    def create_temporary_view(self, frame: Frame, name: str, *, or_replace: bool, is_global: bool) -> None:
        """Create a temporary view of the session or a global one."""
        ...

    def drop_temporary_view(self, name: str) -> bool:
        """Drop a temporary view and return whether it existed."""
        ...

    def cache_rows(self, frame: Frame, *, eager: bool) -> None:
        """Cache rows in memory, eagerly or on first read."""
        ...

    def uncache_rows(self, frame: Frame) -> None:
        """Remove rows from the cache."""
        ...

    def time_zone(self) -> str:
        """Return the session time zone, which applies to times without a zone."""
        ...

    def is_overwrite_dynamic(self) -> bool:
        """Return whether INSERT OVERWRITE replaces only the partitions of the new rows."""
        ...


@runtime_checkable
class ValueComputer(Protocol):
    """An SQL engine that computes values for rows which the local engine changes."""

    def compute_values(self, text: str, tables: Mapping[str, Mapping[str, pa.Array[Any]]], row_count: int) -> Any:
        """Return the value of an expression for each row, which has the columns of one or several tables."""
        ...


def check_sql_engine(name: str | None) -> str | None:
    """Return the name of an SQL engine; raise an error if there is no such engine.

    >>> check_sql_engine("duckdb")
    'duckdb'
    """
    if name is not None and name not in SQL_ENGINES:
        raise InvalidInputError(f"unknown SQL engine {name!r}; expected duckdb or spark")
    return name


def locate_position(position: int, pieces: Sequence[PositionedText]) -> int | None:
    """Map a position in the text of an engine to the user's text, or return None if it is not in it.

    >>> [locate_position(place, [PositionedText("SELECT k + 1", 5 - len("SELECT "))]) for place in (0, 7)]
    [None, 5]
    """
    for piece in pieces:
        length = len(piece.text)
        if position < length or (position == length and piece is pieces[-1]):
            # A fragment can begin with text that is not the user's, such as `SELECT * FROM … WHERE`.
            return None if piece.start is None or piece.start + position < 0 else piece.start + position
        position -= length
    return None
