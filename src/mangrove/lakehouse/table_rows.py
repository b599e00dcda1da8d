"""A table's rows in the hands of a user: what there is to read, planned by an engine and staged in a transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from mangrove import tables
from mangrove.errors import ConflictError, InvalidInputError, MangroveError
from mangrove.lakehouse.row_engines import Dated, Engine, Engines
from mangrove.lakehouse.table_staging import guard_logs, stage_in, state_of, table_state
from mangrove.maintenance.progress import Watch, unwatched
from mangrove.model.locators import TableLocator
from mangrove.model.names import split_path
from mangrove.model.objects import TableVersion
from mangrove.transaction.deltas import OpenTable, open_table, put_table_version
from mangrove.transaction.tables import alter_table
from mangrove.transaction.transaction import Transaction

if TYPE_CHECKING:
    # The catalog makes the handles of tables and these call it back.
    from mangrove.lakehouse.catalog import Catalog
    from mangrove.tables.compaction import (
        CompactionReport,
    )
    from mangrove.tables.predicates import Predicate
    from mangrove.tables.row_counts import RowCounts
    from mangrove.tables.scan_plan import ScanPlan
    from mangrove.tables.table_state import TableState
    from mangrove.tables.writing import PlannedWrite

__all__ = ["TableRows"]

_COMPACT: Final = "compact"
_LOGGER: Final = logging.getLogger(__name__)


class TableRows:
    """The rows of a table as they are now, or as of the version or transaction: read, and laid out anew."""

    catalog: Catalog
    locator: TableLocator

    def compact(
        self,
        *,
        engine: str | None = None,
        bytes_max: int | None = None,
        files_max: int | None = None,
        full: bool = False,
        watch: Watch = unwatched,
    ) -> CompactionReport:
        """Merge what was written into files that need no merging; others may write meanwhile.

        `engine` is "local" or "spark"; without it a table that fits into memory is
        compacted here. `bytes_max` and `files_max` bound what one call writes again; the
        report says what is left. With `full` large files are clustered anew too.
        """
        from mangrove.maintenance.engine_choice import COMPACTING, checked_engine, is_for_spark  # noqa: PLC0415

        bounds = tables.compaction.CompactionBounds(bytes_max, files_max, full)
        asked = checked_engine(engine)

        def plan(state: TableState) -> PlannedWrite:
            engines = self._engines()
            on_spark = is_for_spark(
                asked,
                COMPACTING,
                0,
                bounds.within(tables.compaction.size_bytes(state.logs)),
                spark_can=engines.spark_sees(),
            )
            chosen: Engine = engines.spark() if on_spark else engines.local()
            done = chosen.compact(state, bounds, watch)
            reports.append(done.report)
            return done

        reports: list[CompactionReport] = []
        self._write(_COMPACT, plan)
        return reports[-1]

    def to_arrow(self, columns: Sequence[str] | None = None, where: str | Predicate | None = None) -> Any:
        """Return the rows as a pyarrow Table, without a JVM."""
        reader = self._engines().reader()
        state, predicate = self._asked(where)
        return reader.read(state, columns, predicate)

    def to_pandas(self, columns: Sequence[str] | None = None, where: str | Predicate | None = None) -> Any:
        """Return the rows as a pandas DataFrame."""
        rows = self.to_arrow(columns, where)
        try:
            return rows.to_pandas()
        except ModuleNotFoundError as error:
            raise InvalidInputError(f"{error.name} is not installed: pip install pandas, or use to_arrow") from error
        except (OverflowError, ValueError):
            return _pandas_beyond_the_calendar(str(self.locator), rows)

    def to_spark(self, columns: Sequence[str] | None = None, where: str | Predicate | None = None) -> Any:
        """Return the rows as a Spark DataFrame that Spark's own reader scans."""
        spark = self._engines().spark()
        state, predicate = self._asked(where)
        return spark.read(state, columns, predicate)

    def scan(self, where: str | Predicate | None = None) -> ScanPlan:
        """Return what would be read, and why the rest is skipped."""
        return tables.scan_plan.plan_scan(*self._asked(where))

    def state(self) -> TableState:
        """Return the table as engines take it."""
        return table_state(self.catalog.reading(), self.locator)

    def _asked(self, where: str | Predicate | None) -> tuple[TableState, Predicate | None]:
        """Return what a read needs of the table, and which rows it means."""
        reading = self.catalog.reading()
        opened = open_table(reading, self.locator)
        schema = state_of(reading, opened, with_logs=False).schema
        predicate = tables.predicate_text.bound_predicate(where, schema)
        return state_of(reading, opened, predicate=predicate), predicate

    def add_column(self, name: str, type_words: str) -> None:
        """Add a column, null in all rows that are there; `address.city` adds one to a struct."""
        self._evolve(
            f"add column {name} to",
            lambda version: tables.evolution.with_column_added(version, split_path(name), type_words),
        )

    def rename_column(self, name: str, to: str) -> None:
        """Give a column another name; no file is touched."""
        self._evolve(
            f"rename column {name} of",
            lambda version: tables.evolution.with_column_renamed(version, split_path(name), to),
        )

    def drop_column(self, name: str) -> None:
        """Drop a column; earlier versions still have it."""
        self._evolve(
            f"drop column {name} of", lambda version: tables.evolution.with_column_dropped(version, split_path(name))
        )

    def widen(self, name: str, type_words: str) -> None:
        """Give a column a type that holds more; no file is touched."""
        self._evolve(
            f"widen {name} of",
            lambda version: tables.evolution.with_column_widened(version, split_path(name), type_words),
        )

    def _evolve(
        self,
        verb: str,
        change: Callable[[TableVersion], TableVersion],
        *,
        stops_writers: bool = False,
        holds: Callable[[TableState], None] | None = None,
    ) -> None:
        """Change what the table's rows are; `holds` refuses where rows that are there do not fit, and guards them."""

        def statement(transaction: Transaction) -> None:
            workspace = transaction.workspace
            opened = open_table(workspace, self.locator)
            version = opened.version
            changed = change(version)
            if changed == version:
                return  # a version that changes nothing would only stop others
            following = _following(opened, changed)
            if holds is not None:
                state = table_state(workspace, self.locator)
                holds(state)
                guard_logs(workspace, self.locator, state)
            # Files that others write by the old columns meanwhile still fit, because ids stay.
            put_table_version(workspace, self.locator, changed, stops_writers=stops_writers)
            alter_table(workspace, self.locator, put=following)

        self.catalog.change(statement, f"{verb} {self.locator}")

    def _write(
        self,
        verb: str,
        plan: Callable[[TableState], PlannedWrite],
        *,
        with_logs: bool | Callable[[TableState], bool] = True,
    ) -> RowCounts:
        def statement(transaction: Transaction) -> tuple[RowCounts, TableState]:
            workspace = transaction.workspace
            opened = open_table(workspace, self.locator)
            state = state_of(workspace, opened, with_logs=with_logs is True)
            if callable(with_logs) and with_logs(state):
                state = state_of(workspace, opened)
            write = plan(state)
            stage_in(workspace, opened, write, transaction.id)
            return write.counts, state

        counts, state = self.catalog.change(statement, f"{verb} {self.locator}")
        if verb != _COMPACT and tables.compaction.compacts_itself(state.properties) and isinstance(self.catalog, Dated):
            self._compact_if_due()
        return counts

    def _compact_if_due(self) -> None:
        """Do a bounded part of a compaction if enough has gathered; where somebody else is at it, leave it to them.

        The write before it is committed. Were an error raised here, people would write
        their rows again, and have them twice: so it is logged, which never raises.
        """
        try:
            state = self.state()
            if tables.compaction.is_due(state.properties, state.logs):
                self.compact(bytes_max=tables.compaction.auto_bounds(state.properties).bytes_max)
        except ConflictError:
            return
        except MangroveError as error:
            _LOGGER.warning("rows were written to %s, and it could not compact itself: %s", self.locator, error)

    def _engines(self) -> Engines:
        engines = self.catalog.engines
        if engines is None:
            raise InvalidInputError(
                f"the rows of {self.locator} need an engine: open the lakehouse with mangrove.open or mangrove.create"
            )
        return engines


def _pandas_beyond_the_calendar(name: str, rows: Any) -> Any:
    """Return rows of which a day lies outside the years 1 to 9999: all days are moments then, which reach further."""
    for place, field in enumerate(rows.schema):
        if str(field.type) == "date32[day]":
            rows = rows.set_column(place, field.name, rows.column(place).cast("timestamp[ms]"))
    try:
        return rows.to_pandas()
    except (OverflowError, ValueError) as error:
        raise InvalidInputError(
            f"rows of {name} hold a value that pandas cannot ({error}), such as a time outside the years 1 to 9999 "
            "inside a structure: use to_arrow, leave out the column, or leave out the rows by `where`"
        ) from error


def _following(opened: OpenTable, changed: TableVersion) -> Mapping[str, str]:
    """Return the properties that name columns, where these have other names in the changed version."""
    before, after = opened.version.schema, changed.schema
    if before is None or after is None or before == after:
        return {}
    return tables.heeded_properties.following_columns(str(opened.locator), opened.table.properties, before, after)
