"""Caches of parsed queries, table states and frames between statements, and CACHE TABLE.

Versions are immutable, so entries never become stale; the least recently used are
evicted. The cache is thread-safe, is shared by all SQL on one lakehouse object, and
lives as long as that object.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from cachetools import LRUCache

from mangrove.errors import NotFoundError
from mangrove.expressions.predicates import Predicate
from mangrove.lakehouse.sql_port import Frame, SqlEngine
from mangrove.model.names import join_name
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

_CACHED_FRAMES: Final[WeakKeyDictionary[SqlEngine, dict[str, Frame]]] = WeakKeyDictionary()
_LOCK: Final = Lock()


def cache_table(statement: CacheTable, engine: SqlEngine, name: tuple[str, ...], frame: Frame | None) -> str:
    """Cache or uncache the rows of a table and return a message; `frame` is None if there is no such table."""
    full_name = join_name(*name)
    with _LOCK:
        cached_frame = _CACHED_FRAMES.setdefault(engine, {}).pop(full_name, None)
    if cached_frame is not None:
        engine.uncache_rows(cached_frame)
    if statement.action == "uncache":
        if cached_frame is None and frame is None and not statement.if_exists:
            raise NotFoundError(f"table or view {full_name} does not exist")
        return f"{full_name} is not cached" if cached_frame is None else f"removed {full_name} from the cache"
    if frame is None:
        raise NotFoundError(f"table or view {full_name} does not exist")
    if statement.action == "refresh" and cached_frame is None:
        return f"every statement reads the newest version of {full_name}; nothing to do"
    engine.cache_rows(frame, eager=statement.action == "cache" and not statement.is_lazy)
    with _LOCK:
        _CACHED_FRAMES[engine][full_name] = frame
    return f"cached the current version of {full_name}; later versions are read from files"


def is_cached(engine: SqlEngine, name: str) -> bool:
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

    def get_or_create(self, key: Hashable | None, create: Callable[[], V]) -> V:
        """Return the cached value, or create and cache it; without a key, always create it."""
        if key is None:
            return create()
        with self._lock:
            if key in self._entries:
                return self._entries[key]
        # Not under the lock: it may take long, and computing the same value twice is harmless.
        value = create()
        with self._lock:
            self._entries[key] = value
        return value


@dataclass(frozen=True)
class StatementCache:
    """The caches that statements on one lakehouse share."""

    states: BoundedCache[TableState | None] = field(default_factory=lambda: BoundedCache(_STATES_MAX))
    frames: BoundedCache[Frame] = field(default_factory=lambda: BoundedCache(_FRAMES_MAX))
    foreign: BoundedCache[bool] = field(default_factory=lambda: BoundedCache(_FRAMES_MAX))
    """Whether a table has files of other programs, by version and table."""
    texts: BoundedCache[AnalyzedQuery] = field(default_factory=lambda: BoundedCache(_TEXTS_MAX))


_OF_ENGINES: Final[WeakKeyDictionary[SqlEngine, StatementCache]] = WeakKeyDictionary()
_OF_ENGINES_LOCK: Final = Lock()


def statement_cache_of(engine: SqlEngine) -> StatementCache:
    """Return the caches of the lakehouse of this engine, which live as long as the engine."""
    with _OF_ENGINES_LOCK:
        if engine not in _OF_ENGINES:
            _OF_ENGINES[engine] = StatementCache()
        return _OF_ENGINES[engine]


@dataclass(frozen=True, slots=True)
class PrunedScan:
    """The files with all required rows of a table, and the predicate that must still be applied to their rows."""

    plan: ScanPlan
    predicate: Predicate | None = None


def plan_pruned_scan(state: TableState, predicate: Predicate | None) -> PrunedScan:
    """Return a scan with all rows that match the predicate, and possibly others.

    The engine filters the rows again, so queries with other values in the same files share
    a scan. The predicate must be applied only if equality deletes were pruned, because
    the rows that they delete would otherwise appear.
    """
    plan = plan_scan(state, predicate)
    if predicate is None or not any(
        live.deletes_earlier_rows for log in state.logs for live in list_live_files(log.deltas)
    ):
        return PrunedScan(plan)
    opened = {scan.file.location for scan in plan.scans}
    unpruned = tuple(scan for scan in plan_scan(state).scans if scan.file.location in opened)
    return PrunedScan(plan, None if unpruned == plan.scans else predicate)


def has_foreign_files(state: TableState) -> bool:
    """Return whether a table has files of other programs, whose columns have no ids."""
    return any(not has_column_ids(live.file.location) for log in state.logs for live in list_live_files(log.deltas))


def frame_cache_key_of(state: TableState, files: PrunedScan) -> Hashable:
    """Return the cache key of a scan: the columns, the files and the predicate.

    Files are immutable, so an unchanged table has the same key in a later version and
    in a transaction that writes to other tables.
    """
    scans = tuple(map(_scan_key, files.plan.scans))
    return state.table_id, state.schema, files.predicate, scans


def _scan_key(scan: FileScan) -> Hashable:
    delete_files = tuple(
        (key_file.file.location, key_file.position, key_file.key_ids) for key_file in scan.equality_deletes
    )
    return scan.file.location, scan.position, delete_files, tuple(file.location for file in scan.position_deletes)
