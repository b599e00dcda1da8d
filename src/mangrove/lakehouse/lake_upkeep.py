"""What keeps a lakehouse in order, asked of the lakehouse itself: copies, conversion, expiry, vacuum, checks.

What does the work is imported when it is asked for: to read or to write takes none of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Unpack, cast

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.arguments import checked_count, checked_texts
from mangrove.lakehouse.catalog import Catalog
from mangrove.lakehouse.layouts import open_laid_out
from mangrove.lakehouse.moments import millis_of_duration
from mangrove.maintenance.progress import Watch, unwatched
from mangrove.storage.opening import is_like_storage, open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from mangrove.effects import Effects
    from mangrove.lakehouse.converting import ConvertOptions
    from mangrove.maintenance.check import CheckReport
    from mangrove.maintenance.convert import ConvertReport
    from mangrove.maintenance.expiry import ExpiryReport
    from mangrove.maintenance.export import ExportMode, ExportReport
    from mangrove.maintenance.exported import Export
    from mangrove.maintenance.maintained import Maintained
    from mangrove.maintenance.vacuum import VacuumReport
    from mangrove.metastore import Metastore, Upkeep
    from mangrove.model.settings import LakehouseSettings

__all__ = ["LakeUpkeep"]

# ruff: noqa: PLC0415


class LakeUpkeep(Catalog):
    """A catalog with versions to look after."""

    effects: Effects
    layout: str
    metastore: Metastore
    storage_options: Mapping[str, str] | None = None
    """With what its store was opened, in a cloud."""

    @property
    def uri(self) -> str:
        """Where it lies, ending in one `/`."""
        return self.effects.store.uri

    @property
    def settings(self) -> LakehouseSettings:
        """Its own definition: sizes, retention, properties, exports."""
        return self.metastore.latest().settings

    def maintained(self) -> Maintained:
        """Return it as maintenance takes it, without a cache, or say that its layout cannot do that."""
        from mangrove.maintenance.maintained import Maintained
        from mangrove.maintenance.uncached import uncached
        from mangrove.transaction.comparing import RollsBack

        if not isinstance(self.metastore, RollsBack):
            raise InvalidInputError(
                f"{self.uri} is in the {self.layout} layout, which this release reads and commits but does not maintain"
            )
        store = uncached(self.effects.store)
        if store is self.effects.store:
            return Maintained(self.effects, self.metastore, cast("Upkeep", self.metastore))
        effects = replace(self.effects, store=store)
        asking = open_laid_out(effects).metastore
        return Maintained(effects, asking, cast("Upkeep", asking))

    def export(
        self,
        destination: str | os.PathLike[str],
        name: str,
        mode: ExportMode | str = "full",
        *,
        version: int | None = None,
        tables: Sequence[str] | None = (),
        keep: bool = True,
        storage_options: Mapping[str, str] | None = None,
        engine: str | None = None,
        watch: Watch = unwatched,
    ) -> ExportReport:
        """Copy a version to another place, where it opens as a lakehouse of its own, and keep it under a name.

        Without `keep` the lakehouse itself is only read, and does not know the name.
        `storage_options` are for the other place; without them the lakehouse's own serve
        for a place of the same kind. `engine` is "local" or "spark", whose executors
        copy; without it much goes to Spark.
        """
        from mangrove.lakehouse.upkeep_engines import UpkeepEngines
        from mangrove.maintenance.export import ExportMode, export

        if mode not in (*ExportMode, *(one.value for one in ExportMode)):
            raise InvalidInputError(f"{mode!r} is no mode of exports: use {', '.join(one.value for one in ExportMode)}")
        tables = checked_texts(tables, "the tables to copy")
        if version is not None:
            checked_count(version, "the version to copy")
        options = self._options_there(destination, storage_options)
        return export(
            self.maintained(),
            open_store(destination, options),
            name,
            version=version,
            mode=ExportMode(mode),
            tables=tables,
            keep=keep,
            copier=UpkeepEngines(self.engines, engine, options).copy_files,
            watch=watch,
        )

    def exports(self) -> list[Export]:
        """Return the exports, in order of their names."""
        from mangrove.maintenance.exported import exports_of

        return exports_of(self.settings)

    def drop_export(self, name: str) -> Export:
        """Forget an export's name, so that its version may expire; the copy stays."""
        from mangrove.maintenance.export import drop_export

        return drop_export(self.maintained(), name)

    def convert(
        self,
        destination: str | os.PathLike[str],
        layout: str | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
        engine: str | None = None,
        **options: Unpack[ConvertOptions],
    ) -> ConvertReport:
        """Tell it again in another layout (the other one unless said), in another place; called again, it goes on."""
        from mangrove.lakehouse.converting import convert_lake, other_layout
        from mangrove.lakehouse.upkeep_engines import UpkeepEngines

        wanted = other_layout(self.layout) if layout is None else layout
        there = self._options_there(destination, storage_options)
        engines = UpkeepEngines(self.engines, engine, there)
        return convert_lake(self.maintained(), open_store(destination, there), wanted, engines, **options)

    def expire(self, *, dry_run: bool = False, alone: bool = False, watch: Watch = unwatched) -> ExpiryReport:
        """Forget the versions that the settings no longer keep.

        Those that became outdated within the time limit of a transaction stay, unless
        you promise to be `alone`: that nobody else reads or writes meanwhile.
        """
        from mangrove.maintenance.expiry import expire

        return expire(self.maintained(), dry_run=dry_run, alone=alone, watch=watch)

    def vacuum(
        self,
        *,
        dry_run: bool = False,
        grace: str | timedelta | None = None,
        alone: bool = False,
        engine: str | None = None,
        watch: Watch = unwatched,
    ) -> VacuumReport:
        """Delete what no version that is kept needs, and what transactions that never committed left behind.

        What is younger than the grace time (a day) stays, unless you promise to be
        `alone`: that nobody else writes meanwhile. `engine` is "local" or "spark", whose
        executors delete; without it much goes to Spark.
        """
        from mangrove.lakehouse.upkeep_engines import UpkeepEngines
        from mangrove.maintenance.vacuum import vacuum

        grace_millis = None if grace is None else millis_of_duration(grace)
        deleter = UpkeepEngines(self.engines, engine).delete_files
        return vacuum(
            self.maintained(), dry_run=dry_run, grace_millis=grace_millis, alone=alone, deleter=deleter, watch=watch
        )

    def check(
        self, *, sample: int | None = None, repair: bool = False, engine: str | None = None, watch: Watch = unwatched
    ) -> CheckReport:
        """Look at everything that the versions reach, or a sample of the versions, and tell what breaks a rule.

        Data files are read from end to end and their rows counted. `engine` is "local" or
        "spark", whose executors count; without it much goes to Spark.
        """
        from mangrove.lakehouse.upkeep_engines import UpkeepEngines
        from mangrove.maintenance.check import check

        if sample is not None:
            checked_count(sample, "the number of versions to look at", 1)
        count_rows = UpkeepEngines(self.engines, engine).count_rows
        return check(self.maintained(), sample=sample, count_rows=count_rows, repair=repair, watch=watch)

    def repair_clock(self, *, message: str = "", author: str = "") -> int:
        """Date versions by this machine's clock again, after one that a wrong clock dated in the future.

        Commits a version that holds what the newest one holds, and returns it. Earlier
        versions count as made no later than it, in time travel and in expiry. Where the
        newest version is not dated in the future, nothing is committed.
        """
        from mangrove.maintenance.clock_repair import repair_clock

        return repair_clock(self.maintained(), message, author)

    def _options_there(
        self, destination: str | os.PathLike[str], given: Mapping[str, str] | None
    ) -> Mapping[str, str] | None:
        """Return the options for another place: those that are given, or the lakehouse's own in a like storage."""
        if given is not None or self.storage_options is None:
            return given
        return self.storage_options if is_like_storage(destination, self.uri) else None
