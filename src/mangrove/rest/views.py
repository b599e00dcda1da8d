"""REST handlers that load, create, replace, rename and drop views.

Engines give a view just the columns that its metadata names: Spark with Iceberg's JAR would
read a view without any as rows without columns, and say nothing. So a view of which nobody
knows the columns without asking Spark is not there for them, and the refusal says why. Any
other refusal than that would end Trino's list of the columns of all views.
"""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.schema import assign_fresh_schema_ids
from starlette.responses import Response

from mangrove.errors import ConflictError, InvalidInputError, NotFoundError
from mangrove.iceberg.commit.commit_request import INVALID_REQUEST_ERRORS
from mangrove.iceberg.locations import root_location_of
from mangrove.iceberg.publish.view_metadata import build_view_metadata, build_view_schema
from mangrove.iceberg.schemas import from_iceberg_schema
from mangrove.lakehouse.engine_port import find_names_read
from mangrove.model.locators import TableLocator, ViewLocator
from mangrove.model.objects import Table, View
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
from mangrove.transaction.catalog import VIEW_NAMESPACE, CatalogReader, create_view, load_view
from mangrove.transaction.deltas import open_table

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
    """Return a view."""
    seen = requested.seen()
    locator, view = find_view(seen, requested)
    schema = _certain_schema(seen.reading(), locator, view)
    lake = requested.served.lake
    location = f"{root_location_of(lake.uri)}views/{view.id}"
    at_millis = seen.snapshot.commit.created_at_millis
    return respond_json(
        {
            "metadata-location": f"{location}/metadata/{at_millis}.metadata.json",
            "metadata": build_view_metadata(view, schema, _namespace_of(locator, view), location, at_millis),
            "config": {},
        }
    )


def handle_view_exists(requested: RestRequest) -> Response:
    """Say whether a view is there that can be told."""
    seen = requested.seen()
    locator, view = find_view(seen, requested)
    _certain_schema(seen.reading(), locator, view)
    return respond_no_content()


def _certain_schema(reading: CatalogReader, locator: ViewLocator, view: View) -> Schema:
    if view.schema is not None:
        return view.schema
    if importlib.util.find_spec("pyspark") is None:
        raise NotFoundError(
            f"what columns the view {locator} has is told from its query, which needs Spark: "
            "run pip install 'mangrove-lake[spark]' on the server"
        )
    from mangrove.sql.views import infer_view_columns  # noqa: PLC0415 - only after it is known to be installed

    found = _Views(reading, infer_view_columns).columns(locator, view, ())
    if found is None:
        raise NotFoundError(
            f"{locator} is a view of which only Spark knows the columns and their types: name each column of its "
            "query, give it a type with CAST, and let it read tables of this lakehouse as they are now"
        )
    return build_view_schema(found)


def _namespace_of(locator: ViewLocator, view: View) -> str:
    return view.properties.get(VIEW_NAMESPACE, locator.namespace)


@dataclass(frozen=True, slots=True)
class _Views:
    """What the queries of views give, one version of the lakehouse."""

    reading: CatalogReader
    told: _InferColumns

    def columns(self, locator: ViewLocator, view: View, above: tuple[ViewLocator, ...]) -> _Columns | None:
        """Return the columns of a view; `above` are those that led to it."""
        if view.schema is not None:
            return _of_schema(view.schema)
        if view.dialect != "spark" or locator in above or len(above) == _VIEWS_DEEP_MAX:
            return None
        namespace = _namespace_of(locator, view)
        return self.told(view.sql, lambda parts: self._named(parts, namespace, (*above, locator)))

    def _named(self, parts: tuple[str, ...], namespace: str, above: tuple[ViewLocator, ...]) -> _Columns | None:
        if len(parts) > 2:
            return None
        pair = (namespace, *parts) if len(parts) == 1 else parts
        try:
            view_locator, table_locator = ViewLocator(*pair), TableLocator(*pair)
        except InvalidInputError:
            return None
        view = self.reading.get(view_locator)
        if isinstance(view, View):
            return self.columns(view_locator, view, above)
        table = self.reading.get(table_locator)
        if not isinstance(table, Table) or not is_publishable(table):
            return None
        return _of_schema(open_table(self.reading, table_locator).version.schema)


def _of_schema(schema: Schema | None) -> _Columns | None:
    return None if schema is None else tuple((column.name, column.type) for column in schema.columns)


_IDLE: Final = frozenset({"assign-uuid", "set-location", "upgrade-format-version", "set-current-view-version"})
"""What clients say on the way and what changes nothing: there is one version of a view, the last that is told."""


def handle_create_view(requested: RestRequest) -> Response:
    """Make a view."""
    document = requested.document()
    locator = ViewLocator(parse_namespace_path(requested).name, require_text(document, "name"))
    check_addressable(locator)
    given = parse_properties(document, "properties")
    query = _Query.of(document.get("view-version"), document.get("schema"))
    lake = requested.served.lake
    value = query.applied(requested, locator, _with_texts(View(lake.new_id(), locator.name, query.sql), given, ()))
    lake.change(lambda core: create_view(core.workspace, locator, value), f"Iceberg client creates view {locator}")
    return handle_load_view(_at_view(requested, locator))


