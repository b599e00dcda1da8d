"""Reader that derives table changes from the manifests of a client snapshot.

Changes that our readers would interpret differently are rejected. The client's position
deletes and deletion vectors reference data files by location, ours by path; they are rewritten
as one position delete file per data file.

A client that ignores `write.data.path` writes its files below the table's location, where
engines may delete them later. These files are copied.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from mangrove.errors import FormatError, InvalidInputError
from mangrove.iceberg.commit.file_changes import ClientManifestEntry, FileChanges, VectorLocation, diff_manifests
from mangrove.iceberg.commit.file_validation import open_client_file, validate_data_file, validate_equality_delete_file
from mangrove.iceberg.commit.manifest_reader import ClientFileIO, TableLocation, read_file_size
from mangrove.iceberg.commit.snapshot_to_deltas import FileInLog, LiveDataFile, SnapshotChanges, index_live_files
from mangrove.iceberg.data_files import from_iceberg_data_file
from mangrove.iceberg.deletion_vectors import decode_deletion_vector
from mangrove.iceberg.locations import FileLocations, folder_of, normalize_location
from mangrove.iceberg.partition_specs import list_published_sort_orders
from mangrove.iceberg.values import from_partition_record
from mangrove.local.data_files import FileWriter
from mangrove.local.parquet import read_columns
from mangrove.local.row_numbers import build_row_numbers
from mangrove.local.scan import FILE_PATH, POSITION
from mangrove.model.manifests import DataFile
from mangrove.model.values import Value
from mangrove.parallel import map_parallel
from mangrove.storage.port import Store
from mangrove.tables.table_state import TableState, check_key_types

__all__ = ["SnapshotReader"]

_PC: Final[Any] = pc
_COPIED_BYTES_MAX: Final = 1024 * 1024 * 1024
_Positions = Mapping[str, Any]
"""Deleted positions, as an array, by the normalized location of their data file."""


@dataclass(frozen=True, slots=True)
class SnapshotReader:
    """Reads the changes that a client's snapshot makes to one table."""

    store: Store
    writer: FileWriter
    state: TableState
    """The table before the commit, with the columns of the commit."""
    published: TableMetadata
    """The same state as the client sees it."""

    def read_changes(self, snapshot: Snapshot) -> SnapshotChanges:
        """Return the file changes of a snapshot; raise InvalidInputError if they are unsupported."""
        location = TableLocation(folder_of(self.published.location), self.state.table_id)
        files = ClientFileIO(self.store, location)
        before = self.published.current_snapshot()
        changes = diff_manifests(
            [] if before is None else files.manifests(before.manifest_list),
            files.manifests(snapshot.manifest_list),
            files.entries,
        )
        _check_sequence_numbers(changes, self.published.next_sequence_number())
        live_by_address = self._index_live_files()
        removed = self._find_removed(changes, live_by_address)
        added = self._read_added(location, changes, {one.live.file.location for one in live_by_address.values()})
        removed_locations = {one.live.file.location for one in removed}
        remaining = {
            address: one.live.file
            for address, one in live_by_address.items()
            if one.live.file.location not in removed_locations
        }
        live_after = {**remaining, **{address: file for address, (_, file) in added.items()}}
        key_files = self._read_equality_deletes(location, changes)
        deleted_rows = self._find_deleted(location, changes, live_after, live_by_address.keys() - remaining.keys())
        deleted_rows |= {
            one.live.file: build_row_numbers(one.live.file.row_count)
            for one in removed
            if one.live.deletes_earlier_rows
        }
        # Written last, so that a rejected commit leaves no files.
        delete_files = {
            file.location: self.writer.write_positions(self.state, file.location, positions)
            for file, positions in deleted_rows.items()
        }
        return SnapshotChanges([*added.values()], key_files, removed, delete_files)

    def _index_live_files(self) -> dict[str, LiveDataFile]:
        """Return the live data files by normalized Iceberg location."""
        by_location = index_live_files(self.state)
        addresses = FileLocations(self.store).of_all([one.live.file for one in by_location.values()])
        return dict(zip(map(normalize_location, addresses), by_location.values(), strict=True))

    def _find_removed(self, changes: FileChanges, live_by_address: Mapping[str, LiveDataFile]) -> list[LiveDataFile]:
        removed: list[LiveDataFile] = []
        for listed in changes.of(DataFileContent.DATA).removed:
            one = live_by_address.get(listed.normalized_address)
            if one is None:
                raise InvalidInputError(f"removed file {listed.address} is not a live file of {self.state.name}")
            removed.append(one)
        return removed

    def _read_added(self, location: TableLocation, changes: FileChanges, existing: set[str]) -> dict[str, FileInLog]:
        added: dict[str, FileInLog] = {}
        for listed in changes.of(DataFileContent.DATA).added:
            file = self._to_data_file(location, listed)
            if file.location in existing:
                raise InvalidInputError(f"added file {listed.address} is already part of {self.state.name}")
            added[listed.normalized_address] = self._partition_of(listed), file
        checked = map_parallel(partial(validate_data_file, self.store, self.state), list(added.values()))
        moved = [(values, self._copy_if_staged(location, file)) for values, file in checked]
        return dict(zip(added, moved, strict=True))

    def _copy_if_staged(self, location: TableLocation, file: DataFile) -> DataFile:
        """Return a file that no engine deletes; one below the table's location is copied."""
        if not location.is_staged(file.location):
            return file
        if file.size_bytes > _COPIED_BYTES_MAX:
            raise InvalidInputError(
                f"{file.location} has {file.size_bytes} bytes and is below the table's location, from which at most "
                f"{_COPIED_BYTES_MAX} bytes are copied; write the file below the path in the property write.data.path"
            )
        path = f"data/{self.state.table_id}/data/{self.writer.new_id()}.parquet"
        self.store.put(path, self.store.read(file.location))
        return replace(file, location=path)

    def _read_equality_deletes(self, location: TableLocation, changes: FileChanges) -> list[FileInLog]:
        """Return the equality delete files, each of which applies to one partition, like ours to one log."""
        files: list[FileInLog] = []
        for listed in changes.of(DataFileContent.EQUALITY_DELETES).added:
            if self.state.log_scheme.fields != self.state.version.partition_scheme.fields:
                raise InvalidInputError(
                    f"equality delete file {listed.address} applies to one partition, but the keys of "
                    f"{self.state.name} do not determine the partition; use position deletes, or rewrite the files"
                )
            file = self._to_data_file(location, listed)
            check_key_types(self.state.name, [self.state.schema.column_with_id(one) for one in file.key_ids])
            checked = validate_equality_delete_file(self.store, self.state, file)
            files.append((self._partition_of(listed), self._copy_if_staged(location, checked)))
        return files

    def _to_data_file(self, location: TableLocation, listed: ClientManifestEntry) -> DataFile:
        orders = {
            one.order.order_id: one.scheme
            for one in list_published_sort_orders(self.state.version)
            if one.scheme.fields
        }
        scheme = orders.get(listed.file.sort_order_id or 0)
        path = location.rows_path_of(listed.address)
        try:
            return from_iceberg_data_file(
                listed.file, path, self.state.schema, sort_scheme_id=None if scheme is None else scheme.id
            )
        except FormatError as error:
            # The client can fix a file that is not committed yet.
            raise InvalidInputError(str(error)) from error

    def _partition_of(self, listed: ClientManifestEntry) -> tuple[Value | None, ...]:
        spec = self.published.spec()
        if listed.spec_id != spec.spec_id:
            raise InvalidInputError(
                f"{listed.address} has partition spec {listed.spec_id}, but {self.state.name} has {spec.spec_id}; "
                "reload the table and rewrite the file"
            )
        scheme = self.state.version.partition_scheme
        record = listed.file.partition
        return from_partition_record(record, spec, scheme, self.state.schema, listed.address)

    def _find_deleted(
        self, location: TableLocation, changes: FileChanges, live_after: Mapping[str, DataFile], removed: Set[str]
    ) -> dict[DataFile, Any]:
        """Return the deleted positions by data file; raise InvalidInputError for those of unknown files."""
        by_position = changes.of(DataFileContent.POSITION_DELETES)
        first_numbers = {
            one.normalized_address: one.sequence_number or 0 for one in changes.of(DataFileContent.DATA).added
        }
        parts: dict[str, list[Any]] = {}
        for listed in by_position.added:
            for address, positions in self._read_positions(location, listed).items():
                is_known = address in live_after or address in removed
                if not is_known or first_numbers.get(address, 0) > (listed.sequence_number or 0):
                    raise InvalidInputError(
                        f"position deletes reference {address}, which is not a file of {self.state.name} at that "
                        "snapshot; reload the table and commit one snapshot at a time"
                    )
                parts.setdefault(address, []).append(positions)
        merged = {address: _PC.unique(pa.chunked_array(chunks)) for address, chunks in parts.items()}
        deleted = {address: positions for address, positions in merged.items() if address in live_after}
        self._check_still_deleted(location, by_position.removed, deleted, live_after)
        for address, positions in deleted.items():
            bounds, row_count = _PC.min_max(positions).as_py(), live_after[address].row_count
            if bounds["min"] < 0 or bounds["max"] >= row_count:
                raise InvalidInputError(
                    f"deleted positions {bounds['min']} to {bounds['max']} are out of range; {address} has "
                    f"{row_count} rows"
                )
        return {live_after[address]: positions for address, positions in deleted.items()}

    def _read_positions(
        self, location: TableLocation, listed: ClientManifestEntry, *, is_published: bool = False
    ) -> _Positions:
        """Return the positions in a position delete file or deletion vector of a client, or in a published one."""
        if listed.vector is not None:
            return self._read_vector(location, listed, listed.vector)
        file = _find_published_deletes(listed.file, location) if is_published else self._to_data_file(location, listed)
        by_address: dict[str, list[Any]] = {}
        open_client_file(self.store, file)
        rows = read_columns(self.store, file, (FILE_PATH, POSITION))
        paths, positions = rows.column(FILE_PATH.name), rows.column(POSITION.name)
        if paths.null_count or positions.null_count:
            raise InvalidInputError(f"position delete file {file.location} has null values; rewrite it")
        for address in _PC.unique(paths).to_pylist():
            of_file = positions.filter(_PC.equal(paths, address))
            by_address.setdefault(normalize_location(address), []).extend(of_file.chunks)
        return {address: _PC.unique(pa.chunked_array(parts, pa.int64())) for address, parts in by_address.items()}

    def _read_vector(self, location: TableLocation, listed: ClientManifestEntry, vector: VectorLocation) -> _Positions:
        """Return the positions in a deletion vector."""
        path = location.path_of(listed.address)
        if not 0 <= vector.offset <= vector.offset + vector.size <= read_file_size(self.store, path):
            raise InvalidInputError(f"{listed.address} ends before its deletion vector at {vector.offset}; rewrite it")
        blob = self.store.read(path, vector.offset, vector.size)
        positions = decode_deletion_vector(blob, listed.file.record_count, f"{listed.address} at {vector.offset}")
        return {normalize_location(vector.data_file): positions} if len(positions) else {}

    def _check_still_deleted(
        self,
        location: TableLocation,
        removed: Sequence[ClientManifestEntry],
        deleted: _Positions,
        live_after: Mapping[str, DataFile],
    ) -> None:
        """Raise InvalidInputError if position deletes are removed while their data file stays."""
        before = (self._read_positions(location, listed, is_published=True) for listed in removed)
        for address, positions in chain.from_iterable(one.items() for one in before):
            if address not in live_after:
                continue
            if address not in deleted or not _PC.all(_PC.is_in(positions, deleted[address])).as_py():
                raise InvalidInputError(
                    f"deleted rows of {address} cannot be restored; rewrite that file, or use `mangrove rollback`"
                )


def _check_sequence_numbers(changes: FileChanges, first_number: int) -> None:
    """Raise InvalidInputError unless equality deletes apply to all earlier rows and to no row of the commit.

    In Iceberg equality deletes apply to rows with lower sequence numbers. Here all snapshots
    of a commit become one version, in which added rows stay.
    """
    added = changes.of(DataFileContent.DATA).added
    for listed in changes.of(DataFileContent.EQUALITY_DELETES).added:
        number = listed.sequence_number or 0
        if number < first_number or any((one.sequence_number or 0) < number for one in added):
            raise InvalidInputError(
                f"equality delete file {listed.address} with sequence number {number} does not apply to exactly the "
                "rows before the commit; commit such snapshots one at a time"
            )


def _find_published_deletes(file: IcebergFile, location: TableLocation) -> DataFile:
    """Return a published position delete file, which is stored in the metadata folder."""
    return DataFile(location.path_of(file.file_path), file.file_size_in_bytes, file.record_count)
