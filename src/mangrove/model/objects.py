"""Namespaces, tables, views, table versions, streams, partitions and deltas.

    Namespace ── Table ── TableVersion ── Stream ── Partition ── Delta
              └─ View                     SharedTransaction, Alias

An object holds its own id and what never changes about its ancestors, but not
the way to itself: that is its locator, which a rename or a rebase may change.
"""

import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.model.bulk import build_unchecked, build_validated
from mangrove.model.locators import LARGEST_INTEGER, Kind, NamespaceLocator, TableLocator, split_alias_name
from mangrove.model.manifests import EMPTY_MANIFEST, Author, Manifest
from mangrove.model.names import check_id, check_name, check_text, split_name
from mangrove.model.partitioning import UNPARTITIONED, UNSORTED, PartitionScheme, SortScheme
from mangrove.model.properties import NO_PROPERTIES, Properties, freeze_mapping
from mangrove.model.schema import Schema
from mangrove.model.settings import LakehouseSettings
from mangrove.model.values import Value, normalize_values

__all__ = [
    "CHECK_PREFIX",
    "DROPPED_STREAMS",
    "IDENTIFIER_FIELDS",
    "LAST_TABLE_VERSION",
    "NAMED_PARTITIONS",
    "STREAM_FORMAT",
    "AliasEntry",
    "Delta",
    "DeltaType",
    "NamespaceEntry",
    "Object",
    "Partition",
    "SharedTransactionEntry",
    "SharedTransactionState",
    "Stream",
    "StreamState",
    "TableEntry",
    "TableType",
    "TableVersion",
    "TableVersionState",
    "ViewEntry",
    "build_deltas",
    "is_maintained_property",
    "kind_of",
]

CHECK_PREFIX: Final = "mangrove.check."
"""The prefix of the table version properties with check constraints; the rest is the name."""
DROPPED_STREAMS: Final = "mangrove.dropped-streams"
"""The table version property with the chosen ids of dropped streams, separated by spaces."""
IDENTIFIER_FIELDS: Final = "mangrove.identifier-fields"
"""The table version property with the Iceberg identifier fields that cannot be keys, by column id."""
LAST_TABLE_VERSION: Final = "mangrove.last-table-version"
"""The table property with the largest number of a table version, set when that version is dropped."""
NAMED_PARTITIONS: Final = "mangrove.named-partitions"
"""The table version property of a table with partitions whose ids were chosen, not derived from their values."""
STREAM_FORMAT: Final = "deltacat"
"""The stream format, by DeltaCAT's name."""


def is_maintained_property(name: str) -> bool:
    """Return whether a property of a table version is maintained by Mangrove, as check constraints are."""
    return name.startswith(CHECK_PREFIX) or name in (DROPPED_STREAMS, IDENTIFIER_FIELDS, NAMED_PARTITIONS)


class TableType(enum.Enum):
    """Who manages a table's data."""

    MANAGED = "managed"
    EXTERNAL = "external"
    FEDERATED = "federated"


class TableVersionState(enum.Enum):
    """The lifecycle state of a table version."""

    CREATED = "created"
    UNRELEASED = "unreleased"
    ACTIVE = "active"
    DEPRECATED = "deprecated"
    BETA = "beta"
    DELETED = "deleted"


class StreamState(enum.Enum):
    """The lifecycle state of a stream or partition."""

    STAGED = "staged"
    COMMITTED = "committed"
    DEPRECATED = "deprecated"


class DeltaType(enum.Enum):
    """The effect of a delta on earlier rows."""

    APPEND = "append"
    """Adds rows, in order."""
    ADD = "add"
    """Adds rows, unordered: it may take any free position."""
    UPSERT = "upsert"
    """Replaces the rows with the same keys and adds the others."""
    DELETE = "delete"
    """Deletes the rows with the given keys."""
    POSITION_DELETE = "position_delete"
    """Deletes the rows at given positions of given files."""
    REPLACE = "replace"
    """Replaces earlier deltas or files."""


class SharedTransactionState(enum.Enum):
    """The lifecycle state of a shared transaction."""

    OPEN = "open"
    PUBLISHED = "published"
    DISCARDED = "discarded"


