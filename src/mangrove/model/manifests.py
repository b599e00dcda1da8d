"""Manifests with data files, delete files and column statistics."""

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, overload

from mangrove.errors import FormatError, InvalidInputError
from mangrove.model.bulk import build_unchecked, build_validated
from mangrove.model.locators import LARGEST_INTEGER
from mangrove.model.names import check_id, check_text
from mangrove.model.paths import are_plain_locations, check_location, is_uri
from mangrove.model.types import COLUMN_ID_MAX
from mangrove.model.values import Value, normalize_value, normalize_values

__all__ = [
    "ARROW_STREAM",
    "EMPTY_MANIFEST",
    "IDENTITY_ENCODING",
    "PARQUET",
    "Author",
    "ColumnStatistics",
    "DataFile",
    "DeferredStatistics",
    "FileKind",
    "Manifest",
    "build_data_files",
    "build_manifests",
    "check_statistics_order",
]

PARQUET: Final = "application/parquet"
ARROW_STREAM: Final = "application/vnd.apache.arrow.stream"
IDENTITY_ENCODING: Final = "identity"


class FileKind(enum.Enum):
    """The kind of rows in a file."""

    DATA = "data"
    POSITION_DELETES = "position_deletes"
    KEY_DELETES = "key_deletes"


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """The statistics of one column of one file; None is unknown.

    `minimum` and `maximum` are bounds: no value is outside them, but they need not occur.
    Nulls and NaN are counted and not bounded.
    """

    column_id: int
    null_count: int | None = None
    nan_count: int | None = None
    value_count: int | None = None
    """The number of values with nulls; more than the rows of the file inside lists and maps."""
    size_bytes: int | None = None
    minimum: Value | None = None
    maximum: Value | None = None

    def __post_init__(self) -> None:
        if type(self.column_id) is not int or not 0 <= self.column_id <= COLUMN_ID_MAX:
            raise InvalidInputError(f"statistics are for the column id {self.column_id!r}: it is a number from 0")
        # Written out, with messages made only for a refusal: deltas are many and each has one of these per column.
        _check_count(self.null_count, "null_count of column", self.column_id)
        _check_count(self.nan_count, "nan_count of column", self.column_id)
        _check_count(self.value_count, "value_count of column", self.column_id)
        _check_count(self.size_bytes, "size_bytes of column", self.column_id)
        if self.minimum is not None:
            minimum = normalize_value(self.minimum, "the minimum of a column")
            if minimum is not self.minimum:
                object.__setattr__(self, "minimum", minimum)
        if self.maximum is not None:
            maximum = normalize_value(self.maximum, "the maximum of a column")
            if maximum is not self.maximum:
                object.__setattr__(self, "maximum", maximum)
        if self.minimum is not None and self.maximum is not None:
            _check_bounds(self.column_id, self.minimum, self.maximum)


class DeferredStatistics(Sequence[ColumnStatistics]):
    """The statistics of a stored file, decoded when they are first used; equal to the tuple of them.

    A scan without a predicate uses none, and they are a third of the work of decoding a manifest.
    """

    __slots__ = ("_decode", "_decoded", "_stored")

    def __init__(self, decode: Callable[[Any], tuple[ColumnStatistics, ...]], stored: object) -> None:
        """`decode` returns the statistics in `stored`, and raises `FormatError` for invalid ones."""
        self._decode = decode
        self._stored = stored
        self._decoded: tuple[ColumnStatistics, ...] | None = None

    def load(self) -> tuple[ColumnStatistics, ...]:
        """Return all statistics."""
        if self._decoded is None:
            # Two threads that decode them concurrently store equal values.
            self._decoded = self._decode(self._stored)
        return self._decoded

    @overload
    def __getitem__(self, index: int) -> ColumnStatistics: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ColumnStatistics, ...]: ...
    def __getitem__(self, index: int | slice) -> ColumnStatistics | tuple[ColumnStatistics, ...]:
        return self.load()[index]

    def __len__(self) -> int:
        return len(self.load())

    def __eq__(self, other: object) -> bool:
        return self.load() == (other.load() if isinstance(other, DeferredStatistics) else other)

    def __hash__(self) -> int:
        return hash(self.load())

    def __repr__(self) -> str:
        return repr(self.load())

    def __reduce__(self) -> tuple[object, ...]:
        return tuple, (self.load(),)


