"""REST requests and resolution of the namespaces, tables and views that they name.

Engines try names of every kind, for one `db.table.files` for what they know of a
table, and take a refusal for a failure.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.snapshot import LakeSnapshot
from mangrove.model.locators import NamespaceLocator, TableLocator, ViewLocator
from mangrove.model.objects import Namespace, Table, TableType, View
from mangrove.rest.warehouses import open_version, parse_prefix
from mangrove.transaction.catalog import load_namespace, load_table, load_view

__all__ = [
    "NAMESPACE_SEPARATOR",
    "RestRequest",
    "ServedLakehouse",
    "check_addressable",
    "find_namespace",
    "find_namespace_by_levels",
    "find_table",
    "find_view",
    "is_addressable",
    "is_publishable",
    "parse_namespace",
    "parse_namespace_path",
    "parse_properties",
    "parse_table_identifier",
    "parse_view_identifier",
    "require_text",
]

_REQUEST_CHARACTERS_MAX: Final = 4_000
_DEPTH_MAX: Final = 200
"""Columns may lie 32 levels deep, and JSON takes three levels for each at most."""


@dataclass(frozen=True, slots=True)
class ServedLakehouse:
    """What every request is answered from."""

    lake: Lakehouse
    is_writable: bool = False
    is_secret: Callable[[str], bool] | None = field(default=None, repr=False)
    """Whether a text is the server's token; None where it asks for none."""


