"""Commands that read, ingest, update, delete and publish the rows of a table."""

import datetime
import decimal
import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from mangrove.cli.catalog import build_list_table
from mangrove.cli.command import lake_command
from mangrove.cli.completion import offer_columns, offer_files, offer_tables
from mangrove.cli.context import CommandContext, parse_key_values, split_location
from mangrove.cli.environment import check_installed
from mangrove.cli.terminal import format_quantity
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.expressions.sql_expression import Expr
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.table import Table
from mangrove.local.import_files import (
    ROW_FILE_SUFFIXES,
    add_partition_columns,
    filter_row_files,
    parse_partition_folders,
    read_row_file,
)
from mangrove.local.python_rows import to_python_rows
from mangrove.maintenance.progress import Progress
from mangrove.model.json_codec import Json
from mangrove.model.manifests import DataFile
from mangrove.storage.port import ObjectInfo, Store
from mangrove.storage.uri import expand_location
from mangrove.tables.write_plan import RowCounts
from mangrove.wiring import LocalEngines, open_as_of

__all__ = [
    "delete_command",
    "files_command",
    "format_cell",
    "iceberg_command",
    "ingest_command",
    "read_command",
    "remove_files_command",
    "render_rows",
    "to_json_value",
    "update_command",
]


def render_rows(names: Iterable[str], rows: Sequence[Sequence[Any]], footer: str) -> RenderableType:
    """Return rows as a table with column names; numbers are right-aligned."""
    table = build_list_table(*names)
    for place, column in enumerate(table.columns):
        known = [row[place] for row in rows if row[place] is not None]
        if known and all(isinstance(value, int | float | decimal.Decimal) for value in known):
            column.justify = "right"
    for row in rows:
        table.add_row(*(Text("null", style="dim") if value is None else Text(format_cell(value)) for value in row))
    return Group(table, Text(footer, style="dim"))


def format_cell(value: Any) -> str:
    """Return a value as text; lists and structs are JSON.

    >>> format_cell(decimal.Decimal("1.50")), format_cell(True), format_cell({"a": [1, None]})
    ('1.50', 'true', '{"a": [1, null]}')
    """
    converted = to_json_value(value)
    if isinstance(converted, str):
        return converted
    return json.dumps(converted, ensure_ascii=False)


def to_json_value(value: Any) -> Json:
    """Return a value of a row as JSON; types that JSON lacks become text.

    >>> to_json_value([0.5, float("nan"), float("-inf")])
    [0.5, 'NaN', '-Infinity']
    """
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case None | bool() | int() | float() | str():
            return value
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal():
            return str(value)
        case bytes() | bytearray():
            return value.hex()
        case dict():
            return {str(key): to_json_value(inner) for key, inner in value.items()}
        case tuple() if hasattr(value, "asDict"):
            # A struct of Spark.
            return {key: to_json_value(inner) for key, inner in value.asDict().items()}
        case list() | tuple():
            return [to_json_value(inner) for inner in value]
        case _:
            return str(value)


_READ_ROWS_MAX = 20
_table_version_option = click.option(
    "--table-version", type=click.IntRange(1), metavar="N", help="Version of the table.  [default: the newest active]"
)


@lake_command("read", "mangrove read ./lake sales.orders --where 'amount > 10' --columns id,amount")
@click.argument("table", shell_complete=offer_tables)
@click.option("--columns", metavar="A,B", help="Columns to read.", shell_complete=offer_columns)
@click.option(
    "--where",
    metavar="PREDICATE",
    help='Row filter, such as "amount > 10".',
    shell_complete=offer_columns,
)
@click.option(
    "--limit", type=click.IntRange(min=0), help="Maximum number of rows.  [default: 20, unlimited with --json]"
)
@click.option("--at", metavar="WHEN", help="As of a version, a timestamp or an export name.")
@_table_version_option
def read_command(
    session: CommandContext,
    lake: str,
    table: str,
    columns: str | None,
    where: str | None,
    limit: int | None,
    at: str | None,
    table_version: int | None,
) -> None:
    """Print rows of a table.

    In JSON, NaN, Infinity and -Infinity are strings.
    """
    catalog = open_as_of(session.open(lake, LocalEngines), at)
    projection = None if columns is None else [name.strip() for name in columns.split(",")]
    with session.watching("reading"):
        rows = catalog.table(table, version=table_version).to_arrow(projection, where)
    rows_max = limit if limit is not None else rows.num_rows if session.as_json else _READ_ROWS_MAX
    printed = to_python_rows(rows.slice(0, rows_max))
    total = format_quantity(rows.num_rows, "row")
    footer = total if len(printed) == rows.num_rows else f"{len(printed):,} of {total}; use --limit for more"
    session.answer(
        [{name: to_json_value(value) for name, value in row.items()} for row in printed],
        lambda: render_rows(rows.column_names, [tuple(row.values()) for row in printed], footer),
    )


