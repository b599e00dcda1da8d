"""An Iceberg client that writes its files by hand, so that tests can commit what PyIceberg itself never writes."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestFile
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record

from mangrove.iceberg.commit.commit_request import parse_commit_request
from mangrove.iceberg.commit.file_changes import ClientManifestEntry, diff_manifests
from mangrove.iceberg.commit.manifest_reader import ClientFileIO, TableLocation
from mangrove.iceberg.commit.transaction import TableCommit, commit_tables
from mangrove.iceberg.data_files import find_deleted_data_file, from_iceberg_data_file, to_iceberg_data_file
from mangrove.iceberg.deletion_vectors import decode_deletion_vector, encode_deletion_vector
from mangrove.iceberg.publish.history_writer import publish_history
from mangrove.iceberg.publish.manifests import (
    ManifestInfo,
    build_manifest_record,
    encode_manifest,
    encode_manifest_list,
)
from mangrove.iceberg.publish.metadata_writer import PublishedTable
from mangrove.iceberg.publish.table_revisions import TableRevisions
from mangrove.lakehouse.arguments import parse_table_argument
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.local.parquet import encode_parquet, read_columns
from mangrove.local.scan import FILE_PATH, POSITION
from mangrove.model.arrow_schema import schema_to_arrow
from mangrove.model.manifests import DataFile, FileKind
from mangrove.model.schema import Schema
from mangrove.model.types import Column

__all__ = ["Client", "Written"]


@dataclass(frozen=True)
class Written:
    """A file that a client has written, as its manifest tells of it."""

    file: IcebergFile
    spec_id: int

    @property
    def address(self) -> str:
        return self.file.file_path


@dataclass
class Client:
    """Knows one table as it was shown when the client was made, or when it last committed."""

    lake: Lakehouse
    table: str
    shown: PublishedTable = field(init=False)

    def __post_init__(self) -> None:
        self.load()

    def load(self) -> None:
        locator = parse_table_argument(self.table)
        revisions = TableRevisions.up_to(self.lake.metastore, self.lake._reading(), locator)
        self.shown = publish_history(self.lake.effects.store, revisions)

    def rows(
        self,
        rows: Sequence[Mapping[str, Any]],
        values: Sequence[Any] = (),
        schema: Schema | None = None,
        *,
        data: bytes | None = None,
        path: str | None = None,
        address: str | None = None,
        **told: Any,
    ) -> Written:
        """Write a file of rows; `data`, `path`, `address` and `told` say something else of it than is usual."""
        columns = self._state().schema if schema is None else schema
        content = (
            encode_parquet(pa.Table.from_pylist(list(rows), schema=schema_to_arrow(columns))) if data is None else data
        )
        return self._put(content, len(rows), values, path, address, **told)

    def numbers(self, deleted_rows: Mapping[str, Iterable[int]], values: Sequence[Any] = ()) -> Written:
        """Write a file that hides rows by their numbers."""
        pairs = [(address, number) for address, numbers in deleted_rows.items() for number in numbers]
        arrow = schema_to_arrow(Schema((FILE_PATH, POSITION)))
        table = pa.table([[one for one, _ in pairs], [number for _, number in pairs]], schema=arrow)
        return self._put(encode_parquet(table), len(pairs), values, kind=FileKind.POSITION_DELETES)

    def vectors(self, deleted_rows: Mapping[str, Sequence[int]], values: Sequence[Any] = ()) -> list[Written]:
        """Write a Puffin file with a deletion vector for each data file."""
        blobs = [encode_deletion_vector(pa.array(numbers, pa.int64())) for numbers in deleted_rows.values()]
        content = b"PFA1" + b"".join(blobs)
        address = self._write(f"data/{self.lake._new_id()}.puffin", content)
        spec_id, offset, written = self.shown.metadata.default_spec_id, 4, []
        for blob, (data_file, numbers) in zip(blobs, deleted_rows.items(), strict=True):
            file = DataFile("any", len(content), len(numbers), kind=FileKind.POSITION_DELETES)
            entry = to_iceberg_data_file(
                file,
                address,
                Record(*values),
                self._state().schema,
                spec_id,
                deleted_from=data_file,
                vector_size=len(blob),
            )
            entry[18] = offset
            offset += len(blob)
            written.append(Written(entry, spec_id))
        return written

    def keys(
        self,
        rows: Sequence[Mapping[str, Any]],
        names: Sequence[str],
        values: Sequence[Any] = (),
        path: str | None = None,
    ) -> Written:
        """Write a file that hides rows by the values of some columns."""
        schema = self._state().schema
        columns = tuple(replace(schema.column(name), nullable=True) for name in names)
        content = encode_parquet(pa.Table.from_pylist(list(rows), schema=schema_to_arrow(Schema(columns))))
        key_ids = tuple(column.id for column in columns)
        return self._put(content, len(rows), values, path, kind=FileKind.KEY_DELETES, key_ids=key_ids)

    def alive(self, snapshot: Snapshot | None = None) -> list[ClientManifestEntry]:
        """Return the files of a snapshot, by default of the one that is shown."""
        files = self._files()
        snapshot = snapshot or self.shown.metadata.current_snapshot()
        listed = [] if snapshot is None else files.manifests(snapshot.manifest_list)
        return [*diff_manifests([], listed, files.entries).added]

    def deletes_of(self, address: str) -> list[str]:
        """Return the addresses of the files that are shown to hide rows of a file."""
        return [
            one.address
            for one in self.alive()
            if one.content is DataFileContent.POSITION_DELETES
            and address.encode() in (one.file.lower_bounds or {}).values()
        ]

    def request(
        self, added: Sequence[Written] = (), removed: Iterable[str] = (), snapshot_id: int | None = None
    ) -> dict[str, Any]:
        """Write manifests with these changes, and return the request that commits them."""
        return self.request_of_steps([(1, added)], removed, snapshot_id)

    def request_of_steps(
        self,
        steps: Sequence[tuple[int, Sequence[Written]]],
        removed: Iterable[str] = (),
        snapshot_id: int | None = None,
    ) -> dict[str, Any]:
        """Do the same for files of several snapshots, each with how many snapshots after the shown one it comes."""
        metadata = self.shown.metadata
        gone = set(removed)
        kept = [Written(one.file, one.spec_id) for one in self.alive() if one.address not in gone]
        first_row_id = getattr(metadata, "next_row_id", None)
        given_id = int(self.lake._new_id().replace("-", "")[:15], 16) if snapshot_id is None else snapshot_id
        sequence_number = metadata.last_sequence_number + max(1, *(number for number, _ in steps))
        by_content: dict[tuple[ManifestContent, int, int], list[IcebergFile]] = {}
        for number, written in [(0, kept), *steps]:
            for one in written:
                is_rows = one.file.content is DataFileContent.DATA
                content = ManifestContent.DATA if is_rows else ManifestContent.DELETES
                by_content.setdefault((content, one.spec_id, number), []).append(one.file)
        manifests = [
            self._manifest(content, spec_id, files, metadata.last_sequence_number + number)
            for (content, spec_id, number), files in by_content.items()
        ]
        digest = self.lake._new_id().replace("-", "")
        address = self._write(
            f"metadata/snap-{digest}.avro",
            encode_manifest_list(manifests, given_id, sequence_number, digest, first_row_id),
        )
        snapshot = {
            "snapshot-id": given_id,
            "parent-snapshot-id": metadata.current_snapshot_id,
            "sequence-number": sequence_number,
            "timestamp-ms": metadata.last_updated_ms + 1,
            "manifest-list": address,
            "summary": {"operation": "overwrite"},
            "schema-id": metadata.current_schema_id,
        }
        if first_row_id is not None:
            snapshot |= {"first-row-id": first_row_id, "added-rows": 0}
        return {
            "requirements": [
                {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": metadata.current_snapshot_id},
                {"type": "assert-table-uuid", "uuid": str(metadata.table_uuid)},
            ],
            "updates": [
                {"action": "add-snapshot", "snapshot": snapshot},
                {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": given_id},
            ],
        }

    def commit(self, added: Sequence[Written] = (), removed: Iterable[str] = ()) -> None:
        """Commit files, and know the table as it is shown afterwards."""
        self.send(self.request(added, removed))

    def send(self, request: Mapping[str, Any]) -> None:
        """Commit a request."""
        # Through JSON, as it would come over the wire.
        sent = parse_commit_request(json.loads(json.dumps(request)))
        locator = parse_table_argument(self.table)
        self.shown = commit_tables(self.lake, [TableCommit(locator, sent)])[locator]

    def ids(self) -> list[int]:
        """Return the ids of all rows of the table, as our own reader finds them."""
        return sorted(self.lake.table(self.table).to_arrow().column("id").to_numpy().tolist())

    def seen_ids(self) -> list[int]:
        """Return the ids of all rows as a reader finds them that knows only what is shown."""
        return sorted(row["id"] for rows in self.contents().values() for row in rows.values())

    def contents(self) -> dict[str, dict[int, dict[str, Any]]]:
        """Return the rows that are shown, by the addresses of their files and their numbers."""
        self.load()
        alive = self.alive()
        deleted_rows: dict[str, set[Any]] = {}
        for one in alive:
            if one.content is DataFileContent.POSITION_DELETES:
                target = find_deleted_data_file(one.file)
                assert target is not None
                deleted_rows.setdefault(target, set()).update(self._read_positions(one))
        found: dict[str, dict[int, dict[str, Any]]] = {}
        for one in alive:
            if one.content is DataFileContent.DATA:
                rows = enumerate(self._read(one, self._state().schema.columns).to_pylist())
                gone = deleted_rows.get(one.address, set())
                found[one.address] = {number: row for number, row in rows if number not in gone}
        return found

    def _read_positions(self, listed: ClientManifestEntry) -> list[Any]:
        if listed.vector is None:
            return self._read(listed, (FILE_PATH, POSITION)).column("pos").to_pylist()
        path = self._files().place.path_of(listed.address)
        blob = self.lake.effects.store.read(path, listed.vector.offset, listed.vector.size)
        found: list[Any] = decode_deletion_vector(blob, listed.file.record_count, path).to_pylist()
        return found

    def _read(self, listed: ClientManifestEntry, columns: Sequence[Column]) -> pa.Table:
        path = self._files().place.path_of(listed.address)
        return read_columns(
            self.lake.effects.store, from_iceberg_data_file(listed.file, path, self._state().schema), columns
        )

    def _put(
        self,
        data: bytes,
        written_count: int,
        values: Sequence[Any],
        path: str | None = None,
        address: str | None = None,
        **told: Any,
    ) -> Written:
        there = self._write(path or f"data/{self.lake._new_id()}.parquet", data)
        spec_id = self.shown.metadata.default_spec_id
        file = DataFile(**{"location": "any", "size_bytes": len(data), "row_count": written_count, **told})
        return Written(
            to_iceberg_data_file(file, address or there, Record(*values), self._state().schema, spec_id), spec_id
        )

    def _manifest(
        self, content: ManifestContent, spec_id: int, files: Sequence[IcebergFile], sequence_number: int
    ) -> ManifestFile:
        digest = self.lake._new_id().replace("-", "")
        spec = next(one for one in self.shown.metadata.partition_specs if one.spec_id == spec_id)
        name = f"metadata/{digest}-client.avro"
        metadata = self.shown.metadata
        facts = ManifestInfo(
            f"{self.shown.folder}/{name}", digest, content, metadata.schema(), spec, None, metadata.format_version
        )
        data = encode_manifest(facts, [(file, sequence_number) for file in files])
        self._write(name, data)
        partitions = [file.partition for file in files]
        return build_manifest_record(facts, len(data), 0, partitions, [sequence_number])

    def _write(self, name: str, data: bytes) -> str:
        self.lake.effects.store.put(f"data/{self._state().table_id}/{name}", data)
        return f"{self.shown.folder}/{name}"

    def _files(self) -> ClientFileIO:
        return ClientFileIO(self.lake.effects.store, TableLocation(self.shown.folder, self._state().table_id))

    def _state(self) -> Any:
        return self.lake.table(self.table).state()
