"""REST handlers that load, create, replace, rename and drop views.

Engines return exactly the columns in a view's metadata; Spark with the Iceberg JAR silently
reads a view without columns as rows without columns. A view whose columns cannot be
inferred without Spark is therefore answered with not found and the reason. Any other error
would make Trino's listing of view columns fail.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.schema import assign_fresh_schema_ids
from starlette.responses import Response

from mangrove.errors import ConflictError, InvalidInputError, NotFoundError
from mangrove.iceberg.commit.commit_request import INVALID_REQUEST_ERRORS
from mangrove.iceberg.locations import root_location_of
from mangrove.iceberg.publish.view_metadata import (
    CLIENT_VIEW,
    Representation,
    build_view_metadata,
    build_view_schema,
    encode_client_view,
)
from mangrove.iceberg.schemas import from_iceberg_schema, to_iceberg_schema
from mangrove.lakehouse.engine_port import find_view_references
from mangrove.model.locators import TableLocator, ViewLocator
from mangrove.model.objects import ViewEntry
from mangrove.model.schema import Schema
from mangrove.model.types import DataType
from mangrove.rest.namespaces import COMMENT, respond_json, respond_no_content
from mangrove.rest.request import (
    RestRequest,
    check_addressable,
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
    schema = _infer_schema(snapshot._reading(), locator, view)
    lake = requested.served.lake
    location = f"{root_location_of(lake.uri)}views/{view.id}"
    at_millis = snapshot.snapshot.commit.created_at_millis
    return respond_json(
        {
            "metadata-location": f"{location}/metadata/{at_millis}.metadata.json",
            "metadata": build_view_metadata(view, schema, _namespace_of(locator, view), location, at_millis),
            "config": {},
        }
    )


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


_IGNORED_ACTIONS: Final = frozenset(
    {"assign-uuid", "set-location", "upgrade-format-version", "set-current-view-version"}
)
"""Updates without effect: a view has one version, the last one that was added."""


def handle_create_view(requested: RestRequest) -> Response:
    """Create a view."""
    document = requested.document()
    locator = ViewLocator(parse_namespace_path(requested).name, require_text(document, "name"))
    check_addressable(locator)
    given = parse_properties(document, "properties")
    query = _ViewQuery.parse(document.get("view-version"), document.get("schema"))
    lake = requested.served.lake
    (_, sql), *_ = query.representations
    value = query.apply_to(
        requested, locator, _with_properties(ViewEntry(lake._new_id(), locator.name, sql), given, ())
    )
    lake._change(lambda core: create_view(core.workspace, locator, value), f"Iceberg client creates view {locator}")
    return handle_load_view(_at_view(requested, locator))


def handle_replace_view(requested: RestRequest) -> Response:
    """Replace the query or the properties of a view, if the client's requirements hold."""
    document = requested.document()
    locator, value = find_view(requested.open_snapshot(), requested)
    _check_requirements(document.get("requirements") or [], value)
    changed = _apply_updates(requested, locator, value, _parse_updates(document))

    def statement(core: Any) -> None:
        if load_view(core.workspace, locator) != value:
            raise ConflictError(f"view {locator} was changed by a concurrent commit; reload it and retry")
        create_view(core.workspace, locator, changed, or_replace=True)

    requested.served.lake._change(statement, f"Iceberg client replaces view {locator}")
    return handle_load_view(requested)


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
    requested.served.lake.rename_view(source, destination)
    return respond_no_content()


@dataclass(frozen=True, slots=True)
class _ViewQuery:
    """The queries and the columns of a view version that a client sends."""

    representations: tuple[Representation, ...]
    """One for each dialect; the first is the one that Mangrove runs, if possible."""
    namespace: str | None
    catalog: str | None
    schema: IcebergSchema

    @staticmethod
    def parse(version: object, schema: object) -> "_ViewQuery":
        """Return the queries of a view version and its schema."""
        match version:
            case {"representations": [_, *_] as given, **more}:
                representations = sorted(map(_parse_representation, given), key=lambda one: one[0] != "spark")
            case _:
                raise InvalidInputError("the view has no query; send a version with a representation of type sql")
        if len({dialect for dialect, _ in representations}) < len(representations):
            raise InvalidInputError("the view has two queries in the same dialect; send one for each dialect")
        catalog = more.get("default-catalog")
        if catalog is not None and not isinstance(catalog, str):
            raise InvalidInputError("'default-catalog' of the view is not a string")
        try:
            columns = assign_fresh_schema_ids(IcebergSchema.model_validate(schema))
        except INVALID_REQUEST_ERRORS as error:
            raise InvalidInputError(f"invalid schema of the view: {error}") from error
        return _ViewQuery(tuple(representations), _parse_one_level(more.get("default-namespace")), catalog, columns)

    def apply_to(self, requested: RestRequest, locator: ViewLocator, value: ViewEntry) -> ViewEntry:
        """Return the view with this query."""
        schema, _ = from_iceberg_schema(self.schema)
        namespace = self.namespace or locator.namespace
        (dialect, sql), *others = self.representations
        own = {name: text for name, text in value.properties.items() if name != CLIENT_VIEW}
        return replace(
            value,
            sql=sql,
            dialect=dialect,
            schema=schema,
            reads=find_view_references(requested.served.lake.engines, sql, dialect, namespace),
            properties={**own, VIEW_NAMESPACE: namespace, **encode_client_view(sql, self.catalog, others)},
        )


def _parse_representation(given: object) -> Representation:
    match given:
        case {"type": "sql", "sql": str(sql), "dialect": str(dialect)}:
            return dialect.lower(), sql
        case _:
            raise InvalidInputError("a representation of the view is not of type sql; send its sql and dialect")


def _apply_updates(
    requested: RestRequest, locator: ViewLocator, value: ViewEntry, updates: Sequence[Mapping[str, Any]]
) -> ViewEntry:
    schema: object = None
    reading = requested.open_snapshot()._reading()
    for update in updates:
        match update:
            case {"action": "add-schema", "schema": added}:
                schema = added
            case {"action": "add-view-version", "view-version": version}:
                if schema is None:
                    # Clients send only new schemas.
                    schema = to_iceberg_schema(_infer_schema(reading, locator, value)).model_dump(by_alias=True)
                value = _ViewQuery.parse(version, schema).apply_to(requested, locator, value)
            case {"action": "set-properties", "updates": _}:
                value = _with_properties(value, parse_properties(update, "updates"), ())
            case {"action": "remove-properties", "removals": [*names]}:
                value = _with_properties(value, {}, [name for name in names if isinstance(name, str)])
            case {"action": str(action)} if action in _IGNORED_ACTIONS:
                pass
            case _:
                raise InvalidInputError(f"unsupported view update {str(update)[:100]}; remove it")
    return value


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
