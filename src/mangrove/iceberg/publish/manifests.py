"""Deterministic encoding of Iceberg manifests and manifest lists.

A manifest is shown by many states, of which none is the one that added its files. So its files count as ones that
were there, and it has the sequence numbers of the files themselves.
"""

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Literal

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

from mangrove.tables.iceberg_names import snapshot_id_of

__all__ = ["ManifestInfo", "build_manifest_record", "encode_manifest", "encode_manifest_list"]

_FORMAT: Final[Literal[2]] = 2
_CODEC: Final = "avro.codec"
_ENTRIES_IN_BLOCK: Final = 1000


@dataclass(frozen=True, slots=True)
class ManifestInfo:
    """What a manifest is about, whichever files it holds."""

    address: str
    digest: str
    """Of what it holds, which also makes its bytes the same whoever writes it."""
    content: ManifestContent
    schema: Schema
    spec: PartitionSpec


def encode_manifest(facts: ManifestInfo, files: Iterable[tuple[DataFile, int]]) -> bytes:
    """Return a manifest of files, each with its sequence number."""
    snapshot_id = snapshot_id_of(facts.digest)
    entries = (
        ManifestEntry.from_args(
            status=ManifestEntryStatus.EXISTING,
            snapshot_id=snapshot_id,
            sequence_number=sequence_number,
            file_sequence_number=sequence_number,
            data_file=file,
        )
        for file, sequence_number in files
    )
    meta = {
        "schema": facts.schema.model_dump_json(),
        "partition-spec": _fields_json(facts.spec),
        "partition-spec-id": str(facts.spec.spec_id),
        "format-version": str(_FORMAT),
        "content": "data" if facts.content is ManifestContent.DATA else "deletes",
        _CODEC: "deflate",
    }
    file_type = data_file_with_partition(facts.spec.partition_type(facts.schema), _FORMAT)
    schema = manifest_entry_schema_with_data_file(_FORMAT, file_type)
    return _avro(schema, "manifest_entry", meta, facts.digest, entries)


def build_manifest_record(
    facts: ManifestInfo, size_bytes: int, row_count: int, partitions: Sequence[Record], sequence_numbers: Sequence[int]
) -> ManifestFile:
    """Return what a manifest list says of a manifest, without opening it."""
    return ManifestFile.from_args(
        manifest_path=facts.address,
        manifest_length=size_bytes,
        partition_spec_id=facts.spec.spec_id,
        content=facts.content,
        sequence_number=max(sequence_numbers),
        min_sequence_number=min(sequence_numbers),
        added_snapshot_id=snapshot_id_of(facts.digest),
        added_files_count=0,
        existing_files_count=len(partitions),
        deleted_files_count=0,
        added_rows_count=0,
        existing_rows_count=row_count,
        deleted_rows_count=0,
        partitions=construct_partition_summaries(facts.spec, facts.schema, list(partitions)),
        key_metadata=None,
    )


def encode_manifest_list(
    manifests: Iterable[ManifestFile], snapshot_id: int, sequence_number: int, digest: str
) -> bytes:
    """Return the list of a snapshot's manifests; the snapshot follows none."""
    meta = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null",
        "sequence-number": str(sequence_number),
        "format-version": str(_FORMAT),
        _CODEC: "deflate",
    }
    return _avro(MANIFEST_LIST_FILE_SCHEMAS[_FORMAT], "manifest_file", meta, digest, manifests)


def _fields_json(spec: PartitionSpec) -> str:
    return f"[{','.join(field.model_dump_json() for field in spec.fields)}]"


def _avro(schema: Schema, name: str, meta: dict[str, str], digest: str, records: Iterable[Any]) -> bytes:
    target = _Memory()
    output = AvroOutputFile[Any](target, schema, name, metadata=meta)
    # Else the mark between blocks is chance, and the same manifest would have other bytes each time.
    output.sync_bytes = bytes.fromhex(digest)
    waiting = iter(records)
    with output:
        while block := list(islice(waiting, _ENTRIES_IN_BLOCK)):
            output.write_block(block)
    return target.data


class _Memory(OutputFile):
    """A file that PyIceberg writes into memory."""

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
        raise io.UnsupportedOperation("what is written here is handed on as bytes")

    def create(self, overwrite: bool = False) -> OutputStream:
        del overwrite
        return self._stream


class _RetainedBytesIO(io.BytesIO):
    """Bytes that are still there when their writer is done."""

    data: bytes = b""

    def close(self) -> None:
        self.data = self.getvalue()
        super().close()
