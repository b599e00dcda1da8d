"""Deterministic encoding of Iceberg manifests and manifest lists.

Many table states share a manifest of unchanged files, so its entries have the status EXISTING and the sequence numbers
of the files. The files that a snapshot added and removed are in manifests of that snapshot: clients that validate their
commit against concurrent ones look for these.
"""

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.io import InputFile, OutputFile, OutputStream
from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    construct_partition_summaries,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record

from mangrove.tables.iceberg_names import FormatVersion, snapshot_id_of

__all__ = ["ManifestChange", "ManifestInfo", "build_manifest_record", "encode_manifest", "encode_manifest_list"]

_CODEC: Final = "avro.codec"
_ENTRIES_IN_BLOCK: Final = 1000


@dataclass(frozen=True, slots=True)
class ManifestChange:
    """What a snapshot did with the files of a manifest."""

    status: ManifestEntryStatus
    snapshot_id: int
    sequence_number: int


@dataclass(frozen=True, slots=True)
class ManifestInfo:
    """Location, digest, schema and spec of a manifest."""

    address: str
    digest: str
    """Digest of the content, also used as sync marker, so that the encoding is deterministic."""
    content: ManifestContent
    schema: Schema
    spec: PartitionSpec
    change: ManifestChange | None = None
    """None if the files are those of earlier snapshots."""
    format_version: FormatVersion = 2

    @property
    def snapshot_id(self) -> int:
        """The snapshot that the manifest belongs to; one of unchanged files belongs to none of the listed."""
        return snapshot_id_of(self.digest) if self.change is None else self.change.snapshot_id

    @property
    def status(self) -> ManifestEntryStatus:
        """The status of all entries."""
        return ManifestEntryStatus.EXISTING if self.change is None else self.change.status


def encode_manifest(info: ManifestInfo, files: Iterable[tuple[DataFile, int]]) -> bytes:
    """Return the bytes of a manifest of files with their sequence numbers."""
    entries = (
        ManifestEntry.from_args(
            status=info.status,
            snapshot_id=info.snapshot_id,
            sequence_number=sequence_number,
            file_sequence_number=sequence_number,
            data_file=file,
        )
        for file, sequence_number in files
    )
    meta = {
        "schema": info.schema.model_dump_json(),
        "partition-spec": _fields_json(info.spec),
        "partition-spec-id": str(info.spec.spec_id),
        "format-version": str(info.format_version),
        "content": "data" if info.content is ManifestContent.DATA else "deletes",
        _CODEC: "deflate",
    }
    file_type = data_file_with_partition(info.spec.partition_type(info.schema), info.format_version)
    schema = manifest_entry_schema_with_data_file(info.format_version, file_type)
    return _avro(schema, "manifest_entry", meta, info.digest, entries)


def build_manifest_record(
    info: ManifestInfo,
    size_bytes: int,
    row_count: int,
    partitions: Sequence[Record],
    sequence_numbers: Sequence[int],
    first_row_id: int | None = None,
) -> ManifestFile:
    """Return the manifest list entry of a manifest without reading it.

    `first_row_id` must be set for data files in format version 3, or clients would assign other row ids.
    """
    counts = dict.fromkeys(ManifestEntryStatus, (0, 0)) | {info.status: (len(partitions), row_count)}
    added, existing, deleted = (
        counts[status]
        for status in (ManifestEntryStatus.ADDED, ManifestEntryStatus.EXISTING, ManifestEntryStatus.DELETED)
    )
    return ManifestFile.from_args(
        _table_format_version=3,
        manifest_path=info.address,
        manifest_length=size_bytes,
        partition_spec_id=info.spec.spec_id,
        content=info.content,
        sequence_number=max(sequence_numbers),
        min_sequence_number=min(sequence_numbers),
        added_snapshot_id=info.snapshot_id,
        added_files_count=added[0],
        existing_files_count=existing[0],
        deleted_files_count=deleted[0],
        added_rows_count=added[1],
        existing_rows_count=existing[1],
        deleted_rows_count=deleted[1],
        partitions=construct_partition_summaries(info.spec, info.schema, list(partitions)),
        key_metadata=None,
        first_row_id=first_row_id,
    )


def encode_manifest_list(
    manifests: Iterable[ManifestFile],
    snapshot_id: int,
    sequence_number: int,
    digest: str,
    first_row_id: int | None = None,
) -> bytes:
    """Return a manifest list; its header has no parent, because the metadata names it.

    It has format version 3 if the snapshot has a first row id.
    """
    format_version: FormatVersion = 2 if first_row_id is None else 3
    meta = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null",
        "sequence-number": str(sequence_number),
        **({} if first_row_id is None else {"first-row-id": str(first_row_id)}),
        "format-version": str(format_version),
        _CODEC: "deflate",
    }
    return _avro(MANIFEST_LIST_FILE_SCHEMAS[format_version], "manifest_file", meta, digest, manifests)


def _fields_json(spec: PartitionSpec) -> str:
    return f"[{','.join(field.model_dump_json() for field in spec.fields)}]"


def _avro(schema: Schema, name: str, meta: dict[str, str], digest: str, records: Iterable[Any]) -> bytes:
    target = _Memory()
    output = AvroOutputFile[Any](target, schema, name, metadata=meta)
    # The default sync marker is random, and the bytes of a manifest must be deterministic.
    output.sync_bytes = bytes.fromhex(digest)
    remaining = iter(records)
    with output:
        while block := list(islice(remaining, _ENTRIES_IN_BLOCK)):
            output.write_block(block)
    return target.data


class _Memory(OutputFile):
    """An in-memory output file for PyIceberg."""

    def __init__(self) -> None:
        super().__init__("memory")
        self._stream = _RetainedBytesIO()

    @property
    def data(self) -> bytes:
        return self._stream.data

    def __len__(self) -> int:
        return len(self.data)

    def exists(self) -> bool:
        return False

    def to_input_file(self) -> InputFile:
        raise io.UnsupportedOperation("an in-memory output file cannot be read as a file; use its bytes")

    def create(self, overwrite: bool = False) -> OutputStream:
        del overwrite
        return self._stream


class _RetainedBytesIO(io.BytesIO):
    """A BytesIO that keeps its bytes after it is closed."""

    data: bytes = b""

    def close(self) -> None:
        self.data = self.getvalue()
        super().close()
