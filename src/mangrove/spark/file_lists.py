"""Parquet scans over explicit file lists without storage listings.

A local folder contains `_spark_metadata/0`, the log format of Spark's file sink: one
line for each file, with its size. Spark trusts it and makes no request before it reads.
The format is internal to Spark, so the first list is verified, and plain paths are used
if Spark sees other files.

Without the option `recursiveFileLookup` Spark reads the values of partition columns from
the names of the folders, and prunes partitions itself. The files with such folders are
therefore one relation for each folder that contains them, and all others are one more.

A list also has the modification time of each file, which is irrelevant for immutable
files. It is set to a file number instead, which Spark returns with every row, so that
one scan distinguishes many files.
"""

import atexit
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from json.encoder import encode_basestring_ascii
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote, unquote

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StructField, StructType

from mangrove.local.inline_rows import InlineRowsReader
from mangrove.model.manifests import DataFile
from mangrove.spark.deletion_vectors import DeletionVectorCache, KeyBitmapCache
from mangrove.spark.pyspark_versions import create_arrow_frame
from mangrove.spark.types import from_spark_schema
from mangrove.spark.worker_read import WorkerReader, add_row_numbers
from mangrove.storage.local_links import refuse_links

__all__ = ["FileLists", "ListedFile", "RootsOf", "encode_file_log"]

RootsOf: TypeAlias = Callable[[Sequence[str]], Sequence[str]]
"""Returns the root of each path as a Hadoop URI."""
_BLOCK_SIZE_BYTES = 128 * 1024 * 1024
_V1_SOURCES = "spark.sql.sources.useV1SourceList"
_METADATA = "_metadata"
"""Spark's column with the file and position of each row."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file for Spark: its path and size."""

    uri: str
    size_bytes: int
    number: int = 0
    """The file number in `FileLists.read_numbered`."""
    has_ids: bool = True
    """Whether its columns have field ids."""
    folder: str = ""
    """The end of its folder that has the values of partition columns, such as `day=3/`."""
    inline: DataFile | None = None
    """The entry with the rows, if there is no file."""

    @property
    def partitioned_folder(self) -> str:
        """The folder that contains the partition folders, or an empty string without these."""
        return self.uri.rpartition("/")[0].removesuffix(self.folder[:-1]) if self.folder else ""


