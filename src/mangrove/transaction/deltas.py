"""Lookup and staging of the partitions and deltas of a table."""

import decimal
import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from mangrove.errors import FormatError, InvalidInputError, NotFoundError
from mangrove.metastore import RowRange
from mangrove.model.canonical import CanonicalName, parse_canonical
from mangrove.model.json_codec import value_to_json
from mangrove.model.locators import (
    DeltaLocator,
    Kind,
    PartitionLocator,
    StreamLocator,
    TableLocator,
    TableVersionLocator,
    parse_table_name,
)
from mangrove.model.manifests import DataFile, FileKind
from mangrove.model.names import join_name, split_name
from mangrove.model.objects import (
    NAMED_PARTITIONS,
    Delta,
    DeltaType,
    Partition,
    Stream,
    StreamState,
    TableEntry,
    TableType,
    TableVersion,
    TableVersionState,
)
from mangrove.model.partitioning import PartitionField, PartitionScheme
from mangrove.model.schema import check_new_columns
from mangrove.model.schema_text import format_type
from mangrove.model.types import DataType, Decimal
from mangrove.model.values import Value, is_value_of_type, normalize_values
from mangrove.rebase import REWRITTEN_BY
from mangrove.transaction.catalog import CatalogReader, find_table, find_table_by_id, identity_of
from mangrove.transaction.workspace import Workspace

__all__ = [
    "REWRITING_TYPES",
    "REWRITTEN_BY",
    "VERSION_PREFIX",
    "OpenTable",
    "TableTarget",
    "add_delta",
    "add_deltas",
    "build_no_version_error",
    "build_partition_locator",
    "build_table_target",
    "check_writable",
    "find_target_table",
    "is_default_version",
    "load_partitions",
    "locate_partitions",
    "locate_target",
    "open_table",
    "parse_table_target",
    "parse_version_part",
    "partition_id_of",
    "put_table_version",
    "scan_deltas",
    "scan_deltas_of_partitions",
    "scan_partitions",
    "split_version",
    "validate_partition_values",
]


_DELTACAT_AUTHOR = "DELTACAT"
"""The format of a table created by DeltaCAT."""
REWRITING_TYPES = frozenset({DeltaType.REPLACE, DeltaType.POSITION_DELETE})
"""The delta types that rewrite their partition, so that two concurrent ones conflict."""


@dataclass(frozen=True, slots=True)
class TableTarget:
    """Target of a read or write: the default version of a table, or a chosen table version or stream of it.

    A target of a read can also be a partition of a stream, or the delta of a partition at a position.
    """

    locator: TableLocator
    version: int | None = None
    stream_id: str | None = None
    partition_id: str | None = None
    position: int | None = None
    table_id: str | None = None
    """The id of the table if the target follows it through renames; otherwise the name decides."""

    @property
    def kind(self) -> Kind:
        """The kind of the object: a table, or the smallest part of one that is chosen."""
        chosen = {
            Kind.DELTA: self.position, Kind.PARTITION: self.partition_id, Kind.STREAM: self.stream_id,
            Kind.TABLE_VERSION: self.version,
        }  # fmt: skip
        return next((kind for kind, one in chosen.items() if one is not None), Kind.TABLE)

    def __str__(self) -> str:
        version = "" if self.version is None else f".{VERSION_PREFIX}{self.version}"
        chosen = {"stream": self.stream_id, "partition": self.partition_id, "delta": self.position}
        part = ", ".join(f"{kind} {one}" for kind, one in chosen.items() if one is not None)
        return f"{self.locator}{version}{f' ({part})' if part else ''}"


VERSION_PREFIX: Final = "version_"
"""The last part of a name such as `shop.orders.version_2` starts with it."""
_VERSION_PART: Final = re.compile(rf"{VERSION_PREFIX}([1-9][0-9]{{0,17}})", re.IGNORECASE)
_NEVER_DEFAULT = frozenset({TableVersionState.UNRELEASED, TableVersionState.BETA})


def parse_version_part(part: str) -> int | None:
    """Return the table version number in the last part of a name, or None.

    >>> parse_version_part("version_2"), parse_version_part("version_two")
    (2, None)
    """
    match = _VERSION_PART.fullmatch(part)
    return None if match is None else int(match[1])


