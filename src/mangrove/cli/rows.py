"""Commands that read, ingest, update, delete and publish the rows of a table."""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click
from rich.console import RenderableType
from rich.text import Text

from mangrove.cli.catalog import build_list_table
from mangrove.cli.command import at_option, lake_command
from mangrove.cli.completion import offer_columns, offer_files, offer_tables
from mangrove.cli.context import CommandContext, parse_key_values, split_location
from mangrove.cli.environment import check_installed
from mangrove.cli.row_output import RowOutput, output_options
from mangrove.cli.row_table import render_rows
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.expressions.sql_expression import Expr
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.table import Table
from mangrove.lakehouse.table_snapshot import PROFILE_COLUMNS
from mangrove.local.import_files import (
    ROW_FILE_SUFFIXES,
    add_partition_columns,
    filter_row_files,
    parse_partition_folders,
    read_row_file,
)
from mangrove.local.row_formats import to_json_value
from mangrove.maintenance.progress import Progress, format_quantity
from mangrove.model.locators import parse_table_name
from mangrove.model.manifests import DataFile
from mangrove.storage.port import ObjectInfo, Store
from mangrove.storage.uri import expand_location
from mangrove.tables.column_profile import ColumnProfile
from mangrove.tables.write_plan import RowCounts
from mangrove.wiring import LocalEngines, open_as_of

__all__ = [
    "changes_command",
    "delete_command",
    "files_command",
    "iceberg_command",
    "ingest_command",
    "profile_command",
    "read_command",
    "remove_files_command",
    "update_command",
]


_columns_option = click.option("--columns", metavar="A,B", help="Columns to read.", shell_complete=offer_columns)
_where_option = click.option(
    "--where", metavar="PREDICATE", help='Row filter, such as "amount > 10".', shell_complete=offer_columns
)
_table_version_option = click.option(
    "--table-version", type=click.IntRange(1), metavar="N", help="Version of the table.  [default: the newest active]"
)


@lake_command(
    "read",
    "mangrove read ./lake sales.orders --where 'amount > 10' --columns id,amount\n"
    "mangrove read ./lake sales.orders --format ndjson | head -3\n"
    "mangrove read ./lake sales.orders -o orders.parquet",
)
@click.argument("table", shell_complete=offer_tables)
@_columns_option
@_where_option
@output_options
@at_option
@_table_version_option
def read_command(
    session: CommandContext,
    lake: str,
    table: str,
    columns: str | None,
    where: str | None,
    row_format: str | None,
    output: str | None,
    limit: int | None,
    at: str | None,
    table_version: int | None,
) -> None:
    """Print rows of a table, or write them to a file.

    Rows are written as they are read. In JSON, NaN, Infinity and -Infinity are strings.
    """
    written = RowOutput.of(session, row_format, output, limit)
    catalog = open_as_of(session.open(lake, LocalEngines), at)
    opened = catalog.table(table, version=table_version)
    written.write(opened.to_reader(_split_names(columns), where, limit=written.read_max))


def _split_names(columns: str | None) -> list[str] | None:
    return None if columns is None else [name.strip() for name in columns.split(",")]


@lake_command("profile", "mangrove profile ./lake sales.orders --columns amount,ts")
@click.argument("table", shell_complete=offer_tables)
@_columns_option
@_where_option
@at_option
@_table_version_option
def profile_command(
    session: CommandContext,
    lake: str,
    table: str,
    columns: str | None,
    where: str | None,
    at: str | None,
    table_version: int | None,
) -> None:
    """Print statistics of each column of a table: nulls, distinct values, bounds and the most frequent value.

    With --json also the ten most frequent values, and histograms of numbers and times. More
    than 16,384 distinct values are estimated, with an error of about 1 %.
    """
    catalog = open_as_of(session.open(lake, LocalEngines), at)
    with session.watching("reading"):
        profiles = catalog.table(table, version=table_version).profile(_split_names(columns), where)
    session.answer(
        [{name: to_json_value(value) for name, value in asdict(one).items()} for one in profiles],
        lambda: _render_profiles(profiles),
    )


def _render_profiles(profiles: Sequence[ColumnProfile]) -> str:
    rows = [[describe(one) for describe in PROFILE_COLUMNS.values()] for one in profiles]
    count = profiles[0].count if profiles else 0
    return render_rows(list(PROFILE_COLUMNS), rows, format_quantity(count, "row"))


