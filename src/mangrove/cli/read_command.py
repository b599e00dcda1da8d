"""The command that shows rows."""

import click

from mangrove.cli.command import lake_command
from mangrove.cli.completing import offer_columns, offer_tables
from mangrove.cli.engines import LocalEngines
from mangrove.cli.looking import looked_at
from mangrove.cli.row_views import plain, rows_view
from mangrove.cli.screen import counted
from mangrove.cli.session import Session
from mangrove.local.python_rows import python_rows

__all__ = ["read_command"]

_ROWS_SHOWN = 20


@lake_command("read", "mangrove read ./lake sales.orders --where 'amount > 10' --columns id,amount")
@click.argument("table", shell_complete=offer_tables)
@click.option("--columns", metavar="A,B", help="Only these columns.", shell_complete=offer_columns)
@click.option(
    "--where",
    metavar="PREDICATE",
    help='Only rows for which this holds, such as "amount > 10".',
    shell_complete=offer_columns,
)
@click.option("--limit", type=click.IntRange(min=0), help="At most so many rows.  [default: 20, in JSON all]")
@click.option("--at", metavar="WHEN", help="As of a version, a time or the name of an export.")
def read_command(
    session: Session, lake: str, table: str, columns: str | None, where: str | None, limit: int | None, at: str | None
) -> None:
    """Show rows of a table.

    JSON has no word for what is no number: NaN, Infinity and -Infinity are text there.
    """
    catalog = looked_at(session.open(lake, LocalEngines), at)
    chosen = None if columns is None else [name.strip() for name in columns.split(",")]
    with session.watching("reading"):
        rows = catalog.table(table).to_arrow(chosen, where)
    shown = limit if limit is not None else rows.num_rows if session.as_json else _ROWS_SHOWN
    found = python_rows(rows.slice(0, shown))
    total = rows.num_rows
    every = counted(total, "row")
    footer = every if len(found) == total else f"{len(found):,} of {every}: --limit shows more"
    session.answer(
        [{name: plain(value) for name, value in row.items()} for row in found],
        lambda: rows_view(rows.column_names, [tuple(row.values()) for row in found], footer),
    )
