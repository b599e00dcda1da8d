"""The statements that change rows, as values: INSERT, UPDATE, DELETE, MERGE and TRUNCATE, and the queries in them."""

from dataclasses import dataclass, field

from mangrove.sql.computed_moments import ComputedMoment
from mangrove.sql.cursor import Piece, SqlName

__all__ = ["Assignment", "Delete", "Insert", "Merge", "MergeClause", "MultiInsert", "Query", "Truncate", "Update"]


@dataclass(frozen=True, slots=True)
class Query:
    """What Spark understands once our tables are put in it."""

    piece: Piece
    at: str | int | ComputedMoment | None = None
    """The version, time or export at which every table is read."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A column and what it becomes."""

    column: tuple[str, ...]
    """Its path; nothing where the values of an insert go by their places."""
    value: Piece
    start: int = field(default=0, compare=False)
    """Where the column is named, or else its value."""


@dataclass(frozen=True, slots=True)
class Insert:
    """Add the rows of a query."""

    table: SqlName
    query: Query
    columns: tuple[str, ...] = ()
    by_name: bool = False
    overwrite: bool = False
    partition: tuple[tuple[str, Piece | None], ...] = ()
    """The partition columns with their values; without one, the query says it."""
    if_not_exists: bool = False
    replace_where: Piece | None = None
    column_places: tuple[int, ...] = field(default=(), compare=False)
    """Where each of the columns is named."""


@dataclass(frozen=True, slots=True)
class MultiInsert:
    """Add rows of one source to several tables; each query begins with the FROM that they share."""

    inserts: tuple[Insert, ...]

    @property
    def table(self) -> SqlName:
        """The first of the tables."""
        return self.inserts[0].table


@dataclass(frozen=True, slots=True)
class Update:
    """Change rows."""

    table: SqlName
    alias: str | None
    assignments: tuple[Assignment, ...]
    condition: Piece | None = None
    common: Piece | None = None
    """The WITH clause in front of the statement."""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete rows."""

    table: SqlName
    alias: str | None
    condition: Piece | None = None
    common: Piece | None = None


@dataclass(frozen=True, slots=True)
class MergeClause:
    """What happens to rows that a merge found, or did not find."""

    group: str
    """One of matched, not matched, not matched by source."""
    action: str
    """One of update, update all, delete, insert, insert all."""
    condition: Piece | None = None
    assignments: tuple[Assignment, ...] = ()


@dataclass(frozen=True, slots=True)
class Merge:
    """Change a table by what another has."""

    table: SqlName
    alias: str | None
    source: Piece
    """A table's name or a query between brackets, with its alias."""
    source_alias: str | None
    condition: Piece
    clauses: tuple[MergeClause, ...] = ()
    common: Piece | None = None
    with_schema_evolution: bool = False
    source_columns: tuple[str, ...] = ()
    """What the columns of the source are called, where its alias says so."""


@dataclass(frozen=True, slots=True)
class Truncate:
    """Delete all rows."""

    table: SqlName
