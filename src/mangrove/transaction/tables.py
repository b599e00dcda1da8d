"""Statements on tables as entries of the catalog: create, alter, rename, drop."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from mangrove.metastore import Scan
from mangrove.model.locators import (
    Kind,
    Locator,
    PartitionLocator,
    StreamLocator,
    TableIdentity,
    TableLocator,
    TableVersionLocator,
)
from mangrove.model.objects import Stream, Table, TableType, TableVersion
from mangrove.model.properties import NO_PROPERTIES
from mangrove.model.schema import check_new_columns
from mangrove.transaction.entries import alter_entry, rename_entry
from mangrove.transaction.names import Reading, check_free, found_table
from mangrove.transaction.workspace import Workspace

__all__ = [
    "NewTable",
    "alter_table",
    "check_new_table",
    "create_table",
    "drop_table",
    "identity_of",
    "objects_below",
    "rename_table",
]


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table that is to be made: a managed one comes with its first table version and the stream of its rows."""

    table: Table
    table_version: TableVersion | None = None
    stream: Stream | None = None


def identity_of(table: Table) -> TableIdentity:
    """Return what all below the table is found by."""
    return TableIdentity(table.namespace_id, table.id)


def check_new_table(workspace: Workspace, locator: TableLocator, new: NewTable) -> None:
    """Refuse a table whose name is taken, or whose names or number of columns are not allowed in a new table."""
    check_free(workspace, locator)
    check_new_columns(new.table.schema if new.table_version is None else new.table_version.schema)


def create_table(workspace: Workspace, locator: TableLocator, new: NewTable) -> None:
    """Make a table."""
    check_new_table(workspace, locator, new)
    workspace.put(locator, new.table)
    if new.table_version is not None:
        version = TableVersionLocator(new.table.namespace_id, new.table.id, new.table_version.version)
        workspace.put(version, new.table_version)
        if new.stream is not None:
            workspace.put(StreamLocator(*_ids(version), new.stream.id), new.stream)


def alter_table(
    workspace: Workspace,
    locator: TableLocator,
    *,
    put: Mapping[str, str] = NO_PROPERTIES,
    removed: Iterable[str] = (),
    description: str | None = None,
) -> None:
    """Put or remove properties, or describe the table anew."""
    alter_entry(workspace, locator, found_table(workspace, locator), put, removed, description)


def rename_table(workspace: Workspace, old: TableLocator, new: TableLocator) -> None:
    """Give a table another name, in the same namespace or in another; nothing below it is touched."""
    rename_entry(workspace, old, new, found_table(workspace, old))


def drop_table(workspace: Workspace, locator: TableLocator) -> None:
    """Drop a table. Of one whose data others keep, only the entry goes.

    Whatever others add below it meanwhile stops the drop: nobody loses rows that
    nobody has seen.
    """
    table = found_table(workspace, locator)
    workspace.delete(locator)
    if table.table_type is not TableType.MANAGED:
        return
    workspace.guard(Scan(Kind.TABLE_VERSION, identity_of(table)))
    for below in list(objects_below(workspace, identity_of(table))):
        following = _KIND_BELOW.get(below.kind)
        if following is not None:
            assert isinstance(below, TableVersionLocator | StreamLocator | PartitionLocator)
            workspace.guard(Scan(following, below))
        workspace.delete(below)


_KIND_BELOW = {Kind.TABLE_VERSION: Kind.STREAM, Kind.STREAM: Kind.PARTITION, Kind.PARTITION: Kind.DELTA}


def objects_below(reading: Reading, identity: TableIdentity) -> Iterator[Locator]:
    """Yield all that lies below a table: table versions, streams, partitions, deltas."""
    found = [locator for locator, _ in reading.children(Kind.TABLE_VERSION, identity)]
    yield from found
    for kind in (Kind.STREAM, Kind.PARTITION, Kind.DELTA):
        parents = [
            locator for locator in found if isinstance(locator, TableVersionLocator | StreamLocator | PartitionLocator)
        ]
        found = [locator for locator, _ in reading.children_of(kind, parents)]
        yield from found


def _ids(version: TableVersionLocator) -> tuple[str, str, int]:
    return version.namespace_id, version.table_id, version.version
