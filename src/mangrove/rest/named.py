"""Names as they stand in the body of a request: levels of a namespace, and identifiers of tables and views."""

from collections.abc import Mapping
from typing import Any

from mangrove.errors import InvalidInputError
from mangrove.model.locators import NamespaceLocator, TableLocator, ViewLocator
from mangrove.rest.asked import Asked
from mangrove.rest.found import LEVELS, is_reachable

__all__ = ["asked_namespace", "check_reachable", "named_namespace", "named_table", "named_view", "text_in", "texts_in"]


def named_namespace(levels: object) -> NamespaceLocator:
    """Return the namespace of a list of levels.

    >>> named_namespace(["sales"]).name
    'sales'
    """
    match levels:
        case [str(name)]:
            return NamespaceLocator(name)
        case [str(), *_]:
            raise InvalidInputError(f"{levels!r} has several levels, and namespaces have one here: give one name")
        case _:
            raise InvalidInputError("the request names no namespace: give it as a list with one name")


def asked_namespace(asked: Asked) -> NamespaceLocator:
    """Return the namespace of an address, whether it is there or not."""
    return named_namespace(asked.steps["namespace"].split(LEVELS))


def named_table(identifier: object) -> TableLocator:
    """Return the table of an identifier."""
    namespace, name = _parts(identifier)
    return TableLocator(namespace.name, name)


def named_view(identifier: object) -> ViewLocator:
    """Return the view of an identifier."""
    namespace, name = _parts(identifier)
    return ViewLocator(namespace.name, name)


def check_reachable(locator: NamespaceLocator | TableLocator | ViewLocator) -> None:
    """Refuse to give something a name by which no client could ask for it."""
    above = () if isinstance(locator, NamespaceLocator) else (locator.namespace,)
    for name in (*above, locator.name):
        if not is_reachable(name):
            raise InvalidInputError(
                f"{name!r} is a step in the addresses of clients and cannot be a name: take another"
            )


def text_in(document: Mapping[str, Any], name: str) -> str:
    """Return a text of a request that must be there."""
    found = document.get(name)
    if not isinstance(found, str) or not found:
        raise InvalidInputError(f"the request has no {name!r}: give it as text")
    return found


def texts_in(document: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return properties of a request, none where it gives none."""
    found = document.get(name) or {}
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise InvalidInputError(f"{name!r} of the request is no object of texts: give names and texts")
    return found


def _parts(identifier: object) -> tuple[NamespaceLocator, str]:
    match identifier:
        case {"namespace": levels, "name": str(name)}:
            return named_namespace(levels), name
        case _:
            raise InvalidInputError("the request names nothing: give an identifier with a namespace and a name")
