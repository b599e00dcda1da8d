"""Terminal output: console, progress bars and number formatting."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TextIO

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from mangrove.maintenance import progress
from mangrove.maintenance.progress import format_bytes

__all__ = [
    "ProgressBar",
    "create_console",
    "draw",
    "format_amount",
    "format_quantity",
    "show_spinner",
    "supports_unicode",
]

_UNBOUNDED_COLUMNS = 10_000
"""Width of output to a pipe, so that lines are not wrapped or truncated."""


def supports_unicode(stream: TextIO) -> bool:
    """Return whether the stream can encode every character."""
    return (stream.encoding or "").lower().replace("-", "").startswith("utf")


def create_console(stream: TextIO) -> Console:
    """Return a console for the stream, with colour only on a terminal and unless NO_COLOR is set."""
    is_terminal = stream.isatty()
    wide = None if is_terminal or os.environ.get("COLUMNS") else _UNBOUNDED_COLUMNS
    return Console(
        file=stream,
        width=wide,
        color_system="auto" if is_terminal and not os.environ.get("NO_COLOR") else None,
        force_terminal=is_terminal,
        markup=False,
        highlight=False,
        emoji=False,
    )


def draw(drawing: RenderableType) -> None:
    """Print a renderable to stdout."""
    # The terminal wraps plain text, so that a path in it can be copied as a whole.
    create_console(sys.stdout).print(drawing, soft_wrap=isinstance(drawing, str))


@contextmanager
def show_spinner(what: str) -> Iterator[None]:
    """Show a transient spinner on a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with create_console(sys.stderr).status(what):
        yield


def format_quantity(count: int, thing: str) -> str:
    """Return a count with its noun in singular or plural.

    >>> format_quantity(1, "row"), format_quantity(4110, "row")
    ('1 row', '4,110 rows')
    """
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


_WAIT_SECONDS = 1.0
"""Delay before the progress bar appears."""


def format_amount(done: progress.Progress, elapsed_seconds: float) -> str:
    """Return the amount of work done, the total and the rate.

    >>> format_amount(progress.Progress("deleting", 500, 1000, 2048, 4096), 2.0)
    '500 of 1,000, 250/s, 1.0 KiB/s'
    """
    amount = f"{done.files_done:,}" if done.files_total is None else f"{done.files_done:,} of {done.files_total:,}"
    if elapsed_seconds <= 0 or not done.files_done:
        return amount
    rates = [f"{done.files_done / elapsed_seconds:,.0f}/s"]
    if done.bytes_done:
        rates.append(f"{format_bytes(int(done.bytes_done / elapsed_seconds))}/s")
    return ", ".join([amount, *rates])


class _Amount(TextColumn):
    def __init__(self) -> None:
        super().__init__("")

    def render(self, task: Task) -> Text:
        done = task.fields.get("done")
        return Text("" if done is None else format_amount(done, task.elapsed or 0.0))


class ProgressBar:
    """A transient progress bar that appears after a second."""

    def __init__(self, what: str) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            _Amount(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=create_console(sys.stderr),
            transient=True,
        )
        self._task = self._progress.add_task(what, total=None)
        self._timer = threading.Timer(_WAIT_SECONDS, self._progress.start)
        self._timer.daemon = True

    def watch(self, done: progress.Progress) -> None:
        """Update the progress."""
        total = done.bytes_total or done.files_total
        completed = done.bytes_done if done.bytes_total else done.files_done
        self._progress.update(self._task, description=done.what, total=total, completed=completed, done=done)

    def __enter__(self) -> "ProgressBar":
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timer.cancel()
        self._timer.join()
        self._progress.stop()
