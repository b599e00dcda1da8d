"""Iceberg metadata of a view.

A view has one query here. What an Iceberg client says about it (versions with queries for several
dialects, schemas with the client's column ids, the default catalog) is a property of the view. If
Mangrove changes the query, that becomes one more version.
"""

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from mangrove.iceberg.schemas import to_iceberg_schema
from mangrove.model.objects import ViewEntry
from mangrove.model.schema import Schema, assign_fresh_ids
from mangrove.model.types import Column, DataType

__all__ = [
    "CLIENT_VIEW",
    "ViewHistory",
    "build_view_metadata",
    "build_view_schema",
    "count_versions_max",
    "format_view_metadata_location",
    "load_view_history",
]

CLIENT_VIEW: Final = "iceberg.view"
"""The view property with the versions of Iceberg clients, as JSON."""
_COMMENT: Final = "comment"
_METADATA_PATH: Final = "write.metadata.path"
"""The view property with the folder of metadata files, which begins the locations that clients get."""
_VERSIONS_MAX: Final = "version.history.num-entries"
"""The view property with the number of versions that metadata lists at most."""
_VERSIONS_MAX_DEFAULT: Final = 10


@dataclass(frozen=True, slots=True)
class ViewHistory:
    """The versions of a view as Iceberg metadata lists them; the last in the log is the current one."""

    sql: str = ""
    """The query of the view while this is its history."""
    base_version: int = 0
    """The version of the lakehouse that was changed last; a later one has the view."""
    schemas: tuple[Mapping[str, Any], ...] = ()
    versions: tuple[Mapping[str, Any], ...] = ()
    log: tuple[Mapping[str, int], ...] = ()

    @property
    def current(self) -> Mapping[str, Any]:
        """The current version."""
        return self.find_version(self.log[-1]["version-id"])

    def find_version(self, number: int) -> Mapping[str, Any]:
        """Return a version by its id; raise LookupError if there is none."""
        return {one["version-id"]: one for one in self.versions}[number]

    def find_schema(self, number: int) -> Mapping[str, Any]:
        """Return a schema by its id; raise LookupError if there is none."""
        return {one["schema-id"]: one for one in self.schemas}[number]

    def with_version(self, version: Mapping[str, Any], schema: Mapping[str, Any], count_max: int) -> "ViewHistory":
        """Return the history with one more version, which becomes the current one.

        The ids are assigned here. A schema or version that is listed is not added again.
        """
        schema_id = _find_same(self.schemas, schema, "schema-id")
        schemas = self.schemas
        if schema_id is None:
            schema_id = 1 + max((one["schema-id"] for one in schemas), default=-1)
            schemas = (*schemas, {**schema, "schema-id": schema_id})
        version = {**version, "schema-id": schema_id}
        number = _find_same(self.versions, version, "version-id", "timestamp-ms", "summary")
        versions = self.versions
        if number is None:
            number = 1 + max((one["version-id"] for one in versions), default=0)
            versions = (*versions, {**version, "version-id": number})
        return replace(self, schemas=schemas, versions=versions)._with_current(
            number, version["timestamp-ms"], count_max
        )

    def with_current(self, number: int, at_millis: int, count_max: int) -> "ViewHistory":
        """Return the history with another current version; raise LookupError if it is not listed."""
        self.find_version(number)
        return self._with_current(number, at_millis, count_max)

    def _with_current(self, number: int, at_millis: int, count_max: int) -> "ViewHistory":
        numbers = {one["version-id"] for one in self.versions[-count_max:]} | {number}
        kept = tuple(one for one in self.versions if one["version-id"] in numbers)
        is_same = bool(self.log) and self.log[-1]["version-id"] == number
        log = self.log if is_same else (*self.log, {"timestamp-ms": at_millis, "version-id": number})
        used = {one["schema-id"] for one in kept}
        return replace(
            self,
            versions=kept,
            log=tuple(one for one in log if one["version-id"] in numbers),
            schemas=tuple(one for one in self.schemas if one["schema-id"] in used),
        )

    def encode(self) -> dict[str, str]:
        """Return the property of a view that records the history."""
        return {CLIENT_VIEW: json.dumps(asdict(self), ensure_ascii=False)}


