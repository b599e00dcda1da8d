"""Writer of Iceberg table metadata for one table state.

Whoever opens the metadata file finds all that it leads to. A showing that dies leaves
files that the next one finds in its listing and uses. A vacuum may take such files
away at the same time, since no version needs them: so whoever used some looks whether they are
still there once its own metadata, which names them, is there.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from pyiceberg.partitioning import PARTITION_FIELD_ID_START
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Summary

from mangrove.errors import ConflictError, FormatError, InvalidInputError, NotFoundError, StorageError
from mangrove.iceberg.locations import FileLocations
from mangrove.iceberg.partition_specs import list_published_sort_orders, list_published_specs
from mangrove.iceberg.publish.manifest_plan import ManifestFileEntry, PlannedManifest, plan_manifests
from mangrove.iceberg.publish.manifests import encode_manifest_list
from mangrove.iceberg.publish.partition_assignment import PartitionedFile, assign_partitions
from mangrove.iceberg.publish.position_deletes import (
    compute_deletes_digest,
    find_position_deletes,
    to_position_delete_file,
)
from mangrove.iceberg.schemas import build_name_mapping, to_iceberg_schema
from mangrove.storage.port import ObjectInfo, Store
from mangrove.storage.uri import parse_root_uri
from mangrove.tables.iceberg_names import (
    CLIENT_SNAPSHOT,
    PARTS_SUFFIX,
    PublishedName,
    compute_published_name,
    decode_position_delete_paths,
    encode_parts,
    published_folder_of,
)
from mangrove.tables.scan_plan import list_live_files, plan_scan
from mangrove.tables.table_state import TableState

__all__ = [
    "RESERVED_PROPERTIES",
    "PublishedSnapshot",
    "PublishedTable",
    "build_table_metadata",
    "publish_metadata",
    "publish_table",
    "published_properties_of",
    "sequence_number_of",
]

_GC_ENABLED: Final = "gc.enabled"
RESERVED_PROPERTIES: Final = frozenset(
    {_GC_ENABLED, TableProperties.DEFAULT_NAME_MAPPING, CLIENT_SNAPSHOT, "format-version", "uuid"}
)
"""The properties that a table is shown with whatever it says itself, or that are never shown."""


@dataclass(frozen=True, slots=True)
class PublishedSnapshot:
    """The one snapshot that a state is shown as."""

    snapshot_id: int
    list_address: str
    counts: Mapping[str, int]
    """How many files and rows there are, by the names that Iceberg gives them."""


def build_table_metadata(
    state: TableState, location: str, snapshot: PublishedSnapshot | None, at_millis: int
) -> TableMetadataV2:
    """Return what an engine reads of a state; without a snapshot nothing was ever written to the table.

    Of the schemas only the valid one is shown: Iceberg needs earlier ones for its own
    earlier snapshots, and there are none.
    """
    schemes = list_published_specs(state.version)
    specs = [shown.spec for shown in schemes]
    fields = state.version.partition_scheme.fields
    current = next(shown.spec.spec_id for shown in schemes if shown.scheme.fields == fields)
    orders = list_published_sort_orders(state.version)
    # A scheme by a column that is no longer there orders nothing that could be told.
    order = next((shown.order for shown in orders if shown.scheme == state.version.sort_scheme), orders[0].order)
    told = {
        "location": location,
        "table-uuid": _uuid_of(state.table_id),
        "last-updated-ms": at_millis,
        "last-column-id": state.schema.last_column_id,
        "schemas": [to_iceberg_schema(state.schema, state.version.keys)],
        "current-schema-id": state.schema.schema_id,
        "partition-specs": specs,
        "default-spec-id": current,
        "last-partition-id": max(PARTITION_FIELD_ID_START - 1, *(spec.last_assigned_field_id for spec in specs)),
        "properties": published_properties_of(state),
        "sort-orders": [shown.order for shown in orders],
        "default-sort-order-id": order.order_id,
        "last-sequence-number": 0,
    }
    if snapshot is not None:
        told |= _snapshot(state, snapshot, at_millis)
    return TableMetadataV2.model_validate(told)


def published_properties_of(state: TableState) -> dict[str, str]:
    """Return the table's own properties, and what no reader or writer of Iceberg may do otherwise.

    Nothing that an engine would take for rubbish may be deleted by it: other versions
    need files that the one that is shown does not.
    """
    own = {name: value for name, value in state.properties.items() if name not in RESERVED_PROPERTIES}
    mapping = build_name_mapping(state.schema).model_dump_json()
    return {**own, _GC_ENABLED: "false", TableProperties.DEFAULT_NAME_MAPPING: mapping}


def sequence_number_of(state: TableState) -> int:
    """Return a number that grows with each delta and is not below any position, since deletes must not be older."""
    return max(1, sum(log.last_position for log in state.logs))


def _snapshot(state: TableState, shown: PublishedSnapshot, at_millis: int) -> dict[str, object]:
    sequence_number = sequence_number_of(state)
    entry = {"snapshot-id": shown.snapshot_id, "timestamp-ms": at_millis}
    snapshot = {
        **entry,
        "sequence-number": sequence_number,
        "manifest-list": shown.list_address,
        # Whoever follows what is appended must not take this for an append: it may be the first that they see.
        "summary": Summary(Operation.OVERWRITE, **{name: str(count) for name, count in shown.counts.items()}),
        "schema-id": state.schema.schema_id,
    }
    return {
        "current-snapshot-id": shown.snapshot_id,
        "snapshots": [snapshot],
        "snapshot-log": [entry],
        "refs": {MAIN_BRANCH: {"snapshot-id": shown.snapshot_id, "type": SnapshotRefType.BRANCH}},
        "last-sequence-number": sequence_number,
    }


def _uuid_of(table_id: str) -> uuid.UUID:
    """Return the table's id, or one made of it where another program's is no UUID."""
    try:
        return uuid.UUID(table_id)
    except ValueError:
        return uuid.uuid5(uuid.NAMESPACE_OID, table_id)


_ATTEMPTS_MAX: Final = 3
_TOGETHER_MAX: Final = 64
_TOGETHER_BYTES: Final = 32 * 1024 * 1024
"""How many files, and from how many bytes on, are written with one call of the store."""


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A state as Iceberg's engines find it."""

    metadata: TableMetadataV2
    metadata_address: str
    location: str
    """The folder of the table, without a slash at its end."""


