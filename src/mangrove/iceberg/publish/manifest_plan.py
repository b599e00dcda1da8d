"""Planning of manifests, which reuses those whose files are unchanged."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus, ManifestFile

from mangrove.iceberg.data_files import to_iceberg_data_file
from mangrove.iceberg.partition_specs import list_published_sort_orders
from mangrove.iceberg.publish.manifests import ManifestChange, ManifestInfo, build_manifest_record, encode_manifest
from mangrove.iceberg.publish.partition_assignment import PartitionedFile
from mangrove.iceberg.publish.position_deletes import vector_size_of
from mangrove.iceberg.schemas import to_iceberg_schema
from mangrove.model.manifests import DataFile, FileKind
from mangrove.model.schema import Schema
from mangrove.tables.iceberg_names import (
    PUBLISHED_FORMAT,
    FormatVersion,
    compute_digest,
    published_folder_of,
    split_runs,
)
from mangrove.tables.table_state import TableState

__all__ = [
    "FILES_PER_MANIFEST",
    "EntriesDiff",
    "ManifestFileEntry",
    "PlannedManifest",
    "diff_entries",
    "plan_manifests",
]

FILES_PER_MANIFEST: Final = 256
"""Approximate number of files per manifest; each append rewrites the last manifest."""


@dataclass(frozen=True, slots=True)
class ManifestFileEntry:
    """A data file or a position delete file in a manifest."""

    file: DataFile
    address: str
    data_file: PartitionedFile
    """The data file itself, or the data file of the position deletes."""
    identity: str
    """Text that determines the entry, for the digest of the manifest."""
    first_row_id: int | None = None
    """The row id of the first row of a data file, in format version 3."""

    @property
    def sequence_number(self) -> int:
        """The data sequence number; position deletes apply to data files with the same or a lower one."""
        return max(1, self.data_file.scan.position)

    def sequence_number_in(self, change: ManifestChange | None) -> int:
        """Return the data sequence number in a manifest of a change.

        Added deletes have that of their snapshot, by which clients detect deletes since their own.
        """
        is_added_delete = change is not None and change.status is ManifestEntryStatus.ADDED and not self.is_data
        return change.sequence_number if change is not None and is_added_delete else self.sequence_number

    @property
    def is_data(self) -> bool:
        """Whether it is a data file."""
        return self.file.kind is FileKind.DATA


@dataclass(frozen=True, slots=True)
class EntriesDiff:
    """The files of a snapshot compared with those of its parent."""

    unchanged: Sequence[ManifestFileEntry]
    added: Sequence[ManifestFileEntry]
    removed: Sequence[ManifestFileEntry]


def diff_entries(before: Sequence[ManifestFileEntry], after: Sequence[ManifestFileEntry]) -> EntriesDiff:
    """Compare files of one kind by location, in order."""
    was, now = {one.address for one in before}, {one.address for one in after}
    return EntriesDiff(
        [one for one in after if one.address in was],
        [one for one in after if one.address not in was],
        [one for one in before if one.address not in now],
    )


@dataclass(frozen=True, slots=True)
class PlannedManifest:
    """A manifest that exists or is to be written."""

    path: str
    info: ManifestInfo
    files: tuple[ManifestFileEntry, ...]
    schema: Schema
    order_ids: Mapping[str, int]

    def encode(self) -> bytes:
        """Return the bytes of the manifest."""
        numbers = self._list_sequence_numbers()
        return encode_manifest(self.info, zip(map(self._to_iceberg, self.files), numbers, strict=True))

    def build_record(self, size_bytes: int) -> ManifestFile:
        """Return the entry of the manifest list."""
        row_ids = [one.first_row_id for one in self.files if one.first_row_id is not None]
        return build_manifest_record(
            self.info,
            size_bytes,
            sum(one.file.row_count for one in self.files),
            [one.data_file.record for one in self.files],
            self._list_sequence_numbers(),
            min(row_ids, default=None),
        )

    def _list_sequence_numbers(self) -> list[int]:
        return [one.sequence_number_in(self.info.change) for one in self.files]

    def _to_iceberg(self, one: ManifestFileEntry) -> IcebergFile:
        return to_iceberg_data_file(
            one.file,
            one.address,
            one.data_file.record,
            self.schema,
            one.data_file.published.spec.spec_id,
            sort_order_id=self.order_ids.get(one.file.sort_scheme_id or "") if one.is_data else None,
            first_row_id=one.first_row_id,
            deleted_from=None if one.is_data else one.data_file.address,
            vector_size=None if one.is_data else vector_size_of(one.file.location),
        )


def plan_manifests(
    state: TableState,
    entries: Sequence[ManifestFileEntry],
    root_address: str,
    change: ManifestChange | None = None,
    *,
    format_version: FormatVersion,
) -> list[PlannedManifest]:
    """Return the manifests of entries that are either all data files or all position delete files, in order."""
    content = ManifestContent.DATA if all(one.is_data for one in entries) else ManifestContent.DELETES
    schema = to_iceberg_schema(state.schema, state.version.identifier_fields)
    orders = {
        published.scheme.id: published.order.order_id
        for published in list_published_sort_orders(state.version)
        if published.scheme.fields
    }
    common = repr((PUBLISHED_FORMAT, content.value, state.schema, state.version.keys, orders))
    common += repr(change) if change is not None else ""
    common += "v3" if format_version == 3 else ""
    manifests: list[PlannedManifest] = []
    for run in _split_entries(entries):
        spec = run[0].data_file.published.spec
        row_ids = [str(one.first_row_id) for one in run if one.first_row_id is not None]
        digest = compute_digest([common, repr(spec), *(one.identity for one in run), *row_ids])
        path = f"{published_folder_of(state.table_id)}{digest}.avro"
        info = ManifestInfo(root_address + path, digest, content, schema, spec, change, format_version)
        manifests.append(PlannedManifest(path, info, run, state.schema, orders))
    return manifests


def _split_entries(entries: Sequence[ManifestFileEntry]) -> Iterable[tuple[ManifestFileEntry, ...]]:
    """Yield the entries of each manifest; all of them have the same spec, as Iceberg requires."""
    for _, same in groupby(entries, key=lambda one: one.data_file.published.spec.spec_id):
        files = list(same)
        yield from split_runs(files, [one.identity for one in files], FILES_PER_MANIFEST)