@dataclass
class FileLists:
    """The file lists of one session."""

    session: SparkSession
    worker: WorkerReader | None = None
    """The reader in Python workers, used if Spark cannot open the files."""
    root_uri: str = ""
    """The root of the files that the worker reads."""
    foreign: WorkerReader | None = None
    """The reader of files without field ids, which Spark cannot read by id."""
    key_bits: KeyBitmapCache | None = None
    """The cache of key bitmaps, if enabled."""
    row_bits: DeletionVectorCache | None = None
    """The cache of deletion vectors; without it deletes are joined."""
    roots_of: RootsOf | None = None
    """The root of each path where roots differ: a shallow export references files of its source."""
    _folder: Path | None = None
    _is_trusted: dict[bool, bool] = field(default_factory=dict)
    """Whether Spark sees the files of a list, without and with partition folders."""
    _count: int = 0

    def read(self, files: Sequence[ListedFile], schema: StructType) -> DataFrame:
        """Return the rows of the files, with columns matched by field id."""
        if not files:
            return self.session.createDataFrame([], schema)
        stored = [file for file in files if file.inline is None]
        if len(stored) < len(files):
            rows = self._inline_rows(files, schema)
            return self.read(stored, schema).unionByName(rows) if stored else rows
        if self.worker is not None:
            return self.worker.read(self.session, self._entries(files), schema)
        own, others = self._divided(files)
        if others:
            rows = self._foreign_rows(others, schema)
            return rows.unionByName(self.read(own, schema)) if own else rows
        return _union_frames(self._relations(files, schema))

    def read_numbered(
        self, files: Sequence[ListedFile], schema: StructType, number: str, row_index: str | None = None
    ) -> DataFrame:
        """Return the rows with a column for their file number and optionally one for their position."""
        stored = [file for file in files if file.inline is None]
        if len(stored) < len(files):
            rows = self._inline_rows(files, schema, number, row_index)
            return self.read_numbered(stored, schema, number, row_index).unionByName(rows) if stored else rows
        if self.worker is not None:
            return self.worker.read(self.session, self._entries(files), schema, number, row_index)
        own, others = self._divided(files)
        if others:
            rows = self._foreign_rows(others, schema, number, row_index)
            return rows.unionByName(self.read_numbered(own, schema, number, row_index)) if own else rows
        numbers = list(dict.fromkeys(file.number for file in files))
        if len(numbers) == 1 or self._trusts(files, schema):
            known = numbers[0] if len(numbers) == 1 else None
            relations = self._relations(files, schema)
            has_metadata = any(name.casefold() == _METADATA for name in schema.names)
            add_numbers = _with_numbers_beside_metadata if has_metadata else _with_numbers
            return _union_frames([add_numbers(rows, number, row_index, known) for rows in relations])
        groups = [[file for file in files if file.number == one] for one in numbers]
        return _union_frames([self.read_numbered(group, schema, number, row_index) for group in groups])

    def can_number_files(self, files: Sequence[ListedFile], schema: StructType) -> bool:
        """Return whether one scan can number many files."""
        return self.worker is not None or self._trusts([file for file in files if file.inline is None], schema)

    def _inline_rows(
        self, files: Sequence[ListedFile], schema: StructType, number: str | None = None, row_index: str | None = None
    ) -> DataFrame:
        """Return the inline rows of files as a local relation."""
        columns = from_spark_schema(schema)
        parts: list[Any] = []
        for file in files:
            if file.inline is not None:
                part: Any = InlineRowsReader(file.inline).read_all(columns)
                parts.append(add_row_numbers(part, file.number, number, row_index))
        added = [StructField(name, LongType()) for name in (number, row_index) if name is not None]
        rows = pa.concat_tables(parts).combine_chunks()
        return create_arrow_frame(self.session, rows, StructType([*schema.fields, *added]))

    def _divided(self, files: Sequence[ListedFile]) -> tuple[list[ListedFile], list[ListedFile]]:
        """Return the files with and those without field ids."""
        if self.foreign is None:
            return list(files), []
        return [file for file in files if file.has_ids], [file for file in files if not file.has_ids]

    def _foreign_rows(
        self, files: Sequence[ListedFile], schema: StructType, number: str | None = None, row_index: str | None = None
    ) -> DataFrame:
        assert self.foreign is not None
        return self.foreign.read(self.session, self._entries(files), schema, number, row_index)

    def _entries(self, files: Sequence[ListedFile]) -> list[tuple[str, int, int]]:
        return [(file.uri.removeprefix(self.root_uri), file.size_bytes, file.number) for file in files]

    def _trusts(self, files: Sequence[ListedFile], schema: StructType) -> bool:
        kinds = {bool(file.folder): file for file in files}
        for kind, file in kinds.items():
            if kind not in self._is_trusted:
                self._is_trusted[kind] = self._can_trust_file(file, schema)
        return all(self._is_trusted[kind] for kind in kinds)

    def _relations(self, files: Sequence[ListedFile], schema: StructType) -> list[DataFrame]:
        """Return the rows of the files as scans of Spark's own reader, those with partition columns first.

        Of a union Spark takes only the first relation to find out whether joins can prune partitions.
        """
        if not self._trusts(files, schema):
            return [self._plain(files, schema)]
        groups: dict[str, list[ListedFile]] = {}
        for file in self._located(files):
            groups.setdefault(file.partitioned_folder, []).append(file)
        return [self._listed(groups[folder], schema) for folder in sorted(groups, reverse=True)]

    def _listed(self, files: Sequence[ListedFile], schema: StructType) -> DataFrame:
        """Return the rows of files that are all without partition folders, or all below one folder with these."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="mangrove-scans-"))
            atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        # Spark caches folder listings, so each list has its own folder.
        self._count += 1
        folder = self._folder / str(self._count)
        log = folder / "_spark_metadata" / "0"
        log.parent.mkdir(parents=True)
        log.write_text(encode_file_log(files), "utf-8")
        # Without recursive lookup Spark takes folders for partitions, and finds no rows if there are none.
        has_folders = bool(files[0].folder)
        reader = self.session.read.schema(schema).option("recursiveFileLookup", str(not has_folders).lower())
        rows = reader.parquet(folder.as_uri())
        if has_folders and "parquet" not in str(self.session.conf.get(_V1_SOURCES, "parquet")):
            # The second version of the reader returns partition columns last.
            rows = rows.select(*(f"`{name.replace('`', '``')}`" for name in schema.names))
        return rows

    def _plain(self, files: Sequence[ListedFile], schema: StructType) -> DataFrame:
        # Without the option Spark would expand `{` and `*` in paths.
        reader = self.session.read.schema(schema).option("__globPaths__", "false")
        return reader.parquet(*(unquote(file.uri) for file in self._located(files)))

    def _located(self, files: Sequence[ListedFile]) -> Sequence[ListedFile]:
        """Return the files as escaped URIs; raise InvalidInputError for symbolic links."""
        paths = [file.uri.removeprefix(self.root_uri) for file in files]
        roots = [self.root_uri] * len(paths) if self.roots_of is None else self.roots_of(paths)
        for one in dict.fromkeys(roots):
            refuse_links(one, (path for path, root in zip(paths, roots, strict=True) if root == one))
        uris = [root + quote(path) for path, root in zip(paths, roots, strict=True)]
        return [file if file.uri == uri else replace(file, uri=uri) for file, uri in zip(files, uris, strict=True)]

    def _can_trust_file(self, file: ListedFile, schema: StructType) -> bool:
        located = self._located([file])
        try:
            seen = [_plain_uri(unquote(uri)) for uri in self._listed(located, schema).inputFiles()]
        except PySparkException:
            # A Spark driver on another machine does not see the folder.
            return False
        return seen == [_plain_uri(unquote(file.uri)) for file in located]


def _union_frames(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda left, right: left.unionByName(right), frames)


def _with_numbers(rows: DataFrame, number: str, row_index: str | None, known: int | None) -> DataFrame:
    """Return the rows with their file number, taken from the modification time unless known."""
    changed = f"unix_millis({_METADATA}.file_modification_time)" if known is None else f"{known}L"
    position = [f"{_METADATA}.row_index as `{row_index}`"] if row_index else []
    return rows.selectExpr("*", f"{changed} as `{number}`", *position)


def _with_numbers_beside_metadata(rows: DataFrame, number: str, row_index: str | None, known: int | None) -> DataFrame:
    """Return the same for a table that has a column with the name of Spark's metadata; takes many calls of the JVM."""
    metadata = rows.metadataColumn(_METADATA)
    changed = (
        f.unix_millis(metadata.getField("file_modification_time")) if known is None else f.lit(known).cast("bigint")
    )
    return rows.withColumns({number: changed} | ({row_index: metadata.getField("row_index")} if row_index else {}))


def encode_file_log(files: Sequence[ListedFile]) -> str:
    """Return the log that names these files.

    Only the path is JSON-encoded, because there may be very many lines.
    """
    lines = [
        f'{{"path":{encode_basestring_ascii(file.uri)},"size":{file.size_bytes},"isDir":false,'
        f'"modificationTime":{file.number},"blockReplication":1,"blockSize":{_BLOCK_SIZE_BYTES},"action":"add"}}'
        for file in files
    ]
    return "\n".join(["v1", *lines])


def _plain_uri(uri: str) -> str:
    """Return the URI with one slash after `file:`, as Hadoop writes one or three."""
    scheme, _, rest = uri.partition(":")
    return f"{scheme}:/{rest.lstrip('/')}"
