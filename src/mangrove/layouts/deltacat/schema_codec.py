"""The codec of schemas, partition schemes and sort schemes for DeltaCAT.

DeltaCAT references columns by name, Mangrove by id, and some transforms of DeltaCAT
have other results. The exact scheme is therefore stored in the extras; a scheme of
DeltaCAT is used only if it is equivalent.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import pyarrow as pa

from mangrove.errors import FormatError, InvalidInputError, MangroveError
from mangrove.layouts.deltacat.fields import BodyFields
from mangrove.model.arrow_schema import schema_from_arrow, schema_to_arrow
from mangrove.model.json_codec import Json, from_json, to_json
from mangrove.model.partitioning import (
    UNPARTITIONED,
    UNSORTED,
    Bucket,
    Days,
    Direction,
    Hours,
    Identity,
    Months,
    Nulls,
    PartitionField,
    PartitionScheme,
    SortField,
    SortScheme,
    Transform,
    Truncate,
    Years,
)
from mangrove.model.schema import Schema

__all__ = [
    "KeyedSchema",
    "decode_partition_scheme",
    "decode_schema",
    "decode_scheme_id",
    "decode_sort_scheme",
    "encode_partition_scheme",
    "encode_schema",
    "encode_scheme",
    "encode_scheme_extras",
    "encode_scheme_id",
    "encode_sort_scheme",
]

_MERGE_KEY: Final = b"DELTACAT:merge_key"
_SCHEMA_ID: Final = b"DELTACAT:schema_id"

_Metadata: TypeAlias = dict[bytes | str, bytes | str]

KeyedSchema: TypeAlias = tuple[Schema, tuple[int, ...]]
"""A schema with the ids of the columns that identify a row."""


def encode_schema(schema: Schema, keys: Sequence[int], before: Iterable[bytes] = ()) -> bytes:
    """Return the schema message; an equal one of `before` is reused with its unknown fields."""
    for data in before:
        known, known_keys = decode_schema(data, "the schema before")
        if known == schema and set(known_keys) == set(keys):
            return data
    arrow = schema_to_arrow(schema)
    for place, column in enumerate(schema.columns):
        if column.id in keys:
            field = arrow.field(place)
            arrow = arrow.set(place, field.with_metadata({**_metadata(field.metadata), _MERGE_KEY: b"True"}))
    metadata = {**_metadata(arrow.metadata), _SCHEMA_ID: str(schema.schema_id).encode()}
    return arrow.with_metadata(metadata).serialize().to_pybytes()


def decode_schema(data: bytes, path: str) -> KeyedSchema:
    """Return the schema of a schema message, and DeltaCAT's merge key columns."""
    try:
        arrow = pa.ipc.read_schema(pa.py_buffer(data))
    except (pa.ArrowException, OSError, TypeError) as error:
        raise FormatError(f"{path}: its schema is not an Arrow schema message ({error})") from error
    merged_by = []
    for place, field in enumerate(arrow):
        metadata = _metadata(field.metadata)
        if metadata.pop(_MERGE_KEY, b"") == b"True":
            merged_by.append(place)
            arrow = arrow.set(place, field.with_metadata(metadata))
    schema_id = (arrow.metadata or {}).get(_SCHEMA_ID, b"")
    try:
        schema = schema_from_arrow(arrow, int(schema_id) if schema_id.isdigit() else None)
    except (InvalidInputError, ValueError) as error:
        # Arrow decodes names when they are requested.
        raise FormatError(f"{path}: its schema is not supported: {error}") from error
    return schema, tuple(schema.columns[place].id for place in merged_by)


def _metadata(metadata: Any) -> _Metadata:
    return dict(metadata or {})


_NONE_ID: Final = "deadbeef-7277-49a4-a195-fdc8ed235d42"
"""DeltaCAT's id of schemes without fields."""
_SIMPLE: Final[dict[type, str]] = {Identity: "identity", Years: "year", Months: "month", Days: "day", Hours: "hour"}
_DIRECTION_NAMES: Final = {Direction.ASCENDING: "ascending", Direction.DESCENDING: "descending"}
_NULL_ORDER_NAMES: Final = {Nulls.FIRST: "at_start", Nulls.LAST: "at_end"}
Scheme = TypeVar("Scheme", PartitionScheme, SortScheme)


