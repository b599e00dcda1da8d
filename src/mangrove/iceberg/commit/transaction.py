"""Execution of Iceberg commit requests for one or several tables in one transaction.

Between the staging of a table and the commit that makes it there is only what the client
says. Any id would do there, also that of a table which was dropped and whose files still lie
in its folder. So half of the digits are chance, and the others follow from those and the name.

The requirements are compared with the table as it is shown on the version on which the
transaction stands. Its logs, its columns and its entry are guarded, so what held there
holds when it is committed, or else the client is told of a conflict and begins again.

A client whose answer got lost may send the same commit again. Each delta carries the
id of the client's snapshot, and the table the ids of the last ones, for deltas may have been
replaced since. What is there already is answered as if it had just been made.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.sorting import SortOrder

from mangrove.errors import AlreadyExistsError, InvalidInputError, MangroveError, StorageError
from mangrove.iceberg.commit.commit_request import (
    RequestedChanges,
    TableCommitRequest,
    build_new_metadata,
    check_requirements,
    resolve_requested_changes,
)
from mangrove.iceberg.commit.new_table import (
    NewTableRequest,
    build_new_table,
    empty_state_of,
    extract_table_id,
    from_client_properties,
)
from mangrove.iceberg.commit.schema_evolution import apply_schema_update, replace_schema
from mangrove.iceberg.commit.snapshot_reader import SnapshotReader
from mangrove.iceberg.commit.snapshot_to_deltas import plan_client_write
from mangrove.iceberg.locations import FileLocations, root_location_of
from mangrove.iceberg.partition_specs import from_iceberg_sort_order, from_iceberg_spec
from mangrove.iceberg.publish.metadata_writer import (
    RESERVED_PROPERTIES,
    PublishedTable,
    build_table_metadata,
    publish_table,
)
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.table_staging import guard_logs, load_table_state, stage_write, validate_property_changes
from mangrove.lakehouse.transaction import LakeTransaction
from mangrove.local.data_files import FileWriter
from mangrove.model.locators import TableLocator
from mangrove.model.objects import Table, TableVersion
from mangrove.tables.iceberg_names import (
    CLIENT_SNAPSHOT,
    append_client_snapshot,
    compute_published_name,
    parse_client_snapshots,
)
from mangrove.tables.table_properties import update_column_properties
from mangrove.tables.table_state import is_partition_determined_by_keys
from mangrove.tables.write_plan import plan_full_overwrite
from mangrove.transaction.catalog import alter_table, check_new_table, create_table, load_namespace
from mangrove.transaction.deltas import find_table_by_id, open_table, put_table_version

__all__ = [
    "TableCommit",
    "build_staged_metadata",
    "commit_tables",
    "create_published_table",
    "create_staged_id",
    "is_staged_for",
]

_DIGITS: Final = 15


def create_staged_id(locator: TableLocator, chance: str) -> str:
    """Return an id for a table that is to be called so; `chance` is an id that nobody else has.

    >>> create_staged_id(TableLocator("shop", "orders"), "0f2f7c70-1234-4000-9000-000000000001")
    '0f2f7c70-1234-8000-8751-89c5edecaa72'
    """
    digits = chance.replace("-", "")
    # Where a UUID says of which kind it is stands an 8: one with a meaning of its own.
    return _with_name(locator, digits[:12] + digits[13 : _DIGITS + 1])


def is_staged_for(locator: TableLocator, table_id: str) -> bool:
    """Return whether an id was given to a table of that name when it was staged."""
    digits = table_id.replace("-", "")
    return table_id == _with_name(locator, digits[:12] + digits[13 : _DIGITS + 1])


def _with_name(locator: TableLocator, chance: str) -> str:
    named = hashlib.sha256(f"{chance} {locator}".encode()).hexdigest()[:_DIGITS]
    found = f"{chance[:12]}8{chance[12:]}8{named}"
    return f"{found[:8]}-{found[8:12]}-{found[12:16]}-{found[16:20]}-{found[20:]}"


_TABLES_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class TableCommit:
    """What a client asks of one table."""

    table: TableLocator
    request: TableCommitRequest


def commit_tables(lake: Lakehouse, commits: Sequence[TableCommit]) -> dict[TableLocator, PublishedTable]:
    """Commit what is asked of all tables together, or nothing; return how each is shown afterwards."""
    tables = [one.table for one in commits]
    if not tables or len(tables) > _TABLES_MAX or len(set(tables)) != len(tables):
        raise InvalidInputError(
            f"the request changes {len(tables)} tables, {len(set(tables))} different ones: name each table once, and "
            f"{_TABLES_MAX} at most"
        )
    transaction = lake.transaction(message=f"Iceberg commit to {', '.join(map(str, tables))}"[:500])
    with transaction:
        work = _Work(lake, transaction)
        # All of a request is committed or nothing, so one snapshot that is there tells of all of it.
        if any(work.is_done(one) for one in commits):
            transaction.rollback()
        else:
            for one in commits:
                work.stage(one)
    return _publish_after_commit(lake, transaction, tables)


def create_published_table(lake: Lakehouse, locator: TableLocator, requested: NewTableRequest) -> PublishedTable:
    """Make a table without rows, and return how it is shown."""
    with lake.transaction(message=f"Iceberg client creates {locator}") as transaction:
        workspace = transaction.reading()
        namespace = load_namespace(workspace, locator.parent)
        made = build_new_table(locator, namespace.id, lake.new_id, requested.with_fresh_ids(), lake.new_id())
        create_table(workspace, locator, made)
    return _publish_after_commit(lake, transaction, [locator])[locator]


def build_staged_metadata(lake: Lakehouse, locator: TableLocator, requested: NewTableRequest) -> TableMetadataV2:
    """Return what a table will be if a commit makes it: its id and place are given, and nothing is written."""
    workspace = lake.transaction().reading()
    namespace = load_namespace(workspace, locator.parent)
    table_id = create_staged_id(locator, lake.new_id())
    made = build_new_table(locator, namespace.id, lake.new_id, requested.with_fresh_ids(), table_id)
    check_new_table(workspace, locator, made)
    location = FileLocations(lake.effects.store).of(f"data/{made.table.id}")
    return build_table_metadata(empty_state_of(locator, made), location, None, lake.effects.now_millis())


def _publish_after_commit(
    lake: Lakehouse, transaction: LakeTransaction, tables: Sequence[TableLocator]
) -> dict[TableLocator, PublishedTable]:
    """Show what a transaction made; whatever goes wrong now must not look like a commit that failed.

    A client that was told so would delete the files that it wrote, and they are part of tables.
    """
    version = transaction.base_version if transaction.version is None else transaction.version
    try:
        snapshot = lake.snapshot_at(version)
        at_millis = snapshot.commit.created_at_millis
        return {
            table: publish_table(lake.effects.store, load_table_state(snapshot, table), at_millis) for table in tables
        }
    except MangroveError as error:
        raise StorageError(f"version {version} has what was committed, and cannot be shown: {error}") from error


class _Work:
    """The changes of one request, staged in one transaction."""

    def __init__(self, lake: Lakehouse, transaction: LakeTransaction) -> None:
        self._lake = lake
        self._transaction = transaction
        self._store = lake.effects.store
        self._workspace = transaction.reading()

    def is_done(self, commit: TableCommit) -> bool:
        """Return whether the table has had the snapshot that is to be added last."""
        if not commit.request.snapshot_ids or not isinstance(self._workspace.get(commit.table), Table):
            return False
        wanted_id = str(commit.request.snapshot_ids[-1])
        state = load_table_state(self._workspace, commit.table)
        if wanted_id in parse_client_snapshots(state.properties):
            return True
        deltas = (delta for log in state.logs for delta in log.deltas)
        return any(delta.properties.get(CLIENT_SNAPSHOT) == wanted_id for delta in deltas)

    def stage(self, commit: TableCommit) -> None:
        """Stage what is asked of one table."""
        if commit.request.creates:
            self._create(commit)
            return
        state = load_table_state(self._workspace, commit.table)
        at_millis = self._workspace.snapshot.commit.created_at_millis
        shown = publish_table(self._store, state, at_millis).metadata
        check_requirements(commit.request, shown)
        requested = resolve_requested_changes(shown, commit.request)
        opened = open_table(self._workspace, commit.table)
        for guarded in (commit.table, opened.version_locator):
            self._workspace.guard(guarded)
        guard_logs(self._workspace, commit.table, state)
        self._change_columns(commit.table, opened.version, requested)
        self._change_properties(commit.table, requested, shown.location)
        self._change_rows(commit.table, shown, requested)

    def _create(self, commit: TableCommit) -> None:
        """Make a table that was staged, with its first rows if the client wrote some."""
        if isinstance(self._workspace.get(commit.table), Table):
            raise AlreadyExistsError(f"table {commit.table} exists: load it, or take another name")
        check_requirements(commit.request, None)
        found = build_new_metadata(commit.request.updates)
        table_id = extract_table_id(found, root_location_of(self._store.uri))
        other = find_table_by_id(self._workspace.snapshot, table_id)
        if other is not None:
            raise InvalidInputError(f"the table with the UUID {table_id} exists and is called {other}: load that")
        if not is_staged_for(commit.table, table_id):
            raise InvalidInputError(
                f"the UUID {table_id} was given to no table that is to be called {commit.table}: stage its creation "
                "under that name first"
            )
        namespace = load_namespace(self._workspace, commit.table.parent)
        made = build_new_table(
            commit.table, namespace.id, self._lake.new_id, NewTableRequest.of_metadata(found), table_id
        )
        create_table(self._workspace, commit.table, made)
        snapshot = found.current_snapshot()
        if snapshot is None:
            return
        state = empty_state_of(commit.table, made)
        began = build_table_metadata(
            state, found.location.rstrip("/"), None, self._workspace.snapshot.commit.created_at_millis
        )
        # By which ids the client knows its spec is the client's to say, as long as nobody else has seen the table.
        began = began.model_copy(
            update={"partition_specs": found.partition_specs, "default_spec_id": found.default_spec_id}
        )
        self._change_rows(commit.table, began, RequestedChanges(snapshot=snapshot))

    def _change_columns(self, table: TableLocator, version: TableVersion, requested: RequestedChanges) -> None:
        changed = version
        if requested.schema is not None:
            change = replace_schema if requested.replaces else apply_schema_update
            changed = change(version, requested.schema)
            _check_same_logs(table, version, changed)
        if requested.spec is not None:
            _check_same_spec(table, changed, requested.spec)
        if requested.sort_order is not None:
            changed = _with_order(changed, requested.sort_order)
        if changed == version:
            return
        assert version.schema is not None
        assert changed.schema is not None
        entry = self._workspace.get(table)
        assert isinstance(entry, Table)
        following = update_column_properties(str(table), entry.properties, version.schema, changed.schema)
        # Files that others write by the old columns meanwhile fit, because ids stay, unless the table begins anew.
        put_table_version(self._workspace, table, changed, stops_writers=requested.replaces)
        alter_table(self._workspace, table, put=following)

    def _change_properties(self, table: TableLocator, requested: RequestedChanges, location: str) -> None:
        put = from_client_properties(requested.put, location)
        removed = [name for name in requested.removed if name not in RESERVED_PROPERTIES]
        if put or removed:
            validate_property_changes(self._workspace, table, put)
            alter_table(self._workspace, table, put=put, removed=removed)

    def _change_rows(self, table: TableLocator, shown: TableMetadata, requested: RequestedChanges) -> None:
        state = load_table_state(self._workspace, table)
        if requested.snapshot is None:
            if requested.replaces:
                empty = plan_full_overwrite(state, {})
                stage_write(self._workspace, table, empty, self._transaction.id)
            return
        writer = FileWriter(self._store, self._lake.new_id)
        told = SnapshotReader(self._store, writer, state, shown).told(requested.snapshot)
        write = plan_client_write(state, told, {CLIENT_SNAPSHOT: str(requested.snapshot.snapshot_id)})
        stage_write(self._workspace, table, write, self._transaction.id)
        self._record_snapshot_id(table, requested.snapshot.snapshot_id)

    def _record_snapshot_id(self, table: TableLocator, snapshot_id: int) -> None:
        """Note under which id the client knows the state; guards keep everybody else from making it another one."""
        state = load_table_state(self._workspace, table)
        digest = compute_published_name(state, self._store.uri).digest
        told = append_client_snapshot(state.properties, digest, snapshot_id)
        alter_table(self._workspace, table, put={CLIENT_SNAPSHOT: told})


def _check_same_spec(table: TableLocator, version: TableVersion, spec: PartitionSpec) -> None:
    assert version.schema is not None
    known = version.partition_scheme
    found = from_iceberg_spec(spec, version.schema, known=[known])
    if found is not known and (found.fields or known.fields):
        raise InvalidInputError(
            f"the partitions of {table} stay as they are: make a new table with others, and copy the rows"
        )


def _check_same_logs(table: TableLocator, before: TableVersion, after: TableVersion) -> None:
    """Refuse other keys where the partitions of a table would be kept together by the ones and apart by the others."""
    scheme = before.partition_scheme
    are_apart = [not keys or is_partition_determined_by_keys(keys, scheme) for keys in (before.keys, after.keys)]
    if scheme.fields and are_apart[0] != are_apart[1]:
        raise InvalidInputError(
            f"the keys of {table} say how its partitions are kept: drop the table, and make it anew"
        )


def _with_order(version: TableVersion, order: SortOrder) -> TableVersion:
    """Return the table version with another order for files that are written from now on."""
    assert version.schema is not None
    known = version.sort_schemes
    taken = {scheme.id for scheme in known}
    fresh = next(text for number in range(len(taken) + 1) if (text := str(number)) not in taken)
    scheme = from_iceberg_sort_order(order, version.schema, fresh, known)
    earlier = tuple(one for one in known if one.id != scheme.id)
    return replace(version, sort_scheme=scheme, earlier_sort_schemes=earlier)