@lake_command("delete", "mangrove delete ./lake sales.orders 'amount < 0'")
@click.argument("table", shell_complete=offer_tables)
@click.argument("where", metavar="PREDICATE", shell_complete=offer_columns)
@_table_version_option
def delete_command(session: CommandContext, lake: str, table: str, where: str, table_version: int | None) -> None:
    """Delete the rows that match a predicate; earlier versions keep them."""
    if not where.strip():
        raise InvalidInputError("the predicate is empty; give a predicate, or true to delete all rows")
    _change(session, lake, table, table_version, "deleting rows", lambda opened: opened.delete(where))


@lake_command("update", "mangrove update ./lake sales.orders --set amount=0 --where 'id > 5'")
@click.argument("table", shell_complete=offer_tables)
@click.option(
    "--set", "values", multiple=True, required=True, metavar="COLUMN=EXPRESSION", shell_complete=offer_columns,
    help="New value of a column as a SQL expression; quote strings, as in \"city='Oslo'\".",
)  # fmt: skip
@click.option(
    "--where",
    metavar="PREDICATE",
    help="Rows to update.  [default: all rows]",
    shell_complete=offer_columns,
)
@_table_version_option
def update_command(
    session: CommandContext, lake: str, table: str, values: Sequence[str], where: str | None, table_version: int | None
) -> None:
    """Update columns of the rows that match a predicate."""
    assignments = {name: Expr(text) for name, text in parse_key_values(values, "--set").items()}
    _change(session, lake, table, table_version, "updating rows", lambda opened: opened.update(assignments, where))


def _change(
    session: CommandContext,
    lake: str,
    name: str,
    table_version: int | None,
    what: str,
    change: Callable[[Table], RowCounts],
) -> None:
    opened = session.open(lake, LocalEngines)
    before = opened.version
    with session.watching(what):
        counts = change(opened.table(name, version=table_version))
    version = opened.version
    session.answer(
        {"table": name, **asdict(counts), "version": version},
        lambda: (
            f"{_format_row_counts(counts)} in {name}, as of version {version}"
            if version > before
            else f"no row of {name} matches; nothing was changed"
        ),
    )


def _format_row_counts(counts: RowCounts) -> str:
    """Return the number of changed rows as text.

    >>> [_format_row_counts(counts) for counts in (RowCounts(updated=2), RowCounts(deleted=1), RowCounts())]
    ['2 rows updated', '1 row deleted', 'no row changed']
    """
    parts = [f"{format_quantity(count, 'row')} {change}" for change, count in asdict(counts).items() if count]
    return ", ".join(parts) or "no row changed"


@lake_command(
    "ingest",
    "mangrove ingest ./lake sales.orders orders.csv\n"
    "mangrove ingest ./lake sales.orders 2026-11.parquet --mode upsert\n"
    "mangrove ingest ./lake sales.orders ./old/orders/   # Hive-style folders",
)
@click.argument("table", shell_complete=offer_tables)
@click.argument("files", nargs=-1, required=True, metavar="FILE_OR_FOLDER...", shell_complete=offer_files)
@click.option(
    "--mode", type=click.Choice(["append", "upsert", "overwrite", "overwrite-partitions"]), default="append",
    show_default=True, help="How to combine the new rows with existing rows.",
)  # fmt: skip
@_table_version_option
def ingest_command(
    session: CommandContext, lake: str, table: str, files: Sequence[str], mode: str, table_version: int | None
) -> None:
    """Load files into a table: Parquet, CSV or JSON lines, in one commit.

    A table without a schema takes files of any type as they are; `mangrove files` lists them.

    A folder stands for all such files in it. Hive-style folder names, such as
    day=2026-11-01, become columns. Timestamps without a time zone are UTC.
    """
    opened = session.open(lake, LocalEngines)
    schema = opened.table(table, version=table_version).schema
    if schema is None:
        _add_files(session, opened, str(opened.table(table, version=table_version)), files, mode)
        return
    inputs = [one for location in files for one in _list_row_files(session, location)]
    if mode.startswith("overwrite") and len(inputs) > 1:
        raise InvalidInputError(f"--mode {mode} takes one file; give one file, or use --mode append")
    row_count = byte_count = 0
    with session.watching("writing rows") as watch, opened.transaction(message=f"ingest into {table}") as transaction:
        for number, file in enumerate(inputs, start=1):
            data = file.store.read(file.path)
            rows = add_partition_columns(
                read_row_file(file.path, data, schema), parse_partition_folders(file.path), schema
            )
            getattr(transaction.table(table, version=table_version), mode.replace("-", "_"))(rows)
            row_count, byte_count = row_count + rows.num_rows, byte_count + len(data)
            watch(Progress("writing rows", number, len(inputs), byte_count))
    version = transaction.version
    session.answer(
        {"table": table, "mode": mode, "rows": row_count, "files": len(inputs), "version": version},
        lambda: (
            f"loaded {format_quantity(row_count, 'row')} from {format_quantity(len(inputs), 'file')} "
            f"into {table}, as of version {version}"
        ),
    )


