"""One bit for each of many whole numbers, handed to Spark so that an expression can ask for any of them.

Spark keeps the bits as one array of a subquery, which each executor gets once. Asking
for a bit is a look into that array: nothing is joined, and what comes in order is
found in order, in the processor's caches.
"""

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression

__all__ = ["WORD_BITS", "Flags", "Numbers", "is_set", "words_of"]

Flags: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.bool_]]"
Numbers: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"
WORD_BITS: Final = 64


def words_of(flags: Flags) -> Numbers:
    """Return the flags as bits, 64 in each number, the lowest first.

    >>> words_of(np.array([True, False, False, True]))
    array([9])
    """
    padded = np.zeros(-(-len(flags) // WORD_BITS) * WORD_BITS, np.bool_)
    padded[: len(flags)] = flags
    return np.packbits(padded, bitorder="little").view("<i8")


def is_set(session: SparkSession, words: Numbers, place: "Expression") -> "Expression":
    """Return the condition that the bit at a place is set; a place beyond the bits has none, and the answer is null."""
    held = pa.table({"words": pa.array([words], pa.list_(pa.int64()))})
    word = f.get(session.createDataFrame(held).scalar(), f.shiftright(place, 6).cast("int"))
    return f.getbit(word, place.bitwiseAND(f.lit(WORD_BITS - 1)).cast("int")) == f.lit(1)
