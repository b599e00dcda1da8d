"""Writer of Iceberg table metadata for one table state.

The metadata file is written last, so that everything it references exists. The files of an
interrupted publication are listed and reused by the next one. A concurrent vacuum may delete
such files, because no version references them. A writer that reused files therefore lists
them again after it has written its metadata, and starts over if some are missing.
"""

import json
import posixpath
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeAlias

from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.partitioning import PARTITION_FIELD_ID_START
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2, TableMetadataV3
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.typedef import IcebergBaseModel

from mangrove.errors import ConflictError, FormatError, InvalidInputError, NotFoundError, StorageError
from mangrove.iceberg.locations import FileLocations
from mangrove.iceberg.partition_specs import list_published_sort_orders, list_published_specs
from mangrove.iceberg.publish.manifest_plan import (
    EntriesDiff,
    ManifestFileEntry,
    PlannedManifest,
    diff_entries,
    plan_manifests,
)
from mangrove.iceberg.publish.manifests import ManifestChange, encode_manifest_list
from mangrove.iceberg.publish.partition_assignment import PartitionedFile, assign_partitions
from mangrove.iceberg.publish.position_deletes import (
    compute_deletes_digest,
    find_position_deletes,
    to_position_delete_file,
)
from mangrove.iceberg.schemas import build_name_mapping, check_format_version, to_iceberg_schema
from mangrove.local.parquet import encode_parquet, read_columns
from mangrove.model.manifests import PARQUET, DataFile
from mangrove.storage.port import ObjectInfo, Store
from mangrove.storage.uri import parse_root_uri
from mangrove.tables.iceberg_names import (
    CLIENT_SNAPSHOT,
    FORMAT_VERSION,
    NEXT_ROW_ID,
    PARTS_SUFFIX,
    STAGING_FOLDER,
    STATISTICS,
    PublishedName,
    compute_published_name,
    decode_position_delete_paths,
    encode_parts,
    format_version_of,
    next_row_id_of,
    published_folder_of,
)
from mangrove.tables.scan_plan import FileScan, list_live_files, plan_scan
from mangrove.tables.table_state import TableState

__all__ = [
    "RESERVED_PROPERTIES",
    "PublishedMetadata",
    "PublishedMetadataV3",
    "PublishedSnapshot",
    "PublishedTable",
    "SnapshotFiles",
    "assign_row_ids",
    "build_table_metadata",
    "find_next_row_id",
    "list_published_files",
    "load_metadata",
    "plan_snapshot_files",
    "publish_metadata",
    "publish_repeatedly",
    "publish_table",
    "published_properties_of",
    "sequence_number_of",
    "write_snapshot",
]

_GC_ENABLED: Final = "gc.enabled"
RESERVED_PROPERTIES: Final = frozenset(
    {
        _GC_ENABLED,
        TableProperties.DEFAULT_NAME_MAPPING,
        TableProperties.WRITE_DATA_PATH,
        TableProperties.WRITE_METADATA_PATH,
        CLIENT_SNAPSHOT,
        FORMAT_VERSION,
        NEXT_ROW_ID,
        STATISTICS,
        "uuid",
    }
)
"""Properties that publication sets itself or never publishes."""


class PublishedMetadataV3(TableMetadataV3):
    """Metadata of format version 3, which PyIceberg reads but refuses to encode."""

    def model_dump_json(self, *args: Any, **options: Any) -> str:
        """Return the metadata as JSON, like that of other format versions."""
        return IcebergBaseModel.model_dump_json(self, *args, **options)


PublishedMetadata: TypeAlias = TableMetadataV2 | PublishedMetadataV3


def _parse_metadata(document: Mapping[str, Any]) -> PublishedMetadata:
    """Return published metadata from its JSON object; raise ValueError if it is invalid."""
    model = PublishedMetadataV3 if document.get("format-version") == 3 else TableMetadataV2
    return model.model_validate(document)


