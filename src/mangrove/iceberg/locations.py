"""File locations in the form that Iceberg engines expect.

Iceberg does not percent-decode locations: a space is written as a space, and `%20` is
part of the file name.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.maintenance.export_records import LayeredStore
from mangrove.model.manifests import DataFile
from mangrove.storage.local_links import refuse_links
from mangrove.storage.port import Store
from mangrove.storage.uri import parse_root_uri
from mangrove.tables.iceberg_names import STAGING_FOLDER

__all__ = ["FileLocations", "folder_of", "normalize_location", "root_location_of"]

_FILE: Final = re.compile(r"file:/+")
_S3: Final = re.compile(r"s3[an]://")


def normalize_location(address: str) -> str:
    """Return a location with our scheme; Hadoop clients write `file:/` and `s3a://`.

    >>> normalize_location("file:/lake/a.parquet"), normalize_location("s3a://bucket/a.parquet")
    ('file:///lake/a.parquet', 's3://bucket/a.parquet')
    """
    if address.startswith("/"):
        return "file:///" + address.lstrip("/")
    return _S3.sub("s3://", _FILE.sub("file:///", address, count=1), count=1)


def root_location_of(uri: str) -> str:
    """Return the root of a lakehouse as an Iceberg location that ends in `/`.

    >>> root_location_of("file:///data/my%20lake/")
    'file:///data/my lake/'
    """
    root = parse_root_uri(uri)
    if any(character in root.path for character in "?#"):
        raise InvalidInputError(
            f"the lakehouse path {root.path!r} contains '?' or '#', which Iceberg readers do not support; move it to "
            "another folder"
        )
    return f"{root.scheme}://{root.authority}/{root.path.removeprefix('/')}"


def folder_of(location: str) -> str:
    """Return the location of a table's folder, given the location in its metadata.

    >>> folder_of("s3://bucket/lake/data/t1/iceberg/staging/")
    's3://bucket/lake/data/t1'
    """
    return location.rstrip("/").removesuffix(f"/{STAGING_FOLDER}")


@dataclass(frozen=True, slots=True)
class FileLocations:
    """Iceberg locations of the files of one lakehouse."""

    store: Store

    def of(self, path: str) -> str:
        """Return the location of a file of this lakehouse."""
        return _root_of_files(self.store.uri) + path

    def of_table(self, table_id: str) -> str:
        """Return the location of the folder of a table, without a trailing slash."""
        return self.of(f"data/{table_id}")

    def of_all(self, files: Sequence[DataFile]) -> list[str]:
        """Return the locations of data files; files of a shallow copy are located in its source."""
        self.check_below_root(files)
        paths = [file.path for file in files]
        if isinstance(self.store, LayeredStore) and paths:
            roots = self.store.roots_of(paths)
        else:
            roots = [self.store.uri] * len(paths)
        spelled = {uri: _root_of_files(uri) for uri in dict.fromkeys(roots)}
        return [spelled[uri] + path for path, uri in zip(paths, roots, strict=True)]

    def check_below_root(self, files: Sequence[DataFile]) -> None:
        """Raise InvalidInputError for files that a client would open outside the lakehouse: URIs and symbolic links."""
        paths = [file.path for file in files]
        for uri in self.store.uris if isinstance(self.store, LayeredStore) else (self.store.uri,):
            refuse_links(uri, paths)


def _root_of_files(uri: str) -> str:
    """Return the root location of data files; an Azure root must include the account."""
    if parse_root_uri(uri).scheme == "az":
        raise InvalidInputError(
            f"{uri} does not include the storage account, which Iceberg readers require; open the lakehouse as "
            "abfss://container@account.dfs.core.windows.net/…"
        )
    return root_location_of(uri)
