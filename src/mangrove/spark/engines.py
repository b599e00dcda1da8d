"""Both engines of a lakehouse, Arrow in this process and Spark, each imported and started when it is first needed."""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from mangrove.effects import Effects

if TYPE_CHECKING:
    from mangrove.local.engine import LocalEngine
    from mangrove.spark.engine import SparkEngine

__all__ = ["BothEngines"]

# Arrow takes long to import, and Spark longer.
# ruff: noqa: PLC0415


class BothEngines:
    """The engines on the files of one lakehouse."""

    def __init__(self, effects: Effects, storage_options: Mapping[str, str] | None = None) -> None:
        self._effects = effects
        self._storage_options = storage_options

    @cached_property
    def _local(self) -> "LocalEngine":
        from mangrove.local.engine import LocalEngine

        return LocalEngine(self._effects.store, self._effects.new_id)

    @cached_property
    def _spark(self) -> "SparkEngine":
        from mangrove.spark.engine import SparkEngine

        return SparkEngine(self._effects.store, self._effects.new_id, storage_options=self._storage_options)

    def local(self) -> "LocalEngine":
        """Return the engine in this process."""
        return self._local

    def spark(self) -> "SparkEngine":
        """Return the engine on Spark, in the session that is there or in a new one."""
        return self._spark
