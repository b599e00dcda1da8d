"""The protobuf codec of object definitions.

The encoding is deterministic. Every damaged or invalid file raises a `FormatError`
with its path, and no other error.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError, Message

from mangrove.errors import FormatError, InvalidInputError, NotFoundError
from mangrove.layouts.tree.definition_deltas import decode_deltas, decode_values, fill_delta, fill_values
from mangrove.layouts.tree.definition_files import (
    DecodedObject,
    DecodedSettings,
    DefinitionCodec,
    has_unknown_fields,
    list_unknown_fields,
    name_sizes_of,
    restore_unknown_fields,
)
from mangrove.layouts.tree.definition_schemas import (
    decode_partition_scheme,
    decode_schema,
    decode_sort_scheme,
    fill_partition_scheme,
    fill_schema,
    fill_sort_scheme,
)
from mangrove.layouts.tree.proto import mangrove_tree_pb2 as pb
from mangrove.model.locators import DeltaLocator, Kind, Locator, NamespaceLocator, TableLocator, ViewLocator
from mangrove.model.objects import (
    AliasEntry,
    Delta,
    NamespaceEntry,
    Object,
    Partition,
    SharedTransactionEntry,
    SharedTransactionState,
    Stream,
    StreamState,
    TableEntry,
    TableType,
    TableVersion,
    TableVersionState,
    ViewEntry,
    kind_of,
)
from mangrove.model.schema import Schema
from mangrove.model.settings import KNOWN_MAJOR_VERSION, LakehouseSettings

__all__ = ["MANGROVE_DEFINITIONS", "decode_definition", "decode_schema_copy", "encode_definition"]

_SQL: Final = "sql"
_OPTIONAL_SETTINGS: Final = (
    "order",
    "namespace_name_max_size_bytes",
    "table_name_max_size_bytes",
    "file_path_max_size_bytes",
    "node_file_max_size_bytes",
    "maximum_version_age_millis",
    "minimum_versions_to_keep",
)

AnyEnum = TypeVar("AnyEnum", bound=Enum)


def encode_definition(value: Object, carried: bytes = b"", table_version: TableVersion | None = None) -> bytes:
    """Return the bytes of the object's definition.

    `carried` holds the unknown fields from `decode_definition`; they are written back.
    In a strict tree the definition of a table has a copy of the schema and keys of
    `table_version`, which `decode_definition` ignores.
    """
    kind = kind_of(value)
    message = _MESSAGES[kind]()
    _WRITERS[kind](message, value)
    if table_version is not None and table_version.schema is not None:
        fill_schema(message.schema, table_version.schema)
        message.primary_keys.extend(table_version.keys)
        message.schema_table_version = table_version.version
    if carried:
        old = _MESSAGES[kind]()
        old.ParseFromString(carried)
        restore_unknown_fields(message, old)
    data: bytes = message.SerializeToString(deterministic=True)
    return data


def decode_definition(kind: Kind, data: bytes, path: str, locator: Locator | None = None) -> tuple[Object, bytes]:
    """Return the object in the definition at `path`, and its unknown fields for `encode_definition`.

    The unknown fields are empty if the whole definition was understood. Other programs
    omit the name and id of an object: the name then comes from `locator`, and the
    names serve as ids.
    """
    message = _MESSAGES[kind]()
    try:
        message.ParseFromString(data)
        value = _READERS[kind](message, locator)
    except DecodeError as error:
        raise FormatError(f"{path} is not the definition of a {kind.word}: {error}") from error
    except (InvalidInputError, NotFoundError, FormatError) as error:
        raise FormatError(
            f"{path}, the definition of a {kind.word}, is invalid: {error}. Run `mangrove check` to see what else "
            "is affected"
        ) from error
    return value, data if has_unknown_fields(message, data) else b""


def decode_schema_copy(data: bytes) -> tuple[int, Schema, tuple[int, ...]] | None:
    """Return the table version whose schema the definition of a table has a copy of, and the copy, or None."""
    message = pb.Table()
    message.ParseFromString(data)
    if not message.HasField("schema_table_version"):
        return None
    return message.schema_table_version, decode_schema(message.schema), tuple(message.primary_keys)


def _fill_lakehouse(message: pb.Lakehouse, settings: LakehouseSettings) -> None:
    message.name = settings.name
    message.major_version = settings.major_version
    for name in _OPTIONAL_SETTINGS:
        setattr(message, name, getattr(settings, name))
    message.properties.update(settings.properties)
    message.maximum_version_age_millis_overrides.update(settings.maximum_version_age_millis_overrides)
    message.exported_snapshots.update(settings.exported_snapshots)


def _lakehouse_of(message: pb.Lakehouse, _: Locator | None) -> LakehouseSettings:
    if message.major_version != KNOWN_MAJOR_VERSION:
        # Check nothing else: the other fields may have another meaning in another major version.
        raise FormatError(
            f"unsupported major_version {message.major_version}; this release supports {KNOWN_MAJOR_VERSION}; "
            "use a newer release of mangrove-lake"
        )
    return LakehouseSettings(
        name=message.name,
        properties=message.properties,
        maximum_version_age_millis_overrides=message.maximum_version_age_millis_overrides,
        exported_snapshots=message.exported_snapshots,
        **{name: getattr(message, name) for name in _OPTIONAL_SETTINGS if message.HasField(name)},
    )


def _fill_namespace(message: pb.Namespace, namespace: NamespaceEntry) -> None:
    message.id = namespace.id
    message.name = namespace.name
    message.properties.update(namespace.properties)
    _fill_optional(message, namespace, "description")


def _namespace_of(message: pb.Namespace, locator: Locator | None) -> NamespaceEntry:
    name = message.name or (locator.name if isinstance(locator, NamespaceLocator) else "")
    return NamespaceEntry(message.id or name, name, message.properties, _optional(message, "description"))


def _fill_table(message: pb.Table, table: TableEntry) -> None:
    message.id = table.id
    message.namespace_id = table.namespace_id
    message.name = table.name
    message.table_type = table.table_type.name
    message.table_format = table.table_format
    message.properties.update(table.properties)
    message.format_properties.update(table.format_properties)
    if table.schema is not None:
        fill_schema(message.schema, table.schema)
    message.primary_keys.extend(table.keys)
    _fill_optional(message, table, "description", "location", "latest_table_version", "latest_active_table_version")


def _table_of(message: pb.Table, locator: Locator | None) -> TableEntry:
    by_name = locator if isinstance(locator, TableLocator) else None
    name = message.name or (by_name.name if by_name else "")
    word = message.table_type or TableType.MANAGED.name
    is_copied = message.HasField("schema_table_version")
    if word not in TableType.__members__:
        raise FormatError(f"unknown table_type {word!r}; expected one of {', '.join(TableType.__members__)}")
    return TableEntry(
        id=message.id or name,
        namespace_id=message.namespace_id or (by_name.namespace if by_name else ""),
        name=name,
        table_type=TableType[word],
        table_format=message.table_format,
        description=_optional(message, "description"),
        properties=message.properties,
        format_properties=message.format_properties,
        location=_optional(message, "location"),
        latest_table_version=_optional(message, "latest_table_version"),
        latest_active_table_version=_optional(message, "latest_active_table_version"),
        schema=decode_schema(message.schema) if message.HasField("schema") and not is_copied else None,
        keys=() if is_copied else tuple(message.primary_keys),
    )


def _fill_view(message: pb.View, view: ViewEntry) -> None:
    message.id = view.id
    message.name = view.name
    message.representation.type = _SQL
    message.representation.sql = view.sql
    message.representation.dialect = view.dialect
    if view.schema is not None:
        fill_schema(message.schema, view.schema)
    message.reads.extend(view.reads)
    message.properties.update(view.properties)
    _fill_optional(message, view, "description")


def _view_of(message: pb.View, locator: Locator | None) -> ViewEntry:
    name = message.name or (locator.name if isinstance(locator, ViewLocator) else "")
    if message.representation.type not in ("", _SQL):
        raise FormatError(f"unknown representation {message.representation.type!r}; expected sql")
    return ViewEntry(
        id=message.id or name,
        name=name,
        sql=message.representation.sql,
        dialect=message.representation.dialect,
        schema=decode_schema(message.schema) if message.HasField("schema") else None,
        reads=tuple(message.reads),
        properties=message.properties,
        description=_optional(message, "description"),
    )


def _fill_alias(message: pb.Alias, alias: AliasEntry) -> None:
    message.id = alias.id
    message.name = alias.name
    message.target = alias.target
    message.target_id = alias.target_id


def _alias_of(message: pb.Alias, _: Locator | None) -> AliasEntry:
    return AliasEntry(message.id, message.name, message.target, message.target_id)


def _fill_shared_transaction(message: pb.SharedTransaction, transaction: SharedTransactionEntry) -> None:
    message.name = transaction.name
    message.base_version = transaction.base_version
    message.began_at_millis = transaction.began_at_millis
    message.expires_at_millis = transaction.expires_at_millis
    message.state = _number(pb.SharedTransactionState, transaction.state)
    message.payload = transaction.payload


def _shared_transaction_of(message: pb.SharedTransaction, _: Locator | None) -> SharedTransactionEntry:
    return SharedTransactionEntry(
        name=message.name,
        base_version=message.base_version,
        began_at_millis=message.began_at_millis,
        expires_at_millis=message.expires_at_millis,
        state=_member(pb.SharedTransactionState, message.state, SharedTransactionState),
        payload=message.payload,
    )


def _fill_table_version(message: pb.TableVersion, version: TableVersion) -> None:
    message.version = version.version
    if version.schema is not None:
        fill_schema(message.schema, version.schema)
    for schema in version.earlier_schemas:
        fill_schema(message.earlier_schemas.add(), schema)
    message.keys.extend(version.keys)
    fill_partition_scheme(message.partition_scheme, version.partition_scheme)
    for partition_scheme in version.earlier_partition_schemes:
        fill_partition_scheme(message.earlier_partition_schemes.add(), partition_scheme)
    fill_sort_scheme(message.sort_scheme, version.sort_scheme)
    for sort_scheme in version.earlier_sort_schemes:
        fill_sort_scheme(message.earlier_sort_schemes.add(), sort_scheme)
    message.state = _number(pb.TableVersionState, version.state)
    message.properties.update(version.properties)
    message.content_types.extend(version.content_types)
    _fill_optional(message, version, "description", "watermark", "previous_version", "latest_stream_id")


def _table_version_of(message: pb.TableVersion, _: Locator | None) -> TableVersion:
    return TableVersion(
        version=message.version,
        schema=decode_schema(message.schema) if message.HasField("schema") else None,
        earlier_schemas=tuple(decode_schema(schema) for schema in message.earlier_schemas),
        keys=tuple(message.keys),
        partition_scheme=decode_partition_scheme(message.partition_scheme),
        earlier_partition_schemes=tuple(decode_partition_scheme(one) for one in message.earlier_partition_schemes),
        sort_scheme=decode_sort_scheme(message.sort_scheme),
        earlier_sort_schemes=tuple(decode_sort_scheme(one) for one in message.earlier_sort_schemes),
        state=_member(pb.TableVersionState, message.state, TableVersionState),
        description=_optional(message, "description"),
        properties=message.properties,
        content_types=tuple(message.content_types),
        watermark=_optional(message, "watermark"),
        previous_version=_optional(message, "previous_version"),
        latest_stream_id=_optional(message, "latest_stream_id"),
    )


def _fill_stream(message: pb.Stream, stream: Stream) -> None:
    message.id = stream.id
    message.format = stream.format
    message.partition_scheme_id = stream.partition_scheme_id
    message.state = _number(pb.StreamState, stream.state)
    _fill_optional(message, stream, "previous_id", "watermark")


def _stream_of(message: pb.Stream, _: Locator | None) -> Stream:
    return Stream(
        id=message.id,
        format=message.format,
        partition_scheme_id=message.partition_scheme_id,
        state=_member(pb.StreamState, message.state, StreamState),
        previous_id=_optional(message, "previous_id"),
        watermark=_optional(message, "watermark"),
    )


def _fill_partition(message: pb.Partition, partition: Partition) -> None:
    message.id = partition.id
    fill_values(message.values, partition.values)
    message.scheme_id = partition.scheme_id
    message.state = _number(pb.StreamState, partition.state)
    message.content_types.extend(partition.content_types)
    message.properties.update(partition.properties)
    _fill_optional(message, partition, "previous_id")


def _partition_of(message: pb.Partition, _: Locator | None) -> Partition:
    return Partition(
        id=message.id,
        values=decode_values(message.values),
        scheme_id=message.scheme_id,
        state=_member(pb.StreamState, message.state, StreamState),
        previous_id=_optional(message, "previous_id"),
        content_types=tuple(message.content_types),
        properties=message.properties,
    )


def _delta_of(message: pb.Delta, locator: Locator | None) -> Delta:
    # Usually only the tree key has the position.
    return decode_deltas([message], [locator.position if isinstance(locator, DeltaLocator) else None])[0]


def _fill_optional(message: Message, value: object, *names: str) -> None:
    for name in names:
        known = getattr(value, name)
        if known is not None:
            setattr(message, name, known)


def _optional(message: Message, name: str) -> Any:
    return getattr(message, name) if message.HasField(name) else None


def _number(numbers: Any, member: Enum) -> Any:
    """Return the protobuf number of an enumeration member; protobuf names start with the enumeration's name."""
    return numbers.Value(f"{_prefix(numbers)}{member.name}")


