"""What was made for earlier statements and still holds: texts taken apart, states and frames of versions, names.

A version never changes, so nothing here grows old; it is only forgotten when
other things were used after it. All that runs SQL on one lakehouse object shares
it, from any thread, and it goes with that object.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from mangrove.spark.engine import SparkEngine
from mangrove.spark.session_names import SessionNames
from mangrove.spark.statements import Frame
from mangrove.spark.types import spark_schema
from mangrove.sql.mentions import ReadQuery
from mangrove.tables.live_files import live_files
from mangrove.tables.predicates import Predicate
from mangrove.tables.scan_plan import FileScan, ScanPlan, plan_scan
from mangrove.tables.table_state import TableState
from mangrove.tables.writing import has_column_ids

__all__ = ["FilesRead", "Kept", "LastUsed", "files_read", "has_foreign_files", "kept_of", "what_rows_come_from"]

V = TypeVar("V")
_STATES_MAX: Final = 32
"""Few, because the state of a large table lists all of its files."""
_FRAMES_MAX: Final = 256
_TEXTS_MAX: Final = 128


@dataclass
class LastUsed(Generic[V]):
    """The things that were used last, by what they are made of."""

    entries_max: int
    _entries: OrderedDict[Hashable, V] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def got(self, key: Hashable | None, make: Callable[[], V]) -> V:
        """Return what was made under this key, or make it; without a key, always make it."""
        if key is None:
            return make()
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key]
        # Not under the lock: making may take long, and two that make the same harm nobody.
        made = make()
        with self._lock:
            self._entries[key] = made
            self._entries.move_to_end(key)
            while len(self._entries) > self.entries_max:
                self._entries.popitem(last=False)
        return made


@dataclass(frozen=True)
class Kept:
    """What statements on one lakehouse leave to the next."""

    names: SessionNames
    states: LastUsed[TableState] = field(default_factory=lambda: LastUsed(_STATES_MAX))
    frames: LastUsed[Frame] = field(default_factory=lambda: LastUsed(_FRAMES_MAX))
    foreign: LastUsed[bool] = field(default_factory=lambda: LastUsed(_FRAMES_MAX))
    """Whether a table of a version has files that other programs wrote."""
    texts: LastUsed[ReadQuery] = field(default_factory=lambda: LastUsed(_TEXTS_MAX))


_OF_ENGINES: Final[WeakKeyDictionary[SparkEngine, Kept]] = WeakKeyDictionary()
_OF_ENGINES_LOCK: Final = Lock()


def kept_of(engine: SparkEngine) -> Kept:
    """Return what is kept for the lakehouse of this engine, as long as the engine is there."""
    with _OF_ENGINES_LOCK:
        if engine not in _OF_ENGINES:
            _OF_ENGINES[engine] = Kept(SessionNames(engine.session))
        return _OF_ENGINES[engine]


@dataclass(frozen=True, slots=True)
class FilesRead:
    """The files in which all wanted rows of a table are, and what must still be asked of each row in them."""

    plan: ScanPlan
    predicate: Predicate | None = None


def files_read(state: TableState, predicate: Predicate | None) -> FilesRead:
    """Return what is read so that no row is missing that the predicate means.

    Other rows may come along, because Spark asks the same and more of each. So
    queries with other values that are in the same files read the same. Only
    where newer keys were left out that hide nothing wanted, must the rows that
    they would hide be kept away.
    """
    plan = plan_scan(state, predicate)
    if predicate is None or not any(live.hides for log in state.logs for live in live_files(log.deltas)):
        return FilesRead(plan)
    opened = {scan.file.location for scan in plan.scans}
    whole = tuple(scan for scan in plan_scan(state).scans if scan.file.location in opened)
    return FilesRead(plan, None if whole == plan.scans else predicate)


def has_foreign_files(state: TableState) -> bool:
    """Return whether other programs wrote files of a table, so that their columns have no ids."""
    return any(not has_column_ids(live.file.location) for log in state.logs for live in live_files(log.deltas))


def what_rows_come_from(state: TableState, files: FilesRead) -> Hashable:
    """Return all that the rows of a table depend on: its columns, the files that are read, and what is asked of them.

    Files never change, so a table to which nothing was done is the same in a later
    version, and in a transaction that wrote to others.
    """
    scans = tuple(map(_scan_key, files.plan.scans))
    return state.table_id, spark_schema(state.schema).json(), files.predicate, scans


def _scan_key(scan: FileScan) -> Hashable:
    hiding = tuple((key_file.file.location, key_file.position, key_file.key_ids) for key_file in scan.hidden_by)
    return scan.file.location, scan.position, hiding, tuple(file.location for file in scan.position_deletes)
