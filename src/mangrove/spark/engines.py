"""Lazy construction of the Arrow and Spark engines of a lakehouse."""

import importlib.util
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from mangrove.effects import Effects
from mangrove.errors import InvalidInputError
from mangrove.spark.availability import can_open_in_workers, is_spark_installed

if TYPE_CHECKING:
    from mangrove.lakehouse.lakehouse import Lakehouse
    from mangrove.lakehouse.transaction import LakeTransaction
    from mangrove.local.engine import LocalEngine, LocalReader
    from mangrove.spark.engine import SparkEngine
    from mangrove.storage.port import Store
    from mangrove.tables.table_state import TableState

__all__ = ["BothEngines", "IcebergPublisher", "ReferencedNamesFinder", "SqlRunner"]

SqlRunner: TypeAlias = "Callable[[Lakehouse, LakeTransaction | None, str, Any], Any]"
ReferencedNamesFinder: TypeAlias = "Callable[[str, str], tuple[str, ...]]"
IcebergPublisher: TypeAlias = "Callable[[Store, TableState, int], str]"

# Arrow and Spark are slow to import.
# ruff: noqa: PLC0415


class BothEngines:
    """The local and the Spark engine of one lakehouse."""

    def __init__(
        self,
        effects: Effects,
        storage_options: Mapping[str, str] | None = None,
        sql: "SqlRunner | None" = None,
        names_read: "ReferencedNamesFinder | None" = None,
        iceberg: "IcebergPublisher | None" = None,
    ) -> None:
        self._effects = effects
        self._storage_options = storage_options
        self._sql = sql
        self._names_read = names_read
        self._iceberg = iceberg
        self._job_group: str | None = None

    @cached_property
    def _local(self) -> "LocalEngine":
        from mangrove.local.engine import LocalEngine

        return LocalEngine(self._effects.store, self._effects.new_id)

    @cached_property
    def _spark(self) -> "SparkEngine":
        _check_spark()
        from mangrove.spark.engine import SparkEngine
        from mangrove.spark.job_group import enter_job_group
        from mangrove.spark.registration import register

        engine = SparkEngine(self._effects.store, self._effects.new_id, storage_options=self._storage_options)
        register(engine.session)
        if self._job_group is not None:
            enter_job_group(engine.session, self._job_group)
        return engine

    @cached_property
    def _reader(self) -> "LocalReader":
        from mangrove.local.engine import LocalReader

        return LocalReader(self._effects.store)

    @contextmanager
    def cancellable(self) -> Iterator[None]:
        """Put the Spark jobs of this thread into one job group, which `cancel` and Ctrl-C cancel."""
        from mangrove.spark.job_group import enter_job_group, leave_job_group

        self._job_group = group = str(uuid.uuid4())
        if "_spark" in self.__dict__:
            enter_job_group(self._spark.session, group)
        try:
            yield
        except KeyboardInterrupt:
            self.cancel()
            raise
        finally:
            self._job_group = None
            if "_spark" in self.__dict__:
                leave_job_group(self._spark.session, group)

    def cancel(self) -> None:
        """Cancel the Spark jobs of the current `cancellable` block, from any thread and repeatedly."""
        from mangrove.spark.job_group import cancel_job_group

        group = self._job_group
        if group is not None and "_spark" in self.__dict__:
            cancel_job_group(self._spark.session, group)

    def reader(self) -> "LocalReader":
        """Return the reader of this process."""
        return self._reader

    def local(self) -> "LocalEngine":
        """Return the engine of this process."""
        return self._local

    def sql(self, lake: "Lakehouse", transaction: "LakeTransaction | None", text: str, arguments: Any) -> Any:
        """Run SQL statements and return the rows of the last one."""
        if self._sql is None:
            raise InvalidInputError("this lakehouse has no SQL; open it with mangrove.open or mangrove.create")
        _check_spark()
        _check_parser()
        return self._sql(lake, transaction, text, arguments)

    def names_read(self, text: str, namespace: str) -> tuple[str, ...]:
        """Return the tables and views that a query references; empty without a SQL parser."""
        return () if self._names_read is None else self._names_read(text, namespace)

    def iceberg_address(self, state: "TableState", at_millis: int) -> str:
        """Publish a table state as Iceberg metadata and return the location of the metadata file."""
        if self._iceberg is None:
            raise InvalidInputError(
                "this lakehouse has no Iceberg support; open it with mangrove.open or mangrove.create"
            )
        return self._iceberg(self._effects.store, state, at_millis)

    def can_spark_open(self, *others: str) -> bool:
        """Return whether Spark is installed and its workers can open the lakehouse and the other URIs."""
        return is_spark_installed() and all(map(can_open_in_workers, [self._effects.store.uri, *others]))

    def spark(self, *, jars: bool = False) -> "SparkEngine":
        """Return the Spark engine, in the active session or a new one, optionally with JARs for the bucket."""
        if jars:
            _check_spark()
            from mangrove.spark.hadoop import start_session_with_jars

            start_session_with_jars(self._effects.store.uri)
        return self._spark


def _check_spark() -> None:
    if not is_spark_installed():
        raise InvalidInputError("Spark is not installed; run pip install 'mangrove-lake[spark]', or use to_arrow")


def _check_parser() -> None:
    """Raise InvalidInputError if sqlglot is missing, as in a custom Spark installation."""
    if importlib.util.find_spec("sqlglot") is None:
        raise InvalidInputError("SQL requires sqlglot, which is not installed; run pip install 'mangrove-lake[spark]'")
