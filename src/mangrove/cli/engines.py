"""The engine that commands use for rows: Arrow in this process, so that none of them waits for a JVM."""

from typing import NoReturn

from mangrove.effects import Effects
from mangrove.errors import InvalidInputError
from mangrove.local.engine import LocalEngine

__all__ = ["LocalEngines"]


class LocalEngines:
    """The engines of a lakehouse that was opened for a command."""

    def __init__(self, effects: Effects) -> None:
        self._local = LocalEngine(effects.store, effects.new_id)

    def local(self) -> LocalEngine:
        """Return the engine in this process."""
        return self._local

    def spark_sees(self, *others: str) -> bool:  # noqa: ARG002 - no place at all
        """Return that nothing is done on Spark."""
        return False

    def spark(self, *, jars: bool = False) -> NoReturn:  # noqa: ARG002 - not at all
        """Refuse: no command hands in a frame of Spark's."""
        raise InvalidInputError("commands read and write rows in this process: use Spark from Python instead")
