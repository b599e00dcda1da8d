"""Keys that hide rows, as one bit for each number between the least and the greatest of them.

A broadcast join looks each row's key up in a hash table that no processor's cache
holds, and that is most of what a scan after an upsert cost. Where the keys are
whole numbers not too far apart, a bit for each says the same: rows that come in
order of their keys read the bits in order too, and nothing is joined.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from mangrove.local.parquet import read_columns
from mangrove.model.manifests import DataFile
from mangrove.model.types import Column, Int2, Int4, Int8
from mangrove.storage.port import Store

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression

__all__ = ["KEYS_HERE_MAX", "SPAN_MAX", "Bits", "KeyBits", "bits_of"]

KEYS_HERE_MAX: Final = 2_000_000
"""Up to so many keys are read into this process; more are left to a join."""
SPAN_MAX: Final = 2**26
"""Up to so many numbers lie between the least key and the greatest: eight megabytes of bits for every task."""
_WORD_BITS: Final = 64
_REMEMBERED_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class Bits:
    """Which of the numbers from `first` on are meant."""

    first: int
    last: int
    words: "np.ndarray[tuple[int], np.dtype[np.int64]]"


def bits_of(keys: "np.ndarray[tuple[int], np.dtype[np.int64]]", span_max: int = SPAN_MAX) -> Bits | None:
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


@dataclass
class KeyBits:
    """The bits of the keys that scans of one session met lately; files never change, so neither do the bits."""

    session: SparkSession
    store: Store
    keys_max: int = KEYS_HERE_MAX
    _known: "dict[tuple[tuple[str, ...], Column], Expression | None]" = field(default_factory=dict)

    def shows(self, files: Sequence[DataFile], column: Column) -> "Expression | None":
        """Return the condition that none of the files has a row's key, or None where bits cannot say it."""
        if not isinstance(column.type, Int2 | Int4 | Int8) or sum(file.row_count for file in files) > self.keys_max:
            return None
        name = tuple(file.location for file in files), column
        if name not in self._known:
            while len(self._known) >= _REMEMBERED_MAX:
                del self._known[next(iter(self._known))]
            self._known[name] = self._condition(files, column)
        return self._known[name]

    def _condition(self, files: Sequence[DataFile], column: Column) -> "Expression | None":
        read = pa.chunked_array(
            [chunk for file in files for chunk in read_columns(self.store, file, [column]).column(0).chunks]
        )
        bits = bits_of(read.drop_null().cast(pa.int64()).to_numpy())
        if bits is None:
            return None
        words = pa.table({"words": pa.array([bits.words], pa.list_(pa.int64()))})
        key = f.col(f"`{column.name.replace('`', '``')}`").cast("bigint")
        place = key - f.lit(bits.first)
        word = f.get(self.session.createDataFrame(words).scalar(), f.shiftright(place, 6).cast("int"))
        is_set = f.getbit(word, place.bitwiseAND(f.lit(_WORD_BITS - 1)).cast("int")) == f.lit(1)
        # The branch keeps numbers far off from a subtraction that overflows, and a key that is null hides nothing.
        return ~f.coalesce(f.when(key.between(bits.first, bits.last), is_set), f.lit(False))  # noqa: FBT003
