"""Statements on views: create or replace, alter, rename, drop.

A view that is made or renamed may not read itself, also not by way of others. What
is there under the names on that way is guarded, so that no two transactions make a
half of a circle each.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.model.locators import ViewLocator
from mangrove.model.names import split_name
from mangrove.model.objects import View
from mangrove.model.properties import NO_PROPERTIES
from mangrove.model.schema import check_new_columns
from mangrove.transaction.entries import alter_entry, rename_entry
from mangrove.transaction.names import check_free, found_view
from mangrove.transaction.workspace import Workspace

__all__ = ["VIEW_NAMESPACE", "alter_view", "create_view", "drop_view", "rename_view"]

VIEW_NAMESPACE: Final = "sql.namespace"
"""The property of a view that says where names without a namespace are looked up; without it, in the view's own."""


def create_view(workspace: Workspace, locator: ViewLocator, value: View, *, or_replace: bool = False) -> None:
    """Make a view; with `or_replace` it may take the place of another view, whose id it keeps."""
    _check_reads(workspace, locator, value)
    before = workspace.get(locator) if or_replace else None
    if isinstance(before, View):
        check_new_columns(value.schema, before.schema)
        workspace.put(locator, replace(value, id=before.id))
        return
    check_new_columns(value.schema)
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
    value = found_view(workspace, old)
    if new != old:
        _check_reads(workspace, new, value, was=old)
    rename_entry(workspace, old, new, value)


def drop_view(workspace: Workspace, locator: ViewLocator) -> None:
    """Drop a view; what it reads stays."""
    found_view(workspace, locator)
    workspace.delete(locator)


def _check_reads(workspace: Workspace, locator: ViewLocator, value: View, was: ViewLocator | None = None) -> None:
    """Refuse a view that would read itself; the one that it `was` is no longer there."""
    ways: list[tuple[ViewLocator, ...]] = [(locator, read) for read in _views_read(locator, value)]
    seen = {was}
    while ways:
        *way, last = ways.pop()
        if last == locator:
            told = " reads ".join(map(str, (*way, last)))
            raise InvalidInputError(
                f"the view {locator} would read itself: {told}. Let one of them read something else"
            )
        if last in seen:
            continue
        seen.add(last)
        workspace.guard(last)
        there = workspace.get(last)
        if isinstance(there, View):
            ways += [(*way, last, read) for read in _views_read(last, there)]


def _views_read(locator: ViewLocator, value: View) -> list[ViewLocator]:
    """Return what a view reads, as if all of it were views; a bare name is in the view's own namespace."""
    parts = [split_name(read) for read in value.reads]
    named = [(locator.namespace, *names) if len(names) == 1 else tuple(names) for names in parts]
    return [ViewLocator(*names) for names in named if len(names) == 2]