@lake_command(
    "changes", "mangrove changes ./lake sales.orders 41\nmangrove changes ./lake sales.orders 41 45 -o changes.parquet"
)
@click.argument("table", shell_complete=offer_tables)
@click.argument("from_version", metavar="FROM")
@click.argument("to_version", required=False, metavar="[TO]")
@output_options
@_table_version_option
def changes_command(
    session: CommandContext,
    lake: str,
    table: str,
    from_version: str,
    to_version: str | None,
    row_format: str | None,
    output: str | None,
    limit: int | None,
    table_version: int | None,
) -> None:
    """Print the rows that differ between two versions of a table.

    FROM and TO are versions, timestamps or export names. TO defaults to the newest version. The
    column _change_type is insert, delete, update_before or update_after.
    """
    written = RowOutput.of(session, row_format, output, limit)
    opened = session.open(lake, LocalEngines)
    with session.watching("comparing rows"):
        changed = opened.table(table, version=table_version).changes(from_version, to_version)
    written.write(changed.slice(0, written.read_max).to_reader())


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
    "mangrove ingest ./lake sales.orders ./old/orders/   # Hive-style folders\n"
    "mangrove ingest ./lake sales.orders new-columns.jsonl --evolve\n"
    "mangrove ingest ./lake sales.customers customers.csv --create",
)
@click.argument("table", shell_complete=offer_tables)
@click.argument("files", nargs=-1, required=True, metavar="FILE_OR_FOLDER...", shell_complete=offer_files)
@click.option(
    "--mode", type=click.Choice(["append", "upsert", "overwrite", "overwrite-partitions"]), default="append",
    show_default=True, help="How to combine the new rows with existing rows.",
)  # fmt: skip
@click.option(
    "--create", is_flag=True, help="Create the table with the columns of the first file if it does not exist."
)
@click.option("--evolve", is_flag=True, help="Add missing columns to the table, and widen types if the rows need it.")
@click.option("--cast", is_flag=True, help="Convert columns to the types of the table, such as text to timestamps.")
@click.option("--author", help="Author of the new deltas.")
@click.option("--delta-property", "properties", multiple=True, metavar="KEY=VALUE", help="Property of the new deltas.")
@click.option("--position", type=click.IntRange(1), help="Stream position of the new delta.  [default: the next one]")
@_table_version_option
def ingest_command(
    session: CommandContext, lake: str, table: str, files: Sequence[str], mode: str, create: bool, evolve: bool,
    cast: bool, author: str | None, properties: Sequence[str], position: int | None, table_version: int | None,
) -> None:  # fmt: skip
    """Load files into a table: Parquet, CSV or JSON lines, in one commit.

    A table without a schema takes files of any type as they are; `mangrove files` lists them.

    A folder stands for all such files in it. Hive-style folder names, such as
    day=2026-11-01, become columns. Timestamps without a time zone are UTC.
    """
    if (evolve or cast) and mode != "append":
        raise InvalidInputError(f"--evolve and --cast are for --mode append, not {mode}; remove them")
    pairs = parse_key_values(properties, "--delta-property")
    given = {"evolve": evolve, "cast": cast, "author": author, "properties": pairs, "position": position}
    options: dict[str, Any] = {name: value for name, value in given.items() if value}
    if options and mode not in ("append", "upsert"):
        raise InvalidInputError(f"--mode {mode} takes no author, property or position of a delta; leave them out")
    opened = session.open(lake, LocalEngines)
    is_new = create and not _has_table(opened, table)
    schema = None if is_new else opened.table(table, version=table_version).schema
    if schema is None and not is_new:
        if evolve or cast:
            raise InvalidInputError(f"{table} has no schema, so --evolve and --cast do not apply; remove them")
        _add_files(session, opened, opened.table(table, version=table_version), files, mode, options)
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
            if schema is None:
                transaction.create_namespace(parse_table_name(table).parent, if_not_exists=True)
                schema = transaction.create_table(table, as_=rows.slice(0, 0)).schema
            getattr(transaction.table(table, version=table_version), mode.replace("-", "_"))(rows, **options)
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


def _has_table(lake: Lakehouse, name: str) -> bool:
    try:
        lake.table(name)
    except NotFoundError:
        return False
    return True


def _add_files(
    session: CommandContext, lake: Lakehouse, table: Table, files: Sequence[str], mode: str, described: dict[str, Any]
) -> None:
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
    added = table.add_files(given, **described)
    version = lake.version
    session.answer(
        {"table": str(table), "mode": mode, "files": len(added), "version": version},
        lambda: f"added {format_quantity(len(added), 'file')} to {table}, as of version {version}",
    )


def _render_files(files: Sequence[DataFile]) -> RenderableType:
    if not files:
        return Text("no files", style="dim")
    table = build_list_table("bytes", "type", "location")
    for file in files:
        content = "inline rows" if file.is_inline else file.content_type
        table.add_row(f"{file.size_bytes:,}", content, file.location)
    return table


@lake_command("files", "mangrove files ./lake sales.photos\nmangrove files ./lake sales.orders --json")
@click.argument("table", shell_complete=offer_tables)
@at_option
@_table_version_option
def files_command(session: CommandContext, lake: str, table: str, at: str | None, table_version: int | None) -> None:
    """List the data files of a table with type and size."""
    files = open_as_of(session.open(lake, LocalEngines), at).table(table, version=table_version).files()
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
@_table_version_option
def remove_files_command(
    session: CommandContext, lake: str, table: str, locations: Sequence[str], table_version: int | None
) -> None:
    """Remove files from a table without a schema, by their locations as `mangrove files` lists them.

    Earlier versions of the lakehouse still have them.
    """
    opened = session.open(lake, LocalEngines)
    removed = opened.table(table, version=table_version).remove_files(locations)
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
@at_option
@_table_version_option
def iceberg_command(session: CommandContext, lake: str, table: str, at: str | None, table_version: int | None) -> None:
    """Publish a table as Iceberg metadata and print the address of the metadata file.

    Writes missing metadata and manifests; data files are not copied.
    """
    check_installed("mangrove iceberg", ["pyiceberg"], "iceberg")
    catalog = open_as_of(session.open(lake, LocalEngines), at)
    published = catalog.table(table, version=table_version)
    with session.watching("publishing"):
        address = published.iceberg()
    session.answer(
        {"table": str(published), "version": catalog.version, "metadata": address},
        # The address has a line of its own, so that scripts can take the first line.
        lambda: f"{address}\nOpen it with StaticTable.from_metadata(…) of PyIceberg or iceberg_scan('…') of DuckDB.",
    )
