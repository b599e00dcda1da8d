"""The command that shows a table to engines that read Iceberg."""

import click

from mangrove.cli.command import lake_command
from mangrove.cli.completing import offer_tables
from mangrove.cli.engines import LocalEngines
from mangrove.cli.extras import check_installed
from mangrove.cli.looking import looked_at
from mangrove.cli.session import Session

__all__ = ["iceberg_command"]


@lake_command("iceberg", "mangrove iceberg ./lake sales.orders")
@click.argument("table", shell_complete=offer_tables)
@click.option("--at", metavar="WHEN", help="As of a version, a time or the name of an export.")
def iceberg_command(session: Session, lake: str, table: str, at: str | None) -> None:
    """Show a table to engines that read Iceberg: print the address of a metadata file.

    It shows the table as it is now, or was then. What it leads to is written where it is
    missing; rows stay where they are.
    """
    check_installed("mangrove iceberg", ["pyiceberg"], "iceberg")
    catalog = looked_at(session.open(lake, LocalEngines), at)
    found = catalog.table(table)
    with session.watching("showing"):
        address = found.iceberg()
    session.answer(
        {"table": str(found), "version": catalog.version, "metadata": address},
        # Each on a line of its own, so that a shell takes the first.
        lambda: f"{address}\nopen it: StaticTable.from_metadata(…) of PyIceberg, iceberg_scan('…') of DuckDB",
    )
