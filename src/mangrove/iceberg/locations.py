"""File locations in the form that Iceberg engines expect.

Iceberg takes an address as it is written: a space stands for itself, and a `%20`
would be looked for under that very name.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.maintenance.exports import LayeredStore
from mangrove.model.manifests import DataFile
from mangrove.storage.local_links import refuse_links
from mangrove.storage.port import Store
from mangrove.storage.uri import parse_root_uri

__all__ = ["FileLocations", "normalize_location", "root_location_of"]

_FILE: Final = re.compile(r"file:/+")
_S3: Final = re.compile(r"s3[an]://")


def normalize_location(address: str) -> str:
    """Return an address with the scheme that we give it: Hadoop's clients write `file:/` and `s3a://`.

    >>> normalize_location("file:/lake/a.parquet"), normalize_location("s3a://bucket/a.parquet")
    ('file:///lake/a.parquet', 's3://bucket/a.parquet')
    """
    if address.startswith("/"):
        return "file:///" + address.lstrip("/")
    return _S3.sub("s3://", _FILE.sub("file:///", address, count=1), count=1)


def root_location_of(uri: str) -> str:
    """Return the root of a lakehouse as Iceberg's engines spell it, ending in `/`.

    >>> root_location_of("file:///data/my%20lake/")
    'file:///data/my lake/'
    """
    root = parse_root_uri(uri)
    if any(character in root.path for character in "?#"):
        raise InvalidInputError(
            f"the lakehouse lies in {root.path!r}, and Iceberg's readers take what follows a '?' or '#' for no part of "
            "the name: move it to a folder without them"
        )
    return f"{root.scheme}://{root.authority}/{root.path.removeprefix('/')}"


@dataclass(frozen=True, slots=True)
class FileLocations:
    """Where the files of one lakehouse lie."""

    store: Store

    def of(self, path: str) -> str:
        """Return the address of a file that is written here."""
        return _root_of_files(self.store.uri) + path

    def of_all(self, files: Sequence[DataFile]) -> list[str]:
        """Return the addresses of data files; a copy may lack what its source has."""
        self.check_below_root(files)
        paths = [file.path for file in files]
        if isinstance(self.store, LayeredStore) and paths:
            roots = self.store.roots_of(paths)
        else:
            roots = [self.store.uri] * len(paths)
        spelled = {uri: _root_of_files(uri) for uri in dict.fromkeys(roots)}
        return [spelled[uri] + path for path, uri in zip(paths, roots, strict=True)]

    def check_below_root(self, files: Sequence[DataFile]) -> None:
        """Refuse files that a client would open outside the lakehouse: by a URI, or through a symbolic link."""
        paths = [file.path for file in files]
        for uri in self.store.uris if isinstance(self.store, LayeredStore) else (self.store.uri,):
            refuse_links(uri, paths)


def _root_of_files(uri: str) -> str:
    """Return a root below which engines find files; refuse one that does not say whose container it means."""
    if parse_root_uri(uri).scheme == "az":
        raise InvalidInputError(
            f"{uri} does not name the account, and Iceberg's readers know Azure by addresses that do: open the "
            "lakehouse as abfss://container@account.dfs.core.windows.net/…"
        )
    return root_location_of(uri)
