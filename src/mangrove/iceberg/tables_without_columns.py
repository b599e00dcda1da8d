"""Iceberg tables without columns, which are stored as tables without schema and files.

In Iceberg a table can begin without columns, and clients add them later. Here a table without
schema contains files as they are; until there is one, it has no rows in Iceberg either. It gets
a schema with its first columns, and has none again if an empty table loses its last one. Only
this module knows both forms: a schema without columns exists in memory alone.
"""

from dataclasses import replace

from mangrove.errors import InvalidInputError
from mangrove.metastore import MetastoreSnapshot
from mangrove.model.locators import TableLocator
from mangrove.model.objects import TableVersion
from mangrove.model.schema import Schema
from mangrove.tables.table_state import TableState, load_opened_table_state
from mangrove.transaction.deltas import open_table
from mangrove.transaction.workspace import Workspace

__all__ = ["load_iceberg_state", "to_iceberg_version", "to_stored_version"]


def load_iceberg_state(reading: MetastoreSnapshot | Workspace, table: TableLocator) -> TableState:
    """Return the state of a table, which has a schema without columns if it has neither schema nor files."""
    opened = open_table(reading, table)
    version = to_iceberg_version(opened.version)
    state = load_opened_table_state(reading, replace(opened, version=version))
    if not state.schema.columns and any(log.deltas for log in state.logs):
        raise InvalidInputError(
            f"{table} contains files without a schema, which Iceberg tables cannot have; read them with Mangrove"
        )
    return state


def to_iceberg_version(version: TableVersion) -> TableVersion:
    """Return the table version with a schema; one without columns has the next schema id."""
    if version.schema is not None:
        return version
    schema_id = 1 + max((one.schema_id for one in version.schemas), default=-1)
    last_column_id = max((one.last_column_id for one in version.schemas), default=0)
    return replace(version, schema=Schema((), schema_id, last_column_id))


def to_stored_version(version: TableVersion) -> TableVersion:
    """Return the table version without schemas that have no columns."""
    earlier = tuple(one for one in version.earlier_schemas if one.columns)
    schema = version.schema if version.schema is not None and version.schema.columns else None
    return replace(version, schema=schema, earlier_schemas=earlier)
