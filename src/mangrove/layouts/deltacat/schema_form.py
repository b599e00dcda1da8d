"""A table version's schemas as the Arrow schema messages that DeltaCAT stores."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from mangrove.errors import FormatError, InvalidInputError
from mangrove.model.arrow_form import schema_from_arrow, schema_to_arrow
from mangrove.model.schema import Schema

__all__ = ["KeyedSchema", "schema_bytes", "schema_of_bytes"]

_MERGE_KEY: Final = b"DELTACAT:merge_key"
_SCHEMA_ID: Final = b"DELTACAT:schema_id"

_Metadata: TypeAlias = dict[bytes | str, bytes | str]

KeyedSchema: TypeAlias = tuple[Schema, tuple[int, ...]]
"""A schema with the ids of the columns that identify a row."""


def schema_bytes(schema: Schema, keys: Sequence[int], before: Iterable[bytes] = ()) -> bytes:
    """Return the schema message; one of `before` that says the same is kept, with what else it says."""
    for data in before:
        known, known_keys = schema_of_bytes(data, "the schema before")
        if known == schema and set(known_keys) == set(keys):
            return data
    arrow = schema_to_arrow(schema)
    for place, column in enumerate(schema.columns):
        if column.id in keys:
            field = arrow.field(place)
            arrow = arrow.set(place, field.with_metadata({**_metadata(field.metadata), _MERGE_KEY: b"True"}))
    metadata = {**_metadata(arrow.metadata), _SCHEMA_ID: str(schema.schema_id).encode()}
    return arrow.with_metadata(metadata).serialize().to_pybytes()


def schema_of_bytes(data: bytes, path: str) -> KeyedSchema:
    """Return the schema of a schema message, and the columns that DeltaCAT merges by."""
    try:
        arrow = pa.ipc.read_schema(pa.py_buffer(data))
    except (pa.ArrowException, OSError, TypeError) as error:
        raise FormatError(f"{path}: its schema is no Arrow schema message ({error})") from error
    merged_by = []
    for place, field in enumerate(arrow):
        metadata = _metadata(field.metadata)
        if metadata.pop(_MERGE_KEY, b"") == b"True":
            merged_by.append(place)
            arrow = arrow.set(place, field.with_metadata(metadata))
    schema_id = (arrow.metadata or {}).get(_SCHEMA_ID, b"")
    try:
        schema = schema_from_arrow(arrow, int(schema_id) if schema_id.isdigit() else None)
    except InvalidInputError as error:
        raise FormatError(f"{path}: its schema has what Mangrove cannot hold: {error}") from error
    return schema, tuple(schema.columns[place].id for place in merged_by)


def _metadata(metadata: Any) -> _Metadata:
    return dict(metadata or {})
