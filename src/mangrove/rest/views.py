"""REST handlers that load, create, replace, rename and drop views.

Engines return exactly the columns in a view's metadata; Spark with the Iceberg JAR silently
reads a view without columns as rows without columns. A view whose columns cannot be
inferred without Spark is therefore answered with not found and the reason. Any other error
would make Trino's listing of view columns fail.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.schema import assign_fresh_schema_ids
from starlette.responses import Response

from mangrove.errors import AlreadyExistsError, ConflictError, InvalidInputError, NotFoundError
from mangrove.iceberg.commit.commit_request import INVALID_REQUEST_ERRORS
from mangrove.iceberg.locations import root_location_of
from mangrove.iceberg.publish.view_metadata import (
    CLIENT_VIEW,
    ViewHistory,
    build_view_metadata,
    build_view_schema,
    count_versions_max,
    format_view_metadata_location,
    load_view_history,
)
from mangrove.iceberg.schemas import from_iceberg_schema
from mangrove.lakehouse.engine_port import find_view_references
from mangrove.lakehouse.snapshot import Snapshot
from mangrove.model.locators import Kind, TableLocator, ViewLocator
from mangrove.model.objects import ViewEntry
from mangrove.model.schema import Schema
from mangrove.model.types import DataType
from mangrove.rest.namespaces import COMMENT, respond_json, respond_no_content
from mangrove.rest.request import (
    RestRequest,
    check_addressable,
    explain_rename,
    find_view,
    is_publishable,
    parse_namespace_path,
    parse_properties,
    parse_view_identifier,
    require_text,
)
from mangrove.transaction.aliases import locate_table, locate_view
from mangrove.transaction.catalog import VIEW_NAMESPACE, CatalogReader, create_view, load_view
from mangrove.transaction.deltas import open_table
from mangrove.wiring import load_view_inference

__all__ = [
    "handle_create_view",
    "handle_drop_view",
    "handle_load_view",
    "handle_register_view",
    "handle_rename_view",
    "handle_replace_view",
    "handle_view_exists",
]

_VIEWS_DEEP_MAX: Final = 20
_Columns = tuple[tuple[str, DataType], ...]
_InferColumns = Callable[[str, Callable[[tuple[str, ...]], _Columns | None]], _Columns | None]


def handle_load_view(requested: RestRequest) -> Response:
    """Return a view's metadata."""
    snapshot = requested.open_snapshot()
    locator, view = find_view(snapshot, requested)
    history = _load_history(snapshot, locator, view)
    location = f"{root_location_of(requested.served.lake.uri)}views/{view.id}"
    metadata = build_view_metadata(view, history, location)
    address = format_view_metadata_location(metadata, view.id, history.base_version or snapshot.version)
    return respond_json({"metadata-location": address, "metadata": metadata, "config": {}})


def _load_history(snapshot: Snapshot, locator: ViewLocator, view: ViewEntry) -> ViewHistory:
    schema = _infer_schema(snapshot._reading(), locator, view)
    return load_view_history(view, schema, _namespace_of(locator, view), snapshot.snapshot.commit.created_at_millis)


def handle_view_exists(requested: RestRequest) -> Response:
    """Return success if a view exists and its columns are known."""
    snapshot = requested.open_snapshot()
    locator, view = find_view(snapshot, requested)
    _infer_schema(snapshot._reading(), locator, view)
    return respond_no_content()


def _infer_schema(reading: CatalogReader, locator: ViewLocator, view: ViewEntry) -> Schema:
    if view.schema is not None:
        return view.schema
    infer_columns = load_view_inference()
    columns = _ViewColumns(reading, infer_columns).columns(locator, view, ())
    if columns is None:
        raise NotFoundError(
            f"the columns of view {locator} cannot be inferred without Spark; name each column of its query, give it "
            "a type with CAST, and read only current tables of this lakehouse"
        )
    return build_view_schema(columns)


def _namespace_of(locator: ViewLocator, view: ViewEntry) -> str:
    return view.properties.get(VIEW_NAMESPACE, locator.namespace)