def count_versions_max(properties: Mapping[str, str]) -> int:
    """Return the number of versions that the history of a view lists at most."""
    text = properties.get(_VERSIONS_MAX, "")
    return (
        int(text) if text.isascii() and text.isdecimal() and 0 < len(text) <= 4 and int(text) else _VERSIONS_MAX_DEFAULT
    )


def _find_same(
    listed: Iterable[Mapping[str, Any]], searched: Mapping[str, Any], id_name: str, *others: str
) -> int | None:
    """Return the id of the same content, whatever its id and the fields `others` are."""
    ignored = {id_name, *others}

    def content(one: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in one.items() if name not in ignored}

    return next((one[id_name] for one in listed if content(one) == content(searched)), None)


def build_view_schema(columns: Iterable[tuple[str, DataType]]) -> Schema:
    """Return the schema of a query's columns, all of them nullable."""
    return Schema(assign_fresh_ids(Column(0, name, kind) for name, kind in columns))


def load_view_history(view: ViewEntry, schema: Schema, namespace: str, at_millis: int) -> ViewHistory:
    """Return the history of a view; a query that no client gave is its last version.

    `namespace` is the default namespace of names in the query.
    """
    recorded = _decode_history(view)
    if recorded.log and recorded.sql == view.sql:
        return recorded
    version = {
        "timestamp-ms": at_millis,
        "summary": {"engine-name": "mangrove"},
        "default-namespace": [namespace],
        "representations": [{"type": "sql", "sql": view.sql, "dialect": view.dialect}],
    }
    schema_json = json.loads(to_iceberg_schema(schema).model_dump_json())
    return recorded.with_version(version, schema_json, count_versions_max(view.properties))


def build_view_metadata(view: ViewEntry, history: ViewHistory, location: str) -> dict[str, Any]:
    """Return the Iceberg metadata of a view. Iceberg requires a location; no files are stored there."""
    comment = {} if view.description is None else {_COMMENT: view.description}
    own = {name: text for name, text in view.properties.items() if name != CLIENT_VIEW}
    return {
        "view-uuid": _uuid_of(view.id),
        "format-version": 1,
        "location": location,
        "schemas": list(history.schemas),
        "current-version-id": history.log[-1]["version-id"],
        "versions": list(history.versions),
        "version-log": list(history.log),
        "properties": {**comment, **own},
    }


def format_view_metadata_location(metadata: Mapping[str, Any], view_id: str, version: int) -> str:
    """Return the location of view metadata: it names the view and a version of the lakehouse to find it again.

    No file is stored there.
    """
    folder = metadata["properties"].get(_METADATA_PATH, f"{metadata['location']}/metadata").rstrip("/")
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode()).hexdigest()[:32]
    return f"{folder}/{version}-{digest}-{view_id}.metadata.json"


def _decode_history(view: ViewEntry) -> ViewHistory:
    """Return the recorded history; empty if there is none."""
    try:
        recorded = json.loads(view.properties.get(CLIENT_VIEW, "{}"))
    except ValueError:
        recorded = {}
    match recorded:
        case {
            "sql": str(sql),
            "base_version": int(base),
            "schemas": [*schemas],
            "versions": [*versions],
            "log": [*log],
        }:
            return ViewHistory(sql, base, tuple(schemas), tuple(versions), tuple(log))
        case _:
            return ViewHistory()


def _uuid_of(view_id: str) -> str:
    """Return the view's id as a UUID; ids of other programs that are no UUIDs are hashed."""
    try:
        return str(uuid.UUID(view_id))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, view_id))
