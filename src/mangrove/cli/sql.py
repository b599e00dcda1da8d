"""The sql command: statement execution, cancellation and result output.

A signal that comes while a thread talks to Spark's Java would break that connection.

The first Ctrl-C cancels the statement's Spark jobs, again and again until the
statement has ended. The second one abandons the statement: its thread may go on,
but it can neither write nor commit any more.
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

from mangrove.cli.command import check_installed, lake_command
from mangrove.cli.context import CommandContext
from mangrove.cli.rows import format_cell, render_rows, to_json_value
from mangrove.cli.terminal import draw, format_quantity, show_spinner, supports_unicode
from mangrove.effects import Effects
from mangrove.errors import InvalidInputError, StorageError
from mangrove.storage.counting import StoreRequests
from mangrove.wiring import LakehouseEngines

if TYPE_CHECKING:
    from mangrove.cli.conversation import Conversation
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
    """Stands before the store of a conversation's lakehouse, and refuses its writes once it is closed.

    The commit of both layouts is an exclusive create, so a statement that has made
    none has committed nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.is_closed = False
        """Whether nothing more is written."""
        self._has_begun_commit = False

    def begin_statement(self) -> None:
        """Forget the commits of earlier statements."""
        with self._lock:
            self._has_begun_commit = False

    def check(self, made: StoreRequests) -> None:
        """Refuse a request that would write, where the gate is closed; called before each request."""
        with self._lock:
            if self.is_closed and (made.puts or made.creates or made.deletes):
                raise StorageError("the statement was abandoned with a second Ctrl-C, so nothing more of it is written")
            self._has_begun_commit = self._has_begun_commit or made.creates > 0

    @property
    def has_begun_commit(self) -> bool:
        """Whether the statement may have committed."""
        with self._lock:
            return self._has_begun_commit

    def close(self) -> None:
        """Refuse all writes from now on; one that is under way may still succeed."""
        with self._lock:
            self.is_closed = True


class CancellableRunner:
    """One thread for all statements of a conversation, since Spark keeps some things by thread."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel
        self.is_cancelled = False
        """Whether Ctrl-C came since the work began."""
        self._running: Future[Any] = Future()
        self._running.set_result(None)
        self._works: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        # A daemon, so that an abandoned statement keeps nobody from leaving.
        self._thread = threading.Thread(target=self._work, name="mangrove statements", daemon=True)

    @property
    def is_busy(self) -> bool:
        """Whether a statement still runs; after `run` has ended this means that it was abandoned."""
        return not self._running.done()

    def run(self, work: Callable[[], T]) -> T:
        """Return what the work gives.

        On Ctrl-C the work is cancelled until it has ended, and KeyboardInterrupt is
        raised. Work that was done before it could be cancelled is done: its result is
        returned. On a second Ctrl-C KeyboardInterrupt is raised at once, and `is_busy`
        says that the work has not ended.
        """
        may_begin = threading.Event()

        def begun() -> T:
            may_begin.wait()
            return work()

        self.is_cancelled = False
        running: Future[T] = Future()
        self._running = running
        self._works.put((running, begun))
        try:
            if not self._thread.is_alive():
                self._thread.start()
            # Only now, so that no key is pressed between the begin of the work and our waiting for it.
            may_begin.set()
            _wait_until_done(running)
            return running.result()
        except KeyboardInterrupt:
            if not running.done():
                self.is_cancelled = True
                threading.Thread(target=self._cancel_until_done, args=(running,), daemon=True).start()
                # Also work that had not begun must end.
                may_begin.set()
                _wait_until_done(running)
            if running.exception() is None:
                return running.result()
            raise

    def _work(self) -> None:
        while True:
            running, work = self._works.get()
            try:
                running.set_result(work())
            except BaseException as error:  # noqa: BLE001 - whoever waits for the work gets it
                running.set_exception(error)

    def _cancel_until_done(self, running: "Future[Any]") -> None:
        """Cancel again and again: a job that is submitted after a cancellation is not cancelled by it."""
        while not running.done():
            self._cancel()
            wait([running], timeout=_CANCEL_AGAIN_SECONDS)


def _wait_until_done(running: "Future[Any]") -> None:
    """Wait in short steps: a signal that comes just before a thread falls asleep does not wake it."""
    while not running.done():
        wait([running], timeout=_LOOK_SECONDS)


SPARK_MODULES = ("pyspark", "pandas")

_SETTINGS = {
    "spark.log.level": "ERROR",
    # A lakehouse on one machine needs few tasks; the default of 200 is for clusters.
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
}
_TAIL_BYTES = 2000


def start_quiet_session(what: str) -> Any:
    """Return a Spark session for `what`; what its Java says while it starts is shown only if it does not start."""
    check_installed(what, SPARK_MODULES, "spark")
    from mangrove.spark.session import local_session  # noqa: PLC0415 - Spark takes long to import

    with tempfile.TemporaryFile() as said, _redirect_stderr(said.fileno()):
        try:
            return local_session(_SETTINGS)
        except OSError as error:
            raise StorageError(f"Spark's Java could not be started ({error}): {_tail(said.fileno())}") from error
        except RuntimeError as error:
            raise StorageError(f"Spark did not start ({error}): {_tail(said.fileno())}") from error


class QuietEngines(LakehouseEngines):
    """Both engines, of which Spark starts without a word when something first needs it."""

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
        """Whether something needed Spark until now."""
        return "_started" in self.__dict__

    def spark(self, *, jars: bool = False) -> "SparkEngine":
        """Return the engine on Spark."""
        return super().spark(jars=True) if jars else self._started


@contextmanager
def _redirect_stderr(descriptor: int) -> Iterator[None]:
    """Lead the error stream elsewhere while a Java starts, which inherits it for as long as it lives."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _tail(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, _TAIL_BYTES, max(0, size - _TAIL_BYTES)).decode(errors="replace").strip()


