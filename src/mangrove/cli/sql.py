"""The sql command: statement execution, cancellation and result output.

Statements run in a separate thread, because a signal would break the connection of the
main thread to the JVM.

The first Ctrl-C cancels the statement's Spark jobs repeatedly until the statement has
ended. The second one abandons the statement: its thread may continue, but all its
writes and commits are rejected.
"""

import csv
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import cached_property
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from rich.console import RenderableType

from mangrove.cli.command import lake_command
from mangrove.cli.context import CommandContext
from mangrove.cli.environment import check_installed
from mangrove.cli.rows import format_cell, render_rows, to_json_value
from mangrove.cli.terminal import draw, format_quantity, show_spinner, supports_unicode
from mangrove.effects import Effects
from mangrove.errors import InvalidInputError, StorageError
from mangrove.storage.counting import StoreRequests
from mangrove.wiring import LakehouseEngines

if TYPE_CHECKING:
    from mangrove.cli.cancellable_session import CancellableSession
    from mangrove.spark.engine import SparkEngine
    from mangrove.sql.results import Result


__all__ = [
    "DISPLAYED_ROWS_MAX",
    "SPARK_MODULES",
    "CancellableRunner",
    "QuietEngines",
    "WriteGate",
    "format_stats_line",
    "print_result",
    "sql_command",
    "start_quiet_session",
    "write_csv",
    "write_json",
]

T = TypeVar("T")
_LOOK_SECONDS: Final = 0.1
_CANCEL_AGAIN_SECONDS: Final = 0.5


class WriteGate:
    """Rejects the writes of a conversation's lakehouse once it is closed.

    Both layouts commit with an exclusive create, so a statement without an exclusive
    create has committed nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.is_closed = False
        """Whether all writes are rejected."""
        self._has_begun_commit = False

    def begin_statement(self) -> None:
        """Reset `has_begun_commit` for the next statement."""
        with self._lock:
            self._has_begun_commit = False

    def check(self, requests: StoreRequests) -> None:
        """Raise StorageError for a write if the gate is closed; called before each request."""
        with self._lock:
            if self.is_closed and (requests.puts or requests.creates or requests.deletes):
                raise StorageError("write rejected: the statement was abandoned with a second Ctrl-C")
            self._has_begun_commit = self._has_begun_commit or requests.creates > 0

    @property
    def has_begun_commit(self) -> bool:
        """Whether the statement may have committed."""
        with self._lock:
            return self._has_begun_commit

    def close(self) -> None:
        """Reject all further writes; a write in progress may still succeed."""
        with self._lock:
            self.is_closed = True


class CancellableRunner:
    """Runs all statements of a conversation in one thread, because Spark has thread-local state."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel
        self.is_cancelled = False
        """Whether Ctrl-C was pressed since the work started."""
        self._running: Future[Any] = Future()
        self._running.set_result(None)
        self._works: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        # A daemon thread, so that an abandoned statement does not block the exit.
        self._thread = threading.Thread(target=self._work, name="mangrove statements", daemon=True)

    @property
    def is_busy(self) -> bool:
        """Whether a statement still runs; after `run` has returned, it was abandoned."""
        return not self._running.done()

    def run(self, work: Callable[[], T]) -> T:
        """Run the work and return its result.

        On Ctrl-C the work is cancelled until it has ended, and KeyboardInterrupt is
        raised; if the work completes first, its result is returned. On a second Ctrl-C
        KeyboardInterrupt is raised at once, and `is_busy` is true.
        """
        may_start = threading.Event()

        def started_work() -> T:
            may_start.wait()
            return work()

        self.is_cancelled = False
        running: Future[T] = Future()
        self._running = running
        self._works.put((running, started_work))
        try:
            if not self._thread.is_alive():
                self._thread.start()
            # Start the work inside this try block, so that every Ctrl-C after its start is handled.
            may_start.set()
            _wait_until_done(running)
            return running.result()
        except KeyboardInterrupt:
            if not running.done():
                self.is_cancelled = True
                threading.Thread(target=self._cancel_until_done, args=(running,), daemon=True).start()
                # Work that has not started must end as well.
                may_start.set()
                _wait_until_done(running)
            if running.exception() is None:
                return running.result()
            raise

    def _work(self) -> None:
        while True:
            running, work = self._works.get()
            try:
                running.set_result(work())
            except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
                running.set_exception(error)

    def _cancel_until_done(self, running: "Future[Any]") -> None:
        """Cancel repeatedly: a cancellation does not affect jobs that are submitted after it."""
        while not running.done():
            self._cancel()
            wait([running], timeout=_CANCEL_AGAIN_SECONDS)


