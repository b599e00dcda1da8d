"""Execution of Iceberg commit requests for one or several tables in one transaction.

Nothing is stored between staging a table and the commit that creates it. A client must not
choose the id, for example that of a dropped table whose files still exist. So half of the
digits of a staged id are random, and the others are a hash of those and the table name.

The requirements are checked against the metadata of the transaction's base version. The
logs, columns and entry of the table are guarded, so a concurrent commit to them is a
conflict, which the client retries.

A client whose response was lost may retry a commit. Each delta has the id of the client's
snapshot, and the table has the ids of the last ones, because deltas may be compacted. A
commit that is already applied is answered as a success.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.sorting import SortOrder

from mangrove.errors import AlreadyExistsError, InvalidInputError, MangroveError, StorageError
from mangrove.iceberg.commit.commit_request import (
    RequestedChanges,
    TableCommitRequest,
    build_new_metadata,
    check_requirements,
    resolve_requested_changes,
)
from mangrove.iceberg.commit.manifest_reader import TableLocation
from mangrove.iceberg.commit.new_table import (
    NewTableRequest,
    build_new_table,
    empty_state_of,
    extract_table_id,
    from_client_properties,
)
from mangrove.iceberg.commit.schema_evolution import (
    DefaultChanges,
    apply_schema_update,
    check_no_constraints,
    list_initial_defaults,
    replace_schema,
)
from mangrove.iceberg.commit.snapshot_reader import SnapshotReader
from mangrove.iceberg.commit.snapshot_to_deltas import plan_client_write
from mangrove.iceberg.defaults import INITIAL_DEFAULT, initial_default_of
from mangrove.iceberg.locations import FileLocations, folder_of, root_location_of
from mangrove.iceberg.partition_specs import from_iceberg_sort_order, from_iceberg_spec
from mangrove.iceberg.publish.history_writer import publish_history
from mangrove.iceberg.publish.metadata_writer import (
    RESERVED_PROPERTIES,
    PublishedMetadata,
    PublishedTable,
    build_table_metadata,
    find_next_row_id,
)
from mangrove.iceberg.publish.table_revisions import TableRevision, TableRevisions
from mangrove.iceberg.schemas import from_iceberg_schema
from mangrove.iceberg.statistics_files import encode_statistics
from mangrove.iceberg.tables_without_columns import load_iceberg_state, to_iceberg_version, to_stored_version
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.table_staging import guard_logs, stage_write, validate_property_changes
from mangrove.lakehouse.transaction import Transaction
from mangrove.local.data_files import FileWriter
from mangrove.maintenance.engine_choice import LOCAL
from mangrove.maintenance.export import plan_pin
from mangrove.maintenance.export_records import Export, format_table_tag
from mangrove.model.locators import TableLocator
from mangrove.model.objects import CHECK_PREFIX, DeltaType, Stream, TableEntry, TableVersion
from mangrove.model.partitioning import PartitionScheme
from mangrove.model.schema import Schema
from mangrove.model.types import Column
from mangrove.storage.port import Store
from mangrove.storage.uri import parse_root_uri
from mangrove.tables.iceberg_names import (
    CLIENT_SNAPSHOT,
    NEXT_ROW_ID,
    STATISTICS,
    VERSION_KEY,
    append_client_snapshot,
    compute_published_name,
    parse_client_snapshots,
    published_folder_of,
)
from mangrove.tables.partition_evolution import plan_merged_log
from mangrove.tables.scan_plan import list_live_files
from mangrove.tables.table_properties import update_column_properties
from mangrove.tables.table_state import TableState, is_partition_determined_by_keys
from mangrove.tables.write_plan import PlannedWrite, plan_full_overwrite
from mangrove.transaction.aliases import locate_parent, locate_table
from mangrove.transaction.catalog import alter_table, check_new_table, create_table, load_namespace, search_table
from mangrove.transaction.deltas import OpenTable, TableTarget, open_table, put_table_version
from mangrove.transaction.table_versions import (
    create_table_version,
    drop_table_version,
    find_last_number,
    load_table_versions,
)
from mangrove.transaction.version_diff import restore_stream

__all__ = [
    "TableCommit",
    "build_staged_metadata",
    "commit_tables",
    "create_published_table",
    "create_staged_id",
    "is_staged_for",
    "publish_after_commit",
]

_DIGITS: Final = 15
_FILLED_BYTES_MAX: Final = 256 * 1024 * 1024
"""The size of the data files whose rows a request updates at most."""

_TAGS_MAX: Final = 100
"""The number of tags of one table; each snapshot before the listed ones is looked up when the table is published."""


def create_staged_id(locator: TableLocator, random_id: str) -> str:
    """Return the id of a staged table with this name, derived from a random UUID.

    >>> create_staged_id(TableLocator("shop", "orders"), "0f2f7c70-1234-4000-9000-000000000001")
    '0f2f7c70-1234-8000-8751-89c5edecaa72'
    """
    digits = random_id.replace("-", "")
    # The result has UUID version 8, custom.
    return _build_staged_id(locator, digits[:12] + digits[13 : _DIGITS + 1])


def is_staged_for(locator: TableLocator, table_id: str) -> bool:
    """Return whether an id was staged for a table with this name."""
    digits = table_id.replace("-", "")
    return table_id == _build_staged_id(locator, digits[:12] + digits[13 : _DIGITS + 1])


def _build_staged_id(locator: TableLocator, random_digits: str) -> str:
    name_digits = hashlib.sha256(f"{random_digits} {locator}".encode()).hexdigest()[:_DIGITS]
    digits = f"{random_digits[:12]}8{random_digits[12:]}8{name_digits}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


_TABLES_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class TableCommit:
    """A commit request for one table."""

    table: TableLocator
    request: TableCommitRequest


def commit_tables(lake: Lakehouse, commits: Sequence[TableCommit]) -> dict[TableLocator, PublishedTable]:
    """Commit the requests of all tables atomically and return the published tables."""
    tables = [one.table for one in commits]
    if not tables or len(tables) > _TABLES_MAX or len(set(tables)) != len(tables):
        raise InvalidInputError(
            f"the request changes {len(tables)} tables, {len(set(tables))} of them distinct; send each table once and "
            f"at most {_TABLES_MAX}"
        )
    transaction = lake.transaction(message=f"Iceberg commit to {', '.join(map(str, tables))}"[:500])
    with transaction:
        stager = _CommitStager(lake, transaction)
        located = [stager.locate(one) for one in commits]
        # A request is atomic, so one applied snapshot proves that all of it was committed.
        if any(stager.is_applied(one) for one in located):
            transaction.rollback()
        else:
            for one in located:
                stager.stage(one)
    return publish_after_commit(lake, transaction, tables)


def create_published_table(lake: Lakehouse, locator: TableLocator, requested: NewTableRequest) -> PublishedTable:
    """Create an empty table and publish it."""
    with lake.transaction(message=f"Iceberg client creates {locator}") as transaction:
        workspace = transaction._reading()
        locator = locate_parent(workspace, locator)
        namespace = load_namespace(workspace, locator.parent)
        new_table = build_new_table(locator, namespace.id, lake._new_id, requested.with_fresh_ids(), lake._new_id())
        create_table(workspace, locator, new_table)
    return publish_after_commit(lake, transaction, [locator])[locator]


def build_staged_metadata(lake: Lakehouse, locator: TableLocator, requested: NewTableRequest) -> PublishedMetadata:
    """Return the metadata of a staged table with its id and location; no file is written."""
    workspace = lake.transaction()._reading()
    locator = locate_parent(workspace, locator)
    namespace = load_namespace(workspace, locator.parent)
    table_id = create_staged_id(locator, lake._new_id())
    new_table = build_new_table(locator, namespace.id, lake._new_id, requested.with_fresh_ids(), table_id)
    check_new_table(workspace, locator, new_table)
    folder = FileLocations(lake.effects.store).of_table(table_id)
    _create_metadata_folder(lake.effects.store, table_id)
    return build_table_metadata(empty_state_of(locator, new_table), folder, None, lake.effects.now_millis())


def _create_metadata_folder(store: Store, table_id: str) -> None:
    """Create the folder for metadata on local disk: DuckDB creates only the one for its data files."""
    if parse_root_uri(store.uri).scheme == "file":
        path = f"{published_folder_of(table_id)}staged"
        store.put(path, b"")
        store.delete_many([path])


def publish_after_commit(
    lake: Lakehouse, transaction: Transaction, tables: Sequence[TableLocator]
) -> dict[TableLocator, PublishedTable]:
    """Publish the tables after a commit; raise StorageError on any failure.

    An error must not look like a failed commit: the client would delete its data files, which
    are part of the tables.
    """
    version = transaction.base_version if transaction.version is None else transaction.version
    try:
        snapshot = lake._snapshot_at(version)
        return {
            table: publish_history(lake.effects.store, TableRevisions.up_to(lake.metastore, snapshot, table))
            for table in tables
        }
    except MangroveError as error:
        raise StorageError(f"the commit succeeded as version {version}, but cannot be published: {error}") from error


class _CommitStager:
    """Stages the changes of one request in one transaction."""

    def __init__(self, lake: Lakehouse, transaction: Transaction) -> None:
        self._lake = lake
        self._transaction = transaction
        self._store = lake.effects.store
        self._workspace = transaction._reading()

    def locate(self, commit: TableCommit) -> TableCommit:
        """Return the commit with the own name of its table in place of an alias."""
        if commit.request.creates:
            return replace(commit, table=locate_parent(self._workspace, commit.table))
        return replace(commit, table=locate_table(self._workspace, commit.table)[0])

    def is_applied(self, commit: TableCommit) -> bool:
        """Return whether the last snapshot of the request was already committed."""
        if not commit.request.snapshot_ids or not isinstance(self._workspace.get(commit.table), TableEntry):
            return False
        last_id = str(commit.request.snapshot_ids[-1])
        state = load_iceberg_state(self._workspace, commit.table)
        if last_id in parse_client_snapshots(state.properties):
            return True
        deltas = (delta for log in state.logs for delta in log.deltas)
        return any(delta.properties.get(CLIENT_SNAPSHOT) == last_id for delta in deltas)

    def stage(self, commit: TableCommit) -> None:
        """Stage the changes of one table."""
        if commit.request.creates:
            self._create(commit)
            return
        state = load_iceberg_state(self._workspace, commit.table)
        revisions = TableRevisions.up_to(self._lake.metastore, self._workspace.snapshot, commit.table)
        published: TableMetadata = publish_history(self._store, revisions).metadata
        check_requirements(commit.request, published)
        requested = resolve_requested_changes(published, commit.request)
        opened = open_table(self._workspace, commit.table)
        for guarded in (commit.table, opened.version_locator):
            self._workspace.guard(guarded)
        guard_logs(self._workspace, commit.table, state)
        if requested.replaces and _needs_other_logs(opened.version, requested.after):
            published = self._replace_version(commit.table, opened, requested.after)
        else:
            self._change_columns(commit.table, state, published.schema(), requested)
        self._change_properties(commit.table, requested, folder_of(published.location))
        self._change_tags(revisions, published, requested)
        if requested.is_rollback:
            self._restore_rows(commit.table, revisions, requested.after)
        else:
            self._change_rows(commit.table, published, requested)
        self._change_statistics(commit.table, folder_of(published.location), requested)

    def _create(self, commit: TableCommit) -> None:
        """Create a staged table, with its first rows if the client wrote some."""
        if isinstance(self._workspace.get(commit.table), TableEntry):
            raise AlreadyExistsError(f"Requirement failed: table already exists: {commit.table}; load it")
        check_requirements(commit.request, None)
        metadata = build_new_metadata(commit.request.updates)
        table_id = extract_table_id(metadata, root_location_of(self._store.uri))
        other = search_table(self._workspace.snapshot, table_id)
        if other is not None:
            raise InvalidInputError(f"a table with UUID {table_id} already exists as {other}; load that table")
        if not is_staged_for(commit.table, table_id):
            raise InvalidInputError(
                f"UUID {table_id} was not staged for the name {commit.table}; stage the creation under that name first"
            )
        namespace = load_namespace(self._workspace, commit.table.parent)
        new_table = build_new_table(
            commit.table, namespace.id, self._lake._new_id, NewTableRequest.of_metadata(metadata), table_id
        )
        create_table(self._workspace, commit.table, new_table)
        snapshot = metadata.current_snapshot()
        if snapshot is None:
            return
        empty = self._build_empty_metadata(empty_state_of(commit.table, new_table), metadata)
        requested = RequestedChanges(metadata, snapshot=snapshot, statistics=metadata.statistics)
        self._change_rows(commit.table, empty, requested)
        self._change_statistics(commit.table, folder_of(metadata.location), requested)

    def _build_empty_metadata(self, state: TableState, client: TableMetadata) -> TableMetadata:
        """Return the metadata of a table without rows, with the specs of the client.

        The client's files use its own spec ids, which nobody else has seen yet.
        """
        at_millis = self._workspace.snapshot.commit.created_at_millis
        empty = build_table_metadata(state, folder_of(client.location), None, at_millis)
        return empty.model_copy(
            update={"partition_specs": client.partition_specs, "default_spec_id": client.default_spec_id}
        )

    def _replace_version(self, table: TableLocator, opened: OpenTable, client: TableMetadata) -> TableMetadata:
        """Replace the table version by an empty one with other partitions or logs; return its metadata."""
        before = to_iceberg_version(opened.version)
        check_no_constraints(before)
        request = NewTableRequest(client.schema(), client.spec(), client.sort_order())
        new_table = build_new_table(table, opened.table.namespace_id, self._lake._new_id, request, opened.table.id)
        assert new_table.table_version is not None
        version, stream = to_iceberg_version(new_table.table_version), new_table.stream
        assert version.schema is not None
        assert before.schema is not None
        assert stream is not None
        last_id = max(version.schema.last_column_id, before.schema.last_column_id)
        schema = replace(version.schema, last_column_id=last_id)
        number = 1 + find_last_number(opened.table, load_table_versions(self._workspace, opened.table))
        version = replace(version, version=number, previous_version=before.version, schema=schema)
        create_table_version(self._workspace, TableTarget(table), to_stored_version(version), stream)
        drop_table_version(self._workspace, TableTarget(table), before.version)
        following = update_column_properties(str(table), opened.table.properties, before.schema, schema)
        alter_table(self._workspace, table, put=following)
        return self._build_empty_metadata(load_iceberg_state(self._workspace, table), client)

    def _change_columns(
        self, table: TableLocator, state: TableState, published: IcebergSchema, requested: RequestedChanges
    ) -> None:
        version, changed = state.version, _plan_version(state, published, requested)
        if changed == version:
            return
        assert version.schema is not None
        assert changed.schema is not None
        entry = self._workspace.get(table)
        assert isinstance(entry, TableEntry)
        following = update_column_properties(str(table), entry.properties, version.schema, changed.schema)
        filled = [] if requested.replaces else _list_filled_columns(state, changed.schema)
        if changed.partition_scheme.id != version.partition_scheme.id and state.log_scheme.fields:
            if filled:
                raise InvalidInputError("partitions and a column with an initial default are changed; commit one first")
            self._merge_logs(table, state, changed)
            alter_table(self._workspace, table, put=following)
            return
        # Files written concurrently with the old columns still fit, because ids stay, unless the table is replaced.
        stops_writers = (
            requested.replaces
            or _is_empty(state)
            or changed.keys != version.keys
            or list_initial_defaults(changed.schema) != list_initial_defaults(version.schema)
        )
        if filled:
            put_table_version(self._workspace, table, _make_nullable(changed, filled), stops_writers=True)
            self._fill_rows(table, state, filled)
        put_table_version(self._workspace, table, to_stored_version(changed), stops_writers=stops_writers)
        alter_table(self._workspace, table, put=following)

    def _fill_rows(self, table: TableLocator, state: TableState, columns: Sequence[Column]) -> None:
        """Give all rows the initial defaults of new columns."""
        size_bytes = sum(live.file.size_bytes for log in state.logs for live in list_live_files(log.deltas))
        if size_bytes > _FILLED_BYTES_MAX:
            raise InvalidInputError(
                f"column {columns[0].name!r} has an initial default, and the table has {size_bytes:,} bytes of rows to "
                f"change, more than {_FILLED_BYTES_MAX:,}; add the column without one, give the rows its values, and "
                "then add a write default"
            )
        values = {column.name: initial_default_of(column) for column in columns}
        self._transaction.table(table).update(values, engine=LOCAL)

    def _merge_logs(self, table: TableLocator, state: TableState, changed: TableVersion) -> None:
        """Make a table version with the same files in one log, in which files of several schemes can be."""
        opened = open_table(self._workspace, table)
        number = 1 + find_last_number(opened.table, load_table_versions(self._workspace, opened.table))
        write = plan_merged_log(state)
        merged = PartitionScheme((), _choose_free_id(scheme.id for scheme in changed.partition_schemes))
        stream = Stream(self._lake._new_id(), partition_scheme_id=merged.id)
        version = replace(
            changed,
            version=number,
            previous_version=state.version.version,
            # The oldest scheme stays the first one, which decides about the ids of specs.
            earlier_partition_schemes=(*changed.earlier_partition_schemes, merged),
            latest_stream_id=stream.id,
        )
        create_table_version(self._workspace, TableTarget(table), version, stream)
        drop_table_version(self._workspace, TableTarget(table), state.version.version)
        stage_write(self._workspace, table, write, self._transaction.id)

    def _change_properties(self, table: TableLocator, requested: RequestedChanges, folder: str) -> None:
        put = from_client_properties(requested.put, folder)
        removed = [name for name in requested.removed if name not in RESERVED_PROPERTIES]
        if put or removed:
            validate_property_changes(self._workspace, TableTarget(table), put)
            alter_table(self._workspace, table, put=put, removed=removed)

    def _change_rows(self, table: TableLocator, published: TableMetadata, requested: RequestedChanges) -> None:
        state = load_iceberg_state(self._workspace, table)
        if requested.snapshot is None:
            if requested.replaces:
                empty = plan_full_overwrite(state, {})
                stage_write(self._workspace, table, empty, self._transaction.id)
            return
        writer = FileWriter(self._store, self._lake._new_id)
        changes = SnapshotReader(self._store, writer, state, published).read_changes(requested.snapshot)
        write = plan_client_write(state, changes, {CLIENT_SNAPSHOT: str(requested.snapshot.snapshot_id)})
        stage_write(self._workspace, table, write, self._transaction.id)
        if next_row_id := find_next_row_id(published):
            # Rows that the client moved have their earlier row ids, which are lower, in its files.
            alter_table(self._workspace, table, put={NEXT_ROW_ID: str(next_row_id)})
        self._record_snapshot_id(table, requested.snapshot.snapshot_id)

    def _change_statistics(self, table: TableLocator, folder: str, requested: RequestedChanges) -> None:
        if requested.statistics is None:
            return
        entry = self._workspace.get(table)
        assert isinstance(entry, TableEntry)
        before = entry.properties.get(STATISTICS, "")
        recorded = encode_statistics(requested.statistics, TableLocation(folder, entry.id), before)
        if recorded:
            alter_table(self._workspace, table, put={STATISTICS: recorded})
        elif before:
            alter_table(self._workspace, table, removed=[STATISTICS])

    def _restore_rows(self, table: TableLocator, revisions: TableRevisions, client: TableMetadata) -> None:
        """Restore the rows of an earlier snapshot under the present columns; the snapshot keeps its id."""
        snapshot = client.current_snapshot()
        assert snapshot is not None
        revision = self._find_revision(revisions, snapshot)
        if revision is None:
            raise InvalidInputError(f"snapshot {snapshot.snapshot_id} cannot be restored, because its version expired")
        state, was = load_iceberg_state(self._workspace, table), revision.state
        reason = _find_restore_obstacle(was.version, state.version)
        if reason:
            raise InvalidInputError(
                f"the rows of snapshot {snapshot.snapshot_id} cannot be restored: {reason}. Restore the whole table "
                f"with `mangrove rollback LAKE {revision.version} --table {table}`"
            )
        past = self._lake.metastore.at_version(revision.version)
        opened = open_table(self._workspace, table)
        source = open_table(past, TableTarget(table, table_id=state.table_id))
        if source.version.latest_stream_id == opened.version.latest_stream_id:
            restore_stream(self._workspace, opened.stream_locator, past, source.stream_locator)
        else:
            # The partitions changed since, which merged the logs.
            write = PlannedWrite((*plan_full_overwrite(state, {}).deltas, *plan_merged_log(was).deltas))
            stage_write(self._workspace, table, write, self._transaction.id)
        self._record_snapshot_id(table, snapshot.snapshot_id)

    def _find_revision(self, revisions: TableRevisions, snapshot: Snapshot) -> TableRevision | None:
        """Return the version that made a listed snapshot, or None if it expired."""
        version = None if snapshot.summary is None else snapshot.summary[VERSION_KEY]
        revision = revisions.find_at(int(version or 0))
        if revision is None:
            return None
        name = compute_published_name(revision.state, self._store.uri)
        return revision if name.snapshot_id == snapshot.snapshot_id else None

    def _change_tags(self, revisions: TableRevisions, published: TableMetadata, requested: RequestedChanges) -> None:
        """Record tags as names of versions that belong to one table, which pins the versions."""
        table_id = revisions.newest.state.table_id
        for tag, ref in requested.tags.items():
            name, recorded = format_table_tag(table_id, tag), dict(self._workspace.settings.exported_snapshots)
            if tag in published.refs and name not in recorded:
                raise InvalidInputError(
                    f"tag {tag!r} is the name of a version of the lakehouse, which all tables share; choose another "
                    f"name, or drop it with `mangrove tag LAKE {tag} --drop`"
                )
            if ref is not None and name in recorded and tag not in published.refs:
                raise AlreadyExistsError(
                    f"tag {tag!r} of the table exists, but is not listed, because its snapshot has a partition spec "
                    f"or format version that the table no longer has; remove it first, or drop {name!r} with "
                    "`mangrove tag LAKE NAME --drop`"
                )
            recorded.pop(name, None)
            if ref is not None:
                recorded[name] = self._plan_tag(revisions, published, name, ref).location
            if sum(one.startswith(format_table_tag(table_id, "")) for one in recorded) > _TAGS_MAX:
                raise InvalidInputError(f"the table has {_TAGS_MAX} tags, which is the limit; remove one first")
            self._workspace.settings = replace(self._workspace.settings, exported_snapshots=recorded)

    def _plan_tag(self, revisions: TableRevisions, published: TableMetadata, name: str, ref: SnapshotRef) -> Export:
        snapshot = published.snapshot_by_id(ref.snapshot_id)
        assert snapshot is not None
        revision = self._find_revision(revisions, snapshot)
        if revision is None and ref.snapshot_id == published.current_snapshot_id:
            # A rollback restored the snapshot of a version that expired since.
            revision = revisions.newest
        if revision is None:
            raise InvalidInputError(f"snapshot {ref.snapshot_id} cannot be tagged, because its version expired")
        until_millis = None if ref.max_ref_age_ms is None else snapshot.timestamp_ms + ref.max_ref_age_ms
        return plan_pin(self._lake.maintenance.context(), name, revision.version, until_millis)

    def _record_snapshot_id(self, table: TableLocator, snapshot_id: int) -> None:
        """Record the client's snapshot id of the new state; the guards exclude concurrent changes of it."""
        state = load_iceberg_state(self._workspace, table)
        digest = compute_published_name(state, self._store.uri).digest
        snapshots = append_client_snapshot(state.properties, digest, snapshot_id)
        alter_table(self._workspace, table, put={CLIENT_SNAPSHOT: snapshots})


