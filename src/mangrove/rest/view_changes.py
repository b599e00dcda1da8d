"""Views that clients make, replace, rename and drop: a query in one dialect, with the columns that they tell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.schema import assign_fresh_schema_ids
from starlette.responses import Response

from mangrove.errors import ConflictError, InvalidInputError
from mangrove.iceberg.schemas import own_schema
from mangrove.iceberg.wanted import MISFITS
from mangrove.lakehouse.sql_running import names_read
from mangrove.model.locators import ViewLocator
from mangrove.model.objects import View
from mangrove.rest.asked import Asked
from mangrove.rest.catalog_answers import COMMENT, nothing
from mangrove.rest.found import view_asked
from mangrove.rest.named import asked_namespace, check_reachable, named_view, text_in, texts_in
from mangrove.rest.view_answers import view_answer
from mangrove.transaction.names import found_view
from mangrove.transaction.views import VIEW_NAMESPACE, create_view

__all__ = ["view_created", "view_dropped", "view_renamed", "view_replaced"]

_IDLE: Final = frozenset({"assign-uuid", "set-location", "upgrade-format-version", "set-current-view-version"})
"""What clients say on the way and what changes nothing: there is one version of a view, the last that is told."""


def view_created(asked: Asked) -> Response:
    """Make a view."""
    document = asked.document()
    locator = ViewLocator(asked_namespace(asked).name, text_in(document, "name"))
    check_reachable(locator)
    given = texts_in(document, "properties")
    query = _Query.of(document.get("view-version"), document.get("schema"))
    lake = asked.served.lake
    value = query.applied(asked, locator, _with_texts(View(lake.new_id(), locator.name, query.sql), given, ()))
    lake.change(lambda core: create_view(core.workspace, locator, value), f"Iceberg client creates view {locator}")
    return view_answer(_at_view(asked, locator))


def view_replaced(asked: Asked) -> Response:
    """Give a view another query or other properties, if it is still the view that the client means."""
    document = asked.document()
    locator, value = view_asked(asked.seen(), asked)
    _check_requirements(document.get("requirements") or [], value)
    changed = _changed(asked, locator, value, _updates(document))

    def statement(core: Any) -> None:
        if found_view(core.workspace, locator) != value:
            raise ConflictError(f"the view {locator} was changed by somebody else: load it again and repeat the change")
        create_view(core.workspace, locator, changed, or_replace=True)

    asked.served.lake.change(statement, f"Iceberg client replaces view {locator}")
    return view_answer(asked)


def view_dropped(asked: Asked) -> Response:
    """Drop a view; what it reads stays."""
    locator, _ = view_asked(asked.seen(), asked)
    asked.served.lake.drop_view(locator)
    return nothing()


def view_renamed(asked: Asked) -> Response:
    """Give a view another name, in its namespace or in another."""
    document = asked.document()
    source, destination = named_view(document.get("source")), named_view(document.get("destination"))
    check_reachable(destination)
    asked.served.lake.rename_view(source, destination)
    return nothing()


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
        except MISFITS as error:
            raise InvalidInputError(f"the schema of the view cannot be read: {error}") from error
        return _Query(sql, dialect, _one_level(namespace), columns)

    def applied(self, asked: Asked, locator: ViewLocator, value: View) -> View:
        """Return a view with this query."""
        schema, _ = own_schema(self.schema)
        namespace = self.namespace or locator.namespace
        return replace(
            value,
            sql=self.sql,
            dialect=self.dialect,
            schema=schema,
            reads=names_read(asked.served.lake.engines, self.sql, self.dialect, namespace),
            properties={**value.properties, VIEW_NAMESPACE: namespace},
        )


def _changed(asked: Asked, locator: ViewLocator, value: View, updates: Sequence[Mapping[str, Any]]) -> View:
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
                value = _Query.of(version, schema).applied(asked, locator, value)
            case {"action": "set-properties", "updates": _}:
                value = _with_texts(value, texts_in(update, "updates"), ())
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


def _at_view(asked: Asked, locator: ViewLocator) -> Asked:
    return replace(asked, steps={**asked.steps, "view": locator.name})
