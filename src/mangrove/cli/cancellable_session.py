"""SQL session of a command whose statements Ctrl-C cancels."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from mangrove.cli.context import CommandContext
from mangrove.cli.sql import CancellableRunner, QuietEngines, WriteGate
from mangrove.effects import Effects
from mangrove.sql.results import Result
from mangrove.sql.session import SqlSession

__all__ = ["CancellableSession"]

T = TypeVar("T")


class CancellableSession:
    """A SQL session with the thread that runs its statements and the write gate of its store."""

    def __init__(self, session: CommandContext, lake: str) -> None:
        self.gate = WriteGate()
        engines: list[QuietEngines] = []

        def make_engines(effects: Effects) -> QuietEngines:
            engines.append(QuietEngines(effects, session.storage_options))
            return engines[-1]

        self.sql_session = SqlSession(session.open(lake, make_engines, self.gate))
        (self._engines,) = engines
        self.cancelling = CancellableRunner(self._engines.cancel)

    @property
    def is_over(self) -> bool:
        """Whether a statement was abandoned with a second Ctrl-C, so that no further statement can run."""
        return self.cancelling.is_busy or self.gate.is_closed

    def run(self, work: Callable[[], T]) -> T:
        """Run work that calls `script` and return its result; Ctrl-C raises KeyboardInterrupt."""

        def cancellable() -> T:
            with self._engines.cancellable():
                return work()

        return self.cancelling.run(cancellable)

    def script(self, text: str) -> Iterator[Result]:
        """Yield the result of each statement; no statement starts after Ctrl-C."""
        return self.sql_session.script(text, before_each=self._before_statement)

    def abandon(self) -> None:
        """Stop waiting for the running statement and reject its further writes and commits."""
        self.gate.close()

    def _before_statement(self) -> None:
        self.gate.begin_statement()
        if self.cancelling.is_cancelled:
            raise KeyboardInterrupt
