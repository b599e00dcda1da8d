"""Deletion vectors as bitmaps of deleted keys and row positions for Spark scans.

Spark holds the bits as one array of a subquery, which each executor gets once. Testing
a bit is an array access: there is no join, and rows in order access the array in
order.

A broadcast join looks up each row's key in a hash table that exceeds the CPU caches,
which dominates the cost of a scan after an upsert. If the keys are integers in a
limited range, a bitmap replaces the join. Only the keys are read for it, so the data
files may be of any size.

Spark returns the file and the position of each row, also if a filter skips others. So
one scan of many files finds the bit of each row.

Files are immutable, so the rows that the same files delete stay the same: they are
computed once and cached as one bit per row. A scan then tests the bit of a row's
position and compares no keys. A join would read all keys again in each query, and build
a hash table of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from mangrove.local.keys import find_visible_rows
from mangrove.local.parquet import read_columns
from mangrove.local.scan import read_deleted_positions
from mangrove.model.manifests import DataFile
from mangrove.model.schema import Schema
from mangrove.model.types import Column, Int16, Int32, Int64
from mangrove.parallel import map_parallel
from mangrove.spark.pyspark_versions import create_arrow_frame
from mangrove.storage.port import Store
from mangrove.tables.scan_plan import EqualityDelete, FileScan, ScanPlan

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression


__all__ = [
    "FILE",
    "KEY_SPAN_MAX",
    "LOCAL_KEYS_MAX",
    "LOCAL_ROWS_MAX",
    "ROW",
    "ROW_SPAN_MAX",
    "WORD_BITS",
    "DeletionVectorBuilder",
    "DeletionVectorCache",
    "Flags",
    "KeyBitmap",
    "KeyBitmapCache",
    "Numbers",
    "ScanKey",
    "build_key_bitmap",
    "count_delete_rows",
    "has_key",
    "is_bit_set",
    "number_scans",
    "pack_bits",
    "scan_key_of",
]

Flags: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.bool_]]"
Numbers: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"
WORD_BITS: Final = 64
_WORDS: Final = StructType([StructField("words", ArrayType(LongType()))])


def pack_bits(flags: Flags) -> Numbers:
    """Return the flags as 64-bit words, lowest bit first.

    >>> pack_bits(np.array([True, False, False, True]))
    array([9])
    """
    padded = np.zeros(-(-len(flags) // WORD_BITS) * WORD_BITS, np.bool_)
    padded[: len(flags)] = flags
    return np.packbits(padded, bitorder="little").view("<i8")


def is_bit_set(session: SparkSession, words: Numbers, place: "Expression") -> "Expression":
    """Return the condition that a bit is set; null beyond the end of the bits."""
    bitmap = pa.table({"words": pa.array([words], pa.list_(pa.int64()))})
    word = f.get(create_arrow_frame(session, bitmap, _WORDS).scalar(), f.shiftright(place, 6).try_cast("int"))
    return f.getbit(word, place.bitwiseAND(f.lit(WORD_BITS - 1)).cast("int")) == f.lit(1)


LOCAL_KEYS_MAX: Final = 8_000_000
"""Maximum number of keys read into this process (64 MB); a join handles more."""
KEY_SPAN_MAX: Final = 2**26
"""Maximum range between the smallest and the largest key: 8 MB of bits for every task."""
_KEY_CACHE_ENTRIES_MAX: Final = 16
_KEY_BLOCK: Final = 2**20
"""Bitmaps begin at a multiple of this number, so that bitmaps of one table have the same code in Spark."""


@dataclass(frozen=True, slots=True)
class KeyBitmap:
    """A bitmap of the integers from `first`."""

    first: int
    words: Numbers


def build_key_bitmap(keys: Numbers, span_max: int = KEY_SPAN_MAX) -> KeyBitmap | None:
    """Return a bitmap of the keys, or None if there is no key or the range is too large.

    >>> build_key_bitmap(np.array([7, 4])), build_key_bitmap(np.array([0, 2**40]))
    (KeyBitmap(first=0, words=array([144])), None)
    """
    if not len(keys):
        return None
    first, last = int(keys.min()) // _KEY_BLOCK * _KEY_BLOCK, int(keys.max())
    if last - first >= span_max:
        return None
    flags = np.zeros(last - first + 1, np.bool_)
    flags[keys - first] = True
    return KeyBitmap(first, pack_bits(flags))


def has_key(session: SparkSession, bits: KeyBitmap, column: Column) -> "Expression":
    """Return the condition that an integer column has a value of the bitmap; false for null.

    It has no other literals, because Spark compiles code with other literals again.
    """
    key = f.expr(f"cast(`{column.name.replace('`', '``')}` as bigint)")
    place = f.try_subtract(key, f.lit(bits.first)) if bits.first else key
    return f.coalesce(is_bit_set(session, bits.words, place), f.lit(False))  # noqa: FBT003


@dataclass
class KeyBitmapCache:
    """Cache of the key bitmaps of recent scans of one session."""

    session: SparkSession
    store: Store
    keys_max: int = LOCAL_KEYS_MAX
    _known: "dict[tuple[tuple[tuple[str, int], ...], Column], Expression | None]" = field(default_factory=dict)

    def is_visible(self, key_files: Sequence[EqualityDelete], columns: Sequence[Column]) -> "Expression | None":
        """Return the condition that a row has no key of the files, or None if bitmaps do not apply."""
        rows = sum(key_file.file.row_count for key_file in key_files)
        if len(columns) != 1 or not isinstance(columns[0].type, Int16 | Int32 | Int64) or rows > self.keys_max:
            return None
        name = tuple((key_file.file.location, key_file.position) for key_file in key_files), columns[0]
        # The cache is replaced and never modified, because several threads may scan at once.
        known = self._known
        if name not in known:
            known = {**dict(list(known.items())[1 - _KEY_CACHE_ENTRIES_MAX :]), name: self._read(key_files, columns[0])}
            self._known = known
        return known[name]

    def _read(self, key_files: Sequence[EqualityDelete], column: Column) -> "Expression | None":
        keys = map_parallel(lambda one: read_columns(self.store, one.file, [column]).column(0), key_files)
        bits = build_key_bitmap(np.concatenate([one.drop_null().cast(pa.int64()).to_numpy() for one in keys]))
        return None if bits is None else ~has_key(self.session, bits, column)


ScanKey: TypeAlias = tuple[str, int, tuple[tuple[str, int], ...], tuple[str, ...]]
"""Identifies the deleted rows of a file: its location and position and those of its delete files."""

_WORDS_MAX: Final = 1024 * 1024
"""Maximum number of cached 64-bit words: 8 MB."""


def scan_key_of(scan: FileScan) -> ScanKey:
    """Return the cache key of a file scan; file names are never reused."""
    delete_files = tuple((key_file.file.location, key_file.position) for key_file in scan.equality_deletes)
    return scan.file.location, scan.position, delete_files, tuple(file.location for file in scan.position_deletes)


def number_scans(scans: Iterable[FileScan]) -> dict[str, int]:
    """Return a number for each file: that of its first bit, at a word boundary, in a bitmap of all rows."""
    numbers: dict[str, int] = {}
    start = 0
    for scan in scans:
        numbers[scan.file.location] = start
        start += max(-(-scan.file.row_count // WORD_BITS), 1) * WORD_BITS
    return numbers


def count_delete_rows(scans: Iterable[FileScan]) -> int:
    """Return the number of keys and positions in the delete files, each file counted once."""
    read: dict[str, int] = {}
    for scan in scans:
        if scan.equality_deletes:
            read[scan.file.location] = scan.file.row_count
        read |= {key_file.file.location: key_file.file.row_count for key_file in scan.equality_deletes}
        read |= {file.location: file.row_count for file in scan.position_deletes}
    return sum(read.values())


def _evict_oldest(known: dict[ScanKey, Numbers], words_max: int) -> dict[ScanKey, Numbers]:
    """Return the cache entries that fit the limit, dropping the oldest ones."""
    counts = accumulate(len(words) for words in reversed(known.values()))
    retained = sum(1 for count in counts if count <= words_max)
    return dict(list(known.items())[len(known) - retained :])


@dataclass
class DeletionVectorBuilder:
    """Cache of the deletion vectors of recent scans of one session."""

    store: Store
    _known: dict[ScanKey, Numbers] = field(default_factory=dict)

    def bits(self, scans: Sequence[FileScan], schema: Schema) -> list[Numbers]:
        """Return the deletion vector of each file."""
        names = [scan_key_of(scan) for scan in scans]
        # The cache is replaced and never modified, because several threads may scan at once.
        known = self._known
        unknown = {name: scan for name, scan in zip(names, scans, strict=True) if name not in known}
        found = zip(unknown, self._find_deleted_rows(list(unknown.values()), schema), strict=True)
        known = known | {name: pack_bits(flags) for name, flags in found}
        self._known = _evict_oldest(known, _WORDS_MAX)
        return [known[name] for name in names]

    def _find_deleted_rows(self, scans: Sequence[FileScan], schema: Schema) -> list[Flags]:
        flags: dict[int, Flags] = {}
        delete_files = ScanPlan(tuple(scans)).key_files
        for key_ids in dict.fromkeys(key_file.key_ids for key_file in delete_files):
            chosen = [key_file for key_file in delete_files if key_file.key_ids == key_ids]
            places = [
                place
                for place, scan in enumerate(scans)
                if any(one.key_ids == key_ids for one in scan.equality_deletes)
            ]
            deleted = self._find_by_keys(chosen, [scans[place] for place in places], schema)
            for place, deleted_rows in zip(places, deleted, strict=True):
                flags[place] = flags[place] | deleted_rows if place in flags else deleted_rows
        for place, scan in enumerate(scans):
            deleted_rows = flags.setdefault(place, np.zeros(scan.file.row_count, np.bool_))
            if scan.position_deletes:
                numbers = read_deleted_positions(self.store, scan).to_numpy()
                deleted_rows[numbers[numbers < len(deleted_rows)]] = True
        return [flags[place] for place in range(len(scans))]

    def _find_by_keys(
        self, delete_files: Sequence[EqualityDelete], scans: Sequence[FileScan], schema: Schema
    ) -> list[Flags]:
        columns = [schema.column_with_id(key_id) for key_id in delete_files[0].key_ids]
        files = {file.location: file for file in [*(one.file for one in delete_files), *(one.file for one in scans)]}

        def read(file: DataFile) -> pa.Table:
            return read_columns(self.store, file, columns)

        keys = dict(zip(files, map_parallel(read, list(files.values())), strict=True))
        visible = find_visible_rows(
            [(keys[one.file.location], one.position) for one in scans],
            [(keys[one.file.location], one.position) for one in delete_files],
            columns,
        )
        return [pc.invert(mask).to_numpy(zero_copy_only=False) for mask in visible]


FILE: Final = "mangrove file"
"""Column with the number of a row's file; the space avoids collisions with table columns."""
ROW: Final = "mangrove row"
"""Column with a row's position in its file, from 0."""
LOCAL_ROWS_MAX: Final = 8_000_000
"""Maximum number of keys and positions read into this process; a join handles more."""
ROW_SPAN_MAX: Final = 2**26
"""Maximum number of rows in deletion vectors: 8 MB for every task."""
_ROW_CACHE_ENTRIES_MAX: Final = 16


