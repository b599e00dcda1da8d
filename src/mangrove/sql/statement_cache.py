"""Caches of parsed queries, table states and frames between statements, and CACHE TABLE.

A version never changes, so what is kept is never wrong: a query on the table as
it was then uses it, and one on a later version reads the files.

A version never changes, so nothing here grows old; it is only forgotten when
other things were used after it. All that runs SQL on one lakehouse object shares
it, from any thread, and it goes with that object.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from cachetools import LRUCache

from mangrove.errors import NotFoundError
from mangrove.expressions.predicates import Predicate
from mangrove.model.names import join_name
from mangrove.spark.engine import SparkEngine
from mangrove.spark.statements import Frame, SessionNames, cache_rows, uncache_rows
from mangrove.spark.types import to_spark_schema
from mangrove.sql.parse.statements import CacheTable
from mangrove.sql.parse.table_refs import AnalyzedQuery
from mangrove.tables.scan_plan import FileScan, ScanPlan, list_live_files, plan_scan
from mangrove.tables.table_state import TableState
from mangrove.tables.write_plan import has_column_ids

__all__ = [
    "BoundedCache",
    "PrunedScan",
    "StatementCache",
    "cache_table",
    "frame_cache_key_of",
    "has_foreign_files",
    "is_cached",
    "plan_pruned_scan",
    "statement_cache_of",
]

_CACHED_FRAMES: Final[WeakKeyDictionary[SparkEngine, dict[str, Frame]]] = WeakKeyDictionary()
_LOCK: Final = Lock()


def cache_table(statement: CacheTable, engine: SparkEngine, name: tuple[str, ...], frame: Frame | None) -> str:
    """Cache or uncache the rows of a table and return a message; `frame` is None if there is no such table."""
    called = join_name(*name)
    with _LOCK:
        before = _CACHED_FRAMES.setdefault(engine, {}).pop(called, None)
    if before is not None:
        uncache_rows(before)
    if statement.action == "uncache":
        if before is None and frame is None and not statement.if_exists:
            raise NotFoundError(f"table or view {called} does not exist")
        return f"{called} is not in memory" if before is None else f"{called} is no longer in memory"
    if frame is None:
        raise NotFoundError(f"table or view {called} does not exist")
    if statement.action == "refresh" and before is None:
        return f"every statement reads the newest version of {called}: nothing was to be done"
    cache_rows(frame, eager=statement.action == "cache" and not statement.is_lazy)
    with _LOCK:
        _CACHED_FRAMES[engine][called] = frame
    return f"{called} as it is now is kept in memory; what is written later is read from its files"


def is_cached(engine: SparkEngine, name: str) -> bool:
    """Return whether the rows of a table or view are cached."""
    with _LOCK:
        return name in _CACHED_FRAMES.get(engine, ())


V = TypeVar("V")
_STATES_MAX: Final = 32
"""Few, because the state of a large table lists all of its files."""
_FRAMES_MAX: Final = 256
_TEXTS_MAX: Final = 128


class BoundedCache(Generic[V]):
    """A thread-safe LRU cache bounded by its number of entries."""

    def __init__(self, entries_max: int) -> None:
        self._entries: LRUCache[Hashable, V] = LRUCache(entries_max)
        self._lock = Lock()

    def got(self, key: Hashable | None, make: Callable[[], V]) -> V:
        """Return the value under this key, or make and cache it; without a key, always make it."""
        if key is None:
            return make()
        with self._lock:
            if key in self._entries:
                return self._entries[key]
        # Not under the lock: making may take long, and two that make the same harm nobody.
        made = make()
        with self._lock:
            self._entries[key] = made
        return made


@dataclass(frozen=True)
class StatementCache:
    """What statements on one lakehouse leave to the next."""

    names: SessionNames
    states: BoundedCache[TableState | None] = field(default_factory=lambda: BoundedCache(_STATES_MAX))
    frames: BoundedCache[Frame] = field(default_factory=lambda: BoundedCache(_FRAMES_MAX))
    foreign: BoundedCache[bool] = field(default_factory=lambda: BoundedCache(_FRAMES_MAX))
    """Whether a table of a version has files that other programs wrote."""
    texts: BoundedCache[AnalyzedQuery] = field(default_factory=lambda: BoundedCache(_TEXTS_MAX))


_OF_ENGINES: Final[WeakKeyDictionary[SparkEngine, StatementCache]] = WeakKeyDictionary()
_OF_ENGINES_LOCK: Final = Lock()


def statement_cache_of(engine: SparkEngine) -> StatementCache:
    """Return what is kept for the lakehouse of this engine, as long as the engine is there."""
    with _OF_ENGINES_LOCK:
        if engine not in _OF_ENGINES:
            _OF_ENGINES[engine] = StatementCache(SessionNames(engine.session))
        return _OF_ENGINES[engine]


@dataclass(frozen=True, slots=True)
class PrunedScan:
    """The files in which all wanted rows of a table are, and what must still be asked of each row in them."""

    plan: ScanPlan
    predicate: Predicate | None = None


def plan_pruned_scan(state: TableState, predicate: Predicate | None) -> PrunedScan:
    """Return what is read so that no row is missing that the predicate means.

    Other rows may come along, because Spark asks the same and more of each. So
    queries with other values that are in the same files read the same. Only
    where newer keys were left out that hide nothing wanted, must the rows that
    they would hide be kept away.
    """
    plan = plan_scan(state, predicate)
    if predicate is None or not any(
        live.deletes_earlier_rows for log in state.logs for live in list_live_files(log.deltas)
    ):
        return PrunedScan(plan)
    opened = {scan.file.location for scan in plan.scans}
    whole = tuple(scan for scan in plan_scan(state).scans if scan.file.location in opened)
    return PrunedScan(plan, None if whole == plan.scans else predicate)


def has_foreign_files(state: TableState) -> bool:
    """Return whether other programs wrote files of a table, so that their columns have no ids."""
    return any(not has_column_ids(live.file.location) for log in state.logs for live in list_live_files(log.deltas))


def frame_cache_key_of(state: TableState, files: PrunedScan) -> Hashable:
    """Return all that the rows of a table depend on: its columns, the files that are read, and what is asked of them.

    Files never change, so a table to which nothing was done is the same in a later
    version, and in a transaction that wrote to others.
    """
    scans = tuple(map(_scan_key, files.plan.scans))
    return state.table_id, to_spark_schema(state.schema).json(), files.predicate, scans


def _scan_key(scan: FileScan) -> Hashable:
    delete_files = tuple(
        (key_file.file.location, key_file.position, key_file.key_ids) for key_file in scan.equality_deletes
    )
    return scan.file.location, scan.position, delete_files, tuple(file.location for file in scan.position_deletes)
