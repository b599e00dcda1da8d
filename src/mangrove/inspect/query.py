"""SQL statements of the explorer, with limits on time, rows, memory and concurrency, and cancellation.

Statements run on DuckDB in the process of the server.
"""

from __future__ import annotations

from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from itertools import chain, islice
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any, Final

from mangrove.errors import ConflictError, InvalidInputError
from mangrove.inspect.catalog import iterate_default_versions
from mangrove.inspect.page import PageRequest, PageVersion, PinnedLakehouse, version_comparer_of
from mangrove.inspect.rows import RowColumn, bound_value
from mangrove.lakehouse.sql_port import DUCKDB
from mangrove.local.row_formats import encode_parquet, encode_rows
from mangrove.model.locators import Kind
from mangrove.model.schema_text import format_type
from mangrove.sql.parse.grammar import parse_statement
from mangrove.sql.parse.statements import Describe, Explain, Query, ShowStatement
from mangrove.sql.parse.tokens import split_script
from mangrove.wiring import open_sql_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mangrove.duckdb.frame import DuckDbFrame
    from mangrove.lakehouse.lakehouse import Lakehouse
    from mangrove.sql.results import Result

__all__ = [
    "FILE_FORMATS",
    "QueryAnswer",
    "QueryLimits",
    "QueryRunner",
    "SqlInfo",
    "SqlTable",
    "TableFiles",
    "check_reads_only",
    "load_sql_info",
]

_NO_TYPE: Final = "void"
_NAMES_MAX: Final = 2_000
_INTERRUPT_SECONDS: Final = 0.1
FILE_FORMATS: Final = ("csv", "parquet")
"""The formats of downloads."""


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """Limits on statements."""

    rows_max: int = 1_000
    """How many rows a page shows; a download has all rows."""
    seconds_max: float = 60.0
    download_seconds_max: float = 600.0
    memory_bytes_max: int = 1_000_000_000
    """The memory of all statements together."""
    concurrent_max: int = 4
    concurrent_per_principal_max: int = 2
    """How many of them one principal may run, so that it cannot keep others from their statements."""


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The data files of a table that a query opens and skips."""

    table: str
    opened: int
    skipped: int
    description: str


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """The rows of a statement, up to the limit."""

    message: str
    columns: tuple[RowColumn, ...]
    rows: tuple[tuple[Any, ...], ...]
    has_more: bool
    millis: int
    files: tuple[TableFiles, ...]


@dataclass(frozen=True, slots=True)
class SqlTable:
    """A table or view with its columns, for completion."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SqlInfo:
    """The SQL page: the text to start with and the names to complete."""

    seen: PageVersion
    text: str | None
    tables: tuple[SqlTable, ...]


def load_sql_info(pinned: PinnedLakehouse, requested: PageRequest) -> SqlInfo:
    """Return the names of tables, views and columns, and the query's `text`."""
    compared = version_comparer_of(pinned.lake)
    tables: list[SqlTable] = []
    if compared is not None:
        for table, _, version in iterate_default_versions(compared, pinned.snapshot, _NAMES_MAX):
            names = () if version.schema is None else version.schema.names
            tables.append(SqlTable(str(table), tuple(names)))
        views = islice(compared.objects(pinned.snapshot, Kind.VIEW), _NAMES_MAX)
        tables += [SqlTable(str(locator), ()) for locator, _ in views]
    return SqlInfo(pinned.seen, requested.text("text"), tuple(tables))


def check_reads_only(text: str) -> None:
    """Raise `InvalidInputError` unless the text is one statement that changes nothing.

    >>> check_reads_only("select 1; drop table shop.orders")
    Traceback (most recent call last):
    mangrove.errors.InvalidInputError: expected one statement, not 2
    """
    parts = split_script(text)
    if len(parts) != 1:
        raise InvalidInputError(f"expected one statement, not {len(parts)}")
    # A computed name is not evaluated: only the kind of the statement matters here.
    statement = parse_statement(parts[0].text, computed=lambda _: "name")
    if not isinstance(statement, Query | Explain | Describe | ShowStatement):
        raise InvalidInputError(
            "only SELECT, EXPLAIN, DESCRIBE and SHOW are accepted here; other statements need a writable server"
        )


class _RunningStatement:
    """A statement in progress; it may be cancelled before its rows are computed."""

    def __init__(self) -> None:
        self.reason: str | None = None
        """Why it was cancelled."""
        self._frame: DuckDbFrame | None = None
        self._timer: Timer | None = None
        self._lock = Lock()

    def cancel_later(self, seconds: float) -> None:
        """Cancel the statement if it is still in progress then."""
        self._set_timer(seconds, lambda: self.cancel(f"the statement was cancelled after {seconds:g} seconds"))

    def start(self, frame: DuckDbFrame) -> None:
        """Register the rows that are computed from now on."""
        with self._lock:
            if self.reason is not None:
                raise InvalidInputError(self.reason)
            self._frame = frame

    def cancel(self, reason: str) -> None:
        """Cancel the statement; the first reason counts."""
        with self._lock:
            self.reason = self.reason or reason
        self._interrupt()

    def end(self) -> None:
        """Stop the timer after the statement."""
        with self._lock:
            self._frame = None
            if self._timer is not None:
                self._timer.cancel()

    def _interrupt(self) -> None:
        """Interrupt the computation until it ends: DuckDB ignores an interrupt just before a query begins."""
        with self._lock:
            frame = self._frame
        if frame is not None:
            frame.cancel()
            self._set_timer(_INTERRUPT_SECONDS, self._interrupt)

    def _set_timer(self, seconds: float, work: Callable[[], None]) -> None:
        timer = Timer(seconds, work)
        timer.daemon = True
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = timer
            timer.start()


