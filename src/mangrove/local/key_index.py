"""Index of the keys of a table: one bit for each visible integer key.

A change of rows by key needs to know whether other rows have the same keys, and which keys
are new. Comparing the changed keys with all keys of the table reads these again for each
change. The index has them once. Data files never change and a log grows at its end, so the
index of an earlier state is continued with the files that were added since.

A table has an index only if no two visible rows share a key, which appends can cause.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from mangrove.local.parquet import read_columns
from mangrove.model.manifests import FileKind
from mangrove.model.types import Column, Int16, Int32, Int64
from mangrove.parallel import map_parallel
from mangrove.storage.lru import LruCache
from mangrove.storage.port import Store
from mangrove.tables.scan_plan import LiveFile, list_live_files
from mangrove.tables.table_state import TableState

__all__ = ["KeyIndex", "KeyIndexCache"]

_Flags: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.bool_]]"
_Bits: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.uint8]]"
_Keys: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"

_ROWS_MAX: Final = 8_000_000
"""Maximum number of keys that are read for an index (64 MB)."""
_SPAN_MAX: Final = 2**26
"""Maximum range between the smallest and the largest key: 8 MB of bits."""
_SPARSENESS_MAX: Final = 16
"""Maximum number of integers in that range for each key."""
_SMALL_SPAN: Final = 2**20
_BYTES_MAX: Final = 32 * 1024 * 1024
_ENTRY_BYTES: Final = 200
"""About the size of a location in memory."""


@dataclass(frozen=True, slots=True)
class KeyIndex:
    """The distinct integer keys of the visible rows of a table, as bits from `first`."""

    first: int
    bits: _Bits

    def count(self, keys: Any) -> int:
        """Return how many of these distinct keys, an Arrow column, the table has.

        >>> KeyIndex(10, np.packbits([True, False, True])).count(pa.chunked_array([[9, 10, 11, 12, 99]]))
        2
        """
        places = _select_range(_to_integers(keys), self.first, self.first + 8 * len(self.bits))
        return int(np.count_nonzero(self.bits[places >> 3] & (0x80 >> (places & 7))))


@dataclass(frozen=True, slots=True)
class _Entry:
    """The index of a state, None if it has none, and the files that the state consists of."""

    files: tuple[tuple[str, int], ...]
    index: KeyIndex | None


class KeyIndexCache:
    """The indexes of the recently changed tables."""

    def __init__(self, rows_max: int = _ROWS_MAX, bytes_max: int = _BYTES_MAX) -> None:
        self._rows_max = rows_max
        self._entries: LruCache[_Entry] = LruCache(bytes_max)

    def load(self, store: Store, state: TableState, compared_rows: int) -> KeyIndex | None:
        """Return the index of a state, or None if it has none.

        It is continued, or built if the keys of at least half of all rows would be compared without it.
        """
        key = _find_integer_key(state)
        if key is None:
            return None
        alive = [live for log in state.logs for live in list_live_files(log.deltas) if live.file.row_count]
        files = tuple((live.file.location, live.position) for live in alive)
        known = self._entries.get(state.table_id)
        if known is not None and known.files == files:
            return known.index
        place = _find_continuation(known, alive)
        if not place and 2 * compared_rows < sum(live.file.row_count for live in alive if live.is_data):
            return None
        index = known.index if known is not None and place else None
        is_possible = not place or index is not None
        added = alive[place:]
        if is_possible and all(_has_keys(live, key) for live in added):
            index = self._continue(store, index, added, key)
        else:
            index = None
        size_bytes = _ENTRY_BYTES * (1 + len(files)) + (0 if index is None else index.bits.nbytes)
        self._entries.put(state.table_id, _Entry(files, index), size_bytes)
        return index

    def _continue(
        self, store: Store, index: KeyIndex | None, added: Sequence[LiveFile], key: Column
    ) -> KeyIndex | None:
        """Return the index after some more files, or None if rows share a key or have none."""
        if sum(live.file.row_count for live in added) > self._rows_max:
            return None

        def read(live: LiveFile) -> Any:
            return read_columns(store, live.file, [key]).column(0)

        columns = map_parallel(read, added)
        if any(column.null_count for live, column in zip(added, columns, strict=True) if live.is_data):
            return None
        keys = [_to_integers(column) for column in columns]
        rows = [some for live, some in zip(added, keys, strict=True) if live.is_data]
        grown = _grow(index, rows)
        if grown is None:
            return None
        first, flags = grown
        row_count = int(np.count_nonzero(flags))
        for _, numbered in groupby(enumerate(added), key=lambda pair: pair[1].position):
            together = list(numbered)
            # The deletes of a delta apply to the rows of earlier ones.
            for place, live in together:
                if live.deletes_earlier_rows:
                    places = _select_range(np.unique(keys[place]), first, first + len(flags))
                    row_count -= int(np.count_nonzero(flags[places]))
                    flags[places] = False
            for place, live in together:
                if live.is_data:
                    flags[keys[place] - first] = True
                    row_count += len(keys[place])
        # A key that is added twice counts twice, also if it is deleted later.
        return KeyIndex(first, np.packbits(flags)) if row_count == np.count_nonzero(flags) else None


def _find_integer_key(state: TableState) -> Column | None:
    """Return the only key of a table with one log, if it is an integer."""
    if len(state.version.keys) != 1 or state.is_part or state.log_scheme.fields or len(state.logs) != 1:
        return None
    (key,) = state.key_columns
    return key if isinstance(key.type, Int16 | Int32 | Int64) else None


def _has_keys(live: LiveFile, key: Column) -> bool:
    """Return whether a file adds rows or deletes rows by the key of the table."""
    is_keyed = not live.deletes_earlier_rows or live.file.key_ids in ((), (key.id,))
    return live.file.kind is not FileKind.POSITION_DELETES and is_keyed


def _find_continuation(known: _Entry | None, alive: Sequence[LiveFile]) -> int:
    """Return the number of files of a state that an earlier state consists of; 0 if it is not an earlier one."""
    count = 0 if known is None else len(known.files)
    if known is None or not 0 < count < len(alive):
        return 0
    is_prefix = known.files == tuple((live.file.location, live.position) for live in alive[:count])
    return count if is_prefix and alive[count - 1].position < alive[count].position else 0


def _grow(index: KeyIndex | None, added: Sequence[_Keys]) -> tuple[int, _Flags] | None:
    """Return the first key and the flags of an index with room for more keys, or None if these are too far apart."""
    lows = [int(keys.min()) for keys in added] + ([] if index is None else [index.first])
    highs = [int(keys.max()) for keys in added] + ([] if index is None else [index.first + 8 * len(index.bits) - 1])
    if not lows:
        return 0, np.zeros(0, np.bool_)
    first, span = min(lows), max(highs) - min(lows) + 1
    old = np.zeros(0, np.bool_) if index is None else np.unpackbits(index.bits).view(np.bool_)
    row_count = sum(map(len, added)) + int(np.count_nonzero(old))
    if span > min(_SPAN_MAX, max(_SMALL_SPAN, _SPARSENESS_MAX * row_count)):
        return None
    flags = np.zeros(span, np.bool_)
    if index is not None:
        flags[index.first - first : index.first - first + len(old)] = old
    return first, flags


def _to_integers(column: Any) -> _Keys:
    """Return the values of an Arrow column that are not null."""
    found: _Keys = column.cast(pa.int64()).drop_null().to_numpy()
    return found


def _select_range(keys: _Keys, first: int, end: int) -> _Keys:
    """Return the distances from `first` of the keys before `end`; the difference of others may exceed their type."""
    return keys[(keys >= first) & (keys < end)] - first
