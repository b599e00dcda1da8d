"""Rows that are hidden, as one bit for each row of the files: asked for by the row's number, whatever its key is.

Spark tells with each row which file it came from and its number there, also where a
filter skips others. So one reading of many files finds the bit of each row.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from mangrove.model.schema import Schema
from mangrove.spark.bit_arrays import WORD_BITS, is_set
from mangrove.spark.hidden_rows import HiddenRows, ScanName, name_of, rows_to_read
from mangrove.tables.scan_plan import FileScan

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression

__all__ = ["FILE", "ROW", "ROWS_HERE_MAX", "SPAN_MAX", "RowBits", "Told"]

FILE: Final = "mangrove file"
"""The column with the number of a row's file; with a space, so that no column of ours meets it by accident."""
ROW: Final = "mangrove row"
"""The column with a row's number in its file, from 0."""
ROWS_HERE_MAX: Final = 8_000_000
"""Up to so many keys and numbers of rows are read into this process; more are left to a join."""
SPAN_MAX: Final = 2**26
"""Up to so many rows have bits: eight megabytes for every task."""
_REMEMBERED_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class Told:
    """What is hidden of some files."""

    whole: tuple[FileScan, ...]
    """Those of which nothing is."""
    numbered: tuple[tuple[FileScan, int], ...]
    """The others, each with the number that it must have in the column `FILE`."""
    is_shown: "Expression"
    """The condition that a row of theirs is not hidden, by the columns `FILE` and `ROW`."""


@dataclass
class RowBits:
    """The bits of the rows that scans of one session met lately."""

    session: SparkSession
    hidden: HiddenRows
    rows_max: int = ROWS_HERE_MAX
    _known: dict[tuple[ScanName, ...], Told] = field(default_factory=dict)

    def can_tell(self, scans: Sequence[FileScan]) -> bool:
        """Return whether so little must be read and kept for these files that it is done here."""
        return rows_to_read(scans) <= self.rows_max and sum(scan.file.row_count for scan in scans) <= SPAN_MAX

    def told(self, scans: Sequence[FileScan], schema: Schema) -> Told:
        """Return what is hidden of the files."""
        name = tuple(map(name_of, scans))
        # What is known is replaced and never changed, since several threads may scan at once.
        known = self._known
        if name not in known:
            known = {**dict(list(known.items())[1 - _REMEMBERED_MAX :]), name: self._found(scans, schema)}
            self._known = known
        return known[name]

    def _found(self, scans: Sequence[FileScan], schema: Schema) -> Told:
        found = list(zip(scans, self.hidden.bits(scans, schema), strict=True))
        some = [(scan, words) for scan, words in found if words.any()]
        # The bits of each file begin with a word, and the number of its first bit tells it from all others.
        starts = accumulate((WORD_BITS * len(words) for _, words in some), initial=0)
        numbered = tuple((scan, start) for (scan, _), start in zip(some, starts, strict=False))
        words = np.concatenate([np.zeros(0, np.int64), *(words for _, words in some)])
        is_hidden = is_set(self.session, words, f.col(f"`{FILE}`") + f.col(f"`{ROW}`"))
        whole = tuple(scan for scan, words in found if not words.any())
        return Told(whole, numbered, ~f.coalesce(is_hidden, f.lit(False)))  # noqa: FBT003
