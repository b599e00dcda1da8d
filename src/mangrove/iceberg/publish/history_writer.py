"""Writer of Iceberg table metadata that lists the snapshots of earlier versions.

The list is that of the metadata file published last, plus the states since, so the cost does not
grow with the history. It has no gaps: a snapshot that is missing in between would be read as
the one before it. If the states since then cannot all be published, a new list begins.

The name of a metadata file contains the version that made its state. A vacuum deletes these
files if they list snapshots of expired versions.

A named version is a tag of its snapshot, if that is listed. A tag of the table itself, which a client made,
is always published: its snapshot may be older than the listed ones, and then stands before them without an
entry in the log, by which clients find a snapshot by time. Names and statistics may change while the
table does not, so the name of the file depends on them too.
"""

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import MetadataLogEntry, Snapshot, SnapshotLogEntry, Summary

from mangrove.errors import FormatError
from mangrove.iceberg.locations import FileLocations
from mangrove.iceberg.partition_specs import list_published_specs
from mangrove.iceberg.publish.metadata_writer import (
    PublishedMetadata,
    PublishedTable,
    SnapshotFiles,
    assign_row_ids,
    build_table_metadata,
    find_next_row_id,
    list_published_files,
    load_metadata,
    plan_snapshot_files,
    publish_repeatedly,
    sequence_number_of,
    write_snapshot,
)
from mangrove.iceberg.publish.table_revisions import TableRevision, TableRevisions
from mangrove.iceberg.schemas import check_format_version
from mangrove.iceberg.statistics_files import load_statistics
from mangrove.model.objects import TableVersion
from mangrove.storage.port import ObjectInfo, Store
from mangrove.tables.iceberg_names import (
    LIST_SUFFIX,
    METADATA_SUFFIX,
    PARTS_SUFFIX,
    VERSION_KEY,
    compute_published_name,
    decode_first_row_ids,
    format_version_of,
    max_previous_metadata_of,
    max_snapshots_of,
    published_folder_of,
)
from mangrove.tables.scan_plan import list_live_files
from mangrove.tables.table_state import TableState

__all__ = ["load_snapshot_files", "publish_history"]

_HISTORY: Final = re.compile(r".*-v(\d+)(?:-[0-9a-f]+)?" + re.escape(METADATA_SUFFIX))


@dataclass(frozen=True, slots=True)
class _Listed:
    """The snapshots that a metadata file lists, oldest first, and the files of the last one."""

    snapshots: tuple[Snapshot, ...] = ()
    log: tuple[SnapshotLogEntry, ...] = ()
    schemas: tuple[IcebergSchema, ...] = ()
    files: SnapshotFiles | None = None
    """None if the state before is unknown."""
    next_row_id: int = 0
    """A number above all assigned row ids, in format version 3."""

    @property
    def sequence_number(self) -> int:
        return max((one.sequence_number or 0 for one in self.snapshots), default=0)


def publish_history(store: Store, revisions: TableRevisions) -> PublishedTable:
    """Write the missing Iceberg files of a table and return its metadata with the snapshots of earlier versions."""
    state = revisions.newest.state
    # Earlier versions may have had another format version.
    check_format_version(state.schema, format_version_of(state.properties))
    addresses = FileLocations(store)
    folder = addresses.of_table(state.table_id)
    # Checked for published states too: a file may have become a link since.
    addresses.check_below_root([live.file for log in state.logs for live in list_live_files(log.deltas)])
    path, metadata = publish_repeatedly(state, folder, partial(_publish_once, store, revisions, folder))
    return PublishedTable(metadata, addresses.of(path), folder)


