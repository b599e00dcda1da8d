"""The maintenance API for export, conversion, expiry, vacuum and integrity checks.

The engine is chosen after planning, when the number of files to copy or delete is
known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, TypedDict, TypeVar, Unpack, cast, overload

from mangrove.effects import Effects
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.lakehouse.arguments import validate_count, validate_texts
from mangrove.lakehouse.catalog import CompactOptions, compact_tables, list_managed_tables
from mangrove.lakehouse.engine_port import Engines, SparkRowEngine
from mangrove.lakehouse.layout_detection import (
    DELTACAT_READABLE_LAYOUT,
    LAYOUTS,
    create_layout,
    open_layout,
    resolve_strictness,
)
from mangrove.lakehouse.time_travel import parse_duration_millis
from mangrove.maintenance.check import CountRowsOfMany, build_parallel_row_counter, check_lakehouse
from mangrove.maintenance.clock_repair import repair_clock
from mangrove.maintenance.context import MaintenanceContext
from mangrove.maintenance.convert.conversion import ConvertReport, DataMode, HistoryMode, convert_lakehouse
from mangrove.maintenance.convert.replay import ConversionTarget, MaintainedMetastore
from mangrove.maintenance.copy import copy_files
from mangrove.maintenance.engine_choice import (
    COPY_LIMITS,
    COUNT_LIMITS,
    DELETE_LIMITS,
    SPARK,
    LocalLimits,
    should_use_spark,
    validate_engine,
)
from mangrove.maintenance.expiry import expire_versions
from mangrove.maintenance.export import ExportMode, drop_export, export_version
from mangrove.maintenance.export_records import bypass_cache, list_exports
from mangrove.maintenance.progress import ProgressCallback, ignore_progress
from mangrove.maintenance.vacuum import delete_files, vacuum_files
from mangrove.metastore import Changes, MetastoreSnapshot
from mangrove.model.locators import TableLocator
from mangrove.model.manifests import PARQUET, DataFile
from mangrove.model.paths import is_uri
from mangrove.model.settings import READABLE_BY_DELTACAT, LakehouseSettings
from mangrove.storage.opening import is_same_storage, open_store
from mangrove.storage.port import Store
from mangrove.transaction.transaction import commit_deadline_millis
from mangrove.transaction.version_diff import SupportsRollback

if TYPE_CHECKING:
    import os
    from datetime import datetime, timedelta

    from mangrove.lakehouse.lakehouse import Lakehouse
    from mangrove.maintenance.check import CheckReport
    from mangrove.maintenance.convert.conversion import EncodeRows
    from mangrove.maintenance.expiry import ExpiryReport
    from mangrove.maintenance.export import ExportReport
    from mangrove.maintenance.export_records import Export
    from mangrove.maintenance.vacuum import VacuumReport
    from mangrove.metastore import MetastoreMaintenance
    from mangrove.tables.compaction import CompactionReport


__all__ = [
    "ConvertOptions",
    "Maintenance",
    "MaintenanceEngines",
    "build_conversion_target",
    "convert_to_layout",
    "default_target_layout",
]


class MaintenanceEngines:
    """Selection of the engine that copies, deletes and counts; a requested engine that is unavailable is an error."""

    def __init__(
        self, engines: Engines | None, requested: str | None, destination_options: Mapping[str, str] | None = None
    ) -> None:
        self._engines = engines
        self._requested = validate_engine(requested)
        self._options = destination_options
        if requested == SPARK:
            self._spark()

    def copy_files(
        self,
        source: Store,
        destination: Store,
        sizes: Mapping[str, int],
        watch: ProgressCallback,
        *,
        last: str | None = None,
    ) -> None:
        """Copy files with known sizes; the file at `last` is copied after all others."""
        if self._is_for_spark(COPY_LIMITS, sizes, source, destination):
            self._spark().copier(self._options)(source, destination, sizes, watch, last=last)
        else:
            copy_files(source, destination, sizes, watch, last=last)

    def delete_files(self, store: Store, sizes: Mapping[str, int], watch: ProgressCallback) -> None:
        """Delete the files."""
        if self._is_for_spark(DELETE_LIMITS, sizes, store):
            self._spark().executors().delete_files(store, sizes, watch)
        else:
            delete_files(store, sizes, watch)

    @property
    def count_rows(self) -> CountRowsOfMany | None:
        """Function that counts the rows of the lakehouse's files, or None without engines."""
        return None if self._engines is None else self._counted

    @property
    def count_rows_there(self) -> CountRowsOfMany | None:
        """Function that counts the rows of files at the destination."""
        return None if self._engines is None else self._count_rows_there

    @property
    def encode_rows(self) -> EncodeRows | None:
        """Function that encodes inline rows as a data file, or None without engines."""
        engines = self._engines
        return None if engines is None else lambda file: engines.reader().encode_rows(file)

    def _counted(self, store: Store, files: Sequence[DataFile], watch: ProgressCallback) -> Mapping[str, int | str]:
        return self._count_rows_with(None, store, files, watch)

    def _count_rows_there(
        self, store: Store, files: Sequence[DataFile], watch: ProgressCallback
    ) -> Mapping[str, int | str]:
        return self._count_rows_with(self._options, store, files, watch)

    def _count_rows_with(
        self, options: Mapping[str, str] | None, store: Store, files: Sequence[DataFile], watch: ProgressCallback
    ) -> Mapping[str, int | str]:
        assert self._engines is not None
        here = build_parallel_row_counter(self._engines.reader().count_rows)
        sizes = {file.location: file.size_bytes for file in files if _is_countable(file)}
        if not self._is_for_spark(COUNT_LIMITS, sizes, store):
            return here(store, files, watch)
        ours = [file for file in files if file.location in sizes]
        others = [file for file in files if file.location not in sizes]
        return {
            **self._spark().executors(options).row_counter(store, ours, watch),
            **here(store, others, watch),
        }

    def _is_for_spark(self, limits: LocalLimits, sizes: Mapping[str, int], *stores: Store) -> bool:
        can = self._engines is not None and self._engines.can_spark_open(*(store.uri for store in stores))
        return should_use_spark(self._requested, limits, len(sizes), sum(sizes.values()), spark_can=can)

    def _spark(self) -> SparkRowEngine:
        if self._engines is None:
            raise InvalidInputError("this lakehouse has no Spark engine; open it with mangrove.open or mangrove.create")
        return self._engines.spark()


