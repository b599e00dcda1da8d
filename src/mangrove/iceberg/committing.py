"""Commits of Iceberg clients: one request for one or several tables becomes one transaction of ours.

The requirements are compared with the table as it is shown on the version on which the
transaction stands. Its logs, its columns and its entry are guarded, so what held there
holds when it is committed, or else the client is told of a conflict and begins again.

A client whose answer got lost may send the same commit again. Each delta carries the
id of the client's snapshot, and the table the ids of the last ones, for deltas may have been
replaced since. What is there already is answered as if it had just been made.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.sorting import SortOrder

from mangrove.errors import AlreadyExistsError, InvalidInputError, MangroveError, StorageError
from mangrove.iceberg.addresses import Addresses, root_address
from mangrove.iceberg.client_snapshots import SnapshotReader
from mangrove.iceberg.evolving import with_columns_of, with_replaced_columns
from mangrove.iceberg.metadata import GIVEN_PROPERTIES, metadata_of
from mangrove.iceberg.new_tables import AskedTable, made_table, own_properties, state_of_new, table_id_of
from mangrove.iceberg.schemes import own_scheme, own_sort_scheme
from mangrove.iceberg.showing import Shown, show
from mangrove.iceberg.staged_ids import is_staged_for, staged_id
from mangrove.iceberg.told_files import planned_write
from mangrove.iceberg.wanted import TableRequest, Wanted, check_requirements, new_metadata, wanted
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.table_staging import check_heeded_of, guard_logs, stage_write, table_state
from mangrove.lakehouse.transactions import LakeTransaction
from mangrove.local.files import FileWriter
from mangrove.model.locators import TableLocator
from mangrove.model.objects import Table, TableVersion
from mangrove.tables.heeded_properties import following_columns
from mangrove.tables.shown_names import CLIENT_SNAPSHOT, client_snapshots, shown_name, with_client_snapshot
from mangrove.tables.table_state import keys_decide_partition
from mangrove.tables.writing import all_replaced
from mangrove.transaction.deltas import open_table, put_table_version
from mangrove.transaction.identities import named
from mangrove.transaction.names import found_namespace
from mangrove.transaction.tables import alter_table, check_new_table, create_table

__all__ = ["TableCommit", "commit_tables", "create_shown", "staged_metadata"]

_TABLES_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class TableCommit:
    """What a client asks of one table."""

    table: TableLocator
    request: TableRequest


def commit_tables(lake: Lakehouse, commits: Sequence[TableCommit]) -> dict[TableLocator, Shown]:
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
    return _shown_after(lake, transaction, tables)


def create_shown(lake: Lakehouse, locator: TableLocator, asked: AskedTable) -> Shown:
    """Make a table without rows, and return how it is shown."""
    with lake.transaction(message=f"Iceberg client creates {locator}") as transaction:
        workspace = transaction.reading()
        namespace = found_namespace(workspace, locator.parent)
        made = made_table(locator, namespace.id, lake.new_id, asked.with_fresh_ids(), lake.new_id())
        create_table(workspace, locator, made)
    return _shown_after(lake, transaction, [locator])[locator]


def staged_metadata(lake: Lakehouse, locator: TableLocator, asked: AskedTable) -> TableMetadataV2:
    """Return what a table will be if a commit makes it: its id and place are given, and nothing is written."""
    workspace = lake.transaction().reading()
    namespace = found_namespace(workspace, locator.parent)
    table_id = staged_id(locator, lake.new_id())
    made = made_table(locator, namespace.id, lake.new_id, asked.with_fresh_ids(), table_id)
    check_new_table(workspace, locator, made)
    location = Addresses(lake.effects.store).of(f"data/{made.table.id}")
    return metadata_of(state_of_new(locator, made), location, None, lake.effects.now_millis())


def _shown_after(
    lake: Lakehouse, transaction: LakeTransaction, tables: Sequence[TableLocator]
) -> dict[TableLocator, Shown]:
    """Show what a transaction made; whatever goes wrong now must not look like a commit that failed.

    A client that was told so would delete the files that it wrote, and they are part of tables.
    """
    version = transaction.base_version if transaction.version is None else transaction.version
    try:
        snapshot = lake.snapshot_at(version)
        at_millis = snapshot.commit.created_at_millis
        return {table: show(lake.effects.store, table_state(snapshot, table), at_millis) for table in tables}
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
        state = table_state(self._workspace, commit.table)
        if wanted_id in client_snapshots(state.properties):
            return True
        deltas = (delta for log in state.logs for delta in log.deltas)
        return any(delta.properties.get(CLIENT_SNAPSHOT) == wanted_id for delta in deltas)

    def stage(self, commit: TableCommit) -> None:
        """Stage what is asked of one table."""
        if commit.request.creates:
            self._create(commit)
            return
        state = table_state(self._workspace, commit.table)
        at_millis = self._workspace.snapshot.commit.created_at_millis
        shown = show(self._store, state, at_millis).metadata
        check_requirements(commit.request, shown)
        asked = wanted(shown, commit.request)
        opened = open_table(self._workspace, commit.table)
        for guarded in (commit.table, opened.version_locator):
            self._workspace.guard(guarded)
        guard_logs(self._workspace, commit.table, state)
        self._change_columns(commit.table, opened.version, asked)
        self._change_properties(commit.table, asked, shown.location)
        self._change_rows(commit.table, shown, asked)

    def _create(self, commit: TableCommit) -> None:
        """Make a table that was staged, with its first rows if the client wrote some."""
        if isinstance(self._workspace.get(commit.table), Table):
            raise AlreadyExistsError(f"table {commit.table} exists: load it, or take another name")
        check_requirements(commit.request, None)
        found = new_metadata(commit.request.updates)
        table_id = table_id_of(found, root_address(self._store.uri))
        other = named(self._workspace.snapshot, table_id)
        if other is not None:
            raise InvalidInputError(f"the table with the UUID {table_id} exists and is called {other}: load that")
        if not is_staged_for(commit.table, table_id):
            raise InvalidInputError(
                f"the UUID {table_id} was given to no table that is to be called {commit.table}: stage its creation "
                "under that name first"
            )
        namespace = found_namespace(self._workspace, commit.table.parent)
        made = made_table(commit.table, namespace.id, self._lake.new_id, AskedTable.of_metadata(found), table_id)
        create_table(self._workspace, commit.table, made)
        snapshot = found.current_snapshot()
        if snapshot is None:
            return
        state = state_of_new(commit.table, made)
        began = metadata_of(state, found.location.rstrip("/"), None, self._workspace.snapshot.commit.created_at_millis)
        # By which ids the client knows its spec is the client's to say, as long as nobody else has seen the table.
        began = began.model_copy(
            update={"partition_specs": found.partition_specs, "default_spec_id": found.default_spec_id}
        )
        self._change_rows(commit.table, began, Wanted(snapshot=snapshot))

    def _change_columns(self, table: TableLocator, version: TableVersion, asked: Wanted) -> None:
        changed = version
        if asked.schema is not None:
            change = with_replaced_columns if asked.replaces else with_columns_of
            changed = change(version, asked.schema)
            _check_same_logs(table, version, changed)
        if asked.spec is not None:
            _check_same_spec(table, changed, asked.spec)
        if asked.sort_order is not None:
            changed = _with_order(changed, asked.sort_order)
        if changed == version:
            return
        assert version.schema is not None
        assert changed.schema is not None
        entry = self._workspace.get(table)
        assert isinstance(entry, Table)
        following = following_columns(str(table), entry.properties, version.schema, changed.schema)
        # Files that others write by the old columns meanwhile fit, because ids stay, unless the table begins anew.
        put_table_version(self._workspace, table, changed, stops_writers=asked.replaces)
        alter_table(self._workspace, table, put=following)

    def _change_properties(self, table: TableLocator, asked: Wanted, location: str) -> None:
        put = own_properties(asked.put, location)
        removed = [name for name in asked.removed if name not in GIVEN_PROPERTIES]
        if put or removed:
            check_heeded_of(self._workspace, table, put)
            alter_table(self._workspace, table, put=put, removed=removed)

    def _change_rows(self, table: TableLocator, shown: TableMetadata, asked: Wanted) -> None:
        state = table_state(self._workspace, table)
        if asked.snapshot is None:
            if asked.replaces:
                empty = all_replaced(state, {})
                stage_write(self._workspace, table, empty, self._transaction.id)
            return
        writer = FileWriter(self._store, self._lake.new_id)
        told = SnapshotReader(self._store, writer, state, shown).told(asked.snapshot)
        write = planned_write(state, told, {CLIENT_SNAPSHOT: str(asked.snapshot.snapshot_id)})
        stage_write(self._workspace, table, write, self._transaction.id)
        self._keep_snapshot_id(table, asked.snapshot.snapshot_id)

    def _keep_snapshot_id(self, table: TableLocator, snapshot_id: int) -> None:
        """Note under which id the client knows the state; guards keep everybody else from making it another one."""
        state = table_state(self._workspace, table)
        digest = shown_name(state, self._store.uri).digest
        told = with_client_snapshot(state.properties, digest, snapshot_id)
        alter_table(self._workspace, table, put={CLIENT_SNAPSHOT: told})


def _check_same_spec(table: TableLocator, version: TableVersion, spec: PartitionSpec) -> None:
    assert version.schema is not None
    known = version.partition_scheme
    found = own_scheme(spec, version.schema, known=[known])
    if found is not known and (found.fields or known.fields):
        raise InvalidInputError(
            f"the partitions of {table} stay as they are: make a new table with others, and copy the rows"
        )


def _check_same_logs(table: TableLocator, before: TableVersion, after: TableVersion) -> None:
    """Refuse other keys where the partitions of a table would be kept together by the ones and apart by the others."""
    scheme = before.partition_scheme
    are_apart = [not keys or keys_decide_partition(keys, scheme) for keys in (before.keys, after.keys)]
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
    scheme = own_sort_scheme(order, version.schema, fresh, known)
    earlier = tuple(one for one in known if one.id != scheme.id)
    return replace(version, sort_scheme=scheme, earlier_sort_schemes=earlier)