def _publish_once(store: Store, revisions: TableRevisions, folder: str) -> tuple[str, PublishedMetadata] | None:
    """Return the path and content of the metadata file; None if files that it references were deleted meanwhile."""
    existing = list_published_files(store, revisions.newest.state)
    base, last_path = _find_last_published(store, existing, revisions)
    last = load_metadata(store, last_path, revisions.newest.state.table_id) if last_path else None
    missing, is_complete = revisions.list_since(None if base is None or last is None else base.version)
    made = missing[0] if missing or base is None else base
    path = compute_published_name(made.state, store.uri).history_path(made.version, revisions.labels)
    if last is not None and is_complete and path == last_path:
        return path, last
    listed, metadata, needed = _Listed(), None if last is None else _without_tagged(last), set[str]()
    previous: list[MetadataLogEntry] = []
    if last is not None and base is not None and is_complete:
        needed.add(last_path)
        previous = _extend_metadata_log(last, FileLocations(store).of(last_path))
        if missing:
            listed = _resume_list(store, base, _without_tagged(last), existing)
    for revision in reversed(missing):
        listed, metadata, parts = _append_revision(store, listed, revision, folder)
        needed |= parts
    assert metadata is not None
    metadata, tagged_parts = _with_tags(store, metadata, last if is_complete else None, revisions, folder)
    needed |= tagged_parts
    count_max = max_previous_metadata_of(made.state.properties)
    statistics = load_statistics(store, revisions.newest.state, {one.snapshot_id for one in metadata.snapshots})
    metadata = metadata.model_copy(update={"metadata_log": previous[-count_max:], "statistics": statistics})
    store.put(path, metadata.model_dump_json().encode())
    return (path, metadata) if needed <= list_published_files(store, made.state).keys() else None


def _extend_metadata_log(last: PublishedMetadata, address: str) -> list[MetadataLogEntry]:
    """Return the log of previous metadata files with the last one; a vacuum may have deleted earlier ones."""
    entry = MetadataLogEntry.model_validate({"metadata-file": address, "timestamp-ms": last.last_updated_ms})
    return [*last.metadata_log, entry]


def _resume_list(
    store: Store, base: TableRevision, last: PublishedMetadata, existing: Mapping[str, ObjectInfo]
) -> _Listed:
    """Return the list of a metadata file, with the files of its last snapshot and their row ids."""
    files = load_snapshot_files(store, base.state, last, last.current_snapshot(), existing)
    return _Listed(tuple(last.snapshots), tuple(last.snapshot_log), tuple(last.schemas), files, find_next_row_id(last))


def load_snapshot_files(
    store: Store,
    state: TableState,
    metadata: PublishedMetadata,
    snapshot: Snapshot | None,
    existing: Mapping[str, ObjectInfo],
) -> SnapshotFiles:
    """Return the files of a state, with the row ids that its snapshot in published metadata assigned."""
    files = plan_snapshot_files(store, state, compute_published_name(state, store.uri), existing)
    return assign_row_ids(files, _load_row_ids(store, files, snapshot), find_next_row_id(metadata))


def _load_row_ids(store: Store, files: SnapshotFiles, snapshot: Snapshot | None) -> dict[str, int]:
    """Return the first row ids of data files that a published snapshot assigned; none in format version 2."""
    if snapshot is None or format_version_of(files.state.properties) == 2:
        return {}
    name = posixpath.basename(snapshot.manifest_list).removesuffix(LIST_SUFFIX) + PARTS_SUFFIX
    path = published_folder_of(files.state.table_id) + name
    (data,) = store.read_many([path])
    try:
        return {} if data is None else decode_first_row_ids(data.decode())
    except ValueError as error:
        raise FormatError(f"{path} is damaged; delete it, which assigns new row ids") from error


def _find_last_published(
    store: Store, existing: Mapping[str, ObjectInfo], revisions: TableRevisions
) -> tuple[TableRevision | None, str]:
    """Return the newest version with a metadata file of its history, and the path, with the same tags if possible.

    The state of the version must have the name of the file: a copied lakehouse has the files of
    its source too, and a newer release the files of an older one.
    """
    paths: dict[int, list[str]] = {}
    for path in existing:
        if (match := _HISTORY.fullmatch(path)) is not None and int(match[1]) <= revisions.newest.version:
            paths.setdefault(int(match[1]), []).append(path)
    version = max(paths, default=0)
    base = revisions.find_at(version) if paths else None
    if base is None:
        return None, ""
    name = compute_published_name(base.state, store.uri)
    own = [path for path in paths[version] if path.startswith(name.history_path(version).removesuffix(METADATA_SUFFIX))]
    requested = name.history_path(version, revisions.labels)
    return (base, requested if requested in own else own[0]) if own else (None, "")


