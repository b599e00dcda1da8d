"""The history as a graph: versions on the line that counts now, and beside it those that a rollback took back."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from mangrove.transaction.history import HistoryLine

__all__ = ["ROLLED_BACK_TO", "GraphRow", "graph_rows", "target_of"]

ROLLED_BACK_TO = "mangrove.rolled-back-to"
"""The property of a rollback's commit that says to which version it went."""


_SAID = re.compile(r"roll back to version ([0-9]+)")
"""What the library says of a rollback, unless it is told to say something else."""


@dataclass(frozen=True, slots=True)
class GraphRow:
    """A row of the graph: what is drawn in front, and the version, unless the row only joins lines."""

    marks: str
    line: HistoryLine | None = None


def target_of(line: HistoryLine) -> int | None:
    """Return the version whose content a rollback brought back; None where it is none or does not say."""
    if line.rolled_back_from is None:
        return None
    said = _SAID.fullmatch(line.message)
    text = line.properties.get(ROLLED_BACK_TO, "" if said is None else said[1])
    is_earlier = text.isascii() and text.isdecimal() and int(text) < line.version
    return int(text) if is_earlier else None


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
        target = target_of(line)
        if target is not None and target < line.version - 1:
            rows.append(GraphRow("│ " * len(targets) + "├─╮"))
            # A lane cannot outlast the one it left: the older lane's end brings both back to the line.
            targets.append(max([target, *targets[-1:]]))
    return rows
