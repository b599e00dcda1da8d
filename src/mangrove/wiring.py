"""Composition root: opens lakehouses, and selects their engines, SQL and Iceberg publication.

This is the only module that knows all of them. Each is imported when it is first used:
Arrow, sqlglot, Spark and PyIceberg take long to import, and the last two are optional.
"""

import importlib.util
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NoReturn

from mangrove.errors import InvalidInputError

if TYPE_CHECKING:
    import os
    from datetime import timedelta

    from mangrove.duckdb.sql_engine import DuckDbSqlEngine
    from mangrove.effects import Effects
    from mangrove.lakehouse.lakehouse import Lakehouse
    from mangrove.lakehouse.opening import EnginesFactory
    from mangrove.lakehouse.snapshot import Snapshot
    from mangrove.lakehouse.sql_port import SqlEngine
    from mangrove.lakehouse.table_snapshot import CatalogClient
    from mangrove.lakehouse.transaction import Transaction
    from mangrove.local.engine import LocalEngine, LocalReader
    from mangrove.maintenance.check import CheckReport
    from mangrove.model.settings import LakehouseSettings
    from mangrove.spark.engine import SparkEngine
    from mangrove.sql.session import SqlSession
    from mangrove.sql.views import ViewColumns
    from mangrove.tables.table_state import TableState

# ruff: noqa: PLC0415

__all__ = [
    "LakehouseEngines",
    "LocalEngines",
    "build_engines_factory",
    "check",
    "create",
    "create_on_store",
    "find_referenced_names",
    "load_public_name",
    "load_view_inference",
    "open",
    "open_as_of",
    "open_on_store",
    "open_sql_session",
    "select_sql_engine",
    "start_spark_quietly",
]


def check(
    uri: "str | os.PathLike[str]",
    *,
    storage_options: "Mapping[str, str] | None" = None,
    sample: int | None = None,
    repair: bool = False,
    engine: str | None = None,
) -> "CheckReport":
    """Verify every file that the versions of a lakehouse reference, as `Maintenance.check` does.

    If the lakehouse cannot be opened, the report says what is damaged, which version can
    still be opened, and what to do.
    """
    from mangrove.lakehouse.checking import check_uri

    engines = build_engines_factory(storage_options)
    return check_uri(uri, storage_options=storage_options, engines=engines, sample=sample, repair=repair, engine=engine)


def create(
    uri: "str | os.PathLike[str]",
    *,
    layout: str | None = None,
    strict: bool | None = None,
    compatible_with: str | None = None,
    settings: "LakehouseSettings | None" = None,
    properties: "Mapping[str, str] | None" = None,
    storage_options: "Mapping[str, str] | None" = None,
    cache: "str | os.PathLike[str] | None" = None,
    cache_bytes_max: int | None = None,
    clients: "Mapping[str, CatalogClient] | None" = None,
) -> "Lakehouse":
    """Create a lakehouse in a folder or bucket that has none.

    `layout` is "tree" by default. With `compatible_with="deltacat"` the layout is
    "deltacat-2", and DeltaCAT can read every version: writes are copy-on-write there.
    A `strict` tree contains only what its format describes, for readers of other
    implementations; by default only `tree-older` is strict. `settings`, such as the sizes of
    names, cannot be changed later; `properties` are added to them. `storage_options` and
    `cache` are as in `open`.
    """
    from mangrove.lakehouse import opening

    return opening.create_lakehouse(
        uri,
        layout=layout,
        strict=strict,
        compatible_with=compatible_with,
        settings=settings,
        properties=properties,
        storage_options=storage_options,
        cache=cache,
        cache_bytes_max=cache_bytes_max,
        clients=opening.NO_CLIENTS if clients is None else clients,
        engines=build_engines_factory(storage_options),
    )


def open(  # noqa: A001 - the product's word: mangrove.open
    uri: "str | os.PathLike[str]",
    *,
    storage_options: "Mapping[str, str] | None" = None,
    cache: "str | os.PathLike[str] | None" = None,
    cache_bytes_max: int | None = None,
    clock_tolerance: "str | timedelta | None" = None,
    clients: "Mapping[str, CatalogClient] | None" = None,
) -> "Lakehouse":
    """Open a lakehouse; its layout and format revision are detected.

    `cache` is a local folder that stores immutable files of a bucket: about `cache_bytes_max`
    bytes, by default 1 GB, for all processes that use the folder.
    Commits are refused while the newest version is dated further in the future than
    `clock_tolerance`, such as "1d"; without it the lakehouse's own setting counts.
    """
    from mangrove.lakehouse import opening

    return opening.open_lakehouse(
        uri,
        storage_options=storage_options,
        cache=cache,
        cache_bytes_max=cache_bytes_max,
        clock_tolerance=clock_tolerance,
        clients=opening.NO_CLIENTS if clients is None else clients,
        engines=build_engines_factory(storage_options),
    )


