"""Arrow rows as the frames of other tools, each of which is imported when it is asked for."""

from typing import Any

import pyarrow as pa

from mangrove.errors import InvalidInputError

__all__ = ["duckdb_relation", "polars_frame"]


def polars_frame(rows: pa.Table) -> Any:
    """Return the rows as a polars DataFrame."""
    try:
        import polars  # noqa: PLC0415 - it takes long to import, and few need it
    except ImportError as error:
        raise InvalidInputError("polars is not installed: pip install 'mangrove-lake[polars]'") from error
    return polars.from_arrow(rows)


def duckdb_relation(rows: pa.Table, connection: Any | None = None) -> Any:
    """Return the rows as a relation of DuckDB, in a connection or in the one that DuckDB shares."""
    try:
        import duckdb  # noqa: PLC0415 - it takes long to import, and few need it
    except ImportError as error:
        raise InvalidInputError("DuckDB is not installed: pip install 'mangrove-lake[duckdb]'") from error
    return (duckdb if connection is None else connection).from_arrow(rows)
