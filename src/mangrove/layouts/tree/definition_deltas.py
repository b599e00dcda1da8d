"""The protobuf codec of deltas, data files, statistics and values."""

import datetime
import decimal
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain, islice
from operator import attrgetter, methodcaller
from typing import Any, Final

from mangrove.errors import FormatError, InvalidInputError
from mangrove.layouts.tree.proto import mangrove_tree_pb2 as pb
from mangrove.model.manifests import (
    IDENTITY_ENCODING,
    PARQUET,
    Author,
    ColumnStatistics,
    DataFile,
    DeferredStatistics,
    FileKind,
    build_data_files,
    build_manifests,
    check_statistics_order,
)
from mangrove.model.objects import Delta, DeltaType, build_deltas
from mangrove.model.properties import NO_PROPERTIES
from mangrove.model.values import (
    Value,
    date_of_days,
    days_of,
    micros_of_datetime,
    micros_of_time,
    time_of_micros,
    timestamp_of_micros,
    timestamp_tz_of_micros,
)

__all__ = ["decode_deltas", "decode_values", "fill_delta", "fill_values"]

_DELTA_TYPES: Final[dict[DeltaType, pb.DeltaType.ValueType]] = {
    DeltaType.APPEND: pb.DELTA_TYPE_APPEND,
    DeltaType.ADD: pb.DELTA_TYPE_ADD,
    DeltaType.UPSERT: pb.DELTA_TYPE_UPSERT,
    DeltaType.DELETE: pb.DELTA_TYPE_DELETE,
    DeltaType.POSITION_DELETE: pb.DELTA_TYPE_POSITION_DELETE,
    DeltaType.REPLACE: pb.DELTA_TYPE_REPLACE,
}
_DELTA_TYPE_OF: Final[dict[int, DeltaType]] = {number: member for member, number in _DELTA_TYPES.items()}
_FILE_KINDS: Final[dict[FileKind, pb.FileKind.ValueType]] = {
    FileKind.DATA: pb.FILE_KIND_DATA,
    FileKind.POSITION_DELETES: pb.FILE_KIND_POSITION_DELETES,
    FileKind.KEY_DELETES: pb.FILE_KIND_KEY_DELETES,
}
_FILE_KIND_OF: Final[dict[int, FileKind]] = {number: member for member, number in _FILE_KINDS.items()}


def fill_delta(message: pb.Delta, delta: Delta) -> None:
    """Write `delta` into an empty message."""
    message.type = _DELTA_TYPES[delta.type]
    for entry in delta.manifest.entries:
        _fill_file(message.files.add(), entry)
    if delta.manifest.id is not None:
        message.manifest_id = delta.manifest.id
    if delta.manifest.author is not None:
        _fill_author(message.manifest_author, delta.manifest.author)
    if delta.author is not None:
        _fill_author(message.author, delta.author)
    if delta.properties:
        message.properties.update(delta.properties)
    if delta.position is not None:
        message.position = delta.position
    if delta.replaces_through is not None:
        message.replaces_through = delta.replaces_through
    message.replaced_locations.extend(delta.replaced_locations)


def decode_deltas(messages: Sequence[pb.Delta], positions: Sequence[int | None]) -> list[Delta]:
    """Return the deltas that the messages hold; a table has thousands, so they are decoded in columns.

    `positions` are those of their tree keys, or None.
    """
    types = list(map(attrgetter("type"), messages))
    for unknown in {*types} - _DELTA_TYPE_OF.keys():
        raise FormatError(f"unknown delta type {unknown}; use a newer release")
    listed = [tuple(message.files) for message in messages]
    files = iter(_decode_files([*chain.from_iterable(listed)]))
    manifests = build_manifests(
        {
            "entries": [tuple(islice(files, len(one))) for one in listed],
            "id": _list_optional(messages, "manifest_id"),
            "author": _list_authors(messages, "manifest_author"),
        }
    )
    return build_deltas(
        {
            "type": [_DELTA_TYPE_OF[one] for one in types],
            "manifest": manifests,
            "properties": [message.properties or NO_PROPERTIES for message in messages],
            "author": _list_authors(messages, "author"),
            "position": [
                own if known is None else known
                for known, own in zip(positions, _list_optional(messages, "position"), strict=True)
            ],
            "replaces_through": _list_optional(messages, "replaces_through"),
            "replaced_locations": [
                tuple(message.replaced_locations) if message.replaced_locations else () for message in messages
            ],
        }
    )


def _list_optional(messages: Sequence[Any], name: str, default: object = None) -> list[Any]:
    """Return the field of each message. Most fields are set in all messages of a page or in none: loops in C."""
    is_set = list(map(methodcaller("HasField", name), messages))
    if True not in is_set:
        return [default] * len(messages)
    values = list(map(attrgetter(name), messages))
    return values if all(is_set) else [one if has else default for one, has in zip(values, is_set, strict=True)]


def _list_authors(messages: Sequence[pb.Delta], name: str) -> list[Author | None]:
    authors = _list_optional(messages, name)
    if None in authors:
        return [None if author is None else _author_of(author) for author in authors]
    return list(map(_build_author, map(attrgetter("name"), authors), _list_optional(authors, "version")))


def fill_values(message: Any, values: Iterable[Value | None]) -> None:
    """Add each value to the repeated field `message`."""
    for value in values:
        one = message.add()
        if value is not None:
            name, stored = _encode_value(value)
            setattr(one, name, stored)


def decode_values(message: Iterable[pb.Value]) -> tuple[Value | None, ...]:
    """Return the values that the repeated field holds."""
    return tuple(_value_of(one.WhichOneof("value"), one, "") for one in message)


