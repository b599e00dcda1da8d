"""The data source `mangrove`: tables of a lakehouse in the hands of plain Spark, batch and streaming."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructField, StructType

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.table_staging import table_state
from mangrove.spark.leading import leading
from mangrove.spark.sink import StreamTableWriter, TableWriter
from mangrove.spark.source_options import SourceOptions, parse_options
from mangrove.spark.source_read import TableReader, snapshot_of
from mangrove.spark.stream_read import TableStreamReader, read_schema

__all__ = ["MangroveSource", "is_noted"]

_NOTED: Final = "mangrove.options"
"""Where a column of a table in Spark's catalog notes what Spark itself forgets: the options of the table."""


class MangroveSource(DataSource):
    """What Spark asks for readers and writers, each time in another process."""

    bound: ClassVar[Mapping[str, str]] = {}
    """Options that a subclass stands for, so that a table of Spark's catalog needs none."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "mangrove"

    @leading()
    def schema(self) -> StructType:
        """Return the columns, all of them nullable as what is read from files always is."""
        options = self._parsed()
        state = table_state(snapshot_of(options), options.table, with_logs=False)
        found = read_schema(state, options)
        # Spark passes this when it makes a table, and never shows a table's options again.
        return _noting(found, self.options) if "provider" in self.options else found

    @leading()
    def reader(self, schema: StructType) -> TableReader:
        """Return the reader of a version."""
        options = self._parsed(schema)
        if options.reads_changes:
            raise InvalidInputError(
                f"changes of {options.table} are read as a stream, or by the table's own method changes(from_version)"
            )
        return TableReader(options, schema)

    @leading()
    def writer(self, schema: StructType, overwrite: bool) -> TableWriter:
        """Return the writer of a batch."""
        return TableWriter(self._parsed(), schema, overwrite=overwrite)

    @leading()
    def streamReader(self, schema: StructType) -> TableStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of the table's history."""
        return TableStreamReader(self._parsed(schema), schema)

    @leading()
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamTableWriter:  # noqa: N802 - Spark's name
        """Return the writer of the batches of a stream."""
        return StreamTableWriter(self._parsed(), schema, overwrite=overwrite)

    def _parsed(self, schema: StructType | None = None) -> SourceOptions:
        """Return the options; those that columns note are for reading only.

        Columns keep their notes on their way into other tables, so what is written must
        never go where a column says.
        """
        noted = _noted(schema) if schema is not None and "lake" not in self.options else {}
        return parse_options({**noted, **self.bound, **self.options})


def _noting(schema: StructType, options: Mapping[str, str]) -> StructType:
    kept = {name: value for name, value in options.items() if not name.startswith("option.")}
    noted: dict[str, Any] = {_NOTED: json.dumps({name: kept[name] for name in sorted(kept) if name != "provider"})}
    return StructType([StructField(field.name, field.dataType, field.nullable, noted) for field in schema.fields])


def is_noted(schema: StructType) -> bool:
    """Return whether the columns are those of a table that was made with this source."""
    return any(_NOTED in field.metadata for field in schema.fields)


def _noted(schema: StructType) -> dict[str, str]:
    texts = {field.metadata[_NOTED] for field in schema.fields if _NOTED in field.metadata}
    found: dict[str, str] = json.loads(texts.pop()) if len(texts) == 1 else {}
    return found
