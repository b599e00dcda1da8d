"""Write planning: deltas, file sizes, delete modes, partial upserts and dynamic overwrites.

The table property `write.delete-mode` selects how rows are deleted. By default, or with
"auto", a table with keys uses equality deletes, which commute with compaction, and a
table without keys rewrites the affected files.
"""

import enum
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.expressions.literals import build_period_predicate
from mangrove.expressions.predicates import AllOf, AnyOf, ColumnComparison, IsNull, Operator, Predicate
from mangrove.expressions.sql_expression import Expr
from mangrove.metastore import ALL_ROWS
from mangrove.model.manifests import Author, DataFile, FileKind, Manifest
from mangrove.model.names import suggest_name
from mangrove.model.objects import Delta, DeltaType
from mangrove.model.partitioning import Days, Hours, Identity, Months, Transform, Years
from mangrove.model.paths import SEGMENT_BYTES_MAX
from mangrove.model.properties import NO_PROPERTIES, Properties
from mangrove.model.schema import Schema
from mangrove.model.types import (
    Binary,
    Boolean,
    Char,
    Column,
    DataType,
    Date,
    Decimal,
    Fixed,
    Float32,
    Float64,
    Int16,
    Int32,
    Int64,
    List,
    Map,
    Struct,
    Varchar,
    is_nested,
)
from mangrove.model.values import Value
from mangrove.tables.merge import (
    MergeClause,
    MergeKind,
    MergePlan,
    find_matched_keys,
    find_source_column,
    resolve_clause_values,
)
from mangrove.tables.table_state import TableState

__all__ = [
    "DELETE_MODE",
    "FILE_SIZE_BYTES",
    "INLINE_ROWS",
    "NO_ROWS",
    "PARALLEL_FILE_SIZE_BYTES_MIN",
    "STATISTICS_COLUMNS_MAX",
    "DeleteMode",
    "PlannedDelta",
    "PlannedWrite",
    "ReadRows",
    "RowCounts",
    "build_append_delta",
    "build_compaction_delta",
    "build_data_file_path",
    "build_delete_delta",
    "build_overwrite_delta",
    "build_partition_predicate",
    "build_position_delete_delta",
    "build_rewrite_delta",
    "build_upsert_delta",
    "check_dynamic_overwrite",
    "delete_mode_of",
    "describe_deltas",
    "estimate_row_bytes",
    "estimate_rows_per_file",
    "find_missing_columns",
    "find_upsert_columns",
    "group_files_by_log",
    "has_column_ids",
    "inline_rows_max_bytes_of",
    "plan_full_overwrite",
    "plan_partial_upsert",
    "plan_write",
    "read_condition",
    "read_matches",
    "select_statistics_columns",
    "split_row_ranges",
]


@dataclass(frozen=True, slots=True, repr=False)
class RowCounts:
    """Rows that a write inserted, updated and deleted, as of the version it is based on; None is not known.

    An upsert or a delete by keys does not read the table, so that it never conflicts
    with other writers. Therefore an upsert counts the rows that it wrote in `upserted`,
    and `inserted` and `updated` are None. A delete by keys has None for `deleted`.
    """

    inserted: int | None = 0
    updated: int | None = 0
    deleted: int | None = 0
    upserted: int = 0
    """Rows that an upsert wrote: each of them was inserted or updated."""

    def __repr__(self) -> str:
        more = f", upserted={self.upserted}" if self.upserted else ""
        return f"RowCounts(inserted={self.inserted}, updated={self.updated}, deleted={self.deleted}{more})"

    def __add__(self, other: "RowCounts") -> "RowCounts":
        """Return the rows of two writes together."""
        return RowCounts(
            _sum(self.inserted, other.inserted),
            _sum(self.updated, other.updated),
            _sum(self.deleted, other.deleted),
            self.upserted + other.upserted,
        )


