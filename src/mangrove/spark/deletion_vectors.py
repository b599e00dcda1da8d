"""Deletion vectors as bitmaps of deleted keys and row positions for Spark scans.

Spark keeps the bits as one array of a subquery, which each executor gets once. Asking
for a bit is a look into that array: nothing is joined, and what comes in order is
found in order, in the processor's caches.

A broadcast join looks each row's key up in a hash table that no processor's cache
holds, and that is most of what a scan after an upsert cost. Where the keys are
whole numbers not too far apart, a bit for each says the same: rows that come in
order of their keys read the bits in order too, and nothing is joined. Only the keys
are read for it, so the files that they hide rows of may be of any size.

Spark tells with each row which file it came from and its number there, also where a
filter skips others. So one reading of many files finds the bit of each row.

Files never change, so what is hidden by the same other files stays hidden: it is
found once, and kept as one bit for each row. A scan then asks for the bit of a row's
number in its file and compares no keys, whatever their types are and however many
columns they have. A join would read all keys again in each query, and build a hash
table of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from mangrove.local.parallel import map_parallel
from mangrove.local.parquet import read_columns
from mangrove.local.scan import read_deleted_positions
from mangrove.model.manifests import DataFile
from mangrove.model.schema import Schema
from mangrove.model.types import Column, Int16, Int32, Int64
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
    "DeletedRowCache",
    "DeletionVectorCache",
    "DeletionVectors",
    "Flags",
    "KeyBitmap",
    "KeyBitmapCache",
    "Numbers",
    "ScanKey",
    "build_key_bitmap",
    "count_delete_rows",
    "find_rows_deleted_by_keys",
    "is_bit_set",
    "pack_bits",
    "scan_key_of",
]

Flags: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.bool_]]"
Numbers: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"
WORD_BITS: Final = 64


def pack_bits(flags: Flags) -> Numbers:
    """Return the flags as bits, 64 in each number, the lowest first.

    >>> pack_bits(np.array([True, False, False, True]))
    array([9])
    """
    padded = np.zeros(-(-len(flags) // WORD_BITS) * WORD_BITS, np.bool_)
    padded[: len(flags)] = flags
    return np.packbits(padded, bitorder="little").view("<i8")


def is_bit_set(session: SparkSession, words: Numbers, place: "Expression") -> "Expression":
    """Return the condition that the bit at a place is set; a place beyond the bits has none, and the answer is null."""
    held = pa.table({"words": pa.array([words], pa.list_(pa.int64()))})
    word = f.get(session.createDataFrame(held).scalar(), f.shiftright(place, 6).cast("int"))
    return f.getbit(word, place.bitwiseAND(f.lit(WORD_BITS - 1)).cast("int")) == f.lit(1)


LOCAL_KEYS_MAX: Final = 8_000_000
"""Up to so many keys are read into this process, 64 megabytes of them; more are left to a join."""
KEY_SPAN_MAX: Final = 2**26
"""Up to so many numbers lie between the least key and the greatest: eight megabytes of bits for every task."""
_KEY_CACHE_ENTRIES_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class KeyBitmap:
    """Which of the numbers from `first` on are meant."""

    first: int
    last: int
    words: Numbers


def build_key_bitmap(keys: Numbers, span_max: int = KEY_SPAN_MAX) -> KeyBitmap | None:
    """Return a bit for each number between the keys, or None where there is no key or too many numbers.

    >>> build_key_bitmap(np.array([7, 4])), build_key_bitmap(np.array([0, 2**40]))
    (Bits(first=4, last=7, words=array([9])), None)
    """
    if not len(keys):
        return None
    first, last = int(keys.min()), int(keys.max())
    if last - first >= span_max:
        return None
    flags = np.zeros(last - first + 1, np.bool_)
    flags[keys - first] = True
    return KeyBitmap(first, last, pack_bits(flags))


@dataclass
class KeyBitmapCache:
    """The bits of the keys that scans of one session met lately; files never change, so neither do the bits."""

    session: SparkSession
    store: Store
    keys_max: int = LOCAL_KEYS_MAX
    _known: "dict[tuple[tuple[tuple[str, int], ...], Column], Expression | None]" = field(default_factory=dict)

    def is_visible(self, key_files: Sequence[EqualityDelete], columns: Sequence[Column]) -> "Expression | None":
        """Return the condition that no key of the files is a row's, or None where bits cannot say it."""
        rows = sum(key_file.file.row_count for key_file in key_files)
        if len(columns) != 1 or not isinstance(columns[0].type, Int16 | Int32 | Int64) or rows > self.keys_max:
            return None
        name = tuple((key_file.file.location, key_file.position) for key_file in key_files), columns[0]
        # What is known is replaced and never changed, since several threads may scan at once.
        known = self._known
        if name not in known:
            known = {**dict(list(known.items())[1 - _KEY_CACHE_ENTRIES_MAX :]), name: self._read(key_files, columns[0])}
            self._known = known
        return known[name]

    def _read(self, key_files: Sequence[EqualityDelete], column: Column) -> "Expression | None":
        columns = [read_columns(self.store, key_file.file, [column]).column(0) for key_file in key_files]
        bits = build_key_bitmap(np.concatenate([one.drop_null().cast(pa.int64()).to_numpy() for one in columns]))
        return None if bits is None else self._condition(bits, column)

    def _condition(self, bits: KeyBitmap, column: Column) -> "Expression":
        key = f.col(f"`{column.name.replace('`', '``')}`").cast("bigint")
        is_hidden = is_bit_set(self.session, bits.words, key - f.lit(bits.first))
        # The branch keeps numbers far off from a subtraction that overflows, and a key that is null hides nothing.
        return ~f.coalesce(f.when(key.between(bits.first, bits.last), is_hidden), f.lit(False))  # noqa: FBT003