def split_version(parts: tuple[str, ...]) -> tuple[tuple[str, ...], int | None]:
    """Return the parts of a table's name, and the number of the table version that a third part names.

    >>> split_version(("shop", "orders", "version_2")), split_version(("shop", "version_2"))
    ((('shop', 'orders'), 2), (('shop', 'version_2'), None))
    """
    version = parse_version_part(parts[2]) if len(parts) == 3 else None
    return (parts, None) if version is None else (parts[:2], version)


def parse_table_target(text: str) -> TableTarget:
    """Parse a name such as `shop.orders` or `shop.orders.version_2`, or a canonical string such as `shop|orders|2`."""
    if isinstance(text, str) and "|" in text:
        return build_table_target(parse_canonical(text))
    parts, version = split_version(split_name(text))
    return TableTarget(parse_table_name(join_name(*parts)), version)


def build_table_target(name: CanonicalName) -> TableTarget:
    """Return what the canonical name of a table, table version, stream, partition or delta opens."""
    assert name.table is not None, "the canonical string of a namespace contains no bar"
    table = TableLocator(name.namespace, name.table)
    return TableTarget(table, name.version, name.stream_id, name.partition_id, name.position)


@dataclass(frozen=True, slots=True)
class OpenTable:
    """A managed table with the table version and stream that were opened, and their locators."""

    target: TableTarget
    table: TableEntry
    version_locator: TableVersionLocator
    version: TableVersion
    stream_locator: StreamLocator
    stream: Stream

    @property
    def locator(self) -> TableLocator:
        """The locator of the table."""
        return self.target.locator

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties of the table, replaced by those of the table version that a user set."""
        own = self.version.user_properties
        return {**self.table.properties, **own} if own else self.table.properties

    @property
    def partition_scheme(self) -> PartitionScheme:
        """The partition scheme of the stream."""
        return self.version.partition_scheme_with_id(self.stream.partition_scheme_id)

    def partition_locator(self, partition_id: str) -> PartitionLocator:
        """Return the locator of a partition of the stream."""
        stream = self.stream_locator
        return PartitionLocator(
            stream.namespace_id, stream.table_id, stream.version, stream.stream_id, partition_id, format=stream.format
        )


def find_target_table(reading: CatalogReader, target: TableTarget) -> tuple[TableLocator, TableEntry]:
    """Return the table of a target with its own name: the table with the id, or with the name if there is no id."""
    if target.table_id is None:
        return find_table(reading, target.locator)
    return find_table_by_id(reading, target.table_id, target.locator)


def locate_target(reading: CatalogReader, target: TableTarget) -> TableLocator:
    """Return the name of the table of a target: the given one, which can be an alias, or the current one of its id."""
    return target.locator if target.table_id is None else find_target_table(reading, target)[0]


def open_table(reading: CatalogReader, target: TableLocator | TableTarget) -> OpenTable:
    """Return the table with its default table version and stream, or with the chosen ones.

    The default is the newest active table version.
    """
    if isinstance(target, TableLocator):
        target = TableTarget(target)
    locator, table = find_target_table(reading, target)
    if locator != target.locator:
        target = replace(target, locator=locator)
    if table.table_type is not TableType.MANAGED:
        raise InvalidInputError(
            f"{locator} is {table.table_type.value}: its data is not managed by the lakehouse and is read-only"
        )
    number = table.default_version if target.version is None else target.version
    if number is None:
        raise InvalidInputError(f"{locator} has no table version, so it has no schema")
    version_locator = TableVersionLocator(table.namespace_id, table.id, number)
    version = reading.get(version_locator)
    if not isinstance(version, TableVersion) and target.version is not None:
        raise build_no_version_error(reading, locator, table, number)
    if not isinstance(version, TableVersion) or version.latest_stream_id is None:
        raise FormatError(f"{locator} has no table version {number} or no stream of it; run `mangrove check`")
    _check_version_state(reading, target, table, version)
    stream_id = version.latest_stream_id if target.stream_id is None else target.stream_id
    stream_locator = StreamLocator(table.namespace_id, table.id, number, stream_id)
    stream = reading.get(stream_locator)
    if not isinstance(stream, Stream) and target.stream_id is not None:
        raise NotFoundError(f"table version {number} of {locator} has no stream {stream_id!r}; list its streams")
    if not isinstance(stream, Stream):
        raise FormatError(f"{locator} has no stream {stream_id}; run `mangrove check`")
    if stream.state is StreamState.STAGED and target.stream_id is None:
        raise InvalidInputError(f"the rows of {target} are staged in the stream {stream_id} and not committed")
    located = StreamLocator(table.namespace_id, table.id, number, stream_id, format=stream.format)
    return OpenTable(target, table, version_locator, version, located, stream)


def build_no_version_error(
    reading: CatalogReader, locator: TableLocator, table: TableEntry, number: int
) -> NotFoundError:
    """Return the error for a table version that does not exist, with the numbers of those that do."""
    known = [str(found.parts[-1]) for found, _ in reading.children(Kind.TABLE_VERSION, identity_of(table))]
    return NotFoundError(f"{locator} has no table version {number}; it has {', '.join(known) or 'none'}")


def is_default_version(table: TableEntry, version: TableVersion) -> bool:
    """Return whether the name of the table opens this table version."""
    is_readable = version.state is not TableVersionState.DELETED and version.state not in _NEVER_DEFAULT
    return version.version == table.default_version and is_readable


def _check_version_state(reading: CatalogReader, target: TableTarget, table: TableEntry, version: TableVersion) -> None:
    if target.version is None and not is_default_version(table, version):
        states = [
            f"{one.version} ({one.state.value})"
            for _, one in reading.children(Kind.TABLE_VERSION, identity_of(table))
            if isinstance(one, TableVersion)
        ]
        is_deleted = version.state is TableVersionState.DELETED
        raise InvalidInputError(
            f"{target.locator} has no active table version; versions: {', '.join(states)}. Activate one as in "
            f"`mangrove set-state LAKE {target.locator} {version.version}=active`"
            + ("" if is_deleted else f", or name one as in {target.locator}.{VERSION_PREFIX}{version.version}")
        )
    if version.state is TableVersionState.DELETED:
        raise InvalidInputError(
            f"table version {version.version} of {target.locator} is deleted: it is neither read nor written. Set its "
            "state to another one, or read an earlier version of the lakehouse"
        )


def scan_partitions(reading: CatalogReader, opened: OpenTable) -> Iterator[tuple[PartitionLocator, Partition]]:
    """Yield the partitions of the table's stream, or the chosen one, without those that DeltaCAT staged or replaced."""
    if opened.target.partition_id is not None:
        yield from load_partitions(reading, [opened.partition_locator(opened.target.partition_id)])
        return
    for locator, value in reading.children(Kind.PARTITION, opened.stream_locator):
        assert isinstance(locator, PartitionLocator)
        assert isinstance(value, Partition)
        if value.state is StreamState.COMMITTED:
            yield locator, value