@dataclass(frozen=True, slots=True)
class Author:
    """The program that wrote something."""

    name: str
    version: str | None = None

    def __post_init__(self) -> None:
        check_text(self.name, "an author's name")
        if self.version is not None:
            check_text(self.version, "an author's version")


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a delta: data or deletes.

    The rows of a small file can be inline: then there is no file at `location`, which only identifies the rows.
    """

    location: str
    """A path below the lakehouse root, or the URI of an external file, which is listed but never opened."""
    size_bytes: int
    row_count: int
    kind: FileKind = FileKind.DATA
    content_type: str = PARQUET
    content_encoding: str = IDENTITY_ENCODING
    schema_id: int | None = None
    """The schema with which the file was written."""
    partition_values: tuple[Value | None, ...] | None = None
    """Only if they differ from those of the delta's partition."""
    partition_scheme_id: str | None = None
    """The scheme of the partition values; None is the oldest scheme with fields."""
    sort_scheme_id: str | None = None
    bucket: int | None = None
    """The hash bucket of the keys of all rows."""
    source_size_bytes: int | None = None
    """The size of the rows in memory before encoding."""
    applies_to: str | None = None
    """Position deletes: the location of the one file whose rows they delete; None means that each row names it."""
    key_ids: tuple[int, ...] = ()
    """Key deletes: the columns whose values say which rows are deleted."""
    statistics: tuple[ColumnStatistics, ...] = ()
    """Ordered by column id; those of a stored file are `DeferredStatistics`."""
    inline_rows: bytes | None = field(default=None, repr=False)
    """The content of the file, an Arrow IPC stream, if it is inline."""

    def __post_init__(self) -> None:
        check_text(self.location, "a file's location")
        try:
            check_location(self.location)
        except InvalidInputError as error:
            raise InvalidInputError(f"a file's location is a path below the root or a full URI: {error}") from error
        if self.size_bytes is None or self.row_count is None:
            raise InvalidInputError(f"{self.location} has no size_bytes or no row_count: both are always known")
        # Written out as above: a plan has thousands of files.
        _check_count(self.size_bytes, "size_bytes of", self.location)
        _check_count(self.row_count, "row_count of", self.location)
        _check_count(self.schema_id, "schema_id of", self.location)
        _check_count(self.bucket, "bucket of", self.location)
        _check_count(self.source_size_bytes, "source_size_bytes of", self.location)
        check_text(self.content_type, "a file's content type")
        check_text(self.content_encoding, "a file's content encoding")
        if self.sort_scheme_id is not None:
            check_id(self.sort_scheme_id, "sort scheme id")
        if self.partition_scheme_id is not None:
            check_id(self.partition_scheme_id, "partition scheme id")
        if self.applies_to is not None:
            check_text(self.applies_to, "the location that deletes apply to")
            if self.kind is not FileKind.POSITION_DELETES:
                raise InvalidInputError(f"{self.location} applies to one file, which only position deletes can do")
        if self.partition_values is not None:
            object.__setattr__(self, "partition_values", normalize_values(self.partition_values))
        object.__setattr__(self, "key_ids", tuple(self.key_ids))
        for key_id in self.key_ids:
            _check_count(key_id, "a key id of", self.location)
        statistics: Sequence[ColumnStatistics] = self.statistics
        if not isinstance(statistics, DeferredStatistics):
            object.__setattr__(self, "statistics", check_statistics_order(self.location, statistics))
        if self.inline_rows is not None:
            self._check_inline_rows(self.inline_rows)

    def _check_inline_rows(self, rows: bytes) -> None:
        is_stream = (self.content_type, self.content_encoding) == (ARROW_STREAM, IDENTITY_ENCODING)
        if not is_stream or self.kind is FileKind.POSITION_DELETES or is_uri(self.location):
            raise InvalidInputError(
                f"{self.location} has inline rows; expected data or key deletes of the content type {ARROW_STREAM}"
            )
        if len(rows) != self.size_bytes:
            raise InvalidInputError(f"{self.location} has {len(rows)} bytes of inline rows, not {self.size_bytes}")

    @property
    def is_inline(self) -> bool:
        """Whether the manifest contains the rows, so that there is no file."""
        return self.inline_rows is not None

    @property
    def path(self) -> str:
        """The path below the lakehouse's root; a file elsewhere has none, so no reader and no other engine gets it."""
        if is_uri(self.location):
            raise FormatError(
                f"{self.location} is a URI, but only paths below the lakehouse root can be read; a conversion "
                "replaces the URI of a file below the root by its path; append the rows of any other file again"
            )
        return self.location

    def statistics_of(self, column_id: int) -> ColumnStatistics | None:
        """Return what is known about the column with that id."""
        for statistics in self.statistics:
            if statistics.column_id == column_id:
                return statistics
        return None


