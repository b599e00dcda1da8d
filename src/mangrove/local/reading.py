"""Reading a table's rows in this process; what only reads imports nothing of what writes."""

from collections.abc import Sequence

import pyarrow as pa

from mangrove.local.parquet import count_rows
from mangrove.local.scanning import chosen_columns, scanned
from mangrove.model.manifests import DataFile
from mangrove.storage.port import Store
from mangrove.tables.predicate_text import bound_predicate
from mangrove.tables.predicates import Predicate
from mangrove.tables.scan_plan import plan_scan
from mangrove.tables.table_state import TableState

__all__ = ["LocalReader"]


class LocalReader:
    """Arrow in this process, looking at the files of one lakehouse."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(
        self, state: TableState, columns: Sequence[str] | None = None, where: str | Predicate | None = None
    ) -> pa.Table:
        """Return the rows of a table, or those that `where` means, with all columns or some."""
        predicate = bound_predicate(where, state.schema)
        plan = plan_scan(state, predicate)
        return scanned(self._store, state, plan, chosen_columns(state, columns), predicate)

    def count_rows(self, store: Store, file: DataFile) -> int:
        """Return how many rows a data file really has, having read all of them."""
        return count_rows(store, file)