def _sum(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


NO_ROWS: Final = RowCounts()


_NARROW: Final[dict[type, int]] = {Boolean: 1, Int16: 2, Int32: 4, Float32: 4, Date: 4}
_WIDE_BYTES: Final = 8
_VARIABLE_BYTES: Final = 32
"""The assumed size of text and bytes of unknown length."""
_ENTRIES: Final = 4
"""The assumed number of entries of a list or map."""


def estimate_row_bytes(schema: Schema) -> int:
    """Return the estimated size of a row in memory."""
    return sum(_size(column.type) for column in schema.columns)


def estimate_rows_per_file(schema: Schema, file_size_bytes: int) -> int:
    """Return the number of rows of a file of that size, at least one."""
    return max(1, file_size_bytes // max(1, estimate_row_bytes(schema)))


def _size(data_type: DataType) -> int:
    match data_type:
        case Decimal():
            return 16
        case Fixed(length):
            return length
        case Struct(columns):
            return sum(_size(column.type) for column in columns)
        case List(element):
            return _ENTRIES * _size(element.type)
        case Map(key, value):
            return _ENTRIES * (_size(key.type) + _size(value.type))
        case _ if type(data_type) in _NARROW:
            return _NARROW[type(data_type)]
        case Char() | Varchar() | Binary():
            return _VARIABLE_BYTES
        case _:
            return _WIDE_BYTES


DELETE_MODE: Final = "write.delete-mode"
"""The table property for the delete mode: `auto` (default), `keys`, `position` or `copy`."""


class DeleteMode(enum.Enum):
    """How deleted rows are recorded."""

    KEYS = "keys"
    POSITIONS = "position"
    COPIES = "copy"


def delete_mode_of(state: TableState) -> DeleteMode:
    """Return the delete mode of a table."""
    requested = state.properties.get(DELETE_MODE, "auto")
    if requested == "auto":
        return DeleteMode.KEYS if state.version.keys else DeleteMode.COPIES
    if requested == DeleteMode.KEYS.value and not state.version.keys:
        raise InvalidInputError(
            f"{DELETE_MODE} {requested!r} requires keys, but {state.name} has none; set it to 'auto'"
        )
    if requested == DeleteMode.COPIES.value and state.version.keys:
        # An upsert file also deletes older rows, which would reappear if it were replaced.
        raise InvalidInputError(
            f"{DELETE_MODE} {requested!r} is only for tables without keys, but {state.name} has keys; "
            "set it to 'auto' or 'position'"
        )
    try:
        return DeleteMode(requested)
    except ValueError:
        raise InvalidInputError(
            f"invalid {DELETE_MODE} {requested!r} of {state.name}; "
            f"expected auto, {', '.join(one.value for one in DeleteMode)}"
        ) from None


INLINE_ROWS: Final = "write.inline-rows-max-bytes"
"""The table property with the maximum encoded size of rows that a delta contains itself; 0 for none.

Default: 2,000 in trees, unless they are strict, and 0 in the DeltaCAT layouts.
"""


def inline_rows_max_bytes_of(state: TableState) -> int:
    """Return the maximum encoded size of the inline rows of a delta."""
    default = state.inline_rows_default
    text = state.properties.get(INLINE_ROWS, str(default or 0))
    if not text.isdecimal():
        raise InvalidInputError(f"invalid {INLINE_ROWS} {text!r} of {state.name}; expected a number of bytes from 0")
    return 0 if default is None else int(text)


_INVERTIBLE_TRANSFORMS: Final = (Identity, Years, Months, Days, Hours)
"""The transforms whose values determine a predicate on rows."""
_PARTITIONS_MAX: Final = 10_000
"""The maximum number of partitions replaced at once; each is part of a predicate."""


def check_dynamic_overwrite(state: TableState) -> None:
    """Raise an error for a table whose partitions cannot be derived from its rows."""
    fields = state.version.partition_scheme.fields
    if not fields or any(not isinstance(field.transform, _INVERTIBLE_TRANSFORMS) for field in fields):
        raise InvalidInputError(
            f"{state.name} is not partitioned by columns or periods, so partitions cannot be replaced by the rows "
            "in them; give the rows to replace with overwrite(rows, where=…), in SQL with REPLACE WHERE"
        )


def build_partition_predicate(state: TableState, partitions: Iterable[tuple[Value | None, ...]]) -> Predicate | None:
    """Return a predicate for the rows of these partitions, or None if there are none."""
    check_dynamic_overwrite(state)
    fields = state.version.partition_scheme.fields
    columns = [state.schema.column_with_id(field.source_id) for field in fields]
    distinct = list(dict.fromkeys(partitions))
    if len(distinct) > _PARTITIONS_MAX:
        raise InvalidInputError(
            f"the rows are in {len(distinct)} partitions of {state.name}, but at most {_PARTITIONS_MAX} can be "
            "replaced at once; write fewer rows, or overwrite the whole table"
        )
    parts = [
        AllOf(tuple(_equal(columns[place], fields[place].transform, value) for place, value in enumerate(values)))
        for values in distinct
    ]
    return AnyOf(tuple(parts)) if parts else None


def _equal(column: Column, transform: Transform, value: Value | None) -> Predicate:
    if value is None and isinstance(column.type, Float32 | Float64):
        # The partition of null has NaN too, which is greater than all other numbers.
        return AnyOf((IsNull(column.id), ColumnComparison(column.id, Operator.GREATER, math.inf)))
    if value is None:
        return IsNull(column.id)
    if isinstance(transform, Identity):
        return ColumnComparison(column.id, Operator.EQUAL, value)
    return build_period_predicate(column, transform, value)


def find_missing_columns(schema: Schema, given: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a table that are not given."""
    folded = {name.casefold() for name in given}
    return tuple(column.name for column in schema.columns if column.name.casefold() not in folded)


def plan_partial_upsert(state: TableState, given: Sequence[str]) -> MergePlan:
    """Return a merge that sets the given columns of rows with equal keys, and inserts the other rows."""
    known = {column.name.casefold(): column.name for column in state.schema.columns}
    for name in given:
        if name.casefold() not in known:
            raise InvalidInputError(f"{state.name} has no column {name!r}{suggest_name(name, state.schema.names)}")
    folded = {name.casefold(): name for name in given}
    for key in state.key_columns:
        if key.name.casefold() not in folded:
            raise InvalidInputError(f"the rows for {state.name} lack key column {key.name!r}, which an upsert requires")
    values = {known[name]: Expr(f"s.{_quote(written)}") for name, written in folded.items()}
    keys = [column.name for column in state.key_columns]
    changes = {name: value for name, value in values.items() if name not in keys}
    on = " and ".join(f"t.{_quote(name)} = s.{_quote(folded[name.casefold()])}" for name in keys)
    clauses = [MergeClause(MergeKind.INSERT, None, values)]
    if changes:
        clauses.insert(0, MergeClause(MergeKind.MATCHED_UPDATE, None, changes))
    return MergePlan(on, tuple(clauses))


def find_upsert_columns(
    state: TableState, plan: MergePlan, source_columns: Sequence[str], type_of: Callable[[str], DataType | None]
) -> dict[str, str] | None:
    """Return the source column of each table column if a merge is an upsert, else None.

    It is one if it matches rows by exactly the keys of the table, and both updates and inserts
    set every column to the same column of the source. Then its result does not depend on the
    rows of the table. `type_of` returns the type of a source column.
    """
    kinds = {clause.kind for clause in plan.clauses if clause.where is None}
    is_one_of_each = len(plan.clauses) == len(kinds) and kinds == {MergeKind.MATCHED_UPDATE, MergeKind.INSERT}
    if not is_one_of_each or not state.version.keys or delete_mode_of(state) is not DeleteMode.KEYS:
        return None
    own = {name.casefold(): name for name in source_columns}
    keys = find_matched_keys(plan, state.key_columns)
    if keys is None or len(own) < len(source_columns):
        return None
    updated, inserted = (
        {
            name: find_source_column(value, plan)
            for name, value in resolve_clause_values(clause, state.schema, source_columns, plan).items()
        }
        for clause in sorted(plan.clauses, key=lambda clause: clause.kind is MergeKind.INSERT)
    )
    found: dict[str, str] = {}
    for column in state.schema.columns:
        name = inserted.get(column.name)
        same = updated.get(column.name, name if column.name in keys else None)
        if name is None or name not in own or same != name or keys.get(column.name, name) != name:
            return None
        found[column.name] = own[name]
    is_exact = all(_is_same_key_type(key.type, type_of(found[key.name])) for key in state.key_columns)
    return found if is_exact else None


def _is_same_key_type(ours: DataType, theirs: DataType | None) -> bool:
    """Return whether values that SQL finds equal are stored as the same key, so that an upsert replaces the row."""
    if isinstance(ours, Char):
        return False
    families = (Int16 | Int32 | Int64, Varchar)
    return ours == theirs or any(isinstance(ours, family) and isinstance(theirs, family) for family in families)


def _quote(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


FILE_SIZE_BYTES: Final = 256 * 1024 * 1024
"""The maximum size in memory of the rows of one file; the file is usually several times smaller."""
PARALLEL_FILE_SIZE_BYTES_MIN: Final = 64 * 1024 * 1024
"""The minimum size in memory of the rows of files that are encoded in parallel."""
STATISTICS_COLUMNS_MAX: Final = 64
"""The maximum number of columns with bounds, which every scan reads."""
_AUTHOR: Final = Author("mangrove")


@dataclass(frozen=True, slots=True)
class PlannedDelta:
    """A delta and the log that it is appended to."""

    log_values: tuple[Value | None, ...]
    delta: Delta


@dataclass(frozen=True, slots=True)
class PlannedWrite:
    """The deltas of one write, and the rows it read, which must not have changed at commit."""

    deltas: tuple[PlannedDelta, ...] = ()
    counts: RowCounts = NO_ROWS
    read: Predicate | None = None
    """The rows that the write read, or None for a blind write; changes of them conflict at serializable."""
    guarded: Predicate | None = None
    """The rows whose changes conflict at every isolation level."""
    is_of_all_logs: bool = False
    """Whether the write depends on the set of logs, so that a new log conflicts."""


@dataclass(frozen=True, slots=True)
class ReadRows:
    """The rows that a write depends on: those that satisfy a predicate."""

    predicate: Predicate
    is_guarded: bool = True
    """Whether their concurrent changes conflict at snapshot isolation too, and not only those of written keys."""


def read_condition(predicate: Predicate | None) -> ReadRows:
    """Return the rows that a statement with a condition depends on; None is a condition without a predicate."""
    return ReadRows(predicate or ALL_ROWS)


def read_matches(state: TableState, predicate: Predicate | None) -> ReadRows:
    """Return the rows that a merge depends on: those that can match its source, or all for None.

    If the table has keys, snapshot isolation guards the keys that the merge writes.
    """
    return ReadRows(predicate or ALL_ROWS, is_guarded=not state.version.keys)


_POSITION_MAX: Final = 2**62
"""The largest stream position that can be chosen; those after it are left for later deltas."""


def describe_deltas(
    properties: Mapping[str, str] = NO_PROPERTIES, author: str | Author | None = None, position: int | None = None
) -> Callable[[PlannedWrite], PlannedWrite]:
    """Return a function that gives the deltas of a write properties, an author and a chosen stream position."""
    if position is not None and (type(position) is not int or not 1 <= position <= _POSITION_MAX):
        raise InvalidInputError(f"invalid stream position {position!r}; expected an integer from 1 to {_POSITION_MAX}")
    if not isinstance(author, str | Author | None):
        raise InvalidInputError(f"invalid author {author!r}; expected a name or an Author")
    by = Author(author) if isinstance(author, str) else author
    given = Properties(properties)

    def describe(write: PlannedWrite) -> PlannedWrite:
        if position is not None and len({planned.log_values for planned in write.deltas}) < len(write.deltas):
            raise InvalidInputError(
                f"the write has several deltas in one partition, so not all can have the stream position {position}"
            )
        deltas = [
            replace(
                planned,
                delta=replace(
                    planned.delta,
                    properties={**planned.delta.properties, **given},
                    author=by or planned.delta.author,
                    position=position,
                ),
            )
            for planned in write.deltas
        ]
        return replace(write, deltas=tuple(deltas))

    return describe if given or by or position is not None else lambda write: write


def build_data_file_path(table_id: str, file_id: str, folder: str = "", bytes_max: int = SEGMENT_BYTES_MAX) -> str:
    """Return the path of a new data file; each attempt uses a fresh id, so no file is overwritten.

    >>> build_data_file_path("t1", "f1", "day=3/"), build_data_file_path("t1", "f1", "day=3/", bytes_max=20)
    ('data/t1/day=3/f1.parquet', 'data/t1/f1.parquet')
    """
    path = f"data/{table_id}/{folder}{file_id}.parquet"
    return path if len(path) <= bytes_max else f"data/{table_id}/{file_id}.parquet"


def has_column_ids(location: str) -> bool:
    """Return whether a file was written by Mangrove's engines, which give every column its id.

    >>> has_column_ids(build_data_file_path("t1", "f1")), has_column_ids("ns/orders/1/part-0.pq")
    (True, False)
    """
    return location.startswith("data/") and location.endswith(".parquet")


def split_row_ranges(
    row_count: int, size_bytes: int, file_size_bytes: int = FILE_SIZE_BYTES, threads: int = 1
) -> list[tuple[int, int]]:
    """Return the first row and the number of rows of each file, of about equal size.

    Rows for fewer files than threads are split further, so that each thread can encode one; such files do not
    become small.
    """
    in_parallel = min(threads, size_bytes // PARALLEL_FILE_SIZE_BYTES_MIN)
    file_count = min(row_count, max(1, in_parallel, -(-size_bytes // file_size_bytes)))
    ends = [row_count * place // file_count for place in range(file_count + 1)] if file_count else [0]
    return [(start, end - start) for start, end in itertools.pairwise(ends)]


@lru_cache(maxsize=64)
def select_statistics_columns(schema: Schema, first: tuple[int, ...]) -> tuple[tuple[tuple[str, ...], int], ...]:
    """Return the paths and ids of the columns with bounds; those of `first` precede others.

    Only primitive columns are ordered, and only those in structs occur once per row. The last
    results are cached: each small write to a table needs the same.
    """
    inside_lists = {
        path for path, column in schema.all_columns() if is_nested(column.type) and not isinstance(column.type, Struct)
    }
    plain = [
        (path, column.id)
        for path, column in schema.all_columns()
        if not is_nested(column.type) and not any(path[:depth] in inside_lists for depth in range(1, len(path)))
    ]
    ordered = sorted(plain, key=lambda entry: entry[1] not in first)
    return tuple(ordered[:STATISTICS_COLUMNS_MAX])


def group_files_by_log(
    state: TableState, files: Iterable[tuple[tuple[Value | None, ...], DataFile]]
) -> dict[tuple[Value | None, ...], list[DataFile]]:
    """Return new files by log, with their partition values if the log does not imply them."""
    by_log: dict[tuple[Value | None, ...], list[DataFile]] = {}
    scheme_id = None if state.file_scheme is not None else state.version.partition_scheme.id
    for values, file in files:
        if state.log_scheme.fields:
            by_log.setdefault(values, []).append(file)
        else:
            noted = replace(file, partition_values=values, partition_scheme_id=scheme_id) if values else file
            by_log.setdefault((), []).append(noted)
    return by_log


def build_append_delta(files: Sequence[DataFile]) -> Delta:
    """Return the delta that adds rows."""
    return _delta(DeltaType.APPEND, files)


def build_upsert_delta(files: Sequence[DataFile], keys: Sequence[int]) -> Delta:
    """Return the delta that adds rows and deletes earlier ones with the same keys."""
    return _delta(DeltaType.UPSERT, [replace(file, key_ids=tuple(keys)) for file in files])


def build_delete_delta(key_files: Sequence[DataFile], keys: Sequence[int], retained: Sequence[DataFile] = ()) -> Delta:
    """Return the delta that deletes earlier rows with the given keys; `retained` are such rows that remain."""
    delete_files = [replace(file, kind=FileKind.KEY_DELETES, key_ids=tuple(keys)) for file in key_files]
    return _delta(DeltaType.DELETE, [*delete_files, *retained])


def build_overwrite_delta(files: Sequence[DataFile]) -> Delta:
    """Return the delta that replaces all rows of its log by those of `files`."""
    return _delta(DeltaType.REPLACE, files)


def build_rewrite_delta(removed: Iterable[str], files: Sequence[DataFile]) -> Delta:
    """Return the delta that removes single files and adds others."""
    return replace(_delta(DeltaType.REPLACE, files), replaced_locations=tuple(removed))


def build_compaction_delta(files: Sequence[DataFile], through: int) -> Delta:
    """Return the delta whose files have the rows of the log up to the position `through`."""
    return replace(_delta(DeltaType.REPLACE, files), replaces_through=through)


def build_position_delete_delta(position_files: Sequence[DataFile], added: Sequence[DataFile] = ()) -> Delta:
    """Return the delta that deletes single rows of single files, and adds others."""
    return _delta(DeltaType.POSITION_DELETE, [*position_files, *added])


def plan_write(
    deltas: Mapping[tuple[Value | None, ...], Delta],
    counts: RowCounts = NO_ROWS,
    read: ReadRows | None = None,
) -> PlannedWrite:
    """Return the write that adds a delta to each of these logs; `read` are the rows that it depends on."""
    listed = tuple(PlannedDelta(values, delta) for values, delta in deltas.items())
    if read is None:
        return PlannedWrite(listed, counts)
    return PlannedWrite(listed, counts, read.predicate, read.predicate if read.is_guarded else None)


def plan_full_overwrite(
    state: TableState, by_log: Mapping[tuple[Value | None, ...], Sequence[DataFile]], counts: RowCounts = NO_ROWS
) -> PlannedWrite:
    """Return the write that replaces all rows by files, given by log."""
    everywhere = dict.fromkeys([*(log.values for log in state.logs), *by_log])
    write = plan_write({values: build_overwrite_delta(by_log.get(values, ())) for values in everywhere}, counts)
    # The deleted rows are counted, which a serializable transaction may rely on.
    # The single log of a table is replaced by name, even if it was created concurrently.
    return replace(write, read=ALL_ROWS, is_of_all_logs=bool(state.log_scheme.fields))


def _delta(delta_type: DeltaType, files: Sequence[DataFile]) -> Delta:
    return Delta(delta_type, Manifest(tuple(files), author=_AUTHOR), author=_AUTHOR)
