"""How the history and what changed in it look on a terminal."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mangrove.cli.catalog_views import list_table
from mangrove.cli.changed import ChangedFacts, ColumnChange, TableChange
from mangrove.cli.facts import time_text
from mangrove.cli.timeline import graph_rows
from mangrove.maintenance.progress import said_bytes
from mangrove.transaction.history import HistoryLine

__all__ = ["changed_view", "graph_view", "log_view"]

_STYLES = {"added": "green", "removed": "red", "renamed": "yellow", "changed": "yellow"}
_MARKS = {"added": "+", "removed": "-", "renamed": "~", "changed": "~"}


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


def changed_view(changed: ChangedFacts) -> RenderableType:
    """Return what changed between two versions."""
    heading = Text(f"from version {changed.version_before} to {changed.version_after}", style="bold")
    parts: list[RenderableType] = [heading]
    if changed.lakehouse_changed:
        parts.append(Text("~ the lakehouse's own settings, properties or exports", style="yellow"))
    for entry in changed.entries:
        said = entry.name if entry.name_before is None else f"{entry.name_before} → {entry.name}"
        parts.append(Text(f"{_MARKS[entry.change]} {entry.kind} {said}", style=_STYLES[entry.change]))
    for table in changed.tables:
        parts += _table_lines(table)
    if len(parts) == 1:
        parts.append(Text("nothing differs", style="dim"))
    return Group(*parts)


def _table_lines(table: TableChange) -> list[RenderableType]:
    said = table.name if table.name_before is None else f"{table.name_before} → {table.name}"
    lines: list[RenderableType] = [Text(f"{_MARKS[table.change]} table {said}", style=_STYLES[table.change])]
    lines += [_column_line(column) for column in table.columns]
    lines += _data_lines("+", "green", table.deltas_added, table.rows_added, table.files_added, table.bytes_added)
    lines += _data_lines("-", "red", table.deltas_removed, table.rows_removed, table.files_removed, table.bytes_removed)
    return lines


def _column_line(column: ColumnChange) -> Text:
    if column.before is None:
        return Text(f"    + column {column.after}", style="green")
    if column.after is None:
        return Text(f"    - column {column.before}", style="red")
    return Text(f"    ~ column {column.before} → {column.after}", style="yellow")


def _data_lines(mark: str, style: str, deltas: dict[str, int], rows: int, files: int, size_bytes: int) -> list[Text]:
    if not deltas:
        return []
    kinds = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in deltas.items())
    return [Text(f"    {mark} {rows:,} rows, {files:,} files, {said_bytes(size_bytes)} (deltas: {kinds})", style=style)]


def _when(line: HistoryLine) -> str:
    return time_text(line.created_at_millis).replace("T", " ").partition(".")[0] or "unknown"


def _what(line: HistoryLine) -> Text:
    said = Text(line.message)
    if line.rolled_back_from is not None:
        said.append(f"{' ' if line.message else ''}(rollback of version {line.rolled_back_from})", style="yellow")
    return said