@dataclass(frozen=True, slots=True)
class NamespaceEntry:
    """A named set of tables and views."""

    id: str
    name: str
    properties: Mapping[str, str] = NO_PROPERTIES
    description: str | None = None

    def __post_init__(self) -> None:
        check_id(self.id, "namespace id")
        check_name(self.name, "namespace")
        _freeze_properties(self, self.properties, self.description)


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A table. Its columns are in its table versions, unless its data is managed elsewhere."""

    id: str
    namespace_id: str
    """The namespace in which the table was created; it does not change when the table moves."""
    name: str
    table_type: TableType = TableType.MANAGED
    table_format: str = "MANGROVE"
    description: str | None = None
    properties: Mapping[str, str] = NO_PROPERTIES
    format_properties: Mapping[str, str] = NO_PROPERTIES
    location: str | None = None
    """The location of an external table's data."""
    latest_table_version: int | None = None
    latest_active_table_version: int | None = None
    schema: Schema | None = None
    """For a table whose data is managed elsewhere or by another program; otherwise it is in the table versions."""
    keys: tuple[int, ...] = ()
    """The ids of the columns of `schema` that identify a row."""

    @property
    def default_version(self) -> int | None:
        """The table version that is read and written by the table's name: the newest active one, else the newest."""
        return self.latest_active_table_version or self.latest_table_version

    @property
    def last_table_version(self) -> int:
        """The largest number that a table version has or had; 0 if there was none."""
        recorded = re.fullmatch("[0-9]{1,18}", self.properties.get(LAST_TABLE_VERSION, ""))
        return max(self.latest_table_version or 0, int(recorded[0]) if recorded else 0)

    def __post_init__(self) -> None:
        check_id(self.id, "table id")
        check_id(self.namespace_id, "namespace id")
        check_name(self.name, "table")
        check_text(self.table_format, "the table format")
        _freeze_properties(self, self.properties, self.description)
        object.__setattr__(self, "format_properties", freeze_mapping(self.format_properties))
        _check_ordinal(self.latest_table_version, "latest_table_version")
        _check_ordinal(self.latest_active_table_version, "latest_active_table_version")
        object.__setattr__(self, "keys", _validate_keys(self.keys, self.schema, f"table {self.name!r}"))
        if self.location is not None:
            check_text(self.location, "a table's location")
        if self.table_type is TableType.MANAGED and self.location is not None:
            raise InvalidInputError(
                f"managed table {self.name!r} has the location {self.location!r}: only an external table has one"
            )


@dataclass(frozen=True, slots=True)
class ViewEntry:
    """A named query."""

    id: str
    name: str
    sql: str
    dialect: str = "spark"
    schema: Schema | None = None
    reads: tuple[str, ...] = ()
    """The dotted names of the tables and views that the query reads."""
    properties: Mapping[str, str] = NO_PROPERTIES
    description: str | None = None

    def __post_init__(self) -> None:
        check_id(self.id, "view id")
        check_name(self.name, "view")
        check_text(self.sql, "a view's SQL")
        check_text(self.dialect, "a view's dialect")
        if not self.sql.strip():
            raise InvalidInputError(f"view {self.name!r} has no SQL; write its query")
        object.__setattr__(self, "reads", tuple(self.reads))
        for read in self.reads:
            split_name(read)
        _freeze_properties(self, self.properties, self.description)


@dataclass(frozen=True, slots=True)
class AliasEntry:
    """Another name of a namespace or table. It follows the id of its target through renames."""

    id: str
    name: str
    """The canonical string of the alias."""
    target: str
    """The canonical string of the current name of the target."""
    target_id: str

    def __post_init__(self) -> None:
        check_id(self.id, "alias id")
        check_id(self.target_id, "target id of an alias")
        if type(split_alias_name(self.name)) is not type(self.target_locator):
            raise InvalidInputError(f"alias {self.name!r} of {self.target!r}: an alias has as many parts as its target")

    @property
    def target_locator(self) -> NamespaceLocator | TableLocator:
        """The locator of the target by its current name."""
        return split_alias_name(self.target)


