"""A line on the terminal that says how far long work has come, at which rate, and how long it may still take."""

import sys
import threading
from types import TracebackType

from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from mangrove.cli.screen import console_on
from mangrove.maintenance import progress
from mangrove.maintenance.progress import said_bytes

__all__ = ["ProgressBar", "amount_text"]

_WAIT_SECONDS = 1.0
"""What is over sooner needs no explanation."""


def amount_text(done: progress.Progress, elapsed_seconds: float) -> str:
    """Return how much is done, of how much, and how fast.

    >>> amount_text(progress.Progress("deleting", 500, 1000, 2048, 4096), 2.0)
    '500 of 1,000, 250/s, 1.0 KiB/s'
    """
    amount = f"{done.files_done:,}" if done.files_total is None else f"{done.files_done:,} of {done.files_total:,}"
    if elapsed_seconds <= 0 or not done.files_done:
        return amount
    rates = [f"{done.files_done / elapsed_seconds:,.0f}/s"]
    if done.bytes_done:
        rates.append(f"{said_bytes(int(done.bytes_done / elapsed_seconds))}/s")
    return ", ".join([amount, *rates])


class _Amount(TextColumn):
    def __init__(self) -> None:
        super().__init__("")

    def render(self, task: Task) -> Text:
        done = task.fields.get("done")
        return Text("" if done is None else amount_text(done, task.elapsed or 0.0))


class ProgressBar:
    """Appears after a second, and leaves nothing behind."""

    def __init__(self, what: str) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            _Amount(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console_on(sys.stderr),
            transient=True,
        )
        self._task = self._progress.add_task(what, total=None)
        self._timer = threading.Timer(_WAIT_SECONDS, self._progress.start)
        self._timer.daemon = True

    def watch(self, done: progress.Progress) -> None:
        """Show how far it is."""
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
