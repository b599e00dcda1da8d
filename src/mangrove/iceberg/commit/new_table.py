"""Creation of tables from Iceberg create requests."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec, assign_fresh_partition_spec_ids
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.schema import assign_fresh_schema_ids
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder, assign_fresh_sort_order_ids

from mangrove.errors import InvalidInputError
from mangrove.iceberg.commit.commit_request import FORMAT_VERSIONS, INVALID_REQUEST_ERRORS
from mangrove.iceberg.locations import folder_of
from mangrove.iceberg.partition_specs import from_iceberg_sort_order, from_iceberg_spec
from mangrove.iceberg.publish.metadata_writer import RESERVED_PROPERTIES
from mangrove.iceberg.schemas import (
    check_format_version,
    check_no_defaults,
    from_iceberg_schema,
    replace_identifier_fields,
)
from mangrove.iceberg.tables_without_columns import to_iceberg_version
from mangrove.lakehouse.new_table import plan_new_table, plan_schemaless_table
from mangrove.model.locators import TableLocator
from mangrove.model.partitioning import format_partition_field, format_sort_field
from mangrove.model.schema import check_column_count
from mangrove.tables.iceberg_names import FORMAT_VERSION, STAGING_FOLDER, format_version_of
from mangrove.tables.table_state import TableState
from mangrove.transaction.catalog import NewTable

__all__ = ["NewTableRequest", "build_new_table", "empty_state_of", "extract_table_id", "from_client_properties"]

_GC: str = "gc.enabled"
_PATHS: tuple[str, ...] = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
"""Properties with the folders in which writers store files. The first two are published; the others are obsolete."""


@dataclass(frozen=True, slots=True)
class NewTableRequest:
    """A new table as a client requests it."""

    schema: IcebergSchema
    spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC
    order: SortOrder = UNSORTED_SORT_ORDER
    properties: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    """The location of the folder of a staged table, empty otherwise."""

    @staticmethod
    def of_metadata(metadata: TableMetadata) -> "NewTableRequest":
        """Return the table of staged metadata; column ids stay, because files may already use them."""
        properties = {**metadata.properties, FORMAT_VERSION: str(max(metadata.format_version, min(FORMAT_VERSIONS)))}
        return NewTableRequest(
            metadata.schema(), metadata.spec(), metadata.sort_order(), properties, folder_of(metadata.location)
        )

    def with_fresh_ids(self) -> "NewTableRequest":
        """Return the same with column ids from 1; the ids of a create request are arbitrary."""
        try:
            # Checked first, because the following steps take seconds for many columns.
            check_column_count(len(self.schema.field_ids))
            check_no_defaults(self.schema, is_nested_only=format_version_of(self.properties) == 3)
            schema = _restore_defaults(assign_fresh_schema_ids(self.schema), self.schema)
            spec = assign_fresh_partition_spec_ids(self.spec, self.schema, schema)
            order = assign_fresh_sort_order_ids(self.order, self.schema, schema)
        except INVALID_REQUEST_ERRORS as error:
            raise InvalidInputError(f"invalid columns of the new table: {error}") from error
        return NewTableRequest(schema, spec, order, self.properties)


def _restore_defaults(fresh: IcebergSchema, given: IcebergSchema) -> IcebergSchema:
    """Return the schema with the defaults of columns, which are lost when ids are assigned."""
    fields = [
        field.model_copy(update={"initial_default": one.initial_default, "write_default": one.write_default})
        for field, one in zip(fresh.fields, given.fields, strict=True)
    ]
    return fresh.model_copy(update={"fields": tuple(fields)})


def build_new_table(
    locator: TableLocator, namespace_id: str, new_id: Callable[[], str], requested: NewTableRequest, table_id: str
) -> NewTable:
    """Return the objects of a new table; raise InvalidInputError if unsupported."""
    format_version = format_version_of(requested.properties)
    schema, keys = from_iceberg_schema(requested.schema, has_defaults=format_version == 3)
    check_format_version(schema, format_version)
    schema = replace(schema, schema_id=0)
    scheme = from_iceberg_spec(requested.spec, schema)
    order = from_iceberg_sort_order(requested.order, schema)
    if not schema.columns:
        properties = from_client_properties(requested.properties, requested.folder)
        new_table = plan_schemaless_table(locator, namespace_id, new_id, properties=properties)
        return replace(new_table, table=replace(new_table.table, id=table_id))
    new_table = plan_new_table(
        locator,
        namespace_id,
        new_id,
        schema=schema,
        keys=[schema.column_with_id(key).name for key in keys],
        partition_by=[format_partition_field(one, schema) for one in scheme.fields],
        sort_by=[format_sort_field(one, schema) for one in order.fields],
        properties=from_client_properties(requested.properties, requested.folder),
    )
    version = new_table.table_version
    assert version is not None
    # Keep the field names of the client.
    version = replace(version, partition_scheme=replace(version.partition_scheme, fields=scheme.fields))
    version = replace_identifier_fields(version, requested.schema)
    return replace(new_table, table=replace(new_table.table, id=table_id), table_version=version)


def empty_state_of(locator: TableLocator, new_table: NewTable) -> TableState:
    """Return the state of a new table without rows."""
    assert new_table.table_version is not None
    version, stream = to_iceberg_version(new_table.table_version), new_table.stream
    assert stream is not None
    scheme = version.partition_scheme_with_id(stream.partition_scheme_id)
    return TableState(str(locator), new_table.table.id, version, scheme, (), new_table.table.properties)


def from_client_properties(given: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return the client's properties that a table stores; raise InvalidInputError for unsupported values.

    `folder` is the location of the table's folder, empty for a new table. A table that is requested in format
    version 1, which has no deleted rows, has version 2.
    """
    for name in _PATHS:
        if name in given and (not folder or given[name] not in (f"{folder}/data", f"{folder}/metadata")):
            raise InvalidInputError(
                f"{name!r} is {given[name][:200]!r}, but the catalog chooses a table's folders; remove the property"
            )
    if given.get(FORMAT_VERSION, "2") not in ("1", *map(str, FORMAT_VERSIONS)):
        raise InvalidInputError(f"unsupported {FORMAT_VERSION!r} {given[FORMAT_VERSION][:20]!r}; expected 2 or 3")
    if given.get(_GC, "false").lower() != "false":
        raise InvalidInputError(f"{_GC!r} must be false, because other versions may need the same files")
    put = {name: text for name, text in given.items() if name not in RESERVED_PROPERTIES and name not in _PATHS}
    return {**put, FORMAT_VERSION: "3"} if format_version_of(given) == 3 else put


def extract_table_id(metadata: TableMetadata, root_address: str) -> str:
    """Return the id of a staged table, which is also the name of its folder."""
    table_id = folder_of(metadata.location).rpartition("/")[2]
    try:
        is_staged = str(uuid.UUID(table_id)) == table_id == str(metadata.table_uuid)
    except ValueError:
        is_staged = False
    if not is_staged or metadata.location.rstrip("/") != f"{root_address}data/{table_id}/{STAGING_FOLDER}":
        raise InvalidInputError(
            f"this catalog has not staged a table at {metadata.location!r} with UUID {metadata.table_uuid}; stage its "
            "creation first"
        )
    return table_id
