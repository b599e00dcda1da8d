"""The history, diff, rollback, undo and tag commands."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

import click
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mangrove.cli.catalog import ColumnChange, VersionDiff, build_list_table, diff_columns
from mangrove.cli.command import author_option, lake_command, message_option
from mangrove.cli.context import CommandContext
from mangrove.cli.listing import build_more_line, resolve_line_limit, truncate_list
from mangrove.errors import InvalidInputError
from mangrove.inspect.formatting import format_time_millis
from mangrove.inspect.summary import load_table_schema
from mangrove.lakehouse.diff import ChangeKind, Diff, ObjectChange, build_diff
from mangrove.lakehouse.time_travel import load_snapshot_at
from mangrove.maintenance.export_records import Export, list_exports
from mangrove.maintenance.progress import format_bytes, format_quantity
from mangrove.metastore import Metastore, MetastoreSnapshot
from mangrove.model.json_codec import Json
from mangrove.model.locators import Kind, parse_table_name
from mangrove.model.schema import Schema
from mangrove.transaction.catalog import CatalogReader
from mangrove.transaction.history import HistoryEntry, history_entry_of
from mangrove.wiring import LocalEngines

if TYPE_CHECKING:
    from mangrove.lakehouse.lakehouse import Lakehouse
    from mangrove.lakehouse.transaction import Transaction

__all__ = [
    "GraphRow",
    "build_graph_rows",
    "diff_command",
    "history_command",
    "render_diff",
    "render_graph",
    "render_history",
    "rollback_command",
    "tag_command",
    "undo_command",
]


@dataclass(frozen=True, slots=True)
class GraphRow:
    """A row of the graph: its line marks, and a version unless the row only joins lanes."""

    marks: str
    line: HistoryEntry | None = None


def build_graph_rows(lines: Iterable[HistoryEntry]) -> list[GraphRow]:
    """Return the rows of the graph for versions in descending order.

    Versions that a rollback reverted are drawn one lane further right, down to the
    version that the rollback restored.
    """
    rows: list[GraphRow] = []
    targets: list[int] = []
    for line in lines:
        while targets and line.version <= targets[-1]:
            targets.pop()
            rows.append(GraphRow("│ " * len(targets) + "├─╯"))
        rows.append(GraphRow("│ " * len(targets) + "●", line))
        target = line.rolled_back_to
        if target is not None and target < line.version - 1:
            rows.append(GraphRow("│ " * len(targets) + "├─╮"))
            # A lane ends no later than the lane it branched from.
            targets.append(max([target, *targets[-1:]]))
    return rows


_STYLES = {
    ChangeKind.ADDED: "green",
    ChangeKind.DROPPED: "red",
    ChangeKind.RENAMED: "yellow",
    ChangeKind.CHANGED: "yellow",
}
_MARKS = {ChangeKind.ADDED: "+", ChangeKind.DROPPED: "-", ChangeKind.RENAMED: "~", ChangeKind.CHANGED: "~"}


def render_history(lines: Sequence[HistoryEntry]) -> RenderableType:
    """Return the versions as a table."""
    has_authors = any(line.author for line in lines)
    table = build_list_table("version", "committed (UTC)", *(["author"] if has_authors else []), "message")
    for line in lines:
        author = [line.author] if has_authors else []
        table.add_row(Text(str(line.version), style="cyan"), _format_commit_time(line), *author, _format_message(line))
    return table


def render_graph(lines: Sequence[HistoryEntry]) -> RenderableType:
    """Return the versions as a graph, with reverted versions in a lane of their own."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for _ in range(3):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in build_graph_rows(lines):
        marks = Text(row.marks, style="yellow")
        if row.line is None:
            table.add_row(marks, "", "", "")
        else:
            table.add_row(
                marks,
                Text(str(row.line.version), style="cyan"),
                _format_commit_time(row.line),
                _format_message(row.line),
            )
    return table


def render_diff(changed: VersionDiff, objects_max: int | None = None) -> RenderableType:
    """Return the changes between two versions, for at most `objects_max` objects."""
    parts: list[Text] = [Text(f"from version {changed.diff.before} to {changed.diff.after}", style="bold")]
    if changed.settings_changed:
        parts.append(Text("~ settings, properties or exports of the lakehouse", style="yellow"))
    for one in changed.diff.changes[:objects_max]:
        parts.append(_object_line(one))
        parts += [_column_line(column) for column in changed.columns.get(one.name, ())]
        parts += _data_lines(one)
    if objects_max is not None:
        parts += build_more_line(len(changed.diff.changes) - objects_max)
    if len(parts) == 1:
        parts.append(Text("no differences", style="dim"))
    return Group(*parts)


def _object_line(one: ObjectChange) -> Text:
    name = one.name if one.name_before is None else f"{one.name_before} → {one.name}"
    return Text(f"{_MARKS[one.change]} {one.kind.word} {name}", style=_STYLES[one.change])