def _append_revision(
    store: Store, listed: _Listed, revision: TableRevision, folder: str
) -> tuple[_Listed, PublishedMetadata, frozenset[str]]:
    """Write the snapshot of a state after the listed ones; return the longer list, its metadata and its files."""
    state = revision.state
    name = compute_published_name(state, store.uri)
    if name.snapshot_id is None:
        # A table without writes has no snapshot, and nothing before it counts.
        empty = _Listed(files=SnapshotFiles(state, name))
        return empty, build_table_metadata(state, folder, None, revision.at_millis), frozenset()
    existing = list_published_files(store, state)
    number = max(listed.sequence_number + 1, sequence_number_of(state))
    parent_id = None if listed.files is None else listed.files.name.snapshot_id
    files = plan_snapshot_files(store, state, name, existing)
    restored = next((one for one in listed.snapshots if one.snapshot_id == name.snapshot_id), None)
    known = {} if listed.files is None else listed.files.first_row_ids
    files = assign_row_ids(files, {**known, **_load_row_ids(store, files, restored)}, listed.next_row_id)
    if listed.files is not None:
        files = replace(files, name=name.after(parent_id, number, files.first_row_ids))
    at_millis = max(revision.at_millis, *(one.timestamp_ms for one in listed.log), 0)
    published, parts = write_snapshot(store, files, existing, listed.files, number)
    metadata = build_table_metadata(state, folder, published, at_millis)
    (alone,) = metadata.snapshots
    snapshot = alone.model_copy(
        update={
            "parent_snapshot_id": parent_id,
            "sequence_number": number,
            "summary": _with_version(alone.summary, revision.version),
        }
    )
    longer = _extend(listed, snapshot, metadata, files, max_snapshots_of(state.properties))
    return longer, _with_history(metadata, longer), parts


def _with_version(summary: Summary | None, version: int) -> Summary:
    assert summary is not None
    return Summary(summary.operation, **summary.additional_properties, **{VERSION_KEY: str(version)})


def _extend(
    listed: _Listed, snapshot: Snapshot, metadata: PublishedMetadata, files: SnapshotFiles, count_max: int
) -> _Listed:
    """Return the list with one more snapshot and without the oldest above the limit.

    A state that a rollback restored keeps its snapshot, and the log has it twice. If the ids
    of schemas or specs have another meaning now, or the format version is lower, the snapshots
    before are not listed.
    """
    now = {one.schema_id: one for one in metadata.schemas}
    is_same_numbering = all(now.get(one.schema_id, one) == one for one in listed.schemas)
    if listed.files is not None:
        is_same_numbering &= _keeps_numbers(listed.files.state.version, files.state.version)
        before, after = (format_version_of(one.state.properties) for one in (listed.files, files))
        is_same_numbering &= before <= after
    earlier = listed.snapshots if is_same_numbering else ()
    is_new = all(one.snapshot_id != snapshot.snapshot_id for one in earlier)
    snapshots = (*earlier, snapshot)[-count_max:] if is_new else earlier
    ids = {one.snapshot_id for one in snapshots}
    log = [
        *listed.log,
        SnapshotLogEntry.model_validate({"snapshot-id": snapshot.snapshot_id, "timestamp-ms": snapshot.timestamp_ms}),
    ]
    unlisted = max((index for index, one in enumerate(log) if one.snapshot_id not in ids), default=-1)
    used = {one.schema_id for one in snapshots} - now.keys()
    schemas = [one for one in listed.schemas if one.schema_id in used]
    next_row_id = listed.next_row_id if files.row_ids is None else files.row_ids.stop
    return _Listed(snapshots, tuple(log[unlisted + 1 :]), (*schemas, *metadata.schemas), files, next_row_id)


def _keeps_numbers(before: TableVersion, after: TableVersion) -> bool:
    """Return whether the ids of specs keep their meaning, also in the next table version if partitions changed.

    A spec disappears with the column of one of its fields; then readers cannot open manifests with its id.
    """
    is_next = after.previous_version == before.version and set(before.partition_schemes) <= set(after.partition_schemes)
    is_same = _fields_by_spec_id(before).items() <= _fields_by_spec_id(after).items()
    return is_same and (after.version == before.version or is_next)


def _fields_by_spec_id(version: TableVersion) -> dict[int, tuple[tuple[int, str], ...]]:
    return {
        one.spec.spec_id: tuple((field.source_id, str(field.transform)) for field in one.spec.fields)
        for one in list_published_specs(version)
    }