def find_next_row_id(metadata: TableMetadata) -> int:
    """Return a number above all row ids that metadata has assigned; 0 before format version 3."""
    return (metadata.next_row_id or 0) if isinstance(metadata, TableMetadataV3) else 0


@dataclass(frozen=True, slots=True)
class PublishedSnapshot:
    """An Iceberg snapshot of a published state."""

    snapshot_id: int
    list_address: str
    counts: Mapping[str, int]
    """Numbers of files and rows by their names in the snapshot summary."""
    operation: Operation = Operation.OVERWRITE
    """Without a known parent no append, by which incremental readers would take all rows for new ones."""
    row_ids: range | None = None
    """The row ids that the snapshot assigned, in format version 3."""


@dataclass(frozen=True, slots=True)
class SnapshotFiles:
    """The data files and position delete files of a table state; none for a table without writes."""

    state: TableState
    name: PublishedName
    data: Sequence[ManifestFileEntry] = ()
    deletes: Sequence[ManifestFileEntry] = ()
    delete_paths: Mapping[str, str] = field(default_factory=dict)
    """The paths of position delete files by deletes digest; empty if no row is deleted."""
    row_ids: range | None = None
    """The row ids of data files that had none before, in format version 3."""

    @property
    def first_row_ids(self) -> dict[str, int]:
        """The first row ids of data files by location; empty in format version 2."""
        return {one.file.location: one.first_row_id for one in self.data if one.first_row_id is not None}


def assign_row_ids(files: SnapshotFiles, known: Mapping[str, int], next_row_id: int) -> SnapshotFiles:
    """Return the files with first row ids in format version 3: known ones stay, other files get the next ids."""
    if format_version_of(files.state.properties) == 2:
        return files
    following = max(next_row_id, next_row_id_of(files.state.properties))
    first = following
    data: list[ManifestFileEntry] = []
    for one in files.data:
        row_id = known.get(one.file.location)
        if row_id is None:
            row_id, following = following, following + one.file.row_count
        data.append(replace(one, first_row_id=row_id))
    return replace(files, data=data, row_ids=range(first, following))


def build_table_metadata(
    state: TableState, folder: str, snapshot: PublishedSnapshot | None, at_millis: int
) -> PublishedMetadata:
    """Return the Iceberg metadata of a state, whose files are stored in a folder.

    A table without writes has no snapshot. Only the current schema is published: Iceberg
    needs earlier ones for earlier snapshots, and there are none.
    """
    schemes = list_published_specs(state.version)
    specs = [one for _, one in sorted({one.spec.spec_id: one.spec for one in schemes}.items())]
    fields = state.version.partition_scheme.fields
    current = next(one.spec.spec_id for one in schemes if one.scheme.fields == fields)
    orders = list_published_sort_orders(state.version)
    format_version = format_version_of(state.properties)
    # A sort scheme by a dropped column is published as unsorted.
    order = next((one.order for one in orders if one.scheme == state.version.sort_scheme), orders[0].order)
    metadata: dict[str, object] = {
        "format-version": format_version,
        "location": f"{folder}/{STAGING_FOLDER}",
        "table-uuid": _uuid_of(state.table_id),
        "last-updated-ms": at_millis,
        "last-column-id": state.schema.last_column_id,
        "schemas": [to_iceberg_schema(state.schema, state.version.identifier_fields, has_defaults=format_version == 3)],
        "current-schema-id": state.schema.schema_id,
        "partition-specs": specs,
        "default-spec-id": current,
        "last-partition-id": max(PARTITION_FIELD_ID_START - 1, *(spec.last_assigned_field_id for spec in specs)),
        "properties": published_properties_of(state, folder),
        "sort-orders": [one.order for one in orders],
        "default-sort-order-id": order.order_id,
        "last-sequence-number": 0,
    }
    if metadata["format-version"] == 3:
        metadata["next-row-id"] = next_row_id_of(state.properties)
    if snapshot is not None:
        metadata |= _build_snapshot_fields(state, snapshot, at_millis)
    return _parse_metadata(metadata)