def _wait_until_done(running: "Future[Any]") -> None:
    """Wait in short steps: a signal that arrives just before the wait does not interrupt it."""
    while not running.done():
        wait([running], timeout=_LOOK_SECONDS)


SPARK_MODULES = ("pyspark", "pandas")

_SETTINGS = {
    "spark.log.level": "ERROR",
    # The default of 200 partitions is for clusters.
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
}
_TAIL_BYTES = 2000


def start_quiet_session(what: str) -> Any:
    """Return a Spark session for `what`; the JVM's output is reported only if the start fails."""
    check_installed(what, SPARK_MODULES, "spark")
    from mangrove.spark.session import local_session  # noqa: PLC0415 - Spark is slow to import

    with tempfile.TemporaryFile() as output, _redirect_stderr(output.fileno()):
        try:
            return local_session(_SETTINGS)
        except OSError as error:
            raise StorageError(f"cannot start the Java runtime of Spark ({error}): {_tail(output.fileno())}") from error
        except RuntimeError as error:
            raise StorageError(f"cannot start Spark ({error}): {_tail(output.fileno())}") from error


class QuietEngines(LakehouseEngines):
    """Both engines; Spark starts without output on first use."""

    def __init__(self, effects: Effects, storage_options: Mapping[str, str] | None = None, what: str = "SQL") -> None:
        super().__init__(effects, storage_options)
        self._what = what

    @cached_property
    def _started(self) -> "SparkEngine":
        with show_spinner("starting Spark"):
            start_quiet_session(self._what)
        return super().spark()

    @property
    def has_started(self) -> bool:
        """Whether Spark was started."""
        return "_started" in self.__dict__

    def spark(self, *, jars: bool = False) -> "SparkEngine":
        """Return the Spark engine."""
        return super().spark(jars=True) if jars else self._started


@contextmanager
def _redirect_stderr(descriptor: int) -> Iterator[None]:
    """Redirect stderr while the JVM starts; the JVM inherits the redirected stream."""
    sys.stderr.flush()
    original = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(original, 2)
        os.close(original)


def _tail(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, _TAIL_BYTES, max(0, size - _TAIL_BYTES)).decode(errors="replace").strip()


DISPLAYED_ROWS_MAX = 100
"""Default maximum number of printed rows."""


def print_result(
    result: "Result", limit: int | None = DISPLAYED_ROWS_MAX, draw: Callable[[RenderableType], None] = draw
) -> int:
    """Print the rows or the message of a result, and return the number of printed rows."""
    if result.frame is None and (result.answer is None or result.kind == "change"):
        draw(_describe_result(result))
        return 0
    # One more row than is printed, to detect whether there are more.
    rows = list(result.each_row(None if limit is None else limit + 1))
    printed = rows if limit is None else rows[:limit]
    more = "; there are more, use --limit" if len(rows) > len(printed) else ""
    draw(render_rows(result.columns, printed, f"{format_quantity(len(printed), 'row')}{more}"))
    return len(printed)


def write_json(result: "Result", limit: int | None = None) -> int:
    """Write a result as one line of JSON, and return the number of rows."""
    names = result.columns
    rows = [dict(zip(names, map(to_json_value, row), strict=True)) for row in result.each_row(limit)]
    document = {
        "line": result.line, "kind": result.kind, "message": result.message, "version": result.version,
        "columns": list(names), "rows": rows,
    }  # fmt: skip
    sys.stdout.write(json.dumps(document, ensure_ascii=not supports_unicode(sys.stdout)) + "\n")
    return len(rows)


