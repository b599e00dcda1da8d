"""The operations that a system of the comparison offers to its worker.

An adapter implements those that its system has. The others raise `Unsupported`, whose
text the report shows in place of a figure. Every table has the columns of `rows.SCHEMA`
and the key `id`.
"""

# ruff: noqa: ARG002  the operations of the base class only raise

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa


class Unsupported(Exception):  # noqa: N818  not a failure, but an answer
    """The system has no such operation, for the reason given."""


def render_condition(column: str, low: float, high: float) -> str:
    """Return low ≤ column < high in SQL."""
    return f"{column} >= {low} and {column} < {high}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a system stores its tables: a folder for its catalog, and a folder or S3 URI for its data."""

    folder: str
    data: str
    s3: Mapping[str, str] = field(default_factory=dict)
    """The options `endpoint`, `access_key_id`, `secret_access_key` and `region` if the data is on S3."""


class TableSystem:
    """One system under one place; each operation sees the newest state."""

    conflicts: tuple[type[Exception], ...] = ()
    """The errors of a commit that lost against a concurrent one and may be repeated."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._numbers = itertools.count()

    def create(self, table: str) -> None:
        """Create an empty table."""
        raise Unsupported("no tables")

    def create_many(self, count: int) -> None:
        """Create empty tables n0, n1, …, in one commit if the system can."""
        for _ in range(count):
            self.create(self.name_next())

    def name_next(self) -> str:
        """Return the next unused name of a table."""
        return f"n{next(self._numbers)}"

    def append(self, table: str, rows: pa.Table) -> None:
        """Commit new rows."""
        raise Unsupported("no appends")

    def scan(self, table: str) -> pa.Table:
        """Return all rows."""
        raise Unsupported("no scans")

    def filter(self, table: str, column: str, low: float, high: float) -> pa.Table:
        """Return the rows with low ≤ column < high."""
        raise Unsupported("no filters")

    def upsert(self, table: str, rows: pa.Table) -> None:
        """Replace the rows with the same ids and insert the others."""
        raise Unsupported("no upserts")

    def compact(self, table: str) -> None:
        """Rewrite the table into few files without deleted rows."""
        raise Unsupported("no compaction")

    def list_processes(self) -> Sequence[int]:
        """Return the ids of other processes whose CPU time counts."""
        return ()

    def close(self) -> None:
        """End what the system started."""
