"""Planning of manifests, which reuses those whose files are unchanged."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import ManifestContent, ManifestFile

from mangrove.iceberg.data_files import to_iceberg_data_file
from mangrove.iceberg.partition_specs import list_published_sort_orders
from mangrove.iceberg.publish.manifests import ManifestInfo, build_manifest_record, encode_manifest
from mangrove.iceberg.publish.partition_assignment import PartitionedFile
from mangrove.iceberg.schemas import to_iceberg_schema
from mangrove.model.manifests import DataFile, FileKind
from mangrove.model.schema import Schema
from mangrove.tables.iceberg_names import PUBLISHED_FORMAT, compute_digest, published_folder_of, split_runs
from mangrove.tables.table_state import TableState

__all__ = ["FILES_PER_MANIFEST", "ManifestFileEntry", "PlannedManifest", "plan_manifests"]

FILES_PER_MANIFEST: Final = 256
"""About so many files are told of in one manifest: the last one is written again by each append."""


@dataclass(frozen=True, slots=True)
class ManifestFileEntry:
    """A file that a manifest tells of: one of rows, or one that hides rows of such a file."""

    file: DataFile
    address: str
    place: PartitionedFile
    """Itself, or the file whose rows are hidden."""
    words: str

    @property
    def sequence_number(self) -> int:
        """What Iceberg orders files by; numbers of rows hide those of a file that is not younger than they are."""
        return max(1, self.place.scan.position)

    @property
    def is_rows(self) -> bool:
        """Whether it holds rows."""
        return self.file.kind is FileKind.DATA


@dataclass(frozen=True, slots=True)
class PlannedManifest:
    """A manifest that is there or has yet to be written."""

    path: str
    facts: ManifestInfo
    files: tuple[ManifestFileEntry, ...]
    schema: Schema
    order_ids: Mapping[str, int]

    def encoded(self) -> bytes:
        """Return its bytes."""
        return encode_manifest(self.facts, ((self._told(one), one.sequence_number) for one in self.files))

    def record(self, size_bytes: int) -> ManifestFile:
        """Return what the list of manifests says of it."""
        return build_manifest_record(
            self.facts,
            size_bytes,
            sum(one.file.row_count for one in self.files),
            [one.place.record for one in self.files],
            [one.sequence_number for one in self.files],
        )

    def _told(self, one: ManifestFileEntry) -> IcebergFile:
        return to_iceberg_data_file(
            one.file,
            one.address,
            one.place.record,
            self.schema,
            one.place.shown.spec.spec_id,
            sort_order_id=self.order_ids.get(one.file.sort_scheme_id or "") if one.is_rows else None,
            deleted_from=None if one.is_rows else one.place.address,
        )


def plan_manifests(state: TableState, told: Sequence[ManifestFileEntry], root_address: str) -> list[PlannedManifest]:
    """Return the manifests of files that are all of rows or all of hidden rows, in the order in which they come."""
    content = ManifestContent.DATA if all(one.is_rows for one in told) else ManifestContent.DELETES
    schema = to_iceberg_schema(state.schema, state.version.keys)
    orders = {
        shown.scheme.id: shown.order.order_id
        for shown in list_published_sort_orders(state.version)
        if shown.scheme.fields
    }
    common = repr((PUBLISHED_FORMAT, content.value, state.schema, state.version.keys, orders))
    found: list[PlannedManifest] = []
    for run in _runs(told):
        spec = run[0].place.shown.spec
        digest = compute_digest([common, repr(spec), *(one.words for one in run)])
        path = f"{published_folder_of(state.table_id)}{digest}.avro"
        facts = ManifestInfo(root_address + path, digest, content, schema, spec)
        found.append(PlannedManifest(path, facts, run, state.schema, orders))
    return found


def _runs(told: Sequence[ManifestFileEntry]) -> Iterable[tuple[ManifestFileEntry, ...]]:
    """Yield the files of each manifest: files of one spec, as Iceberg demands."""
    for _, same in groupby(told, key=lambda one: one.place.shown.spec.spec_id):
        files = list(same)
        yield from split_runs(files, [one.words for one in files], FILES_PER_MANIFEST)
