"""Data and delete files that differ between two Iceberg snapshots.

The status of a manifest entry (added, existing, deleted) refers to the snapshot that wrote
it. A commit may contain several snapshots, and manifests may be merged, so the live files
before and after are compared. Manifests that both snapshots list are not read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus, ManifestFile

from mangrove.errors import InvalidInputError
from mangrove.iceberg.locations import normalize_location

__all__ = ["ClientManifestEntry", "FileChanges", "VectorLocation", "diff_manifests"]


@dataclass(frozen=True, slots=True)
class VectorLocation:
    """Where a Puffin file has the deletion vector of a data file."""

    data_file: str
    """The location of the data file, as the client wrote it."""
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class ClientManifestEntry:
    """A data or delete file in a client's manifest."""

    file: DataFile
    spec_id: int
    """The partition spec of its partition values."""
    sequence_number: int | None = None
    """The data sequence number of the file."""

    @property
    def address(self) -> str:
        """Its location as the client wrote it."""
        return self.file.file_path

    @property
    def normalized_address(self) -> str:
        """Its location in normalized form."""
        return normalize_location(self.file.file_path)

    @property
    def content(self) -> DataFileContent:
        """The kind of its content."""
        return self.file.content

    @property
    def vector(self) -> VectorLocation | None:
        """Where its deletion vector is; None if it is not in a Puffin file."""
        if self.file.file_format is not FileFormat.PUFFIN:
            return None
        # PyIceberg has no properties for these fields of format version 3.
        data_file, offset, size = (self.file[place] for place in (17, 18, 19))
        if data_file is None or offset is None or size is None:
            raise InvalidInputError(f"{self.address} lacks its data file, content offset or content size; rewrite it")
        return VectorLocation(data_file, offset, size)

    @property
    def identity(self) -> tuple[str, VectorLocation | None]:
        """What distinguishes it from other entries; a Puffin file has the deletion vectors of several data files."""
        return self.normalized_address, self.vector


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The files that were added and removed between two snapshots."""

    added: tuple[ClientManifestEntry, ...] = ()
    removed: tuple[ClientManifestEntry, ...] = ()

    def of(self, content: DataFileContent) -> "FileChanges":
        """Return the changes of one kind of file."""
        return FileChanges(
            tuple(file for file in self.added if file.content is content),
            tuple(file for file in self.removed if file.content is content),
        )


def diff_manifests(
    before: Sequence[ManifestFile],
    after: Sequence[ManifestFile],
    entries_of: Callable[[ManifestFile], Iterable[ManifestEntry]],
) -> FileChanges:
    """Return the file changes between two lists of manifests."""
    shared = {manifest.manifest_path for manifest in before} & {manifest.manifest_path for manifest in after}
    was = _read_live_entries(before, shared, entries_of)
    now = _read_live_entries(after, shared, entries_of)
    return FileChanges(
        tuple(file for identity, file in now.items() if identity not in was),
        tuple(file for identity, file in was.items() if identity not in now),
    )


def _read_live_entries(
    manifests: Sequence[ManifestFile], shared: set[str], entries_of: Callable[[ManifestFile], Iterable[ManifestEntry]]
) -> Mapping[tuple[str, VectorLocation | None], ClientManifestEntry]:
    found: dict[tuple[str, VectorLocation | None], ClientManifestEntry] = {}
    for manifest in manifests:
        if manifest.manifest_path in shared:
            continue
        for entry in entries_of(manifest):
            if entry.status is ManifestEntryStatus.DELETED:
                continue
            listed = ClientManifestEntry(entry.data_file, manifest.partition_spec_id, entry.sequence_number)
            if listed.identity in found:
                raise InvalidInputError(
                    f"{listed.address} is listed twice, the second time in {manifest.manifest_path}; list it once"
                )
            found[listed.identity] = listed
    return found
