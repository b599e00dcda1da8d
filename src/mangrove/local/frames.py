"""Conversion of pandas, Polars and Python rows to Arrow tables, and back to other frames."""

import decimal
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from mangrove.errors import InvalidInputError
from mangrove.local.python_rows import build_value_error
from mangrove.model.arrow_schema import type_to_arrow
from mangrove.model.schema import Schema
from mangrove.model.types import DataType, Decimal, Map, TimestampNs, TimestampTzNs, inner_columns

if TYPE_CHECKING:
    import duckdb
    import polars

_NANOS: Final = (TimestampNs, TimestampTzNs)

__all__ = ["to_arrow_table", "to_duckdb", "to_polars"]


def to_polars(rows: pa.Table) -> "polars.DataFrame":
    """Return the rows as a polars DataFrame."""
    try:
        import polars  # noqa: PLC0415 - it takes long to import, and few need it
    except ImportError as error:
        raise InvalidInputError("polars is not installed: pip install 'mangrove-lake[polars]'") from error
    return polars.DataFrame(rows)


def to_duckdb(rows: pa.Table, connection: "duckdb.DuckDBPyConnection | None" = None) -> "duckdb.DuckDBPyRelation":
    """Return the rows as a DuckDB relation, in a connection or in DuckDB's default one."""
    try:
        import duckdb  # noqa: PLC0415 - it takes long to import, and few need it
    except ImportError as error:
        raise InvalidInputError("DuckDB is not installed: pip install 'mangrove-lake[duckdb]'") from error
    relation = (duckdb if connection is None else connection).from_arrow(rows)
    for field, found in zip(rows.schema, relation.types, strict=True):
        if "timestamp[ns, tz=" in str(field.type) and "TIMESTAMPTZ_NS" not in str(found):
            raise InvalidInputError(
                f"column {field.name!r} is {field.type}, which DuckDB {duckdb.__version__} would round; "
                "update DuckDB to 2.0, or leave the column out"
            )
    return relation


def to_arrow_table(rows: object, schema: Schema | None) -> pa.Table:
    """Return pyarrow, pandas or polars frames, another Arrow stream, or a list of dicts, as an Arrow table."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, pa.RecordBatchReader):
        return rows.read_all()
    origin = type(rows).__module__.partition(".")[0]
    foreign: Any = rows
    if origin == "pandas" and type(rows).__name__ == "DataFrame":
        return _from_pandas(_with_index(foreign, schema))
    if (origin == "polars" and type(rows).__name__ == "DataFrame") or origin == "mangrove":
        # The frames of an SQL engine report their errors here, which an Arrow stream reduces to text.
        found: pa.Table = foreign.to_arrow()
        return found
    if isinstance(rows, list | tuple):
        return _from_dicts(_check_dicts(rows), schema)
    if hasattr(rows, "__arrow_c_stream__") and origin not in ("pandas", "polars"):
        return pa.RecordBatchReader.from_stream(rows).read_all()
    raise InvalidInputError(
        f"rows are given as {type(rows).__name__}: {_advice(rows, origin)}a Spark, pyarrow, pandas or polars frame, "
        "an Arrow stream, or a list of dicts"
    )


def _advice(rows: object, origin: str) -> str:
    """Return how to convert an unsupported argument to rows."""
    match origin, type(rows).__name__:
        case (("pandas" | "polars"), "Series"):
            return "call to_frame() on it, or give "
        case "polars", "LazyFrame":
            return "call collect() on it, or give "
        case _ if isinstance(rows, Iterable) and not isinstance(rows, str | bytes | Mapping):
            return "call list(…) with it if it yields dicts, or give "
        case _:
            return "give "


def _check_dicts(rows: Sequence[Any]) -> Sequence[Mapping[str, Any]]:
    for place, row in enumerate(rows):
        if not isinstance(row, Mapping):
            held = "None" if row is None else f"a value of type {type(row).__name__}"
            raise InvalidInputError(
                f"the list of rows holds {held} at place {place}: each row is a dict of columns and values"
            )
    return rows


def _with_index(frame: Any, schema: Schema | None) -> Any:
    """Return a pandas frame with its named index levels as columns."""
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise InvalidInputError(f"the pandas frame has the column {twice!r} twice: rename one of the two")
    names = list(frame.index.names)
    if all(name is None for name in names):
        return frame
    known = None if schema is None else {column.name.casefold() for column in schema.columns}
    levels: list[int] = []
    for level, name in enumerate(names):
        if name is None or (known is not None and str(name).casefold() not in known):
            what = "a part without a name" if name is None else f"{name!r}, which is no column of the table"
            raise InvalidInputError(
                f"the index of the pandas frame has {what}: call reset_index(), with drop=True to leave it out"
            )
        if name not in frame.columns:
            levels.append(level)
        elif not frame.index.get_level_values(level).to_series(index=frame.index).equals(frame[name]):
            raise InvalidInputError(
                f"{name!r} is a column of the pandas frame and its index, with other values: "
                "call reset_index(drop=True) to keep the column"
            )
    return frame.reset_index(level=levels) if levels else frame


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
    types = {column.name.casefold(): column.type for column in (schema.columns if schema else ())}
    arrays: list[Any] = []
    for name in names:
        data_type = types.get(str(name).casefold())
        values = _exact([row.get(name) for row in rows], data_type)
        # Arrow takes a dict for a struct unless its type is a map, and cuts off nanoseconds unless it has the type;
        # all else it finds out by itself, and converting it afterwards loses nothing silently.
        arrow_type = type_to_arrow(data_type) if data_type is not None and _needs_type(data_type) else None
        try:
            arrays.append(_convert_values(values, arrow_type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError) as error:
            raise build_value_error(str(name), values, data_type, error) from error
        except OverflowError as error:
            raise InvalidInputError(f"column {name!r} holds a whole number of more than 64 bits") from error
        except UnicodeEncodeError as error:
            raise InvalidInputError(
                f"column {name!r} holds text that is not Unicode ({error.object[error.start : error.end]!a})"
            ) from error
    if not names:
        return pa.table({column.name: pa.nulls(len(rows)) for column in (schema.columns if schema else ())})
    return pa.table(arrays, names=[str(name) for name in names])


def _exact(values: list[Any], data_type: DataType | None) -> list[Any]:
    """Convert integers for a decimal column to decimals, because Arrow's conversion is limited to 64 bits."""
    if not isinstance(data_type, Decimal) or not any(type(value) is int and abs(value) >> 63 for value in values):
        return values
    return [decimal.Decimal(value) if type(value) is int else value for value in values]


def _convert_values(values: list[Any], arrow_type: Any) -> Any:
    array: Any = pa.array(values, arrow_type)
    # Arrow detects a timestamp of pandas as one in microseconds.
    if pa.types.is_timestamp(array.type) and any(getattr(value, "nanosecond", 0) for value in values):
        return pa.array(values, pa.timestamp("ns", array.type.tz))
    return array


def _needs_type(data_type: DataType) -> bool:
    """Return whether Arrow must know the type to convert Python values: a map, or nanoseconds in a nested type."""
    inner = [column.type for column in inner_columns(data_type)]
    return isinstance(data_type, Map) or any(isinstance(one, _NANOS) or _needs_type(one) for one in inner)