def load_partitions(
    reading: CatalogReader, locators: Sequence[PartitionLocator]
) -> Iterator[tuple[PartitionLocator, Partition]]:
    """Yield those of the partitions that exist, in order, as `scan_partitions` would."""
    ordered = sorted(set(locators))
    for partition_locator, value in zip(ordered, reading.get_many(ordered), strict=True):
        if isinstance(value, Partition) and value.state is StreamState.COMMITTED:
            yield partition_locator, value


def build_partition_locator(
    reading: CatalogReader, opened: OpenTable
) -> Callable[[Sequence[Value | None]], PartitionLocator]:
    """Return a function that maps partition values to the locator of the partition, existing or not.

    DeltaCAT gives partitions random ids, and cannot read two partitions with the same
    values. In its tables, and where partitions were created with chosen ids, all
    partitions are therefore scanned once.
    """
    scheme_id = opened.stream.partition_scheme_id
    there: dict[tuple[Value | None, ...], PartitionLocator] = {}
    if _has_assigned_partition_ids(opened):
        for partition_locator, partition in scan_partitions(reading, opened):
            if partition.scheme_id == scheme_id:
                there.setdefault(partition.values, partition_locator)

    def locator_for(values: Sequence[Value | None]) -> PartitionLocator:
        key = tuple(values)
        return there.get(key) or opened.partition_locator(partition_id_of(opened.stream.id, scheme_id, key))

    return locator_for


def _has_assigned_partition_ids(opened: OpenTable) -> bool:
    return opened.table.table_format == _DELTACAT_AUTHOR or NAMED_PARTITIONS in opened.version.properties


def locate_partitions(opened: OpenTable, values: Sequence[tuple[Value | None, ...]]) -> list[PartitionLocator] | None:
    """Return the locators of the partitions with these values, or None if ids are not derived from values."""
    if _has_assigned_partition_ids(opened):
        return None
    scheme_id = opened.stream.partition_scheme_id
    return [opened.partition_locator(partition_id_of(opened.stream.id, scheme_id, key)) for key in values]


