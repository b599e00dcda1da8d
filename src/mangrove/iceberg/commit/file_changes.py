"""Data and delete files that differ between two Iceberg snapshots.

What an entry says of itself (added, existing, deleted) is about the snapshot that wrote
it. A commit may hold several snapshots, and manifests may be merged, so only what is
alive before and after counts. Manifests that both snapshots list are not read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry, ManifestEntryStatus, ManifestFile

from mangrove.errors import InvalidInputError
from mangrove.iceberg.locations import normalize_location

__all__ = ["ClientManifestEntry", "FileChanges", "diff_manifests"]


@dataclass(frozen=True, slots=True)
class ClientManifestEntry:
    """A file as a manifest lists it."""

    file: DataFile
    spec_id: int
    """By which partition spec its partition values are meant."""
    sequence_number: int | None = None
    """The number of the snapshot that its rows, or what it deletes, count from."""

    @property
    def address(self) -> str:
        """Where it lies, as it is written."""
        return self.file.file_path

    @property
    def spelled(self) -> str:
        """Where it lies, the same for all spellings."""
        return normalize_location(self.file.file_path)

    @property
    def content(self) -> DataFileContent:
        """What its rows are."""
        return self.file.content


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The files by which two snapshots differ."""

    added: tuple[ClientManifestEntry, ...] = ()
    removed: tuple[ClientManifestEntry, ...] = ()

    def of(self, content: DataFileContent) -> "FileChanges":
        """Return those of one kind."""
        return FileChanges(
            tuple(file for file in self.added if file.content is content),
            tuple(file for file in self.removed if file.content is content),
        )


def diff_manifests(
    before: Sequence[ManifestFile],
    after: Sequence[ManifestFile],
    entries_of: Callable[[ManifestFile], Iterable[ManifestEntry]],
) -> FileChanges:
    """Return what differs between the snapshots that list these manifests."""
    shared = {manifest.manifest_path for manifest in before} & {manifest.manifest_path for manifest in after}
    was = _alive(before, shared, entries_of)
    now = _alive(after, shared, entries_of)
    return FileChanges(
        tuple(file for address, file in now.items() if address not in was),
        tuple(file for address, file in was.items() if address not in now),
    )


def _alive(
    manifests: Sequence[ManifestFile], shared: set[str], entries_of: Callable[[ManifestFile], Iterable[ManifestEntry]]
) -> Mapping[str, ClientManifestEntry]:
    found: dict[str, ClientManifestEntry] = {}
    for manifest in manifests:
        if manifest.manifest_path in shared:
            continue
        for entry in entries_of(manifest):
            if entry.status is ManifestEntryStatus.DELETED:
                continue
            listed = ClientManifestEntry(entry.data_file, manifest.partition_spec_id, entry.sequence_number)
            if listed.spelled in found:
                raise InvalidInputError(
                    f"{listed.address} is listed twice, as by {manifest.manifest_path}: its rows would count twice"
                )
            found[listed.spelled] = listed
    return found
