"""Looking up what a client names: a name that nothing here can have is not there, and no mistake of the client's.

Engines try names of every kind, for one `db.table.files` for what they know of a
table, and take a refusal for a failure.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.lakehouse.past import PastLakehouse
from mangrove.model.locators import NamespaceLocator, TableLocator, ViewLocator
from mangrove.model.objects import Namespace, Table, TableType, View
from mangrove.rest.asked import Asked
from mangrove.transaction.names import found_namespace, found_table, found_view

__all__ = ["LEVELS", "is_reachable", "is_shown", "namespace_asked", "namespace_called", "table_asked", "view_asked"]

LEVELS: Final = "\x1f"
"""What stands between the levels of a namespace in an address."""


def namespace_called(seen: PastLakehouse, text: str) -> tuple[NamespaceLocator, Namespace]:
    """Return the namespace that is called by its levels."""
    with _not_there("namespace"):
        locator = _locator(text)
        return locator, found_namespace(seen.reading(), locator)


def namespace_asked(seen: PastLakehouse, asked: Asked) -> tuple[NamespaceLocator, Namespace]:
    """Return the namespace of an address."""
    return namespace_called(seen, asked.steps["namespace"])


def table_asked(seen: PastLakehouse, asked: Asked) -> tuple[TableLocator, Table]:
    """Return the table of an address, if it can be shown: others keep the rows of those that cannot."""
    with _not_there("table"):
        locator = TableLocator(_locator(asked.steps["namespace"]).name, asked.steps["table"])
        value = found_table(seen.reading(), locator)
    if not is_shown(value):
        raise NotFoundError(
            f"the rows of {locator} are kept elsewhere, so it is no table of this catalog: open it where they are"
        )
    return locator, value


def view_asked(seen: PastLakehouse, asked: Asked) -> tuple[ViewLocator, View]:
    """Return the view of an address."""
    with _not_there("view"):
        locator = ViewLocator(_locator(asked.steps["namespace"]).name, asked.steps["view"])
        return locator, found_view(seen.reading(), locator)


def is_shown(value: Table) -> bool:
    """Return whether a table can be one of Iceberg's: its rows are the lakehouse's own."""
    return value.table_type is TableType.MANAGED


def is_reachable(name: str) -> bool:
    """Return whether a client can ask for what is called so.

    Clients fold the steps `.` and `..` of an address before they send it, so a drop of
    such a table would be one of the namespace.

    >>> is_reachable(".."), is_reachable("...")
    (False, True)
    """
    return name not in {".", ".."}


def _locator(text: str) -> NamespaceLocator:
    levels = text.split(LEVELS)
    if len(levels) > 1:
        raise NotFoundError(f"there is no namespace {'.'.join(levels)}: namespaces have one level here")
    return NamespaceLocator(text)


@contextmanager
def _not_there(kind: str) -> Iterator[None]:
    try:
        yield
    except InvalidInputError as error:
        raise NotFoundError(f"there is no such {kind}: {error}") from error