def _is_countable(file: DataFile) -> bool:
    """Return whether executors can count the rows of a file; for other files the recorded row count is used."""
    return file.content_type == PARQUET and not is_uri(file.location)


Chosen = TypeVar("Chosen", bound=Enum)


class ConvertOptions(TypedDict, total=False):
    """Options of a conversion."""

    history: HistoryMode | str
    """Whether all versions are converted, or only the newest."""
    data: DataMode | str
    """Whether data files are copied, or referenced in place."""
    strict: bool | None
    """Whether the new tree is strict; None selects the default of the layout."""
    watch: ProgressCallback


def convert_to_layout(
    source: MaintenanceContext,
    store: Store,
    layout: str,
    engines: MaintenanceEngines,
    **options: Unpack[ConvertOptions],
) -> ConvertReport:
    """Convert a lakehouse to another location; the arguments are validated before anything is written.

    The engines copy the files, and finally count the rows of each file.
    """
    history = _parse_choice(options.get("history", HistoryMode.ALL), HistoryMode, "history")
    data = _parse_choice(options.get("data", DataMode.COPY), DataMode, "data")
    if layout not in LAYOUTS:
        raise InvalidInputError(f"unknown layout {layout!r}; expected one of {', '.join(LAYOUTS)}")
    return convert_lakehouse(
        source,
        build_conversion_target(store, layout, options.get("strict")),
        history=history,
        data=data,
        copier=engines.copy_files,
        count_rows=engines.count_rows_there,
        encode_rows=engines.encode_rows,
        watch=options.get("watch", ignore_progress),
    )


def default_target_layout(layout: str, strict: bool | None = None) -> str:
    """Return the default target layout for converting a lakehouse of this layout; only a tree can be strict.

    >>> default_target_layout("tree"), default_target_layout("deltacat")
    ('deltacat', 'tree')
    """
    return "deltacat" if layout == "tree" and strict is None else "tree"