def handle_replace_view(requested: RestRequest) -> Response:
    """Give a view another query or other properties, if it is still the view that the client means."""
    document = requested.document()
    locator, value = find_view(requested.seen(), requested)
    _check_requirements(document.get("requirements") or [], value)
    changed = _apply_updates(requested, locator, value, _updates(document))

    def statement(core: Any) -> None:
        if load_view(core.workspace, locator) != value:
            raise ConflictError(f"the view {locator} was changed by somebody else: load it again and repeat the change")
        create_view(core.workspace, locator, changed, or_replace=True)

    requested.served.lake.change(statement, f"Iceberg client replaces view {locator}")
    return handle_load_view(requested)


def handle_drop_view(requested: RestRequest) -> Response:
    """Drop a view; what it reads stays."""
    locator, _ = find_view(requested.seen(), requested)
    requested.served.lake.drop_view(locator)
    return respond_no_content()


def handle_rename_view(requested: RestRequest) -> Response:
    """Give a view another name, in its namespace or in another."""
    document = requested.document()
    source, destination = (
        parse_view_identifier(document.get("source")),
        parse_view_identifier(document.get("destination")),
    )
    check_addressable(destination)
    requested.served.lake.rename_view(source, destination)
    return respond_no_content()


@dataclass(frozen=True, slots=True)
class _Query:
    """What a client tells of a version of a view."""

    sql: str
    dialect: str
    namespace: str | None
    schema: IcebergSchema

    @staticmethod
    def of(version: object, schema: object) -> "_Query":
        """Return what a version of a view and its schema say."""
        match version:
            case {"representations": [{"type": "sql", "sql": str(sql), "dialect": str(dialect)}], **more}:
                namespace = more.get("default-namespace")
            case {"representations": [_, _, *_]}:
                raise InvalidInputError("the view has several representations, and it keeps one: send one query")
            case _:
                raise InvalidInputError("the view has no query: send a version with one representation of type sql")
        try:
            columns = assign_fresh_schema_ids(IcebergSchema.model_validate(schema))
        except INVALID_REQUEST_ERRORS as error:
            raise InvalidInputError(f"the schema of the view cannot be read: {error}") from error
        return _Query(sql, dialect, _one_level(namespace), columns)

    def applied(self, requested: RestRequest, locator: ViewLocator, value: View) -> View:
        """Return a view with this query."""
        schema, _ = from_iceberg_schema(self.schema)
        namespace = self.namespace or locator.namespace
        return replace(
            value,
            sql=self.sql,
            dialect=self.dialect,
            schema=schema,
            reads=find_names_read(requested.served.lake.engines, self.sql, self.dialect, namespace),
            properties={**value.properties, VIEW_NAMESPACE: namespace},
        )


def _apply_updates(
    requested: RestRequest, locator: ViewLocator, value: View, updates: Sequence[Mapping[str, Any]]
) -> View:
    schema: object = None
    for update in updates:
        match update:
            case {"action": "add-schema", "schema": found}:
                schema = found
            case {"action": "add-view-version", "view-version": version}:
                if schema is None:
                    raise InvalidInputError(
                        "the view gets another query without its columns: send its schema before it"
                    )
                value = _Query.of(version, schema).applied(requested, locator, value)
            case {"action": "set-properties", "updates": _}:
                value = _with_texts(value, parse_properties(update, "updates"), ())
            case {"action": "remove-properties", "removals": [*names]}:
                value = _with_texts(value, {}, [name for name in names if isinstance(name, str)])
            case {"action": str(action)} if action in _IDLE:
                pass
            case _:
                raise InvalidInputError(f"{str(update)[:100]} has no place in a view here: leave it out")
    return value


def _with_texts(value: View, put: Mapping[str, str], removed: Sequence[str]) -> View:
    """Return a view with other properties; what it is for is one of them to clients."""
    kept = {name: text for name, text in {**value.properties, **put}.items() if name not in removed and name != COMMENT}
    description = None if COMMENT in removed else put.get(COMMENT, value.description)
    return replace(value, properties=kept, description=description)


def _check_requirements(requirements: object, value: View) -> None:
    for one in requirements if isinstance(requirements, list) else [requirements]:
        match one:
            case {"type": "assert-view-uuid", "uuid": str(given)}:
                if given != value.id:
                    raise ConflictError(f"the view has the UUID {value.id}, and {given[:60]} was meant: load it again")
            case _:
                raise InvalidInputError(f"{str(one)[:100]} cannot be required of a view")


def _updates(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = document.get("updates")
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise InvalidInputError("the request has no 'updates': give a list of objects")
    return found


def _one_level(levels: object) -> str | None:
    match levels:
        case [str(name)]:
            return name
        case _:
            return None


def _at_view(requested: RestRequest, locator: ViewLocator) -> RestRequest:
    return replace(requested, steps={**requested.steps, "view": locator.name})
