"""The names of one Spark session: those that its user gave, and those that frames of ours keep between statements.

Spark runs text, and a frame in a text needs a name. To give one and to take it
back costs more than all else that we do for a query, so a frame keeps its name
until many others were used after it. The names are global ones, because those
are not listed among the temporary views that people see.
"""

import weakref
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from threading import Lock, Thread
from typing import Any, Final
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

__all__ = ["NAMES_MAX", "SessionNames", "is_remote"]

NAMES_MAX: Final = 128
"""So many frames keep their names."""
_DATABASE: Final = "spark.sql.globalTempDatabase"


@dataclass
class _Named:
    frame: DataFrame
    """Kept, so that no other frame has its id."""
    name: str
    users: int = 0


class SessionNames:
    """Names in a session of this process; threads may share them. Frames lose them when the object is forgotten."""

    def __init__(self, session: SparkSession, names_max: int = NAMES_MAX) -> None:
        self.session = session
        self._names_max = names_max
        # Sessions and lakehouses of one process share the global names.
        self._prefix = f"mangrove_{uuid4().hex}"
        self._count = 0
        self._lock = Lock()
        self._named: OrderedDict[int, _Named] = OrderedDict()
        # At the end of the process Spark forgets them by itself.
        weakref.finalize(self, _forget, session, self._named).atexit = False

    @cached_property
    def is_remote(self) -> bool:
        """Whether the session is one over Connect, which takes frames along with the text."""
        return is_remote(self.session)

    @cached_property
    def _database(self) -> str:
        return str(self.session.conf.get(_DATABASE, "global_temp"))

    @cached_property
    def _catalog(self) -> Any:
        return self.session._jsparkSession.sessionState().catalog()

    def temporary_views(self, names: Collection[str]) -> frozenset[str]:
        """Return which of these names are those of temporary views; over Connect also of the session's own tables."""
        if self.is_remote:
            return frozenset(name for name in names if self.session.catalog.tableExists(f"`{name.replace('`', '``')}`"))
        # One question for all names: each way to the JVM and back counts, in every statement.
        there = str(self._catalog.getTempViewNames().mkString("\n")).casefold()
        known = frozenset(there.split("\n"))
        return frozenset(name for name in names if name.casefold() in known)

    @contextmanager
    def named(self, frames: Sequence[DataFrame]) -> Iterator[list[str]]:
        """Give frames names that hold at least until the end of the block, in the order of the frames."""
        used: list[_Named] = []
        try:
            with self._lock:
                for frame in frames:
                    used.append(self._entry(frame))
                    used[-1].users += 1
            yield [f"{self._database}.{entry.name}" for entry in used]
        finally:
            with self._lock:
                for entry in used:
                    entry.users -= 1
                self._drop_oldest()

    def _entry(self, frame: DataFrame) -> _Named:
        entry = self._named.get(id(frame))
        if entry is None:
            self._count += 1
            entry = _Named(frame, f"{self._prefix}_{self._count}")
            frame.createGlobalTempView(entry.name)
            self._named[id(frame)] = entry
        self._named.move_to_end(id(frame))
        return entry

    def _drop_oldest(self) -> None:
        """Take names back that were not used for long and are not in use now."""
        idle = [key for key, entry in self._named.items() if not entry.users]
        for key in idle[: max(0, len(self._named) - self._names_max)]:
            self.session.catalog.dropGlobalTempView(self._named.pop(key).name)


def is_remote(session: SparkSession) -> bool:
    """Return whether a session is one over Connect, which has no Java in this process."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def _forget(session: SparkSession, named: OrderedDict[int, _Named]) -> None:
    """Take back all names; a session that has stopped has none."""
    if named and session.sparkContext._jsc is not None:
        # An object may be forgotten in the middle of a call to the JVM, and a thread has one line to it.
        names = [entry.name for entry in named.values()]
        Thread(target=_drop, args=(session, names), name="mangrove names", daemon=True).start()


def _drop(session: SparkSession, names: Sequence[str]) -> None:
    for name in names:
        session.catalog.dropGlobalTempView(name)