@dataclass(frozen=True, slots=True)
class RestRequest:
    """A request; anybody may have written it."""

    served: ServedLakehouse
    steps: Mapping[str, str]
    """What stands in the place of `{namespace}`, `{table}` and so on, decoded."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By their names in small letters."""
    body: bytes = b""

    def __post_init__(self) -> None:
        for name, value in (*self.steps.items(), *self.query.items()):
            if len(value) > _REQUEST_CHARACTERS_MAX:
                raise InvalidInputError(
                    f"{name[:40]!r} has {len(value)} characters: {_REQUEST_CHARACTERS_MAX} are allowed in an address"
                )

    @property
    def version(self) -> int | None:
        """The version that the address is about, or None for the newest."""
        prefix = self.steps.get("prefix")
        return None if prefix is None else parse_prefix(prefix)

    def seen(self, version: int | None = None) -> LakeSnapshot:
        """Return the state that is asked about, or a version that an earlier answer named."""
        of_address = self.version
        return open_version(self.served.lake, version if of_address is None else of_address)

    def document(self) -> dict[str, Any]:
        """Return the JSON object that was sent."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(f"the body of the request is no JSON ({error}): send an object") from error
        if not isinstance(found, dict):
            raise InvalidInputError("the body of the request is no JSON object: send one")
        _check_depth(found)
        return found


def _check_depth(document: object) -> None:
    """Refuse what lies so deep that who reads it level by level would come to no end."""
    level = [document]
    for _ in range(_DEPTH_MAX):
        inside = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [*chain.from_iterable(inside)]
        if not level:
            return
    raise InvalidInputError(f"the body of the request has more than {_DEPTH_MAX} levels: nest less deeply")


NAMESPACE_SEPARATOR: Final = "\x1f"
"""What stands between the levels of a namespace in an address."""


def find_namespace_by_levels(seen: LakeSnapshot, text: str) -> tuple[NamespaceLocator, Namespace]:
    """Return the namespace that is called by its levels."""
    with _not_there("namespace"):
        locator = _locator(text)
        return locator, load_namespace(seen.reading(), locator)


def find_namespace(seen: LakeSnapshot, requested: RestRequest) -> tuple[NamespaceLocator, Namespace]:
    """Return the namespace of an address."""
    return find_namespace_by_levels(seen, requested.steps["namespace"])


def find_table(seen: LakeSnapshot, requested: RestRequest) -> tuple[TableLocator, Table]:
    """Return the table of an address, if it can be shown: others keep the rows of those that cannot."""
    with _not_there("table"):
        locator = TableLocator(_locator(requested.steps["namespace"]).name, requested.steps["table"])
        value = load_table(seen.reading(), locator)
    if not is_publishable(value):
        raise NotFoundError(
            f"the rows of {locator} are kept elsewhere, so it is no table of this catalog: open it where they are"
        )
    return locator, value


def find_view(seen: LakeSnapshot, requested: RestRequest) -> tuple[ViewLocator, View]:
    """Return the view of an address."""
    with _not_there("view"):
        locator = ViewLocator(_locator(requested.steps["namespace"]).name, requested.steps["view"])
        return locator, load_view(seen.reading(), locator)


def is_publishable(value: Table) -> bool:
    """Return whether a table can be one of Iceberg's: its rows are the lakehouse's own."""
    return value.table_type is TableType.MANAGED


def is_addressable(name: str) -> bool:
    """Return whether a client can ask for what is called so.

    Clients fold the steps `.` and `..` of an address before they send it, so a drop of
    such a table would be one of the namespace.

    >>> is_addressable(".."), is_addressable("...")
    (False, True)
    """
    return name not in {".", ".."}


def _locator(text: str) -> NamespaceLocator:
    levels = text.split(NAMESPACE_SEPARATOR)
    if len(levels) > 1:
        raise NotFoundError(f"there is no namespace {'.'.join(levels)}: namespaces have one level here")
    return NamespaceLocator(text)


@contextmanager
def _not_there(kind: str) -> Iterator[None]:
    try:
        yield
    except InvalidInputError as error:
        raise NotFoundError(f"there is no such {kind}: {error}") from error


def parse_namespace(levels: object) -> NamespaceLocator:
    """Return the namespace of a list of levels.

    >>> parse_namespace(["sales"]).name
    'sales'
    """
    match levels:
        case [str(name)]:
            return NamespaceLocator(name)
        case [str(), *_]:
            raise InvalidInputError(f"{levels!r} has several levels, and namespaces have one here: give one name")
        case _:
            raise InvalidInputError("the request names no namespace: give it as a list with one name")


def parse_namespace_path(requested: RestRequest) -> NamespaceLocator:
    """Return the namespace of an address, whether it is there or not."""
    return parse_namespace(requested.steps["namespace"].split(NAMESPACE_SEPARATOR))


def parse_table_identifier(identifier: object) -> TableLocator:
    """Return the table of an identifier."""
    namespace, name = _parts(identifier)
    return TableLocator(namespace.name, name)


def parse_view_identifier(identifier: object) -> ViewLocator:
    """Return the view of an identifier."""
    namespace, name = _parts(identifier)
    return ViewLocator(namespace.name, name)


def check_addressable(locator: NamespaceLocator | TableLocator | ViewLocator) -> None:
    """Refuse to give something a name by which no client could ask for it."""
    above = () if isinstance(locator, NamespaceLocator) else (locator.namespace,)
    for name in (*above, locator.name):
        if not is_addressable(name):
            raise InvalidInputError(
                f"{name!r} is a step in the addresses of clients and cannot be a name: take another"
            )


def require_text(document: Mapping[str, Any], name: str) -> str:
    """Return a text of a request that must be there."""
    found = document.get(name)
    if not isinstance(found, str) or not found:
        raise InvalidInputError(f"the request has no {name!r}: give it as text")
    return found


def parse_properties(document: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return properties of a request, none where it gives none."""
    found = document.get(name) or {}
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise InvalidInputError(f"{name!r} of the request is no object of texts: give names and texts")
    return found


def _parts(identifier: object) -> tuple[NamespaceLocator, str]:
    match identifier:
        case {"namespace": levels, "name": str(name)}:
            return parse_namespace(levels), name
        case _:
            raise InvalidInputError("the request names nothing: give an identifier with a namespace and a name")
