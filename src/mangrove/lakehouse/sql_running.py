"""The way from a lakehouse to SQL, which lies in a layer above and is handed in with the engines."""

from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from mangrove.errors import InvalidInputError

if TYPE_CHECKING:
    # They call this module.
    from mangrove.lakehouse.lakehouse import Lakehouse
    from mangrove.lakehouse.transactions import LakeTransaction

__all__ = ["SPARK", "RunsSql", "names_read", "rows_of_sql"]

SPARK: Final = "spark"
"""The dialect of views that is understood here."""


@runtime_checkable
class RunsSql(Protocol):
    """Engines that also understand SQL."""

    def sql(self, lake: "Lakehouse", transaction: "LakeTransaction | None", text: str, arguments: Any) -> Any:
        """Run the statements of a text, and return the rows of the last one."""
        ...

    def names_read(self, text: str, namespace: str) -> tuple[str, ...]:
        """Return the tables and views that a query names; bare names are in the namespace."""
        ...


def rows_of_sql(
    engines: object, lake: "Lakehouse | None", transaction: "LakeTransaction | None", text: str, arguments: Any
) -> Any:
    """Run SQL where the engines understand it, and say what to do where they do not."""
    if lake is None or not isinstance(engines, RunsSql):
        raise InvalidInputError("SQL needs Spark: open the lakehouse with mangrove.open or mangrove.create")
    return engines.sql(lake, transaction, text, arguments)


def names_read(engines: object, text: str, dialect: str, namespace: str) -> tuple[str, ...]:
    """Return what a query names where the engines understand it, else nothing."""
    if dialect != SPARK or not isinstance(text, str) or not isinstance(engines, RunsSql):
        return ()
    return engines.names_read(text, namespace)