def build_conversion_target(store: Store, layout: str, strict: bool | None = None) -> ConversionTarget:
    """Return the functions that create and open a lakehouse of a layout on a store."""
    is_strict = resolve_strictness(layout, strict)

    def made(effects: Effects, settings: LakehouseSettings, changes: Changes) -> MaintainedMetastore:
        return cast(MaintainedMetastore, create_layout(effects, layout, settings, changes).metastore)

    def opened(effects: Effects) -> MaintainedMetastore | None:
        try:
            return cast(MaintainedMetastore, open_layout(effects).metastore)
        except NotFoundError:
            return None

    refused = frozenset() if layout == DELTACAT_READABLE_LAYOUT else frozenset({READABLE_BY_DELTACAT})
    is_deltacat = layout.startswith("deltacat")
    inlines_rows = not is_strict and not is_deltacat
    return ConversionTarget(store, layout, is_deltacat, refused, is_strict, inlines_rows, made, opened)


def _parse_choice(given: Chosen | str, kind: type[Chosen], what: str) -> Chosen:
    try:
        return kind(given)
    except ValueError:
        raise InvalidInputError(f"{given!r} is no {what}: use {' or '.join(one.value for one in kind)}") from None


class Maintenance:
    """Maintenance of one lakehouse: compaction, expiry, vacuum, checks, exports and conversion."""

    def __init__(self, lake: Lakehouse) -> None:
        self._lake = lake

    def __repr__(self) -> str:
        return f"<maintenance of {self._lake.uri}>"

    def context(self) -> MaintenanceContext:
        """Return the context of maintenance operations, without a cache; refuse a layout that has no maintenance."""
        lake = self._lake
        if not isinstance(lake.metastore, SupportsRollback):
            raise InvalidInputError(
                f"{lake.uri} is in the {lake.layout} layout, which this release reads and commits but does not maintain"
            )
        store = bypass_cache(lake.effects.store)
        if store is lake.effects.store:
            return MaintenanceContext(lake.effects, lake.metastore, cast("MetastoreMaintenance", lake.metastore))
        effects = replace(lake.effects, store=store)
        uncached = open_layout(effects).metastore
        return MaintenanceContext(effects, uncached, cast("MetastoreMaintenance", uncached))

    @overload
    def compact(self, name: str | TableLocator, **options: Unpack[CompactOptions]) -> CompactionReport: ...

    @overload
    def compact(self, name: None = None, **options: Unpack[CompactOptions]) -> dict[str, CompactionReport]: ...

    def compact(
        self, name: str | TableLocator | None = None, **options: Unpack[CompactOptions]
    ) -> CompactionReport | dict[str, CompactionReport]:
        """Merge the deltas of a table into files that need no merging; concurrent writes are allowed.

        Without a name, all tables are compacted, each in its own commit, and the reports of
        those that changed are returned by name. The options are those of `Table.compact`;
        bounds apply to each table.
        """
        if name is None:
            return compact_tables(list_managed_tables(self._lake), **options)
        return self._lake.table(name).compact(**options)

    def compact_metadata(self) -> int:
        """Rewrite the newest version in metadata nodes that are at least half full, and return the new version."""
        compact = getattr(self._lake.metastore, "compact", None)
        if compact is None:
            raise InvalidInputError(
                f"{self._lake.uri} is in the {self._lake.layout} layout, whose tree needs no compaction"
            )
        return self._commit_in_time(compact, "compact the tree")

    def upgrade_format(self) -> int:
        """Rewrite the newest version in the newer format revision, and return the number of that version."""
        upgrade = getattr(self._lake.metastore, "upgrade", None)
        if upgrade is None:
            raise InvalidInputError(
                f"{self._lake.uri} is in the {self._lake.layout} layout, which has nothing to be upgraded to"
            )
        return self._commit_in_time(upgrade, "upgrade to the newer format revision")

    def _commit_in_time(self, work: Callable[[Changes], MetastoreSnapshot], message: str) -> int:
        """Commit within the time limit of a transaction; vacuum may delete the files that it reads after that."""
        lake = self._lake
        limit_millis = commit_deadline_millis(lake.settings, lake.effects.now_millis())
        return work(Changes(lake._new_id(), message=message, commit_before_millis=limit_millis)).version

    def export(
        self,
        destination: str | os.PathLike[str],
        name: str,
        mode: ExportMode | str = "full",
        *,
        at: int | str | datetime | None = None,
        tables: Sequence[str] | None = (),
        keep: bool = True,
        storage_options: Mapping[str, str] | None = None,
        engine: str | None = None,
        watch: ProgressCallback = ignore_progress,
    ) -> ExportReport:
        """Copy a version to another location as an independent lakehouse, and retain the version under a name.

        `at` is a version, a time or a name; by default the newest version is copied.
        Without `keep` the lakehouse is only read, and the export is not recorded.
        `storage_options` apply to the destination; by default the lakehouse's own options are
        used for a destination of the same kind of storage. `engine` is "local" or "spark",
        which copies on executors; by default large exports use Spark.
        """
        if mode not in (*ExportMode, *(one.value for one in ExportMode)):
            raise InvalidInputError(f"{mode!r} is no mode of exports: use {', '.join(one.value for one in ExportMode)}")
        tables = validate_texts(tables, "the tables to copy")
        version = None if at is None else self._lake._snapshot_at(at).version
        options = self._options_there(destination, storage_options)
        return export_version(
            self.context(),
            open_store(destination, options),
            name,
            version=version,
            mode=ExportMode(mode),
            tables=tables,
            keep=keep,
            copier=MaintenanceEngines(self._lake.engines, engine, options).copy_files,
            watch=watch,
        )

    def exports(self) -> list[Export]:
        """Return the exports in order of their names."""
        return list_exports(self._lake.settings)

    def drop_export(self, name: str) -> Export:
        """Remove an export's name, so that its version may expire; the copy remains."""
        return drop_export(self.context(), name)

    def convert(
        self,
        destination: str | os.PathLike[str],
        layout: str | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
        engine: str | None = None,
        **options: Unpack[ConvertOptions],
    ) -> ConvertReport:
        """Convert the lakehouse to another layout in another location.

        Without `layout`, the other layout is used, or a tree if `strict` is given. A repeated
        call resumes an interrupted conversion.
        """
        requested = default_target_layout(self._lake.layout, options.get("strict")) if layout is None else layout
        there = self._options_there(destination, storage_options)
        engines = MaintenanceEngines(self._lake.engines, engine, there)
        return convert_to_layout(self.context(), open_store(destination, there), requested, engines, **options)

    def expire(
        self, *, dry_run: bool = False, alone: bool = False, watch: ProgressCallback = ignore_progress
    ) -> ExpiryReport:
        """Expire the versions that the settings no longer retain.

        Versions that became outdated within the time limit of a transaction are retained,
        unless `alone` asserts that there are no concurrent readers or writers.
        """
        return expire_versions(self.context(), dry_run=dry_run, alone=alone, watch=watch)

    def vacuum(
        self,
        *,
        dry_run: bool = False,
        grace: str | timedelta | None = None,
        alone: bool = False,
        engine: str | None = None,
        watch: ProgressCallback = ignore_progress,
    ) -> VacuumReport:
        """Delete files that no retained version references, including those of transactions that never committed.

        Files younger than the grace period are retained, unless `alone` asserts that there are
        no concurrent writers. The default is one day, or longer if transactions may take longer.
        `engine` is "local" or "spark", which deletes on executors; by default large deletions
        use Spark.
        """
        grace_millis = None if grace is None else parse_duration_millis(grace)
        deleter = MaintenanceEngines(self._lake.engines, engine).delete_files
        return vacuum_files(
            self.context(), dry_run=dry_run, grace_millis=grace_millis, alone=alone, deleter=deleter, watch=watch
        )

    def check(
        self,
        *,
        sample: int | None = None,
        repair: bool = False,
        engine: str | None = None,
        watch: ProgressCallback = ignore_progress,
    ) -> CheckReport:
        """Check everything that the versions, or a sample of the versions, reference, and report all violations.

        Data files are read completely and their rows counted. `engine` is "local" or
        "spark", which counts on executors; by default large checks use Spark.
        """
        if sample is not None:
            validate_count(sample, "the number of versions to look at", 1)
        count_rows = MaintenanceEngines(self._lake.engines, engine).count_rows
        return check_lakehouse(self.context(), sample=sample, count_rows=count_rows, repair=repair, watch=watch)

    def repair_clock(self, *, message: str = "", author: str = "") -> int:
        """Repair the commit times after a version was dated in the future by a wrong clock.

        Commits a version with the content of the newest one and returns its number. Time
        travel and expiry treat earlier versions as created no later than the new one. If the
        newest version is not dated in the future, nothing is committed.
        """
        return repair_clock(self.context(), message, author)

    def _options_there(
        self, destination: str | os.PathLike[str], given: Mapping[str, str] | None
    ) -> Mapping[str, str] | None:
        """Return storage options for another location: the given ones, or the lakehouse's own for the same storage."""
        if given is not None or self._lake.storage_options is None:
            return given
        return self._lake.storage_options if is_same_storage(destination, self._lake.uri) else None
