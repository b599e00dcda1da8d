"""Execution of scan plans with Arrow: predicate masks, equality deletes and position deletes.

A scan reads row groups in parallel. Deletes become one mask for each row group, which is cached.

The two columns of position delete files have the names and ids that Iceberg gives them, so that its readers
understand the files as they are.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from threading import Lock
from typing import Any, Final, TypeVar, assert_never
from weakref import WeakValueDictionary

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.errors import InvalidInputError
from mangrove.expressions.predicates import (
    AllOf,
    AnyOf,
    ColumnComparison,
    ConstantPredicate,
    IsIn,
    IsNull,
    Operator,
    Predicate,
    StartsWith,
    collect_column_ids,
)
from mangrove.local.inline_rows import InlineRowsReader
from mangrove.local.keys import find_visible_rows
from mangrove.local.parquet import DataFileReader, open_data_file, read_columns
from mangrove.local.row_group_pruning import prune_row_groups
from mangrove.local.row_numbers import build_row_numbers
from mangrove.model.arrow_schema import schema_to_arrow, type_to_arrow
from mangrove.model.manifests import DataFile
from mangrove.model.schema import Schema
from mangrove.model.types import Column, Decimal, Float32, Float64, Int16, Int32, Int64, Varchar
from mangrove.model.values import Value
from mangrove.parallel import map_ahead, map_parallel
from mangrove.storage.lru import LruCache
from mangrove.storage.port import Store
from mangrove.tables.scan_plan import FileScan, ScanPlan, build_file_test, plan_scan
from mangrove.tables.table_state import TableState

__all__ = [
    "FILE_PATH",
    "POSITION",
    "ROW",
    "RowMaskCache",
    "RowTest",
    "build_position_delete_rows",
    "build_predicate_mask",
    "coalesce_to_false",
    "count_matching_rows",
    "count_visible_rows",
    "get_column",
    "read_deleted_positions",
    "run_scan",
    "run_scan_by_file",
    "select_columns",
    "stream_numbered_rows",
    "stream_scan",
    "take_first_rows",
]

T = TypeVar("T")

FILE_PATH: Final = Column(2_147_483_546, "file_path", Varchar())
POSITION: Final = Column(2_147_483_545, "pos", Int64())


def build_position_delete_rows(location: str, positions: Any) -> pa.Table:
    """Return the rows of a position delete file for the file at `location`."""
    ordered = pc.take(positions, pc.sort_indices(positions))
    arrow = schema_to_arrow(Schema((FILE_PATH, POSITION)))
    return pa.table([pa.repeat(pa.scalar(location), len(ordered)), ordered.cast(pa.int64())], schema=arrow)


def read_deleted_positions(store: Store, scan: FileScan) -> Any:
    """Return the row numbers of a file that position deletes remove, as one array."""
    columns = []
    for file in scan.position_deletes:
        rows = read_columns(store, file, (FILE_PATH, POSITION))
        columns.append(rows.filter(pc.equal(rows.column("file_path"), pa.scalar(scan.file.location))).column("pos"))
    return pa.chunked_array([chunk for column in columns for chunk in column.chunks], pa.int64()).combine_chunks()


_COMPARE: Final[dict[Operator, str]] = {
    Operator.EQUAL: "equal",
    Operator.UNEQUAL: "not_equal",
    Operator.LESS: "less",
    Operator.LESS_OR_EQUAL: "less_equal",
    Operator.GREATER: "greater",
    Operator.GREATER_OR_EQUAL: "greater_equal",
}
"""Names of Arrow's functions; names avoid loading the functions."""
_WITH_NAN: Final = {Operator.UNEQUAL, Operator.GREATER, Operator.GREATER_OR_EQUAL}


