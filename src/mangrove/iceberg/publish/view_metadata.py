"""Iceberg metadata of a view."""

import json
import uuid
from collections.abc import Iterable
from typing import Any, Final

from mangrove.iceberg.schemas import to_iceberg_schema
from mangrove.model.objects import ViewEntry
from mangrove.model.schema import Schema, assign_fresh_ids
from mangrove.model.types import Column, DataType

__all__ = ["build_view_metadata", "build_view_schema"]

_COMMENT: Final = "comment"
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
    version = {
        "version-id": _VERSION,
        "timestamp-ms": at_millis,
        "schema-id": schema_json["schema-id"],
        "summary": {"engine-name": "mangrove"},
        "default-namespace": [namespace],
        "representations": [{"type": "sql", "sql": view.sql, "dialect": view.dialect}],
    }
    return {
        "view-uuid": _uuid_of(view.id),
        "format-version": 1,
        "location": location,
        "schemas": [schema_json],
        "current-version-id": _VERSION,
        "versions": [version],
        "version-log": [{"timestamp-ms": at_millis, "version-id": _VERSION}],
        "properties": {**comment, **view.properties},
    }


def _uuid_of(view_id: str) -> str:
    """Return the view's id as a UUID; ids of other programs that are no UUIDs are hashed."""
    try:
        return str(uuid.UUID(view_id))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, view_id))
