"""The engine that commands use for rows: Arrow in this process, so that none of them waits for a JVM."""

from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

from mangrove.effects import Effects
from mangrove.errors import InvalidInputError
from mangrove.local.reading import LocalReader

if TYPE_CHECKING:
    from mangrove.local.engine import LocalEngine
    from mangrove.tables.table_state import TableState

__all__ = ["LocalEngines"]


class LocalEngines:
    """The engines of a lakehouse that was opened for a command."""

    def __init__(self, effects: Effects) -> None:
        self._effects = effects

    @cached_property
    def _local(self) -> "LocalEngine":
        # What writes takes longer to import than what reads.
        from mangrove.local.engine import LocalEngine  # noqa: PLC0415

        return LocalEngine(self._effects.store, self._effects.new_id)

    def reader(self) -> LocalReader:
        """Return what reads in this process."""
        return LocalReader(self._effects.store)

    def local(self) -> "LocalEngine":
        """Return the engine in this process."""
        return self._local

    def iceberg_address(self, state: "TableState", at_millis: int) -> str:
        """Write what is missing to show a state to Iceberg, and return where its metadata lies."""
        # Not everybody has installed it.
        from mangrove.iceberg.showing import shown_address  # noqa: PLC0415

        return shown_address(self._effects.store, state, at_millis)

    def spark_sees(self, *others: str) -> bool:  # noqa: ARG002 - no place at all
        """Return that nothing is done on Spark."""
        return False

    def spark(self, *, jars: bool = False) -> NoReturn:  # noqa: ARG002 - not at all
        """Refuse: no command hands in a frame of Spark's."""
        raise InvalidInputError("commands read and write rows in this process: use Spark from Python instead")