def published_properties_of(state: TableState, folder: str) -> dict[str, str]:
    """Return the table's properties with the reserved ones.

    `gc.enabled` is false: other versions need files that the published snapshot does not
    reference. Not all engines respect it, so writers get paths outside the location.
    """
    own = {name: value for name, value in state.properties.items() if name not in RESERVED_PROPERTIES}
    mapping = build_name_mapping(state.schema).model_dump_json()
    return {
        **own,
        _GC_ENABLED: "false",
        TableProperties.DEFAULT_NAME_MAPPING: mapping,
        TableProperties.WRITE_DATA_PATH: f"{folder}/data",
        TableProperties.WRITE_METADATA_PATH: f"{folder}/metadata",
    }


def sequence_number_of(state: TableState) -> int:
    """Return a sequence number that grows with each delta and is not below any log position."""
    return max(1, sum(log.last_position for log in state.logs))


def _build_snapshot_fields(state: TableState, published: PublishedSnapshot, at_millis: int) -> dict[str, object]:
    sequence_number = sequence_number_of(state)
    entry = {"snapshot-id": published.snapshot_id, "timestamp-ms": at_millis}
    snapshot = {
        **entry,
        "sequence-number": sequence_number,
        "manifest-list": published.list_address,
        "summary": Summary(published.operation, **{name: str(count) for name, count in published.counts.items()}),
        "schema-id": state.schema.schema_id,
    }
    row_ids = published.row_ids
    if row_ids is not None:
        snapshot |= {"first-row-id": row_ids.start, "added-rows": len(row_ids)}
    return {
        **({} if row_ids is None else {"next-row-id": row_ids.stop}),
        "current-snapshot-id": published.snapshot_id,
        "snapshots": [snapshot],
        "snapshot-log": [entry],
        "refs": {MAIN_BRANCH: {"snapshot-id": published.snapshot_id, "type": SnapshotRefType.BRANCH}},
        "last-sequence-number": sequence_number,
    }


def _uuid_of(table_id: str) -> uuid.UUID:
    """Return the table's id as a UUID; ids of other programs that are no UUIDs are hashed."""
    try:
        return uuid.UUID(table_id)
    except ValueError:
        return uuid.uuid5(uuid.NAMESPACE_OID, table_id)


_ATTEMPTS_MAX: Final = 3
_BATCH_FILES_MAX: Final = 64
_BATCH_BYTES: Final = 32 * 1024 * 1024
"""Number of files and bytes after which a batch is written with one call of the store."""


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """The published metadata of a table state."""

    metadata: PublishedMetadata
    metadata_address: str
    folder: str
    """The location of the table's folder, without a trailing slash; engines see a folder below it as the location."""

    @property
    def file_name(self) -> str:
        """The name of the metadata file."""
        return posixpath.basename(self.metadata_address)


def publish_table(store: Store, state: TableState, at_millis: int) -> PublishedTable:
    """Write the missing Iceberg files of a state and return the published table.

    `at_millis` is the commit time of the version that is read. The first publication of a
    state determines it, because many versions may share a state.
    """
    assert not state.is_part, "a table is published with all of its partitions"
    check_format_version(state.schema, format_version_of(state.properties))
    addresses = FileLocations(store)
    name = compute_published_name(state, store.uri)
    folder = addresses.of_table(state.table_id)
    # Checked for published states too: a file may have become a link since.
    addresses.check_below_root([live.file for log in state.logs for live in list_live_files(log.deltas)])
    metadata = load_metadata(store, name.metadata_path, state.table_id)
    if metadata is None:
        publish = partial(_write_metadata, store, state, name, folder, at_millis)
        _, metadata = publish_repeatedly(state, folder, publish)
    return PublishedTable(metadata, addresses.of(name.metadata_path), folder)


