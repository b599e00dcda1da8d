"""Results of SQL statements."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.sql_port import Frame, SqlEngine
from mangrove.local.row_formats import open_frame, open_rows
from mangrove.sql.errors import build_runtime_error
from mangrove.sql.execute.query import QueryScan
from mangrove.sql.execute.show import InlineResult, ResultRow
from mangrove.tables.write_plan import RowCounts

__all__ = ["Result"]


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one statement.

    A query has a lazy `frame`, which its `engine` runs when its rows are read. Other statements
    have an `answer` with computed rows.
    """

    kind: str
    """One of query, definition, change, transaction, procedure, information."""
    message: str = ""
    """A readable message."""
    frame: Frame | None = None
    engine: SqlEngine | None = None
    """The engine of the frame; None if no engine took part."""
    answer: InlineResult | None = None
    counts: RowCounts | None = None
    """The number of inserted, updated and deleted rows."""
    scans: tuple[QueryScan, ...] = ()
    """The tables of the lakehouse that a query reads."""
    line: int = 1
    """The line of the script on which the statement begins."""
    version: int | None = None
    """The committed version, if any."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The column names."""
        if self.frame is not None:
            return tuple(self.frame.columns)
        return () if self.answer is None else self.answer.columns

    @property
    def has_rows(self) -> bool:
        """Whether there are rows to print, not only a message."""
        return self.frame is not None or (self.answer is not None and self.kind != "change")

    def rows(self) -> list[ResultRow]:
        """Compute and return the rows."""
        if self.frame is None or self.engine is None:
            return [] if self.answer is None else list(self.answer.rows)
        with self._locate_errors(self.engine):
            return self.engine.collect_rows(self.frame)

    def each_row(self, limit: int | None = None) -> Iterator[ResultRow]:
        """Yield the rows one by one, up to a limit."""
        if self.frame is None or self.engine is None:
            yield from islice(self.rows(), limit)
            return
        with self._locate_errors(self.engine):
            yield from self.engine.iterate_rows(self.frame, limit)

    def to_reader(self, limit: int | None = None) -> Any:
        """Return the rows, up to a limit, as a pyarrow RecordBatchReader."""
        if self.frame is None or self.engine is None:
            return open_rows(self.columns, list(self.each_row(limit)))
        with self._locate_errors(self.engine), self.engine.suppress_logging():
            return open_frame(self.frame, limit)

    @contextmanager
    def _locate_errors(self, engine: SqlEngine) -> Iterator[None]:
        """Convert errors of the engine during computation to one sentence."""
        try:
            yield
        except engine.runtime_errors as error:
            reason = build_runtime_error(engine.describe_runtime_error(error))
            raise type(reason)(f"line {self.line}: {reason}") from error
        except (OverflowError, ValueError) as error:
            raise InvalidInputError(
                f"line {self.line}: cannot convert a value to Python ({error}), such as a timestamp outside the years "
                "1 to 9999; cast it in the query, as in CAST(day AS STRING)"
            ) from error

    def files(self) -> Iterator[tuple[str, int, int]]:
        """Yield the number of files read and skipped for each table of a query."""
        for scan in self.scans:
            plan = scan.plan()
            yield scan.name, len(plan.files()), len(plan.skipped)