def _with_history(metadata: PublishedMetadata, listed: _Listed) -> PublishedMetadata:
    assert listed.files is not None
    current_id = listed.files.name.snapshot_id
    main = SnapshotRef.model_validate({"snapshot-id": current_id, "type": SnapshotRefType.BRANCH})
    return metadata.model_copy(
        update={
            "snapshots": list(listed.snapshots),
            "snapshot_log": list(listed.log),
            "schemas": list(listed.schemas),
            "refs": {MAIN_BRANCH: main},
            "last_sequence_number": listed.sequence_number,
        }
    )


def _without_tagged(metadata: PublishedMetadata) -> PublishedMetadata:
    """Return the metadata without the snapshots that only tags of the table refer to, which the log does not have."""
    logged = {one.snapshot_id for one in metadata.snapshot_log}
    return metadata.model_copy(update={"snapshots": [one for one in metadata.snapshots if one.snapshot_id in logged]})


def _with_tags(
    store: Store,
    metadata: PublishedMetadata,
    last: PublishedMetadata | None,
    revisions: TableRevisions,
    folder: str,
) -> tuple[PublishedMetadata, set[str]]:
    """Return the metadata with the tags of the table and those of listed snapshots, and the files written for them.

    `last` is the metadata whose list is continued; its snapshots are used again.
    """
    versions = [int(one.summary[VERSION_KEY] or 0) for one in metadata.snapshots if one.summary]
    refs = {name: ref for name, ref in metadata.refs.items() if name == MAIN_BRANCH}
    needed = set[str]()
    for name, tag in revisions.tags.items():
        if name == MAIN_BRANCH or (not tag.is_own and tag.version < min(versions, default=tag.version + 1)):
            continue
        revision = revisions.find_at(tag.version)
        snapshot_id = None if revision is None else compute_published_name(revision.state, store.uri).snapshot_id
        if revision is None or snapshot_id is None:
            continue
        if tag.is_own and metadata.snapshot_by_id(snapshot_id) is None:
            metadata, parts = _with_tagged(store, metadata, last, revision, revisions.newest.state, folder)
            needed |= parts
        snapshot = metadata.snapshot_by_id(snapshot_id)
        if snapshot is not None:
            age = None if tag.until_millis is None else max(1, tag.until_millis - snapshot.timestamp_ms)
            ref = {"snapshot-id": snapshot_id, "type": SnapshotRefType.TAG, "max-ref-age-ms": age}
            refs[name] = SnapshotRef.model_validate(ref)
    return metadata.model_copy(update={"refs": refs}), needed


def _with_tagged(
    store: Store,
    metadata: PublishedMetadata,
    last: PublishedMetadata | None,
    revision: TableRevision,
    newest: TableState,
    folder: str,
) -> tuple[PublishedMetadata, frozenset[str]]:
    """Return the metadata with the snapshot of an earlier state before the listed ones, and the files of it.

    It is left out if the ids of its schema or specs have another meaning now.
    """
    specs, earlier_specs = _fields_by_spec_id(newest.version), _fields_by_spec_id(revision.state.version)
    if not earlier_specs.items() <= specs.items() or format_version_of(revision.state.properties) > format_version_of(
        newest.properties
    ):
        return metadata, frozenset()
    snapshot_id = compute_published_name(revision.state, store.uri).snapshot_id
    snapshot = None if last is None or snapshot_id is None else last.snapshot_by_id(snapshot_id)
    if last is not None and snapshot is not None:
        schemas, parts, next_row_id = tuple(last.schemas), frozenset[str](), 0
    else:
        alone, _, parts = _append_revision(store, _Listed(), revision, folder)
        (snapshot,), schemas, next_row_id = alone.snapshots, alone.schemas, alone.next_row_id
    known = {one.schema_id: one for one in metadata.schemas}
    schema = next(one for one in schemas if one.schema_id == snapshot.schema_id)
    if known.get(schema.schema_id, schema) != schema:
        return metadata, frozenset()
    following = max(next_row_id, find_next_row_id(metadata))
    return metadata.model_copy(
        update={
            "snapshots": [snapshot, *metadata.snapshots],
            "schemas": list({schema.schema_id: schema, **known}.values()),
            "last_sequence_number": max(metadata.last_sequence_number, snapshot.sequence_number or 0),
            **({"next_row_id": following} if following else {}),
        }
    ), parts
