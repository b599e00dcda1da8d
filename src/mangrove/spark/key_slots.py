"""Keys that hide rows, as slots chosen by a hash: for texts, several columns and numbers far apart.

A slot that is empty says that no hidden key has such a hash, so the row is shown
and no hash table is asked. A slot that is taken says nothing for certain: there the
join decides, by the keys themselves. After an upsert nearly all rows meet an empty
slot. Spark computes all hashes, so the two sides cannot differ.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from mangrove.model.types import Column
from mangrove.tables.scan_plan import KeyFile

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression

__all__ = ["KEYS_MAX", "KEYS_MIN", "SLOTS_MAX", "KeySlots", "Likely", "comes_again", "slots_of"]

_Numbers: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"
_Flags: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.bool_]]"

KEYS_MIN: Final = 10_000
"""A hash table of fewer keys fits into a processor's caches, and asking it costs no more than a slot."""
KEYS_MAX: Final = 2_000_000
"""With more keys too many slots would be taken."""
SLOTS_MAX: Final = 2**24
"""Eighteen megabytes for every task at most."""
_SLOTS_OF_A_KEY: Final = 16
_REMEMBERED_MAX: Final = 16


def slots_of(hashes: _Numbers, slots_max: int = SLOTS_MAX) -> _Flags:
    """Return which slots are taken; their number is a power of two, and the lowest bits of a hash name its slot.

    >>> np.flatnonzero(slots_of(np.array([3, 16, 19])))
    array([ 3, 16, 19])
    """
    count = min(slots_max, 1 << max(6, (_SLOTS_OF_A_KEY * len(hashes) - 1).bit_length()))
    taken = np.zeros(count, np.bool_)
    taken[hashes & (count - 1)] = True
    return taken


def comes_again(positions: _Numbers, hashes: _Numbers) -> frozenset[int]:
    """Return the positions of which some hash comes at a later position too.

    >>> sorted(comes_again(np.array([1, 1, 2, 3, 3]), np.array([5, 6, 6, 7, 7])))
    [1]
    """
    order = np.lexsort((positions, hashes))
    placed, hashed = positions[order], hashes[order]
    is_again = (hashed[1:] == hashed[:-1]) & (placed[1:] > placed[:-1])
    return frozenset(np.unique(placed[:-1][is_again]).tolist())


@dataclass(frozen=True, slots=True)
class Likely:
    """What hashes tell of the files of keys that a scan compares with."""

    may_be_hidden: "Expression"
    """The condition that a row's key has a slot that is taken; no other row's key is among them."""
    whole: frozenset[str]
    """The locations of those files themselves of whose rows no later one hides any."""


@dataclass
class KeySlots:
    """The slots of the keys that scans of one session met lately; files never change, so neither do the slots."""

    session: SparkSession
    keys_max: int = KEYS_MAX
    _known: dict[tuple[tuple[KeyFile, ...], tuple[Column, ...]], Likely] = field(default_factory=dict)

    def likely(
        self, key_files: Sequence[KeyFile], columns: Sequence[Column], read: Callable[[str], DataFrame]
    ) -> Likely | None:
        """Return what the files' keys may hide, or None where there are too many to look at, or too few to gain by it.

        `read` returns the rows of the files, with the position of each in a column of the given name.
        """
        if not KEYS_MIN <= sum(key_file.file.row_count for key_file in key_files) <= self.keys_max:
            return None
        name = tuple(key_files), tuple(columns)
        if name not in self._known:
            while len(self._known) >= _REMEMBERED_MAX:
                del self._known[next(iter(self._known))]
            self._known[name] = self._looked_at(key_files, columns, read("mangrove position"))
        return self._known[name]

    def _looked_at(self, key_files: Sequence[KeyFile], columns: Sequence[Column], rows: DataFrame) -> Likely:
        found = rows.select(f.col("`mangrove position`").alias("position"), _hash(columns).alias("hash")).toArrow()
        hashes = found.column("hash").to_numpy()
        again = comes_again(found.column("position").to_numpy(), hashes)
        whole = frozenset(key_file.file.location for key_file in key_files if key_file.position not in again)
        return Likely(self._condition(slots_of(hashes), columns), whole)

    def _condition(self, taken: _Flags, columns: Sequence[Column]) -> "Expression":
        # Spark keeps in bits which elements of an array are null, so looking for that touches little memory, and an
        # expression that names the hash once computes it once.
        slots = pa.table({"slots": pa.array([pa.array(taken, mask=~taken)], pa.list_(pa.bool_()))})
        slot = _hash(columns).bitwiseAND(f.lit(len(taken) - 1)).cast("int")
        return f.get(self.session.createDataFrame(slots).scalar(), slot).isNotNull()


def _hash(columns: Sequence[Column]) -> "Expression":
    return f.xxhash64(*(f.col(f"`{column.name.replace('`', '``')}`") for column in columns))
