"""What is told of a catalog as a whole: its configuration, its namespaces, and the names in them."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from starlette.responses import Response

from mangrove.lakehouse.past import PastLakehouse
from mangrove.model.locators import Kind, NamespaceLocator, TableLocator, ViewLocator
from mangrove.model.objects import Namespace, Table
from mangrove.rest.asked import Asked
from mangrove.rest.found import is_reachable, is_shown, namespace_asked, namespace_called, table_asked
from mangrove.rest.paging import Page, page_asked, page_of
from mangrove.rest.storage_words import storage_words
from mangrove.rest.warehouses import prefix_of, version_of_warehouse

__all__ = [
    "COMMENT",
    "answered",
    "config_answer",
    "metrics_taken",
    "namespace_answer",
    "namespace_exists",
    "namespace_properties",
    "namespaces_answer",
    "nothing",
    "table_exists",
    "tables_answer",
    "views_answer",
]

COMMENT: Final = "comment"
"""The property under which engines keep what a namespace, table or view is for."""


def answered(found: Any, status: int = 200) -> Response:
    """Return an answer in JSON."""
    content = json.dumps(found, ensure_ascii=False).encode("utf-8", "replace")
    return Response(content, status, media_type="application/json")


def nothing() -> Response:
    """Return the answer that says yes, and no more."""
    return Response(status_code=204)


def config_answer(asked: Asked, endpoints: Callable[[bool], Sequence[str]]) -> Response:
    """Return how a client talks to this server; `endpoints` tells what is served, with writing or without."""
    served = asked.served
    version = version_of_warehouse(served.lake, asked.query.get("warehouse"))
    is_writable = served.is_writable and version is None
    return answered(
        {
            "defaults": storage_words(served.lake.uri, served.lake.storage_options),
            "overrides": {} if version is None else {"prefix": prefix_of(version)},
            "endpoints": endpoints(is_writable),
        }
    )


def namespaces_answer(asked: Asked) -> Response:
    """Return the namespaces; below one there are none."""
    wanted = page_asked(asked.query)
    seen = asked.seen(wanted.version)
    parent = asked.query.get("parent")
    if parent:
        namespace_called(seen, parent)
        return _listed(Page((), None), "namespaces", [])
    page = page_of(wanted, seen.version, lambda after: _reachable(one.name for one in seen.namespaces(after=after)))
    return _listed(page, "namespaces", [[name] for name in page.names])


def namespace_answer(asked: Asked) -> Response:
    """Return a namespace with its properties."""
    locator, value = namespace_asked(asked.seen(), asked)
    return answered({"namespace": [locator.name], "properties": namespace_properties(value)})


def namespace_properties(value: Namespace) -> dict[str, str]:
    """Return the properties of a namespace as engines read them: what it is for is one of them."""
    told = {COMMENT: value.description} if value.description else {}
    return {**told, **value.properties}


def namespace_exists(asked: Asked) -> Response:
    """Say whether a namespace is there."""
    namespace_asked(asked.seen(), asked)
    return nothing()


def tables_answer(asked: Asked) -> Response:
    """Return the tables of a namespace that can be shown: those whose rows the lakehouse keeps."""
    return _names_answer(asked, _tables)


def table_exists(asked: Asked) -> Response:
    """Say whether a table is there; nothing is written for it yet."""
    table_asked(asked.seen(), asked)
    return nothing()


def views_answer(asked: Asked) -> Response:
    """Return the views of a namespace."""
    return _names_answer(asked, _views)


def metrics_taken(asked: Asked) -> Response:
    """Take a client's report of a scan or a commit; that it came is counted, and nothing of it is kept."""
    asked.document()
    table_asked(asked.seen(), asked)
    return nothing()


def _names_answer(
    asked: Asked, names: Callable[[PastLakehouse, NamespaceLocator, str | None], Iterator[str]]
) -> Response:
    wanted = page_asked(asked.query)
    seen = asked.seen(wanted.version)
    parent, _ = namespace_asked(seen, asked)
    page = page_of(wanted, seen.version, lambda after: _reachable(names(seen, parent, after)))
    return _listed(page, "identifiers", [{"namespace": [parent.name], "name": name} for name in page.names])


def _reachable(names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if is_reachable(name))


def _tables(seen: PastLakehouse, parent: NamespaceLocator, after: str | None) -> Iterator[str]:
    following = None if after is None else TableLocator(parent.name, after)
    for locator, value in seen.reading().children(Kind.TABLE, parent, after=following):
        if isinstance(locator, TableLocator) and isinstance(value, Table) and is_shown(value):
            yield locator.name


def _views(seen: PastLakehouse, parent: NamespaceLocator, after: str | None) -> Iterator[str]:
    following = None if after is None else ViewLocator(parent.name, after)
    for locator, _ in seen.reading().children(Kind.VIEW, parent, after=following):
        assert isinstance(locator, ViewLocator)
        yield locator.name


def _listed(page: Page, name: str, entries: Sequence[object]) -> Response:
    return answered({name: entries, "next-page-token": page.next_token})
