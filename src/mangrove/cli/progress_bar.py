"""Progress bars of long commands on the terminal."""

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from mangrove.cli.terminal import create_console
from mangrove.maintenance import progress
from mangrove.maintenance.progress import format_bytes

if TYPE_CHECKING:
    from rich.progress import Progress, Task

__all__ = ["ProgressBar", "format_amount"]

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


def _build_bar(console: Console) -> "Progress":
    # Slow to import, and only a terminal has progress bars.
    from rich import progress as bars  # noqa: PLC0415

    class Amount(bars.TextColumn):
        def render(self, task: "Task") -> Text:
            done = task.fields.get("done")
            return Text("" if done is None else format_amount(done, task.elapsed or 0.0))

    return bars.Progress(
        bars.SpinnerColumn(),
        bars.TextColumn("{task.description}", markup=False),
        bars.BarColumn(bar_width=None),
        Amount(""),
        bars.TimeElapsedColumn(),
        bars.TimeRemainingColumn(),
        console=console,
        transient=True,
    )


class ProgressBar:
    """A transient progress bar that appears after a second."""

    def __init__(self, what: str) -> None:
        self._progress = _build_bar(create_console(sys.stderr))
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
