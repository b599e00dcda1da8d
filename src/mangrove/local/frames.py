"""Rows as people hand them in, turned into one Arrow table."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from mangrove.errors import InvalidInputError
from mangrove.local.row_faults import refused_values
from mangrove.model.arrow_form import type_to_arrow
from mangrove.model.schema import Schema
from mangrove.model.types import DataType, Map, inner_columns

__all__ = ["arrow_table"]


def arrow_table(rows: object, schema: Schema | None) -> pa.Table:
    """Return pyarrow, pandas or polars frames, or a list of dicts, as an Arrow table with the columns they have."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, pa.RecordBatchReader):
        return rows.read_all()
    origin = type(rows).__module__.partition(".")[0]
    foreign: Any = rows
    if origin == "pandas":
        return _from_pandas(foreign)
    if origin == "polars" and hasattr(rows, "to_arrow"):
        found: pa.Table = foreign.to_arrow()
        return found
    if isinstance(rows, list | tuple) and all(isinstance(row, Mapping) for row in rows):
        return _from_dicts(rows, schema)
    raise InvalidInputError(
        f"rows are given as {type(rows).__name__}: give a Spark, pyarrow, pandas or polars frame, or a list of dicts"
    )


def _from_pandas(frame: Any) -> pa.Table:
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(f"a column of the pandas frame holds values of several types: {error}") from error
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"a column of the pandas frame holds text that is not Unicode ({error.object[error.start : error.end]!a})"
        ) from error


def _from_dicts(rows: Sequence[Mapping[str, Any]], schema: Schema | None) -> pa.Table:
    names = list(dict.fromkeys(name for row in rows for name in row))
    wanted = {column.name.casefold(): column.type for column in (schema.columns if schema else ())}
    arrays: list[Any] = []
    for name in names:
        values = [row.get(name) for row in rows]
        data_type = wanted.get(str(name).casefold())
        # Arrow takes a dict for a struct unless it is told that it is a map; all else it finds out by itself,
        # and converting it afterwards loses nothing silently.
        told = type_to_arrow(data_type) if data_type is not None and _holds_map(data_type) else None
        try:
            arrays.append(pa.array(values, told))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError) as error:
            raise refused_values(str(name), values, data_type, error) from error
        except OverflowError as error:
            raise InvalidInputError(f"column {name!r} holds a whole number of more than 64 bits") from error
        except UnicodeEncodeError as error:
            raise InvalidInputError(
                f"column {name!r} holds text that is not Unicode ({error.object[error.start : error.end]!a})"
            ) from error
    if not names:
        return pa.table({column.name: pa.nulls(len(rows)) for column in (schema.columns if schema else ())})
    return pa.table(arrays, names=[str(name) for name in names])


def _holds_map(data_type: DataType) -> bool:
    return isinstance(data_type, Map) or any(_holds_map(column.type) for column in inner_columns(data_type))