def publish_table(store: Store, state: TableState, at_millis: int) -> PublishedTable:
    """Write what is missing to show a state, and return what an engine opens.

    `at_millis` is when the version was committed that is read. It is told by whoever shows a
    state first: it is no part of the state, which many versions may share.
    """
    assert not state.is_part, "a table is shown with all of its partitions"
    addresses = FileLocations(store)
    name = compute_published_name(state, store.uri)
    location = addresses.of(f"data/{state.table_id}")
    # Also of a state that was shown before: a file may have become a link since.
    addresses.check_below_root([live.file for log in state.logs for live in list_live_files(log.deltas)])
    metadata = _load_published(store, name, location)
    for _ in range(_ATTEMPTS_MAX):
        if metadata is not None:
            break
        try:
            metadata = _write_metadata(store, state, name, location, at_millis)
        except StorageError as error:
            raise StorageError(
                f"{state.name} could not be shown to Iceberg, for which files are written below {location}/metadata: "
                f"{error}"
            ) from error
    if metadata is None:
        raise ConflictError(
            f"files that show {state.name} to Iceberg were deleted {_ATTEMPTS_MAX} times while they were to be used: "
            "try again when the vacuum is done"
        )
    return PublishedTable(metadata, addresses.of(name.metadata_path), location)


def publish_metadata(store: Store, state: TableState, at_millis: int) -> str:
    """Show a state, and return the address of its metadata, which other processes open."""
    if parse_root_uri(store.uri).scheme == "memory":
        raise InvalidInputError(
            f"{state.name} lies in the memory of this process ({store.uri}), where no other engine opens files: "
            "use a lakehouse in a folder or a bucket"
        )
    return publish_table(store, state, at_millis).metadata_address


def _load_published(store: Store, name: PublishedName, location: str) -> TableMetadataV2 | None:
    """Return the metadata if the state has been shown; refuse one that leads out of the table's folder."""
    try:
        data = store.read(name.metadata_path)
    except NotFoundError:
        return None
    try:
        metadata = TableMetadataV2.model_validate_json(data)
    except ValueError as error:
        raise FormatError(f"{name.metadata_path} is damaged: delete it, and it is written again") from error
    lists = [snapshot.manifest_list for snapshot in metadata.snapshots]
    if metadata.location != location or any(one != FileLocations(store).of(name.list_path) for one in lists):
        raise FormatError(f"{name.metadata_path} leads to files elsewhere: delete it, and it is written again")
    return metadata


def _write_metadata(
    store: Store, state: TableState, name: PublishedName, location: str, at_millis: int
) -> TableMetadataV2 | None:
    """Write all files that are missing; return None if some that were there are no longer."""
    used: Set[str] = frozenset()
    snapshot = None
    if name.snapshot_id is not None:
        there = _list_published_files(store, state)
        snapshot, parts = _write_snapshot(store, state, name, name.snapshot_id, there)
        used = there.keys() & parts
    metadata = build_table_metadata(state, location, snapshot, at_millis)
    store.put(name.metadata_path, metadata.model_dump_json().encode())
    return metadata if not used or used <= _list_published_files(store, state).keys() else None