def publish_repeatedly(
    state: TableState, folder: str, publish: Callable[[], tuple[str, PublishedMetadata] | None]
) -> tuple[str, PublishedMetadata]:
    """Call `publish` until it returns a result; it returns None if a vacuum deleted files that it reused."""
    for _ in range(_ATTEMPTS_MAX):
        try:
            published = publish()
        except StorageError as error:
            raise StorageError(
                f"cannot publish {state.name} as Iceberg, which writes files below {folder}/metadata: {error}"
            ) from error
        if published is not None:
            return published
    raise ConflictError(
        f"a concurrent vacuum deleted Iceberg files of {state.name} in each of {_ATTEMPTS_MAX} attempts; retry "
        "after the vacuum"
    )


def publish_metadata(store: Store, state: TableState, at_millis: int) -> str:
    """Publish a state and return the location of its metadata file."""
    if parse_root_uri(store.uri).scheme == "memory":
        raise InvalidInputError(
            f"{state.name} is stored in the memory of this process ({store.uri}), which other engines cannot read; use "
            "a lakehouse in a folder or a bucket"
        )
    return publish_table(store, state, at_millis).metadata_address


def load_metadata(store: Store, path: str, table_id: str) -> PublishedMetadata | None:
    """Return a published metadata file of a table or None; it must reference only the table's folder."""
    try:
        data = store.read(path)
    except NotFoundError:
        return None
    try:
        metadata = _parse_metadata(json.loads(data))
    except (ValueError, AttributeError) as error:
        raise FormatError(f"{path} is damaged; delete it to have it written again") from error
    folder = FileLocations(store).of_table(table_id)
    if metadata.location != f"{folder}/{STAGING_FOLDER}" or any(
        posixpath.dirname(one.manifest_list) != f"{folder}/metadata" for one in metadata.snapshots
    ):
        raise FormatError(f"{path} references files outside the table's folder; delete it to have it written again")
    return metadata


def _write_metadata(
    store: Store, state: TableState, name: PublishedName, folder: str, at_millis: int
) -> tuple[str, PublishedMetadata] | None:
    """Write all missing files; return None if reused files were deleted meanwhile."""
    reused: Set[str] = frozenset()
    snapshot = None
    if name.snapshot_id is not None:
        existing = list_published_files(store, state)
        files = assign_row_ids(plan_snapshot_files(store, state, name, existing), {}, 0)
        snapshot, parts = write_snapshot(store, files, existing)
        reused = existing.keys() & parts
    metadata = build_table_metadata(state, folder, snapshot, at_millis)
    store.put(name.metadata_path, metadata.model_dump_json().encode())
    is_complete = not reused or reused <= list_published_files(store, state).keys()
    return (name.metadata_path, metadata) if is_complete else None


def list_published_files(store: Store, state: TableState) -> dict[str, ObjectInfo]:
    """Return the files in the metadata folder of a table by path."""
    listed = store.list(published_folder_of(state.table_id))
    return {entry.path: entry for entry in listed if isinstance(entry, ObjectInfo)}


def plan_snapshot_files(
    store: Store, state: TableState, name: PublishedName, existing: Mapping[str, ObjectInfo]
) -> SnapshotFiles:
    """Return the files of a state; write its missing position delete files."""
    if name.snapshot_id is None:
        return SnapshotFiles(state, name)
    addresses = FileLocations(store)
    scans = _write_inline_rows(store, state, plan_scan(state).scans)
    data_files = assign_partitions(state, addresses.of_all([scan.file for scan in scans]), scans)
    data_entries = [ManifestFileEntry(one.scan.file, one.address, one, one.identity) for one in data_files]
    root = addresses.of("")
    format_version = format_version_of(state.properties)
    with_deletes = {compute_deletes_digest(one, format_version): one for one in data_files if not one.scan.is_whole}
    delete_paths, sizes = _write_position_deletes(store, state, with_deletes, existing)
    delete_entries = [
        ManifestFileEntry(to_position_delete_file(path, sizes[path]), root + path, with_deletes[digest], path)
        for digest, path in delete_paths.items()
        if path
    ]
    return SnapshotFiles(state, name, data_entries, delete_entries, delete_paths)


