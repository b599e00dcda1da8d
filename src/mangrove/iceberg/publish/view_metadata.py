"""Iceberg metadata of a view.

A view has one query here. The queries that an Iceberg client gives for other dialects, and its
default catalog, are a property of the view, which counts only while the view has the same query.
"""

import json
import uuid
from collections.abc import Iterable, Sequence
from typing import Any, Final

from mangrove.iceberg.schemas import to_iceberg_schema
from mangrove.model.objects import ViewEntry
from mangrove.model.schema import Schema, assign_fresh_ids
from mangrove.model.types import Column, DataType

__all__ = ["CLIENT_VIEW", "Representation", "build_view_metadata", "build_view_schema", "encode_client_view"]

CLIENT_VIEW: Final = "iceberg.view"
"""The view property with the queries in other dialects and the default catalog, as JSON."""
_COMMENT: Final = "comment"
Representation = tuple[str, str]
"""A dialect and a query in it."""
_VERSION: Final = 1


def build_view_schema(columns: Iterable[tuple[str, DataType]]) -> Schema:
    """Return the schema of a query's columns, all of them nullable."""
    return Schema(assign_fresh_ids(Column(0, name, kind) for name, kind in columns))


def build_view_metadata(
    view: ViewEntry, schema: Schema, namespace: str, location: str, at_millis: int
) -> dict[str, Any]:
    """Return the Iceberg metadata of a view.

    `namespace` is the default namespace of names in the query. Iceberg requires a location;
    no files are stored there.
    """
    comment = {} if view.description is None else {_COMMENT: view.description}
    schema_json = json.loads(to_iceberg_schema(schema).model_dump_json())
    catalog, others = _decode_client_view(view)
    version = {
        "version-id": _VERSION,
        "timestamp-ms": at_millis,
        "schema-id": schema_json["schema-id"],
        "summary": {"engine-name": "mangrove"},
        "default-namespace": [namespace],
        "representations": [
            {"type": "sql", "sql": sql, "dialect": dialect} for dialect, sql in ((view.dialect, view.sql), *others)
        ],
        **({} if catalog is None else {"default-catalog": catalog}),
    }
    own = {name: text for name, text in view.properties.items() if name != CLIENT_VIEW}
    return {
        "view-uuid": _uuid_of(view.id),
        "format-version": 1,
        "location": location,
        "schemas": [schema_json],
        "current-version-id": _VERSION,
        "versions": [version],
        "version-log": [{"timestamp-ms": at_millis, "version-id": _VERSION}],
        "properties": {**comment, **own},
    }


def encode_client_view(sql: str, catalog: str | None, others: Sequence[Representation]) -> dict[str, str]:
    """Return the property of a view with this query; empty if there is nothing to record."""
    if catalog is None and not others:
        return {}
    return {CLIENT_VIEW: json.dumps({"sql": sql, "default-catalog": catalog, "others": others}, ensure_ascii=False)}


def _decode_client_view(view: ViewEntry) -> tuple[str | None, list[Representation]]:
    try:
        recorded = json.loads(view.properties.get(CLIENT_VIEW, "{}"))
    except ValueError:
        return None, []
    match recorded:
        case {"sql": view.sql, "default-catalog": str() | None as catalog, "others": [*others]}:
            return catalog, [(str(dialect), str(sql)) for dialect, sql in others]
        case _:
            return None, []


def _uuid_of(view_id: str) -> str:
    """Return the view's id as a UUID; ids of other programs that are no UUIDs are hashed."""
    try:
        return str(uuid.UUID(view_id))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, view_id))