def _plan_version(state: TableState, published: IcebergSchema, requested: RequestedChanges) -> TableVersion:
    """Return the table version with the columns, keys, partitions and order that a client requests."""
    version = state.version
    has_defaults, is_empty = requested.after.format_version >= 3, _is_empty(state)
    # A column may be dropped with its partition field, and a new field may have a new column.
    is_spec_first = not requested.replaces and _has_sources(version, requested.spec)
    if requested.spec is not None and is_spec_first:
        version = _with_spec(version, requested.spec)
    if requested.schema is not None:
        if not requested.schema.fields and not is_empty:
            raise InvalidInputError("the table has had rows and needs at least one column; drop it instead")
        if requested.replaces:
            version = replace_schema(version, requested.schema, has_defaults=has_defaults)
        else:
            version = apply_schema_update(
                version,
                requested.schema,
                can_change_keys=_can_change_keys(state),
                defaults=DefaultChanges(published, has_rows=not is_empty) if has_defaults else None,
                is_empty=is_empty,
            )
    if requested.spec is not None and not is_spec_first:
        version = _with_spec(version, requested.spec)
    return version if requested.sort_order is None else _with_order(version, requested.sort_order)


def _is_empty(state: TableState) -> bool:
    """Return whether nothing was written to the table."""
    return not any(log.deltas for log in state.logs)