def write_snapshot(
    store: Store,
    files: SnapshotFiles,
    existing: Mapping[str, ObjectInfo],
    parent: SnapshotFiles | None = None,
    sequence_number: int | None = None,
) -> tuple[PublishedSnapshot, frozenset[str]]:
    """Write the missing files of a snapshot; return it with the paths of all its files.

    With a parent the manifests tell which files the snapshot added and removed.
    """
    name = files.name
    assert name.snapshot_id is not None
    root = FileLocations(store).of("")
    number = sequence_number_of(files.state) if sequence_number is None else sequence_number
    if parent is None:
        format_version = format_version_of(files.state.properties)
        manifests = [
            manifest
            for entries in (files.data, files.deletes)
            for manifest in plan_manifests(files.state, entries, root, format_version=format_version)
        ]
        operation, changes = Operation.OVERWRITE, {}
    else:
        data, deletes = diff_entries(parent.data, files.data), diff_entries(parent.deletes, files.deletes)
        manifests = [
            manifest
            for diff in (data, deletes)
            for manifest in _plan_changed_manifests(files, parent, diff, root, number)
        ]
        operation, changes = _choose_operation(data, deletes), _count_changes(data, deletes)
    sizes = _write_missing(store, manifests, existing)
    records = [manifest.build_record(sizes[manifest.path]) for manifest in manifests]
    parts = [name.list_path, *(manifest.path for manifest in manifests), *(one.file.location for one in files.deletes)]
    first_row_id = None if files.row_ids is None else files.row_ids.start
    encoded = encode_manifest_list(records, name.snapshot_id, number, name.digest, first_row_id)
    listed_parts = encode_parts(parts, files.delete_paths, files.first_row_ids).encode()
    store.put_many({name.list_path: encoded, name.parts_path: listed_parts})
    counts = {**_count_files(files.data, files.deletes), **changes}
    snapshot = PublishedSnapshot(name.snapshot_id, root + name.list_path, counts, operation, files.row_ids)
    return snapshot, frozenset(parts)


def _plan_changed_manifests(
    files: SnapshotFiles, parent: SnapshotFiles, diff: EntriesDiff, root: str, sequence_number: int
) -> list[PlannedManifest]:
    """Return the manifests of the unchanged, the added and the removed files of one kind."""
    assert files.name.snapshot_id is not None
    added, removed = (
        ManifestChange(status, files.name.snapshot_id, sequence_number)
        for status in (ManifestEntryStatus.ADDED, ManifestEntryStatus.DELETED)
    )
    format_version = format_version_of(files.state.properties)
    return [
        *plan_manifests(files.state, diff.unchanged, root, format_version=format_version),
        *plan_manifests(files.state, diff.added, root, added, format_version=format_version),
        *plan_manifests(parent.state, diff.removed, root, removed, format_version=format_version),
    ]


def _choose_operation(data: EntriesDiff, deletes: EntriesDiff) -> Operation:
    """Return the operation of a snapshot. A compaction is an overwrite: it may have removed rows too."""
    is_delete = bool(data.removed or deletes.added or deletes.removed)
    if data.added:
        return Operation.OVERWRITE if is_delete else Operation.APPEND
    return Operation.DELETE if is_delete else Operation.REPLACE


def _write_inline_rows(store: Store, state: TableState, scans: Sequence[FileScan]) -> list[FileScan]:
    """Write inline rows as data files at their locations, unless these exist; return the scans of files only."""
    inline = [scan.file for scan in scans if scan.file.is_inline]
    folders = {posixpath.dirname(file.path) + "/" for file in inline}
    listed = (entry for folder in folders for entry in store.list(folder))
    sizes = {entry.path: entry.size for entry in listed if isinstance(entry, ObjectInfo)}
    missing = {
        file.path: encode_parquet(read_columns(store, file, state.schema.columns))
        for file in inline
        if file.path not in sizes
    }
    store.put_many(missing)
    sizes |= {path: len(data) for path, data in missing.items()}
    return [replace(scan, file=_to_stored_file(scan.file, sizes)) if scan.file.is_inline else scan for scan in scans]


