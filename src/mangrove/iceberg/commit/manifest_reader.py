"""Reader for manifest lists and manifests that Iceberg clients write.

A client names files by their addresses. One that could name any address would read
through us whatever this process may read, so only what lies below the table's own
place is opened. Nor is anything opened that is too large for what it claims to be.
"""

import io
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn, TypeVar

from pyiceberg.exceptions import ResolveError
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.manifest import ManifestEntry, ManifestFile, read_manifest_list

from mangrove.errors import InvalidInputError, StorageError
from mangrove.iceberg.commit.avro_validation import validate_avro
from mangrove.iceberg.locations import normalize_location
from mangrove.storage.paths import check_path
from mangrove.storage.port import Store
from mangrove.tables.iceberg_names import published_folder_of
from mangrove.tables.write_plan import has_column_ids

__all__ = ["ClientFileIO", "TableLocation", "read_file_size"]

T = TypeVar("T")
_UNREADABLE: Final = (
    ResolveError, ValueError, TypeError, LookupError, EOFError, AssertionError, OverflowError, RuntimeError,
    AttributeError, MemoryError, SystemError, struct.error, zlib.error,
)  # fmt: skip
"""What PyIceberg says of Avro that is none, or none of its own; its decoder in C takes lengths that cannot be."""
_AVRO_BYTES_MAX: Final = 128 * 1024 * 1024
"""Far above what clients write, which begin another manifest after 8 MiB."""
_MANIFESTS_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class TableLocation:
    """Where the files of a table lie, as Iceberg's clients know it."""

    location: str
    """The address of the table's folder, which ends in `data/<table id>`."""
    table_id: str

    def __post_init__(self) -> None:
        if not self.location.endswith(f"/data/{self.table_id}"):
            raise InvalidInputError(
                f"{self.location!r} is not the place of the table {self.table_id}: it ends in data/{self.table_id}"
            )

    @property
    def root(self) -> str:
        """The address of the lakehouse, ending in `/`."""
        return self.location.removesuffix(f"data/{self.table_id}")

    def path_of(self, address: str) -> str:
        """Return the path below the lakehouse's root of a file in the table's folder; refuse any other address."""
        folder = normalize_location(self.location) + "/"
        spelled = normalize_location(address)
        if not spelled.startswith(folder):
            raise InvalidInputError(
                f"{address!r} does not lie below {self.location}: a commit names only files of its table's own folder"
            )
        path = f"data/{self.table_id}/{spelled.removeprefix(folder)}"
        check_path(path)
        return path

    def rows_path_of(self, address: str) -> str:
        """Return the path of a file of rows, or of deleted ones; where a table is shown files come and go."""
        path = self.path_of(address)
        if path.startswith(published_folder_of(self.table_id)):
            raise InvalidInputError(
                f"{address!r} lies among the metadata of its table, which are derived: write rows beside them"
            )
        if "#" in path or "?" in path:
            raise InvalidInputError(
                f"{address!r} has a '#' or '?', and Iceberg's readers take what follows for no part of the name: write "
                "the file under a name without them"
            )
        if not has_column_ids(path):
            raise InvalidInputError(f"{address!r} does not end in .parquet: write Parquet, and let its name say so")
        return path


class ClientFileIO(FileIO):
    """The files of one table as PyIceberg reads them; it writes and deletes none."""

    def __init__(self, store: Store, place: TableLocation) -> None:
        super().__init__()
        self.place = place
        self._store = store

    def new_input(self, location: str) -> InputFile:
        """Return a file of the table."""
        return _Input(location, self._store, self.place.path_of(location))

    def new_output(self, location: str) -> OutputFile:
        """Refuse: what a client commits is read here and never written."""
        _refuse(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Refuse: what a client commits is read here and never deleted."""
        _refuse(location)

    def manifests(self, manifest_list: str) -> list[ManifestFile]:
        """Return the manifests that a snapshot lists."""
        file = self.new_input(manifest_list)
        found = _readable(manifest_list, lambda: list(read_manifest_list(file)))
        if len(found) > _MANIFESTS_MAX:
            raise InvalidInputError(
                f"{manifest_list} lists {len(found)} manifests, and {_MANIFESTS_MAX} are read at most: merge them first"
            )
        return found

    def entries(self, manifest: ManifestFile) -> list[ManifestEntry]:
        """Return the files that a manifest tells of, deleted ones too."""
        return _readable(manifest.manifest_path, lambda: manifest.fetch_manifest_entry(self, discard_deleted=False))


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
            raise InvalidInputError(f"{self.location} has {size} bytes, and {_AVRO_BYTES_MAX} are read at most")
        data = self._store.read(self._path)
        validate_avro(data)
        return io.BytesIO(data)


def read_file_size(store: Store, path: str) -> int:
    """Return the size of a file that a client names; refuse what is no file."""
    try:
        size = store.size(path)
    except StorageError as error:
        # What is not listed is no object, such as a link on a local disk; of any other failure the store itself tells.
        if _is_listed(store, path):
            raise
        raise InvalidInputError(f"{path} is no file of the lakehouse: {error}") from error
    if size is None:
        raise InvalidInputError(f"{path} is not there: write it before the commit that names it")
    return size


def _is_listed(store: Store, path: str) -> bool:
    """Return whether a path, and before it each of its folders, is listed: below a link nothing is."""
    parts = path.split("/")
    starts = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return all(any(f"{one.path}/".startswith(f"{start}/") for one in store.list(start)) for start in starts)


def _readable(address: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except _UNREADABLE as error:
        raise InvalidInputError(
            f"{address} is no Avro file of Iceberg's format 2 ({type(error).__name__}: {error}): write it again"
        ) from error


def _refuse(location: object) -> NoReturn:
    raise InvalidInputError(f"{location} is only read here: an Iceberg client writes its files itself")
