"""Which rows of a few files are hidden, by newer keys or by their numbers, found in this process.

Files never change, so what is hidden by the same other files stays hidden: it is
found once, and kept as one bit for each row. A scan then asks for the bit of a row's
number in its file and compares no keys, whatever their types are and however many
columns they have. A join would read all keys again in each query, and build a hash
table of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mangrove.local.at_once import at_once
from mangrove.local.parquet import read_columns
from mangrove.local.positions import deleted_positions
from mangrove.model.manifests import DataFile
from mangrove.model.schema import Schema
from mangrove.spark.bit_arrays import Flags, Numbers, words_of
from mangrove.storage.port import Store
from mangrove.tables.scan_plan import FileScan, KeyFile, ScanPlan

__all__ = ["HiddenRows", "ScanName", "hidden_by_keys", "name_of", "rows_to_read"]

ScanName: TypeAlias = tuple[str, int, tuple[tuple[str, int], ...], tuple[str, ...]]
"""What decides which rows of a file are hidden: its location and position, those of the keys, and files of numbers."""

_WORDS_MAX: Final = 1024 * 1024
"""So many words of bits are kept at most: eight megabytes."""


def name_of(scan: FileScan) -> ScanName:
    """Return what tells apart all scans of which other rows may be hidden; names of files are never used twice."""
    hiding = tuple((key_file.file.location, key_file.position) for key_file in scan.hidden_by)
    return scan.file.location, scan.position, hiding, tuple(file.location for file in scan.position_deletes)


def rows_to_read(scans: Iterable[FileScan]) -> int:
    """Return how many keys and numbers tell what is hidden of the files, each file counted once."""
    read: dict[str, int] = {}
    for scan in scans:
        if scan.hidden_by:
            read[scan.file.location] = scan.file.row_count
        read |= {key_file.file.location: key_file.file.row_count for key_file in scan.hidden_by}
        read |= {file.location: file.row_count for file in scan.position_deletes}
    return sum(read.values())


def hidden_by_keys(
    hiding: Sequence[tuple[Sequence[Any], int]], compared: Sequence[tuple[Sequence[Any], int]]
) -> list[Flags]:
    """Return for each row whether its key comes at a later position; both are given as key columns with a position.

    Where a part of a key is null it is equal to no other.

    >>> old, new = pa.chunked_array([[5, 6, None]]), pa.chunked_array([[6, None]])
    >>> hidden_by_keys([([old], 1), ([new], 2)], [([old], 1), ([new], 2)])
    [array([False,  True, False]), array([False, False])]
    """
    places = _places([columns for columns, _ in hiding], [columns for columns, _ in compared])
    newest = np.full(1 + max((int(found.max(initial=-1)) for found in places[: len(hiding)]), default=-1), -1)
    for (_, position), found in sorted(zip(hiding, places, strict=False), key=lambda pair: pair[0][1]):
        newest[found[found >= 0]] = position
    newest = np.append(newest, -1)  # which is what a key finds that hides nothing: its place is -1
    return [newest[found] > position for (_, position), found in zip(compared, places[len(hiding) :], strict=True)]


def _places(hiding: Sequence[Sequence[Any]], compared: Sequence[Sequence[Any]]) -> list[Numbers]:
    """Return for each key of the files a number that equal keys share, and -1 for one that hides nothing.

    Columns are taken one by one: numbers of the first ones, and values of the next, make numbers of both.
    """
    found: list[Any] = []
    for column in range(len(hiding[0])):
        values = [columns[column] for columns in (*hiding, *compared)]
        numbers, count = _numbered(values, len(hiding))
        if found:
            pairs = [
                pc.add(pc.multiply(before, pa.scalar(count, pa.int64())), own)
                for before, own in zip(found, numbers, strict=True)
            ]
            numbers, _ = _numbered(pairs, len(hiding))
        found = numbers
    return [one.fill_null(-1).to_numpy() for one in found]


def _numbered(columns: Sequence[Any], hiding: int) -> tuple[list[Any], int]:
    """Return where each value stands among those of the first columns, null for others, and how many those are."""
    known = pa.chunked_array([chunk for column in columns[:hiding] for chunk in column.chunks], columns[0].type)
    distinct = pc.unique(known).drop_null()
    everything = pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)
    numbers = pc.index_in(everything, value_set=distinct).cast(pa.int64())
    starts = np.cumsum([0, *(len(column) for column in columns)])
    return [numbers.slice(start, len(column)) for start, column in zip(starts, columns, strict=False)], len(distinct)


def _latest(known: dict[ScanName, Numbers], words_max: int) -> dict[ScanName, Numbers]:
    """Return as much of what is known as there is room for, without what was found first."""
    counts = accumulate(len(words) for words in reversed(known.values()))
    kept = sum(1 for count in counts if count <= words_max)
    return dict(list(known.items())[len(known) - kept :])


@dataclass
class HiddenRows:
    """What is known to be hidden of the files that scans of one session met lately."""

    store: Store
    _known: dict[ScanName, Numbers] = field(default_factory=dict)

    def bits(self, scans: Sequence[FileScan], schema: Schema) -> list[Numbers]:
        """Return for each file the bits of its rows, set for those that are hidden."""
        names = [name_of(scan) for scan in scans]
        # What is known is replaced and never changed, since several threads may scan at once.
        known = self._known
        unknown = {name: scan for name, scan in zip(names, scans, strict=True) if name not in known}
        found = zip(unknown, self._found(list(unknown.values()), schema), strict=True)
        known = known | {name: words_of(flags) for name, flags in found}
        self._known = _latest(known, _WORDS_MAX)
        return [known[name] for name in names]

    def _found(self, scans: Sequence[FileScan], schema: Schema) -> list[Flags]:
        flags: dict[int, Flags] = {}
        hiding = ScanPlan(tuple(scans)).key_files
        for key_ids in dict.fromkeys(key_file.key_ids for key_file in hiding):
            chosen = [key_file for key_file in hiding if key_file.key_ids == key_ids]
            places = [
                place for place, scan in enumerate(scans) if any(one.key_ids == key_ids for one in scan.hidden_by)
            ]
            told = self._told(chosen, [scans[place] for place in places], schema)
            for place, hidden in zip(places, told, strict=True):
                flags[place] = flags[place] | hidden if place in flags else hidden
        for place, scan in enumerate(scans):
            hidden = flags.setdefault(place, np.zeros(scan.file.row_count, np.bool_))
            if scan.position_deletes:
                numbers = deleted_positions(self.store, scan).to_numpy()
                hidden[numbers[numbers < len(hidden)]] = True
        return [flags[place] for place in range(len(scans))]

    def _told(self, hiding: Sequence[KeyFile], scans: Sequence[FileScan], schema: Schema) -> list[Flags]:
        columns = [schema.column_with_id(key_id) for key_id in hiding[0].key_ids]
        files = {file.location: file for file in [*(one.file for one in hiding), *(one.file for one in scans)]}

        def read(file: DataFile) -> Sequence[Any]:
            return read_columns(self.store, file, columns).columns

        keys = dict(zip(files, at_once(read, list(files.values())), strict=True))
        return hidden_by_keys(
            [(keys[one.file.location], one.position) for one in hiding],
            [(keys[one.file.location], one.position) for one in scans],
        )
