"""Parquet scans over explicit file lists without storage listings.

A folder of the driver holds `_spark_metadata/0`, the log that Spark's own file
sink writes: one line for each file, with its size. Spark believes it and makes
no request before it reads. It is an inner format of Spark, so the first list is
tried out, and where Spark sees other files than it was given, plain paths serve.

A list also says when each file was last changed, which nobody needs to know of
files that never change. A number of ours stands there instead, and comes back
with every row of the file: so one reading of many files tells them apart.
"""

import atexit
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from json.encoder import encode_basestring_ascii
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote, unquote

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from mangrove.spark.deletion_vectors import DeletionVectorCache, KeyBitmapCache
from mangrove.spark.worker_read import WorkerReader
from mangrove.storage.local_links import refuse_links

__all__ = ["FileLists", "ListedFile", "RootsOf", "encode_file_log"]

RootsOf: TypeAlias = Callable[[Sequence[str]], Sequence[str]]
"""Returns for each path the root below which it lies, as Hadoop spells it."""
_BLOCK_SIZE_BYTES = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file as Spark must know it: where it lies, and how large it is."""

    uri: str
    size_bytes: int
    number: int = 0
    """What tells the file from others in `FileLists.read_numbered`."""
    has_ids: bool = True
    """Whether its columns have ids, by which Spark finds them."""


@dataclass
class FileLists:
    """The file lists of one session."""

    session: SparkSession
    worker: WorkerReader | None = None
    """What reads instead of Spark's own reader, where Spark cannot reach the files."""
    root_uri: str = ""
    """Where the files lie that the worker reads."""
    foreign: WorkerReader | None = None
    """What reads files of other writers, whose columns have names only: Spark refuses those where ids are asked for."""
    key_bits: KeyBitmapCache | None = None
    """What tells by a bit for each key what is hidden; without it nothing is told so."""
    row_bits: DeletionVectorCache | None = None
    """What tells by a bit for each row what is hidden; without it keys and numbers are joined."""
    roots_of: RootsOf | None = None
    """Below which root each path lies, where that differs: what an export lacks lies in what it was made from."""
    _folder: Path | None = None
    _is_trusted: bool | None = field(default=None)
    _count: int = 0

    def read(self, files: Sequence[ListedFile], schema: StructType) -> DataFrame:
        """Return the rows of the files, with columns found by their ids."""
        if not files:
            return self.session.createDataFrame([], schema)
        if self.worker is not None:
            return self.worker.read(self.session, self._entries(files), schema)
        own, others = self._divided(files)
        if others:
            rows = self._foreign_rows(others, schema)
            return rows.unionByName(self.read(own, schema)) if own else rows
        return self._listed(files, schema) if self._trusts(files, schema) else self._plain(files, schema)

    def read_numbered(
        self, files: Sequence[ListedFile], schema: StructType, number: str, row_index: str | None = None
    ) -> DataFrame:
        """Return the rows with the number of their file in a column, and with their place in it in another if asked."""
        if self.worker is not None:
            return self.worker.read(self.session, self._entries(files), schema, number, row_index)
        own, others = self._divided(files)
        if others:
            rows = self._foreign_rows(others, schema, number, row_index)
            return rows.unionByName(self.read_numbered(own, schema, number, row_index)) if own else rows
        numbers = list(dict.fromkeys(file.number for file in files))
        if len(numbers) > 1 and self._trusts(files, schema):
            return _with_numbers(self._listed(files, schema), number, row_index)
        parts = [
            _with_numbers(self.read([file for file in files if file.number == one], schema), number, row_index, one)
            for one in numbers
        ]
        return reduce(lambda left, right: left.unionByName(right), parts)

    def can_number_files(self, files: Sequence[ListedFile], schema: StructType) -> bool:
        """Return whether one reading of many files numbers them, so that it costs the same however many they are."""
        return self.worker is not None or self._trusts(files, schema)

    def _divided(self, files: Sequence[ListedFile]) -> tuple[list[ListedFile], list[ListedFile]]:
        """Return the files that Spark reads itself, and those of other writers."""
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
        if self._is_trusted is None:
            self._is_trusted = self._can_trust_files(files[:1], schema)
        return self._is_trusted

    def _listed(self, files: Sequence[ListedFile], schema: StructType) -> DataFrame:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="mangrove-scans-"))
            atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        # Spark remembers what it saw in a folder, so each list has one of its own.
        self._count += 1
        folder = self._folder / str(self._count)
        log = folder / "_spark_metadata" / "0"
        log.parent.mkdir(parents=True)
        log.write_text(encode_file_log(self._located(files)), "utf-8")
        # Without a recursive look-up Spark takes the folders of the files for partitions, and finds no rows.
        return self.session.read.schema(schema).option("recursiveFileLookup", "true").parquet(folder.as_uri())

    def _plain(self, files: Sequence[ListedFile], schema: StructType) -> DataFrame:
        # Spark takes such paths as they are written, and would expand `{` and `*` in them without the option.
        reader = self.session.read.schema(schema).option("__globPaths__", "false")
        return reader.parquet(*(unquote(file.uri) for file in self._located(files)))

    def _located(self, files: Sequence[ListedFile]) -> Sequence[ListedFile]:
        """Return the files where they are stored, by escaped URIs; refuse those that Spark would follow elsewhere."""
        paths = [file.uri.removeprefix(self.root_uri) for file in files]
        roots = [self.root_uri] * len(paths) if self.roots_of is None else self.roots_of(paths)
        for one in dict.fromkeys(roots):
            refuse_links(one, (path for path, root in zip(paths, roots, strict=True) if root == one))
        uris = [root + quote(path) for path, root in zip(paths, roots, strict=True)]
        return [file if file.uri == uri else replace(file, uri=uri) for file, uri in zip(files, uris, strict=True)]

    def _can_trust_files(self, files: Sequence[ListedFile], schema: StructType) -> bool:
        try:
            seen = [_plain_uri(unquote(uri)) for uri in self._listed(files, schema).inputFiles()]
        except PySparkException:
            # A Spark on another machine does not see the folder.
            return False
        return seen == [_plain_uri(unquote(file.uri)) for file in self._located(files)]


def _with_numbers(rows: DataFrame, number: str, row_index: str | None, known: int | None = None) -> DataFrame:
    """Return the rows with the number of their file, read from its time of change unless it is known."""
    # Asked for so, it is what Spark tells of a row even where a column of the table has the same name.
    told = rows.metadataColumn("_metadata")
    changed = f.unix_millis(told.getField("file_modification_time")) if known is None else f.lit(known).cast("bigint")
    return rows.withColumns({number: changed} | ({row_index: told.getField("row_index")} if row_index else {}))


def encode_file_log(files: Sequence[ListedFile]) -> str:
    """Return the log that names these files.

    Only the address needs to be encoded. There may be very many lines, and the rest of each is known.
    """
    lines = [
        f'{{"path":{encode_basestring_ascii(file.uri)},"size":{file.size_bytes},"isDir":false,'
        f'"modificationTime":{file.number},"blockReplication":1,"blockSize":{_BLOCK_SIZE_BYTES},"action":"add"}}'
        for file in files
    ]
    return "\n".join(["v1", *lines])


def _plain_uri(uri: str) -> str:
    """Return the URI with as many slashes as Hadoop writes after `file:`, since it writes one or three."""
    scheme, _, rest = uri.partition(":")
    return f"{scheme}:/{rest.lstrip('/')}"
