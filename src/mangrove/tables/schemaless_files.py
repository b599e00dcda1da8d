"""Files of tables without a schema: content types, paths, and which files a table has."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.model.locators import PartitionLocator
from mangrove.model.manifests import IDENTITY_ENCODING, PARQUET, DataFile, Manifest
from mangrove.model.objects import Delta, DeltaType
from mangrove.model.values import Value
from mangrove.tables.scan_plan import list_live_files
from mangrove.tables.table_state import PartitionLog
from mangrove.tables.write_plan import PlannedWrite, plan_write
from mangrove.transaction.catalog import CatalogReader
from mangrove.transaction.deltas import OpenTable, scan_deltas_of_partitions, scan_partitions

__all__ = [
    "BINARY",
    "NewFile",
    "build_stored_file_path",
    "detect_content_type",
    "load_live_files",
    "plan_file_removal",
]

BINARY: Final = "application/octet-stream"
"""The content type of a file of an unknown format."""
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
    return _CONTENT_TYPES.get(last, BINARY) if before else BINARY, IDENTITY_ENCODING


def build_stored_file_path(table_id: str, file_id: str, name: str, path_bytes_max: int) -> str:
    """Return the path of a new file of a table, with as much of the end of its name as the limit of paths allows.

    >>> build_stored_file_path("t1", "f1", "my photo.png", 200), build_stored_file_path("t1", "f1", "my photo.png", 15)
    ('data/t1/f1-my-photo.png', 'data/t1/f1-.png')
    """
    path = f"data/{table_id}/{file_id}-"
    count = min(_NAME_CHARACTERS_MAX, path_bytes_max - len(path.encode()))
    return path + _NOT_IN_PATHS.sub("-", name)[-count:] if count > 0 else path.removesuffix("-")


def load_live_files(reading: CatalogReader, opened: OpenTable) -> list[tuple[PartitionLog, list[DataFile]]]:
    """Return the log and the files of each partition of a table without a schema, in the order of their deltas."""
    partitions = dict(scan_partitions(reading, opened))
    deltas: dict[PartitionLocator, list[Delta]] = {locator: [] for locator in partitions}
    for locator, delta in scan_deltas_of_partitions(reading, list(partitions), opened.target.position):
        if delta.type not in (DeltaType.APPEND, DeltaType.ADD, DeltaType.REPLACE):
            raise InvalidInputError(
                f"{opened.target} has no schema and a delta of type {delta.type.value}; its files cannot be listed "
                "without keys"
            )
        deltas[locator.parent].append(delta)
    logs = [PartitionLog(partition.values, tuple(deltas[locator])) for locator, partition in partitions.items()]
    return [(log, [live.file for live in list_live_files(log.deltas) if live.is_data]) for log in logs]


def plan_file_removal(
    live: Iterable[tuple[PartitionLog, list[DataFile]]], locations: Collection[str], table: str
) -> tuple[PlannedWrite, list[DataFile]]:
    """Return the write that removes files by location, and the removed files.

    The remaining files replace the deltas so far, so that no delta needs the removed files.
    """
    deltas: dict[tuple[Value | None, ...], Delta] = {}
    removed: list[DataFile] = []
    for log, files in live:
        remaining = Manifest(tuple(file for file in files if file.location not in locations))
        if len(remaining.entries) < len(files):
            deltas[log.values] = Delta(DeltaType.REPLACE, remaining, replaces_through=log.last_position)
        removed += [file for file in files if file.location in locations]
    missing = set(locations) - {file.location for file in removed}
    if missing:
        raise NotFoundError(f"{table} has no file {min(missing)!r}; list its files with their locations")
    return plan_write(deltas), removed
