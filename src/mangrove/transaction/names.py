"""Finding what people name, and saying what else there is when it is not there."""

import difflib
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from mangrove.errors import AlreadyExistsError, NotFoundError
from mangrove.metastore import Snapshot
from mangrove.model.locators import Kind, Locator, NamespaceLocator, TableIdentity, TableLocator, ViewLocator
from mangrove.model.names import check_new_name, joined_name
from mangrove.model.objects import Namespace, Table, View
from mangrove.model.properties import Properties
from mangrove.transaction.workspace import Workspace

__all__ = ["Reading", "check_free", "found_namespace", "found_table", "found_view", "table_names", "with_properties"]

Reading = Snapshot | Workspace
"""Where objects are read: a version, or a transaction on one."""

_SUGGESTED_FROM_MAX: Final = 1_000


def found_namespace(reading: Reading, locator: NamespaceLocator) -> Namespace:
    """Return the namespace, or say what it may have been meant to be."""
    value = reading.get(locator)
    if isinstance(value, Namespace):
        return value
    raise NotFoundError(f"there is no namespace {locator}{_similar(reading, locator)}")


def found_table(reading: Reading, locator: TableLocator) -> Table:
    """Return the table, or say what it may have been meant to be."""
    value = reading.get(locator)
    if isinstance(value, Table):
        return value
    found_namespace(reading, locator.parent)
    if reading.get(ViewLocator(locator.namespace, locator.name)) is not None:
        raise NotFoundError(f"{locator} is a view, not a table")
    raise NotFoundError(f"there is no table {locator}{_similar(reading, locator)}")


def found_view(reading: Reading, locator: ViewLocator) -> View:
    """Return the view, or say what it may have been meant to be."""
    value = reading.get(locator)
    if isinstance(value, View):
        return value
    found_namespace(reading, locator.parent)
    if reading.get(TableLocator(locator.namespace, locator.name)) is not None:
        raise NotFoundError(f"{locator} is a table, not a view")
    raise NotFoundError(f"there is no view {locator}{_similar(reading, locator)}")


def check_free(workspace: Workspace, locator: NamespaceLocator | TableLocator | ViewLocator) -> None:
    """Refuse a name that is too long, unsafe or taken; tables and views of a namespace share one set of names.

    Nobody else may take it meanwhile, as a table or as a view.
    """
    workspace.settings.check_object_name(locator.kind, locator.name)
    check_new_name(locator.name, locator.kind.word)
    if isinstance(locator, NamespaceLocator):
        if workspace.get(locator) is not None:
            raise AlreadyExistsError(f"there is a namespace {locator} already: choose another name")
        return
    found_namespace(workspace, locator.parent)
    for taken in (TableLocator(locator.namespace, locator.name), ViewLocator(locator.namespace, locator.name)):
        if workspace.get(taken) is not None:
            raise AlreadyExistsError(f"there is a {taken.kind.word} {taken} already: choose another name")
        if taken.kind is not locator.kind:
            workspace.guard(taken)


def table_names(wanted: set[TableIdentity], *snapshots: Snapshot) -> dict[TableIdentity, str]:
    """Return the names of tables by their ids, from the first version that has them.

    Nothing leads from an id to a name, so this lists tables until all are found.
    """
    names: dict[TableIdentity, str] = {}
    for snapshot in snapshots:
        for space, _ in snapshot.children(Kind.NAMESPACE, None):
            if len(names) == len(wanted):
                return names
            assert isinstance(space, NamespaceLocator)
            for locator, table in snapshot.children(Kind.TABLE, space):
                identity = TableIdentity(table.namespace_id, table.id) if isinstance(table, Table) else None
                if identity in wanted:
                    names.setdefault(identity, str(locator))
    return names


def with_properties(properties: Mapping[str, str], put: Mapping[str, str], removed: Iterable[str]) -> dict[str, str]:
    """Return the properties with some put and some removed."""
    gone = set(removed)
    missing = gone - properties.keys()
    if missing:
        raise NotFoundError(
            f"there is no property {min(missing)!r} to remove: there are {', '.join(sorted(properties)) or 'none'}"
        )
    return {key: value for key, value in properties.items() if key not in gone} | dict(Properties(put))


def _similar(reading: Reading, locator: Locator) -> str:
    """Return a sentence about the names next to one that is missing; a search that isolation need not know of."""
    snapshot = reading.snapshot if isinstance(reading, Workspace) else reading
    parent = locator.parent if isinstance(locator, TableLocator | ViewLocator) else None
    there = [str(found.parts[-1]) for found, _ in islice(snapshot.children(locator.kind, parent), _SUGGESTED_FROM_MAX)]
    close = difflib.get_close_matches(str(locator.parts[-1]), there, n=3)
    if close:
        above = [str(part) for part in locator.parts[:-1]]
        return f": did you mean {' or '.join(joined_name(*above, name) for name in close)}?"
    if locator.kind is Kind.NAMESPACE:
        return ": create it first, or list the namespaces" if there else ": there are none yet"
    return f": list the {locator.kind.word}s of {parent}" if there else f": {parent} has no {locator.kind.word}s"
