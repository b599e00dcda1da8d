"""All outcomes of a run as one table in Markdown: a line for each thing measured, a column for each size."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from measuring import Comparison


@dataclass(frozen=True, slots=True, order=True)
class Size:
    """How large the table of a run is."""

    rows: int
    files: int

    def __str__(self) -> str:
        rows = f"{self.rows // 1_000_000} M" if self.rows % 1_000_000 == 0 else f"{self.rows:,}"
        return f"{rows} rows, {self.files:,} files"


@dataclass(frozen=True, slots=True)
class Counted:
    """How many of something a run found, where time says nothing."""

    what: str
    count: int
    goal: int

    @property
    def ratio_text(self) -> str:
        return f"{self.count:,}"

    @property
    def goal_text(self) -> str:
        return f"{self.goal:,}"

    def line(self) -> str:
        verdict = "reached" if self.count <= self.goal else "missed"
        return f"{self.what:<66} {'':>9} {'':>9} {self.count:>8} {self.goal:>8}  {verdict}"


def markdown(found: Mapping[Size, Sequence[Comparison | Counted]]) -> str:
    """Return the table; what was not measured at a size is left empty."""
    goals = {one.what: one.goal_text for outcomes in found.values() for one in outcomes}
    lines = [
        "| | goal | " + " | ".join(map(str, found)) + " |",
        "|---|---|" + "---|" * len(found),
    ]
    for what, goal in goals.items():
        cells = [next((one.ratio_text for one in there if one.what == what), "") for there in found.values()]
        lines.append(f"| {what} | {goal} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
