"""Keys that hide rows, as one bit for each number between the least and the greatest of them.

A broadcast join looks each row's key up in a hash table that no processor's cache
holds, and that is most of what a scan after an upsert cost. Where the keys are
whole numbers not too far apart, a bit for each says the same: rows that come in
order of their keys read the bits in order too, and nothing is joined. Only the keys
are read for it, so the files that they hide rows of may be of any size.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from mangrove.local.parquet import read_columns
from mangrove.model.types import Column, Int2, Int4, Int8
from mangrove.spark.bit_arrays import Numbers, is_set, words_of
from mangrove.storage.port import Store
from mangrove.tables.scan_plan import KeyFile

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression

__all__ = ["KEYS_HERE_MAX", "SPAN_MAX", "Bits", "KeyBits", "bits_of"]

KEYS_HERE_MAX: Final = 8_000_000
"""Up to so many keys are read into this process, 64 megabytes of them; more are left to a join."""
SPAN_MAX: Final = 2**26
"""Up to so many numbers lie between the least key and the greatest: eight megabytes of bits for every task."""
_REMEMBERED_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class Bits:
    """Which of the numbers from `first` on are meant."""

    first: int
    last: int
    words: Numbers


def bits_of(keys: Numbers, span_max: int = SPAN_MAX) -> Bits | None:
    """Return a bit for each number between the keys, or None where there is no key or too many numbers.

    >>> bits_of(np.array([7, 4])), bits_of(np.array([0, 2**40]))
    (Bits(first=4, last=7, words=array([9])), None)
    """
    if not len(keys):
        return None
    first, last = int(keys.min()), int(keys.max())
    if last - first >= span_max:
        return None
    flags = np.zeros(last - first + 1, np.bool_)
    flags[keys - first] = True
    return Bits(first, last, words_of(flags))


@dataclass
class KeyBits:
    """The bits of the keys that scans of one session met lately; files never change, so neither do the bits."""

    session: SparkSession
    store: Store
    keys_max: int = KEYS_HERE_MAX
    _known: "dict[tuple[tuple[tuple[str, int], ...], Column], Expression | None]" = field(default_factory=dict)

    def is_shown(self, key_files: Sequence[KeyFile], columns: Sequence[Column]) -> "Expression | None":
        """Return the condition that no key of the files is a row's, or None where bits cannot say it."""
        rows = sum(key_file.file.row_count for key_file in key_files)
        if len(columns) != 1 or not isinstance(columns[0].type, Int2 | Int4 | Int8) or rows > self.keys_max:
            return None
        name = tuple((key_file.file.location, key_file.position) for key_file in key_files), columns[0]
        # What is known is replaced and never changed, since several threads may scan at once.
        known = self._known
        if name not in known:
            known = {**dict(list(known.items())[1 - _REMEMBERED_MAX :]), name: self._read(key_files, columns[0])}
            self._known = known
        return known[name]

    def _read(self, key_files: Sequence[KeyFile], column: Column) -> "Expression | None":
        columns = [read_columns(self.store, key_file.file, [column]).column(0) for key_file in key_files]
        bits = bits_of(np.concatenate([one.drop_null().cast(pa.int64()).to_numpy() for one in columns]))
        return None if bits is None else self._condition(bits, column)

    def _condition(self, bits: Bits, column: Column) -> "Expression":
        key = f.col(f"`{column.name.replace('`', '``')}`").cast("bigint")
        is_hidden = is_set(self.session, bits.words, key - f.lit(bits.first))
        # The branch keeps numbers far off from a subtraction that overflows, and a key that is null hides nothing.
        return ~f.coalesce(f.when(key.between(bits.first, bits.last), is_hidden), f.lit(False))  # noqa: FBT003
