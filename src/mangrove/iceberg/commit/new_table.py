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
from mangrove.iceberg.commit.commit_request import FORMAT_VERSION, INVALID_REQUEST_ERRORS
from mangrove.iceberg.partition_specs import from_iceberg_sort_order, from_iceberg_spec
from mangrove.iceberg.publish.metadata_writer import RESERVED_PROPERTIES
from mangrove.iceberg.schemas import check_no_defaults, from_iceberg_schema
from mangrove.lakehouse.new_table import plan_new_table
from mangrove.model.locators import TableLocator
from mangrove.model.partitioning import format_partition_field, format_sort_field
from mangrove.model.schema import check_column_count
from mangrove.tables.table_state import TableState
from mangrove.transaction.catalog import NewTable

__all__ = ["NewTableRequest", "build_new_table", "empty_state_of", "extract_table_id", "from_client_properties"]

_FORMAT: str = "format-version"
_GC: str = "gc.enabled"
_PATHS: tuple[str, ...] = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
"""Where writers put files by these properties, if not below the table's own folder."""


@dataclass(frozen=True, slots=True)
class NewTableRequest:
    """What a client says of a new table."""

    schema: IcebergSchema
    spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC
    order: SortOrder = UNSORTED_SORT_ORDER
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str = ""
    """Where it is to lie, if the client was told already."""

    @staticmethod
    def of_metadata(found: TableMetadata) -> "NewTableRequest":
        """Return the table that updates have told, with the ids by which its first files may have been written."""
        return NewTableRequest(found.schema(), found.spec(), found.sort_order(), found.properties, found.location)

    def with_fresh_ids(self) -> "NewTableRequest":
        """Return the same with ids of columns from 1: what a client gives them before there is a table is chance."""
        try:
            # Here already, because all that follows takes seconds for many columns.
            check_column_count(len(self.schema.field_ids))
            # Those would be lost with the old ids.
            check_no_defaults(self.schema)
            schema = assign_fresh_schema_ids(self.schema)
            spec = assign_fresh_partition_spec_ids(self.spec, self.schema, schema)
            order = assign_fresh_sort_order_ids(self.order, self.schema, schema)
        except INVALID_REQUEST_ERRORS as error:
            raise InvalidInputError(f"the columns of the new table cannot be so: {error}") from error
        return NewTableRequest(schema, spec, order, self.properties)


def build_new_table(
    locator: TableLocator, namespace_id: str, new_id: Callable[[], str], requested: NewTableRequest, table_id: str
) -> NewTable:
    """Return the objects of a new table, or say what no table can have."""
    schema, keys = from_iceberg_schema(requested.schema)
    schema = replace(schema, schema_id=0)
    scheme = from_iceberg_spec(requested.spec, schema)
    order = from_iceberg_sort_order(requested.order, schema)
    made = plan_new_table(
        locator,
        namespace_id,
        new_id,
        schema=schema,
        keys=[schema.column_with_id(key).name for key in keys],
        partition_by=[format_partition_field(one, schema) for one in scheme.fields],
        sort_by=[format_sort_field(one, schema) for one in order.fields],
        properties=from_client_properties(requested.properties, requested.location),
    )
    version = made.table_version
    assert version is not None
    # The fields have the names that the client gave them.
    named = replace(version.partition_scheme, fields=scheme.fields)
    return replace(made, table=replace(made.table, id=table_id), table_version=replace(version, partition_scheme=named))


def empty_state_of(locator: TableLocator, made: NewTable) -> TableState:
    """Return the state of a table to which nothing was written yet."""
    assert made.table_version is not None
    assert made.stream is not None
    scheme = made.table_version.partition_scheme_with_id(made.stream.partition_scheme_id)
    return TableState(str(locator), made.table.id, made.table_version, scheme, (), made.table.properties)


def from_client_properties(given: Mapping[str, str], location: str) -> dict[str, str]:
    """Return the properties that a table keeps of those that a client puts; refuse what they cannot say here.

    `location` is the table's, or nothing while the table has none.
    """
    for name in _PATHS:
        if name in given and not _is_below(given[name], location):
            raise InvalidInputError(
                f"{name!r} is {given[name][:200]!r}, and the files of a table lie below its own folder: leave it out"
            )
    if given.get(_FORMAT, str(FORMAT_VERSION)) != str(FORMAT_VERSION):
        raise InvalidInputError(f"tables are shown in format version {FORMAT_VERSION}: leave {_FORMAT!r} out")
    if given.get(_GC, "false").lower() != "false":
        raise InvalidInputError(f"{_GC!r} is false for all tables: other versions need files that one does not")
    return {name: text for name, text in given.items() if name not in RESERVED_PROPERTIES}


def extract_table_id(metadata: TableMetadata, root_address: str) -> str:
    """Return the id that a table was given when it was staged: its folder is called so, and its files may lie there."""
    table_id = metadata.location.rstrip("/").rpartition("/")[2]
    try:
        is_ours = str(uuid.UUID(table_id)) == table_id == str(metadata.table_uuid)
    except ValueError:
        is_ours = False
    if not is_ours or metadata.location.rstrip("/") != f"{root_address}data/{table_id}":
        raise InvalidInputError(
            f"the table is to lie at {metadata.location!r} with the UUID {metadata.table_uuid}, and this catalog gave "
            "that to none: stage its creation first"
        )
    return table_id


def _is_below(address: str, location: str) -> bool:
    folder = location.rstrip("/")
    return bool(folder) and f"{address}/".startswith(f"{folder}/") and not {".", ".."} & set(address.split("/"))
