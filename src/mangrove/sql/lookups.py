"""What the names in one text stand for, and what it asks of each of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from mangrove.lakehouse.catalog import Catalog
from mangrove.model.locators import TableLocator, ViewLocator
from mangrove.model.objects import Table, View
from mangrove.sql.demands import Demand, Demands
from mangrove.sql.mentions import Mention, ReadQuery
from mangrove.sql.scopes import Columns
from mangrove.tables.table_state import TableState

__all__ = ["Found", "Lookups"]


@dataclass(frozen=True, slots=True)
class Found:
    """What a name stands for, in the catalog of the moment that is asked for."""

    catalog: Catalog
    locator: TableLocator | ViewLocator
    value: Table | View
    moment: int | str | None = None
    state: TableState | None = None
    """That of a table whose files are in the lakehouse."""


@dataclass(frozen=True, eq=False)
class Lookups:
    """A text, and what its names stand for, by their places; names of others are not among them."""

    read: ReadQuery
    found: Mapping[int, Found]
    inside: Callable[[Found], "Lookups"]
    """Looks into a view."""

    @cached_property
    def columns(self) -> Columns | None:
        """The columns that the text gives, where they are certain."""
        return self.demands().scopes.columns(self.read.parsed.tree) if self.read.parsed.is_prunable else None

    def demands(self, above: Demand = ()) -> Demands:
        """Return what the text asks of its tables, if that is what is asked of it."""
        return Demands(self._columns_of, above)

    def demand_on(self, demands: Demands, mention: Mention) -> Demand:
        """Return what is asked of the rows of what a mention names."""
        table = self.read.parsed.tables.get(mention.start)
        return () if table is None or not self.read.parsed.is_prunable else demands.on_table(table)

    @cached_property
    def _places(self) -> dict[int, int]:
        return {id(table): place for place, table in self.read.parsed.tables.items()}

    def _columns_of(self, table: exp.Table) -> Columns | None:
        found = self.found.get(self._places.get(id(table), -1))
        if found is None:
            return None
        if isinstance(found.value, View):
            return self.inside(found).columns
        return None if found.state is None else [(one.name, one.type) for one in found.state.schema.columns]