DISPLAYED_ROWS_MAX = 100
"""So many rows of a query are shown to a person who did not say how many."""


def print_result(
    result: "Result", limit: int | None = DISPLAYED_ROWS_MAX, draw: Callable[[RenderableType], None] = draw
) -> int:
    """Draw the rows of a result, or say what was done; return how many rows there are to see."""
    if result.frame is None and (result.answer is None or result.kind == "change"):
        draw(_describe_result(result))
        return 0
    # One more than is shown, to know whether there are more.
    rows = list(result.each_row(None if limit is None else limit + 1))
    shown = rows if limit is None else rows[:limit]
    plural = "" if len(shown) == 1 else "s"
    more = ", and there are more: --limit shows them" if len(rows) > len(shown) else ""
    draw(render_rows(result.columns, shown, f"{len(shown):,} row{plural}{more}"))
    return len(shown)


def write_json(result: "Result", limit: int | None = None) -> int:
    """Write a result as one line of JSON; return how many rows it has."""
    names = result.columns
    rows = [dict(zip(names, map(to_json_value, row), strict=True)) for row in result.each_row(limit)]
    told = {
        "line": result.line, "kind": result.kind, "message": result.message, "version": result.version,
        "columns": list(names), "rows": rows,
    }  # fmt: skip
    sys.stdout.write(json.dumps(told, ensure_ascii=not supports_unicode(sys.stdout)) + "\n")
    return len(rows)


def write_csv(result: "Result", limit: int | None = None) -> int:
    """Write the rows of a result as CSV with a heading; what has no rows is said on the error stream."""
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
    """Return in one line what a statement took, and which files a query reads."""
    files = [
        f"{name}: {format_quantity(read, 'file')} read, {skipped:,} skipped" for name, read, skipped in result.files()
    ]
    return "; ".join([f"line {result.line}: {format_quantity(rows, 'row')} in {seconds:.1f} s", *files])


def _describe_result(result: "Result") -> str:
    committed = "" if result.version is None else f" (version {result.version})"
    is_said = str(result.version) in result.message
    return result.message + ("" if is_said else committed) if result.message else f"done{committed}"


@lake_command(
    "sql",
    "mangrove sql ./lake 'select count(*) from shop.customers'\n"
    "mangrove sql ./lake --file load.sql\n"
    "echo 'show tables in shop' | mangrove sql ./lake --csv",
)
@click.argument("statements", required=False, metavar="[SQL]")
@click.option("-f", "--file", metavar="FILE", help="Run the statements of a file.")
@click.option("--csv", "as_csv", is_flag=True, help="Give rows as CSV, with a heading.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    help=f"At most so many rows.  [default: {DISPLAYED_ROWS_MAX}, in JSON and CSV all]",
)
def sql_command(
    session: CommandContext, lake: str, statements: str | None, file: str | None, as_csv: bool, limit: int | None
) -> None:
    """Run SQL on Spark: statements separated by semicolons, until the first error.

    With --json each statement answers with one object on a line of its own.
    """
    if as_csv and session.as_json:
        raise InvalidInputError("rows are given as CSV or as JSON: leave out --csv or --json")
    text = _text(session, statements, file)
    check_installed("SQL", SPARK_MODULES, "spark")
    from mangrove.cli.conversation import Conversation  # noqa: PLC0415 - Spark takes long to import

    conversation = Conversation(session, lake)
    give: Callable[..., int] = write_csv if as_csv else write_json if session.as_json else print_result
    shown = limit if limit is not None else None if give is not print_result else DISPLAYED_ROWS_MAX
    try:
        conversation.run(lambda: _run(session, conversation, text, lambda result: give(result, shown)))
    finally:
        if conversation.is_over:
            conversation.abandon()
        conversation.sql_session.close()


def _run(session: CommandContext, conversation: "Conversation", text: str, give: "Callable[[Result], int]") -> None:
    began = time.monotonic()
    for result in conversation.script(text):
        rows = give(result)
        if session.with_stats:
            _print_stats(session, format_stats_line(result, rows, time.monotonic() - began))
        began = time.monotonic()
    if conversation.sql_session.in_transaction:
        raise InvalidInputError("a transaction is begun and not ended, so it was rolled back: add COMMIT")


def _print_stats(session: CommandContext, line: str) -> None:
    sys.stderr.write((json.dumps({"statement": line}) if session.as_json else line) + "\n")


def _text(session: CommandContext, statements: str | None, file: str | None) -> str:
    if statements is not None and file is not None:
        raise InvalidInputError("statements are given as an argument or in a file: leave one of them out")
    if file is not None:
        path, data = session.file(file)
        return _decode_text(path, data)
    if statements is not None:
        text = statements
    elif sys.stdin.isatty():
        raise InvalidInputError("no statement is given: write one, name a file with --file, or use `mangrove shell`")
    else:
        text = _decode_text("the input", sys.stdin.buffer.read())
    if not text.strip():
        raise InvalidInputError("the text holds no statement: write one, such as 'select 1'")
    return text


def _decode_text(what: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{what} is not UTF-8 text: save it as UTF-8 and try again") from error
