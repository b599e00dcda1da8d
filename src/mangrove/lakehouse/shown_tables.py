"""The way from a table to Iceberg's engines, which lies in a layer above and is handed in with the engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.table_staging import table_state
from mangrove.transaction.workspace import Workspace

if TYPE_CHECKING:
    from mangrove.model.locators import TableLocator
    from mangrove.tables.table_state import TableState
    from mangrove.transaction.names import Reading

__all__ = ["ShowsIceberg", "iceberg_address"]


@runtime_checkable
class ShowsIceberg(Protocol):
    """Engines that also show tables to Iceberg."""

    def iceberg_address(self, state: TableState, at_millis: int) -> str:
        """Write what is missing to show a state, which was committed then, and return where its metadata lies."""
        ...


def iceberg_address(engines: object, reading: Reading, locator: TableLocator) -> str:
    """Return where the metadata lies that shows a table, and say what to do where it cannot be shown."""
    if isinstance(reading, Workspace):
        raise InvalidInputError(
            f"{locator} is shown to Iceberg as it was committed, and this transaction has yet to end: commit it, "
            "and ask the lakehouse itself"
        )
    if not isinstance(engines, ShowsIceberg):
        raise InvalidInputError(
            f"{locator} cannot be shown to Iceberg: open the lakehouse with mangrove.open or mangrove.create"
        )
    return engines.iceberg_address(table_state(reading, locator), reading.commit.created_at_millis)