@dataclass
class DeletionVectorCache:
    """Deletion vectors of recent scans of one session."""

    session: SparkSession
    deleted_rows: DeletionVectorBuilder
    rows_max: int = LOCAL_ROWS_MAX
    _known: "dict[tuple[tuple[ScanKey, int], ...], Expression | None]" = field(default_factory=dict)

    def can_build(self, scans: Sequence[FileScan], starts: Mapping[str, int]) -> bool:
        """Return whether the deletes of these files are small enough for this process."""
        places = [starts[scan.file.location] for scan in scans]
        ends = [place + scan.file.row_count for place, scan in zip(places, scans, strict=True)]
        span = max(ends, default=0) - min(places, default=0)
        return count_delete_rows(scans) <= self.rows_max and span <= ROW_SPAN_MAX

    def load(self, scans: Sequence[FileScan], schema: Schema, starts: Mapping[str, int]) -> "Expression | None":
        """Return the condition on `FILE` and `ROW` that a row is not deleted, or None if no row is.

        A file is numbered by its first bit, see `number_scans`. The condition holds for all rows of other files.
        """
        name = tuple((scan_key_of(scan), starts[scan.file.location]) for scan in scans)
        # The cache is replaced and never modified, because several threads may scan at once.
        known = self._known
        if name not in known:
            vectors = self._build(scans, schema, starts)
            known = {**dict(list(known.items())[1 - _ROW_CACHE_ENTRIES_MAX :]), name: vectors}
            self._known = known
        return known[name]

    def _build(self, scans: Sequence[FileScan], schema: Schema, starts: Mapping[str, int]) -> "Expression | None":
        bits = zip(scans, self.deleted_rows.bits(scans, schema), strict=True)
        some = [(starts[scan.file.location] // WORD_BITS, words) for scan, words in bits if words.any()]
        if not some:
            return None
        first = min(place for place, _ in some)
        bitmap = np.zeros(max(place + len(words) for place, words in some) - first, np.int64)
        for place, words in some:
            bitmap[place - first : place - first + len(words)] = words
        bit = f.col(f"`{FILE}`") + f.col(f"`{ROW}`") - f.lit(first * WORD_BITS)
        return ~f.coalesce(is_bit_set(self.session, bitmap, bit), f.lit(False))  # noqa: FBT003