def _column_line(column: ColumnChange) -> Text:
    if column.before is None:
        return Text(f"    + column {column.after}", style="green")
    if column.after is None:
        return Text(f"    - column {column.before}", style="red")
    return Text(f"    ~ column {column.before} → {column.after}", style="yellow")


def _data_lines(one: ObjectChange) -> list[Text]:
    rows = one.rows
    lines = []
    if rows.deltas_added:
        lines.append(_data_line("+", "green", rows.rows_added, rows.bytes_added, rows.deltas_added))
    if rows.deltas_removed:
        lines.append(_data_line("-", "red", rows.rows_removed, rows.bytes_removed, rows.deltas_removed))
    return lines


def _data_line(mark: str, style: str, rows: int, size_bytes: int, deltas: int) -> Text:
    plural = "" if deltas == 1 else "s"
    return Text(
        f"    {mark} {format_quantity(rows, 'row')}, {format_bytes(size_bytes)} in {deltas:,} delta{plural}",
        style=style,
    )


def _format_commit_time(line: HistoryEntry) -> str:
    return format_time_millis(line.created_at_millis).replace("T", " ").partition(".")[0] or "unknown"


def _format_message(line: HistoryEntry) -> Text:
    text = Text(line.message)
    if line.rolled_back_from is not None:
        text.append(f"{' ' if line.message else ''}(rollback of version {line.rolled_back_from})", style="yellow")
    return text


_VERSIONS_MAX: Final = 50


@lake_command("history", "mangrove history ./lake --limit 5\nmangrove history ./lake --graph")
@click.option("--graph", is_flag=True, help="Draw a graph that shows rollbacks.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help=f"Maximum number of versions.  [default: {_VERSIONS_MAX}, unlimited with --json]",
)
@click.option("--before", type=click.IntRange(min=0), metavar="VERSION", help="List only versions before this one.")
def history_command(session: CommandContext, lake: str, graph: bool, limit: int | None, before: int | None) -> None:
    """List the versions, newest first, with commit time, author and message."""
    lines_max = limit if limit is not None or session.as_json else _VERSIONS_MAX
    read_max = None if lines_max is None else lines_max + 1
    commits = session.open_metastore(lake).metastore.history(before=before)
    lines = truncate_list(map(history_entry_of, islice(commits, read_max)), lines_max)
    draw = render_graph if graph else render_history
    session.answer(
        [_line_json(line) for line in lines.shown],
        lambda: lines.with_more(
            draw(lines.shown), f"use --limit, or --before {lines.shown[-1].version} for the next ones"
        ),
    )


@lake_command("diff", "mangrove diff ./lake 41 45\nmangrove diff ./lake 2026-11-01")
@click.argument("before", metavar="FROM")
@click.argument("after", required=False, metavar="[TO]")
def diff_command(session: CommandContext, lake: str, before: str, after: str | None) -> None:
    """Show what changed between two versions: tables, columns, rows and bytes.

    FROM and TO are versions, timestamps or export names. TO defaults to the newest
    version.
    """
    metastore = session.open_metastore(lake).metastore
    with session.watching("comparing versions"):
        was = load_snapshot_at(metastore, before)
        diff = _diff_versions(
            metastore, was, metastore.latest() if after is None else load_snapshot_at(metastore, after)
        )
    session.answer(_diff_to_json(diff), lambda: render_diff(diff, resolve_line_limit(None, as_json=session.as_json)))


@lake_command(
    "rollback",
    "mangrove rollback ./lake 41\nmangrove rollback ./lake year-end --dry-run\n"
    "mangrove rollback ./lake 41 --table sales.orders",
)
@click.argument("to")
@click.option("--table", metavar="TABLE", help="Restore this table only; its name stays.")
@click.option("--dry-run", is_flag=True, help="Show what would change, without committing.")
@message_option
@author_option
def rollback_command(
    session: CommandContext, lake: str, to: str, table: str | None, dry_run: bool, message: str, author: str
) -> None:
    """Restore an earlier version as the newest one.

    TO is a version, a timestamp or an export name. The reverted versions stay in the
    history, so a rollback can itself be rolled back.
    """
    opened = session.open(lake)
    target, newest = opened._snapshot_at(to), opened._reading()
    if dry_run:
        if table is None:
            diff = _diff_versions(opened.metastore, newest, target)
        else:
            diff = _preview_table_rollback(opened, table, target.version)
        lines_max = resolve_line_limit(None, as_json=session.as_json)
        session.answer({"dry_run": True, **_diff_to_json(diff)}, lambda: render_diff(diff, lines_max))
        return
    if target.version == newest.version:
        raise InvalidInputError(f"version {target.version} is already the newest version; give an earlier one")
    if table is not None:
        version = _roll_back_table(opened, table, target.version, message, author)
        session.answer(
            {"version": version, "to": target.version, "table": table},
            lambda: f"rolled back {table} to version {target.version} in version {version}",
        )
        return
    version = opened.rollback(target.version, message=message, author=author)
    rolled_back_from = opened.at(version).line.rolled_back_from
    session.answer(
        {"version": version, "to": target.version, "rolled_back_from": rolled_back_from},
        lambda: (
            f"rolled back to version {target.version} in version {version}; the history keeps the reverted versions"
        ),
    )