def build_predicate_mask(rows: pa.Table, predicate: Predicate, schema: Schema) -> Any:
    """Return true for each row that matches, else false or null; `rows` has the columns of the predicate."""
    match predicate:
        case ConstantPredicate(holds):
            return pa.chunked_array([pa.repeat(pa.scalar(holds), rows.num_rows)])
        case AllOf(parts):
            return functools.reduce(pc.and_kleene, [build_predicate_mask(rows, part, schema) for part in parts])
        case AnyOf(parts):
            return functools.reduce(pc.or_kleene, [build_predicate_mask(rows, part, schema) for part in parts])
        case ColumnComparison() | IsNull() | IsIn() | StartsWith():
            return _leaf_mask(rows, predicate, schema)
        case _:
            assert_never(predicate)


def coalesce_to_false(mask: Any) -> Any:
    """Return the mask with null replaced by false, as SQL filters do."""
    no: Any = pa.scalar(value=False)
    return pc.fill_null(mask, no)


def get_column(rows: pa.Table, path: tuple[str, ...]) -> Any:
    """Return a column, or a field nested in structs."""
    array: Any = rows.column(path[0])
    for name in path[1:]:
        array = pc.struct_field(array, name)
    return array


def _leaf_mask(rows: pa.Table, leaf: ColumnComparison | IsNull | IsIn | StartsWith, schema: Schema) -> Any:
    column = schema.column_with_id(leaf.column_id)
    array = get_column(rows, schema.path_of(leaf.column_id))
    match leaf:
        case IsNull(_, negated):
            return pc.is_valid(array) if negated else pc.is_null(array)
        case ColumnComparison(_, operator, value):
            return _compare_column(array, column, operator, value)
        case IsIn(_, values, negated):
            equal = [_compare_column(array, column, Operator.EQUAL, value) for value in values]
            mask = functools.reduce(pc.or_kleene, equal)
            return pc.invert(mask) if negated else mask
        case StartsWith(_, prefix, negated):
            mask = pc.starts_with(array, prefix)
            return pc.invert(mask) if negated else mask
        case _:
            assert_never(leaf)


def _compare_column(array: Any, column: Column, operator: Operator, value: Value) -> Any:
    match column.type:
        case Int16() | Int32() | Int64():
            # The value may be outside the range of a narrow column.
            return pc.call_function(_COMPARE[operator], [array.cast(pa.int64()), pa.scalar(value, pa.int64())])
        case Decimal(_, scale):
            wide = pa.decimal128(38, scale)
            return pc.call_function(_COMPARE[operator], [array.cast(wide), pa.scalar(value, wide)])
        case Float32() | Float64():
            wide_array = array.cast(pa.float64())
            mask = pc.call_function(_COMPARE[operator], [wide_array, pa.scalar(value, pa.float64())])
            is_nan = pc.is_nan(wide_array)
            if operator in _WITH_NAN:
                return pc.or_kleene(mask, is_nan)
            return pc.and_kleene(mask, pc.invert(is_nan))
        case _:
            return pc.call_function(_COMPARE[operator], [array, pa.scalar(value, type_to_arrow(column.type))])


ROW: Final = "mangrove row"
"""The column that numbers the rows of a file from 0; the space avoids a clash with table columns."""
_IN_FLIGHT_BYTES_MAX: Final = 256 * 1024 * 1024
"""The size in memory of the row groups that are decoded ahead of the reader."""
_COMPARED_ROWS_MAX: Final = 16 * 1024 * 1024
"""The number of rows whose keys are compared with delete keys at once, which bounds memory."""
_VECTORS_BYTES_MAX: Final = 64 * 1024 * 1024


def select_columns(state: TableState, names: Sequence[str] | None) -> tuple[Column, ...]:
    """Return the columns of a table with these names in the given order, or all."""
    if names is None:
        return state.schema.columns
    are_texts = not isinstance(names, str) and all(isinstance(name, str) for name in names)
    if not are_texts or len({name.casefold() for name in names}) != len(names):
        raise InvalidInputError(f"invalid columns {names!r}; expected a list of distinct names")
    return tuple(state.schema.column(name) for name in names)


