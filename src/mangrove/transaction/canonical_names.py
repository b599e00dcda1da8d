"""Resolution of canonical strings to objects, and of locators to canonical strings."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.metastore import MetastoreSnapshot
from mangrove.model.canonical import CanonicalName, format_partition_values, parse_canonical, parse_object_name
from mangrove.model.locators import (
    AliasLocator,
    DeltaLocator,
    Kind,
    Locator,
    NamespaceLocator,
    PartitionLocator,
    SharedTransactionLocator,
    StreamLocator,
    TableLocator,
    TableVersionLocator,
    ViewLocator,
)
from mangrove.model.objects import Object, Partition, Stream, ViewEntry
from mangrove.transaction.aliases import locate_table, locate_view
from mangrove.transaction.catalog import CatalogReader, find_namespace, find_table
from mangrove.transaction.deltas import TableTarget, build_table_target, find_table_by_id, parse_table_target
from mangrove.transaction.workspace import Workspace

__all__ = ["ResolvedObject", "list_children", "resolve_locator", "resolve_name", "resolve_target", "resolve_text"]

_BAR: Final = "|"
_PART_WORDS: Final = {
    "version": "table version", "stream_id": "stream", "partition_id": "partition", "position": "delta"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ResolvedObject:
    """An object with its canonical string, by current names, and its locator, by ids that never change."""

    name: CanonicalName
    locator: Locator
    value: Object

    @property
    def canonical(self) -> str:
        """The canonical string."""
        return str(self.name)

    @property
    def kind(self) -> Kind:
        """The kind of the object."""
        return self.locator.kind


def resolve_text(reading: CatalogReader, text: str) -> ResolvedObject:
    """Return the object with a canonical string or a dotted name.

    A text that is no dotted name of an object can be the canonical string of a namespace whose name contains dots.
    """
    try:
        return resolve_name(reading, parse_object_name(text))
    except (InvalidInputError, NotFoundError):
        if not isinstance(text, str) or _BAR in text or reading.get(NamespaceLocator(text)) is None:
            raise
        return resolve_name(reading, CanonicalName(text))


def resolve_target(
    reading: CatalogReader,
    name: str | Locator,
    version: int | None = None,
    stream_id: str | None = None,
    partition_id: str | None = None,
    position: int | None = None,
) -> TableTarget:
    """Return what a name or locator opens: a table, or a table version, stream, partition or delta of one.

    The other arguments choose a part of the table where the name does not.
    """
    target = _resolve_target(reading, name)
    given = replace(
        target,
        version=target.version if version is None else version,
        stream_id=target.stream_id if stream_id is None else stream_id,
        partition_id=target.partition_id if partition_id is None else partition_id,
        position=target.position if position is None else position,
    )
    for part, word in _PART_WORDS.items():
        named, chosen = getattr(target, part), getattr(given, part)
        if named not in (None, chosen):
            raise InvalidInputError(f"{name!r} names {word} {named}, but {part} is {chosen!r}; give one")
    return given


def _resolve_target(reading: CatalogReader, name: str | Locator) -> TableTarget:
    if isinstance(name, TableLocator):
        return TableTarget(name)
    if isinstance(name, str) and _BAR in name:
        resolved = resolve_name(reading, parse_canonical(name))
    elif isinstance(name, Locator):
        resolved = resolve_locator(reading, name)
    else:
        return parse_table_target(name)
    if resolved.kind in (Kind.NAMESPACE, Kind.VIEW):
        raise InvalidInputError(
            f"{resolved.name} is a {resolved.kind.word}; expected a table, table version, stream, partition or delta"
        )
    return build_table_target(resolved.name)


def resolve_name(reading: CatalogReader, name: CanonicalName) -> ResolvedObject:
    """Return the object with a canonical name; aliases are followed.

    Raise `NotFoundError` if it does not exist, or has another format or other values.
    """
    if name.table is None:
        namespace, entry = find_namespace(reading, NamespaceLocator(name.namespace))
        return ResolvedObject(CanonicalName(namespace.name), namespace, entry)
    locator = TableLocator(name.namespace, name.table)
    if name.kind is Kind.TABLE and locate_table(reading, locator)[1] is None:
        view, found = locate_view(reading, ViewLocator(name.namespace, name.table))
        if isinstance(found, ViewEntry):
            return ResolvedObject(CanonicalName(view.namespace, view.name), view, found)
    own, table = find_table(reading, locator)
    name = replace(name, namespace=own.namespace, table=own.name)
    if name.kind is Kind.TABLE:
        return ResolvedObject(name, own, table)
    return _resolve_below(reading, name, table.namespace_id, table.id)


def _resolve_below(reading: CatalogReader, name: CanonicalName, namespace_id: str, table_id: str) -> ResolvedObject:
    assert name.version is not None
    locator: TableVersionLocator | StreamLocator | PartitionLocator | DeltaLocator
    locator = TableVersionLocator(namespace_id, table_id, name.version)
    if name.stream_id is not None:
        locator = StreamLocator(namespace_id, table_id, name.version, name.stream_id)
        stream = _load(reading, locator, name)
        if isinstance(stream, Stream) and stream.format != name.stream_format:
            raise NotFoundError(f"{name} does not exist: the stream has the format {stream.format!r}")
    if name.stream_id is not None and name.partition_id is not None:
        locator = PartitionLocator(namespace_id, table_id, name.version, name.stream_id, name.partition_id)
        partition = _load(reading, locator, name)
        assert isinstance(partition, Partition)
        assert name.partition_values is not None
        values = format_partition_values(partition.values)
        if values != format_partition_values(name.partition_values):
            raise NotFoundError(f"{name} does not exist: the partition has the values {values}")
        if name.position is not None:
            locator = DeltaLocator(
                namespace_id, table_id, name.version, name.stream_id, name.partition_id, name.position
            )
    return ResolvedObject(name, locator, _load(reading, locator, name))


def _load(reading: CatalogReader, locator: Locator, name: CanonicalName) -> Object:
    value = reading.get(locator)
    if value is None:
        raise NotFoundError(f"{locator.kind.word} {name} does not exist")
    return value


def list_children(reading: CatalogReader, parent: ResolvedObject) -> Iterator[CanonicalName]:
    """Yield the names of the streams of a table version, the partitions of a stream or the deltas of a partition."""
    match parent.locator:
        case TableVersionLocator() as locator:
            children = reading.children(Kind.STREAM, locator)
        case StreamLocator() as locator:
            children = reading.children(Kind.PARTITION, locator)
        case PartitionLocator() as locator:
            children = reading.children(Kind.DELTA, locator)
        case _:
            return
    for child, value in children:
        match child, value:
            case _, Stream(id=stream_id, format=stream_format):
                yield replace(parent.name, stream_id=stream_id, stream_format=stream_format)
            case _, Partition(id=partition_id, values=values):
                yield replace(parent.name, partition_id=partition_id, partition_values=values)
            case DeltaLocator(position=position), _:
                yield replace(parent.name, position=position)


def resolve_locator(reading: CatalogReader, locator: Locator) -> ResolvedObject:
    """Return the object at a locator; the name of a table below which it is takes a search of all tables."""
    match locator:
        case NamespaceLocator():
            return resolve_name(reading, CanonicalName(locator.name))
        case TableLocator() | ViewLocator():
            return resolve_name(reading, CanonicalName(locator.namespace, locator.name))
        case AliasLocator():
            return resolve_locator(reading, locator.named)
        case SharedTransactionLocator():
            raise InvalidInputError(f"shared transaction {locator} has no canonical string")
    snapshot: MetastoreSnapshot = reading.snapshot if isinstance(reading, Workspace) else reading
    table = find_table_by_id(snapshot, locator.table_id)
    if table is None:
        raise NotFoundError(f"there is no table with the id {locator.table_id}")
    name = CanonicalName(table.namespace, table.name, locator.version)
    if isinstance(locator, StreamLocator | PartitionLocator | DeltaLocator):
        above = StreamLocator(locator.namespace_id, locator.table_id, locator.version, locator.stream_id)
        stream = _load(reading, above, name)
        assert isinstance(stream, Stream)
        name = replace(name, stream_id=stream.id, stream_format=stream.format)
    if isinstance(locator, PartitionLocator | DeltaLocator):
        partition = _load(reading, locator if isinstance(locator, PartitionLocator) else locator.parent, name)
        assert isinstance(partition, Partition)
        name = replace(name, partition_id=partition.id, partition_values=partition.values)
    if isinstance(locator, DeltaLocator):
        name = replace(name, position=locator.position)
    return ResolvedObject(name, locator, _load(reading, locator, name))