@dataclass(frozen=True, slots=True)
class _ViewColumns:
    """Infers the columns of views in one version of the lakehouse."""

    reading: CatalogReader
    infer: _InferColumns

    def columns(self, locator: ViewLocator, view: ViewEntry, above: tuple[ViewLocator, ...]) -> _Columns | None:
        """Return the columns of a view; `above` are the views that reference it."""
        if view.schema is not None:
            return _columns_of(view.schema)
        if view.dialect != "spark" or locator in above or len(above) == _VIEWS_DEEP_MAX:
            return None
        namespace = _namespace_of(locator, view)
        return self.infer(view.sql, lambda parts: self._resolve(parts, namespace, (*above, locator)))

    def _resolve(self, parts: tuple[str, ...], namespace: str, above: tuple[ViewLocator, ...]) -> _Columns | None:
        if len(parts) > 2:
            return None
        pair = (namespace, *parts) if len(parts) == 1 else parts
        try:
            view_locator, table_locator = ViewLocator(*pair), TableLocator(*pair)
        except InvalidInputError:
            return None
        view_locator, view = locate_view(self.reading, view_locator)
        if view is not None:
            return self.columns(view_locator, view, above)
        table_locator, table = locate_table(self.reading, table_locator)
        if table is None or not is_publishable(table):
            return None
        return _columns_of(open_table(self.reading, table_locator).version.schema)


def _columns_of(schema: Schema | None) -> _Columns | None:
    return None if schema is None else tuple((column.name, column.type) for column in schema.columns)


_IGNORED_ACTIONS: Final = frozenset({"assign-uuid", "set-location", "upgrade-format-version"})
"""Updates without effect; no files are stored at the location of a view."""
_LAST_ADDED: Final = -1
_METADATA_FILE: Final = re.compile(r"(?:.*/)?(\d{1,18})-[0-9a-f]{32}-([^/]+)\.metadata\.json", re.DOTALL)
_VERSIONS_SEARCHED_MAX: Final = 1_000


def handle_create_view(requested: RestRequest) -> Response:
    """Create a view."""
    document = requested.document()
    locator = ViewLocator(parse_namespace_path(requested).name, require_text(document, "name"))
    check_addressable(locator)
    given = parse_properties(document, "properties")
    query = _ViewQuery.parse(document.get("view-version"), document.get("schema"))
    lake = requested.served.lake
    new = _with_properties(ViewEntry(lake._new_id(), locator.name, query.sql), given, ())
    history = query.add_to(ViewHistory(base_version=requested.open_snapshot().version), requested, new)
    value = query.apply_to(requested, locator, new, history)
    lake._change(lambda core: create_view(core.workspace, locator, value), f"Iceberg client creates view {locator}")
    return handle_load_view(_at_view(requested, locator))


def handle_replace_view(requested: RestRequest) -> Response:
    """Replace the query or the properties of a view, if the client's requirements hold."""
    document = requested.document()
    snapshot = requested.open_snapshot()
    locator, value = find_view(snapshot, requested)
    _check_requirements(document.get("requirements") or [], value)
    changed = _apply_updates(requested, snapshot, locator, value, _parse_updates(document))

    def statement(core: Any) -> None:
        if load_view(core.workspace, locator) != value:
            raise ConflictError(f"view {locator} was changed by a concurrent commit; reload it and retry")
        create_view(core.workspace, locator, changed, or_replace=True)

    requested.served.lake._change(statement, f"Iceberg client replaces view {locator}")
    return handle_load_view(requested)


def handle_register_view(requested: RestRequest) -> Response:
    """Create a dropped view again from the location of its metadata, which names the view and a version that has it."""
    document = requested.document()
    locator = ViewLocator(parse_namespace_path(requested).name, require_text(document, "name"))
    check_addressable(locator)
    address = require_text(document, "metadata-location")
    lake = requested.served.lake
    value = _find_dropped_view(requested, locator, address)
    lake._change(
        lambda core: create_view(core.workspace, locator, replace(value, name=locator.name)),
        f"Iceberg client registers view {locator}",
    )
    return handle_load_view(_at_view(requested, locator))


def _find_dropped_view(requested: RestRequest, locator: ViewLocator, address: str) -> ViewEntry:
    """Return the view that a metadata location names, of the first version that has it in the same namespace."""
    match = _METADATA_FILE.fullmatch(address)
    newest = requested.open_snapshot()
    if locate_view(newest._reading(), locator)[1] is not None:
        raise AlreadyExistsError(f"view {locator} already exists; drop it first")
    if match is not None:
        for version in range(int(match[1]), min(newest.version, int(match[1]) + _VERSIONS_SEARCHED_MAX) + 1):
            reading = requested.open_snapshot(version)._reading()
            for _, value in reading.children(Kind.VIEW, locator.parent):
                if isinstance(value, ViewEntry) and value.id == match[2]:
                    return value
    raise NotFoundError(f"no retained version has the view that {address[:200]!r} describes")