@dataclass(frozen=True, slots=True)
class TableVersion:
    """The schema, keys and schemes of a table, with all earlier ones."""

    version: int
    schema: Schema | None
    """None if rows with any columns may be written."""
    earlier_schemas: tuple[Schema, ...] = ()
    keys: tuple[int, ...] = ()
    """The ids of the columns that identify a row."""
    partition_scheme: PartitionScheme = UNPARTITIONED
    earlier_partition_schemes: tuple[PartitionScheme, ...] = ()
    sort_scheme: SortScheme = UNSORTED
    earlier_sort_schemes: tuple[SortScheme, ...] = ()
    state: TableVersionState = TableVersionState.ACTIVE
    description: str | None = None
    properties: Mapping[str, str] = NO_PROPERTIES
    content_types: tuple[str, ...] = ()
    watermark: int | None = None
    previous_version: int | None = None
    latest_stream_id: str | None = None

    def __post_init__(self) -> None:
        _check_ordinal(self.version, "table version")
        for name in ("earlier_schemas", "earlier_partition_schemes", "earlier_sort_schemes", "content_types"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        _check_distinct([schema.schema_id for schema in self.schemas], "schemas", "schema id")
        _check_distinct([scheme.id for scheme in self.partition_schemes], "partition schemes", "id")
        _check_distinct([scheme.id for scheme in self.sort_schemes], "sort schemes", "id")
        object.__setattr__(self, "keys", _validate_keys(self.keys, self.schema, f"table version {self.version}"))
        if self.schema is not None:
            self.partition_scheme.result_types(self.schema)
        for content_type in self.content_types:
            check_text(content_type, "a content type")
        _freeze_properties(self, self.properties, self.description)
        _check_whole(self.watermark, "watermark")
        _check_ordinal(self.previous_version, "previous table version")
        if self.latest_stream_id is not None:
            check_id(self.latest_stream_id, "stream id")

    @property
    def user_properties(self) -> Mapping[str, str]:
        """The properties that users set, without those that Mangrove maintains itself."""
        return {name: text for name, text in self.properties.items() if not is_maintained_property(name)}

    @property
    def dropped_streams(self) -> frozenset[str]:
        """The chosen ids of dropped streams, which no other stream may have."""
        return frozenset(self.properties.get(DROPPED_STREAMS, "").split())

    @property
    def identifier_fields(self) -> tuple[int, ...]:
        """The ids of the columns that identify a row for Iceberg: the keys, or fields inside structs."""
        return tuple(map(int, self.properties.get(IDENTIFIER_FIELDS, "").split())) or self.keys

    @property
    def schemas(self) -> tuple[Schema, ...]:
        """The earlier schemas, then the current one."""
        return self.earlier_schemas if self.schema is None else (*self.earlier_schemas, self.schema)

    @property
    def partition_schemes(self) -> tuple[PartitionScheme, ...]:
        """The earlier partition schemes, then the current one."""
        return (*self.earlier_partition_schemes, self.partition_scheme)

    @property
    def sort_schemes(self) -> tuple[SortScheme, ...]:
        """The earlier sort schemes, then the current one."""
        return (*self.earlier_sort_schemes, self.sort_scheme)

    def partition_scheme_with_id(self, scheme_id: str) -> PartitionScheme:
        """Return the current or earlier partition scheme with that id."""
        for scheme in self.partition_schemes:
            if scheme.id == scheme_id:
                return scheme
        raise NotFoundError(f"table version {self.version} has no partition scheme with the id {scheme_id!r}")


@dataclass(frozen=True, slots=True)
class Stream:
    """The deltas of a table version; replacing all rows of a table starts a new stream."""

    id: str
    format: str = STREAM_FORMAT
    partition_scheme_id: str = UNPARTITIONED.id
    state: StreamState = StreamState.COMMITTED
    previous_id: str | None = None
    watermark: int | None = None

    def __post_init__(self) -> None:
        check_id(self.id, "stream id")
        check_id(self.format, "stream format")
        check_id(self.partition_scheme_id, "partition scheme id")
        if self.previous_id is not None:
            check_id(self.previous_id, "previous stream id")
        _check_whole(self.watermark, "watermark")


@dataclass(frozen=True, slots=True)
class Partition:
    """The deltas of a stream whose rows have the same partition values."""

    id: str
    values: tuple[Value | None, ...] = ()
    """One for each field of the partition scheme."""
    scheme_id: str = UNPARTITIONED.id
    state: StreamState = StreamState.COMMITTED
    previous_id: str | None = None
    content_types: tuple[str, ...] = ()
    properties: Mapping[str, str] = NO_PROPERTIES
    """What the last compaction did, among others."""

    def __post_init__(self) -> None:
        check_id(self.id, "partition id")
        check_id(self.scheme_id, "partition scheme id")
        if self.previous_id is not None:
            check_id(self.previous_id, "previous partition id")
        object.__setattr__(self, "values", normalize_values(self.values))
        object.__setattr__(self, "content_types", tuple(self.content_types))
        for content_type in self.content_types:
            check_text(content_type, "a content type")
        _freeze_properties(self, self.properties, None)


@dataclass(frozen=True, slots=True)
class Delta:
    """One ordered change to a partition."""

    type: DeltaType
    manifest: Manifest = EMPTY_MANIFEST
    properties: Mapping[str, str] = NO_PROPERTIES
    author: Author | None = None
    position: int | None = None
    """Only for reading: the locator decides, so that a rebase need not write the definition again."""
    replaces_through: int | None = None
    """A replace supersedes all deltas up to this position; None means all before it."""
    replaced_locations: tuple[str, ...] = ()
    """A replace of single files: only these are superseded."""

    def __post_init__(self) -> None:
        _check_ordinal(self.position, "stream position")
        _check_whole(self.replaces_through, "replaces_through")
        object.__setattr__(self, "replaced_locations", tuple(self.replaced_locations))
        for location in self.replaced_locations:
            check_text(location, "a replaced location")
        if self.type is not DeltaType.REPLACE and (self.replaces_through is not None or self.replaced_locations):
            raise InvalidInputError(
                f"a delta of type {self.type.value} has replaced files or positions; only a replace delta can"
            )
        _freeze_properties(self, self.properties, None)


def build_deltas(columns: Mapping[str, Sequence[Any]]) -> list[Delta]:
    """Return deltas from columns with all fields; usual ones are validated together, others one by one."""
    usual = {"properties": NO_PROPERTIES, "replaces_through": None, "replaced_locations": ()}
    positions = columns["position"]
    is_usual = (
        all(columns[name].count(value) == len(columns[name]) for name, value in usual.items())
        and None not in positions
        and min(positions, default=1) >= 1
        and max(positions, default=1) <= LARGEST_INTEGER
    )
    return (build_unchecked if is_usual else build_validated)(Delta, columns)


@dataclass(frozen=True, slots=True)
class SharedTransactionEntry:
    """A transaction that several processes join, stored until it is published or discarded."""

    name: str
    base_version: int
    began_at_millis: int
    expires_at_millis: int
    state: SharedTransactionState = SharedTransactionState.OPEN
    payload: bytes = b""
    """What was staged, in a form that only the transaction layer reads."""

    def __post_init__(self) -> None:
        check_name(self.name, "shared transaction")
        for name in ("base_version", "began_at_millis", "expires_at_millis"):
            _check_whole(getattr(self, name), name)
        if self.expires_at_millis < self.began_at_millis:
            raise InvalidInputError(f"shared transaction {self.name!r} expires before it begins")


Object: TypeAlias = (
    LakehouseSettings
    | NamespaceEntry
    | TableEntry
    | ViewEntry
    | SharedTransactionEntry
    | AliasEntry
    | TableVersion
    | Stream
    | Partition
    | Delta
)

_KINDS: Final[dict[type, Kind]] = {
    LakehouseSettings: Kind.LAKEHOUSE,
    NamespaceEntry: Kind.NAMESPACE,
    TableEntry: Kind.TABLE,
    ViewEntry: Kind.VIEW,
    SharedTransactionEntry: Kind.SHARED_TRANSACTION,
    AliasEntry: Kind.ALIAS,
    TableVersion: Kind.TABLE_VERSION,
    Stream: Kind.STREAM,
    Partition: Kind.PARTITION,
    Delta: Kind.DELTA,
}


def kind_of(value: Object) -> Kind:
    """Return the kind of the object `value`."""
    return _KINDS[type(value)]


def _freeze_properties(value: object, properties: Mapping[str, str], description: str | None) -> None:
    if type(properties) is not Properties:
        object.__setattr__(value, "properties", freeze_mapping(properties))
    if description is not None:
        check_text(description, "a description")


def _validate_keys(keys: Iterable[int], schema: Schema | None, where: str) -> tuple[int, ...]:
    checked = tuple(keys)
    if checked and schema is None:
        raise InvalidInputError(f"{where} has keys but no schema")
    if len(set(checked)) != len(checked):
        raise InvalidInputError(f"{where} names a key column twice: {checked}")
    for key in checked:
        if schema is not None and key not in {column.id for column in schema.columns}:
            raise InvalidInputError(f"{where} has the key {key}, which is not the id of a column")
    return checked


def _check_distinct(ids: list[int] | list[str], what: str, which: str) -> None:
    if len(set(ids)) != len(ids):
        raise InvalidInputError(f"two {what} of a table version have the same {which}: {ids}")


def _check_ordinal(number: int | None, what: str) -> None:
    if number is not None and (type(number) is not int or not 1 <= number <= LARGEST_INTEGER):
        raise InvalidInputError(f"{what} is {number!r}; expected a whole number from 1 to {LARGEST_INTEGER}")


def _check_whole(number: int | None, what: str) -> None:
    if number is not None and (type(number) is not int or not 0 <= number <= LARGEST_INTEGER):
        raise InvalidInputError(f"{what} is {number!r}; expected a whole number from 0 to {LARGEST_INTEGER}")