_Deletes = frozenset[tuple[str, tuple[int, ...]]]
"""Delete files by location and key columns; position delete files have none."""


class RowMaskCache:
    """Deletion vectors of row groups by the delete files that apply to them; an LRU cache bounded by bytes.

    Data and delete files never change, so an entry stays valid. A vector is a mask that is true for
    visible rows. A newer state of a table usually has the deletes of an older one and some more, so
    that the vector of the older one is extended.
    """

    def __init__(self, bytes_max: int = _VECTORS_BYTES_MAX) -> None:
        self._entries: LruCache[tuple[_Deletes, pa.BooleanArray]] = LruCache(bytes_max)

    def apply(self, group: "_RowGroup") -> "_RowGroup":
        """Return the row group with the best cached vector, and only those deletes that the vector does not include."""
        deletes = group.deletes
        for key in ((*group.key, deletes), group.key):
            entry = self._entries.get(key)
            if entry is not None and entry[0] <= deletes:
                return replace(group, scan=_exclude_deletes(group.scan, entry[0]), visible=entry[1])
        return group

    def put(self, group: "_RowGroup", vector: "pa.BooleanArray") -> None:
        """Cache the vector of a row group, also for states with more deletes."""
        deletes = group.deletes
        size_bytes = vector.nbytes + _KEY_BYTES * (1 + len(deletes))
        self._entries.put((*group.key, deletes), (deletes, vector), size_bytes)
        newest = self._entries.get(group.key)
        if newest is None or not deletes < newest[0]:
            self._entries.put(group.key, (deletes, vector), size_bytes)


_KEY_BYTES: Final = 200
"""About the size of a location in memory."""


@dataclass(frozen=True, slots=True)
class _RowGroup:
    """Some consecutive rows of a file: a row group, or all rows of a file that is not opened."""

    place: int
    """The index of the file in the plan."""
    scan: FileScan
    """The file with the deletes that `visible` does not include."""
    reader: DataFileReader | InlineRowsReader | None
    number: int
    start: int
    count: int
    size_bytes: int
    keys: pa.Table | None = None
    """The key columns, if they are read already."""
    visible: Any = None
    """The deletion vector; None if no deletes are applied."""
    is_matching: bool = False
    """Whether all rows satisfy the predicate by the statistics of the file."""

    @property
    def key(self) -> tuple[str, int]:
        """The identity of the row group in all states of the table."""
        return self.scan.file.location, self.number

    @property
    def deletes(self) -> _Deletes:
        """The deletes of the scan."""
        by_keys = [(one.file.location, one.key_ids) for one in self.scan.equality_deletes]
        return frozenset([*by_keys, *((file.location, ()) for file in self.scan.position_deletes)])


def _exclude_deletes(scan: FileScan, deletes: _Deletes) -> FileScan:
    """Return the scan without some of its deletes."""
    return replace(
        scan,
        equality_deletes=tuple(one for one in scan.equality_deletes if (one.file.location, one.key_ids) not in deletes),
        position_deletes=tuple(file for file in scan.position_deletes if (file.location, ()) not in deletes),
    )


def run_scan(
    store: Store,
    state: TableState,
    plan: ScanPlan,
    columns: Sequence[Column],
    predicate: Predicate | None = None,
    vectors: RowMaskCache | None = None,
) -> pa.Table:
    """Return the rows of a plan that match, with these columns."""
    if not columns:
        return pa.table({"rows": pa.nulls(count_matching_rows(store, state, plan, predicate, vectors))}).select([])
    arrow = schema_to_arrow(Schema(tuple(columns)))
    parts = stream_scan(store, state, plan, columns, predicate, vectors)
    return pa.concat_tables([pa.Table.from_batches([], arrow), *parts])


