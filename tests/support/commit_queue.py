"""A queue of processes in memory, for tests of group commit."""

from collections.abc import Callable, Iterable

__all__ = ["MemoryQueue"]

_POLL_SECONDS = 0.002


class MemoryQueue:
    """The queue of simulated processes of one machine."""

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}
        self.versions: dict[int, bytes] = {}
        self.is_locked = False
        self.is_maintained = False
        self.groups = 0

    def is_active(self, now_millis: int) -> bool:
        """Return whether several processes committed together."""
        del now_millis
        return self.groups > 0

    def put(self, name: str, data: bytes) -> bool:
        """Add an entry."""
        self.entries[name] = data
        return True

    def contains(self, name: str) -> bool:
        """Return whether an entry waits."""
        return name in self.entries

    def list(self) -> list[str]:
        """Return the names of all entries, in their order."""
        return sorted(self.entries)

    def read(self, name: str) -> bytes | None:
        """Return an entry, or None if it was removed."""
        return self.entries.get(name)

    def remove(self, names: Iterable[str]) -> None:
        """Remove entries."""
        for name in names:
            self.entries.pop(name, None)

    def wait(self, name: str, seconds: float, pause: Callable[[float], None]) -> None:
        """Pause: nothing wakes a process."""
        del name
        pause(min(seconds, _POLL_SECONDS))

    def try_lock(self) -> bool:
        """Take the lock if nobody has it, and return whether it was taken."""
        is_taken, self.is_locked = not self.is_locked, True
        return is_taken

    def unlock(self) -> None:
        """Release the lock."""
        self.is_locked = False

    def try_lock_maintenance(self, now_millis: int) -> bool:
        """Return whether no other process maintains a table."""
        del now_millis
        is_taken, self.is_maintained = not self.is_maintained, True
        return is_taken

    def unlock_maintenance(self) -> None:
        """Let another process maintain tables."""
        self.is_maintained = False

    def put_version(self, version: int, data: bytes, *, is_group: bool) -> None:
        """Show a version to the others."""
        self.versions[version] = data
        self.groups += is_group

    def read_version(self, version: int) -> bytes | None:
        """Return what was shown of a version, or None."""
        return self.versions.get(version)
