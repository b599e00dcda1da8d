"""What one statement is given and sees: its text, a catalog with its past, and where bare names are looked up."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.catalog import Catalog
from mangrove.model.locators import NamespaceLocator, TableLocator, ViewLocator
from mangrove.spark.statements import Arguments
from mangrove.sql.cursor import SqlName
from mangrove.transaction.history import HistoryLine

__all__ = ["Sight", "Source"]

_SUMMARY_MAX: Final = 120


@dataclass(frozen=True, slots=True)
class Source:
    """A statement as it was given: the script up to its end, where in that it begins, and its arguments."""

    text: str
    start: int
    arguments: Arguments = None

    @property
    def summary(self) -> str:
        """What the history says about it."""
        plain = " ".join(self.text[self.start :].split())
        return plain if len(plain) <= _SUMMARY_MAX else plain[: _SUMMARY_MAX - 1] + "…"


@dataclass(frozen=True, slots=True)
class Sight:
    """One version, or a transaction with its own writes; all tables of a statement are read from it."""

    catalog: Catalog
    at: Callable[[int | str], Catalog]
    history: Callable[[], Iterator[HistoryLine]]
    namespace: str
    table_history: Callable[[TableLocator], Iterator[HistoryLine]]
    text: str = ""
    """What errors point into, where a statement names several things."""

    def pair(self, name: SqlName) -> tuple[str, str]:
        """Return the namespace and the name of a table or view."""
        if len(name.parts) > 2:
            raise InvalidInputError(
                f"{'.'.join(name.parts)} has {len(name.parts)} parts: write namespace.table, with backticks around a "
                "part that holds a dot"
            )
        return (self.namespace, name.parts[0]) if len(name.parts) == 1 else (name.parts[0], name.parts[1])

    def table(self, name: SqlName) -> TableLocator:
        """Return the table that is meant."""
        return TableLocator(*self.pair(name))

    def view(self, name: SqlName) -> ViewLocator:
        """Return the view that is meant."""
        return ViewLocator(*self.pair(name))

    def view_at(self, locator: TableLocator) -> ViewLocator:
        """Return the view of the same name."""
        return ViewLocator(locator.namespace, locator.name)

    def namespace_of(self, name: SqlName | None) -> NamespaceLocator:
        """Return the namespace that is meant; without a name, the current one."""
        if name is None:
            return NamespaceLocator(self.namespace)
        if len(name.parts) != 1:
            raise InvalidInputError(
                f"{'.'.join(name.parts)} has {len(name.parts)} parts: a namespace's name is one, with backticks if it "
                "holds a dot"
            )
        return NamespaceLocator(name.parts[0])