def stream_scan(
    store: Store,
    state: TableState,
    plan: ScanPlan,
    columns: Sequence[Column],
    predicate: Predicate | None = None,
    vectors: RowMaskCache | None = None,
) -> Iterator[pa.Table]:
    """Yield the rows of a plan that match, one row group after the other, with these columns.

    Later row groups are read in parallel, as many as fit in a fixed amount of memory.
    """
    scanner = _Scanner(store, state, plan, tuple(columns), predicate, vectors)
    return (rows for _, rows in scanner.map_row_groups(scanner.read))


def count_matching_rows(
    store: Store,
    state: TableState,
    plan: ScanPlan,
    predicate: Predicate | None = None,
    vectors: RowMaskCache | None = None,
) -> int:
    """Return the number of rows of a plan that match; only keys and columns of the predicate are read."""
    scanner = _Scanner(store, state, plan, (), predicate, vectors)
    return sum(count for _, count in scanner.map_row_groups(scanner.count))


def count_visible_rows(store: Store, state: TableState, vectors: RowMaskCache | None = None) -> int:
    """Return the number of rows of a table; only keys are read, and only where deletes apply."""
    return count_matching_rows(store, state, plan_scan(state), vectors=vectors)


@dataclass(frozen=True, slots=True)
class RowTest:
    """A condition on the visible rows of a scan that no predicate expresses."""

    columns: tuple[Column, ...]
    """The columns that the condition uses."""
    evaluate: Callable[[pa.Table], Any]
    """Returns for each row whether it matches, never null."""


def stream_numbered_rows(
    store: Store,
    state: TableState,
    plan: ScanPlan,
    columns: Sequence[Column],
    predicate: Predicate | None = None,
    test: RowTest | None = None,
    vectors: RowMaskCache | None = None,
) -> Iterator[tuple[FileScan, pa.Table]]:
    """Yield the rows that are visible and match, by row group, with these columns and their row numbers in the file.

    Only the columns of the conditions are read of row groups without such rows.
    """
    scanner = _Scanner(store, state, plan, tuple(columns), predicate, vectors, test)
    return ((plan.scans[group.place], rows) for group, rows in scanner.map_row_groups(scanner.read_numbered))


def run_scan_by_file(
    store: Store,
    state: TableState,
    plan: ScanPlan,
    columns: Sequence[Column],
    predicate: Predicate | None = None,
    vectors: RowMaskCache | None = None,
) -> list[tuple[FileScan, pa.Table]]:
    """Return the rows of each file that are visible and match, with these columns and their row numbers."""
    arrow = schema_to_arrow(Schema(tuple(columns))) if columns else pa.schema([])
    empty = pa.Table.from_batches([], arrow.append(pa.field(ROW, pa.int64())))
    parts = {scan.file.location: [empty] for scan in plan.scans}
    for scan, rows in stream_numbered_rows(store, state, plan, columns, predicate, vectors=vectors):
        parts[scan.file.location].append(rows)
    return [(scan, pa.concat_tables(parts[scan.file.location])) for scan in plan.scans]


