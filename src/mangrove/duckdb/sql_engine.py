"""SQL engine that runs Spark SQL on DuckDB in this process."""

import datetime
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa

from mangrove.duckdb.dialect import find_position
from mangrove.duckdb.frame import ArrowSource, Database, DuckDbFrame
from mangrove.duckdb.query import Relation, translate_query
from mangrove.duckdb.scan import TableScanner, render_column
from mangrove.duckdb.typed_sql import NeedsSparkError, SqlAnalysisError, TypedSql, cast_explicitly, render_constant
from mangrove.duckdb.types import is_same_type, to_duckdb_type
from mangrove.errors import AlreadyExistsError, InvalidInputError
from mangrove.expressions.predicates import Predicate
from mangrove.expressions.schema_text import parse_schema
from mangrove.lakehouse.sql_port import DUCKDB, Arguments, PositionedText, SqlErrorInfo, locate_position
from mangrove.local.change_feed import compute_changed_rows
from mangrove.local.row_numbers import build_row_numbers
from mangrove.maintenance.engine_choice import LOCAL
from mangrove.model.arrow_schema import schema_from_arrow, schema_to_arrow
from mangrove.model.names import quote_name
from mangrove.model.schema import Schema
from mangrove.model.schema_text import format_type
from mangrove.model.types import Column, DataType, Date, Timestamp, TimestampTz, is_nested
from mangrove.storage.port import Store
from mangrove.tables.scan_plan import ScanPlan
from mangrove.tables.table_state import TableState
from mangrove.tables.type_compatibility import can_assign_type

if TYPE_CHECKING:
    from mangrove.duckdb.file_system import StoreFileSystem

__all__ = ["DuckDbSqlEngine"]

