"""The commands about versions: log, diff, rollback."""

from dataclasses import asdict
from typing import Final

import click

from mangrove.cli.changed import ChangedFacts, column_changes
from mangrove.cli.command import lake_command
from mangrove.cli.history_views import changed_view, graph_view, log_view
from mangrove.cli.long_lists import cut, most_lines
from mangrove.cli.screen import time_text
from mangrove.cli.session import Session
from mangrove.errors import InvalidInputError
from mangrove.lakehouse.catalog import Catalog
from mangrove.lakehouse.diff import Change
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.model.json_form import Json
from mangrove.model.locators import Kind
from mangrove.model.schema import Schema
from mangrove.transaction.history import HistoryLine

__all__ = ["diff_command", "log_command", "rollback_command"]

_VERSIONS_SHOWN: Final = 50


@lake_command("log", "mangrove log ./lake --limit 5\nmangrove log ./lake --graph")
@click.option("--graph", is_flag=True, help="Draw the timeline, with what rollbacks took back beside it.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help=f"At most so many versions.  [default: {_VERSIONS_SHOWN}, in JSON all]",
)
@click.option("--before", type=click.IntRange(min=0), metavar="VERSION", help="Only versions before this one.")
def log_command(session: Session, lake: str, graph: bool, limit: int | None, before: int | None) -> None:
    """Show the versions, newest first: when each was committed, by whom and why."""
    most = limit if limit is not None or session.as_json else _VERSIONS_SHOWN
    asked = None if most is None else most + 1
    lines = cut(session.open(lake).history(before=before, limit=asked), most)
    draw = graph_view if graph else log_view
    session.answer(
        [_line_json(line) for line in lines.shown],
        lambda: lines.with_more(
            draw(lines.shown), f"--limit shows them, --before {lines.shown[-1].version} the next ones"
        ),
    )


@lake_command("diff", "mangrove diff ./lake 41 45\nmangrove diff ./lake 2026-11-01")
@click.argument("before", metavar="FROM")
@click.argument("after", required=False, metavar="[TO]")
def diff_command(session: Session, lake: str, before: str, after: str | None) -> None:
    """Show what changed between two versions: tables, columns, rows and bytes.

    FROM and TO are versions, times or names of exports; TO is the newest version
    unless it is given.
    """
    opened = session.open(lake)
    with session.watching("comparing versions"):
        found = _changed(opened, before, opened.version if after is None else after)
    session.answer(_changed_json(found), lambda: changed_view(found, most_lines(None, as_json=session.as_json)))


@lake_command("rollback", "mangrove rollback ./lake 41\nmangrove rollback ./lake year-end --dry-run")
@click.argument("to")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("--message", help="What the history shall say about it.")
def rollback_command(session: Session, lake: str, to: str, dry_run: bool, message: str | None) -> None:
    """Make an earlier version the newest: a version, a time or the name of an export.

    Nothing is lost by it: what is taken back stays in the history, and can be
    rolled back to in turn.
    """
    opened = session.open(lake)
    target, newest = opened.snapshot_at(to), opened.reading()
    if dry_run:
        found = _changed(opened, newest.version, target.version)
        most = most_lines(None, as_json=session.as_json)
        session.answer({"dry_run": True, **_changed_json(found)}, lambda: changed_view(found, most))
        return
    if target.version == newest.version:
        raise InvalidInputError(f"version {target.version} is the newest already: name an earlier one")
    version = opened.rollback(target.version, message=message or "")
    taken_back = opened.at(version).line.rolled_back_from
    session.answer(
        {"version": version, "to": target.version, "rolled_back_from": taken_back},
        lambda: f"version {version} holds what version {target.version} held; what was taken back stays in the history",
    )


def _changed(lake: Lakehouse, before: int | str, after: int | str) -> ChangedFacts:
    found = lake.diff(before, after)
    was, now = lake.at(found.before), lake.at(found.after)
    columns = {
        one.name: column_changes(_schema(was, one.name_before or one.name, one.change), _schema(now, one.name))
        for one in found.changes
        if one.kind is Kind.TABLE and one.change is not Change.DROPPED
    }
    return ChangedFacts(found, {name: some for name, some in columns.items() if some}, was.settings != now.settings)


def _schema(catalog: Catalog, name: str, change: Change = Change.CHANGED) -> Schema | None:
    """Return the columns of a table in a version; a table that was added had none before."""
    return None if change is Change.ADDED else catalog.table(name).schema


def _changed_json(found: ChangedFacts) -> dict[str, Json]:
    changes: list[Json] = [
        {
            "kind": one.kind.word,
            "change": one.change.value,
            "name": one.name,
            "name_before": one.name_before,
            "columns": [asdict(column) for column in found.columns.get(one.name, ())],
            **asdict(one.rows),
        }
        for one in found.diff.changes
    ]
    return {
        "before": found.diff.before,
        "after": found.diff.after,
        "settings_changed": found.settings_changed,
        "changes": changes,
    }


def _line_json(line: HistoryLine) -> Json:
    return {
        "version": line.version,
        "created_at": time_text(line.created_at_millis),
        "message": line.message,
        "author": line.author,
        "rolled_back_from": line.rolled_back_from,
        "rolled_back_to": line.rolled_back_to,
        "transactions": [
            {"id": one.id, "message": one.message, "author": one.author, "properties": dict(one.properties)}
            for one in line.transactions
        ],
    }
