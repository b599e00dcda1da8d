"""Lazy rows of a query on DuckDB."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol, Self
from weakref import finalize

import duckdb
import pyarrow as pa

from mangrove.duckdb.functions import MACROS
from mangrove.duckdb.query import Relation
from mangrove.errors import FormatError, InvalidInputError, MangroveError, StorageError
from mangrove.lakehouse.listing import SHOWN_MAX, render_html
from mangrove.lakehouse.sql_port import DUCKDB
from mangrove.local.frames import to_polars
from mangrove.local.parquet import GAP_SIZE_BYTES_MAX
from mangrove.local.python_rows import to_python_rows
from mangrove.model.arrow_schema import field_to_arrow

if TYPE_CHECKING:
    # fsspec takes longer to import than a query of a local folder.
    from mangrove.duckdb.file_system import StoreFileSystem

__all__ = ["ArrowSource", "Database", "DuckDbFrame", "FrameRow"]


class ArrowSource(Protocol):
    """Rows that DuckDB may read more than once: an Arrow table, or an object that opens a stream for each read."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Open a stream of Arrow rows."""
        ...


class Database:
    """A DuckDB database in memory without tables; each query has a connection of its own."""

    def __init__(self, files: "StoreFileSystem | None" = None) -> None:
        self.files: Final = files
        """The files of a store that DuckDB cannot open itself."""
        self._lock = Lock()
        self._running: set[duckdb.DuckDBPyConnection] = set()

    @cached_property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(":memory:", config={"python_enable_replacements": "false"})
        # As in a Spark session that Mangrove starts, results do not depend on the time zone of the machine.
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
        for macro in MACROS:
            connection.execute(macro)
        if self.files is not None:
            connection.register_filesystem(self.files)
            # A connection with a file system that is still open when the process ends is reported as a leak.
            finalize(self, connection.close)
            # A footer is read once, not again for each query and each use of a table in it.
            connection.execute("SET GLOBAL parquet_metadata_cache = true")
            with suppress(duckdb.CatalogException):
                # DuckDB 1 does not have this setting.
                connection.execute(f"SET GLOBAL parquet_prefetch_column_gap = {GAP_SIZE_BYTES_MAX}")
        return connection

    def find_failure(self, error: Exception) -> MangroveError | None:
        """Return the error of the store that DuckDB reports as text."""
        return None if self.files is None else self.files.find_failure(str(error))

    def limit_memory(self, bytes_max: int) -> None:
        """Limit the memory of all queries together; a query that needs more fails."""
        with self.connect({}) as connection:
            connection.execute(f"SET GLOBAL memory_limit = '{bytes_max} B'")

    @contextmanager
    def connect(self, sources: Mapping[str, ArrowSource]) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a new connection with views of the sources."""
        connection = self._connection.cursor()
        with self._lock:
            self._running.add(connection)
        try:
            for name, source in sources.items():
                connection.register(name, source)
            yield connection
        except duckdb.Error as error:
            raise self.find_failure(error) or _build_computation_error(error) from error
        finally:
            with self._lock:
                self._running.remove(connection)
            for name in sources:
                connection.unregister(name)
            connection.close()

    def cancel(self, connections: Collection[duckdb.DuckDBPyConnection] | None = None) -> None:
        """Cancel the queries of some connections, or of all."""
        with self._lock:
            for connection in self._running if connections is None else self._running.intersection(connections):
                connection.interrupt()


def _build_computation_error(error: duckdb.Error) -> MangroveError:
    """Return the error of Mangrove for an error of DuckDB."""
    if isinstance(error, duckdb.InterruptException):
        return InvalidInputError("the query was cancelled")
    kind, _, rest = str(error).partition("\n")[0].partition(": ")
    message = f"DuckDB could not compute the rows: {rest or kind}"
    if "Failed to read file" in message:
        return FormatError(f"{message}. Run `mangrove check`")
    is_invalid = isinstance(error, duckdb.DataError | duckdb.ProgrammingError)
    return InvalidInputError(message) if is_invalid else StorageError(message)


class FrameRow(tuple[Any, ...]):
    """A tuple whose values are also found by the names of their columns, as in a Row of Spark.

    >>> row = FrameRow((1, "a"), ["id", "name"])
    >>> row.name, row["id"], row == (1, "a")
    ('a', 1, True)
    """

    _names: Sequence[str]

    def __new__(cls, values: Sequence[Any], names: Sequence[str]) -> Self:
        """Return a row of values with names."""
        row = super().__new__(cls, values)
        row._names = names
        return row

    def __getitem__(self, key: Any) -> Any:
        """Return the value of a column by its name or position."""
        return super().__getitem__(self._names.index(key) if isinstance(key, str) else key)

    def __getattr__(self, name: str) -> Any:
        """Return the value of a column by its name."""
        if name.startswith("_") or name not in self._names:
            raise AttributeError(name)
        return self[name]

    def __repr__(self) -> str:
        """Return the row as Spark writes it."""
        return f"Row({', '.join(f'{name}={value!r}' for name, value in zip(self._names, self, strict=True))})"


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
    _connections: list[duckdb.DuckDBPyConnection] = field(default_factory=list, repr=False)
    """The connections of the reads that are in progress."""

    @property
    def columns(self) -> list[str]:
        """The column names."""
        return [name for name, _ in self.relation.columns]

    @cached_property
    def schema(self) -> pa.Schema:
        """The names and types of the columns."""
        return pa.schema(
            [
                pa.field(name, pa.null()) if kind is None else field_to_arrow(name, kind)
                for name, kind in self.relation.columns
            ]
        )

    @property
    def engine(self) -> str:
        """The name of the engine that computes the rows."""
        return DUCKDB

    def _repr_html_(self) -> str:
        rows = list(self.iterate(SHOWN_MAX + 1))
        note = f"the first {SHOWN_MAX} rows" if len(rows) > SHOWN_MAX else ""
        return render_html("", self.columns, rows[:SHOWN_MAX], note=note)

    def to_arrow(self, limit: int | None = None) -> pa.Table:
        """Compute the rows, or at most `limit` of them."""
        return pa.Table.from_batches(list(self.to_batches(limit)), self.schema)

    def to_batches(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Compute the rows in batches, or at most `limit` of them."""
        text = self.relation.text if limit is None else f"SELECT * FROM ({self.relation.text}) LIMIT {int(limit)}"
        with self.database.connect(self.sources) as connection:
            self._connections.append(connection)
            for source in self.sources.values():
                getattr(source, "failures", []).clear()
            try:
                for batch in pa.RecordBatchReader.from_stream(connection.sql(text)):
                    yield _convert_batch(batch, self.schema)
            except (duckdb.Error, OSError, ValueError) as error:
                # Errors pass through the Arrow streams of both sides as text.
                failures = [one for source in self.sources.values() for one in getattr(source, "failures", ())]
                failure = failures[-1] if failures else self.database.find_failure(error)
                if failure is not None:
                    raise failure from error
                if isinstance(error, duckdb.Error):
                    raise
                raise InvalidInputError(f"DuckDB could not compute the rows: {_first_line(error)}") from error
            finally:
                self._connections.remove(connection)

    def explain(self) -> str:
        """Return DuckDB's plan of the query."""
        with self.database.connect(self.sources) as connection:
            return str(connection.sql(self.relation.text).explain())

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

    def collect(self, limit: int | None = None) -> list["FrameRow"]:
        """Compute the rows as Python values, or at most `limit` of them."""
        return [FrameRow(row, self.columns) for row in self.iterate(limit)]

    def iterate(self, limit: int | None = None) -> Iterator[tuple[Any, ...]]:
        """Compute the rows as Python values, batch by batch."""
        names = [f"c{place}" for place in range(len(self.columns))]
        for batch in self.to_batches(limit):
            # Two columns may have the same name.
            rows = to_python_rows(pa.Table.from_batches([batch]).rename_columns(names), maps_as_dicts=True)
            yield from (tuple(row.values()) for row in rows)

    def cancel(self) -> None:
        """Cancel the reads that are in progress, from any thread."""
        self.database.cancel(self._connections)

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
