"""The commands that change rows which are there: delete, update."""

from collections.abc import Callable, Sequence
from dataclasses import asdict

import click

from mangrove.cli.command import lake_command
from mangrove.cli.completing import offer_columns, offer_tables
from mangrove.cli.engines import LocalEngines
from mangrove.cli.places import key_values
from mangrove.cli.session import Session
from mangrove.errors import InvalidInputError
from mangrove.lakehouse.handles import LakeTable
from mangrove.tables.row_counts import RowCounts

__all__ = ["delete_command", "update_command"]


@lake_command("delete", "mangrove delete ./lake sales.orders 'amount < 0'")
@click.argument("table", shell_complete=offer_tables)
@click.argument("where", metavar="PREDICATE", shell_complete=offer_columns)
def delete_command(session: Session, lake: str, table: str, where: str) -> None:
    """Delete the rows of a table for which a predicate holds; earlier versions still have them."""
    if not where.strip():
        raise InvalidInputError("the predicate is empty: say which rows go, or write true for all of them")
    _change(session, lake, table, "deleting rows", lambda found: found.delete(where))


@lake_command("update", "mangrove update ./lake sales.orders --set amount=0 --where 'id > 5'")
@click.argument("table", shell_complete=offer_tables)
@click.option(
    "--set", "values", multiple=True, required=True, metavar="COLUMN=EXPRESSION", shell_complete=offer_columns,
    help="What a column becomes: an expression in SQL; text stands in quotes, as in \"city='Oslo'\".",
)  # fmt: skip
@click.option(
    "--where",
    metavar="PREDICATE",
    help="Only rows for which this holds.  [default: all rows]",
    shell_complete=offer_columns,
)
def update_command(session: Session, lake: str, table: str, values: Sequence[str], where: str | None) -> None:
    """Set columns of the rows of a table."""
    assigned = key_values(values, "--set")
    _change(session, lake, table, "updating rows", lambda found: found.update(assigned, where))


def _change(session: Session, lake: str, name: str, what: str, change: Callable[[LakeTable], RowCounts]) -> None:
    opened = session.open(lake, LocalEngines)
    before = opened.version
    with session.watching(what):
        counts = change(opened.table(name))
    version = opened.version
    session.answer(
        {"table": name, **asdict(counts), "version": version},
        lambda: (
            f"{_counted(counts)} in {name}, as of version {version}"
            if version > before
            else f"no row of {name} is meant: nothing was changed"
        ),
    )


def _counted(counts: RowCounts) -> str:
    """Return how many rows changed, in words.

    >>> _counted(RowCounts(updated=2)), _counted(RowCounts(deleted=1)), _counted(RowCounts())
    ('2 rows updated', '1 row deleted', 'no row changed')
    """
    words = [f"{number:,} row{'' if number == 1 else 's'} {word}" for word, number in asdict(counts).items() if number]
    return ", ".join(words) or "no row changed"