def handle_drop_view(requested: RestRequest) -> Response:
    """Drop a view."""
    locator, _ = find_view(requested.open_snapshot(), requested)
    requested.served.lake.drop_view(locator)
    return respond_no_content()


def handle_rename_view(requested: RestRequest) -> Response:
    """Rename a view, within its namespace or into another one."""
    document = requested.document()
    source, destination = (
        parse_view_identifier(document.get("source")),
        parse_view_identifier(document.get("destination")),
    )
    check_addressable(destination)
    with explain_rename(source, destination):
        requested.served.lake.rename_view(source, destination)
    return respond_no_content()


@dataclass(frozen=True, slots=True)
class _ViewQuery:
    """The queries and the columns of a view version that a client sends."""

    version: Mapping[str, Any]
    """The validated version, without its id and that of its schema."""
    schema: IcebergSchema

    @staticmethod
    def parse(version: object, schema: object) -> "_ViewQuery":
        """Return the queries of a view version and its schema."""
        more: dict[str, Any] = version if isinstance(version, dict) else {}
        match more.get("representations"):
            case [_, *_] as given:
                representations = [*map(_parse_representation, given)]
            case _:
                raise InvalidInputError("the view has no query; send a version with a representation of type sql")
        dialects = [one["dialect"] for one in representations]
        for dialect in dialects:
            if dialects.count(dialect) > 1:
                raise InvalidInputError(f"Invalid view version: Cannot add multiple queries for dialect {dialect}")
        catalog = more.get("default-catalog")
        if catalog is not None and not isinstance(catalog, str):
            raise InvalidInputError("'default-catalog' of the view is not a string")
        namespace = more.get("default-namespace") or []
        if not isinstance(namespace, list) or not all(isinstance(one, str) for one in namespace):
            raise InvalidInputError("'default-namespace' of the view is not a list of strings")
        at_millis = more.get("timestamp-ms")
        try:
            columns = IcebergSchema.model_validate(schema)
        except INVALID_REQUEST_ERRORS as error:
            raise InvalidInputError(f"invalid schema of the view: {error}") from error
        accepted = {
            "timestamp-ms": at_millis if isinstance(at_millis, int) else None,
            "summary": parse_properties(more, "summary"),
            "default-namespace": namespace,
            "representations": representations,
            **({} if catalog is None else {"default-catalog": catalog}),
        }
        return _ViewQuery(accepted, columns)

    @property
    def _own(self) -> Mapping[str, str]:
        """The representation that Mangrove runs, if possible."""
        own: Mapping[str, str] = min(self.version["representations"], key=lambda one: one["dialect"] != "spark")
        return own

    @property
    def sql(self) -> str:
        """The query that Mangrove runs, if possible."""
        return self._own["sql"]

    def add_to(self, history: ViewHistory, requested: RestRequest, value: ViewEntry) -> ViewHistory:
        """Return the history of a view with this version as the current one."""
        at_millis = self.version["timestamp-ms"] or requested.served.lake.effects.now_millis()
        return history.with_version(
            {**self.version, "timestamp-ms": at_millis},
            json.loads(self.schema.model_dump_json()),
            count_versions_max(value.properties),
        )

    def apply_to(
        self, requested: RestRequest, locator: ViewLocator, value: ViewEntry, history: ViewHistory
    ) -> ViewEntry:
        """Return the view with this query, which is the current version of the history."""
        schema, _ = from_iceberg_schema(assign_fresh_schema_ids(self.schema))
        namespace = _parse_one_level(self.version["default-namespace"]) or locator.namespace
        sql, dialect = self.sql, self._own["dialect"]
        return replace(
            value,
            sql=sql,
            dialect=dialect,
            schema=schema,
            reads=find_view_references(requested.served.lake.engines, sql, dialect, namespace),
            properties={**value.properties, VIEW_NAMESPACE: namespace, **replace(history, sql=sql).encode()},
        )


