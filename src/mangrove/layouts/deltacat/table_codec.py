"""The codec of table versions, streams, partitions and deltas."""

import decimal
import enum
from typing import Any, Final, TypeVar

from mangrove.layouts.deltacat.fields import BodyFields, add_extras, format_table_version, merge_properties
from mangrove.layouts.deltacat.manifest_codec import decode_manifest, encode_author, encode_manifest
from mangrove.layouts.deltacat.msgpack_maps import MsgpackMap
from mangrove.layouts.deltacat.schema_codec import (
    KeyedSchema,
    decode_partition_scheme,
    decode_schema,
    decode_scheme_id,
    decode_sort_scheme,
    encode_schema,
    encode_scheme,
    encode_scheme_extras,
    encode_scheme_id,
)
from mangrove.model.json_codec import Json, from_json, value_from_json, value_to_json
from mangrove.model.locators import DeltaLocator, PartitionLocator, StreamLocator, TableVersionLocator
from mangrove.model.manifests import EMPTY_MANIFEST, Author
from mangrove.model.objects import (
    STREAM_FORMAT,
    Delta,
    DeltaType,
    Partition,
    Stream,
    StreamState,
    TableVersion,
    TableVersionState,
)
from mangrove.model.partitioning import UNPARTITIONED, UNSORTED
from mangrove.model.schema import Schema
from mangrove.model.values import Value

__all__ = [
    "decode_delta",
    "decode_partition",
    "decode_stream",
    "decode_table_version",
    "encode_delta",
    "encode_partition",
    "encode_partition_values",
    "encode_stream",
    "encode_table_version",
]

State = TypeVar("State", bound=enum.Enum)
_INTEGER_BITS_MAX: Final = 63


def encode_table_version(
    locator: TableVersionLocator, value: TableVersion, before: MsgpackMap | None
) -> dict[str, Any]:
    """Return the body of a table version."""
    fields = dict(before or {})
    own_id = format_table_version(locator.version)
    known = [data for data in [*(fields.get("schemas") or []), fields.get("schema")] if isinstance(data, bytes)]
    current = value.schema
    messages = [
        encode_schema(schema, value.keys if schema is current else _keys_in_schema(value.keys, schema), known)
        for schema in value.schemas
    ]
    partition_maps = [encode_scheme(one, current, fields.get("partitionSchemes")) for one in value.partition_schemes]
    sort_maps = [encode_scheme(one, current, fields.get("sortSchemes")) for one in value.sort_schemes]
    fields |= {
        "tableVersionLocator": _table_version_map(locator, own_id),
        "schema": messages[-1] if current is not None else None,
        "partitionScheme": partition_maps[-1],
        "description": value.description,
        "properties": merge_properties(value.properties, fields.get("properties")),
        "contentTypes": list(value.content_types) or None,
        "sortScheme": sort_maps[-1],
        "watermark": value.watermark,
        "state": value.state.value,
        "schemas": messages or None,
        "partitionSchemes": partition_maps,
        "sortSchemes": sort_maps,
        "previous_table_version": None
        if value.previous_version is None
        else format_table_version(value.previous_version),
        "nativeObject": fields.get("nativeObject"),
        "ancestor_ids": [locator.namespace_id, locator.table_id],
    }
    extras: dict[str, Json] = {
        "keys": list(value.keys),
        "latest_stream_id": value.latest_stream_id,
        "partition_schemes": encode_scheme_extras(value.partition_schemes),
        "sort_schemes": encode_scheme_extras(value.sort_schemes),
    }
    return add_extras(fields, extras)


