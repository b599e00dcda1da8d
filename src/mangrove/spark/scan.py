"""Running a scan plan on Spark: its own reader, with bits or anti-joins where something hides rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from mangrove.errors import FormatError
from mangrove.local.positions import FILE_PATH
from mangrove.local.positions import POSITION as ROW_NUMBER
from mangrove.model.manifests import PARQUET, DataFile
from mangrove.model.schema import Schema
from mangrove.model.types import Column
from mangrove.spark.file_lists import FileLists, ListedFile
from mangrove.spark.names_apart import named_apart, named_back
from mangrove.spark.row_bits import FILE, ROW
from mangrove.spark.types import spark_schema
from mangrove.tables.predicate_sql import predicate_sql
from mangrove.tables.predicates import Predicate, column_ids
from mangrove.tables.scan_plan import FileScan, KeyFile, ScanPlan
from mangrove.tables.table_state import TableState
from mangrove.tables.writing import has_column_ids

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression

__all__ = ["BROADCAST_ROWS_MAX", "listed", "quoted", "scanned"]

BROADCAST_ROWS_MAX: Final = 5_000_000
"""Up to so many newer keys are sent to every executor; more are left to Spark's own choice of a join."""
_POSITION: Final = "mangrove position"
"""Names with a space, that no column of ours meets by accident."""
_HIDDEN_BEFORE: Final = "mangrove hidden before"


def scanned(
    lists: FileLists,
    root_uri: str,
    state: TableState,
    plan: ScanPlan,
    columns: Sequence[Column],
    predicate: Predicate | None = None,
) -> DataFrame:
    """Return the rows that a plan means, with these columns.

    Files that nothing hides rows of are scanned as they are; only the others are
    compared with keys or numbers.
    """
    apart = named_apart(state.schema, state.version.earlier_schemas)
    by_id = {column.id: column for column in apart.columns}
    wanted = [by_id[column.id] for column in columns]
    # Spark would find out by itself which columns it needs, and a worker of ours would not.
    schema = _narrowed(apart, plan, wanted, predicate)
    asked = frozenset[int]() if predicate is None else column_ids(predicate)
    rows = _united(_parts(lists, root_uri, schema, plan.scans, asked))
    if predicate is not None:
        rows = rows.where(predicate_sql(predicate, apart))
    if tuple(wanted) != schema.columns:
        # Naming each column costs more calls of Java than all else here.
        rows = rows.select(*(quoted(column.name) for column in wanted))
    return named_back(rows, apart, state.schema)


def _parts(
    lists: FileLists, root_uri: str, schema: Schema, scans: Sequence[FileScan], asked: frozenset[int]
) -> list[DataFrame]:
    """Return the visible rows of the files, in as few readings as ways of telling which rows those are."""
    whole = [scan for scan in scans if scan.is_whole]
    touched = [scan for scan in scans if not scan.is_whole]
    columns = spark_schema(schema)
    parts: list[DataFrame] = []
    split = _split(lists, root_uri, schema, touched, asked)
    if split.by_keys:
        assert split.is_shown is not None
        rows = lists.read(listed((scan.file for scan in split.by_keys), root_uri), columns)
        parts.append(rows.where(split.is_shown))
    if split.by_numbers:
        assert lists.row_bits is not None
        told = lists.row_bits.told(split.by_numbers, schema)
        whole += told.whole
        if told.numbered:
            files = [_listed(scan.file, root_uri, number) for scan, number in told.numbered]
            parts.append(lists.read_numbered(files, columns, FILE, ROW).where(told.is_shown).drop(FILE, ROW))
    if split.joined:
        parts.append(_visible(lists, root_uri, schema, split.joined))
    if whole or not parts:
        parts.insert(0, lists.read(listed((scan.file for scan in whole), root_uri), columns))
    return parts


def listed(files: Iterable[DataFile], root_uri: str) -> list[ListedFile]:
    """Return the files as Spark finds them."""
    return [_listed(file, root_uri, 0) for file in files]