def write_csv(result: "Result", limit: int | None = None) -> int:
    """Write the rows of a result as CSV with a header; a result without rows is printed to stderr."""
    if result.frame is None and (result.answer is None or result.kind == "change"):
        sys.stderr.write(_describe_result(result) + "\n")
        return 0
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(result.columns)
    count = 0
    for row in result.each_row(limit):
        writer.writerow(["" if value is None else format_cell(value) for value in row])
        count += 1
    return count


def format_stats_line(result: "Result", rows: int, seconds: float) -> str:
    """Return the row count, duration and scanned files of a statement as one line."""
    files = [
        f"{name}: {format_quantity(read, 'file')} read, {skipped:,} skipped" for name, read, skipped in result.files()
    ]
    return "; ".join([f"line {result.line}: {format_quantity(rows, 'row')} in {seconds:.1f} s", *files])


def _describe_result(result: "Result") -> str:
    committed = "" if result.version is None else f" (version {result.version})"
    has_version = str(result.version) in result.message
    return result.message + ("" if has_version else committed) if result.message else f"done{committed}"


@lake_command(
    "sql",
    "mangrove sql ./lake 'select count(*) from shop.customers'\n"
    "mangrove sql ./lake --file load.sql\n"
    "echo 'show tables in shop' | mangrove sql ./lake --csv",
)
@click.argument("statements", required=False, metavar="[SQL]")
@click.option("-f", "--file", metavar="FILE", help="Run the statements of a file.")
@click.option("--csv", "as_csv", is_flag=True, help="Print rows as CSV with a header.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    help=f"Maximum number of rows.  [default: {DISPLAYED_ROWS_MAX}, unlimited with --json and --csv]",
)
def sql_command(
    session: CommandContext, lake: str, statements: str | None, file: str | None, as_csv: bool, limit: int | None
) -> None:
    """Run SQL statements, separated by semicolons, on Spark.

    Stops at the first error. With --json each statement prints one JSON object per
    line.
    """
    if as_csv and session.as_json:
        raise InvalidInputError("--csv and --json exclude each other; remove one of them")
    text = _read_statements(session, statements, file)
    check_installed("SQL", SPARK_MODULES, "spark")
    from mangrove.cli.cancellable_session import CancellableSession  # noqa: PLC0415 - Spark is slow to import

    conversation = CancellableSession(session, lake)
    write: Callable[..., int] = write_csv if as_csv else write_json if session.as_json else print_result
    rows_max = limit if limit is not None else None if write is not print_result else DISPLAYED_ROWS_MAX
    try:
        conversation.run(lambda: _run(session, conversation, text, lambda result: write(result, rows_max)))
    finally:
        if conversation.is_over:
            conversation.abandon()
        conversation.sql_session.close()


def _run(
    session: CommandContext, conversation: "CancellableSession", text: str, write: "Callable[[Result], int]"
) -> None:
    began = time.monotonic()
    for result in conversation.script(text):
        rows = write(result)
        if session.with_stats:
            _print_stats(session, format_stats_line(result, rows, time.monotonic() - began))
        began = time.monotonic()
    if conversation.sql_session.in_transaction:
        raise InvalidInputError("the transaction was not committed and was rolled back; add COMMIT")


def _print_stats(session: CommandContext, line: str) -> None:
    sys.stderr.write((json.dumps({"statement": line}) if session.as_json else line) + "\n")


def _read_statements(session: CommandContext, statements: str | None, file: str | None) -> str:
    if statements is not None and file is not None:
        raise InvalidInputError("both SQL and --file are given; remove one of them")
    if file is not None:
        path, data = session.file(file)
        return _decode_text(path, data)
    if statements is not None:
        text = statements
    elif sys.stdin.isatty():
        raise InvalidInputError("no statement given; give SQL, use --file, or start `mangrove shell`")
    else:
        text = _decode_text("the input", sys.stdin.buffer.read())
    if not text.strip():
        raise InvalidInputError("the input has no statement; give one, such as 'select 1'")
    return text


def _decode_text(what: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{what} is not UTF-8 text; save it as UTF-8") from error
