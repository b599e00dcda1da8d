"""Execution of scan plans on Spark, with deletion vectors or anti-joins.

A row-level change reads rows with the number of their file (`FILE`) and their position
in it (`ROW`).

Spark resolves columns by field id, but pushed-down filters and expected types by the
current column name. In a file that was written before two columns swapped names, that is
the other column, and matching rows would be skipped. Such columns are read under unused
names, which are never pushed down.

Partition columns are read from folder names (see `tables.partition_folders`), under the
names that they have there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from mangrove.errors import FormatError, InvalidInputError
from mangrove.expressions.predicates import Predicate, collect_column_ids, render_predicate_sql
from mangrove.local.scan import FILE_PATH
from mangrove.local.scan import POSITION as ROW_NUMBER
from mangrove.model.manifests import PARQUET, DataFile
from mangrove.model.schema import Schema
from mangrove.model.types import Column, DataType, List, Map, Struct, has_nanoseconds
from mangrove.spark.deletion_vectors import FILE, ROW, WORD_BITS, number_scans
from mangrove.spark.file_lists import FileLists, ListedFile
from mangrove.spark.types import to_spark_schema, to_spark_type
from mangrove.tables.partition_folders import PartitionFolders
from mangrove.tables.scan_plan import EqualityDelete, FileScan, ScanPlan, plan_scan
from mangrove.tables.table_state import TableState
from mangrove.tables.write_plan import has_column_ids

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression


__all__ = [
    "BROADCAST_ROWS_MAX",
    "alias_reused_columns",
    "column_of",
    "number_files",
    "quote_name",
    "read_target_rows",
    "restore_column_names",
    "run_scan",
    "to_listed_files",
]


def alias_reused_columns(schema: Schema, earlier: Sequence[Schema]) -> Schema:
    """Return the schema with aliases for columns whose name, or a nested name, belonged to another column.

    Spark compares names case-insensitively.
    """
    if not earlier:
        return schema
    now = {_fold_case(path): (path[0], column.id) for path, column in schema.all_columns()}
    once = ((now.get(_fold_case(path)), column.id) for old in earlier for path, column in old.all_columns())
    taken = {found[0] for found, column_id in once if found is not None and found[1] != column_id}
    if not taken:
        return schema
    columns = (_alias_column(column) if column.name in taken else column for column in schema.columns)
    return replace(schema, columns=tuple(columns))


def restore_column_names(rows: DataFrame, aliased: Schema, schema: Schema) -> DataFrame:
    """Rename the columns of rows from one schema to the other."""
    if aliased is schema:
        return rows
    read = set(rows.columns)
    pairs = [pair for pair in zip(aliased.columns, schema.columns, strict=True) if pair[0].name in read]
    # A cast matches nested fields by position.
    whole = {
        one.name: f.col(f"`{one.name}`").cast(to_spark_type(named.type))
        for one, named in pairs
        if one.type != named.type
    }
    return (rows.withColumns(whole) if whole else rows).withColumnsRenamed(
        {one.name: named.name for one, named in pairs if one.name != named.name}
    )


def _alias_column(column: Column) -> Column:
    return replace(column, name=f"mangrove column {column.id}", type=_apart_inside(column.type))


def _apart_inside(given: DataType) -> DataType:
    match given:
        case Struct(columns):
            return Struct(tuple(map(_alias_column, columns)))
        case List(element):
            return List(replace(element, type=_apart_inside(element.type)))
        case Map(key, value):
            return Map(replace(key, type=_apart_inside(key.type)), replace(value, type=_apart_inside(value.type)))
        case _:
            return given


def _fold_case(path: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.casefold() for name in path)


BROADCAST_ROWS_MAX: Final = 5_000_000
"""Maximum number of keys for a broadcast join; Spark chooses the join for more."""
_POSITION: Final = "mangrove position"
"""The space avoids collisions with table columns."""
_DELETED_BEFORE: Final = "mangrove deleted before"
_OTHER: Final = "mangrove other"
_KEYED: Final = 1
"""Added to the number of a file, which is a multiple of `WORD_BITS`, if a key bitmap masks its rows."""


def run_scan(
    lists: FileLists,
    root_uri: str,
    state: TableState,
    plan: ScanPlan,
    columns: Sequence[Column],
    predicate: Predicate | None = None,
) -> DataFrame:
    """Return the visible rows of a scan plan with these columns.

    Files without deletes are scanned directly; only the others are compared with keys
    or positions.
    """
    folders = _find_partition_folders(state)
    aliased = _use_folder_names(alias_reused_columns(state.schema, state.version.earlier_schemas), folders)
    by_id = {column.id: column for column in aliased.columns}
    selected = [by_id[column.id] for column in columns]
    # Spark prunes columns itself, but the Python worker does not.
    schema = _narrow_schema(aliased, plan, selected, predicate, folders)
    _check_readable(state, schema)
    requested = frozenset[int]() if predicate is None else collect_column_ids(predicate)
    rows = _union_frames(_parts(_ScanFiles(lists, root_uri, schema, folders), plan.scans, requested))
    if predicate is not None:
        rows = rows.where(render_predicate_sql(predicate, aliased))
    if tuple(selected) != schema.columns:
        # Selecting each column costs many JVM calls.
        rows = rows.select(*(quote_name(column.name) for column in selected))
    return restore_column_names(rows, aliased, state.schema)


def _check_readable(state: TableState, schema: Schema) -> None:
    """Raise an error for columns of types that Spark does not have, which it would read with fewer digits."""
    names = {column.id: column.name for column in state.schema.columns}
    found = [names[column.id] for column in schema.columns if has_nanoseconds(column.type)]
    if found:
        raise InvalidInputError(
            f"{state.name} has nanosecond timestamps in {', '.join(found)}, which Spark does not have; select and "
            "filter other columns, or read with engine='duckdb' in SQL or with to_arrow in Python"
        )


def column_of(name: str, of: str | None = None) -> "Expression":
    """Return a column by its exact name, optionally qualified by a frame alias."""
    # An expression takes fewer calls of the JVM than a column.
    return f.expr(quote_name(name) if of is None else f"{quote_name(of)}.{quote_name(name)}")


def number_files(state: TableState) -> dict[str, int]:
    """Return a number for each live data file."""
    return number_scans(plan_scan(state).scans)


def read_target_rows(lists: FileLists, root_uri: str, state: TableState, plan: ScanPlan) -> DataFrame:
    """Return the visible rows of a scan plan with all columns of the table, `FILE` and `ROW`."""
    if not plan.scans:
        empty = lists.read([], to_spark_schema(state.schema))
        return empty.withColumns({FILE: f.lit(0).cast("bigint"), ROW: f.lit(0).cast("bigint")})
    aliased = alias_reused_columns(state.schema, state.version.earlier_schemas)
    files = _ScanFiles(lists, root_uri, aliased, None, number_files(state))
    return restore_column_names(_union_frames(_parts(files, plan.scans, frozenset())), aliased, state.schema)


def _find_partition_folders(state: TableState) -> PartitionFolders | None:
    """Return the folders from which Spark can read partition columns; None if there are none.

    A name in a folder must never have been the name of another column, which Spark would
    use to filter the rows of files outside of such folders.
    """
    scheme = state.log_scheme if state.log_scheme.fields else state.file_scheme
    if scheme is None:
        return None
    folders = PartitionFolders(scheme, state.schema)
    ids = {name.casefold(): column_id for name, column_id in folders.columns.items()}
    columns = [column for schema in state.version.schemas for column in schema.columns]
    is_reused = any(ids.get(column.name.casefold(), column.id) != column.id for column in columns)
    return None if is_reused or not ids else folders


def _use_folder_names(schema: Schema, folders: PartitionFolders | None) -> Schema:
    """Return the schema with the names that partition columns have in folders."""
    names = {} if folders is None else {column_id: name for name, column_id in folders.columns.items()}
    if all(names.get(column.id, column.name) == column.name for column in schema.columns):
        return schema
    return replace(
        schema, columns=tuple(replace(column, name=names.get(column.id, column.name)) for column in schema.columns)
    )


@dataclass(frozen=True, slots=True)
class _ScanFiles:
    """What the scans of one table have in common."""

    lists: FileLists
    root_uri: str
    schema: Schema
    folders: PartitionFolders | None
    numbers: Mapping[str, int] | None = None
    """The numbers of the files if rows are read with `FILE` and `ROW`."""

    def to_listed_file(self, scan: FileScan, number: int = 0) -> ListedFile:
        """Return the file of a scan for Spark, with its partition folder."""
        listed = _to_listed_file(scan.file, self.root_uri, number)
        if self.folders is None:
            return listed
        # A file has values of its own if its log has none; values of both give no folder.
        values = scan.log_values + (scan.file.partition_values or ())
        folder = self.folders.find_folder(scan.file.location, values)
        return replace(listed, folder=folder) if folder else listed

    def number(self, scans: Sequence[FileScan]) -> Mapping[str, int]:
        """Return the numbers of the files of scans."""
        return number_scans(scans) if self.numbers is None else self.numbers

    def read(self, scans: Sequence[FileScan]) -> DataFrame:
        """Return the rows of the files of scans."""
        if self.numbers is not None:
            return self.read_numbered([(scan, self.numbers[scan.file.location]) for scan in scans], FILE, ROW)
        return self.lists.read([self.to_listed_file(scan) for scan in scans], to_spark_schema(self.schema))

    def read_numbered(
        self, numbered: Iterable[tuple[FileScan, int]], number: str, row_index: str | None = None
    ) -> DataFrame:
        """Return the rows with a column for the number of their file and optionally one for their position."""
        files = [self.to_listed_file(scan, file_number) for scan, file_number in numbered]
        return self.lists.read_numbered(files, to_spark_schema(self.schema), number, row_index)


def _parts(files: _ScanFiles, scans: Sequence[FileScan], requested: frozenset[int]) -> list[DataFrame]:
    """Return the visible rows of the files: in one scan, and in another one if deletes have to be joined."""
    split = _split(files, [scan for scan in scans if not scan.is_whole], requested)
    joined = {scan.file.location for scan in split.joined}
    others = [scan for scan in scans if scan.file.location not in joined]
    parts = [_read_masked(files, others, split)] if others or not joined else []
    return [*parts, _visible(files, split.joined)] if joined else parts


def _read_masked(files: _ScanFiles, scans: Sequence[FileScan], split: "_Split") -> DataFrame:
    """Return the rows of files that no bitmap masks.

    All files are one scan, because Spark does not compile what is above a union together with the scans below it.
    A row without deletes pays for the test of a bit, which takes less time.
    """
    keyed = {scan.file.location for scan in split.by_keys}
    numbers, is_visible = files.numbers, None
    if split.by_numbers:
        assert files.lists.row_bits is not None
        deleted = {scan.file.location for scan in split.by_numbers}
        numbers = numbers or number_scans(sorted(scans, key=lambda scan: scan.file.location not in deleted))
        is_visible = files.lists.row_bits.load(split.by_numbers, files.schema, numbers)
    numbers = files.numbers if is_visible is None else numbers
    if is_visible is None and len(keyed) in (0, len(scans)):
        return files.read(scans).where(split.is_visible) if split.is_visible is not None else files.read(scans)
    if split.is_visible is not None:
        is_keyed = column_of(FILE).bitwiseAND(f.lit(WORD_BITS - 1)) == f.lit(_KEYED)
        is_visible = f.when(is_keyed, split.is_visible).otherwise(f.lit(True) if is_visible is None else is_visible)  # noqa: FBT003
    assert is_visible is not None
    first_bits = dict.fromkeys((scan.file.location for scan in scans), 0) if numbers is None else numbers
    numbered = [(scan, first_bits[scan.file.location] + _KEYED * (scan.file.location in keyed)) for scan in scans]
    rows = files.read_numbered(numbered, FILE, None if numbers is None else ROW).where(is_visible)
    if files.numbers is None:
        return rows.drop(FILE, ROW)
    return rows.withColumn(FILE, column_of(FILE).bitwiseAND(f.lit(-WORD_BITS))) if keyed else rows


def to_listed_files(files: Iterable[DataFile], root_uri: str) -> list[ListedFile]:
    """Return the files for Spark."""
    return [_to_listed_file(file, root_uri, 0) for file in files]


def quote_name(name: str) -> str:
    """Return the quoted name."""
    return f"`{name.replace('`', '``')}`"


def _narrow_schema(
    schema: Schema,
    plan: ScanPlan,
    columns: Sequence[Column],
    predicate: Predicate | None,
    folders: PartitionFolders | None,
) -> Schema:
    """Return the columns that the projection, filter, deletes and partition folders need; at least one."""
    requested = {column.id for column in columns} | {one for key_file in plan.key_files for one in key_file.key_ids}
    requested.update(() if folders is None else folders.columns.values())
    looked_into = {schema.path_of(one)[0] for one in (collect_column_ids(predicate) if predicate is not None else ())}
    needed = [column for column in schema.columns if column.id in requested or column.name in looked_into]
    readable = [column for column in schema.columns if not has_nanoseconds(column.type)]
    return replace(schema, columns=tuple(needed or [*readable, *schema.columns][:1]))


def _to_listed_file(file: DataFile, root_uri: str, number: int) -> ListedFile:
    if file.content_type != PARQUET and not file.is_inline:
        raise FormatError(f"{file.path} has the content type {file.content_type}; only Parquet files can be read")
    inline = file if file.is_inline else None
    return ListedFile(root_uri + file.path, file.size_bytes, number, has_column_ids(file.location), inline=inline)


@dataclass(frozen=True, slots=True)
class _Split:
    """Files with deletes, by how the deletes are applied."""

    by_keys: Sequence[FileScan]
    """By key bitmap; all files are older than all keys, because a bitmap has no log positions."""
    is_visible: "Expression | None"
    """The condition that a row has none of the deleted keys."""
    by_numbers: Sequence[FileScan]
    """By deletion vector, if the deletes are small enough for this process."""
    joined: Sequence[FileScan]
    """By anti-join with keys and positions."""


def _split(files: _ScanFiles, scans: Sequence[FileScan], requested: frozenset[int]) -> _Split:
    """Decide how deletes apply to each file.

    A filter on keys narrows both sides of a join, whereas a bitmap needs all keys.
    """
    lists, schema = files.lists, files.schema
    delete_files = ScanPlan(tuple(scans)).key_files
    oldest = min((key_file.position for key_file in delete_files), default=0)
    older = [scan for scan in scans if scan.position < oldest and not scan.position_deletes]
    younger = [scan for scan in scans if scan.position >= oldest or scan.position_deletes]
    is_visible = _key_condition(lists, schema, delete_files) if older else None
    by_numbers: list[FileScan] = []
    joined: list[FileScan] = []
    row_bits = (
        lists.row_bits if requested.isdisjoint(one for key_file in delete_files for one in key_file.key_ids) else None
    )
    for group in (younger, older if is_visible is None else []):
        some = [*by_numbers, *group]
        is_small = row_bits is not None and row_bits.can_build(some, files.number(some))
        (by_numbers if is_small else joined).extend(group)
    if by_numbers and not lists.can_number_files(
        [files.to_listed_file(scan) for scan in by_numbers], to_spark_schema(schema)
    ):
        by_numbers, joined = [], [*by_numbers, *joined]
    return _Split(older if is_visible is not None else [], is_visible, by_numbers, joined)


def _key_condition(lists: FileLists, schema: Schema, delete_files: Sequence[EqualityDelete]) -> "Expression | None":
    """Return the condition that a row has none of the keys, if a bitmap can express it."""
    key_ids = {key_file.key_ids for key_file in delete_files}
    if lists.key_bits is None or len(key_ids) != 1:
        return None
    return lists.key_bits.is_visible(delete_files, [schema.column_with_id(key_id) for key_id in next(iter(key_ids))])


def _visible(files: _ScanFiles, scans: Sequence[FileScan]) -> DataFrame:
    """Return the visible rows of files with deletes.

    A later key file that does not apply to a data file has none of its keys, so all keys
    can be compared with all files at once.
    """
    delete_files = list(dict.fromkeys(key_file for scan in scans for key_file in scan.equality_deletes))
    numbered = [scan for scan in scans if scan.position_deletes]
    keyed = [scan for scan in scans if not scan.position_deletes]
    parts = [_read_with_positions(files, keyed)] if keyed else []
    for position in dict.fromkeys(scan.position for scan in numbered):
        at_position = [scan for scan in numbered if scan.position == position]
        found = _without_numbers(files, at_position)
        parts.append(found.withColumn(_POSITION, f.lit(position).cast("bigint")))
    rows = _union_frames(parts)
    newest = max(scan.position for scan in scans)
    for key_ids in dict.fromkeys(key_file.key_ids for key_file in delete_files):
        chosen = [key_file for key_file in delete_files if key_file.key_ids == key_ids]
        rows = _without_keys(files.lists, files.root_uri, rows, files.schema, chosen, newest)
    return rows.drop(_POSITION)


def _read_with_positions(files: _ScanFiles, scans: Sequence[FileScan]) -> DataFrame:
    """Return the rows with the log position of their file."""
    if files.numbers is None:
        return files.read_numbered([(scan, scan.position) for scan in scans], _POSITION)
    placed = [(files.numbers[scan.file.location], scan.position) for scan in scans]
    positions = files.lists.session.createDataFrame(
        placed, f"{quote_name(_OTHER)} bigint, {quote_name(_POSITION)} bigint"
    )
    return files.read(scans).join(f.broadcast(positions), column_of(FILE) == column_of(_OTHER)).drop(_OTHER)


def _without_keys(
    lists: FileLists,
    root_uri: str,
    rows: DataFrame,
    schema: Schema,
    key_files: Sequence[EqualityDelete],
    newest: int,
) -> DataFrame:
    """Return the rows that no key deletes; log positions are compared only if necessary."""
    columns = [schema.column_with_id(key_id) for key_id in key_files[0].key_ids]
    only_keys = to_spark_schema(Schema(tuple(columns), last_column_id=schema.last_column_id))
    aliases = [f.col(quote_name(column.name)).alias(f"mangrove key {place}") for place, column in enumerate(columns)]
    ours = [f.col(quote_name(column.name)) for column in columns]
    is_deleted = reduce(
        lambda left, right: left & right,
        [own == f.col(quote_name(f"mangrove key {place}")) for place, own in enumerate(ours)],
    )
    if min(key_file.position for key_file in key_files) > newest:
        keys = lists.read(to_listed_files((key_file.file for key_file in key_files), root_uri), only_keys).select(
            *aliases
        )
    else:
        placed = [_to_listed_file(key_file.file, root_uri, key_file.position) for key_file in key_files]
        keys = lists.read_numbered(placed, only_keys, _DELETED_BEFORE).select(
            *aliases, f.col(quote_name(_DELETED_BEFORE))
        )
        is_deleted = is_deleted & (f.col(quote_name(_POSITION)) < f.col(quote_name(_DELETED_BEFORE)))
    if sum(key_file.file.row_count for key_file in key_files) <= BROADCAST_ROWS_MAX:
        keys = f.broadcast(keys)
    return rows.join(keys, is_deleted, "left_anti")


def _without_numbers(files: _ScanFiles, scans: Sequence[FileScan]) -> DataFrame:
    """Return the rows that no position delete references."""
    numbers = files.number(scans)
    rows = files.read_numbered([(scan, numbers[scan.file.location]) for scan in scans], FILE, ROW)
    delete_files = dict.fromkeys(file for scan in scans for file in scan.position_deletes)
    position_deletes = files.lists.read(
        to_listed_files(delete_files, files.root_uri), to_spark_schema(Schema((FILE_PATH, ROW_NUMBER)))
    )
    names = files.lists.session.createDataFrame(
        [(scan.file.location, numbers[scan.file.location]) for scan in scans], "location string, file bigint"
    )
    deleted = position_deletes.join(f.broadcast(names), f.col(FILE_PATH.name) == f.col("location")).select(
        "file", ROW_NUMBER.name
    )
    renamed = deleted.select(
        f.col("file").alias("mangrove deleted file"), f.col(ROW_NUMBER.name).alias("mangrove deleted row")
    )
    if sum(file.row_count for file in delete_files) <= BROADCAST_ROWS_MAX:
        renamed = f.broadcast(renamed)
    is_deleted_row = (column_of(FILE) == column_of("mangrove deleted file")) & (
        column_of(ROW) == column_of("mangrove deleted row")
    )
    visible = rows.join(renamed, is_deleted_row, "left_anti")
    return visible.drop(FILE, ROW) if files.numbers is None else visible


def _union_frames(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda left, right: left.unionByName(right), frames)