def load_public_name(name: str) -> object:
    """Return what `mangrove` exports under a name."""
    match name:
        case "Expr" | "col" | "expr" | "lit":
            from mangrove.expressions import sql_expression

            return getattr(sql_expression, name)
        case "Isolation":
            from mangrove.metastore import Isolation

            return Isolation
        case "Lakehouse":
            from mangrove.lakehouse.lakehouse import Lakehouse

            return Lakehouse
        case "Schema":
            from mangrove.model.schema import Schema

            return Schema
        case "Snapshot":
            from mangrove.lakehouse.snapshot import Snapshot

            return Snapshot
        case "Table":
            from mangrove.lakehouse.table import Table

            return Table
        case "Transaction":
            from mangrove.lakehouse.transaction import Transaction

            return Transaction
        case "__version__":
            from importlib.metadata import version

            return version("mangrove-lake")
        case _:
            raise AttributeError(f"module 'mangrove' has no attribute {name!r}")


def create_on_store(
    effects: "Effects",
    *,
    layout: str | None,
    strict: bool | None,
    compatible_with: str | None,
    settings: "LakehouseSettings",
) -> "Lakehouse":
    """Create a lakehouse on a store."""
    from mangrove.lakehouse import opening

    return opening.create_on_store(
        effects, layout=layout, strict=strict, compatible_with=compatible_with, settings=settings
    )


def open_on_store(effects: "Effects", engines: "EnginesFactory | None" = None) -> "Lakehouse":
    """Open the lakehouse on a store; without engines it reads and writes no rows."""
    from mangrove.lakehouse import opening

    return opening.open_on_store(effects, engines=engines)


def open_as_of(lake: "Lakehouse", at: str | None) -> "Snapshot":
    """Return a snapshot of the lakehouse as of `at`, or of its newest version."""
    from mangrove.lakehouse.snapshot import Snapshot

    return Snapshot(lake._reading(), lake.clients, lake.engines) if at is None else lake.at(at)


def open_sql_session(lake: "Lakehouse", engine: str | None = None) -> "SqlSession":
    """Return a SQL session of a lakehouse on an engine, as in `Lakehouse.sql`."""
    from mangrove.sql.session import SqlSession

    return SqlSession(lake, engine=engine)


def start_spark_quietly(settings: Mapping[str, str]) -> Any:
    """Start a Spark session in this process, without output unless that fails, and return it."""
    _check_spark()
    from mangrove.spark.quiet_start import start_quiet_session

    return start_quiet_session(settings)


def find_referenced_names(text: str, namespace: str) -> tuple[str, ...]:
    """Return the tables and views that a query references."""
    from mangrove.sql import views

    return views.find_referenced_names(text, namespace)


def load_view_inference() -> "Callable[..., ViewColumns | None]":
    """Return what infers the columns of views without running them."""
    from mangrove.sql.views import infer_view_columns

    return infer_view_columns


def build_engines_factory(storage_options: Mapping[str, str] | None = None) -> "EnginesFactory":
    """Return what builds the engines of a lakehouse from its store, clock and ids."""
    return partial(LakehouseEngines, storage_options=storage_options)


