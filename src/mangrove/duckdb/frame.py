"""Lazy rows of a query on DuckDB."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any, Final, Protocol

import duckdb
import pyarrow as pa

from mangrove.duckdb.functions import MACROS
from mangrove.duckdb.query import Relation
from mangrove.errors import InvalidInputError, StorageError
from mangrove.local.frames import to_polars
from mangrove.local.python_rows import to_python_rows
from mangrove.model.arrow_schema import type_to_arrow

__all__ = ["ArrowSource", "Database", "DuckDbFrame", "raise_computation_error"]

_INTERRUPTED: Final = "the query was cancelled"


class ArrowSource(Protocol):
    """Rows that DuckDB may read more than once: an Arrow table, or an object that opens a stream for each read."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Open a stream of Arrow rows."""
        ...


class Database:
    """A DuckDB database in memory without tables; each query has a connection of its own."""

    @cached_property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(":memory:", config={"python_enable_replacements": "false"})
        # As in a Spark session that Mangrove starts, results do not depend on the time zone of the machine.
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
        for macro in MACROS:
            connection.execute(macro)
        return connection

    def connect(self) -> duckdb.DuckDBPyConnection:
        """Return a new connection."""
        return self._connection.cursor()


def raise_computation_error(error: duckdb.Error) -> None:
    """Raise the error of Mangrove for an error of DuckDB."""
    message = " ".join(str(error).partition("\n")[0].partition(": ")[2].split())
    if isinstance(error, duckdb.InterruptException):
        raise InvalidInputError(_INTERRUPTED) from error
    if isinstance(error, duckdb.IOException | duckdb.OutOfMemoryException | duckdb.InternalException):
        raise StorageError(f"DuckDB could not compute the rows: {message or error}") from error
    raise InvalidInputError(f"DuckDB could not compute the rows: {message or error}") from error


@dataclass(frozen=True, eq=False)
class DuckDbFrame:
    """The rows of a query, which DuckDB computes each time that they are read.

    >>> frame = lake.sql("select id, name from shop.orders", engine="duckdb")  # doctest: +SKIP
    >>> frame.columns, frame.to_arrow(limit=10)  # doctest: +SKIP
    """

    relation: Relation
    database: Database = field(repr=False)
    sources: Mapping[str, ArrowSource] = field(default_factory=dict, repr=False)
    """The Arrow rows that the query reads, by the name of their table."""
    _running: list[duckdb.DuckDBPyConnection] = field(default_factory=list, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def columns(self) -> list[str]:
        """The column names."""
        return [name for name, _ in self.relation.columns]

    @cached_property
    def schema(self) -> pa.Schema:
        """The names and types of the columns."""
        return pa.schema(
            [(name, pa.null() if kind is None else type_to_arrow(kind)) for name, kind in self.relation.columns]
        )

    @property
    def engine(self) -> str:
        """The name of the engine that computes the rows."""
        return "duckdb"

    def to_arrow(self, limit: int | None = None) -> pa.Table:
        """Compute the rows, or at most `limit` of them."""
        return pa.Table.from_batches(list(self.to_batches(limit)), self.schema)

    def to_batches(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Compute the rows in batches, or at most `limit` of them."""
        text = self.relation.text if limit is None else f"SELECT * FROM ({self.relation.text}) LIMIT {int(limit)}"
        connection = self.database.connect()
        with self._lock:
            self._running.append(connection)
        try:
            for name, source in self.sources.items():
                connection.register(name, source)
            for batch in pa.RecordBatchReader.from_stream(connection.sql(text)):
                yield _convert_batch(batch, self.schema)
        except duckdb.Error as error:
            raise_computation_error(error)
        except pa.ArrowException as error:
            # The reader reports the errors of DuckDB as its own.
            raise InvalidInputError(f"DuckDB could not compute the rows: {_first_line(error)}") from error
        finally:
            with self._lock:
                self._running.remove(connection)
            self._disconnect(connection)

    def explain(self) -> str:
        """Return DuckDB's plan of the query."""
        connection = self.database.connect()
        try:
            for name, source in self.sources.items():
                connection.register(name, source)
            return str(connection.sql(self.relation.text).explain())
        finally:
            self._disconnect(connection)

    def _disconnect(self, connection: duckdb.DuckDBPyConnection) -> None:
        for name in self.sources:
            connection.unregister(name)
        connection.close()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Open a stream of the rows, for libraries that read Arrow streams."""
        reader: Any = pa.RecordBatchReader.from_batches(self.schema, self.to_batches())
        stream: object = reader.__arrow_c_stream__(requested_schema)
        return stream

    def to_pandas(self) -> Any:
        """Compute the rows as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Compute the rows as a polars DataFrame."""
        return to_polars(self.to_arrow())

    def collect(self, limit: int | None = None) -> list[tuple[Any, ...]]:
        """Compute the rows as Python values, or at most `limit` of them."""
        return list(self.iterate(limit))

    def iterate(self, limit: int | None = None) -> Iterator[tuple[Any, ...]]:
        """Compute the rows as Python values, batch by batch."""
        names = [f"c{place}" for place in range(len(self.columns))]
        for batch in self.to_batches(limit):
            # Two columns may have the same name.
            rows = to_python_rows(pa.Table.from_batches([batch]).rename_columns(names))
            yield from (tuple(row.values()) for row in rows)

    def cancel(self) -> None:
        """Cancel the reads that are in progress, from any thread."""
        with self._lock:
            for connection in self._running:
                connection.interrupt()

    def select(self, *names: str) -> "DuckDbFrame":
        """Return the rows with some of the columns; quotes around a name are removed."""
        folded = [name.casefold() for name in self.columns]
        places = [folded.index(name.strip("`").replace("``", "`").casefold()) for name in names]
        items = ", ".join(f"c{place} AS c{number}" for number, place in enumerate(places))
        columns = tuple(self.relation.columns[place] for place in places)
        # ruff: noqa: S608 - the text is generated
        return self.derive(Relation(f"SELECT {items} FROM ({self.relation.text})", columns))

    def derive(self, relation: Relation) -> "DuckDbFrame":
        """Return a frame over the same sources."""
        return DuckDbFrame(relation, self.database, self.sources)

    def __repr__(self) -> str:
        """Return the columns; no row is computed."""
        return f"DuckDbFrame[{', '.join(f'{one.name}: {one.type}' for one in self.schema)}]"


def _convert_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        pa.nulls(batch.num_rows) if pa.types.is_null(one.type) else _cast(column, one.type)
        for column, one in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: Any, kind: pa.DataType) -> Any:
    return column if column.type == kind else column.cast(kind)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
