"""What can be told of rows as people hand them in, without importing what they are made of."""

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["columns_of", "is_spark_frame", "repeatable"]


def is_spark_frame(rows: object) -> bool:
    """Return whether rows are a DataFrame of Spark, classic or Connect."""
    return type(rows).__module__.partition(".")[0] == "pyspark"


def columns_of(rows: object) -> tuple[str, ...] | None:
    """Return the names of the columns that rows have, or None where nobody knows.

    A list of dicts has the columns that any of its dicts names. An empty one names none.
    The names of the index of a pandas frame are columns as well.
    """
    frame: Any = rows
    if isinstance(rows, Sequence) and not isinstance(rows, str | bytes):
        named = dict.fromkeys(str(name) for row in rows if isinstance(row, Mapping) for name in row)
        return tuple(named) or None
    if type(rows).__module__.partition(".")[0] == "pyarrow":
        return tuple(frame.schema.names)
    if hasattr(frame, "columns"):
        is_pandas = type(rows).__module__.partition(".")[0] == "pandas" and hasattr(frame, "index")
        index = [name for name in frame.index.names if name is not None] if is_pandas else []
        return tuple(dict.fromkeys(str(name) for name in (*index, *frame.columns)))
    return None


def repeatable(rows: object) -> object:
    """Return rows that can be looked at again, for their columns or after a lost race: a reader gives its rows once."""
    if type(rows).__name__ == "RecordBatchReader" and type(rows).__module__.partition(".")[0] == "pyarrow":
        reader: Any = rows
        return reader.read_all()
    return rows