_UNUSUAL: Final = {
    "content_type": PARQUET,
    "content_encoding": IDENTITY_ENCODING,
    "partition_values": None,
    "partition_scheme_id": None,
    "sort_scheme_id": None,
    "applies_to": None,
    "key_ids": (),
    "inline_rows": None,
}
"""The fields that few files set, with their defaults."""
_COUNTS: Final = ("size_bytes", "row_count", "schema_id", "bucket", "source_size_bytes")


def build_data_files(columns: Mapping[str, Sequence[Any]]) -> list[DataFile]:
    """Return files from columns with all fields; usual files are validated together, others one by one.

    Statistics are deferred, or validated before.
    """
    is_usual = (
        are_plain_locations(columns["location"])
        and all(columns[name].count(usual) == len(columns[name]) for name, usual in _UNUSUAL.items())
        and all(_are_counts(columns[name]) for name in _COUNTS)
        and None not in columns["size_bytes"]
        and None not in columns["row_count"]
    )
    return (build_unchecked if is_usual else build_validated)(DataFile, columns)


def _are_counts(counts: Sequence[int | None]) -> bool:
    known = [count for count in counts if count is not None]
    return not known or (min(known) >= 0 and max(known) <= LARGEST_INTEGER)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of a delta in order."""

    entries: tuple[DataFile, ...] = ()
    id: str | None = None
    author: Author | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "entries", tuple(self.entries))
        if self.id is not None:
            check_id(self.id, "manifest id")

    @property
    def stored_files(self) -> tuple[DataFile, ...]:
        """The entries that have a file, without inline ones."""
        return tuple(entry for entry in self.entries if not entry.is_inline)

    @property
    def row_count(self) -> int:
        """The rows of all files, including delete files."""
        return sum(entry.row_count for entry in self.entries)

    @property
    def size_bytes(self) -> int:
        """The size of all files."""
        return sum(entry.size_bytes for entry in self.entries)


EMPTY_MANIFEST: Final = Manifest()


def build_manifests(columns: Mapping[str, Sequence[Any]]) -> list[Manifest]:
    """Return manifests from columns with all fields; `entries` are tuples."""
    is_usual = columns["id"].count(None) == len(columns["id"])
    return (build_unchecked if is_usual else build_validated)(Manifest, columns)


def check_statistics_order(location: str, statistics: Sequence[ColumnStatistics]) -> tuple[ColumnStatistics, ...]:
    """Return the statistics of a file; raise an error unless they are ordered by column id, one for each column."""
    for left, right in pairwise(statistics):
        if left.column_id >= right.column_id:
            raise InvalidInputError(
                f"{location} has statistics of column {left.column_id} before those of {right.column_id}: "
                "they are ordered by column id, one for each column"
            )
    return tuple(statistics)


def _check_count(count: int | None, what: str, where: object) -> None:
    if count is not None and (type(count) is not int or not 0 <= count <= LARGEST_INTEGER):
        raise InvalidInputError(f"{what} {where} is {count!r}; expected a whole number from 0 to {LARGEST_INTEGER}")


def _check_bounds(column_id: int, minimum: Value, maximum: Value) -> None:
    if type(minimum) is not type(maximum):
        raise InvalidInputError(
            f"column {column_id} has the bounds {minimum!r} and {maximum!r}, which are not of one type"
        )
    try:
        is_in_order = minimum <= maximum  # type: ignore[operator]
    except TypeError as error:
        raise InvalidInputError(f"column {column_id} has one bound with a zone and one without") from error
    if not is_in_order:
        raise InvalidInputError(f"column {column_id} has the minimum {minimum!r} above its maximum {maximum!r}")
