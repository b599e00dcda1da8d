"""Partition schemes and sort schemes as the maps that DeltaCAT stores.

DeltaCAT names columns where Mangrove has their ids, and some of its transforms
have another result. The exact scheme is therefore kept among the extras, and a
scheme of DeltaCAT's own is taken only where it means the same.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from mangrove.errors import FormatError, MangroveError
from mangrove.layouts.deltacat.fields import Fields
from mangrove.model.json_form import Json, from_json, to_json
from mangrove.model.schema import Schema
from mangrove.model.schemes import (
    UNPARTITIONED,
    UNSORTED,
    Direction,
    Nulls,
    PartitionField,
    PartitionScheme,
    SortField,
    SortScheme,
)
from mangrove.model.transforms import Bucket, Days, Hours, Identity, Months, Transform, Truncate, Years

__all__ = [
    "as_it_was",
    "partition_scheme_map",
    "partition_scheme_of",
    "scheme_extras",
    "scheme_id_of",
    "sort_scheme_map",
    "sort_scheme_of",
    "stored_scheme_id",
]

_NONE_ID: Final = "deadbeef-7277-49a4-a195-fdc8ed235d42"
"""The id of DeltaCAT's schemes without fields."""
_SIMPLE: Final[dict[type, str]] = {Identity: "identity", Years: "year", Months: "month", Days: "day", Hours: "hour"}
_SORT_WORDS: Final = {Direction.ASCENDING: "ascending", Direction.DESCENDING: "descending"}
_NULL_WORDS: Final = {Nulls.FIRST: "at_start", Nulls.LAST: "at_end"}
Scheme = TypeVar("Scheme", PartitionScheme, SortScheme)


def stored_scheme_id(scheme_id: str, *, has_fields: bool) -> str:
    """Return the id by which DeltaCAT knows a scheme."""
    return _NONE_ID if scheme_id == UNPARTITIONED.id and not has_fields else scheme_id


def scheme_id_of(stored: str) -> str:
    """Return the id by which Mangrove knows a scheme."""
    return UNPARTITIONED.id if stored == _NONE_ID else stored


def partition_scheme_map(scheme: PartitionScheme, schema: Schema | None) -> dict[str, Any]:
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
        "id": stored_scheme_id(scheme.id, has_fields=bool(keys)),
        "nativeObject": None,
    }


def sort_scheme_map(scheme: SortScheme, schema: Schema | None) -> dict[str, Any]:
    """Return the map of a sort scheme, whose keys are lists of five."""
    keys = [
        [
            [_column_name(field.source_id, schema)],
            _SORT_WORDS[field.direction],
            _NULL_WORDS[field.nulls],
            _transform_map(field.transform),
            None,
        ]
        for field in scheme.fields
    ]
    return {
        "keys": keys or None,
        "name": scheme.name or (None if keys else "unsorted_scheme"),
        "id": stored_scheme_id(scheme.id, has_fields=bool(keys)),
        "nativeObject": None,
    }


def scheme_extras(schemes: Sequence[PartitionScheme] | Sequence[SortScheme]) -> list[Json]:
    """Return the exact form of the schemes whose map does not say everything."""
    return [to_json(scheme) for scheme in schemes if scheme not in (UNPARTITIONED, UNSORTED)]


def partition_scheme_of(stored: Fields, schema: Schema | None, exact: Json) -> PartitionScheme:
    """Return the partition scheme of a map, in the exact form if the extras have it.

    One that divides rows by what Mangrove has no transform for is read as one
    without fields: then its partitions are read, and none is left out unread.
    """
    known = _exact(stored, exact, PartitionScheme)
    if known is not None:
        return known
    found = [_partition_field(key, schema) for key in stored.each("keys")]
    fields = tuple(field for field in found if field is not None)
    scheme_id = scheme_id_of(stored.must("id", str))
    if not found and scheme_id == UNPARTITIONED.id:
        return UNPARTITIONED
    return PartitionScheme(fields if len(fields) == len(found) else (), scheme_id, _name(stored, found))


def sort_scheme_of(stored: Fields, schema: Schema | None, exact: Json) -> SortScheme:
    """Return the sort scheme of a map, in the exact form if the extras have it; an order that is not ours is none."""
    known = _exact(stored, exact, SortScheme)
    if known is not None:
        return known
    found = [_sort_field(stored, key, schema) for key in stored.maybe("keys", list) or []]
    fields = tuple(field for field in found if field is not None)
    scheme_id = scheme_id_of(stored.must("id", str))
    if not found and scheme_id == UNSORTED.id:
        return UNSORTED
    return SortScheme(fields if len(fields) == len(found) else (), scheme_id, _name(stored, found))


def as_it_was(scheme: PartitionScheme | SortScheme, schema: Schema | None, before: object) -> dict[str, Any]:
    """Return the map of a scheme to write: the one of the body before where it says the same.

    What another program knows of a scheme and Mangrove does not is kept so.
    """
    read: Callable[[Fields, Schema | None, Json], PartitionScheme | SortScheme]
    if isinstance(scheme, PartitionScheme):
        fresh, read = partition_scheme_map(scheme, schema), partition_scheme_of
    else:
        fresh, read = sort_scheme_map(scheme, schema), sort_scheme_of
    for there in before if isinstance(before, list) else []:
        if isinstance(there, dict) and there.get("id") == fresh["id"]:
            try:
                is_same = read(Fields(there, "a scheme"), schema, None) == scheme
            except FormatError:
                is_same = False  # it names a column by what it was called before
            return there if is_same else fresh
    return fresh


def _name(stored: Fields, found: Sequence[object]) -> str | None:
    return stored.maybe("name", str) if found else None


def _exact(stored: Fields, exact: Json, model: type[Scheme]) -> Scheme | None:
    wanted = scheme_id_of(stored.must("id", str))
    for item in exact if isinstance(exact, list) else []:
        scheme: Scheme = from_json(item, model)
        if scheme.id == wanted:
            return scheme
    return None


def _partition_field(key: Fields, schema: Schema | None) -> PartitionField | None:
    sources: list[Any] = key.must("key", list)
    transform = Identity() if key.maybe("transform", dict) is None else _transform_of(key.inner("transform"))
    if transform is None or len(sources) != 1:
        return None
    source_id = _column_id(key, sources[0], schema)
    return PartitionField(source_id, transform, key.maybe("name", str) or str(sources[0]))


def _sort_field(stored: Fields, key: Any, schema: Schema | None) -> SortField | None:
    if not isinstance(key, list) or len(key) < 3 or not isinstance(key[0], list):
        raise stored.refused(f"the sort key {key!r} is of no form that Mangrove knows")
    directions = {word: direction for direction, word in _SORT_WORDS.items()}
    nulls = {word: place for place, word in _NULL_WORDS.items()}
    transform = _transform_of(Fields(key[3], "a sort key")) if len(key) > 3 and isinstance(key[3], dict) else Identity()
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


def _transform_of(stored: Fields) -> Transform | None:
    """Return the transform if ours has the same results, else None: DeltaCAT's parts of a date count otherwise.

    Its day is one from 1 to 31, and its buckets are of another hash.
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


def _column_id(stored: Fields, locator: Any, schema: Schema | None) -> int:
    if isinstance(locator, int):
        return locator
    path = locator if isinstance(locator, list) else [locator]
    if schema is None or not all(isinstance(name, str) for name in path):
        raise stored.refused(f"it names the column {locator!r}, and there is no schema to find it in")
    try:
        return schema.column(*path).id
    except MangroveError as error:
        raise FormatError(str(stored.refused(str(error)))) from error
