"""How the history and what changed in it look on a terminal."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mangrove.cli.catalog_views import list_table
from mangrove.cli.changed import ChangedFacts, ColumnChange
from mangrove.cli.long_lists import more_line
from mangrove.cli.screen import counted, time_text
from mangrove.cli.timeline import graph_rows
from mangrove.lakehouse.diff import Change, ObjectChange
from mangrove.maintenance.progress import said_bytes
from mangrove.transaction.history import HistoryLine

__all__ = ["changed_view", "graph_view", "log_view"]

_STYLES = {Change.ADDED: "green", Change.DROPPED: "red", Change.RENAMED: "yellow", Change.CHANGED: "yellow"}
_MARKS = {Change.ADDED: "+", Change.DROPPED: "-", Change.RENAMED: "~", Change.CHANGED: "~"}


def log_view(lines: Sequence[HistoryLine]) -> RenderableType:
    """Return the versions as a list."""
    has_authors = any(line.author for line in lines)
    table = list_table("version", "committed (UTC)", *(["author"] if has_authors else []), "what")
    for line in lines:
        author = [line.author] if has_authors else []
        table.add_row(Text(str(line.version), style="cyan"), _when(line), *author, _what(line))
    return table


def graph_view(lines: Sequence[HistoryLine]) -> RenderableType:
    """Return the versions as a graph, with what rollbacks took back beside it."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for _ in range(3):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in graph_rows(lines):
        marks = Text(row.marks, style="yellow")
        if row.line is None:
            table.add_row(marks, "", "", "")
        else:
            table.add_row(marks, Text(str(row.line.version), style="cyan"), _when(row.line), _what(row.line))
    return table


def changed_view(changed: ChangedFacts, objects_max: int | None = None) -> RenderableType:
    """Return what changed between two versions, of at most so many namespaces, tables and views."""
    parts: list[Text] = [Text(f"from version {changed.diff.before} to {changed.diff.after}", style="bold")]
    if changed.settings_changed:
        parts.append(Text("~ the lakehouse's own settings, properties or exports", style="yellow"))
    for one in changed.diff.changes[:objects_max]:
        parts.append(_object_line(one))
        parts += [_column_line(column) for column in changed.columns.get(one.name, ())]
        parts += _data_lines(one)
    if objects_max is not None:
        parts += more_line(len(changed.diff.changes) - objects_max)
    if len(parts) == 1:
        parts.append(Text("nothing differs", style="dim"))
    return Group(*parts)


def _object_line(one: ObjectChange) -> Text:
    said = one.name if one.name_before is None else f"{one.name_before} → {one.name}"
    return Text(f"{_MARKS[one.change]} {one.kind.word} {said}", style=_STYLES[one.change])


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
    return Text(f"    {mark} {counted(rows, 'row')}, {said_bytes(size_bytes)} in {deltas:,} delta{plural}", style=style)


def _when(line: HistoryLine) -> str:
    return time_text(line.created_at_millis).replace("T", " ").partition(".")[0] or "unknown"


def _what(line: HistoryLine) -> Text:
    said = Text(line.message)
    if line.rolled_back_from is not None:
        said.append(f"{' ' if line.message else ''}(rollback of version {line.rolled_back_from})", style="yellow")
    return said
