"""Statements on namespaces: create, alter, rename, drop."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from mangrove.errors import InvalidInputError
from mangrove.metastore import Scan
from mangrove.model.locators import Kind, NamespaceLocator, TableLocator
from mangrove.model.objects import Namespace
from mangrove.model.properties import NO_PROPERTIES
from mangrove.transaction.entries import alter_entry
from mangrove.transaction.names import check_free, found_namespace
from mangrove.transaction.tables import drop_table
from mangrove.transaction.workspace import Workspace

__all__ = ["alter_namespace", "create_namespace", "drop_namespace", "rename_namespace"]


def create_namespace(workspace: Workspace, locator: NamespaceLocator, value: Namespace) -> None:
    """Make a namespace."""
    check_free(workspace, locator)
    workspace.put(locator, value)


def alter_namespace(
    workspace: Workspace,
    locator: NamespaceLocator,
    *,
    put: Mapping[str, str] = NO_PROPERTIES,
    removed: Iterable[str] = (),
    description: str | None = None,
) -> None:
    """Put or remove properties, or describe the namespace anew."""
    alter_entry(workspace, locator, found_namespace(workspace, locator), put, removed, description)


def rename_namespace(workspace: Workspace, old: NamespaceLocator, new: NamespaceLocator) -> None:
    """Give a namespace another name; nothing in it is touched."""
    value = found_namespace(workspace, old)
    if new == old:
        return
    check_free(workspace, new)
    workspace.move_namespace(old, new, replace(value, name=new.name))


def drop_namespace(workspace: Workspace, locator: NamespaceLocator, *, cascade: bool = False) -> None:
    """Drop a namespace: an empty one, or with `cascade` all that is in it too."""
    found_namespace(workspace, locator)
    inside = [found for kind in (Kind.TABLE, Kind.VIEW) for found, _ in workspace.children(kind, locator)]
    if inside and not cascade:
        first = f"{inside[0].kind.word} {inside[0]}"
        raise InvalidInputError(
            f"namespace {locator} is not empty: it holds {first}"
            f"{f' and {len(inside) - 1} more' if len(inside) > 1 else ''}. Drop them first, or drop it with cascade"
        )
    for kind in (Kind.TABLE, Kind.VIEW):
        workspace.guard(Scan(kind, locator))
    for found in inside:
        if isinstance(found, TableLocator):
            drop_table(workspace, found)
        else:
            workspace.delete(found)
    workspace.delete(locator)
