"""The bodies of revision files: each kind of object as the map that DeltaCAT stores.

Names that can change are not repeated in the bodies below them: in their place
stands the object's own id. Fields that this release does not know stay as they
are when a body is written again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from mangrove.errors import FormatError, InvalidInputError
from mangrove.layouts.deltacat.fields import Fields, changed_properties, with_extras
from mangrove.layouts.deltacat.packed import Packed, unpack
from mangrove.layouts.deltacat.table_bodies import (
    delta_of,
    partition_of,
    stream_of,
    table_version_of,
)
from mangrove.layouts.deltacat.version_words import version_text
from mangrove.model.json_form import Json, from_json, to_json
from mangrove.model.locators import Kind
from mangrove.model.objects import Namespace, Object, SharedTransaction, Table, TableType, View
from mangrove.model.schema import Schema
from mangrove.model.settings import LakehouseSettings

__all__ = ["Body", "decode_body", "named_fields"]

_WHOLE: Final[dict[Kind, type]] = {
    Kind.VIEW: View,
    Kind.SHARED_TRANSACTION: SharedTransaction,
    Kind.LAKEHOUSE: LakehouseSettings,
}
"""Kinds that DeltaCAT does not know: all of them is extras."""


@dataclass(frozen=True, slots=True)
class Body:
    """An object with all fields of the body that it was read from."""

    value: Object
    fields: Packed


def decode_body(kind: Kind, data: bytes, folder: str, path: str) -> Body:
    """Return the object of a revision file whose object lies in `folder`."""
    fields = unpack(data, path)
    stored = Fields(fields, path)
    try:
        value = from_json(stored.extras, _WHOLE[kind], path) if kind in _WHOLE else _READERS[kind](stored, folder)
    except InvalidInputError as error:
        raise FormatError(f"{path}: {error}. Run `mangrove check` to see what else is affected") from error
    return Body(value, fields)


def named_fields(value: Object, before: Packed | None) -> dict[str, Any]:
    """Return the body of an object that has a name, or of the lakehouse itself."""
    fields = dict(before or {})
    match value:
        case Namespace():
            fields |= {
                "namespaceLocator": {"namespace": value.name},
                "properties": changed_properties(value.properties, fields.get("properties")),
                "ancestor_ids": [],
                "id": value.id,
            }
            return with_extras(fields, {"description": value.description})
        case Table():
            return _table_fields(value, fields)
        case _:
            every = to_json(value)
            assert isinstance(every, dict)
            return with_extras(fields, every)


def _table_fields(table: Table, fields: dict[str, Any]) -> dict[str, Any]:
    fields |= {
        "tableLocator": {"namespaceLocator": {"namespace": table.id}, "tableName": table.name},
        "description": table.description,
        "properties": changed_properties(table.properties, fields.get("properties")),
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
    return with_extras(fields, extras)


def _namespace_of(stored: Fields, folder: str) -> Namespace:
    description = stored.extras.get("description")
    return Namespace(
        id=folder,
        name=stored.inner("namespaceLocator").must("namespace", str),
        properties=stored.properties(),
        description=description if isinstance(description, str) else None,
    )


def _table_of(stored: Fields, folder: str) -> Table:
    namespace_id, _, table_id = folder.rpartition("/")
    extras: Any = stored.extras
    try:
        table_type = TableType(extras.get("table_type", "managed"))
    except ValueError as error:
        raise stored.refused(f"{error}") from error
    schema = extras.get("schema")
    return Table(
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
    return None if number is None else version_text(number)


_READERS: Final[dict[Kind, Callable[[Fields, str], Object]]] = {
    Kind.NAMESPACE: _namespace_of,
    Kind.TABLE: _table_of,
    Kind.TABLE_VERSION: table_version_of,
    Kind.STREAM: stream_of,
    Kind.PARTITION: partition_of,
    Kind.DELTA: delta_of,
}