ScanKey: TypeAlias = tuple[str, int, tuple[tuple[str, int], ...], tuple[str, ...]]
"""What decides which rows of a file are hidden: its location and position, those of the keys, and files of numbers."""

_WORDS_MAX: Final = 1024 * 1024
"""So many words of bits are kept at most: eight megabytes."""


def scan_key_of(scan: FileScan) -> ScanKey:
    """Return what tells apart all scans of which other rows may be hidden; names of files are never used twice."""
    delete_files = tuple((key_file.file.location, key_file.position) for key_file in scan.equality_deletes)
    return scan.file.location, scan.position, delete_files, tuple(file.location for file in scan.position_deletes)


def count_delete_rows(scans: Iterable[FileScan]) -> int:
    """Return how many keys and numbers tell what is hidden of the files, each file counted once."""
    read: dict[str, int] = {}
    for scan in scans:
        if scan.equality_deletes:
            read[scan.file.location] = scan.file.row_count
        read |= {key_file.file.location: key_file.file.row_count for key_file in scan.equality_deletes}
        read |= {file.location: file.row_count for file in scan.position_deletes}
    return sum(read.values())


def find_rows_deleted_by_keys(
    delete_files: Sequence[tuple[Sequence[Any], int]], compared: Sequence[tuple[Sequence[Any], int]]
) -> list[Flags]:
    """Return for each row whether its key comes at a later position; both are given as key columns with a position.

    Where a part of a key is null it is equal to no other.

    >>> old, new = pa.chunked_array([[5, 6, None]]), pa.chunked_array([[6, None]])
    >>> find_rows_deleted_by_keys([([old], 1), ([new], 2)], [([old], 1), ([new], 2)])
    [array([False,  True, False]), array([False, False])]
    """
    places = _places([columns for columns, _ in delete_files], [columns for columns, _ in compared])
    newest = np.full(1 + max((int(found.max(initial=-1)) for found in places[: len(delete_files)]), default=-1), -1)
    for (_, position), found in sorted(zip(delete_files, places, strict=False), key=lambda pair: pair[0][1]):
        newest[found[found >= 0]] = position
    newest = np.append(newest, -1)  # which is what a key finds that hides nothing: its place is -1
    return [
        newest[found] > position for (_, position), found in zip(compared, places[len(delete_files) :], strict=True)
    ]


def _places(delete_files: Sequence[Sequence[Any]], compared: Sequence[Sequence[Any]]) -> list[Numbers]:
    """Return for each key of the files a number that equal keys share, and -1 for one that hides nothing.

    Columns are taken one by one: numbers of the first ones, and values of the next, make numbers of both.
    """
    found: list[Any] = []
    for column in range(len(delete_files[0])):
        values = [columns[column] for columns in (*delete_files, *compared)]
        numbers, count = _rank_values(values, len(delete_files))
        if found:
            pairs = [
                pc.add(pc.multiply(before, pa.scalar(count, pa.int64())), own)
                for before, own in zip(found, numbers, strict=True)
            ]
            numbers, _ = _rank_values(pairs, len(delete_files))
        found = numbers
    return [one.fill_null(-1).to_numpy() for one in found]


def _rank_values(columns: Sequence[Any], delete_files: int) -> tuple[list[Any], int]:
    """Return where each value stands among those of the first columns, null for others, and how many those are."""
    known = pa.chunked_array([chunk for column in columns[:delete_files] for chunk in column.chunks], columns[0].type)
    distinct = pc.unique(known).drop_null()
    everything = pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)
    numbers = pc.index_in(everything, value_set=distinct).cast(pa.int64())
    starts = np.cumsum([0, *(len(column) for column in columns)])
    return [numbers.slice(start, len(column)) for start, column in zip(starts, columns, strict=False)], len(distinct)


def _evict_oldest(known: dict[ScanKey, Numbers], words_max: int) -> dict[ScanKey, Numbers]:
    """Return as much of what is known as there is room for, without what was found first."""
    counts = accumulate(len(words) for words in reversed(known.values()))
    kept = sum(1 for count in counts if count <= words_max)
    return dict(list(known.items())[len(known) - kept :])