def scan_deltas(
    reading: CatalogReader, partition: PartitionLocator, *, after: DeltaLocator | None = None
) -> Iterator[tuple[DeltaLocator, Delta]]:
    """Yield the deltas of a partition in the order in which they apply."""
    for locator, value in reading.children(Kind.DELTA, partition, after=after):
        assert isinstance(locator, DeltaLocator)
        assert isinstance(value, Delta)
        yield locator, value if value.position == locator.position else replace(value, position=locator.position)


def scan_deltas_of_partitions(
    reading: CatalogReader, partitions: Sequence[PartitionLocator], position: int | None = None
) -> Iterator[tuple[DeltaLocator, Delta]]:
    """Yield the deltas of many partitions, or those at a position, in partition order, read in one pass."""
    for locator, value in reading.children_of(Kind.DELTA, partitions):
        assert isinstance(locator, DeltaLocator)
        assert isinstance(value, Delta)
        if position not in (None, locator.position):
            continue
        yield locator, value if value.position == locator.position else replace(value, position=locator.position)


def add_delta(
    workspace: Workspace,
    target: TableLocator | TableTarget,
    values: Sequence[Value | None],
    delta: Delta,
    transaction_id: str,
) -> DeltaLocator:
    """Stage a delta in the partition with these values; creates the partition if necessary.

    Its position is provisional: a rebase may move it behind concurrent deltas.
    """
    (added,) = add_deltas(workspace, open_table(workspace, target), [(values, delta)], transaction_id)
    return added


def add_deltas(
    workspace: Workspace,
    opened: OpenTable,
    additions: Sequence[tuple[Sequence[Value | None], Delta]],
    transaction_id: str,
    *,
    has_read_rows: bool = False,
) -> list[DeltaLocator]:
    """Stage deltas by partition values in a table that this transaction opened and has not changed since.

    The written rows are guarded if this transaction has read rows of the table before, or
    if the deltas were computed from rows of the table: the first committer wins.
    A delta that has a position keeps it, which conflicts with concurrent deltas of its partition.
    """
    locator_for = build_partition_locator(workspace, opened)
    checked = [validate_partition_values(opened, values) for values, _ in additions]
    locators = [locator_for(values) for values in checked]
    workspace.look_up(locators)
    _guard_write(workspace, opened)
    _guard_written_rows(workspace, opened, [delta for _, delta in additions], has_read_rows=has_read_rows)
    added = []
    for partition_locator, values, (_, delta) in zip(locators, checked, additions, strict=True):
        partition = Partition(partition_locator.partition_id, values, opened.stream.partition_scheme_id)
        added.append(_add_delta(workspace, partition_locator, partition, delta, transaction_id))
    return added


def _guard_written_rows(
    workspace: Workspace, opened: OpenTable, deltas: Sequence[Delta], *, has_read_rows: bool
) -> None:
    stream, keys = opened.stream_locator, opened.version.keys
    was_read = stream in workspace.streams_read
    # A compaction changes no rows.
    changing = [delta for delta in deltas if delta.type is not DeltaType.REPLACE or delta.replaces_through is None]
    overwrites = any(delta.type is DeltaType.REPLACE and not delta.replaced_locations for delta in changing)
    if overwrites:
        if was_read:
            workspace.guard_rows(RowRange(stream))
        return
    files = [
        file for delta in changing for file in delta.manifest.entries if file.kind is not FileKind.POSITION_DELETES
    ]
    if not (was_read or has_read_rows) or not keys or not files:
        return
    # Equality deletes of other programs may use other columns than the keys.
    are_keyed = all(_key_ids_of(file, keys) == keys for file in files)
    workspace.guard_rows(RowRange(stream, key_files=tuple(files)) if are_keyed else RowRange(stream))


def _key_ids_of(file: DataFile, keys: tuple[int, ...]) -> tuple[int, ...]:
    return file.key_ids if file.kind is FileKind.KEY_DELETES else keys