_PLACEHOLDER: Final = "mangrove "
"""The prefix of the names of frames in a query; no table has a name with a space after this word."""
_ROW: Final = "mangrove row"
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class DuckDbSqlEngine:
    """Runs the queries of one lakehouse; each query has a connection of its own, so threads can share the engine."""

    name: Final = DUCKDB
    row_engine: Final = LOCAL
    prunes_columns: Final = False
    filters_scans: Final = True
    runtime_errors: Final = (duckdb.Error,)

    def __init__(self, store: Store, files: "StoreFileSystem | None" = None) -> None:
        self._store = store
        self._database = Database(files)
        self._views: dict[str, DuckDbFrame] = {}
        self._numbers = count()

    @cached_property
    def _scanner(self) -> TableScanner:
        return TableScanner(self._store, self._database)

    def cancel(self) -> None:
        """Cancel all queries that are running, from any thread."""
        self._database.cancel()

    def describe_runtime_error(self, error: Exception) -> SqlErrorInfo:
        """Return the description of an error of DuckDB."""
        return SqlErrorInfo("COMPUTATION", str(error).partition("\n")[0], {})

    def suppress_logging(self) -> AbstractContextManager[None]:
        """Do nothing: DuckDB logs no errors."""
        return nullcontext()

    def run(self, pieces: Sequence[PositionedText | DuckDbFrame], arguments: Arguments = None) -> Any:
        """Return the rows of the query that the fragments and frames form, or why it is invalid."""
        frames = {
            f"{_PLACEHOLDER}{place}": piece for place, piece in enumerate(pieces) if isinstance(piece, DuckDbFrame)
        }
        names = {id(frame): f"`{name}`" for name, frame in frames.items()}
        texts = [
            piece if isinstance(piece, PositionedText) else PositionedText(names[id(piece)], None) for piece in pieces
        ]
        sources: dict[str, ArrowSource] = {}

        def find_table(parts: tuple[str, ...]) -> Relation | None:
            frame = frames.get(parts[0], self._views.get(parts[0].casefold())) if len(parts) == 1 else None
            if frame is None:
                return None
            sources.update(frame.sources)
            return frame.relation

        is_explained = texts[0].text.lstrip().upper().startswith("EXPLAIN")
        try:
            query = "".join(piece.text for piece in texts[is_explained:])
            relation = translate_query(query, find_table, arguments)
        except SqlAnalysisError as error:
            start, end = (
                None if place is None else locate_position(place, texts[is_explained:])
                for place in find_position(error.node)
            )
            return SqlErrorInfo(error.condition, str(error), error.parameters, start, end)
        frame = DuckDbFrame(relation, self._database, sources)
        return self.create_frame("plan string", [(frame.explain(),)]) if is_explained else frame

    def read_files(
        self,
        state: TableState,
        plan: ScanPlan,
        predicate: Predicate | None,
        columns: Sequence[str] | None,
        needed: Predicate | None = None,
    ) -> DuckDbFrame:
        """Return the rows of a scan plan that match a predicate; rows that do not match `needed` may be left out."""
        return self._scanner.read(state, plan, predicate, columns, needed)

    def read_external_files(self, _file_format: str, location: str, _options: Mapping[str, str]) -> DuckDbFrame:
        """Raise InvalidInputError: the readers of Spark decide what an external table contains."""
        raise InvalidInputError(f"the external table at {location} needs Spark; run the statement with engine='spark'")

    def read_changes(self, before: TableState, after: TableState) -> DuckDbFrame:
        """Return the rows that differ between two states."""
        return self.create_frame_of_arrow(compute_changed_rows(self._store, before, after))

    def create_frame(self, schema: str, rows: Sequence[tuple[Any, ...]]) -> DuckDbFrame:
        """Return a frame of rows; `schema` is text such as "version bigint, message string"."""
        arrow = schema_to_arrow(parse_schema(schema))
        columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in arrow]
        return self.create_frame_of_arrow(pa.table(columns, schema=arrow))

    def create_frame_of_arrow(self, rows: pa.Table) -> DuckDbFrame:
        """Return a frame of the rows of an Arrow table."""
        name = f"mangrove_rows_{next(self._numbers)}"
        given = schema_from_arrow(rows.schema, has_nanoseconds=True).columns
        items = ", ".join(f"{render_column(column)} AS c{place}" for place, column in enumerate(given))
        columns = tuple((column.name, column.type) for column in given)
        # ruff: noqa: S608 - the text is generated; names are quoted
        return DuckDbFrame(Relation(f"SELECT {items} FROM {name}", columns), self._database, {name: rows})

    def compute_values(self, text: str, tables: Mapping[str, Mapping[str, Any]], row_count: int) -> Any:
        """Return the value of an expression for each row, which has the columns of one or several tables."""
        row = quote_name(_ROW)
        numbers = build_row_numbers(row_count)
        pieces: list[PositionedText | DuckDbFrame] = []
        first = ""
        for name, columns in tables.items():
            quoted = quote_name(name)
            on = f" ON {quoted}.{row} = {first}.{row}" if first else ""
            first = first or quoted
            pieces.append(PositionedText(" JOIN " if pieces else f"SELECT ({text}\n) FROM ", None))
            pieces.append(self.create_frame_of_arrow(pa.table({**columns, _ROW: numbers})))
            pieces.append(PositionedText(f" AS {quoted}{on}", None))
        outcome = self.run([*pieces, PositionedText(f" ORDER BY {first}.{row}", None)])
        if isinstance(outcome, SqlErrorInfo):
            raise InvalidInputError(outcome.message)
        return outcome.to_arrow().column(0)

    def create_one_row(self, name: str) -> DuckDbFrame:
        """Return one row with one column."""
        return self.create_frame_of_arrow(pa.table({name: pa.array([0], pa.int64())}))

    def create_constant_row(self, frame: DuckDbFrame, values: Sequence[Any]) -> DuckDbFrame:
        """Return one row of these values with the columns of a frame, without computing the frame."""
        try:
            items = [
                f"CAST({render_constant(value)} AS {to_duckdb_type(kind)}) AS c{place}"
                for place, (value, (_, kind)) in enumerate(zip(values, frame.relation.columns, strict=True))
            ]
        except NeedsSparkError:
            return frame
        return DuckDbFrame(Relation(f"SELECT {', '.join(items)}", frame.relation.columns), self._database)

    def rename_columns(self, frame: DuckDbFrame, names: Sequence[str]) -> DuckDbFrame:
        """Rename all columns."""
        if len(names) != len(frame.columns):
            raise InvalidInputError(
                f"the column list has {len(names)} names, but the query has {len(frame.columns)} columns"
            )
        kinds = [kind for _, kind in frame.relation.columns]
        return frame.derive(Relation(frame.relation.text, tuple(zip(names, kinds, strict=True))))

    def cast_for_assignment(
        self, frame: DuckDbFrame, names: Sequence[str], schema: Schema, table: str, *, fields_by_name: bool
    ) -> DuckDbFrame:
        """Return the rows with their columns, in order, renamed and cast to the columns of a table."""
        if len(frame.columns) != len(names):
            raise InvalidInputError(
                f"the query has {len(frame.columns)} columns, but {table} takes {len(names)}: {', '.join(names)}"
            )
        targets = [schema.column(name) for name in names]
        values = [
            _assign(TypedSql(f"c{place}", kind), column, table, fields_by_name=fields_by_name)
            for place, ((_, kind), column) in enumerate(zip(frame.relation.columns, targets, strict=True))
        ]
        items = ", ".join(f"{value.text} AS c{place}" for place, value in enumerate(values))
        columns = tuple((column.name, column.type) for column in targets)
        return frame.derive(Relation(f"SELECT {items} FROM ({frame.relation.text})", columns))

    def add_literal_columns(self, frame: DuckDbFrame, values: Mapping[str, str], schema: Schema) -> DuckDbFrame:
        """Add constant columns, given as SQL."""
        for name, text in values.items():
            column = schema.column(name)
            literal = self.run([PositionedText(f"SELECT CAST({text} AS {format_type(column.type)})", None)])
            if isinstance(literal, SqlErrorInfo):
                raise InvalidInputError(literal.message)
            place = len(frame.columns)
            query = f"SELECT *, ({literal.relation.text}) AS c{place} FROM ({frame.relation.text})"
            frame = frame.derive(Relation(query, (*frame.relation.columns, (column.name, column.type))))
        return frame

    def compute_literals(self, values: Mapping[str, str], schema: Schema) -> pa.Table:
        """Return one row of constants, given as SQL, with the types of these columns of a table."""
        rows = self.add_literal_columns(self.create_one_row("mangrove one"), values, schema).to_arrow()
        return rows.select(range(1, rows.num_columns))

    def iterate_rows(self, frame: DuckDbFrame, limit: int | None = None) -> Iterator[tuple[Any, ...]]:
        """Yield rows as Python values."""
        return frame.iterate(limit)

    def collect_rows(self, frame: DuckDbFrame) -> list[tuple[Any, ...]]:
        """Compute all rows as Python values."""
        return list(frame.iterate())

    def read_as_of_value(self, frame: DuckDbFrame) -> object:
        """Return the single value of a row; dates and timestamps as an offset from the Unix epoch."""
        ((value,),) = frame.collect()
        if isinstance(frame.relation.columns[0][1], Date | Timestamp | TimestampTz) and value is not None:
            moment = (
                value if isinstance(value, datetime.datetime) else datetime.datetime.combine(value, datetime.time())
            )
            return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)) - _EPOCH
        return value

    def list_temporary_views(self, names: Collection[str]) -> frozenset[str]:
        """Return which of these names are temporary views."""
        return frozenset(name for name in names if name.casefold() in self._views)

    def create_temporary_view(self, frame: DuckDbFrame, name: str, *, or_replace: bool, is_global: bool) -> None:
        """Create a temporary view, which all sessions of the lakehouse in this process see."""
        if is_global:
            raise InvalidInputError("a global temporary view needs Spark; create a temporary view")
        if name.casefold() in self._views and not or_replace:
            raise AlreadyExistsError(f"temporary view {name} already exists; use CREATE OR REPLACE")
        self._views[name.casefold()] = frame

    def drop_temporary_view(self, name: str) -> bool:
        """Drop a temporary view and return whether it existed."""
        return self._views.pop(name.casefold(), None) is not None

    def cache_rows(self, frame: DuckDbFrame, *, eager: bool) -> None:
        """Do nothing: DuckDB reads files fast, and the operating system caches them."""

    def uncache_rows(self, frame: DuckDbFrame) -> None:
        """Do nothing: no rows are cached."""

    def time_zone(self) -> str:
        """Return the session time zone, which is always UTC."""
        return "UTC"

    def is_overwrite_dynamic(self) -> bool:
        """Return False, as in Spark without settings."""
        return False


def _assign(value: TypedSql, column: Column, table: str, *, fields_by_name: bool) -> TypedSql:
    """Return a value cast to the type of a table's column, by the SQL store assignment rules."""
    target: DataType = column.type
    if value.type is None:
        return TypedSql(f"CAST(NULL AS {to_duckdb_type(target)})", target)
    if is_same_type(value.type, target):
        return value
    if not can_assign_type(target, value.type):
        raise InvalidInputError(
            f"column {column.name!r} of {table} is {format_type(target)}, but the query has "
            f"{format_type(value.type)}; use a cast"
        )
    if is_nested(target) or fields_by_name:
        raise InvalidInputError(f"the assignment of another nested type to column {column.name!r} needs Spark")
    try:
        return cast_explicitly(value, target)
    except NeedsSparkError as error:
        raise InvalidInputError(str(error)) from error