def _list_filled_columns(state: TableState, after: Schema) -> list[Column]:
    """Return the new columns whose initial defaults existing rows get."""
    if _is_empty(state):
        return []
    existing = {column.id for column in state.schema.columns}
    return [column for column in after.columns if column.id not in existing and INITIAL_DEFAULT in column.properties]


def _make_nullable(version: TableVersion, columns: Sequence[Column]) -> TableVersion:
    """Return the table version while rows have no values in these columns yet."""
    assert version.schema is not None
    optional = {column.id: replace(column, nullable=True) for column in columns}
    schema = replace(version.schema, columns=tuple(optional.get(one.id, one) for one in version.schema.columns))
    return replace(version, schema=schema)


def _find_restore_obstacle(was: TableVersion, now: TableVersion) -> str:
    """Return why rows of an earlier table version cannot be read with the present columns; empty if they can."""
    assert now.schema is not None
    assert was.schema is not None
    if not (set(was.schemas) <= set(now.schemas) and set(was.partition_schemes) <= set(now.partition_schemes)):
        return "the table had other columns or partitions, which a rollback removed"
    if was.keys != now.keys:
        return "the keys of the table changed"
    required = [{column.id for column in one.columns if not column.nullable} for one in (was.schema, now.schema)]
    if not required[1] <= required[0]:
        return "a column became required"
    if list_initial_defaults(was.schema) != list_initial_defaults(now.schema):
        return "a column got an initial default, which its rows lack"
    checks = [{item for item in one.properties.items() if item[0].startswith(CHECK_PREFIX)} for one in (was, now)]
    return "" if checks[1] <= checks[0] else "the table got a check"


