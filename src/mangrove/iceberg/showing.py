"""Showing a state of a table to Iceberg's engines: writing the files that are missing, the metadata last.

Whoever opens the metadata file finds all that it leads to. A showing that dies leaves
files that the next one finds in its listing and uses. A vacuum may take such files
away at the same time, since no version needs them: so whoever used some looks whether they are
still there once its own metadata, which names them, is there.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from pyiceberg.table.metadata import TableMetadataV2

from mangrove.errors import ConflictError, FormatError, InvalidInputError, NotFoundError, StorageError
from mangrove.iceberg.addresses import Addresses
from mangrove.iceberg.hidden import found_hidden, hidden_digest, hidden_file
from mangrove.iceberg.manifests import manifest_list_bytes
from mangrove.iceberg.metadata import ShownSnapshot, metadata_of, sequence_number_of
from mangrove.iceberg.placing import PlacedFile, placed_files
from mangrove.iceberg.planned_manifests import PlannedManifest, ToldFile, planned_manifests
from mangrove.storage.port import ObjectInfo, Store
from mangrove.storage.uri import parse_root
from mangrove.tables.live_files import live_files
from mangrove.tables.scan_plan import plan_scan
from mangrove.tables.shown_names import PARTS_ENDING, ShownName, hidden_in_parts, parts_text, shown_folder, shown_name
from mangrove.tables.table_state import TableState

__all__ = ["Shown", "show", "shown_address"]

_ATTEMPTS_MAX: Final = 3
_TOGETHER_MAX: Final = 64
_TOGETHER_BYTES: Final = 32 * 1024 * 1024
"""How many files, and from how many bytes on, are written with one call of the store."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A state as Iceberg's engines find it."""

    metadata: TableMetadataV2
    metadata_address: str
    location: str
    """The folder of the table, without a slash at its end."""


def show(store: Store, state: TableState, at_millis: int) -> Shown:
    """Write what is missing to show a state, and return what an engine opens.

    `at_millis` is when the version was committed that is read. It is told by whoever shows a
    state first: it is no part of the state, which many versions may share.
    """
    assert not state.is_part, "a table is shown with all of its partitions"
    addresses = Addresses(store)
    name = shown_name(state, store.uri)
    location = addresses.of(f"data/{state.table_id}")
    # Also of a state that was shown before: a file may have become a link since.
    addresses.check_below_root([live.file for log in state.logs for live in live_files(log.deltas)])
    metadata = _known(store, name, location)
    for _ in range(_ATTEMPTS_MAX):
        if metadata is not None:
            break
        try:
            metadata = _written(store, state, name, location, at_millis)
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
    return Shown(metadata, addresses.of(name.metadata_path), location)


def shown_address(store: Store, state: TableState, at_millis: int) -> str:
    """Show a state, and return the address of its metadata, which other processes open."""
    if parse_root(store.uri).scheme == "memory":
        raise InvalidInputError(
            f"{state.name} lies in the memory of this process ({store.uri}), where no other engine opens files: "
            "use a lakehouse in a folder or a bucket"
        )
    return show(store, state, at_millis).metadata_address


def _known(store: Store, name: ShownName, location: str) -> TableMetadataV2 | None:
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
    if metadata.location != location or any(one != Addresses(store).of(name.list_path) for one in lists):
        raise FormatError(f"{name.metadata_path} leads to files elsewhere: delete it, and it is written again")
    return metadata


def _written(store: Store, state: TableState, name: ShownName, location: str, at_millis: int) -> TableMetadataV2 | None:
    """Write all files that are missing; return None if some that were there are no longer."""
    used: Set[str] = frozenset()
    snapshot = None
    if name.snapshot_id is not None:
        there = _listed(store, state)
        snapshot, parts = _shown_snapshot(store, state, name, name.snapshot_id, there)
        used = there.keys() & parts
    metadata = metadata_of(state, location, snapshot, at_millis)
    store.put(name.metadata_path, metadata.model_dump_json().encode())
    return metadata if not used or used <= _listed(store, state).keys() else None


def _listed(store: Store, state: TableState) -> dict[str, ObjectInfo]:
    listed = store.list(shown_folder(state.table_id))
    return {entry.path: entry for entry in listed if isinstance(entry, ObjectInfo)}


def _shown_snapshot(
    store: Store, state: TableState, name: ShownName, snapshot_id: int, there: Mapping[str, ObjectInfo]
) -> tuple[ShownSnapshot, frozenset[str]]:
    """Write the files of a snapshot that are not there; return it with the paths of all of them."""
    addresses = Addresses(store)
    scans = plan_scan(state).scans
    placed = placed_files(state, addresses.of_all([scan.file for scan in scans]), scans)
    rows = [ToldFile(one.scan.file, one.address, one, one.words) for one in placed]
    root = addresses.of("")
    touched = {hidden_digest(one): one for one in placed if not one.scan.is_whole}
    hidden, sizes = _hidden_files(store, state, touched, there)
    hiding = [
        ToldFile(hidden_file(path, sizes[path]), root + path, touched[digest], path)
        for digest, path in hidden.items()
        if path
    ]
    manifests = [*planned_manifests(state, rows, root), *planned_manifests(state, hiding, root)]
    sizes = _write_missing(store, manifests, there)
    records = [manifest.record(sizes[manifest.path]) for manifest in manifests]
    parts = [name.list_path, *(manifest.path for manifest in manifests), *(one.file.location for one in hiding)]
    encoded = manifest_list_bytes(records, snapshot_id, sequence_number_of(state), name.digest)
    store.put_many({name.list_path: encoded, name.parts_path: parts_text(parts, hidden).encode()})
    return ShownSnapshot(snapshot_id, root + name.list_path, _counts(rows, hiding)), frozenset(parts)


def _hidden_files(
    store: Store, state: TableState, touched: Mapping[str, PlacedFile], there: Mapping[str, ObjectInfo]
) -> tuple[dict[str, str], dict[str, int]]:
    """Return by the digests of what hides rows where it is told which, and the sizes of these files.

    What was found for the state that was shown last is known. All else is found out,
    and written where nobody told the same.
    """
    known = _known_hidden(store, there) if touched else {}
    known = {digest: path for digest, path in known.items() if not path or path in there}
    found: dict[str, str] = {}
    sizes = {path: entry.size for path, entry in there.items()}

    def written() -> Iterator[tuple[str, bytes]]:
        for one in found_hidden(store, state, [touched[digest] for digest in touched if digest not in known]):
            found[one.digest] = one.path
            if one.path and one.path not in there:
                data = one.encoded()
                sizes[one.path] = len(data)
                yield one.path, data

    _write_all(store, written())
    return {digest: found[digest] if digest in found else known[digest] for digest in touched}, sizes


def _known_hidden(store: Store, there: Mapping[str, ObjectInfo]) -> dict[str, str]:
    """Return what was found out about hidden rows for the state that was shown last."""
    shown = [entry for path, entry in there.items() if path.endswith(PARTS_ENDING)]
    if not shown:
        return {}
    (data,) = store.read_many([max(shown, key=lambda entry: entry.modified_at_millis).path])
    return {} if data is None else hidden_in_parts(data.decode(errors="replace"))


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


def _counts(rows: Sequence[ToldFile], hiding: Sequence[ToldFile]) -> dict[str, int]:
    return {
        "total-data-files": len(rows),
        "total-delete-files": len(hiding),
        "total-records": sum(one.file.row_count for one in rows),
        "total-files-size": sum(one.file.size_bytes for one in [*rows, *hiding]),
        "total-position-deletes": sum(one.file.row_count for one in hiding),
        "total-equality-deletes": 0,
    }
