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
from mangrove.sql.needed_columns import NamesOf, NeededColumns, all_names
from mangrove.sql.scopes import Columns
from mangrove.tables.table_state import TableState

__all__ = ["Found", "Lookups", "Wanted"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a query needs of one table or view: which rows, and which columns. Without words, all of them."""

    rows: Demand = ()
    columns: NamesOf = all_names
    """Found out only where it is asked for: Spark's own reader needs no such list."""


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
        is_prunable = self.read.parsed.is_prunable
        return Demands(self._columns_of).scopes.columns(self.read.parsed.tree) if is_prunable else None

    def wanted(self, above: Wanted) -> Callable[[Mention], Wanted]:
        """Return what tells of each mention what is needed there, if `above` is what is needed of the text."""
        parsed = self.read.parsed
        # Behind a pipe, other rows may come than those of which something is asked here.
        demands = Demands(self._columns_of, above.rows if parsed.is_prunable else ())
        needed = NeededColumns(self.read, above.columns)

        def of(mention: Mention) -> Wanted:
            table = parsed.asked.get(mention.start)
            return Wanted() if table is None else Wanted(demands.on_table(table), lambda: needed.of_table(table))

        return of

    @cached_property
    def _places(self) -> dict[int, int]:
        return {id(table): place for place, table in self.read.parsed.asked.items()}

    def _columns_of(self, table: exp.Table) -> Columns | None:
        found = self.found.get(self._places.get(id(table), -1))
        if found is None:
            return None
        if isinstance(found.value, View):
            return self.inside(found).columns
        return None if found.state is None else [(one.name, one.type) for one in found.state.schema.columns]