def quoted(name: str) -> str:
    """Return the name as it stands in an expression."""
    return f"`{name.replace('`', '``')}`"


def _narrowed(schema: Schema, plan: ScanPlan, columns: Sequence[Column], predicate: Predicate | None) -> Schema:
    """Return no more columns than are asked for, looked into or compared; at least one."""
    asked = {column.id for column in columns} | {one for key_file in plan.key_files for one in key_file.key_ids}
    looked_into = {schema.path_of(one)[0] for one in (column_ids(predicate) if predicate is not None else ())}
    needed = [column for column in schema.columns if column.id in asked or column.name in looked_into]
    return replace(schema, columns=tuple(needed or schema.columns[:1]))


def _listed(file: DataFile, root_uri: str, number: int) -> ListedFile:
    if file.content_type != PARQUET:
        raise FormatError(f"{file.path} is {file.content_type}: only Parquet files are read")
    return ListedFile(root_uri + file.path, file.size_bytes, number, has_column_ids(file.location))


@dataclass(frozen=True, slots=True)
class _Split:
    """Files of which something may hide rows, by how it is told which rows that are."""

    by_keys: Sequence[FileScan]
    """By a bit for each key. All of them are older than all keys, since such bits say nothing of positions."""
    is_shown: "Expression | None"
    """The condition that none of those keys is a row's."""
    by_numbers: Sequence[FileScan]
    """By a bit for each row: where all that can hide rows is little enough to be looked at in this process."""
    joined: Sequence[FileScan]
    """By a join with the keys, and with the numbers of rows."""


def _split(lists: FileLists, root_uri: str, schema: Schema, scans: Sequence[FileScan], asked: frozenset[int]) -> _Split:
    """Decide how each file is read; the upserts' own files, which are few rows, come before those that are older.

    What is asked about keys narrows both sides of a join, and all keys would have to be read for bits.
    """
    hiding = ScanPlan(tuple(scans)).key_files
    oldest = min((key_file.position for key_file in hiding), default=0)
    older = [scan for scan in scans if scan.position < oldest and not scan.position_deletes]
    younger = [scan for scan in scans if scan.position >= oldest or scan.position_deletes]
    is_shown = _key_condition(lists, schema, hiding) if older else None
    by_numbers: list[FileScan] = []
    joined: list[FileScan] = []
    row_bits = lists.row_bits if asked.isdisjoint(one for key_file in hiding for one in key_file.key_ids) else None
    for group in (younger, older if is_shown is None else []):
        is_told = row_bits is not None and row_bits.can_tell([*by_numbers, *group])
        (by_numbers if is_told else joined).extend(group)
    if by_numbers and not lists.tells_apart(listed((scan.file for scan in by_numbers), root_uri), spark_schema(schema)):
        by_numbers, joined = [], [*by_numbers, *joined]
    return _Split(older if is_shown is not None else [], is_shown, by_numbers, joined)


def _key_condition(lists: FileLists, schema: Schema, hiding: Sequence[KeyFile]) -> "Expression | None":
    """Return the condition that none of the keys is a row's, where bits can say it."""
    key_ids = {key_file.key_ids for key_file in hiding}
    if lists.key_bits is None or len(key_ids) != 1:
        return None
    return lists.key_bits.is_shown(hiding, [schema.column_with_id(key_id) for key_id in next(iter(key_ids))])


