"""Scans of tables: DuckDB reads the Parquet files itself where no delete applies, else Arrow does.

DuckDB reads files by the column names of the schema with which each file was written, which is faster
than its own search by column ids. It opens the files of a local folder itself, and those of buckets through the store.
Arrow reads the files of other programs, whose columns have no ids, and nested columns, whose fields have ids too.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import Any, Final

import pyarrow as pa

from mangrove.duckdb.frame import ArrowSource, Database, DuckDbFrame
from mangrove.duckdb.query import Relation
from mangrove.duckdb.typed_sql import quote_string
from mangrove.duckdb.types import is_scannable, to_duckdb_type
from mangrove.errors import InvalidInputError, MangroveError
from mangrove.expressions.predicates import Predicate
from mangrove.local.scan import RowMaskCache, select_columns, stream_scan
from mangrove.maintenance.export_records import LayeredStore
from mangrove.model.arrow_schema import schema_to_arrow
from mangrove.model.manifests import PARQUET, DataFile
from mangrove.model.schema import Schema
from mangrove.model.types import Column
from mangrove.storage.local_links import refuse_links
from mangrove.storage.port import Store
from mangrove.storage.uri import parse_root_uri
from mangrove.tables.scan_plan import FileScan, ScanPlan
from mangrove.tables.table_state import TableState
from mangrove.tables.write_plan import has_column_ids

__all__ = ["TableScanner", "find_local_folder", "render_column"]

_NEW_TYPE: Final = "TIMESTAMPTZ_NS"
_WILDCARDS: Final = frozenset("*?[]{}")
_SINGLE_FILES_MAX: Final = 8
"""The files of a folder that are read one by one: DuckDB uses the statistics of a file for its plan only if it is the
only one. In a bucket it would wait for one footer after the other, so files are read as a list there."""


@dataclass(frozen=True)
class _ScanStream:
    """The rows of files that Arrow reads, again for each stream."""

    open: Callable[[], Iterator[pa.Table]]
    schema: pa.Schema
    failures: list[MangroveError] = field(default_factory=list)
    """The errors of reads, which DuckDB reports only as text."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Open a stream of the rows; files are opened when the first row is read."""
        reader: Any = pa.RecordBatchReader.from_batches(self.schema, self._read())
        stream: object = reader.__arrow_c_stream__(requested_schema)
        return stream

    def _read(self) -> Iterator[pa.RecordBatch]:
        try:
            for rows in self.open():
                yield from rows.to_batches()
        except MangroveError as error:
            self.failures.append(error)
            raise


def find_local_folder(store: Store) -> str | None:
    """Return the folder whose files DuckDB can open; None for a bucket, a shallow export or a name with wildcards."""
    root = parse_root_uri(store.uri)
    is_plain = root.scheme == "file" and not isinstance(store, LayeredStore)
    return root.path if is_plain and not set(root.path) & _WILDCARDS else None


class TableScanner:
    """Reads the tables of one lakehouse."""

    def __init__(self, store: Store, database: Database) -> None:
        self._store = store
        self._database = database
        self._vectors = RowMaskCache()
        self._numbers = count()

    @cached_property
    def _folder(self) -> str | None:
        return find_local_folder(self._store)

    def read(
        self,
        state: TableState,
        plan: ScanPlan,
        predicate: Predicate | None,
        names: Sequence[str] | None,
        needed: Predicate | None,
    ) -> DuckDbFrame:
        """Return the rows of a scan plan that match a predicate.

        DuckDB's reader skips row groups by the conditions of the query. Arrow's stream does not know them, so
        it leaves out the rows that do not match `needed`, and reads only the row groups that may contain the others.
        """
        columns = select_columns(state, names)
        for column in columns:
            if to_duckdb_type(column.type) is None:
                raise InvalidInputError(f"column {column.name!r} of {state.name} has a type that needs Spark")
        schema_ids = {schema.schema_id for schema in state.version.schemas}
        direct = [scan for scan in plan.scans if predicate is None and self._is_direct(scan, schema_ids, columns)]
        indirect = tuple(scan for scan in plan.scans if scan not in set(direct))
        texts, sources = [], dict[str, ArrowSource]()
        for schema in state.version.schemas:
            written = [scan.file for scan in direct if scan.file.schema_id == schema.schema_id]
            if written:
                texts.append(self._render_files(written, schema, columns))
        if indirect or not direct:
            name = f"mangrove_scan_{next(self._numbers)}"
            sources[name] = self._open_stream(state, replace(plan, scans=indirect), predicate or needed, columns)
            texts.append(_render_columns(name, columns))
        relation = Relation(" UNION ALL ".join(texts), tuple((column.name, column.type) for column in columns))
        return DuckDbFrame(relation, self._database, sources)

    def _is_direct(self, scan: FileScan, schema_ids: Collection[int], columns: Sequence[Column]) -> bool:
        """Return whether DuckDB reads a file itself."""
        return (
            scan.is_whole
            and scan.file.content_type == PARQUET
            and has_column_ids(scan.file.location)
            and scan.file.schema_id in schema_ids
            and (self._folder is not None or self._database.files is not None)
            and all(is_scannable(column.type) for column in columns)
        )

    def _render_files(self, written: Sequence[DataFile], schema: Schema, columns: Sequence[Column]) -> str:
        """Return the rows of files that were written with a schema; later columns are null in them."""
        names = {column.id: column.name for column in schema.columns}
        values = [_quote(names[column.id]) if column.id in names else "NULL" for column in columns]
        items = ", ".join(
            f"CAST({value} AS {to_duckdb_type(column.type)}) AS c{place}"
            for place, (value, column) in enumerate(zip(values, columns, strict=True))
        )
        files = [quote_string(location) for location in self._locate(written)]
        single_files_max = 1 if self._folder is None else _SINGLE_FILES_MAX
        lists = files if len(files) <= single_files_max else [f"[{', '.join(files)}]"]
        # ruff: noqa: S608 - names and paths are quoted
        return " UNION ALL ".join(f"SELECT {items} FROM read_parquet({some})" for some in lists)

    def _locate(self, files: Sequence[DataFile]) -> list[str]:
        if self._folder is None:
            return [self._database.files.build_uri(file) for file in files] if self._database.files else []
        refuse_links(self._store.uri, [file.path for file in files])
        return [f"{self._folder}{file.path}" for file in files]

    def _open_stream(
        self, state: TableState, plan: ScanPlan, predicate: Predicate | None, columns: Sequence[Column]
    ) -> ArrowSource:
        if not plan.scans:
            # An empty array of Arrow would import pandas where it is installed.
            return pa.Table.from_batches([], schema_to_arrow(Schema(tuple(columns))))
        return _ScanStream(
            lambda: stream_scan(self._store, state, plan, columns, predicate, self._vectors),
            schema_to_arrow(Schema(tuple(columns))),
        )


def _render_columns(name: str, columns: Sequence[Column]) -> str:
    items = ", ".join(f"{render_column(column)} AS c{place}" for place, column in enumerate(columns))
    return f"SELECT {items} FROM {name}"


def render_column(column: Column) -> str:
    """Return a column of Arrow rows; the cast fails where DuckDB has no such type and would round its values."""
    kind = to_duckdb_type(column.type) or ""
    return f"CAST({_quote(column.name)} AS {kind})" if _NEW_TYPE in kind else _quote(column.name)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
