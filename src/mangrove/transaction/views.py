"""Statements on views: create or replace, alter, rename, drop."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from mangrove.model.locators import ViewLocator
from mangrove.model.objects import View
from mangrove.model.properties import NO_PROPERTIES
from mangrove.transaction.entries import alter_entry, rename_entry
from mangrove.transaction.names import check_free, found_view
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
    alter_entry(workspace, locator, found_view(workspace, locator), put, removed, description)


def rename_view(workspace: Workspace, old: ViewLocator, new: ViewLocator) -> None:
    """Give a view another name, in the same namespace or in another."""
    rename_entry(workspace, old, new, found_view(workspace, old))


def drop_view(workspace: Workspace, locator: ViewLocator) -> None:
    """Drop a view; what it reads stays."""
    found_view(workspace, locator)
    workspace.delete(locator)
