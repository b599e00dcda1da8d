"""Objects with fresh ids, and the commits that put them, for tests of metastores."""

import uuid
from collections.abc import Mapping
from typing import Any

from mangrove.metastore import Changes, Committed, Isolation, Metastore, Snapshot
from mangrove.model.locators import DeltaLocator, Kind, Locator, NamespaceLocator, PartitionLocator, TableLocator
from mangrove.model.objects import Delta, DeltaType, Namespace, Object, Table

__all__ = ["PARTITION", "delta_at", "delta_locator", "fresh_id", "names_of", "namespace", "put", "table"]


def fresh_id() -> str:
    """Return an id that nobody has."""
    return str(uuid.uuid4())  # noqa: TID251 - what is tested is not the ids


def namespace(name: str, **fields: Any) -> tuple[NamespaceLocator, Namespace]:
    """Return a namespace with a fresh id and the way to it."""
    return NamespaceLocator(name), Namespace(fresh_id(), name, **fields)


def table(where: str, name: str, namespace_id: str = "home", **fields: Any) -> tuple[TableLocator, Table]:
    """Return a table with a fresh id and the way to it."""
    return TableLocator(where, name), Table(fresh_id(), namespace_id, name, **fields)


def delta_at(partition: PartitionLocator, position: int, **properties: str) -> tuple[DeltaLocator, Delta]:
    """Return an append at a position of a partition."""
    return delta_locator(partition, position), Delta(DeltaType.APPEND, properties=properties)


def delta_locator(below: PartitionLocator, position: int) -> DeltaLocator:
    """Return the way to a position of a partition."""
    return DeltaLocator(
        below.namespace_id, below.table_id, below.version, below.stream_id, below.partition_id, position
    )


def put(
    metastore: Metastore,
    base: Snapshot,
    *objects: tuple[Locator, Object],
    isolation: Isolation = Isolation.SNAPSHOT,
    **fields: Any,
) -> Committed:
    """Commit objects on `base`, and whatever else the changes are given."""
    puts: Mapping[Locator, Object] = dict(objects)
    return metastore.commit(base, Changes(fresh_id(), puts=puts, **fields), isolation)


def names_of(snapshot: Snapshot, where: str, **fields: Any) -> list[str]:
    """Return the names of the tables in a namespace."""
    return [str(way.parts[-1]) for way, _ in snapshot.children(Kind.TABLE, NamespaceLocator(where), **fields)]


PARTITION = PartitionLocator("home", "table-id", 1, "stream-id", "partition-id")
