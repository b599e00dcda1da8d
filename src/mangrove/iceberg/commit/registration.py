"""Registration of a metadata file, which creates a dropped table again.

A metadata file that the catalog published names a table and the version that made its
state. The table gets its id and its rows back, as long as that version is retained. Other
metadata files are refused: their data files do not belong to this lakehouse.
"""

import re
from typing import Final

from mangrove.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from mangrove.iceberg.commit.transaction import publish_after_commit
from mangrove.iceberg.locations import normalize_location, root_location_of
from mangrove.iceberg.publish.metadata_writer import PublishedTable
from mangrove.iceberg.tables_without_columns import load_iceberg_state
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.model.locators import TableLocator
from mangrove.tables.iceberg_names import METADATA_SUFFIX, compute_published_name
from mangrove.transaction.aliases import locate_parent
from mangrove.transaction.catalog import load_namespace, search_table
from mangrove.transaction.version_diff import restore_table

__all__ = ["register_table"]

_PUBLISHED: Final = re.compile(
    r"(data/([^/]+)/metadata/[0-9a-f]+-\d+-v(\d+))(?:-[0-9a-f]+)?" + re.escape(METADATA_SUFFIX)
)


def register_table(lake: Lakehouse, locator: TableLocator, metadata_address: str) -> PublishedTable:
    """Create a dropped table again from its published metadata file, and publish it."""
    root = normalize_location(root_location_of(lake.uri))
    match = _PUBLISHED.fullmatch(normalize_location(metadata_address).removeprefix(root))
    if match is None:
        raise InvalidInputError(
            f"{metadata_address[:200]!r} is not a metadata file that this catalog published; load the rows of other "
            "tables with `mangrove ingest`"
        )
    table_id, version = match[2], int(match[3])
    past = lake.metastore.at_version(version)
    source = search_table(past, table_id)
    name = None if source is None else compute_published_name(load_iceberg_state(past, source), lake.uri)
    if source is None or name is None or name.history_path(version) != f"{match[1]}{METADATA_SUFFIX}":
        raise NotFoundError(f"version {version} has no table that {metadata_address[:200]!r} describes")
    with lake.transaction(message=f"Iceberg client registers {locator}") as transaction:
        workspace = transaction._reading()
        locator = locate_parent(workspace, locator)
        other = search_table(workspace.snapshot, table_id)
        if other is not None:
            raise AlreadyExistsError(f"table {other} already exists with UUID {table_id}; drop it, or rename it")
        if load_namespace(workspace, locator.parent).id != load_namespace(past, source.parent).id:
            raise InvalidInputError(f"the table was in namespace {source.namespace}; register it there and rename it")
        restore_table(workspace, locator, past, source)
    return publish_after_commit(lake, transaction, [locator])[locator]
