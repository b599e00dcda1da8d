"""What namespaces, tables and views have in common as entries of the catalog: how one is altered, and renamed."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from mangrove.model.locators import NamespaceLocator, TableLocator, ViewLocator
from mangrove.model.objects import Namespace, Table, View
from mangrove.transaction.names import check_free, with_properties
from mangrove.transaction.workspace import Workspace

__all__ = ["alter_entry", "rename_entry"]

Entry = TypeVar("Entry", Namespace, Table, View)
Named = TypeVar("Named", Table, View)


def alter_entry(
    workspace: Workspace,
    locator: NamespaceLocator | TableLocator | ViewLocator,
    value: Entry,
    put: Mapping[str, str],
    removed: Iterable[str],
    description: str | None,
) -> None:
    """Put or remove properties, or describe it anew; what is so already is not written."""
    altered = replace(
        value,
        properties=with_properties(value.properties, put, removed),
        description=value.description if description is None else description,
    )
    if altered != value:
        workspace.put(locator, altered)


def rename_entry(
    workspace: Workspace, old: TableLocator | ViewLocator, new: TableLocator | ViewLocator, value: Named
) -> None:
    """Give it another name, in the same namespace or in another."""
    if new == old:
        return
    check_free(workspace, new)
    workspace.delete(old)
    workspace.put(new, replace(value, name=new.name))
