"""How far a stream has read a table: a place in its history, and the next place under a limit."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mangrove.errors import FormatError
from mangrove.tables.stream_steps import Step, Unit

__all__ = ["BatchLimit", "StreamOffset", "advanced", "offset_from_json", "units_between"]


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """Everything up to `version` was given, and so many files of what comes next.

    At the beginning of a stream what comes next is the table as `version` has it;
    later it is what the version after it added.
    """

    table_id: str
    version: int
    files: int = 0
    is_first: bool = False
    state: str = ""
    """The fingerprint of the table at `version`: it tells whether anything was missed once that version expired."""

    def to_json(self) -> dict[str, Any]:
        """Return it as Spark keeps it in a checkpoint."""
        return {
            "table": self.table_id,
            "version": self.version,
            "files": self.files,
            "first": self.is_first,
            "state": self.state,
        }


@dataclass(frozen=True, slots=True)
class BatchLimit:
    """How much one batch may hold; at least one unit is always taken, or a stream would stand still."""

    files: int | None = None
    rows: int | None = None
    size_bytes: int | None = None

    def holds(self, total: Unit, files: int) -> bool:
        """Return whether a batch of so many files, with the rows and bytes of `total`, is small enough."""
        return (
            (self.files is None or files <= self.files)
            and (self.rows is None or total.row_count <= self.rows)
            and (self.size_bytes is None or total.size_bytes <= self.size_bytes)
        )


def offset_from_json(given: Mapping[str, Any]) -> StreamOffset:
    """Return the offset that a checkpoint holds."""
    try:
        found = StreamOffset(
            str(given["table"]), int(given["version"]), int(given["files"]), bool(given["first"]), str(given["state"])
        )
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"the checkpoint holds the offset {dict(given)}, which no stream of a lakehouse wrote: use a new checkpoint"
        ) from error
    return found


def advanced(start: StreamOffset, steps: Iterable[Step], limit: BatchLimit) -> StreamOffset:
    """Return up to where the next batch reads; `steps` begin with what comes next after `start`.

    It is `start` itself where there is nothing new.
    """
    total, files = Unit(0, 0), 0
    end = start
    for step in steps:
        skipped = start.files if end is start else 0
        for place, unit in enumerate(step.units[skipped:], skipped):
            total = Unit(total.row_count + unit.row_count, total.size_bytes + unit.size_bytes)
            if files and not limit.holds(total, files + 1):
                return _inside(start, step, place)
            files += 1
        if files:
            end = StreamOffset(start.table_id, step.version)
        elif step.is_first:
            # There was nothing in the table yet, so what comes next is what the versions after it add.
            end = replace(start, version=step.version, files=0, is_first=False)
    return end if files else start


def units_between(start: StreamOffset, end: StreamOffset, steps: Iterable[Step]) -> list[tuple[Step, tuple[Unit, ...]]]:
    """Return what a batch holds, version by version."""
    found: list[tuple[Step, tuple[Unit, ...]]] = []
    skipped = start.files
    for step in steps:
        is_partial = end.is_first if step.is_first else step.version > end.version
        units = step.units[skipped : end.files if is_partial else None]
        if units:
            found.append((step, units))
        if is_partial:
            break
        skipped = 0
    return found


def _inside(start: StreamOffset, step: Step, place: int) -> StreamOffset:
    """Return the place in front of the unit at `place` of a step."""
    before = step.version if step.is_first else step.version - 1
    return StreamOffset(start.table_id, before, place, is_first=step.is_first)
