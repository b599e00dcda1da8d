"""The commands about rows: read, ingest."""

from collections.abc import Sequence
from typing import Any

import click

from mangrove.cli.command import lake_command
from mangrove.cli.engines import LocalEngines
from mangrove.cli.row_views import plain, rows_view
from mangrove.cli.session import Session
from mangrove.errors import InvalidInputError
from mangrove.lakehouse.catalog import Catalog
from mangrove.local.row_files import rows_of_file
from mangrove.maintenance.progress import Progress

__all__ = ["ingest_command", "read_command"]

_ROWS_SHOWN = 20


@lake_command("read", "mangrove read ./lake sales.orders --where 'amount > 10' --columns id,amount")
@click.argument("table")
@click.option("--columns", metavar="A,B", help="Only these columns.")
@click.option("--where", metavar="PREDICATE", help='Only rows for which this holds, such as "amount > 10".')
@click.option("--limit", type=click.IntRange(min=0), help="At most so many rows.  [default: 20, in JSON all]")
@click.option("--at", metavar="WHEN", help="As of a version, a time or the name of an export.")
def read_command(
    session: Session, lake: str, table: str, columns: str | None, where: str | None, limit: int | None, at: str | None
) -> None:
    """Show rows of a table."""
    opened = session.open(lake, LocalEngines)
    catalog: Catalog = opened if at is None else opened.at(at)
    chosen = None if columns is None else [name.strip() for name in columns.split(",")]
    with session.watching("reading"):
        rows = catalog.table(table).to_arrow(chosen, where)
    shown = limit if limit is not None else rows.num_rows if session.as_json else _ROWS_SHOWN
    found: list[dict[str, Any]] = rows.slice(0, shown).to_pylist()
    total = rows.num_rows
    footer = f"{total:,} rows" if len(found) == total else f"{len(found):,} of {total:,} rows: --limit shows more"
    session.answer(
        [{name: plain(value) for name, value in row.items()} for row in found],
        lambda: rows_view(rows.column_names, [tuple(row.values()) for row in found], footer),
    )


@lake_command(
    "ingest",
    "mangrove ingest ./lake sales.orders orders.csv\nmangrove ingest ./lake sales.orders 2026-11.parquet --mode upsert",
)
@click.argument("table")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--mode", type=click.Choice(["append", "upsert", "overwrite"]), default="append", show_default=True,
    help="What becomes of the rows that are there.",
)  # fmt: skip
def ingest_command(session: Session, lake: str, table: str, files: Sequence[str], mode: str) -> None:
    """Write the rows of files into a table: Parquet, CSV or JSON lines, all of them in one commit."""
    if mode == "overwrite" and len(files) > 1:
        raise InvalidInputError("each of several files would overwrite the one before: give one, or append")
    opened = session.open(lake, LocalEngines)
    schema = opened.table(table).schema
    if schema is None:
        raise InvalidInputError(f"{table} has no columns that rows could be checked against: its data is not kept here")
    row_count = 0
    with session.watching("writing rows") as watch, opened.transaction(message=f"ingest into {table}") as transaction:
        for number, file in enumerate(files, start=1):
            path, data = session.file(file)
            rows = rows_of_file(path.rpartition("/")[2], data, schema)
            row_count += rows.num_rows
            getattr(transaction.table(table), mode)(rows)
            watch(Progress("writing rows", number, len(files)))
    version = transaction.version
    session.answer(
        {"table": table, "mode": mode, "rows": row_count, "files": len(files), "version": version},
        lambda: (
            f"{row_count:,} rows from {len(files):,} file{'' if len(files) == 1 else 's'} are in {table} "
            f"as of version {version}"
        ),
    )
