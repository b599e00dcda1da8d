"""The statements about what Spark holds for a session, as values: CACHE, REFRESH, ANALYZE and EXECUTE IMMEDIATE."""

from dataclasses import dataclass

from mangrove.sql.cursor import Piece, SqlName

__all__ = ["Analyze", "CacheTable", "ExecuteImmediate"]


@dataclass(frozen=True, slots=True)
class CacheTable:
    """Keep the rows of a table in Spark's memory, or let them go."""

    name: SqlName
    action: str
    """One of cache, uncache, refresh."""
    is_lazy: bool = False
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class Analyze:
    """Look at a table's statistics."""

    name: SqlName


@dataclass(frozen=True, slots=True)
class ExecuteImmediate:
    """Run a statement whose text is computed."""

    text: Piece
    arguments: tuple[tuple[str | None, Piece], ...] = ()
    """The values of its parameters, with their names where they have some."""
    into: Piece | None = None
    """The names of the session's variables that its one row goes into."""
