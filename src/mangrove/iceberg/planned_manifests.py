"""Which manifests tell of a state's files: the same ones again as long as their files stay the same."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import ManifestContent, ManifestFile

from mangrove.iceberg.data_files import iceberg_data_file
from mangrove.iceberg.manifests import ManifestFacts, manifest_bytes, manifest_record
from mangrove.iceberg.placing import PlacedFile
from mangrove.iceberg.schemas import iceberg_schema
from mangrove.iceberg.schemes import shown_orders
from mangrove.model.manifests import DataFile, FileKind
from mangrove.model.schema import Schema
from mangrove.tables.shown_names import SHOWN_FORMAT, digest_of, runs, shown_folder
from mangrove.tables.table_state import TableState

__all__ = ["FILES_IN_MANIFEST", "PlannedManifest", "ToldFile", "planned_manifests"]

FILES_IN_MANIFEST: Final = 256
"""About so many files are told of in one manifest: the last one is written again by each append."""


@dataclass(frozen=True, slots=True)
class ToldFile:
    """A file that a manifest tells of: one of rows, or one that hides rows of such a file."""

    file: DataFile
    address: str
    place: PlacedFile
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
    facts: ManifestFacts
    files: tuple[ToldFile, ...]
    schema: Schema
    order_ids: Mapping[str, int]

    def encoded(self) -> bytes:
        """Return its bytes."""
        return manifest_bytes(self.facts, ((self._told(one), one.sequence_number) for one in self.files))

    def record(self, size_bytes: int) -> ManifestFile:
        """Return what the list of manifests says of it."""
        return manifest_record(
            self.facts,
            size_bytes,
            sum(one.file.row_count for one in self.files),
            [one.place.record for one in self.files],
            [one.sequence_number for one in self.files],
        )

    def _told(self, one: ToldFile) -> IcebergFile:
        return iceberg_data_file(
            one.file,
            one.address,
            one.place.record,
            self.schema,
            one.place.shown.spec.spec_id,
            sort_order_id=self.order_ids.get(one.file.sort_scheme_id or "") if one.is_rows else None,
            deleted_from=None if one.is_rows else one.place.address,
        )


def planned_manifests(state: TableState, told: Sequence[ToldFile], root_address: str) -> list[PlannedManifest]:
    """Return the manifests of files that are all of rows or all of hidden rows, in the order in which they come."""
    content = ManifestContent.DATA if all(one.is_rows for one in told) else ManifestContent.DELETES
    schema = iceberg_schema(state.schema, state.version.keys)
    orders = {shown.scheme.id: shown.order.order_id for shown in shown_orders(state.version) if shown.scheme.fields}
    common = repr((SHOWN_FORMAT, content.value, state.schema, state.version.keys, orders))
    found: list[PlannedManifest] = []
    for run in _runs(told):
        spec = run[0].place.shown.spec
        digest = digest_of([common, repr(spec), *(one.words for one in run)])
        path = f"{shown_folder(state.table_id)}{digest}.avro"
        facts = ManifestFacts(root_address + path, digest, content, schema, spec)
        found.append(PlannedManifest(path, facts, run, state.schema, orders))
    return found


def _runs(told: Sequence[ToldFile]) -> Iterable[tuple[ToldFile, ...]]:
    """Yield the files of each manifest: files of one spec, as Iceberg demands."""
    for _, same in groupby(told, key=lambda one: one.place.shown.spec.spec_id):
        files = list(same)
        yield from runs(files, [one.words for one in files], FILES_IN_MANIFEST)
