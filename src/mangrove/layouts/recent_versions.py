"""Recent versions in memory, onto which the changes of waiting transactions are rebased."""

import threading
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

__all__ = ["RecentVersions"]

_VERSIONS_MAX: Final = 16

VersionT = TypeVar("VersionT")


class RecentVersions(Generic[VersionT]):
    """The versions that a handle has recently read or committed, by number; thread-safe.

    A version never changes, so one that has expired since is as good as any other.
    """

    def __init__(self, read: Callable[[Sequence[int]], Sequence[VersionT | None]]) -> None:
        """Take the function that reads versions; it returns None for those that cannot be read."""
        self._read = read
        self._versions: dict[int, VersionT] = {}
        self._lock = threading.Lock()

    def add(self, number: int, version: VersionT) -> None:
        """Remember a version instead of the oldest one."""
        with self._lock:
            self._versions[number] = version
            if len(self._versions) > _VERSIONS_MAX:
                del self._versions[min(self._versions)]

    def list_between(self, base: int, newest: int) -> list[VersionT] | None:
        """Return the versions after `base` up to `newest`; None if there are many or one cannot be read."""
        numbers = range(base + 1, newest + 1)
        if len(numbers) > _VERSIONS_MAX:
            return None
        with self._lock:
            versions = {number: self._versions[number] for number in numbers if number in self._versions}
        missing = [number for number in numbers if number not in versions]
        for number, version in zip(missing, self._read(missing) if missing else (), strict=True):
            if version is None:
                return None
            versions[number] = version
            self.add(number, version)
        return [versions[number] for number in numbers]