def decode_table_version(stored: BodyFields, folder: str) -> TableVersion:
    """Return the table version of a body."""
    keyed = _schemas_of(stored, folder)
    data = stored.maybe("schema", bytes)
    current, merged_by = (None, ()) if data is None else decode_schema(data, folder)
    extras: Any = stored.extras
    partition_schemes = [
        decode_partition_scheme(scheme, current, extras.get("partition_schemes"))
        for scheme in stored.each("partitionSchemes")
    ]
    sort_schemes = [
        decode_sort_scheme(scheme, current, extras.get("sort_schemes")) for scheme in stored.each("sortSchemes")
    ]
    partition_scheme, sort_scheme = UNPARTITIONED, UNSORTED
    if stored.maybe("partitionScheme", dict) is not None:
        partition_scheme = decode_partition_scheme(
            stored.inner("partitionScheme"), current, extras.get("partition_schemes")
        )
    if stored.maybe("sortScheme", dict) is not None:
        sort_scheme = decode_sort_scheme(stored.inner("sortScheme"), current, extras.get("sort_schemes"))
    keys = tuple(extras.get("keys", ()))
    version = stored.inner("tableVersionLocator").number("tableVersion")
    if version is None:
        raise stored.refused("the table version is missing")
    return TableVersion(
        version=version,
        schema=current,
        earlier_schemas=tuple(
            schema for schema, _ in keyed if current is None or schema.schema_id != current.schema_id
        ),
        keys=keys if set(keys) == set(merged_by) else merged_by,
        partition_scheme=partition_scheme,
        earlier_partition_schemes=tuple(scheme for scheme in partition_schemes if scheme.id != partition_scheme.id),
        sort_scheme=sort_scheme,
        earlier_sort_schemes=tuple(scheme for scheme in sort_schemes if scheme.id != sort_scheme.id),
        state=_state(stored, TableVersionState, TableVersionState.CREATED),
        description=stored.maybe("description", str),
        properties=stored.properties(),
        content_types=stored.texts("contentTypes"),
        watermark=stored.maybe("watermark", int),
        previous_version=stored.number("previous_table_version"),
        latest_stream_id=extras.get("latest_stream_id"),
    )


def encode_stream(
    locator: StreamLocator, value: Stream, before: MsgpackMap | None, above: MsgpackMap | None
) -> dict[str, Any]:
    """Return the body of a stream, `above` being that of its table version."""
    fields = dict(before or {})
    schemes = [scheme for scheme in (above or {}).get("partitionSchemes") or [] if isinstance(scheme, dict)]
    requested = {value.partition_scheme_id, encode_scheme_id(value.partition_scheme_id, has_fields=False)}
    absent = {"keys": None, "name": None, "id": encode_scheme_id(value.partition_scheme_id, has_fields=False)}
    fields |= {
        "streamLocator": _stream_map(locator, locator.stream_id, value.format),
        "partitionScheme": next((scheme for scheme in schemes if scheme.get("id") in requested), absent),
        "state": value.state.value,
        "previousStreamId": value.previous_id,
        "watermark": value.watermark,
        "nativeObject": fields.get("nativeObject"),
        "ancestor_ids": [locator.namespace_id, locator.table_id, format_table_version(locator.version)],
    }
    return fields


def decode_stream(stored: BodyFields, folder: str) -> Stream:
    """Return the stream of a body."""
    has_scheme = stored.maybe("partitionScheme", dict) is not None
    return Stream(
        id=folder.rpartition("/")[2],
        format=stored.inner("streamLocator").must("format", str),
        partition_scheme_id=decode_scheme_id(stored.inner("partitionScheme").must("id", str))
        if has_scheme
        else UNPARTITIONED.id,
        state=_state(stored, StreamState, StreamState.STAGED),
        previous_id=stored.maybe("previousStreamId", str),
        watermark=stored.maybe("watermark", int),
    )


def encode_partition(
    locator: PartitionLocator, value: Partition, before: MsgpackMap | None, above: MsgpackMap | None
) -> dict[str, Any]:
    """Return the body of a partition, `above` being that of its stream."""
    fields = dict(before or {})
    fields |= {
        "partitionLocator": {
            "streamLocator": _stream_map(locator, locator.partition_id, _format(above, "streamLocator")),
            "partitionValues": encode_partition_values(value),
            "partitionId": locator.partition_id,
        },
        "contentTypes": list(value.content_types) or None,
        "state": value.state.value,
        "previousStreamPosition": fields.get("previousStreamPosition"),
        "previousPartitionId": value.previous_id,
        "streamPosition": fields.get("streamPosition"),
        "partitionSchemeId": encode_scheme_id(value.scheme_id, has_fields=bool(value.values)),
        "compactionRoundCompletionInfo": fields.get("compactionRoundCompletionInfo"),
        "ancestor_ids": [
            locator.namespace_id,
            locator.table_id,
            format_table_version(locator.version),
            locator.stream_id,
        ],
    }
    extras: dict[str, Json] = {
        "values": [value_to_json(item) for item in value.values],
        "properties": dict(value.properties),
    }
    return add_extras(fields, extras)


def encode_partition_values(value: Partition) -> list[Any] | None:
    """Return partition values for DeltaCAT; values that MessagePack cannot encode become strings."""
    return [_plain(item) for item in value.values] or None