def encode_scheme_id(scheme_id: str, *, has_fields: bool) -> str:
    """Return DeltaCAT's id of a scheme."""
    return _NONE_ID if scheme_id == UNPARTITIONED.id and not has_fields else scheme_id


def decode_scheme_id(stored: str) -> str:
    """Return Mangrove's id of a scheme."""
    return UNPARTITIONED.id if stored == _NONE_ID else stored


def encode_partition_scheme(scheme: PartitionScheme, schema: Schema | None) -> dict[str, Any]:
    """Return the map of a partition scheme."""
    keys = [
        {
            "key": [_column_name(field.source_id, schema)],
            "name": field.name,
            "fieldId": None,
            "transform": _transform_map(field.transform),
            "nativeObject": None,
        }
        for field in scheme.fields
    ]
    return {
        "keys": keys or None,
        "name": scheme.name or (None if keys else "unpartitioned_scheme"),
        "id": encode_scheme_id(scheme.id, has_fields=bool(keys)),
        "nativeObject": None,
    }


def encode_sort_scheme(scheme: SortScheme, schema: Schema | None) -> dict[str, Any]:
    """Return the map of a sort scheme; its keys are lists of five items."""
    keys = [
        [
            [_column_name(field.source_id, schema)],
            _DIRECTION_NAMES[field.direction],
            _NULL_ORDER_NAMES[field.nulls],
            _transform_map(field.transform),
            None,
        ]
        for field in scheme.fields
    ]
    return {
        "keys": keys or None,
        "name": scheme.name or (None if keys else "unsorted_scheme"),
        "id": encode_scheme_id(scheme.id, has_fields=bool(keys)),
        "nativeObject": None,
    }


def encode_scheme_extras(schemes: Sequence[PartitionScheme] | Sequence[SortScheme]) -> list[Json]:
    """Return the exact form of the schemes that their map does not fully represent."""
    return [to_json(scheme) for scheme in schemes if scheme not in (UNPARTITIONED, UNSORTED)]


def decode_partition_scheme(stored: BodyFields, schema: Schema | None, exact: Json) -> PartitionScheme:
    """Return the partition scheme of a map; the exact form from the extras if there is one.

    A scheme with an unsupported transform is read as one without fields: its partitions
    are read, but never pruned.
    """
    known = _exact(stored, exact, PartitionScheme)
    if known is not None:
        return known
    found = [_partition_field(key, schema) for key in stored.each("keys")]
    fields = tuple(field for field in found if field is not None)
    scheme_id = decode_scheme_id(stored.must("id", str))
    if not found and scheme_id == UNPARTITIONED.id:
        return UNPARTITIONED
    return PartitionScheme(fields if len(fields) == len(found) else (), scheme_id, _name(stored, found))


def decode_sort_scheme(stored: BodyFields, schema: Schema | None, exact: Json) -> SortScheme:
    """Return the sort scheme of a map, or the exact form from the extras; an unsupported order is dropped."""
    known = _exact(stored, exact, SortScheme)
    if known is not None:
        return known
    found = [_sort_field(stored, key, schema) for key in stored.maybe("keys", list) or []]
    fields = tuple(field for field in found if field is not None)
    scheme_id = decode_scheme_id(stored.must("id", str))
    if not found and scheme_id == UNSORTED.id:
        return UNSORTED
    return SortScheme(fields if len(fields) == len(found) else (), scheme_id, _name(stored, found))