def _can_change_keys(state: TableState) -> bool:
    by_keys = {DeltaType.UPSERT, DeltaType.DELETE}
    has_key_deltas = any(delta.type in by_keys for log in state.logs for delta in log.deltas)
    return not has_key_deltas and not state.version.partition_scheme.fields


def _with_spec(version: TableVersion, spec: PartitionSpec) -> TableVersion:
    """Return the table version with other partitions for new files.

    A scheme that the table had before gets another id, because schemes are listed in the order of their age.
    Fields that are only renamed stay in their scheme.
    """
    assert version.schema is not None
    current = version.partition_scheme
    fresh = _choose_free_id(scheme.id for scheme in version.partition_schemes)
    if from_iceberg_spec(spec, version.schema, fresh, known=[current]) is current:
        return replace(version, partition_scheme=from_iceberg_spec(spec, version.schema, current.id))
    requested = from_iceberg_spec(spec, version.schema, fresh)
    return replace(version, partition_scheme=requested, earlier_partition_schemes=version.partition_schemes)


def _has_sources(version: TableVersion, spec: PartitionSpec | None) -> bool:
    """Return whether the table has the columns of all fields of a spec already."""
    assert version.schema is not None
    return spec is not None and all(version.schema.has_id(field.source_id) for field in spec.fields)


def _needs_other_logs(version: TableVersion, after: TableMetadata) -> bool:
    """Return whether replaced rows have other partitions, or other keys that decide whether each has a log."""
    schema, keys = from_iceberg_schema(after.schema(), has_defaults=after.format_version >= 3)
    scheme = from_iceberg_spec(after.spec(), schema, known=[version.partition_scheme])
    has_separate_logs = [not one or is_partition_determined_by_keys(one, scheme) for one in (version.keys, keys)]
    return scheme is not version.partition_scheme or (bool(scheme.fields) and len(set(has_separate_logs)) > 1)


def _with_order(version: TableVersion, order: SortOrder) -> TableVersion:
    """Return the table version with another sort order for new files."""
    assert version.schema is not None
    known = version.sort_schemes
    fresh = _choose_free_id(scheme.id for scheme in known)
    scheme = from_iceberg_sort_order(order, version.schema, fresh, known)
    earlier = tuple(one for one in known if one.id != scheme.id)
    return replace(version, sort_scheme=scheme, earlier_sort_schemes=earlier)


def _choose_free_id(ids: Iterable[str]) -> str:
    taken = set(ids)
    return next(text for number in range(len(taken) + 1) if (text := str(number)) not in taken)