class QueryRunner:
    """Runs the statements of the explorer; thread-safe."""

    def __init__(self, lake: Lakehouse, limits: QueryLimits | None = None) -> None:
        self._lake = lake
        self.limits = limits or QueryLimits()
        self._statements: dict[tuple[str | None, str], _RunningStatement] = {}
        """Those in progress by their principal and id."""
        self._lock = Lock()

    def on(self, lake: Lakehouse) -> QueryRunner:
        """Return a runner for the lakehouse of a principal, with the same limits and statements in progress."""
        runner = copy(self)
        runner._lake = lake
        return runner

    def run(self, statement_id: str, text: str, *, may_write: bool = False) -> QueryAnswer:
        """Run one statement and return its rows, up to the limit."""
        began_at_millis = self._lake.effects.now_millis()
        if not may_write:
            check_reads_only(text)
        with self._track(statement_id, self.limits.seconds_max) as running:
            result, frame = self._open(running, text)
            rows = [tuple(map(bound_value, row)) for row in frame.iterate(self.limits.rows_max + 1)]
        files = []
        for scan in result.scans:
            plan = scan.plan()
            files.append(TableFiles(scan.name, len(plan.files()), len(plan.skipped), scan.explain()))
        return QueryAnswer(
            result.message,
            tuple(
                RowColumn(name, _NO_TYPE if kind is None else format_type(kind))
                for name, kind in frame.relation.columns
            ),
            tuple(rows[: self.limits.rows_max]),
            len(rows) > self.limits.rows_max,
            self._lake.effects.now_millis() - began_at_millis,
            tuple(files),
        )

    def export(self, statement_id: str, text: str, file_format: str) -> Iterator[bytes]:
        """Return the parts of a file with all rows of a query; the first rows are computed before this returns."""
        if file_format not in FILE_FORMATS:
            raise InvalidInputError(f"unknown format {file_format[:40]!r}; expected {' or '.join(FILE_FORMATS)}")
        check_reads_only(text)
        parts = self._encode(statement_id, text, file_format)
        return chain(list(islice(parts, 2)), parts)

    def cancel(self, statement_id: str) -> bool:
        """Cancel a statement of the same principal, and return whether it was in progress."""
        with self._lock:
            running = self._statements.get((self._lake.principal, statement_id))
        if running is not None:
            running.cancel("the statement was cancelled")
        return running is not None

    def _open(self, running: _RunningStatement, text: str) -> tuple[Result, Any]:
        """Run a statement, and return its result with its rows, which are computed when they are read."""
        session = open_sql_session(self._lake, DUCKDB)
        result = session.run(text)
        frame: Any = result.frame or session.frame(result)
        running.start(frame)
        frame.database.limit_memory(self.limits.memory_bytes_max)
        return result, frame

    def _encode(self, statement_id: str, text: str, file_format: str) -> Iterator[bytes]:
        with self._track(statement_id, self.limits.download_seconds_max) as running:
            _, frame = self._open(running, text)
            if file_format == "parquet":
                yield from encode_parquet(frame.to_batches(), frame.schema)
            else:
                yield from (part.encode() for part in encode_rows(frame.to_batches(), frame.columns, file_format))

    @contextmanager
    def _track(self, statement_id: str, seconds_max: float) -> Iterator[_RunningStatement]:
        """Register a statement for cancellation by its id, and cancel it when its time is over."""
        running = _RunningStatement()
        principal = self._lake.principal
        with self._lock:
            own_count = sum(1 for one, _ in self._statements if one == principal)
            if principal is not None and own_count >= self.limits.concurrent_per_principal_max:
                raise _build_limit_error(own_count, self.limits.concurrent_per_principal_max)
            if len(self._statements) >= self.limits.concurrent_max or (principal, statement_id) in self._statements:
                raise _build_limit_error(len(self._statements), self.limits.concurrent_max)
            self._statements[principal, statement_id] = running
        running.cancel_later(seconds_max)
        try:
            yield running
        except InvalidInputError as error:
            if running.reason is None:
                raise
            raise InvalidInputError(running.reason) from error
        finally:
            running.end()
            with self._lock:
                del self._statements[principal, statement_id]


def _build_limit_error(count: int, limit: int) -> ConflictError:
    return ConflictError(
        f"{count} statements are in progress, and the limit is {limit}; wait until one ends or cancel it"
    )