def decode_partition(stored: BodyFields, folder: str) -> Partition:
    """Return the partition of a body; values changed by DeltaCAT are used as they are."""
    extras: Any = stored.extras
    plain: list[Any] = stored.inner("partitionLocator").maybe("partitionValues", list) or []
    exact = [value_from_json(item) for item in extras.get("values", [])]
    return Partition(
        id=folder.rpartition("/")[2],
        values=tuple(exact if [_plain(item) for item in exact] == plain else plain),
        scheme_id=decode_scheme_id(stored.maybe("partitionSchemeId", str) or UNPARTITIONED.id),
        state=_state(stored, StreamState, StreamState.STAGED),
        previous_id=stored.maybe("previousPartitionId", str),
        content_types=stored.texts("contentTypes"),
        properties=extras.get("properties", {}),
    )


def encode_delta(
    locator: DeltaLocator, value: Delta, before: MsgpackMap | None, above: MsgpackMap | None
) -> dict[str, Any]:
    """Return the body of a delta, `above` being that of its partition."""
    fields = dict(before or {})
    own_id = str(locator.position)
    partition = (above or {}).get("partitionLocator") or {}
    manifest = encode_manifest(value.manifest)
    fields |= {
        "deltaLocator": {
            "partitionLocator": {
                "streamLocator": _stream_map(locator, own_id, _format(partition, "streamLocator")),
                "partitionValues": partition.get("partitionValues"),
                "partitionId": locator.partition_id,
            },
            "streamPosition": locator.position,
        },
        "type": value.type.value,
        "meta": manifest["meta"],
        "properties": merge_properties(value.properties, fields.get("properties")),
        "manifest": manifest,
        "previousStreamPosition": locator.position - 1,
        "ancestor_ids": [
            locator.namespace_id,
            locator.table_id,
            format_table_version(locator.version),
            locator.stream_id,
            locator.partition_id,
        ],
    }
    extras: dict[str, Json] = {
        "author": encode_author(value.author),
        "replaces_through": value.replaces_through,
        "replaced_locations": list(value.replaced_locations),
    }
    return add_extras(fields, extras)


def decode_delta(stored: BodyFields, folder: str) -> Delta:
    """Return the delta of a body; the position is its folder name."""
    extras: Any = stored.extras
    author = extras.get("author")
    position = folder.rpartition("/")[2]
    if not (position.isascii() and position.isdigit()):
        raise stored.refused(f"its folder {position!r} is not a stream position")
    return Delta(
        type=_member(stored, "type", DeltaType),
        manifest=decode_manifest(stored.inner("manifest")) if stored.maybe("manifest", dict) else EMPTY_MANIFEST,
        properties=stored.properties(),
        author=None if author is None else from_json(author, Author),
        position=int(position),
        replaces_through=extras.get("replaces_through"),
        replaced_locations=tuple(extras.get("replaced_locations", ())),
    )


def _table_version_map(
    locator: TableVersionLocator | StreamLocator | PartitionLocator | DeltaLocator, own_id: str
) -> Any:
    return {
        "tableLocator": {"namespaceLocator": {"namespace": own_id}, "tableName": own_id},
        "tableVersion": format_table_version(locator.version),
    }


def _stream_map(locator: StreamLocator | PartitionLocator | DeltaLocator, own_id: str, stream_format: str) -> Any:
    return {
        "tableVersionLocator": _table_version_map(locator, own_id),
        "streamId": locator.stream_id,
        "format": stream_format,
    }


def _format(above: MsgpackMap | None, name: str) -> str:
    found = (above or {}).get(name) or {}
    stream_format = found.get("format")
    return stream_format if isinstance(stream_format, str) else STREAM_FORMAT


def _schemas_of(stored: BodyFields, folder: str) -> list[KeyedSchema]:
    messages: list[Any] = stored.maybe("schemas", list) or []
    if not all(isinstance(data, bytes) for data in messages):
        raise stored.refused("its schemas are not all bytes")
    return [decode_schema(data, folder) for data in messages]


def _keys_in_schema(keys: tuple[int, ...], schema: Schema) -> tuple[int, ...]:
    """Return the keys that an earlier schema has too."""
    return tuple(key for key in keys if any(column.id == key for column in schema.columns))


def _state(stored: BodyFields, members: type[State], default: State) -> State:
    return default if stored.raw.get("state") is None else _member(stored, "state", members)


def _member(stored: BodyFields, name: str, members: type[State]) -> State:
    word = stored.must(name, str)
    for member in members:
        if member.value == word:
            return member
    raise stored.refused(f"the field {name!r} has the unknown value {word!r}")


def _plain(value: Value | None) -> Any:
    if isinstance(value, int) and value.bit_length() > _INTEGER_BITS_MAX:
        return str(value)
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    return str(value) if isinstance(value, decimal.Decimal) else value.isoformat()