def _list_published_files(store: Store, state: TableState) -> dict[str, ObjectInfo]:
    listed = store.list(published_folder_of(state.table_id))
    return {entry.path: entry for entry in listed if isinstance(entry, ObjectInfo)}


def _write_snapshot(
    store: Store, state: TableState, name: PublishedName, snapshot_id: int, there: Mapping[str, ObjectInfo]
) -> tuple[PublishedSnapshot, frozenset[str]]:
    """Write the files of a snapshot that are not there; return it with the paths of all of them."""
    addresses = FileLocations(store)
    scans = plan_scan(state).scans
    placed = assign_partitions(state, addresses.of_all([scan.file for scan in scans]), scans)
    rows = [ManifestFileEntry(one.scan.file, one.address, one, one.words) for one in placed]
    root = addresses.of("")
    touched = {compute_deletes_digest(one): one for one in placed if not one.scan.is_whole}
    deleted_rows, sizes = _write_position_deletes(store, state, touched, there)
    delete_files = [
        ManifestFileEntry(to_position_delete_file(path, sizes[path]), root + path, touched[digest], path)
        for digest, path in deleted_rows.items()
        if path
    ]
    manifests = [*plan_manifests(state, rows, root), *plan_manifests(state, delete_files, root)]
    sizes = _write_missing(store, manifests, there)
    records = [manifest.record(sizes[manifest.path]) for manifest in manifests]
    parts = [name.list_path, *(manifest.path for manifest in manifests), *(one.file.location for one in delete_files)]
    encoded = encode_manifest_list(records, snapshot_id, sequence_number_of(state), name.digest)
    store.put_many({name.list_path: encoded, name.parts_path: encode_parts(parts, deleted_rows).encode()})
    return PublishedSnapshot(snapshot_id, root + name.list_path, _counts(rows, delete_files)), frozenset(parts)


def _write_position_deletes(
    store: Store, state: TableState, touched: Mapping[str, PartitionedFile], there: Mapping[str, ObjectInfo]
) -> tuple[dict[str, str], dict[str, int]]:
    """Return by the digests of what hides rows where it is told which, and the sizes of these files.

    What was found for the state that was shown last is known. All else is found out,
    and written where nobody told the same.
    """
    known = _load_known_deletes(store, there) if touched else {}
    known = {digest: path for digest, path in known.items() if not path or path in there}
    found: dict[str, str] = {}
    sizes = {path: entry.size for path, entry in there.items()}

    def written() -> Iterator[tuple[str, bytes]]:
        for one in find_position_deletes(store, state, [touched[digest] for digest in touched if digest not in known]):
            found[one.digest] = one.path
            if one.path and one.path not in there:
                data = one.encoded()
                sizes[one.path] = len(data)
                yield one.path, data

    _write_all(store, written())
    return {digest: found[digest] if digest in found else known[digest] for digest in touched}, sizes


def _load_known_deletes(store: Store, there: Mapping[str, ObjectInfo]) -> dict[str, str]:
    """Return what was found out about hidden rows for the state that was shown last."""
    shown = [entry for path, entry in there.items() if path.endswith(PARTS_SUFFIX)]
    if not shown:
        return {}
    (data,) = store.read_many([max(shown, key=lambda entry: entry.modified_at_millis).path])
    return {} if data is None else decode_position_delete_paths(data.decode(errors="replace"))


def _write_missing(
    store: Store, manifests: Sequence[PlannedManifest], there: Mapping[str, ObjectInfo]
) -> dict[str, int]:
    """Write the manifests that are not there; return the sizes of all."""
    sizes = {path: entry.size for path, entry in there.items()}

    def written() -> Iterator[tuple[str, bytes]]:
        for manifest in manifests:
            if manifest.path not in there:
                data = manifest.encoded()
                sizes[manifest.path] = len(data)
                yield manifest.path, data

    _write_all(store, written())
    return sizes


def _write_all(store: Store, files: Iterable[tuple[str, bytes]]) -> None:
    """Write files, many with one call, and not more than the memory holds."""
    waiting: dict[str, bytes] = {}
    for path, data in files:
        waiting[path] = data
        if len(waiting) == _TOGETHER_MAX or sum(map(len, waiting.values())) >= _TOGETHER_BYTES:
            store.put_many(waiting)
            waiting = {}
    if waiting:
        store.put_many(waiting)


def _counts(rows: Sequence[ManifestFileEntry], delete_files: Sequence[ManifestFileEntry]) -> dict[str, int]:
    return {
        "total-data-files": len(rows),
        "total-delete-files": len(delete_files),
        "total-records": sum(one.file.row_count for one in rows),
        "total-files-size": sum(one.file.size_bytes for one in [*rows, *delete_files]),
        "total-position-deletes": sum(one.file.row_count for one in delete_files),
        "total-equality-deletes": 0,
    }