class LakehouseEngines:
    """The engines of one lakehouse: Arrow in this process, Spark, SQL and Iceberg publication."""

    def __init__(self, effects: "Effects", storage_options: Mapping[str, str] | None = None) -> None:
        self._effects = effects
        self._storage_options = storage_options
        self._job_group: str | None = None
        self._threads_without_spark: set[int] = set()

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
        """Put the Spark jobs that this thread starts within into one group, for `cancel`; Ctrl-C cancels it too."""
        self._job_group = group = self._effects.new_id()
        if "_spark" in self.__dict__:
            from mangrove.spark.job_group import enter_job_group

            enter_job_group(self._spark.session, group)
        try:
            yield
        except KeyboardInterrupt:
            self.cancel()
            raise
        finally:
            self._job_group = None
            if "_spark" in self.__dict__:
                from mangrove.spark.job_group import leave_job_group

                leave_job_group(self._spark.session, group)

    def cancel(self) -> None:
        """Cancel the statement that is `cancellable` now; another thread may call it, repeatedly.

        On DuckDB all queries of the lakehouse are cancelled.
        """
        group = self._job_group
        if group is not None and "_duckdb_sql" in self.__dict__:
            self._duckdb_sql.cancel()
        if group is not None and "_spark" in self.__dict__:
            from mangrove.spark.job_group import cancel_job_group

            cancel_job_group(self._spark.session, group)

    def reader(self) -> "LocalReader":
        """Return what reads in this process."""
        return self._reader

    def local(self) -> "LocalEngine":
        """Return the engine in this process."""
        return self._local

    def sql_engine(self, name: str | None = None) -> "SqlEngine":
        """Return the SQL engine with this name, or the one that `select_sql_engine` selects."""
        from mangrove.lakehouse.sql_port import DUCKDB

        return self._duckdb_sql if (name or select_sql_engine()) == DUCKDB else self._spark_sql

    @cached_property
    def _spark_sql(self) -> "SqlEngine":
        _check_spark()
        from mangrove.spark.sql_engine import SparkSqlEngine

        return SparkSqlEngine(self.spark)

    @cached_property
    def _duckdb_sql(self) -> "DuckDbSqlEngine":
        if not _is_duckdb_installed():
            raise InvalidInputError("DuckDB is not installed: pip install 'mangrove-lake[duckdb]'")
        from mangrove.duckdb.scan import find_local_folder
        from mangrove.duckdb.sql_engine import DuckDbSqlEngine

        store = self._effects.store
        if find_local_folder(store) is not None or importlib.util.find_spec("fsspec") is None:
            return DuckDbSqlEngine(store)
        from mangrove.duckdb.file_system import StoreFileSystem

        return DuckDbSqlEngine(store, StoreFileSystem(store))

    @contextmanager
    def without_spark(self) -> Iterator[None]:
        """Refuse to start Spark for what this thread does meanwhile: a change by SQL on DuckDB."""
        thread = threading.get_ident()
        self._threads_without_spark.add(thread)
        try:
            yield
        finally:
            self._threads_without_spark.discard(thread)

    @property
    def _refuses_spark(self) -> bool:
        return threading.get_ident() in self._threads_without_spark

    def sql(
        self,
        lake: "Lakehouse",
        transaction: "Transaction | None",
        text: str,
        arguments: Any,
        engine: str | None = None,
    ) -> Any:
        """Run the statements of a text on an SQL engine, and return the rows of the last one."""
        from mangrove.sql.session import run_sql

        return run_sql(lake, transaction, text, arguments, engine)

    def find_referenced_names(self, text: str, namespace: str) -> tuple[str, ...]:
        """Return the tables and views that a query references."""
        return find_referenced_names(text, namespace)

    def publish_iceberg_state(self, state: "TableState", at_millis: int) -> str:
        """Publish a state as Iceberg metadata, and return the location of the metadata file."""
        if importlib.util.find_spec("pyiceberg") is None:
            raise InvalidInputError("PyIceberg is not installed: pip install 'mangrove-lake[iceberg]'")
        from mangrove.iceberg.publish.metadata_writer import publish_metadata

        return publish_metadata(self._effects.store, state, at_millis)

    def can_spark_open(self, *others: str) -> bool:
        """Return whether there is a Spark whose processes can open the lakehouse and other places."""
        from mangrove.spark.availability import can_open_in_workers

        if self._refuses_spark or not _is_spark_installed():
            return False
        return all(map(can_open_in_workers, [self._effects.store.uri, *others]))

    def spark(self, *, jars: bool = False) -> "SparkEngine":
        """Return the engine on Spark, in the session that is there or in a new one, with JARs for the bucket or not."""
        if self._refuses_spark:
            raise InvalidInputError("a statement on DuckDB does not start Spark; run it with engine='spark'")
        if jars:
            _check_spark()
            from mangrove.spark.hadoop import start_session_with_jars

            start_session_with_jars(self._effects.store.uri)
        return self._spark


class LocalEngines:
    """The engines of a lakehouse for programs that never use Spark, such as most commands."""

    def __init__(self, effects: "Effects") -> None:
        self._engines = LakehouseEngines(effects)

    def reader(self) -> "LocalReader":
        """Return the reader of this process."""
        return self._engines.reader()

    def local(self) -> "LocalEngine":
        """Return the engine of this process."""
        return self._engines.local()

    def publish_iceberg_state(self, state: "TableState", at_millis: int) -> str:
        """Publish a state as Iceberg metadata, and return the location of the metadata file."""
        return self._engines.publish_iceberg_state(state, at_millis)

    def can_spark_open(self, *others: str) -> bool:  # noqa: ARG002 - the engine port
        """Return False: there is no Spark."""
        return False

    def spark(self, *, jars: bool = False) -> NoReturn:  # noqa: ARG002 - the engine port
        """Raise InvalidInputError: no command passes a Spark DataFrame."""
        raise InvalidInputError("commands read and write rows in this process; use Spark from Python instead")


def select_sql_engine() -> str:
    """Return the SQL engine to use by default: Spark if it has a session or DuckDB is not installed, else DuckDB."""
    from mangrove.lakehouse.sql_port import DUCKDB
    from mangrove.maintenance.engine_choice import SPARK
    from mangrove.spark.availability import has_active_session

    if has_active_session():
        return SPARK
    if not _is_duckdb_installed() and not _is_spark_installed():
        raise InvalidInputError("SQL needs DuckDB or Spark: pip install 'mangrove-lake[duckdb]', or use to_arrow")
    return DUCKDB if _is_duckdb_installed() else SPARK


def _is_duckdb_installed() -> bool:
    return importlib.util.find_spec("duckdb") is not None


def _is_spark_installed() -> bool:
    from mangrove.spark.availability import is_spark_installed

    return is_spark_installed()


def _check_spark() -> None:
    if not _is_spark_installed():
        raise InvalidInputError("Spark is not installed: pip install 'mangrove-lake[spark]', or use to_arrow")
