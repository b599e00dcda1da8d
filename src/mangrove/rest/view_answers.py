"""What is told of one view: its query, and the columns that it gives, where those are certain.

Engines give a view just the columns that its metadata names: Spark with Iceberg's JAR would
read a view without any as rows without columns, and say nothing. So a view of which nobody
knows the columns without asking Spark is not there for them, and the refusal says why. Any
other refusal than that would end Trino's list of the columns of all views.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.iceberg.addresses import root_address
from mangrove.iceberg.view_metadata import schema_of_columns, view_metadata
from mangrove.model.locators import TableLocator, ViewLocator
from mangrove.model.objects import Table, View
from mangrove.model.schema import Schema
from mangrove.model.types import DataType
from mangrove.rest.asked import Asked
from mangrove.rest.catalog_answers import answered, nothing
from mangrove.rest.found import is_shown, view_asked
from mangrove.transaction.deltas import open_table
from mangrove.transaction.names import Reading
from mangrove.transaction.views import VIEW_NAMESPACE

__all__ = ["view_answer", "view_exists"]

_VIEWS_DEEP_MAX: Final = 20
_Columns = tuple[tuple[str, DataType], ...]
_Telling = Callable[[str, Callable[[tuple[str, ...]], _Columns | None]], _Columns | None]


def view_answer(asked: Asked) -> Response:
    """Return a view."""
    seen = asked.seen()
    locator, view = view_asked(seen, asked)
    schema = _certain_schema(seen.reading(), locator, view)
    lake = asked.served.lake
    location = f"{root_address(lake.uri)}views/{view.id}"
    at_millis = seen.snapshot.commit.created_at_millis
    return answered(
        {
            "metadata-location": f"{location}/metadata/{at_millis}.metadata.json",
            "metadata": view_metadata(view, schema, _namespace_of(locator, view), location, at_millis),
            "config": {},
        }
    )


def view_exists(asked: Asked) -> Response:
    """Say whether a view is there that can be told."""
    seen = asked.seen()
    locator, view = view_asked(seen, asked)
    _certain_schema(seen.reading(), locator, view)
    return nothing()


def _certain_schema(reading: Reading, locator: ViewLocator, view: View) -> Schema:
    if view.schema is not None:
        return view.schema
    if importlib.util.find_spec("sqlglot") is None:
        raise NotFoundError(
            f"what columns the view {locator} has is told from its query, which needs sqlglot: "
            "run pip install 'mangrove-lake[spark]' on the server"
        )
    from mangrove.sql.view_columns import told_columns  # noqa: PLC0415 - only after it is known to be installed

    found = _Views(reading, told_columns).columns(locator, view, ())
    if found is None:
        raise NotFoundError(
            f"{locator} is a view of which only Spark knows the columns and their types: name each column of its "
            "query, give it a type with CAST, and let it read tables of this lakehouse as they are now"
        )
    return schema_of_columns(found)


def _namespace_of(locator: ViewLocator, view: View) -> str:
    return view.properties.get(VIEW_NAMESPACE, locator.namespace)


@dataclass(frozen=True, slots=True)
class _Views:
    """What the queries of views give, one version of the lakehouse."""

    reading: Reading
    told: _Telling

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
        if not isinstance(table, Table) or not is_shown(table):
            return None
        return _of_schema(open_table(self.reading, table_locator).version.schema)


def _of_schema(schema: Schema | None) -> _Columns | None:
    return None if schema is None else tuple((column.name, column.type) for column in schema.columns)
