"""Resolution and maintenance of aliases, the other names of namespaces and tables.

An alias records the id and the current name of its target. Every rename of a target
rewrites its aliases in the same transaction, so a look-up needs one more read and no
search. A rename or drop guards all aliases: one that is created concurrently conflicts.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from mangrove.metastore import MetastoreSnapshot, ObjectRange
from mangrove.model.locators import AliasLocator, Kind, NamespaceLocator, TableLocator, ViewLocator
from mangrove.model.objects import AliasEntry, NamespaceEntry, TableEntry, ViewEntry
from mangrove.transaction.workspace import Workspace

__all__ = [
    "Named",
    "drop_aliases",
    "find_alias",
    "is_listed",
    "list_aliases",
    "locate_namespace",
    "locate_parent",
    "locate_table",
    "locate_view",
    "rename_in_aliases",
]

Named = NamespaceLocator | TableLocator
InNamespace = TypeVar("InNamespace", TableLocator, ViewLocator)
_Reader = MetastoreSnapshot | Workspace


def find_alias(reading: _Reader, locator: Named) -> AliasEntry | None:
    """Return the alias with the name of `locator`, or None."""
    found = reading.get(AliasLocator(locator.canonical))
    return found if isinstance(found, AliasEntry) else None


def is_listed(reading: _Reader, alias: AliasEntry) -> bool:
    """Return whether an alias is listed; a DeltaCAT catalog can have one that only a name mapping records."""
    return any(one.name == alias.name for one in list_aliases(reading))


def list_aliases(reading: _Reader, target: Named | None = None) -> Iterator[AliasEntry]:
    """Yield all aliases, or those of one namespace or table, in order of their names."""
    for _, value in reading.children(Kind.ALIAS, None):
        if isinstance(value, AliasEntry) and target in (None, value.target_locator):
            yield value


def locate_namespace(reading: _Reader, locator: NamespaceLocator) -> tuple[NamespaceLocator, NamespaceEntry | None]:
    """Return the namespace that a name or alias names, with its own name; None if there is none."""
    found = reading.get(locator)
    if not isinstance(found, NamespaceEntry):
        alias = find_alias(reading, locator)
        if alias is not None and isinstance(alias.target_locator, NamespaceLocator):
            locator, found = alias.target_locator, reading.get(alias.target_locator)
    return locator, found if isinstance(found, NamespaceEntry) else None


def locate_parent(reading: _Reader, locator: InNamespace) -> InNamespace:
    """Return the locator with the own name of its namespace in place of an alias."""
    parent, _ = locate_namespace(reading, locator.parent)
    return locator if parent.name == locator.namespace else replace(locator, namespace=parent.name)


def locate_table(reading: _Reader, locator: TableLocator) -> tuple[TableLocator, TableEntry | None]:
    """Return the table that a name or alias names, with its own name; None if there is none."""
    found = reading.get(locator)
    if isinstance(found, TableEntry):
        return locator, found
    locator = locate_parent(reading, locator)
    alias = find_alias(reading, locator)
    if alias is not None and isinstance(alias.target_locator, TableLocator):
        locator = alias.target_locator
    found = reading.get(locator)
    return locator, found if isinstance(found, TableEntry) else None


def locate_view(reading: _Reader, locator: ViewLocator) -> tuple[ViewLocator, ViewEntry | None]:
    """Return the view that a name names, possibly by an alias of its namespace; None if there is none."""
    found = reading.get(locator)
    if not isinstance(found, ViewEntry):
        locator = locate_parent(reading, locator)
        found = reading.get(locator)
    return locator, found if isinstance(found, ViewEntry) else None


def rename_in_aliases(workspace: Workspace, rename: Callable[[Named], Named]) -> None:
    """Rewrite the aliases whose name or target `rename` changes."""
    workspace.guard(ObjectRange(Kind.ALIAS, None))
    for alias in list(list_aliases(workspace)):
        old = AliasLocator(alias.name)
        new = AliasLocator(rename(old.named).canonical)
        renamed = replace(alias, name=new.name, target=rename(alias.target_locator).canonical)
        if renamed != alias:
            if new != old:
                workspace.delete(old)
            workspace.put(new, renamed)


def drop_aliases(workspace: Workspace, is_dropped: Callable[[AliasEntry], bool]) -> None:
    """Drop the aliases for which `is_dropped` holds."""
    workspace.guard(ObjectRange(Kind.ALIAS, None))
    for alias in list(list_aliases(workspace)):
        if is_dropped(alias):
            workspace.delete(AliasLocator(alias.name))