def _add_delta(
    workspace: Workspace, partition_locator: PartitionLocator, partition: Partition, delta: Delta, transaction_id: str
) -> DeltaLocator:
    there = workspace.partition(partition_locator)
    if delta.type in REWRITING_TYPES:
        stands = there or partition
        workspace.put(
            partition_locator, replace(stands, properties={**stands.properties, REWRITTEN_BY: transaction_id})
        )
    elif there is None:
        workspace.put(partition_locator, partition)
    position = workspace.next_position(partition_locator, is_new=there is None, chosen=delta.position)
    added = partition_locator.at(position, partition.values)
    workspace.put(added, delta if delta.position is None else replace(delta, position=None))
    return added


def check_writable(target: TableTarget) -> None:
    """Raise an error for a partition or delta: rows are written to a table, a table version or a stream."""
    if target.kind > Kind.STREAM:
        raise InvalidInputError(f"{target} is read-only; write to its table, table version or stream")


def _guard_write(workspace: Workspace, opened: OpenTable) -> None:
    """Conflict with concurrent changes of the stream, and of the default version if the write did not choose one."""
    check_writable(opened.target)
    if opened.stream.state is StreamState.DEPRECATED:
        raise InvalidInputError(f"{opened.target} was replaced by another stream and is read-only")
    workspace.guard(opened.stream_locator)
    if opened.target.version is None:
        workspace.guard_default_version(opened.locator, opened.table)


def put_table_version(
    workspace: Workspace, target: TableLocator | TableTarget, version: TableVersion, *, stops_writers: bool
) -> None:
    """Replace the default table version, or the chosen one.

    With `stops_writers` the stream is written too, which conflicts with concurrent
    deltas. This is required if keys, partitioning or nullability change, but not if a
    column is added.
    """
    opened = open_table(workspace, target)
    check_writable(opened.target)
    if version.version != opened.version.version or version.latest_stream_id != opened.version.latest_stream_id:
        raise InvalidInputError(
            f"{opened.locator} has the table version {opened.version.version}; its number and stream cannot change"
        )
    check_new_columns(version.schema, opened.version.schema)
    workspace.put(opened.version_locator, version)
    if opened.target.version is None:
        workspace.guard_default_version(opened.locator, opened.table)
    if stops_writers:
        workspace.put(opened.stream_locator, opened.stream)


def partition_id_of(stream_id: str, scheme_id: str, values: Sequence[Value | None]) -> str:
    """Return the id of the partition with these values; all writers of the stream derive the same id."""
    if not values:
        return _only_partition_id_of(stream_id, scheme_id)
    text = json.dumps([stream_id, scheme_id, [value_to_json(value) for value in values]], ensure_ascii=True)
    return str(uuid.uuid5(uuid.NAMESPACE_URL, text))


@lru_cache(maxsize=1024)
def _only_partition_id_of(stream_id: str, scheme_id: str) -> str:
    """Return the id of the only partition of a stream; every small write needs it."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([stream_id, scheme_id, []], ensure_ascii=True)))


def validate_partition_values(opened: OpenTable, values: Sequence[Value | None]) -> tuple[Value | None, ...]:
    """Return the canonical partition values; raise an error if they do not fit the partition scheme."""
    scheme = opened.partition_scheme
    if len(values) != len(scheme.fields):
        fields = ", ".join(field.name for field in scheme.fields)
        # Rows with the same key are in one partition, so a field that is no key cannot separate them.
        why = "" if scheme == opened.version.partition_scheme else ": fields that are not keys only separate data files"
        raise InvalidInputError(
            f"{opened.target} has {f'the partition fields ({fields})' if fields else 'one partition, without fields'}"
            f"{why}; expected {len(scheme.fields)} value(s), but got {len(values)}"
        )
    canonical = normalize_values(tuple(values))
    if opened.version.schema is None:
        return canonical
    types = scheme.result_types(opened.version.schema)
    return tuple(
        _normalize_to_type(value, data_type, field)
        for value, data_type, field in zip(canonical, types, scheme.fields, strict=True)
    )


def _normalize_to_type(value: Value | None, data_type: DataType, field: PartitionField) -> Value | None:
    """Return the canonical form of the value, so that equal values give equal ids."""
    if value is None:
        return None
    if not is_value_of_type(value, data_type):
        raise InvalidInputError(
            f"{value!r} is not a valid value of the partition field {field.name} of type {format_type(data_type)}"
        )
    if isinstance(value, decimal.Decimal) and isinstance(data_type, Decimal):
        return value.quantize(decimal.Decimal(1).scaleb(-data_type.scale), context=decimal.Context(prec=60))
    # Adding zero turns negative zero into positive zero.
    return value + 0.0 if isinstance(value, float) else value
