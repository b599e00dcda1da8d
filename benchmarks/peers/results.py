"""Results of a run: figures per row and system, growth curves, and the machine that they were measured on."""

import json
import os
import platform
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Cell:
    """The figures of one system in one row, one per round; `reason` says why there are none."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    reason: str = ""


@dataclass(slots=True)
class Row:
    """One thing that was measured; times are in milliseconds unless there is another unit."""

    what: str
    unit: str = "ms"
    cells: dict[str, Cell] = field(default_factory=dict)
    higher_is_better: bool = False


@dataclass(slots=True)
class Curve:
    """How a figure grows: points of (size, figure) per system, and why a system's curve ends early."""

    what: str
    sizes: str
    unit: str = "ms"
    points: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    size_goal: float = 0.0
    """The size that figures are extrapolated to where a curve ends before it."""


@dataclass(slots=True)
class PartResult:
    """The results of one part."""

    name: str
    title: str
    description: str
    systems: dict[str, str]
    """The titles of the systems, in the order of the columns."""
    rows: list[Row] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    unavailable: dict[str, str] = field(default_factory=dict)
    """The systems that could not be measured at all, with the reasons."""
    differences: list[str] = field(default_factory=list)
    """Answers of a system that differ from those of the others."""
    seconds: float = 0.0

    def row(self, what: str, unit: str = "ms", *, higher_is_better: bool = False) -> Row:
        """Return the row of this name, which is added if there is none."""
        for row in self.rows:
            if row.what == what:
                return row
        self.rows.append(Row(what, unit, {name: Cell() for name in self.systems}, higher_is_better))
        return self.rows[-1]


@dataclass(slots=True)
class Report:
    """A run: what was measured, when, where, with which versions and sizes."""

    date: str
    machine: dict[str, str]
    versions: dict[str, dict[str, str]]
    options: dict[str, Any]
    parts: list[PartResult] = field(default_factory=list)


def summarize(figures: list[float]) -> tuple[float, float, float]:
    """Return the median, the smallest and the largest figure.

    >>> summarize([3.0, 1.0, 2.0])
    (2.0, 1.0, 3.0)
    """
    return statistics.median(figures), min(figures), max(figures)


def describe_machine() -> dict[str, str]:
    """Return the facts of this machine that matter to readers of a report."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return {
        "processor": _read_processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load average at the start": f"{os.getloadavg()[0]:.1f}",
    }


def _read_processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


def encode_report(report: Report) -> str:
    """Return a report as JSON."""
    return json.dumps(asdict(report), indent=1, ensure_ascii=False) + "\n"


def decode_report(text: str) -> Report:
    """Return the report of a JSON text."""
    values = json.loads(text)
    parts = values.pop("parts")
    return Report(**values, parts=[_decode_part(part) for part in parts])


def _decode_part(values: dict[str, Any]) -> PartResult:
    rows, curves = values.pop("rows"), values.pop("curves")
    decoded = PartResult(**values)
    for row in rows:
        cells = {name: Cell(**cell) for name, cell in row.pop("cells").items()}
        decoded.rows.append(Row(**row, cells=cells))
    for curve in curves:
        points = {name: [(x, y) for x, y in line] for name, line in curve.pop("points").items()}
        decoded.curves.append(Curve(**curve, points=points))
    return decoded
