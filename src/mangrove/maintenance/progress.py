"""Progress reports of long operations."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Progress", "ProgressCallback", "format_bytes", "format_quantity", "ignore_progress"]

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def format_bytes(count: int) -> str:
    """Return a readable size.

    >>> format_bytes(1), format_bytes(1536), format_bytes(5 * 1024**3)
    ('1 byte', '1.5 KiB', '5.0 GiB')
    """
    if count == 1:
        return "1 byte"
    size, unit = float(count), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.1f} {_UNITS[unit]}" if unit else f"{count} {_UNITS[0]}"


def format_quantity(count: int, thing: str) -> str:
    """Return a count with its noun in singular or plural.

    >>> format_quantity(1, "row"), format_quantity(4110, "row"), format_quantity(4, "alias")
    ('1 row', '4,110 rows', '4 aliases')
    """
    ending = "" if count == 1 else "es" if thing.endswith("s") else "s"
    return f"{count:,} {thing}{ending}"


@dataclass(frozen=True, slots=True)
class Progress:
    """The current activity and how much of it is done; a total of None is unknown."""

    what: str
    files_done: int
    files_total: int | None = None
    bytes_done: int = 0
    bytes_total: int | None = None

    def __str__(self) -> str:
        files = f"{self.files_done:,}" if self.files_total is None else f"{self.files_done:,} of {self.files_total:,}"
        total = "" if self.bytes_total is None else f" of {format_bytes(self.bytes_total)}"
        size = f", {format_bytes(self.bytes_done)}{total}" if self.bytes_done or self.bytes_total else ""
        return f"{self.what}: {files} files{size}"


ProgressCallback: TypeAlias = Callable[[Progress], None]


def ignore_progress(_: Progress) -> None:
    """Ignore progress reports."""
