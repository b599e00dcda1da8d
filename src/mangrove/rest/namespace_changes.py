"""Namespaces that clients make, change and drop."""

from typing import Any

from starlette.responses import Response

from mangrove.errors import InvalidInputError
from mangrove.rest.asked import Asked
from mangrove.rest.catalog_answers import COMMENT, answered, namespace_properties, nothing
from mangrove.rest.found import namespace_asked
from mangrove.rest.named import check_reachable, named_namespace, texts_in
from mangrove.rest.refusals import refused

__all__ = ["namespace_changed", "namespace_created", "namespace_dropped"]

_NOT_EMPTY = "NamespaceNotEmptyException"


def namespace_created(asked: Asked) -> Response:
    """Make a namespace."""
    document = asked.document()
    locator = named_namespace(document.get("namespace"))
    check_reachable(locator)
    given = texts_in(document, "properties")
    own = {name: text for name, text in given.items() if name != COMMENT}
    made = asked.served.lake.create_namespace(locator, properties=own, description=given.get(COMMENT))
    return answered({"namespace": [made.name], "properties": namespace_properties(made.value)})


def namespace_changed(asked: Asked) -> Response:
    """Put and remove properties of a namespace."""
    document = asked.document()
    put, removals = texts_in(document, "updates"), _removals(document)
    both = sorted(put.keys() & set(removals))
    if both:
        return refused(422, f"{both[0]!r} is both put and removed: do one of them", "UnprocessableEntityException")
    locator, value = namespace_asked(asked.seen(), asked)
    there = namespace_properties(value)
    gone = [name for name in removals if name in there]
    description = "" if COMMENT in gone else put.get(COMMENT)
    asked.served.lake.alter_namespace(
        locator,
        {name: text for name, text in put.items() if name != COMMENT},
        [name for name in gone if name != COMMENT],
        description=description,
    )
    missing = [name for name in removals if name not in there]
    return answered({"updated": sorted(put), "removed": gone, "missing": missing})


def namespace_dropped(asked: Asked) -> Response:
    """Drop a namespace that is empty."""
    locator, _ = namespace_asked(asked.seen(), asked)
    try:
        asked.served.lake.drop_namespace(locator)
    except InvalidInputError as error:
        return refused(409, str(error), _NOT_EMPTY)
    return nothing()


def _removals(document: dict[str, Any]) -> list[str]:
    found = document.get("removals") or []
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise InvalidInputError("the removals of the request are no list of texts: give the names of properties")
    return list(dict.fromkeys(found))
