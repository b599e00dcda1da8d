"""Statements on views: create or replace, alter, rename, drop."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from mangrove.model.locators import ViewLocator
from mangrove.model.objects import View
from mangrove.model.properties import NO_PROPERTIES
from mangrove.transaction.names import check_free, found_view, with_properties
from mangrove.transaction.workspace import Workspace

__all__ = ["alter_view", "create_view", "drop_view", "rename_view"]


def create_view(workspace: Workspace, locator: ViewLocator, value: View, *, or_replace: bool = False) -> None:
    """Make a view; with `or_replace` it may take the place of another view, whose id it keeps."""
    before = workspace.get(locator) if or_replace else None
    if isinstance(before, View):
        workspace.put(locator, replace(value, id=before.id))
        return
    check_free(workspace, locator)
    workspace.put(locator, value)


def alter_view(
    workspace: Workspace,
    locator: ViewLocator,
    *,
    put: Mapping[str, str] = NO_PROPERTIES,
    removed: Iterable[str] = (),
    description: str | None = None,
) -> None:
    """Put or remove properties, or describe the view anew."""
    value = found_view(workspace, locator)
    altered = replace(
        value,
        properties=with_properties(value.properties, put, removed),
        description=value.description if description is None else description,
    )
    if altered != value:
        workspace.put(locator, altered)


def rename_view(workspace: Workspace, old: ViewLocator, new: ViewLocator) -> None:
    """Give a view another name, in the same namespace or in another."""
    value = found_view(workspace, old)
    if new == old:
        return
    check_free(workspace, new)
    workspace.delete(old)
    workspace.put(new, replace(value, name=new.name))


def drop_view(workspace: Workspace, locator: ViewLocator) -> None:
    """Drop a view; what it reads stays."""
    found_view(workspace, locator)
    workspace.delete(locator)
