"""Files of tables without a schema: content types, paths, and which files a table has."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.model.manifests import IDENTITY_ENCODING, PARQUET, DataFile, FileKind
from mangrove.model.objects import Delta, DeltaType

__all__ = ["NewFile", "build_stored_file_path", "detect_content_type", "list_live_files"]

_BINARY: Final = "application/octet-stream"
_CONTENT_TYPES: Final[Mapping[str, str]] = {
    "parquet": PARQUET,
    "pq": PARQUET,
    "csv": "text/csv",
    "tsv": "text/tsv",
    "psv": "text/psv",
    "json": "application/json",
    "jsonl": "application/json",
    "ndjson": "application/json",
    "arrow": "application/feather",
    "feather": "application/feather",
    "orc": "application/orc",
    "avro": "application/avro",
    "txt": "text/plain",
    "html": "text/html",
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "pdf": "application/pdf",
}
"""By the end of a file's name; the names are those of DeltaCAT where it has one."""
_ENCODINGS: Final = {"gz": "gzip", "bz2": "bzip2", "zst": "zstd"}
_NOT_IN_PATHS: Final = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_CHARACTERS_MAX: Final = 60


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file to add as it is; the content type follows from the name if it is None."""

    name: str
    data: bytes
    content_type: str | None = None


def detect_content_type(name: str) -> tuple[str, str]:
    """Return the content type and encoding that the end of a file's name says.

    >>> detect_content_type("a.csv.gz"), detect_content_type("notes")
    (('text/csv', 'gzip'), ('application/octet-stream', 'identity'))
    """
    *_, before, last = ("", "", *name.lower().split("."))
    if last in _ENCODINGS and before in _CONTENT_TYPES:
        return _CONTENT_TYPES[before], _ENCODINGS[last]
    return _CONTENT_TYPES.get(last, _BINARY) if before else _BINARY, IDENTITY_ENCODING


def build_stored_file_path(table_id: str, file_id: str, name: str) -> str:
    """Return the path of a new file of a table, with the end of its name for readability.

    >>> build_stored_file_path("t1", "f1", "my photo.png")
    'data/t1/f1-my-photo.png'
    """
    return f"data/{table_id}/{file_id}-{_NOT_IN_PATHS.sub('-', name)[-_NAME_CHARACTERS_MAX:]}"


def list_live_files(deltas: Iterable[Delta], table: str) -> list[DataFile]:
    """Return the files of the deltas of one partition, given in the order in which they apply."""
    live: dict[str, tuple[int, DataFile]] = {}
    for delta in deltas:
        if delta.type is DeltaType.REPLACE:
            live = {name: found for name, found in live.items() if not _is_replaced(name, found[0], delta)}
        elif delta.type not in (DeltaType.APPEND, DeltaType.ADD):
            raise InvalidInputError(
                f"{table} has no schema and a delta of type {delta.type.value}; its files cannot be listed without keys"
            )
        live |= {
            file.location: (delta.position or 0, file) for file in delta.manifest.entries if file.kind is FileKind.DATA
        }
    return [file for _, file in live.values()]


def _is_replaced(location: str, position: int, delta: Delta) -> bool:
    if delta.replaced_locations:
        return location in delta.replaced_locations
    return delta.replaces_through is None or position <= delta.replaces_through
