"""Data and delete files that differ between two Iceberg snapshots.

The status of a manifest entry (added, existing, deleted) refers to the snapshot that wrote
it. A commit may contain several snapshots, and manifests may be merged, so the live files
before and after are compared. Manifests that both snapshots list are not read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry, ManifestEntryStatus, ManifestFile

from mangrove.errors import InvalidInputError
from mangrove.iceberg.locations import normalize_location

__all__ = ["ClientManifestEntry", "FileChanges", "diff_manifests"]


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
        tuple(file for address, file in now.items() if address not in was),
        tuple(file for address, file in was.items() if address not in now),
    )


def _read_live_entries(
    manifests: Sequence[ManifestFile], shared: set[str], entries_of: Callable[[ManifestFile], Iterable[ManifestEntry]]
) -> Mapping[str, ClientManifestEntry]:
    by_address: dict[str, ClientManifestEntry] = {}
    for manifest in manifests:
        if manifest.manifest_path in shared:
            continue
        for entry in entries_of(manifest):
            if entry.status is ManifestEntryStatus.DELETED:
                continue
            listed = ClientManifestEntry(entry.data_file, manifest.partition_spec_id, entry.sequence_number)
            if listed.normalized_address in by_address:
                raise InvalidInputError(
                    f"{listed.address} is listed twice, the second time in {manifest.manifest_path}; list it once"
                )
            by_address[listed.normalized_address] = listed
    return by_address