def _member(numbers: Any, number: int, members: type[AnyEnum]) -> AnyEnum:
    name = numbers.Name(number).removeprefix(_prefix(numbers)) if number in numbers.values() else ""
    if name not in members.__members__:
        raise FormatError(f"unknown state {number}; expected one of {', '.join(members.__members__)}")
    return members[name]


def _prefix(numbers: Any) -> str:
    return str(numbers.Name(0)).removesuffix("UNSPECIFIED")


_MESSAGES: Final[dict[Kind, Callable[[], Any]]] = {
    Kind.LAKEHOUSE: pb.Lakehouse,
    Kind.NAMESPACE: pb.Namespace,
    Kind.TABLE: pb.Table,
    Kind.VIEW: pb.View,
    Kind.SHARED_TRANSACTION: pb.SharedTransaction,
    Kind.TABLE_VERSION: pb.TableVersion,
    Kind.STREAM: pb.Stream,
    Kind.PARTITION: pb.Partition,
    Kind.DELTA: pb.Delta,
    Kind.ALIAS: pb.Alias,
}
_WRITERS: Final[dict[Kind, Callable[[Any, Any], None]]] = {
    Kind.LAKEHOUSE: _fill_lakehouse,
    Kind.NAMESPACE: _fill_namespace,
    Kind.TABLE: _fill_table,
    Kind.VIEW: _fill_view,
    Kind.SHARED_TRANSACTION: _fill_shared_transaction,
    Kind.TABLE_VERSION: _fill_table_version,
    Kind.STREAM: _fill_stream,
    Kind.PARTITION: _fill_partition,
    Kind.DELTA: fill_delta,
    Kind.ALIAS: _fill_alias,
}
_READERS: Final[dict[Kind, Callable[[Any, Locator | None], Object]]] = {
    Kind.LAKEHOUSE: _lakehouse_of,
    Kind.NAMESPACE: _namespace_of,
    Kind.TABLE: _table_of,
    Kind.VIEW: _view_of,
    Kind.SHARED_TRANSACTION: _shared_transaction_of,
    Kind.TABLE_VERSION: _table_version_of,
    Kind.STREAM: _stream_of,
    Kind.PARTITION: _partition_of,
    Kind.DELTA: _delta_of,
    Kind.ALIAS: _alias_of,
}


def _settings_of(data: bytes, path: str) -> DecodedSettings:
    value, unknown = decode_definition(Kind.LAKEHOUSE, data, path)
    assert isinstance(value, LakehouseSettings)
    return DecodedSettings(value, name_sizes_of(value), unknown)


def _object_of(locator: Locator, data: bytes, path: str) -> DecodedObject:
    return DecodedObject(*decode_definition(locator.kind, data, path, locator))


def _deltas_of(requested: Sequence[tuple[DeltaLocator, bytes]]) -> list[DecodedObject]:
    encoded = [data for _, data in requested]
    try:
        messages = list(map(pb.Delta.FromString, encoded))
        deltas = decode_deltas(messages, [locator.position for locator, _ in requested])
    except (DecodeError, InvalidInputError) as error:
        raise FormatError(f"one of {len(requested)} deltas is invalid: {error}") from error
    return [
        DecodedObject(delta, data if has_unknown else b"")
        for delta, has_unknown, data in zip(deltas, list_unknown_fields(messages, encoded), encoded, strict=True)
    ]


MANGROVE_DEFINITIONS = DefinitionCodec(_settings_of, _object_of, _deltas_of)