def _parse_representation(given: object) -> dict[str, str]:
    match given:
        case {"type": "sql", "sql": str(sql), "dialect": str(dialect)}:
            return {"type": "sql", "sql": sql, "dialect": dialect.lower()}
        case _:
            raise InvalidInputError("a representation of the view is not of type sql; send its sql and dialect")


def _apply_updates(
    requested: RestRequest,
    snapshot: Snapshot,
    locator: ViewLocator,
    value: ViewEntry,
    updates: Sequence[Mapping[str, Any]],
) -> ViewEntry:
    added: list[Mapping[str, Any]] = []
    history = replace(_load_history(snapshot, locator, value), base_version=snapshot.version)
    query: _ViewQuery | None = None
    for update in updates:
        match update:
            case {"action": "add-schema", "schema": {} as schema}:
                added.append(schema)
            case {"action": "add-view-version", "view-version": {} as version}:
                # Clients send only new schemas.
                query = _ViewQuery.parse(version, _find_schema(added, history, version.get("schema-id", _LAST_ADDED)))
                history = query.add_to(history, requested, value)
            case {"action": "set-current-view-version", "view-version-id": int(number)}:
                if number != _LAST_ADDED and query is None:
                    query, history = _restore_version(requested, value, history, number)
            case {"action": "set-properties", "updates": _}:
                value = _with_properties(value, parse_properties(update, "updates"), ())
            case {"action": "remove-properties", "removals": [*names]}:
                value = _with_properties(value, {}, [name for name in names if isinstance(name, str)])
            case {"action": str(action)} if action in _IGNORED_ACTIONS:
                pass
            case _:
                raise InvalidInputError(f"unsupported view update {str(update)[:100]}; remove it")
    return value if query is None else query.apply_to(requested, locator, value, history)


def _find_schema(added: Sequence[Mapping[str, Any]], history: ViewHistory, number: object) -> Mapping[str, Any]:
    """Return the schema of a view version: one that the request adds, or one that the view has."""
    for schema in added[::-1]:
        if number in (_LAST_ADDED, schema.get("schema-id")):
            return schema
    try:
        found = history.current["schema-id"] if number == _LAST_ADDED else number
        return history.find_schema(found if isinstance(found, int) else _LAST_ADDED)
    except LookupError as error:
        raise InvalidInputError(f"the view has no schema {str(number)[:40]}; add it with the version") from error


def _restore_version(
    requested: RestRequest, value: ViewEntry, history: ViewHistory, number: int
) -> tuple[_ViewQuery, ViewHistory]:
    """Return the query of an earlier version, and the history in which it is the current one."""
    try:
        version = history.find_version(number)
    except LookupError as error:
        raise InvalidInputError(f"the view has no version {number}; load it again") from error
    at_millis = requested.served.lake.effects.now_millis()
    history = history.with_current(number, at_millis, count_versions_max(value.properties))
    return _ViewQuery.parse(version, history.find_schema(version["schema-id"])), history


def _with_properties(value: ViewEntry, put: Mapping[str, str], removed: Sequence[str]) -> ViewEntry:
    """Return the view with changed properties; clients send the description as `comment`."""
    own = {**value.properties, **{name: text for name, text in put.items() if name != CLIENT_VIEW}}
    properties = {name: text for name, text in own.items() if name not in removed and name != COMMENT}
    description = None if COMMENT in removed else put.get(COMMENT, value.description)
    return replace(value, properties=properties, description=description)


def _check_requirements(requirements: object, value: ViewEntry) -> None:
    for one in requirements if isinstance(requirements, list) else [requirements]:
        match one:
            case {"type": "assert-view-uuid", "uuid": str(given)}:
                if given != value.id:
                    raise ConflictError(f"the view has UUID {value.id}, not {given[:60]}; reload it and retry")
            case _:
                raise InvalidInputError(f"unsupported view requirement {str(one)[:100]}")


def _parse_updates(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    updates = document.get("updates")
    if not isinstance(updates, list) or not all(isinstance(one, dict) for one in updates):
        raise InvalidInputError("the request has no 'updates'; send a list of objects")
    return updates


def _parse_one_level(levels: object) -> str | None:
    match levels:
        case [str(name)]:
            return name
        case _:
            return None


def _at_view(requested: RestRequest, locator: ViewLocator) -> RestRequest:
    return replace(requested, path_parameters={**requested.path_parameters, "view": locator.name})
