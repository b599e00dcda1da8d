"""The way from a lakehouse to SQL, which lies in a layer above and is handed in with the engines."""

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from mangrove.errors import InvalidInputError

if TYPE_CHECKING:
    # They call this module.
    from mangrove.lakehouse.lakehouse import Lakehouse
    from mangrove.lakehouse.transactions import LakeTransaction

__all__ = ["RunsSql", "rows_of_sql"]


@runtime_checkable
class RunsSql(Protocol):
    """Engines that also understand SQL."""

    def sql(self, lake: "Lakehouse", transaction: "LakeTransaction | None", text: str, arguments: Any) -> Any:
        """Run the statements of a text, and return the rows of the last one."""
        ...


def rows_of_sql(
    engines: object, lake: "Lakehouse | None", transaction: "LakeTransaction | None", text: str, arguments: Any
) -> Any:
    """Run SQL where the engines understand it, and say what to do where they do not."""
    if lake is None or not isinstance(engines, RunsSql):
        raise InvalidInputError("SQL needs Spark: open the lakehouse with mangrove.open or mangrove.create")
    return engines.sql(lake, transaction, text, arguments)
