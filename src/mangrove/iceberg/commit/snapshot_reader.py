"""Reader that derives table changes from the manifests of a client snapshot.

Nothing is taken that our own readers would read otherwise than the client meant it.
Rows that the client hides by their numbers are named by addresses; ours name files by
their paths, so those numbers are written again, a file for each file of rows.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from mangrove.errors import FormatError, InvalidInputError
from mangrove.iceberg.commit.file_changes import ClientManifestEntry, FileChanges, diff_manifests
from mangrove.iceberg.commit.file_validation import open_client_file, validate_data_file, validate_equality_delete_file
from mangrove.iceberg.commit.manifest_reader import ClientFileIO, TableLocation
from mangrove.iceberg.commit.snapshot_to_deltas import FileInLog, LiveDataFile, SnapshotChanges, index_live_files
from mangrove.iceberg.data_files import from_iceberg_data_file
from mangrove.iceberg.locations import FileLocations, normalize_location
from mangrove.iceberg.partition_specs import list_published_sort_orders
from mangrove.iceberg.values import from_partition_record
from mangrove.local.data_files import FileWriter
from mangrove.local.parallel import map_parallel
from mangrove.local.parquet import read_columns
from mangrove.local.scan import FILE_PATH, POSITION
from mangrove.model.manifests import DataFile
from mangrove.model.values import Value
from mangrove.storage.port import Store
from mangrove.tables.table_state import TableState, check_key_types

__all__ = ["SnapshotReader"]

_PC: Final[Any] = pc
_Numbers = Mapping[str, Any]
"""Row numbers, as an array, by the address of the file whose rows they are."""


@dataclass(frozen=True, slots=True)
class SnapshotReader:
    """Reads what a client committed to one table."""

    store: Store
    writer: FileWriter
    state: TableState
    """The table as the commit finds it, with the columns that the commit gives it."""
    shown: TableMetadata
    """The same as the client knows it."""

    def told(self, snapshot: Snapshot) -> SnapshotChanges:
        """Return what the snapshot does to the files of the table; refuse what no reader of ours could follow."""
        place = TableLocation(self.shown.location, self.state.table_id)
        files = ClientFileIO(self.store, place)
        before = self.shown.current_snapshot()
        changes = diff_manifests(
            [] if before is None else files.manifests(before.manifest_list),
            files.manifests(snapshot.manifest_list),
            files.entries,
        )
        _check_order(changes, self.shown.next_sequence_number())
        live_by_location = self._index_live_files()
        gone = self._find_removed(changes, live_by_location)
        added = self._added(place, changes, {one.live.file.location for one in live_by_location.values()})
        leaving = {one.live.file.location for one in gone}
        kept = {
            address: one.live.file for address, one in live_by_location.items() if one.live.file.location not in leaving
        }
        counting = {**kept, **{address: file for address, (_, file) in added.items()}}
        key_files = self._key_files(place, changes)
        deleted_rows = self._find_deleted(place, changes, counting, live_by_location.keys() - kept.keys())
        deleted_rows |= {
            one.live.file: pa.array(range(one.live.file.row_count), pa.int64())
            for one in gone
            if one.live.deletes_earlier_rows
        }
        # Written last: of a commit that is refused nothing is left behind.
        delete_files = {
            file.location: self.writer.write_positions(self.state, file.location, numbers)
            for file, numbers in deleted_rows.items()
        }
        return SnapshotChanges([*added.values()], key_files, gone, delete_files)

    def _index_live_files(self) -> dict[str, LiveDataFile]:
        """Return the files of rows by the addresses that are shown, spelled in one way."""
        by_location = index_live_files(self.state)
        addresses = FileLocations(self.store).of_all([one.live.file for one in by_location.values()])
        return dict(zip(map(normalize_location, addresses), by_location.values(), strict=True))

    def _find_removed(self, changes: FileChanges, live_by_location: Mapping[str, LiveDataFile]) -> list[LiveDataFile]:
        found: list[LiveDataFile] = []
        for listed in changes.of(DataFileContent.DATA).removed:
            one = live_by_location.get(listed.spelled)
            if one is None:
                raise InvalidInputError(f"{listed.address} is to go, and is no file of {self.state.name}")
            found.append(one)
        return found

    def _added(self, place: TableLocation, changes: FileChanges, there: set[str]) -> dict[str, FileInLog]:
        found: dict[str, FileInLog] = {}
        for listed in changes.of(DataFileContent.DATA).added:
            file = self._own(place, listed)
            if file.location in there:
                raise InvalidInputError(f"{listed.address} is added, and counts already: its rows would count twice")
            found[listed.spelled] = self._partition_of(listed), file
        checked = map_parallel(partial(validate_data_file, self.store, self.state), list(found.values()))
        return dict(zip(found, checked, strict=True))

    def _key_files(self, place: TableLocation, changes: FileChanges) -> list[FileInLog]:
        """Return the files of deleted keys, which hide rows of one partition alone, as ours do of one log."""
        found: list[FileInLog] = []
        for listed in changes.of(DataFileContent.EQUALITY_DELETES).added:
            if self.state.log_scheme.fields != self.state.version.partition_scheme.fields:
                raise InvalidInputError(
                    f"{listed.address} deletes rows of one partition by their values, and the partitions of "
                    f"{self.state.name} are kept together, since its keys do not say where a row lies: delete by "
                    "position, or rewrite the files"
                )
            file = self._own(place, listed)
            check_key_types(self.state.name, [self.state.schema.column_with_id(one) for one in file.key_ids])
            found.append((self._partition_of(listed), validate_equality_delete_file(self.store, self.state, file)))
        return found

    def _own(self, place: TableLocation, listed: ClientManifestEntry) -> DataFile:
        orders = {
            one.order.order_id: one.scheme
            for one in list_published_sort_orders(self.state.version)
            if one.scheme.fields
        }
        scheme = orders.get(listed.file.sort_order_id or 0)
        location = place.rows_path_of(listed.address)
        try:
            return from_iceberg_data_file(
                listed.file, location, self.state.schema, sort_scheme_id=None if scheme is None else scheme.id
            )
        except FormatError as error:
            # Of a file that is not ours yet it is the client who can act.
            raise InvalidInputError(str(error)) from error

    def _partition_of(self, listed: ClientManifestEntry) -> tuple[Value | None, ...]:
        spec = self.shown.spec()
        if listed.spec_id != spec.spec_id:
            raise InvalidInputError(
                f"{listed.address} is divided by the partition spec {listed.spec_id}, and {self.state.name} by "
                f"{spec.spec_id}: load the table again and write by that"
            )
        scheme = self.state.version.partition_scheme
        record = listed.file.partition
        return from_partition_record(record, spec, scheme, self.state.schema, listed.address)

    def _find_deleted(
        self, place: TableLocation, changes: FileChanges, counting: Mapping[str, DataFile], gone: Set[str]
    ) -> dict[DataFile, Any]:
        """Return the numbers of the rows that the commit hides; refuse those of files that nobody knows."""
        by_number = changes.of(DataFileContent.POSITION_DELETES)
        begins = {one.spelled: one.sequence_number or 0 for one in changes.of(DataFileContent.DATA).added}
        parts: dict[str, list[Any]] = {}
        for listed in by_number.added:
            for address, numbers in self._numbers([self._own(place, listed)]).items():
                is_known = address in counting or address in gone
                if not is_known or begins.get(address, 0) > (listed.sequence_number or 0):
                    raise InvalidInputError(
                        f"rows of {address} are deleted, which is no file of {self.state.name} at that time: load the "
                        "table again, delete rows of files that are there, and commit snapshots one by one"
                    )
                parts.setdefault(address, []).append(numbers)
        named = {address: _PC.unique(pa.chunked_array(found)) for address, found in parts.items()}
        given = {address: numbers for address, numbers in named.items() if address in counting}
        self._check_still_deleted(place, by_number.removed, given, counting)
        for address, numbers in given.items():
            bounds, row_count = _PC.min_max(numbers).as_py(), counting[address].row_count
            if bounds["min"] < 0 or bounds["max"] >= row_count:
                raise InvalidInputError(
                    f"rows {bounds['min']} to {bounds['max']} of {address} are deleted, and it has {row_count}"
                )
        return {counting[address]: numbers for address, numbers in given.items()}

    def _numbers(self, files: Iterable[DataFile]) -> _Numbers:
        """Return the row numbers that files of a client name."""
        found: dict[str, list[Any]] = {}
        for file in files:
            open_client_file(self.store, file)
            rows = read_columns(self.store, file, (FILE_PATH, POSITION))
            paths, numbers = rows.column(FILE_PATH.name), rows.column(POSITION.name)
            if paths.null_count or numbers.null_count:
                raise InvalidInputError(f"{file.location} names no file or no row in some of its rows: write it again")
            for address in _PC.unique(paths).to_pylist():
                chosen = numbers.filter(_PC.equal(paths, address))
                found.setdefault(normalize_location(address), []).extend(chosen.chunks)
        return {address: _PC.unique(pa.chunked_array(parts, pa.int64())) for address, parts in found.items()}

    def _check_still_deleted(
        self,
        place: TableLocation,
        removed: Sequence[ClientManifestEntry],
        given: _Numbers,
        counting: Mapping[str, DataFile],
    ) -> None:
        """Refuse deletes that go while the rows stay: nothing here lets a row come back that was hidden."""
        files = [_find_published_deletes(listed.file, place) for listed in removed]
        for address, numbers in self._numbers(files).items():
            if address not in counting:
                continue
            if address not in given or not _PC.all(_PC.is_in(numbers, given[address])).as_py():
                raise InvalidInputError(
                    f"deleted rows of {address} are to come back, which nothing here does: rewrite that file, or go "
                    "back with `mangrove rollback`"
                )


def _check_order(changes: FileChanges, first_number: int) -> None:
    """Refuse keys that are not about all rows before the commit and none of the commit's own.

    Iceberg says by sequence numbers which rows keys are about: those of lower numbers.
    Here all snapshots of a commit become one version, in which new rows stay.
    """
    added = changes.of(DataFileContent.DATA).added
    for listed in changes.of(DataFileContent.EQUALITY_DELETES).added:
        number = listed.sequence_number or 0
        if number < first_number or any((one.sequence_number or 0) < number for one in added):
            raise InvalidInputError(
                f"{listed.address} deletes rows by their values, and by its sequence number {number} not all that were "
                "there, or also some that come with it: commit snapshots that delete so one by one"
            )


def _find_published_deletes(found: IcebergFile, place: TableLocation) -> DataFile:
    """Return a file of row numbers that was shown, which lies among the metadata."""
    return DataFile(place.path_of(found.file_path), found.file_size_in_bytes, found.record_count)