class _Scanner:
    """Reads the row groups of one plan."""

    def __init__(
        self,
        store: Store,
        state: TableState,
        plan: ScanPlan,
        columns: tuple[Column, ...],
        predicate: Predicate | None,
        vectors: RowMaskCache | None,
        test: RowTest | None = None,
    ) -> None:
        self._store = store
        self._schema = state.schema
        self._plan = plan
        self._columns = columns
        self._predicate = predicate
        self._matches_all = None if predicate is None else build_file_test(state, predicate)
        self._vectors = vectors
        self._test = test
        self._is_filtered = predicate is not None or test is not None
        self._predicate_columns = _select_predicate_columns(state.schema, predicate)
        self._key_file_locks = {one.file.location: Lock() for one in plan.key_files}
        self._key_file_readers: WeakValueDictionary[str, DataFileReader | InlineRowsReader] = WeakValueDictionary()
        self._delete_keys: dict[tuple[str, tuple[int, ...]], pa.Table] = {}

    def map_row_groups(self, work: Callable[[_RowGroup], T]) -> Iterator[tuple[_RowGroup, T]]:
        """Yield each row group of the plan with the result of `work`, in order."""
        # Inline rows are decoded in less time than a thread needs to start.
        scans = groupby(enumerate(self._plan.scans), key=lambda numbered: numbered[1].file.is_inline)
        opened = (
            groups
            for is_inline, some in scans
            for groups in (map(self._open, some) if is_inline else map_ahead(self._open, some))
        )
        by_kind = groupby(
            self._with_vectors(group for groups in opened for group in groups),
            key=lambda group: group.scan.file.is_inline,
        )
        for is_inline, groups in by_kind:
            if is_inline:
                yield from ((group, work(group)) for group in groups)
            else:
                yield from map_ahead(
                    lambda group: (group, work(group)), groups, lambda group: group.size_bytes, _IN_FLIGHT_BYTES_MAX
                )

    def read(self, group: _RowGroup) -> pa.Table:
        """Return the rows of a row group that are visible and match."""
        mask, loaded = self._match(group)
        if mask is not None and not mask.true_count:
            return self._no_rows
        rows = self._load(group, loaded, self._columns)
        return rows if mask is None or mask.true_count == group.count else _filter_rows(rows, mask)

    @functools.cached_property
    def _no_rows(self) -> pa.Table:
        return pa.Table.from_batches([], schema_to_arrow(Schema(self._columns)))

    def read_numbered(self, group: _RowGroup) -> pa.Table:
        """Return the same rows with their row numbers in the file."""
        mask, loaded = self._match(group)
        if self._test is not None and (mask is None or mask.true_count):
            mask, loaded = self._apply_test(self._test, group, mask, loaded)
        if mask is not None and not mask.true_count:
            empty = self._no_rows if self._columns else pa.table({})
            return empty.append_column(ROW, pa.array([], pa.int64()))
        rows = pa.table({ROW: build_row_numbers(group.count, group.start)})
        if self._columns:
            rows = self._load(group, loaded, self._columns).append_column(ROW, rows.column(ROW))
        return rows if mask is None or mask.true_count == group.count else rows.filter(mask)

    def count(self, group: _RowGroup) -> int:
        """Return the number of rows of a row group that are visible and match."""
        mask, _ = self._match(group)
        return group.count if mask is None else int(mask.true_count)

    def _match(self, group: _RowGroup) -> tuple[Any, pa.Table | None]:
        """Return the mask of the rows that are visible and match, None for all, and the columns read for it."""
        if self._predicate is None or group.is_matching:
            return group.visible, group.keys
        rows = self._load(group, group.keys, self._predicate_columns)
        if not self._predicate_columns:
            rows = pa.table({"row": pa.nulls(group.count)})
        mask = coalesce_to_false(build_predicate_mask(rows, self._predicate, self._schema)).combine_chunks()
        return (mask if group.visible is None else pc.and_(mask, group.visible)), rows

    def _apply_test(self, test: RowTest, group: _RowGroup, mask: Any, loaded: pa.Table | None) -> tuple[Any, pa.Table]:
        """Return the mask of the rows that pass a test too, and the columns read so far.

        The test may fail on other rows, so these are dropped before.
        """
        rows = self._load(group, loaded, test.columns) if test.columns else pa.table({"row": pa.nulls(group.count)})
        if mask is None or mask.true_count == group.count:
            return test.evaluate(rows), rows
        found = test.evaluate(rows.filter(mask))
        return pc.replace_with_mask(mask, mask, found), rows

    def _load(self, group: _RowGroup, loaded: pa.Table | None, columns: Sequence[Column]) -> pa.Table:
        """Return columns of a row group; those that are loaded already are not decoded again."""
        present = set() if loaded is None else set(loaded.column_names)
        missing = [column for column in columns if column.name not in present]
        rows = group.reader.read_row_group(group.number, missing) if missing and group.reader is not None else None
        if loaded is None or len(missing) == len(columns):
            return pa.table({}) if rows is None else rows
        arrays = [
            (loaded if column.name in present or rows is None else rows).column(column.name) for column in columns
        ]
        return pa.table(arrays, schema=schema_to_arrow(Schema(tuple(columns))))

    def _open(self, numbered: tuple[int, FileScan]) -> list[_RowGroup]:
        """Return the row groups of a file that can contain matching rows."""
        place, scan = numbered
        if not self._columns and not self._is_filtered and not scan.equality_deletes:
            # Nothing of the file is read: the manifest has the number of its rows.
            return [_RowGroup(place, scan, None, _WHOLE_FILE, 0, scan.file.row_count, 0)]
        reader = self._open_file(scan.file)
        is_matching = self._matches_all is not None and self._matches_all(scan.file)
        if isinstance(reader, InlineRowsReader):
            size_bytes = scan.file.source_size_bytes or 0
            return [_RowGroup(place, scan, reader, 0, 0, reader.row_count, size_bytes, is_matching=is_matching)]
        groups = [reader.metadata.row_group(number) for number in range(reader.metadata.num_row_groups)]
        starts = [0, *accumulate(group.num_rows for group in groups)]
        row_bytes = (scan.file.source_size_bytes or 0) // max(1, scan.file.row_count)
        # Dictionaries make the encoded size several times smaller than the size in memory.
        sizes = [max(group.total_byte_size, group.num_rows * row_bytes) for group in groups]
        return [
            _RowGroup(
                place,
                scan,
                reader,
                number,
                starts[number],
                groups[number].num_rows,
                sizes[number],
                is_matching=is_matching,
            )
            for number in prune_row_groups(reader, scan.file, self._schema, self._predicate)
        ]

    def _open_file(self, file: DataFile) -> DataFileReader | InlineRowsReader:
        """Open a file; one that is read for its rows and for its delete keys is opened once."""
        if file.location not in self._key_file_locks:
            return open_data_file(self._store, file)
        with self._key_file_locks[file.location]:
            reader = self._key_file_readers.get(file.location) or open_data_file(self._store, file)
            self._key_file_readers[file.location] = reader
            return reader

    def _with_vectors(self, groups: Iterable[_RowGroup]) -> Iterator[_RowGroup]:
        """Yield the row groups with their deletion vectors; missing ones are computed for many at once."""
        waiting: list[_RowGroup] = []
        row_count = 0
        for group in groups:
            extended = group if group.scan.is_whole or self._vectors is None else self._vectors.apply(group)
            waiting.append(extended)
            row_count += 0 if extended.scan.is_whole else group.count
            if not row_count or row_count >= _COMPARED_ROWS_MAX:
                yield from self._compute_vectors(waiting)
                waiting, row_count = [], 0
        yield from self._compute_vectors(waiting)

    def _compute_vectors(self, groups: Sequence[_RowGroup]) -> list[_RowGroup]:
        """Return the row groups with all deletes applied; keys that are read stay with the row group."""
        completed = list(groups)
        missing = [place for place, group in enumerate(groups) if not group.scan.is_whole]
        numbered = {groups[place].scan.file.location: groups[place].scan for place in missing}
        positions = dict(zip(numbered, map_parallel(self._read_positions, list(numbered.values())), strict=True))
        by_keys: dict[_DeleteGroup, list[int]] = {}
        for place in missing:
            group = groups[place]
            completed[place] = _mask_positions(group, positions[group.scan.file.location])
            for key_ids in dict.fromkeys(one.key_ids for one in group.scan.equality_deletes):
                by_keys.setdefault((group.scan.log_values, key_ids), []).append(place)
        for (_, key_ids), places in by_keys.items():
            compared = self._compare_keys(key_ids, [completed[one] for one in places])
            for place, group in zip(places, compared, strict=True):
                completed[place] = group
        if self._vectors is not None:
            for place in missing:
                whole = replace(completed[place], scan=self._plan.scans[completed[place].place])
                self._vectors.put(whole, whole.visible)
        return completed

    def _compare_keys(self, key_ids: tuple[int, ...], groups: Sequence[_RowGroup]) -> Iterator[_RowGroup]:
        """Yield row groups of one log without the rows that equality deletes with these key columns remove."""
        keys = self._key_columns(key_ids)
        tables = map_parallel(lambda group: self._load(group, group.keys, keys), groups)
        parts = [(rows, group.scan.position) for group, rows in zip(groups, tables, strict=True)]
        masks = find_visible_rows(parts, self._read_delete_keys(key_ids, groups), keys)
        for group, rows, mask in zip(groups, tables, masks, strict=True):
            yield replace(_mask(group, mask), keys=rows)

    def _read_positions(self, scan: FileScan) -> Any:
        return read_deleted_positions(self._store, scan) if scan.position_deletes else None

    def _read_delete_keys(self, key_ids: tuple[int, ...], groups: Sequence[_RowGroup]) -> list[tuple[pa.Table, int]]:
        """Return the keys and positions of the deletes of some row groups; each file is read once for the plan."""
        deletes = {
            (one.file.location, one.position): one
            for group in groups
            for one in group.scan.equality_deletes
            if one.key_ids == key_ids
        }
        keys = self._key_columns(key_ids)
        files = {
            (one.file.location, key_ids): one.file
            for one in deletes.values()
            if (one.file.location, key_ids) not in self._delete_keys
        }
        tables = map_parallel(lambda file: self._open_file(file).read_all(keys), list(files.values()))
        self._delete_keys |= dict(zip(files, tables, strict=True))
        return [(self._delete_keys[one.file.location, key_ids], one.position) for one in deletes.values()]

    def _key_columns(self, key_ids: Iterable[int]) -> list[Column]:
        return [self._schema.column_with_id(key_id) for key_id in key_ids]


