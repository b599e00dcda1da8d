"""The command that writes the rows of files into a table."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import click

from mangrove.cli.command import lake_command
from mangrove.cli.completing import offer_files, offer_tables
from mangrove.cli.engines import LocalEngines
from mangrove.cli.places import folder_and_name
from mangrove.cli.screen import counted
from mangrove.cli.session import Session
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.local.hive_folders import folder_values, row_files_among, with_folder_values
from mangrove.local.row_files import ROW_FILE_ENDINGS, rows_of_file
from mangrove.maintenance.progress import Progress
from mangrove.storage.port import ObjectInfo, Store
from mangrove.storage.uri import in_full

__all__ = ["ingest_command"]


@lake_command(
    "ingest",
    "mangrove ingest ./lake sales.orders orders.csv\n"
    "mangrove ingest ./lake sales.orders 2026-11.parquet --mode upsert\n"
    "mangrove ingest ./lake sales.orders ./old/orders/   # of Hive or Spark",
)
@click.argument("table", shell_complete=offer_tables)
@click.argument("files", nargs=-1, required=True, metavar="FILE_OR_FOLDER...", shell_complete=offer_files)
@click.option(
    "--mode", type=click.Choice(["append", "upsert", "overwrite", "overwrite-partitions"]), default="append",
    show_default=True, help="What becomes of the rows that are there.",
)  # fmt: skip
def ingest_command(session: Session, lake: str, table: str, files: Sequence[str], mode: str) -> None:
    """Write the rows of files into a table: Parquet, CSV or JSON lines, all of them in one commit.

    Of a folder all such files are taken. Where its folders are called like
    day=2026-11-01, as Hive and Spark do, their values are columns. Moments
    without a zone are in UTC.
    """
    opened = session.open(lake, LocalEngines)
    schema = opened.table(table).schema
    if schema is None:
        raise InvalidInputError(f"{table} has no columns that rows could be checked against: its data is not kept here")
    meant = [one for place in files for one in _row_files(session, place)]
    if mode.startswith("overwrite") and len(meant) > 1:
        raise InvalidInputError("each of several files would overwrite the one before: give one, or append")
    row_count = byte_count = 0
    with session.watching("writing rows") as watch, opened.transaction(message=f"ingest into {table}") as transaction:
        for number, file in enumerate(meant, start=1):
            data = file.store.read(file.path)
            rows = with_folder_values(rows_of_file(file.path, data, schema), folder_values(file.path), schema)
            getattr(transaction.table(table), mode.replace("-", "_"))(rows)
            row_count, byte_count = row_count + rows.num_rows, byte_count + len(data)
            watch(Progress("writing rows", number, len(meant), byte_count))
    version = transaction.version
    session.answer(
        {"table": table, "mode": mode, "rows": row_count, "files": len(meant), "version": version},
        lambda: (
            f"{counted(row_count, 'row')} from {counted(len(meant), 'file')} {'is' if row_count == 1 else 'are'} "
            f"in {table} as of version {version}"
        ),
    )


@dataclass(frozen=True, slots=True)
class _RowFile:
    store: Store
    path: str


def _row_files(session: Session, place: str) -> list[_RowFile]:
    """Return the file at a place, or the files with rows of a folder in the order of their paths."""
    location = in_full(place, os.getcwd())
    if not location.endswith("/"):
        folder, name = folder_and_name(location)
        store = session.store_of_files(folder, place)
        if store.exists(name):
            return [_RowFile(store, name)]
    store = session.store_of_files(location.rstrip("/"), place)
    listed = [one.path for one in store.list() if isinstance(one, ObjectInfo)]
    if not listed:
        raise NotFoundError(f"{place} is not there: check the path of the file")
    found = [_RowFile(store, path) for path in sorted(row_files_among(listed))]
    if not found:
        raise NotFoundError(f"{place} is a folder without a file that ends in one of {', '.join(ROW_FILE_ENDINGS)}")
    return found
