"""Format revisions of the DeltaCAT layout."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mangrove.errors import FormatError
from mangrove.layouts.deltacat.transaction_log import flat_log_path, minute_log_path

__all__ = ["DELTACAT_2", "SEED", "DeltaCatRevision", "digest_of", "find_revision"]

_LEVEL_1: Final = 1_000_000
_LEVEL_2: Final = 1_000


@dataclass(frozen=True, slots=True)
class DeltaCatRevision:
    """The differences between the first format revision and that of DeltaCAT 2.x."""

    name: str
    layout: str
    """The name that users choose at creation."""
    names_parents: bool
    """Whether the canonical string of a name starts with that of its parent."""
    fans_out: bool
    """Whether numbered files are two folders deeper, to limit the size of folders."""
    maps_aliases: bool
    """Whether streams and partitions have mappings too, and partitions record their newest position."""
    remapping: str
    """The name of the operation that maps a name to another object."""
    time_units_per_milli: int
    start_offset: int
    """Added to each start time; distinguishes Mangrove's transactions from those of DeltaCAT."""
    end_offset: int
    log_path: Callable[[str, int], str]
    """Returns the log path of a transaction from its id and end time."""

    def canonical(self, parent: str, *parts: str) -> str:
        """Return the canonical string of an object below its parent, whose canonical string is `parent`."""
        return "|".join([parent, *parts] if self.names_parents and parent else parts)

    def start_at(self, millis: int) -> int:
        """Return the start time of a Mangrove transaction in the units of this format revision."""
        return millis * self.time_units_per_milli + self.start_offset

    def end_at(self, millis: int) -> int:
        """Return the end time of a Mangrove transaction, after any start in the same millisecond."""
        return millis * self.time_units_per_milli + self.end_offset

    def millis_of(self, time: int) -> int:
        """Return a time of this format revision in milliseconds."""
        return time // self.time_units_per_milli

    def numbered_path(self, folder: str, number: int, file_name: str) -> str:
        """Return the path of a numbered file in its folder.

        >>> DELTACAT_2.numbered_path("rev", 1234567, "x")
        'rev/2000000/235000/x'
        """
        if not self.fans_out:
            return f"{folder}/{file_name}"
        level_1 = -(-number // _LEVEL_1) * _LEVEL_1
        level_2 = -(-(number - (level_1 - _LEVEL_1)) // _LEVEL_2) * _LEVEL_2
        return f"{folder}/{level_1}/{level_2}/{file_name}"


SEED: Final = DeltaCatRevision(
    name="seed",
    layout="deltacat",
    names_parents=True,
    fans_out=False,
    maps_aliases=False,
    remapping="update",
    time_units_per_milli=1,
    start_offset=0,
    end_offset=0,
    log_path=flat_log_path,
)
DELTACAT_2: Final = DeltaCatRevision(
    name="2",
    layout="deltacat-2",
    names_parents=False,
    fans_out=True,
    maps_aliases=True,
    remapping="replace",
    time_units_per_milli=1_000_000,
    start_offset=999_983,
    end_offset=999_999,
    log_path=minute_log_path,
)


def find_revision(name: object) -> DeltaCatRevision:
    """Return the format revision that a guard names."""
    for revision in (SEED, DELTACAT_2):
        if revision.name == name:
            return revision
    raise FormatError(f"unknown format revision {name!r} of the DeltaCAT layout; use a newer release")


def digest_of(canonical: str) -> str:
    """Return the name of the folder that maps a canonical string to an id.

    >>> digest_of("MyNamespace|MyTable")
    '1caf260945a7fc2b42a65815b669ca2526ecd126'
    """
    return hashlib.sha1(canonical.encode(), usedforsecurity=False).hexdigest()
