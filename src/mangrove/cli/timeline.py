"""The history as a graph: versions on the line that counts now, and beside it those that a rollback took back."""

from collections.abc import Iterable
from dataclasses import dataclass

from mangrove.transaction.history import HistoryLine

__all__ = ["GraphRow", "graph_rows"]


@dataclass(frozen=True, slots=True)
class GraphRow:
    """A row of the graph: what is drawn in front, and the version, unless the row only joins lines."""

    marks: str
    line: HistoryLine | None = None


def graph_rows(lines: Iterable[HistoryLine]) -> list[GraphRow]:
    """Return the rows of the graph for versions that are given newest first.

    Below a rollback, what it took back stands one lane further right until the
    version is reached to which it went.
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
            # A lane cannot outlast the one it left: the older lane's end brings both back to the line.
            targets.append(max([target, *targets[-1:]]))
    return rows