@dataclass
class DeletedRowCache:
    """What is known to be hidden of the files that scans of one session met lately."""

    store: Store
    _known: dict[ScanKey, Numbers] = field(default_factory=dict)

    def bits(self, scans: Sequence[FileScan], schema: Schema) -> list[Numbers]:
        """Return for each file the bits of its rows, set for those that are hidden."""
        names = [scan_key_of(scan) for scan in scans]
        # What is known is replaced and never changed, since several threads may scan at once.
        known = self._known
        unknown = {name: scan for name, scan in zip(names, scans, strict=True) if name not in known}
        found = zip(unknown, self._found(list(unknown.values()), schema), strict=True)
        known = known | {name: pack_bits(flags) for name, flags in found}
        self._known = _evict_oldest(known, _WORDS_MAX)
        return [known[name] for name in names]

    def _found(self, scans: Sequence[FileScan], schema: Schema) -> list[Flags]:
        flags: dict[int, Flags] = {}
        delete_files = ScanPlan(tuple(scans)).key_files
        for key_ids in dict.fromkeys(key_file.key_ids for key_file in delete_files):
            chosen = [key_file for key_file in delete_files if key_file.key_ids == key_ids]
            places = [
                place
                for place, scan in enumerate(scans)
                if any(one.key_ids == key_ids for one in scan.equality_deletes)
            ]
            told = self._told(chosen, [scans[place] for place in places], schema)
            for place, deleted_rows in zip(places, told, strict=True):
                flags[place] = flags[place] | deleted_rows if place in flags else deleted_rows
        for place, scan in enumerate(scans):
            deleted_rows = flags.setdefault(place, np.zeros(scan.file.row_count, np.bool_))
            if scan.position_deletes:
                numbers = read_deleted_positions(self.store, scan).to_numpy()
                deleted_rows[numbers[numbers < len(deleted_rows)]] = True
        return [flags[place] for place in range(len(scans))]

    def _told(self, delete_files: Sequence[EqualityDelete], scans: Sequence[FileScan], schema: Schema) -> list[Flags]:
        columns = [schema.column_with_id(key_id) for key_id in delete_files[0].key_ids]
        files = {file.location: file for file in [*(one.file for one in delete_files), *(one.file for one in scans)]}

        def read(file: DataFile) -> Sequence[Any]:
            return read_columns(self.store, file, columns).columns

        keys = dict(zip(files, map_parallel(read, list(files.values())), strict=True))
        return find_rows_deleted_by_keys(
            [(keys[one.file.location], one.position) for one in delete_files],
            [(keys[one.file.location], one.position) for one in scans],
        )


FILE: Final = "mangrove file"
"""The column with the number of a row's file; with a space, so that no column of ours meets it by accident."""
ROW: Final = "mangrove row"
"""The column with a row's number in its file, from 0."""
LOCAL_ROWS_MAX: Final = 8_000_000
"""Up to so many keys and numbers of rows are read into this process; more are left to a join."""
ROW_SPAN_MAX: Final = 2**26
"""Up to so many rows have bits: eight megabytes for every task."""
_ROW_CACHE_ENTRIES_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class DeletionVectors:
    """What is hidden of some files."""

    whole: tuple[FileScan, ...]
    """Those of which nothing is."""
    numbered: tuple[tuple[FileScan, int], ...]
    """The others, each with the number that it must have in the column `FILE`."""
    is_visible: "Expression"
    """The condition that a row of theirs is not hidden, by the columns `FILE` and `ROW`."""


@dataclass
class DeletionVectorCache:
    """The bits of the rows that scans of one session met lately."""

    session: SparkSession
    deleted_rows: DeletedRowCache
    rows_max: int = LOCAL_ROWS_MAX
    _known: dict[tuple[ScanKey, ...], DeletionVectors] = field(default_factory=dict)

    def can_build(self, scans: Sequence[FileScan]) -> bool:
        """Return whether so little must be read and kept for these files that it is done here."""
        return count_delete_rows(scans) <= self.rows_max and sum(scan.file.row_count for scan in scans) <= ROW_SPAN_MAX

    def told(self, scans: Sequence[FileScan], schema: Schema) -> DeletionVectors:
        """Return what is hidden of the files."""
        name = tuple(map(scan_key_of, scans))
        # What is known is replaced and never changed, since several threads may scan at once.
        known = self._known
        if name not in known:
            known = {**dict(list(known.items())[1 - _ROW_CACHE_ENTRIES_MAX :]), name: self._found(scans, schema)}
            self._known = known
        return known[name]

    def _found(self, scans: Sequence[FileScan], schema: Schema) -> DeletionVectors:
        found = list(zip(scans, self.deleted_rows.bits(scans, schema), strict=True))
        some = [(scan, words) for scan, words in found if words.any()]
        # The bits of each file begin with a word, and the number of its first bit tells it from all others.
        starts = accumulate((WORD_BITS * len(words) for _, words in some), initial=0)
        numbered = tuple((scan, start) for (scan, _), start in zip(some, starts, strict=False))
        words = np.concatenate([np.zeros(0, np.int64), *(words for _, words in some)])
        is_hidden = is_bit_set(self.session, words, f.col(f"`{FILE}`") + f.col(f"`{ROW}`"))
        whole = tuple(scan for scan, words in found if not words.any())
        return DeletionVectors(whole, numbered, ~f.coalesce(is_hidden, f.lit(False)))  # noqa: FBT003