_OPTIONAL_FIELDS: Final = (
    "schema_id",
    "partition_scheme_id",
    "sort_scheme_id",
    "bucket",
    "source_size_bytes",
    "applies_to",
    "inline_rows",
)


def _fill_file(message: pb.DataFile, file: DataFile) -> None:
    message.location = file.location
    message.size_bytes = file.size_bytes
    message.row_count = file.row_count
    message.kind = _FILE_KINDS[file.kind]
    if file.content_type != PARQUET:
        message.content_type = file.content_type
    if file.content_encoding != IDENTITY_ENCODING:
        message.content_encoding = file.content_encoding
    for name in _OPTIONAL_FIELDS:
        known = getattr(file, name)
        if known is not None:
            setattr(message, name, known)
    if file.partition_values is not None:
        message.partition_values.SetInParent()
        fill_values(message.partition_values.values, file.partition_values)
    if file.key_ids:
        message.key_ids.extend(file.key_ids)
    for statistics in file.statistics:
        _fill_statistics(message.statistics.add(), statistics)


def _decode_files(messages: Sequence[pb.DataFile]) -> list[DataFile]:
    kinds = list(map(attrgetter("kind"), messages))
    for unknown in {*kinds} - _FILE_KIND_OF.keys():
        location = messages[kinds.index(unknown)].location
        raise FormatError(f"unknown file kind {unknown} of {location}; use a newer release")
    return build_data_files(
        {
            "location": list(map(attrgetter("location"), messages)),
            "size_bytes": list(map(attrgetter("size_bytes"), messages)),
            "row_count": list(map(attrgetter("row_count"), messages)),
            "kind": [_FILE_KIND_OF[one] for one in kinds],
            "content_type": _list_optional(messages, "content_type", PARQUET),
            "content_encoding": _list_optional(messages, "content_encoding", IDENTITY_ENCODING),
            "partition_values": [
                None if stored is None else decode_values(stored.values)
                for stored in _list_optional(messages, "partition_values")
            ],
            "key_ids": [tuple(message.key_ids) if message.key_ids else () for message in messages],
            "statistics": [
                DeferredStatistics(_decode_statistics, message) if message.statistics else () for message in messages
            ],
            **{name: _list_optional(messages, name) for name in _OPTIONAL_FIELDS},
        }
    )


def _fill_statistics(message: pb.ColumnStatistics, statistics: ColumnStatistics) -> None:
    message.column_id = statistics.column_id
    if statistics.null_count is not None:
        message.null_count = statistics.null_count
    if statistics.value_count is not None:
        message.value_count = statistics.value_count
    if statistics.nan_count is not None:
        message.nan_count = statistics.nan_count
    if statistics.size_bytes is not None:
        message.size_bytes = statistics.size_bytes
    if statistics.minimum is not None:
        name, stored = _encode_value(statistics.minimum)
        setattr(message, "minimum_" + name, stored)
    if statistics.maximum is not None:
        name, stored = _encode_value(statistics.maximum)
        setattr(message, "maximum_" + name, stored)


def _decode_statistics(message: pb.DataFile) -> tuple[ColumnStatistics, ...]:
    try:
        return check_statistics_order(message.location, [_statistics_of(one) for one in message.statistics])
    except (InvalidInputError, FormatError) as error:
        raise FormatError(
            f"the statistics of {message.location} are invalid: {error}. Run `mangrove check` to see what else is "
            "affected"
        ) from error


def _statistics_of(message: pb.ColumnStatistics) -> ColumnStatistics:
    has = message.HasField
    return ColumnStatistics(
        message.column_id,
        message.null_count if has("null_count") else None,
        message.nan_count if has("nan_count") else None,
        message.value_count if has("value_count") else None,
        message.size_bytes if has("size_bytes") else None,
        _value_of(message.WhichOneof("minimum"), message, "minimum_"),
        _value_of(message.WhichOneof("maximum"), message, "maximum_"),
    )


def _fill_author(message: pb.Author, author: Author) -> None:
    message.SetInParent()
    message.name = author.name
    if author.version is not None:
        message.version = author.version


def _author_of(message: pb.Author) -> Author:
    return _build_author(message.name, message.version if message.HasField("version") else None)


@lru_cache(maxsize=256)
def _build_author(name: str, version: str | None) -> Author:
    """Return the author, which is the same for most deltas of a table."""
    return Author(name, version)


def _encode_value(value: Value) -> tuple[str, Any]:
    """Return the field of `Value` that stores the value, and the stored form."""
    match value:
        case bool():
            return "boolean", value
        case int():
            return "integer", value
        case str():
            return "text", value
        case float():
            return "double", value
        case bytes():
            return "binary", value
        case decimal.Decimal():
            return "decimal", str(value)
        case datetime.datetime():
            return "timestamp" if value.tzinfo is None else "timestamp_tz", micros_of_datetime(value)
        case datetime.date():
            return "date", days_of(value)
        case datetime.time():
            return "time" if value.tzinfo is None else "time_tz", micros_of_time(value)


def _value_of(stored_name: str | None, message: Any, prefix: str) -> Value | None:
    if stored_name is None:
        return None
    stored = getattr(message, stored_name)
    read = _READERS.get(stored_name[len(prefix) :])
    if read is None:
        return stored  # type: ignore[no-any-return]
    try:
        return read(stored)
    except (ValueError, OverflowError, decimal.InvalidOperation) as error:
        raise FormatError(f"{stored!r} is not a valid {stored_name}") from error


_READERS: Final[dict[str, Callable[[Any], Value]]] = {
    "timestamp_tz": timestamp_tz_of_micros,
    "timestamp": timestamp_of_micros,
    "date": date_of_days,
    "decimal": decimal.Decimal,
    "time": time_of_micros,
    "time_tz": lambda micros: time_of_micros(micros, datetime.UTC),
}
