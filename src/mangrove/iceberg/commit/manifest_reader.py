"""Reader for manifest lists and manifests that Iceberg clients write.

A client sends the locations of its files. Only files below the table's own folder are
opened, so that a client cannot read arbitrary files through the server. Files above a
size limit are rejected.
"""

import io
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn, TypeVar

from pyiceberg.avro.file import AvroFile
from pyiceberg.exceptions import ResolveError
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    read_manifest_list,
)

from mangrove.errors import InvalidInputError, StorageError
from mangrove.iceberg.commit.avro_validation import validate_avro
from mangrove.iceberg.locations import normalize_location
from mangrove.model.paths import check_path
from mangrove.storage.port import Store
from mangrove.tables.iceberg_names import STAGING_FOLDER, published_folder_of
from mangrove.tables.write_plan import has_column_ids

__all__ = ["ClientFileIO", "TableLocation", "read_file_size"]

T = TypeVar("T")
_UNREADABLE: Final = (
    ResolveError, ValueError, TypeError, LookupError, EOFError, AssertionError, OverflowError, RuntimeError,
    AttributeError, MemoryError, SystemError, struct.error, zlib.error,
)  # fmt: skip
"""Exceptions that PyIceberg raises for invalid Avro; its C decoder accepts impossible lengths."""
_AVRO_BYTES_MAX: Final = 128 * 1024 * 1024
"""Far above what clients write: they start a new manifest after 8 MiB."""
_MANIFESTS_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class TableLocation:
    """The folder of a table as an Iceberg location, with the folders of all its files."""

    location: str
    """Ends in `data/<table id>`."""
    table_id: str

    def __post_init__(self) -> None:
        if not self.location.endswith(f"/data/{self.table_id}"):
            raise InvalidInputError(
                f"{self.location!r} is not the location of table {self.table_id}; it must end in data/{self.table_id}"
            )

    @property
    def root(self) -> str:
        """The location of the lakehouse, ending in `/`."""
        return self.location.removesuffix(f"data/{self.table_id}")

    def is_staged(self, path: str) -> bool:
        """Return whether a file is below the location that engines see, where they may delete it."""
        return path.startswith(f"data/{self.table_id}/{STAGING_FOLDER}/")

    def path_of(self, address: str) -> str:
        """Return the path of a file relative to the lakehouse's root; the file must be in the table's folder."""
        folder = normalize_location(self.location) + "/"
        normalized = normalize_location(address)
        if not normalized.startswith(folder):
            raise InvalidInputError(
                f"{address!r} is not below {self.location}; a commit may only reference files in its table's folder"
            )
        path = f"data/{self.table_id}/{normalized.removeprefix(folder)}"
        check_path(path)
        return path

    def rows_path_of(self, address: str) -> str:
        """Return the path of a data or delete file, which must be outside the metadata folder."""
        path = self.path_of(address)
        if path.startswith(published_folder_of(self.table_id)):
            raise InvalidInputError(
                f"{address!r} is in the metadata folder of its table; write data files outside of it"
            )
        if "#" in path or "?" in path:
            raise InvalidInputError(
                f"{address!r} contains '#' or '?', which Iceberg readers do not support; write the file under another "
                "name"
            )
        if not has_column_ids(path):
            raise InvalidInputError(f"{address!r} does not end in .parquet; write Parquet files with that suffix")
        return path


class ClientFileIO(FileIO):
    """Read-only PyIceberg FileIO for the files of one table."""

    def __init__(self, store: Store, place: TableLocation) -> None:
        super().__init__()
        self.place = place
        self._store = store

    def new_input(self, location: str) -> InputFile:
        """Return an input file of the table."""
        return _Input(location, self._store, self.place.path_of(location))

    def new_output(self, location: str) -> OutputFile:
        """Raise InvalidInputError: client files are read-only."""
        _reject_write(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Raise InvalidInputError: client files are read-only."""
        _reject_write(location)

    def manifests(self, manifest_list: str) -> list[ManifestFile]:
        """Return the manifests that a snapshot lists."""
        file = self.new_input(manifest_list)
        manifests = _translate_errors(manifest_list, lambda: list(read_manifest_list(file)))
        if len(manifests) > _MANIFESTS_MAX:
            raise InvalidInputError(
                f"{manifest_list} lists {len(manifests)} manifests; at most {_MANIFESTS_MAX} are supported, merge them"
            )
        return manifests

    def entries(self, manifest: ManifestFile) -> list[ManifestEntry]:
        """Return the entries of a manifest, including deleted ones."""
        return _translate_errors(manifest.manifest_path, lambda: self._read_entries(manifest))

    def _read_entries(self, manifest: ManifestFile) -> list[ManifestEntry]:
        """Read a manifest with the fields of format version 3, which PyIceberg's own function omits."""
        with AvroFile[ManifestEntry](
            self.new_input(manifest.manifest_path),
            MANIFEST_ENTRY_SCHEMAS[3],
            read_types={-1: ManifestEntry, 2: DataFile},
            read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
        ) as reader:
            entries = list(reader)
        for entry in entries:
            is_inherited = manifest.sequence_number == 0 or entry.status is ManifestEntryStatus.ADDED
            if entry.sequence_number is None and is_inherited:
                entry.sequence_number = manifest.sequence_number
        return entries


class _Input(InputFile):
    def __init__(self, location: str, store: Store, path: str) -> None:
        super().__init__(location)
        self._store = store
        self._path = path

    def __len__(self) -> int:
        return self._store.size(self._path) or 0

    def exists(self) -> bool:
        return self._store.exists(self._path)

    def open(self, seekable: bool = True) -> InputStream:
        del seekable
        size = read_file_size(self._store, self._path)
        if size > _AVRO_BYTES_MAX:
            raise InvalidInputError(f"{self.location} has {size} bytes; at most {_AVRO_BYTES_MAX} are supported")
        data = self._store.read(self._path)
        validate_avro(data)
        return io.BytesIO(data)


def read_file_size(store: Store, path: str) -> int:
    """Return the size of a client's file; raise InvalidInputError if it does not exist."""
    try:
        size = store.size(path)
    except StorageError as error:
        # A path that is not listed is not an object, for example a symbolic link; other failures are storage errors.
        if _is_listed(store, path):
            raise
        raise InvalidInputError(f"{path} is not a file of the lakehouse: {error}") from error
    if size is None:
        raise InvalidInputError(f"{path} does not exist; write it before the commit that references it")
    return size


def _is_listed(store: Store, path: str) -> bool:
    """Return whether a path and each of its parent folders are listed; nothing below a link is."""
    parts = path.split("/")
    starts = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return all(any(f"{one.path}/".startswith(f"{start}/") for one in store.list(start)) for start in starts)


def _translate_errors(address: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except _UNREADABLE as error:
        raise InvalidInputError(
            f"{address} is not an Avro file of Iceberg ({type(error).__name__}: {error}); rewrite it"
        ) from error


def _reject_write(location: object) -> NoReturn:
    raise InvalidInputError(f"{location} is read-only; Iceberg clients write their files themselves")