def _visible(lists: FileLists, root_uri: str, schema: Schema, scans: Sequence[FileScan]) -> DataFrame:
    """Return the rows that nothing hides of files of which something hides rows.

    A file of keys that stands after a file but is not among those that hide its rows
    has none of its keys, so all of them may be compared with all files at once.
    """
    hiding = list(dict.fromkeys(key_file for scan in scans for key_file in scan.hidden_by))
    numbered = [scan for scan in scans if scan.position_deletes]
    keyed = [_listed(scan.file, root_uri, scan.position) for scan in scans if not scan.position_deletes]
    parts = [lists.read_numbered(keyed, spark_schema(schema), _POSITION)] if keyed else []
    for position in dict.fromkeys(scan.position for scan in numbered):
        there = [scan for scan in numbered if scan.position == position]
        found = _without_numbers(lists, root_uri, schema, there)
        parts.append(found.withColumn(_POSITION, f.lit(position).cast("bigint")))
    rows = _united(parts)
    newest = max(scan.position for scan in scans)
    for key_ids in dict.fromkeys(key_file.key_ids for key_file in hiding):
        chosen = [key_file for key_file in hiding if key_file.key_ids == key_ids]
        rows = _without_keys(lists, root_uri, rows, schema, chosen, newest)
    return rows.drop(_POSITION)


def _without_keys(
    lists: FileLists,
    root_uri: str,
    rows: DataFrame,
    schema: Schema,
    key_files: Sequence[KeyFile],
    newest: int,
) -> DataFrame:
    """Return the rows that no key hides; where all keys are newer than all rows, only keys are compared."""
    columns = [schema.column_with_id(key_id) for key_id in key_files[0].key_ids]
    only_keys = spark_schema(Schema(tuple(columns), last_column_id=schema.last_column_id))
    aliases = [f.col(quoted(column.name)).alias(f"mangrove key {place}") for place, column in enumerate(columns)]
    ours = [f.col(quoted(column.name)) for column in columns]
    is_hidden = reduce(
        lambda left, right: left & right,
        [own == f.col(quoted(f"mangrove key {place}")) for place, own in enumerate(ours)],
    )
    if min(key_file.position for key_file in key_files) > newest:
        keys = lists.read(listed((key_file.file for key_file in key_files), root_uri), only_keys).select(*aliases)
    else:
        placed = [_listed(key_file.file, root_uri, key_file.position) for key_file in key_files]
        keys = lists.read_numbered(placed, only_keys, _HIDDEN_BEFORE).select(*aliases, f.col(quoted(_HIDDEN_BEFORE)))
        is_hidden = is_hidden & (f.col(quoted(_POSITION)) < f.col(quoted(_HIDDEN_BEFORE)))
    if sum(key_file.file.row_count for key_file in key_files) <= BROADCAST_ROWS_MAX:
        keys = f.broadcast(keys)
    return rows.join(keys, is_hidden, "left_anti")


def _without_numbers(lists: FileLists, root_uri: str, schema: Schema, scans: Sequence[FileScan]) -> DataFrame:
    """Return the rows whose number in their file nothing names."""
    files = [_listed(scan.file, root_uri, number) for number, scan in enumerate(scans)]
    rows = lists.read_numbered(files, spark_schema(schema), FILE, ROW)
    saying = dict.fromkeys(file for scan in scans for file in scan.position_deletes)
    said = lists.read(listed(saying, root_uri), spark_schema(Schema((FILE_PATH, ROW_NUMBER))))
    names = lists.session.createDataFrame(
        [(scan.file.location, number) for number, scan in enumerate(scans)], "location string, file bigint"
    )
    gone = said.join(f.broadcast(names), f.col(FILE_PATH.name) == f.col("location")).select("file", ROW_NUMBER.name)
    renamed = gone.select(f.col("file").alias("mangrove gone file"), f.col(ROW_NUMBER.name).alias("mangrove gone row"))
    if sum(file.row_count for file in saying) <= BROADCAST_ROWS_MAX:
        renamed = f.broadcast(renamed)
    is_gone = (f.col(quoted(FILE)) == f.col("`mangrove gone file`")) & (
        f.col(quoted(ROW)) == f.col("`mangrove gone row`")
    )
    return rows.join(renamed, is_gone, "left_anti").drop(FILE, ROW)


def _united(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda left, right: left.unionByName(right), frames)