def _preview_table_rollback(lake: "Lakehouse", table: str, to: int) -> VersionDiff:
    """Return what a rollback of the table changes, from a transaction that is not committed."""
    transaction = lake.transaction()
    transaction.table(table).rollback(to)
    diff = replace(transaction.diff(), after=to)
    return VersionDiff(
        diff, _diff_columns(diff, lake._snapshot_at(diff.before), transaction._reading()), settings_changed=False
    )


def _roll_back_table(lake: "Lakehouse", table: str, to: int, message: str, author: str) -> int:
    def work(transaction: "Transaction") -> "Transaction":
        transaction.table(table).rollback(to)
        return transaction

    transaction = lake.run(work, message=message or f"roll back {table} to version {to}", author=author)
    assert transaction.version is not None
    if transaction.version == transaction.base_version:
        raise InvalidInputError(f"{table} is the same in version {to}; give a version in which it differs")
    return transaction.version


@lake_command("undo", "mangrove undo ./lake 41 --message 'the wrong file'")
@click.argument("version", type=click.IntRange(min=0))
@message_option
@author_option
def undo_command(session: CommandContext, lake: str, version: int, message: str, author: str) -> None:
    """Revert the changes of one version, and keep those of later versions.

    Fails if a later version changed the same objects; `mangrove rollback` reverts later
    versions too.
    """
    opened = session.open(lake, LocalEngines)
    made = opened.undo(version, message=message, author=author)
    session.answer({"version": made, "undone": version}, lambda: f"undid version {version} in version {made}")


@lake_command(
    "tag",
    "mangrove tag ./lake\nmangrove tag ./lake before-migration --at 41\n"
    "mangrove read ./lake sales.orders --at before-migration\nmangrove tag ./lake before-migration --drop",
)
@click.argument("name", required=False, metavar="[NAME]")
@click.option("--at", metavar="WHEN", help="Version or timestamp to name.  [default: the newest version]")
@click.option("--drop", is_flag=True, help="Remove the name, so that its version may expire.")
def tag_command(session: CommandContext, lake: str, name: str | None, at: str | None, drop: bool) -> None:
    """List the names of versions, or give a version a name.

    A named version does not expire. Every option --at accepts the name. `mangrove export`
    names the version that it copies, so its names are listed too.
    """
    if drop and (name is None or at is not None):
        raise InvalidInputError("--drop takes a NAME and no --at; give the name to remove")
    if name is None:
        if at is not None:
            raise InvalidInputError("--at needs a NAME for the version; give one")
        tags = list_exports(session.open_metastore(lake).metastore.latest().settings)
        session.answer([asdict(one) for one in tags], lambda: _render_tags(tags))
        return
    opened = session.open(lake)
    if drop:
        dropped = opened.drop_tag(name)
        session.answer({"dropped": asdict(dropped)}, lambda: f"dropped tag {name} of version {dropped.version}")
        return
    made = opened.tag(name, at)
    session.answer({"tag": asdict(made)}, lambda: f"version {made.version} is tagged {name} and will not expire")


def _render_tags(tags: Sequence[Export]) -> RenderableType:
    if not tags:
        return Text("no tags; name a version with `mangrove tag LAKE NAME`", style="dim")
    table = build_list_table("tag", "version")
    for one in tags:
        table.add_row(one.name, Text(str(one.version), style="cyan"))
    return table


def _diff_versions(metastore: Metastore, before: MetastoreSnapshot, after: MetastoreSnapshot) -> VersionDiff:
    diff = build_diff(metastore, before, after)
    return VersionDiff(diff, _diff_columns(diff, before, after), before.settings != after.settings)


def _diff_columns(diff: Diff, before: CatalogReader, after: CatalogReader) -> dict[str, tuple[ColumnChange, ...]]:
    """Return the changed columns of each table that was not dropped."""
    columns = {
        one.name: diff_columns(_schema(before, one.name_before or one.name, one.change), _schema(after, one.name))
        for one in diff.changes
        if one.kind is Kind.TABLE and one.change is not ChangeKind.DROPPED
    }
    return {name: changes for name, changes in columns.items() if changes}


def _schema(reading: CatalogReader, name: str, change: ChangeKind = ChangeKind.CHANGED) -> Schema | None:
    """Return the schema of a table, or None before it was added."""
    return None if change is ChangeKind.ADDED else load_table_schema(reading, parse_table_name(name))


def _diff_to_json(found: VersionDiff) -> dict[str, Json]:
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


def _line_json(line: HistoryEntry) -> Json:
    return {
        "version": line.version,
        "created_at": format_time_millis(line.created_at_millis),
        "message": line.message,
        "author": line.author,
        "rolled_back_from": line.rolled_back_from,
        "rolled_back_to": line.rolled_back_to,
        "transactions": [
            {"id": one.id, "message": one.message, "author": one.author, "properties": dict(one.properties)}
            for one in line.transactions
        ],
    }