def encode_scheme(scheme: PartitionScheme | SortScheme, schema: Schema | None, before: object) -> dict[str, Any]:
    """Return the map of a scheme to write; an equal one of the previous body is reused with its unknown fields."""
    read: Callable[[BodyFields, Schema | None, Json], PartitionScheme | SortScheme]
    if isinstance(scheme, PartitionScheme):
        fresh, read = encode_partition_scheme(scheme, schema), decode_partition_scheme
    else:
        fresh, read = encode_sort_scheme(scheme, schema), decode_sort_scheme
    for there in before if isinstance(before, list) else []:
        if isinstance(there, dict) and there.get("id") == fresh["id"]:
            try:
                is_same = read(BodyFields(there, "a scheme"), schema, None) == scheme
            except FormatError:
                is_same = False  # it uses a former name of a column
            return there if is_same else fresh
    return fresh


def _name(stored: BodyFields, found: Sequence[object]) -> str | None:
    return stored.maybe("name", str) if found else None


def _exact(stored: BodyFields, exact: Json, model: type[Scheme]) -> Scheme | None:
    requested = decode_scheme_id(stored.must("id", str))
    for item in exact if isinstance(exact, list) else []:
        scheme: Scheme = from_json(item, model)
        if scheme.id == requested:
            return scheme
    return None


def _partition_field(key: BodyFields, schema: Schema | None) -> PartitionField | None:
    sources: list[Any] = key.must("key", list)
    transform = Identity() if key.maybe("transform", dict) is None else _transform_of(key.inner("transform"))
    if transform is None or len(sources) != 1:
        return None
    source_id = _column_id(key, sources[0], schema)
    return PartitionField(source_id, transform, key.maybe("name", str) or str(sources[0]))


def _sort_field(stored: BodyFields, key: Any, schema: Schema | None) -> SortField | None:
    if not isinstance(key, list) or len(key) < 3 or not isinstance(key[0], list):
        raise stored.refused(f"unsupported sort key {key!r}")
    directions = {word: direction for direction, word in _DIRECTION_NAMES.items()}
    nulls = {word: place for place, word in _NULL_ORDER_NAMES.items()}
    transform = (
        _transform_of(BodyFields(key[3], "a sort key")) if len(key) > 3 and isinstance(key[3], dict) else Identity()
    )
    if transform is None or len(key[0]) != 1 or key[1] not in directions or key[2] not in nulls:
        return None
    return SortField(_column_id(stored, key[0][0], schema), directions[key[1]], nulls[key[2]], transform)


def _transform_map(transform: Transform) -> dict[str, Any]:
    match transform:
        case Bucket(count):
            return {"name": "bucket", "parameters": {"numBuckets": count, "bucketingStrategy": "iceberg"}}
        case Truncate(width):
            return {"name": "truncate", "parameters": {"width": width, "truncateStrategy": "iceberg"}}
        case _:
            return {"name": _SIMPLE[type(transform)]}


def _transform_of(stored: BodyFields) -> Transform | None:
    """Return the equivalent transform, or None: the date parts of DeltaCAT differ.

    Its day is 1 to 31, and its buckets use another hash.
    """
    name = stored.must("name", str)
    if name == "identity":
        return Identity()
    parameters = stored.inner("parameters") if stored.maybe("parameters", dict) is not None else None
    if parameters is not None and name == "bucket" and parameters.raw.get("bucketingStrategy") == "iceberg":
        return Bucket(parameters.must("numBuckets", int))
    if parameters is not None and name == "truncate" and parameters.raw.get("truncateStrategy") == "iceberg":
        return Truncate(parameters.must("width", int))
    return None


def _column_name(column_id: int, schema: Schema | None) -> str | int:
    if schema is None or not schema.has_id(column_id):
        return column_id
    return ".".join(schema.path_of(column_id))


def _column_id(stored: BodyFields, locator: Any, schema: Schema | None) -> int:
    if isinstance(locator, int):
        return locator
    path = locator if isinstance(locator, list) else [locator]
    if schema is None or not all(isinstance(name, str) for name in path):
        raise stored.refused(f"it references the column {locator!r}, but there is no schema")
    try:
        return schema.column(*path).id
    except MangroveError as error:
        raise FormatError(str(stored.refused(str(error)))) from error
