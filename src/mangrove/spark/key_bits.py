"""Keys that hide rows, as one bit for each number between the least and the greatest of them.

A broadcast join looks each row's key up in a hash table that no processor's cache
holds, and that is most of what a scan after an upsert cost. Where the keys are
whole numbers not too far apart, a bit for each says the same: rows that come in
order of their keys read the bits in order too, and nothing is joined.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from mangrove.local.parquet import read_columns
from mangrove.model.types import Column, Int2, Int4, Int8
from mangrove.storage.port import Store
from mangrove.tables.scan_plan import KeyFile

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression

__all__ = ["KEYS_HERE_MAX", "SPAN_MAX", "Bits", "KeyBits", "Told", "bits_of", "never_again"]

_Keys: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"

KEYS_HERE_MAX: Final = 8_000_000
"""Up to so many keys are read into this process, 64 megabytes of them; more are left to a join."""
SPAN_MAX: Final = 2**26
"""Up to so many numbers lie between the least key and the greatest: eight megabytes of bits for every task."""
_WORD_BITS: Final = 64
_REMEMBERED_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class Bits:
    """Which of the numbers from `first` on are meant."""

    first: int
    last: int
    words: _Keys


def bits_of(keys: _Keys, span_max: int = SPAN_MAX) -> Bits | None:
    """Return a bit for each number between the keys, or None where there is no key or too many numbers.

    >>> bits_of(np.array([7, 4])), bits_of(np.array([0, 2**40]))
    (Bits(first=4, last=7, words=array([9])), None)
    """
    if not len(keys):
        return None
    first, last = int(keys.min()), int(keys.max())
    if last - first >= span_max:
        return None
    word_count = (last - first) // _WORD_BITS + 1
    flags = np.zeros(word_count * _WORD_BITS, np.uint8)
    flags[keys - first] = 1
    return Bits(first, last, np.packbits(flags, bitorder="little").view("<i8"))


def never_again(keys: Sequence[tuple[int, _Keys]], first: int, last: int) -> list[bool]:
    """Return for each position with its keys whether none of them comes at a later position.

    >>> never_again([(1, np.array([5, 6])), (2, np.array([6])), (2, np.array([6]))], 5, 6)
    [False, True, True]
    """
    later = np.zeros(last - first + 1, np.bool_)
    answers = [True] * len(keys)
    newest_first = sorted(range(len(keys)), key=lambda place: keys[place][0], reverse=True)
    for _, group in groupby(newest_first, key=lambda place: keys[place][0]):
        together = list(group)
        for place in together:
            answers[place] = not later[keys[place][1] - first].any()
        for place in together:
            later[keys[place][1] - first] = True
    return answers


@dataclass(frozen=True, slots=True)
class Told:
    """What bits tell of the files of keys that a scan compares with."""

    is_shown: "Expression"
    """The condition that none of the keys is a row's."""
    whole: frozenset[str]
    """The locations of those files themselves of whose rows no later one hides any."""


@dataclass
class KeyBits:
    """The bits of the keys that scans of one session met lately; files never change, so neither do the bits."""

    session: SparkSession
    store: Store
    keys_max: int = KEYS_HERE_MAX
    _known: dict[tuple[tuple[KeyFile, ...], Column], Told | None] = field(default_factory=dict)

    def told(self, key_files: Sequence[KeyFile], column: Column) -> Told | None:
        """Return what the files' keys in this column hide, or None where bits cannot say it."""
        rows = sum(key_file.file.row_count for key_file in key_files)
        if not isinstance(column.type, Int2 | Int4 | Int8) or rows > self.keys_max:
            return None
        name = tuple(key_files), column
        if name not in self._known:
            while len(self._known) >= _REMEMBERED_MAX:
                del self._known[next(iter(self._known))]
            self._known[name] = self._read(key_files, column)
        return self._known[name]

    def _read(self, key_files: Sequence[KeyFile], column: Column) -> Told | None:
        columns = [read_columns(self.store, key_file.file, [column]).column(0) for key_file in key_files]
        keys: list[_Keys] = [one.drop_null().cast(pa.int64()).to_numpy() for one in columns]
        bits = bits_of(np.concatenate(keys))
        if bits is None:
            return None
        placed = [(key_file.position, one) for key_file, one in zip(key_files, keys, strict=True)]
        once = zip(key_files, never_again(placed, bits.first, bits.last), strict=True)
        whole = frozenset(key_file.file.location for key_file, is_whole in once if is_whole)
        return Told(self._condition(bits, column), whole)

    def _condition(self, bits: Bits, column: Column) -> "Expression":
        words = pa.table({"words": pa.array([bits.words], pa.list_(pa.int64()))})
        key = f.col(f"`{column.name.replace('`', '``')}`").cast("bigint")
        place = key - f.lit(bits.first)
        word = f.get(self.session.createDataFrame(words).scalar(), f.shiftright(place, 6).cast("int"))
        is_set = f.getbit(word, place.bitwiseAND(f.lit(_WORD_BITS - 1)).cast("int")) == f.lit(1)
        # The branch keeps numbers far off from a subtraction that overflows, and a key that is null hides nothing.
        return ~f.coalesce(f.when(key.between(bits.first, bits.last), is_set), f.lit(False))  # noqa: FBT003
