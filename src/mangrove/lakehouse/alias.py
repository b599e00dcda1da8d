"""Aliases as users see them, and the arguments that name namespaces and tables."""

from dataclasses import dataclass

from mangrove.lakehouse.arguments import parse_namespace_argument, parse_table_argument
from mangrove.model.locators import AliasLocator, Kind, NamespaceLocator, TableLocator
from mangrove.model.names import split_name
from mangrove.model.objects import AliasEntry
from mangrove.transaction.aliases import Named

__all__ = ["Alias", "build_alias", "parse_named_argument"]


@dataclass(frozen=True, slots=True)
class Alias:
    """Alternative name of a namespace or table."""

    name: str
    """Dotted name of the alias."""
    target: str
    """Current dotted name of the namespace or table."""
    kind: Kind
    target_id: str

    def __str__(self) -> str:
        return f"{self.name} → {self.target}"


def build_alias(entry: AliasEntry) -> Alias:
    """Build the public value of an alias from its catalog entry."""
    target = entry.target_locator
    return Alias(str(AliasLocator(entry.name)), str(target), target.kind, entry.target_id)


def parse_named_argument(name: str | Named) -> Named:
    """Parse a dotted name or canonical string of a namespace or table."""
    if isinstance(name, NamespaceLocator | TableLocator):
        return name
    is_table = isinstance(name, str) and ("|" in name or len(split_name(name)) > 1)
    return parse_table_argument(name) if is_table else parse_namespace_argument(name)
