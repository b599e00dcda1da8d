"""Resolution of canonical strings to objects, and of locators to canonical strings."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.metastore import BelowTable
from mangrove.model.canonical import (
    CanonicalName,
    LocatorById,
    build_locator,
    is_named_by_ids,
    parse_canonical,
    parse_locator,
    parse_object_name,
)
from mangrove.model.json_codec import format_partition_values
from mangrove.model.locators import (
    AliasLocator,
    DeltaLocator,
    Kind,
    Locator,
    NamespaceLocator,
    PartitionLocator,
    SharedTransactionLocator,
    StreamLocator,
    TableIdentity,
    TableLocator,
    TableVersionLocator,
    ViewLocator,
)
from mangrove.model.objects import Object, Partition, Stream, ViewEntry
from mangrove.transaction.aliases import locate_table, locate_view
from mangrove.transaction.catalog import CatalogReader, find_namespace, find_table, find_table_by_id, identity_of
from mangrove.transaction.deltas import TableTarget, build_table_target, parse_table_target

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
    """Return the object with a canonical string, a dotted name or the string of a locator.

    A text that is no dotted name of an object can be the canonical string of a namespace whose name contains dots.
    """
    if is_named_by_ids(text):
        return resolve_locator(reading, parse_locator(text))
    try:
        return resolve_name(reading, parse_object_name(text))
    except (InvalidInputError, NotFoundError):
        if not isinstance(text, str) or _BAR in text or reading.get(NamespaceLocator(text)) is None:
            raise
        return resolve_name(reading, CanonicalName(text))


def resolve_target(
    reading: CatalogReader,
    name: str | Locator | TableIdentity,
    version: int | None = None,
    stream_id: str | None = None,
    partition_id: str | None = None,
    position: int | None = None,
) -> TableTarget:
    """Return what a name or locator opens: a table, or a table version, stream, partition or delta of one.

    A target that ids name follows its table through renames. The other arguments choose a
    part of the table where the name does not.
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


def _resolve_target(reading: CatalogReader, name: str | Locator | TableIdentity) -> TableTarget:
    if isinstance(name, TableLocator):
        return TableTarget(name)
    if isinstance(name, str) and is_named_by_ids(name):
        name = parse_locator(name)
    if isinstance(name, LocatorById):
        return replace(build_table_target(resolve_locator(reading, name).name), table_id=name.table_id)
    given = parse_canonical(name) if isinstance(name, str) and _BAR in name else None
    if given is not None:
        resolved = resolve_name(reading, given)
    elif isinstance(name, Locator):
        resolved = resolve_locator(reading, name)
    else:
        return parse_table_target(name)
    if resolved.kind in (Kind.NAMESPACE, Kind.VIEW):
        raise InvalidInputError(
            f"{resolved.name} is a {resolved.kind.word}; expected a table, table version, stream, partition or delta"
        )
    target = build_table_target(resolved.name)
    return target if given is None else replace(target, locator=build_table_target(given).locator)


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
    if name.kind is Kind.TABLE:
        return ResolvedObject(CanonicalName(own.namespace, own.name), own, table)
    requested = build_locator(identity_of(table), *name.parts[2:])
    return _resolve_below(reading, own, requested, replace(name, namespace=own.namespace, table=own.name))


def resolve_locator(reading: CatalogReader, locator: Locator | TableIdentity) -> ResolvedObject:
    """Return the object at a locator; the name of a table below which it is takes a search of all tables.

    Raise `NotFoundError` if it does not exist, or has another format or other values than
    the locator. A table that a layout moved to another namespace is found by its id alone.
    """
    match locator:
        case NamespaceLocator():
            return resolve_name(reading, CanonicalName(locator.name))
        case TableLocator() | ViewLocator():
            return resolve_name(reading, CanonicalName(locator.namespace, locator.name))
        case AliasLocator():
            return resolve_locator(reading, locator.named)
        case SharedTransactionLocator():
            raise InvalidInputError(f"shared transaction {locator} has no canonical string")
    own, table = find_table_by_id(reading, locator.table_id)
    if isinstance(locator, TableIdentity):
        return ResolvedObject(CanonicalName(own.namespace, own.name), own, table)
    return _resolve_below(reading, own, replace(locator, namespace_id=table.namespace_id), locator)


def _resolve_below(
    reading: CatalogReader, table: TableLocator, locator: BelowTable | DeltaLocator, given: object
) -> ResolvedObject:
    """Return an object below a table with its complete name and locator; errors name it as it was `given`."""

    def load(one: Locator) -> Object:
        value = reading.get(one)
        if value is None:
            what = f"{locator.kind.word} {given} does not exist"
            above = f": its {one.kind.word} {one.parts[-1]} does not exist"
            raise NotFoundError(what if one.kind is locator.kind else what + above)
        return value

    name = CanonicalName(table.namespace, table.name, locator.version)
    if not isinstance(locator, TableVersionLocator):
        load(TableVersionLocator(locator.namespace_id, locator.table_id, locator.version))
        stream = load(StreamLocator(locator.namespace_id, locator.table_id, locator.version, locator.stream_id))
        assert isinstance(stream, Stream)
        if locator.format not in (None, stream.format):
            raise NotFoundError(f"{given} does not exist: the stream has the format {stream.format!r}")
        locator = replace(locator, format=stream.format)
        name = replace(name, stream_id=stream.id, stream_format=stream.format)
    if isinstance(locator, PartitionLocator | DeltaLocator):
        partition = load(locator if isinstance(locator, PartitionLocator) else locator.parent)
        assert isinstance(partition, Partition)
        values = format_partition_values(partition.values)
        if locator.partition_values is not None and values != format_partition_values(locator.partition_values):
            raise NotFoundError(f"{given} does not exist: the partition has the values {values}")
        locator = replace(locator, partition_values=partition.values)
        name = replace(name, partition_id=partition.id, partition_values=partition.values)
    if isinstance(locator, DeltaLocator):
        name = replace(name, position=locator.position)
    return ResolvedObject(name, locator, load(locator))


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
