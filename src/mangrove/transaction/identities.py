"""Finding a table by its id, which stays when people give it another name."""

from mangrove.errors import NotFoundError
from mangrove.metastore import Snapshot
from mangrove.model.locators import Kind, NamespaceLocator, TableLocator
from mangrove.model.names import split_name
from mangrove.model.objects import Table
from mangrove.transaction.names import Reading, table_names
from mangrove.transaction.tables import identity_of
from mangrove.transaction.workspace import Workspace

__all__ = ["located", "named"]


def located(reading: Reading, known: Table, last: TableLocator) -> TableLocator:
    """Return under which name a version has a table that was `last` seen under another, perhaps the same.

    The name is asked first, which is one look-up; a search through all tables is for
    those that were renamed.
    """
    there = reading.get(last)
    if isinstance(there, Table) and there.id == known.id:
        return last
    snapshot: Snapshot = reading.snapshot if isinstance(reading, Workspace) else reading
    name = table_names({identity_of(known)}, snapshot).get(identity_of(known))
    if name is None:
        raise NotFoundError(
            f"{last} (id {known.id}) is not in version {snapshot.version}: it was dropped, or was not there yet"
        )
    return TableLocator(*split_name(name))


def named(snapshot: Snapshot, table_id: str) -> TableLocator | None:
    """Return under which name a version has the table with an id; nothing leads there, so tables are looked through."""
    for space, _ in snapshot.children(Kind.NAMESPACE, None):
        assert isinstance(space, NamespaceLocator)
        for locator, table in snapshot.children(Kind.TABLE, space):
            if isinstance(locator, TableLocator) and isinstance(table, Table) and table.id == table_id:
                return locator
    return None