_DeleteGroup = tuple[tuple[Value | None, ...], tuple[int, ...]]
"""The partition values of a log and the key columns of some of its equality deletes."""
_WHOLE_FILE: Final = -1


def _mask_positions(group: _RowGroup, positions: Any) -> _RowGroup:
    """Return the row group without the rows at these positions."""
    if positions is None:
        return group
    return _mask(group, pc.invert(pc.is_in(build_row_numbers(group.count, group.start), positions)))


def _mask(group: _RowGroup, mask: Any) -> _RowGroup:
    """Return the row group with only those of its visible rows for which the mask is true."""
    return replace(group, visible=mask if group.visible is None else pc.and_(group.visible, mask))


def _filter_rows(rows: pa.Table, mask: Any) -> pa.Table:
    """Return the rows for which the mask is true."""
    if mask.true_count < len(mask) // 2:
        return rows.filter(mask)
    # Runs of rows are copied at once; the filter of a table takes rows one by one.
    return pa.table([column.filter(mask) for column in rows.columns], schema=rows.schema)


def _select_predicate_columns(schema: Schema, predicate: Predicate | None) -> tuple[Column, ...]:
    """Return the columns of a table that a predicate refers to."""
    roots = {schema.path_of(column_id)[0] for column_id in (collect_column_ids(predicate) if predicate else ())}
    return tuple(column for column in schema.columns if column.name in roots)


def take_first_rows(parts: Iterable[pa.Table], name: str, count: int, *, is_descending: bool) -> pa.Table | None:
    """Return the first rows in the order of a column, nulls last; only these and one part are in memory."""
    first: pa.Table | None = None
    keys: Any = [(name, "descending" if is_descending else "ascending")]
    for part in parts:
        rows = part if first is None else pa.concat_tables([first, part])
        first = rows.take(pc.sort_indices(rows, sort_keys=keys).slice(0, count))
    return first
