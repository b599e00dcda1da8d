"""Recent versions in memory: the newest, and those onto which the changes of waiting transactions are rebased."""

import threading
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from mangrove.metastore import MetastoreSnapshot

__all__ = ["RecentVersions"]

_VERSIONS_MAX: Final = 16

SnapshotT = TypeVar("SnapshotT", bound=MetastoreSnapshot)


class RecentVersions(Generic[SnapshotT]):
    """The versions that a handle has recently read or committed; thread-safe.

    A version never changes, so one that has expired since is as good as any other.
    """

    def __init__(self, newest: SnapshotT | None, read: Callable[[Sequence[int]], Sequence[SnapshotT | None]]) -> None:
        """Take the newest known version, and the function that reads versions; it returns None for expired ones."""
        self.newest = newest
        self._newest_at_millis = 0
        self._read = read
        self._versions: dict[int, SnapshotT] = {}
        self._lock = threading.Lock()

    def add(self, snapshot: SnapshotT, at_millis: int = 0) -> SnapshotT:
        """Remember a version, which was the newest at that time or later, instead of the oldest one."""
        with self._lock:
            self._versions[snapshot.version] = snapshot
            if len(self._versions) > _VERSIONS_MAX:
                del self._versions[min(self._versions)]
            if self.newest is None or snapshot.version > self.newest.version:
                self.newest, self._newest_at_millis = snapshot, at_millis
            elif snapshot.version == self.newest.version:
                self._newest_at_millis = max(at_millis, self._newest_at_millis)
        return snapshot

    def add_later(self, base: SnapshotT, found: Sequence[SnapshotT], at_millis: int | None) -> None:
        """Remember the versions after `base`; `at_millis` is a time at which there were no others, None if unknown."""
        if at_millis is None:
            # The last one was created after the time at which the base was the newest.
            with self._lock:
                is_newest = self.newest is not None and self.newest.version == base.version
                at_millis = self._newest_at_millis if is_newest else 0
        for snapshot in found[:-1]:
            self.add(snapshot)
        self.add(found[-1] if found else base, at_millis)

    def newest_since(self, millis: int) -> SnapshotT | None:
        """Return the newest version in memory if it was the newest at that time or later."""
        with self._lock:
            return self.newest if self._newest_at_millis >= millis else None

    def list_after(self, base: int) -> list[SnapshotT] | None:
        """Return the versions after `base` up to the newest; None if there are many or one cannot be read."""
        numbers = range(base + 1, base + 1 if self.newest is None else self.newest.version + 1)
        if len(numbers) > _VERSIONS_MAX:
            return None
        with self._lock:
            versions = {number: self._versions[number] for number in numbers if number in self._versions}
        missing = [number for number in numbers if number not in versions]
        for number, version in zip(missing, self._read(missing) if missing else (), strict=True):
            if version is None:
                return None
            versions[number] = self.add(version)
        return [versions[number] for number in numbers]
