"""Keeping the rows of tables in Spark's memory, as CACHE TABLE asks.

A version never changes, so what is kept is never wrong: a query on the table as
it was then uses it, and one on a later version reads the files.
"""

from collections import OrderedDict
from threading import Lock
from typing import Final
from weakref import WeakKeyDictionary

from mangrove.errors import NotFoundError
from mangrove.model.names import joined_name
from mangrove.spark.engine import SparkEngine
from mangrove.spark.statements import Frame, keep_rows, let_go_of_rows
from mangrove.sql.session_statements import CacheTable

__all__ = ["cache_table", "is_cached"]

_KEPT: Final[WeakKeyDictionary[SparkEngine, OrderedDict[str, Frame]]] = WeakKeyDictionary()
_LOCK: Final = Lock()


def cache_table(statement: CacheTable, engine: SparkEngine, name: tuple[str, ...], frame: Frame | None) -> str:
    """Keep the rows of a table or let them go, and return what was done; `frame` is None where there is no table."""
    called = joined_name(*name)
    with _LOCK:
        before = _KEPT.setdefault(engine, OrderedDict()).pop(called, None)
    if before is not None:
        let_go_of_rows(before)
    if statement.action == "uncache":
        if before is None and frame is None and not statement.if_exists:
            raise NotFoundError(f"there is no table or view {called}")
        return f"{called} is not in memory" if before is None else f"{called} is no longer in memory"
    if frame is None:
        raise NotFoundError(f"there is no table or view {called}")
    if statement.action == "refresh" and before is None:
        return f"every statement reads the newest version of {called}: nothing was to be done"
    keep_rows(frame, at_once=statement.action == "cache" and not statement.is_lazy)
    with _LOCK:
        _KEPT[engine][called] = frame
    return f"{called} as it is now is kept in memory; what is written later is read from its files"


def is_cached(engine: SparkEngine, name: str) -> bool:
    """Return whether rows of a table or view are kept."""
    with _LOCK:
        return name in _KEPT.get(engine, ())
