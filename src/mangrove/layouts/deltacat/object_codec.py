"""The codec of revision files for namespaces, tables and views.

Bodies reference parents by id, not by name, because names can change. Unknown
fields are preserved when a body is written again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from mangrove.errors import FormatError, InvalidInputError
from mangrove.layouts.deltacat.fields import EXTRAS, BodyFields, add_extras, format_table_version, merge_properties
from mangrove.layouts.deltacat.msgpack_maps import MsgpackMap, decode_map
from mangrove.layouts.deltacat.table_codec import decode_delta, decode_partition, decode_stream, decode_table_version
from mangrove.model.json_codec import Json, from_json, to_json
from mangrove.model.locators import Kind
from mangrove.model.objects import (
    AliasEntry,
    NamespaceEntry,
    Object,
    SharedTransactionEntry,
    TableEntry,
    TableType,
    TableVersion,
    ViewEntry,
)
from mangrove.model.schema import Schema
from mangrove.model.settings import LakehouseSettings

__all__ = ["ObjectBody", "decode_body", "encode_named_object", "list_unmapped_fields"]

_WHOLE: Final[dict[Kind, type]] = {
    Kind.VIEW: ViewEntry,
    Kind.ALIAS: AliasEntry,
    Kind.SHARED_TRANSACTION: SharedTransactionEntry,
    Kind.LAKEHOUSE: LakehouseSettings,
}
"""Kinds unknown to DeltaCAT: all their fields are extras."""


@dataclass(frozen=True, slots=True)
class ObjectBody:
    """An object with all fields of the body that it was read from."""

    value: Object
    fields: MsgpackMap


def decode_body(kind: Kind, data: bytes, folder: str, path: str) -> ObjectBody:
    """Return the object in a revision file of the object folder `folder`."""
    fields = decode_map(data, path)
    stored = BodyFields(fields, path)
    try:
        value = from_json(stored.extras, _WHOLE[kind], path) if kind in _WHOLE else _READERS[kind](stored, folder)
    except InvalidInputError as error:
        raise FormatError(f"{path}: {error}. Run `mangrove check` to see what else is affected") from error
    return ObjectBody(value, fields)


def encode_named_object(value: Object, before: MsgpackMap | None) -> dict[str, Any]:
    """Return the body of a named object, or of the lakehouse itself."""
    fields = dict(before or {})
    match value:
        case NamespaceEntry():
            fields |= {
                "namespaceLocator": {"namespace": value.name},
                "properties": merge_properties(value.properties, fields.get("properties")),
                "ancestor_ids": [],
                "id": value.id,
            }
            return add_extras(fields, {"description": value.description})
        case TableEntry():
            return _table_fields(value, fields)
        case _:
            every = to_json(value)
            assert isinstance(every, dict)
            return add_extras(fields, every)


def _table_fields(table: TableEntry, fields: dict[str, Any]) -> dict[str, Any]:
    fields |= {
        "tableLocator": {"namespaceLocator": {"namespace": table.id}, "tableName": table.name},
        "description": table.description,
        "properties": merge_properties(table.properties, fields.get("properties")),
        "latest_active_table_version": _text(table.latest_active_table_version),
        "latest_table_version": _text(table.latest_table_version),
        "nativeObject": fields.get("nativeObject"),
        "ancestor_ids": [table.namespace_id],
        "id": table.id,
    }
    extras: dict[str, Json] = {
        "table_type": table.table_type.value,
        "table_format": table.table_format,
        "format_properties": dict(table.format_properties),
        "location": table.location,
        "schema": None if table.schema is None else to_json(table.schema),
        "keys": list(table.keys),
    }
    return add_extras(fields, extras)


def _namespace_of(stored: BodyFields, folder: str) -> NamespaceEntry:
    description = stored.extras.get("description")
    return NamespaceEntry(
        id=folder,
        name=stored.inner("namespaceLocator").must("namespace", str),
        properties=stored.properties(),
        description=description if isinstance(description, str) else None,
    )


def _table_of(stored: BodyFields, folder: str) -> TableEntry:
    namespace_id, _, table_id = folder.rpartition("/")
    extras: Any = stored.extras
    try:
        table_type = TableType(extras.get("table_type", "managed"))
    except ValueError as error:
        raise stored.refused(f"{error}") from error
    schema = extras.get("schema")
    return TableEntry(
        id=table_id,
        namespace_id=namespace_id,
        name=stored.inner("tableLocator").must("tableName", str),
        table_type=table_type,
        table_format=extras.get("table_format", "DELTACAT"),
        description=stored.maybe("description", str),
        properties=stored.properties(),
        format_properties=extras.get("format_properties", {}),
        location=extras.get("location"),
        latest_table_version=stored.number("latest_table_version"),
        latest_active_table_version=stored.number("latest_active_table_version"),
        schema=None if schema is None else from_json(schema, Schema),
        keys=tuple(extras.get("keys", ())),
    )


def _text(number: int | None) -> str | None:
    return None if number is None else format_table_version(number)


_READERS: Final[dict[Kind, Callable[[BodyFields, str], Object]]] = {
    Kind.NAMESPACE: _namespace_of,
    Kind.TABLE: _table_of,
    Kind.TABLE_VERSION: decode_table_version,
    Kind.STREAM: decode_stream,
    Kind.PARTITION: decode_partition,
    Kind.DELTA: decode_delta,
}


_MAPPED_FIELDS: Final = frozenset(
    [
        "ancestor_ids",
        "contentTypes",
        "deltaLocator",
        "description",
        "id",
        "latest_active_table_version",
        "latest_table_version",
        "manifest",
        "meta",
        "namespaceLocator",
        "partitionLocator",
        "partitionScheme",
        "partitionSchemeId",
        "partitionSchemes",
        "previousPartitionId",
        "previousStreamId",
        "previousStreamPosition",
        "previous_table_version",
        "properties",
        "schema",
        "schemas",
        "sortScheme",
        "sortSchemes",
        "state",
        "streamLocator",
        "streamPosition",
        "tableLocator",
        "tableVersionLocator",
        "type",
        "watermark",
    ]
)
"""The fields that are written from the object itself."""


def list_unmapped_fields(body: ObjectBody) -> Iterator[str]:
    """Yield the names of the fields that are lost if the object is written from its value alone."""
    for name, value in body.fields.items():
        if name not in _MAPPED_FIELDS and name != EXTRAS and value not in (None, "", [], {}):
            yield f"the field {name}"
    properties: Any = body.fields.get("properties")
    if isinstance(properties, dict) and not all(isinstance(value, str) for value in properties.values()):
        yield "the type of properties that are not strings"
    if isinstance(body.value, TableVersion):
        yield from _unmapped_scheme_fields(body.value, body.fields)


def _unmapped_scheme_fields(value: TableVersion, fields: Any) -> Iterator[str]:
    known = {scheme.id for scheme in value.partition_schemes if scheme.fields}
    known |= {scheme.id for scheme in value.sort_schemes if scheme.fields}
    for name in ("partitionSchemes", "sortSchemes"):
        for scheme in fields.get(name) or []:
            if isinstance(scheme, dict) and scheme.get("keys") and scheme.get("id") not in known:
                yield f"DeltaCAT's partition or sort keys in {name}"