def _to_stored_file(file: DataFile, sizes: Mapping[str, int]) -> DataFile:
    return replace(file, size_bytes=sizes[file.path], content_type=PARQUET, inline_rows=None)


def _write_position_deletes(
    store: Store, state: TableState, with_deletes: Mapping[str, PartitionedFile], existing: Mapping[str, ObjectInfo]
) -> tuple[dict[str, str], dict[str, int]]:
    """Return the paths of position delete files by deletes digest, and the sizes of the files.

    The result of the last published state is reused. The rest is computed, and written unless
    the file exists.
    """
    known = _load_known_deletes(store, existing) if with_deletes else {}
    known = {digest: path for digest, path in known.items() if not path or path in existing}
    computed: dict[str, str] = {}
    sizes = {path: entry.size for path, entry in existing.items()}

    def encode_missing() -> Iterator[tuple[str, bytes]]:
        unknown = [with_deletes[digest] for digest in with_deletes if digest not in known]
        for one in find_position_deletes(store, state, unknown):
            computed[one.digest] = one.path
            if one.path and one.path not in existing:
                data = one.encode()
                sizes[one.path] = len(data)
                yield one.path, data

    _write_all(store, encode_missing())
    return {digest: computed[digest] if digest in computed else known[digest] for digest in with_deletes}, sizes


def _load_known_deletes(store: Store, existing: Mapping[str, ObjectInfo]) -> dict[str, str]:
    """Return the position delete files of the last published state by deletes digest."""
    parts_files = [entry for path, entry in existing.items() if path.endswith(PARTS_SUFFIX)]
    if not parts_files:
        return {}
    (data,) = store.read_many([max(parts_files, key=lambda entry: entry.modified_at_millis).path])
    return {} if data is None else decode_position_delete_paths(data.decode(errors="replace"))


def _write_missing(
    store: Store, manifests: Sequence[PlannedManifest], existing: Mapping[str, ObjectInfo]
) -> dict[str, int]:
    """Write the missing manifests; return the sizes of all."""
    sizes = {path: entry.size for path, entry in existing.items()}

    def encode_missing() -> Iterator[tuple[str, bytes]]:
        for manifest in manifests:
            if manifest.path not in existing:
                data = manifest.encode()
                sizes[manifest.path] = len(data)
                yield manifest.path, data

    _write_all(store, encode_missing())
    return sizes


def _write_all(store: Store, files: Iterable[tuple[str, bytes]]) -> None:
    """Write files in batches of bounded size."""
    batch: dict[str, bytes] = {}
    for path, data in files:
        batch[path] = data
        if len(batch) == _BATCH_FILES_MAX or sum(map(len, batch.values())) >= _BATCH_BYTES:
            store.put_many(batch)
            batch = {}
    if batch:
        store.put_many(batch)


def _count_changes(data: EntriesDiff, deletes: EntriesDiff) -> dict[str, int]:
    counts = {
        "added-data-files": len(data.added),
        "deleted-data-files": len(data.removed),
        "added-records": sum(one.file.row_count for one in data.added),
        "deleted-records": sum(one.file.row_count for one in data.removed),
        "added-delete-files": len(deletes.added),
        "removed-delete-files": len(deletes.removed),
    }
    return {name: count for name, count in counts.items() if count}


def _count_files(data: Sequence[ManifestFileEntry], deletes: Sequence[ManifestFileEntry]) -> dict[str, int]:
    return {
        "total-data-files": len(data),
        "total-delete-files": len(deletes),
        "total-records": sum(one.file.row_count for one in data),
        "total-files-size": sum(one.file.size_bytes for one in [*data, *deletes]),
        "total-position-deletes": sum(one.file.row_count for one in deletes),
        "total-equality-deletes": 0,
    }