def _add_files(session: CommandContext, lake: Lakehouse, table: str, files: Sequence[str], mode: str) -> None:
    """Add files as they are to a table without a schema."""
    if mode != "append":
        raise InvalidInputError(f"{table} has no schema, so files are added as they are; --mode {mode} needs columns")
    given: dict[str, bytes] = {}
    for location in files:
        folder, name = split_location(expand_location(location, os.getcwd()))
        store = session.store_of_files(folder, location)
        if not store.exists(name):
            raise NotFoundError(f"{location} is not a file; check the path")
        if name in given:
            raise InvalidInputError(f"two files are called {name}; load them one after the other")
        given[name] = store.read(name)
    added = lake.table(table).add_files(given)
    version = lake.version
    session.answer(
        {"table": table, "mode": mode, "files": len(added), "version": version},
        lambda: f"added {format_quantity(len(added), 'file')} to {table}, as of version {version}",
    )


def _render_files(files: Sequence[DataFile]) -> RenderableType:
    if not files:
        return Text("no files", style="dim")
    table = build_list_table("bytes", "type", "location")
    for file in files:
        table.add_row(f"{file.size_bytes:,}", file.content_type, file.location)
    return table


@lake_command("files", "mangrove files ./lake sales.photos\nmangrove files ./lake sales.orders --json")
@click.argument("table", shell_complete=offer_tables)
@click.option("--at", metavar="WHEN", help="As of a version, a timestamp or an export name.")
def files_command(session: CommandContext, lake: str, table: str, at: str | None) -> None:
    """List the data files of a table with type and size."""
    files = open_as_of(session.open(lake, LocalEngines), at).table(table).files()
    session.answer(
        [
            {
                "location": one.location,
                "type": one.content_type,
                "encoding": one.content_encoding,
                "bytes": one.size_bytes,
            }
            for one in files
        ],
        lambda: _render_files(files),
    )


@lake_command("remove-files", "mangrove remove-files ./lake sales.photos data/…/…-cat.png")
@click.argument("table", shell_complete=offer_tables)
@click.argument("locations", nargs=-1, required=True, metavar="LOCATION...")
def remove_files_command(session: CommandContext, lake: str, table: str, locations: Sequence[str]) -> None:
    """Remove files from a table without a schema, by their locations as `mangrove files` lists them.

    Earlier versions of the lakehouse still have them.
    """
    opened = session.open(lake, LocalEngines)
    removed = opened.table(table).remove_files(locations)
    version = opened.version
    session.answer(
        {"table": table, "removed": [one.location for one in removed], "version": version},
        lambda: f"removed {format_quantity(len(removed), 'file')} from {table}, as of version {version}",
    )


@dataclass(frozen=True, slots=True)
class _RowFile:
    store: Store
    path: str


def _list_row_files(session: CommandContext, location: str) -> list[_RowFile]:
    """Return the file at a location, or the row files of a folder sorted by path."""
    uri = expand_location(location, os.getcwd())
    if not uri.endswith("/"):
        folder, name = split_location(uri)
        store = session.store_of_files(folder, location)
        if store.exists(name):
            return [_RowFile(store, name)]
    store = session.store_of_files(uri.rstrip("/"), location)
    paths = [one.path for one in store.list() if isinstance(one, ObjectInfo)]
    if not paths:
        raise NotFoundError(f"{location} does not exist; check the path")
    files = [_RowFile(store, path) for path in sorted(filter_row_files(paths))]
    if not files:
        raise NotFoundError(f"folder {location} has no file with suffix {', '.join(ROW_FILE_SUFFIXES)}")
    return files


@lake_command("iceberg", "mangrove iceberg ./lake sales.orders")
@click.argument("table", shell_complete=offer_tables)
@click.option("--at", metavar="WHEN", help="As of a version, a timestamp or an export name.")
def iceberg_command(session: CommandContext, lake: str, table: str, at: str | None) -> None:
    """Publish a table as Iceberg metadata and print the address of the metadata file.

    Writes missing metadata and manifests; data files are not copied.
    """
    check_installed("mangrove iceberg", ["pyiceberg"], "iceberg")
    catalog = open_as_of(session.open(lake, LocalEngines), at)
    published = catalog.table(table)
    with session.watching("publishing"):
        address = published.iceberg()
    session.answer(
        {"table": str(published), "version": catalog.version, "metadata": address},
        # The address has a line of its own, so that scripts can take the first line.
        lambda: f"{address}\nOpen it with StaticTable.from_metadata(…) of PyIceberg or iceberg_scan('…') of DuckDB.",
    )
