"""Content-addressed names of published Iceberg metadata files.

    data/<table id>/metadata/<digest>-<snapshot>.metadata.json   the metadata file that engines open
    data/<table id>/metadata/<digest>-<snapshot>.parts           the names of all files that it references, the
                                                                 computed position deletes, and first row ids
    data/<table id>/metadata/<digest>-<snapshot>-v<version>.metadata.json
                                                                 the same with the snapshots of earlier versions;
                                                                 then a digest of the tags, if any
    data/<table id>/metadata/<digest>-<snapshot>-<parent>-<sequence number>.parts
                                                                 the files of one of these snapshots; in format
                                                                 version 3 with a digest of row ids in the name
    data/<table id>/iceberg/staging/                             the location that engines see, which is empty

The same state always has the same names. One request therefore shows whether it is
published, and concurrent publishers write the same files. The files contain absolute
paths, so the root is part of the digest: a copy of a lakehouse never uses the files of
its source.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, TypeVar

from mangrove.model.manifests import DataFile
from mangrove.model.objects import TableVersion
from mangrove.tables.scan_plan import list_live_files
from mangrove.tables.table_state import TableState

__all__ = [
    "CLIENT_SNAPSHOT",
    "FORMAT_VERSION",
    "LIST_SUFFIX",
    "MAX_SNAPSHOTS",
    "METADATA_SUFFIX",
    "NEXT_ROW_ID",
    "PARTS_SUFFIX",
    "PUBLISHED_FORMAT",
    "STAGING_FOLDER",
    "STATISTICS",
    "VERSION_KEY",
    "FormatVersion",
    "PublishedName",
    "append_client_snapshot",
    "begins_partitioned",
    "compute_digest",
    "compute_published_name",
    "decode_first_row_ids",
    "decode_part_paths",
    "decode_position_delete_paths",
    "encode_parts",
    "format_file_identity",
    "format_version_of",
    "is_count",
    "keep_client_properties",
    "list_statistics_paths",
    "max_previous_metadata_of",
    "max_snapshots_of",
    "next_row_id_of",
    "parse_client_snapshots",
    "published_folder_of",
    "snapshot_id_of",
    "split_runs",
]

PUBLISHED_FORMAT: Final = 2
"""Increased with each release that publishes the same state as other files."""
CLIENT_SNAPSHOT: Final = "iceberg.snapshot"
"""The table property `<digest> <snapshot id> <earlier ids>`: which id an Iceberg client gave the state that it made.

It counts only while the state has that digest, so it need not be taken away by later writes. All ids in it
are those of the last commits of clients, newest first, by which one that comes again is known.
"""
_CLIENT_COMMITS_MAX: Final = 20
STATISTICS: Final = "iceberg.statistics"
"""The table property with the statistics files of Iceberg clients, as JSON."""
MAX_SNAPSHOTS: Final = "iceberg.max-snapshots"
"""The table property with the number of snapshots that published metadata lists at most."""
_MAX_SNAPSHOTS_DEFAULT: Final = 100
_MAX_PREVIOUS_METADATA: Final = "write.metadata.previous-versions-max"
"""The table property with the number of previous metadata files that published metadata lists at most."""
_MAX_PREVIOUS_METADATA_DEFAULT: Final = 100
FORMAT_VERSION: Final = "format-version"
"""The table property with the Iceberg format version as which a table is published."""
FormatVersion: TypeAlias = Literal[2, 3]
NEXT_ROW_ID: Final = "iceberg.next-row-id"
"""The table property with a number above all row ids that files of Iceberg clients contain."""
METADATA_SUFFIX: Final = ".metadata.json"
PARTS_SUFFIX: Final = ".parts"
STAGING_FOLDER: Final = "iceberg/staging"
"""The folder in a table's folder that is published as its location.

Engines may delete all files below a location that no snapshot references, so no version references
a file there. No other path has this prefix.
"""
LIST_SUFFIX: Final = "-snap.avro"
VERSION_KEY: Final = "mangrove.version"
"""The key in the summary of a snapshot with the version that made its state."""

_DIGEST_CHARACTERS: Final = 32
_IDS_CHARACTERS: Final = 16
_DIGITS_MAX: Final = len(str(2**63))

_NONE: Final[Mapping[str, int]] = MappingProxyType({})
_SECTION_END: Final = "\n\n"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PublishedName:
    """The name of a published state."""

    table_id: str
    digest: str
    snapshot_id: int | None
    """None for a table without data."""
    position: str = ""
    """The place of the snapshot in a history: `-<parent>-<sequence number>`; empty for a snapshot alone."""

    @property
    def metadata_path(self) -> str:
        """The path of the metadata file of the state alone, which is written last."""
        return self._path(METADATA_SUFFIX)

    @property
    def parts_path(self) -> str:
        """The path of the list of all files that the metadata file references."""
        return self._path(PARTS_SUFFIX)

    @property
    def list_path(self) -> str:
        """The path of the manifest list."""
        return self._path(LIST_SUFFIX)

    def history_path(self, version: int, tags: Mapping[str, object] = _NONE) -> str:
        """Return the path of the metadata file with the history up to the version that made the state.

        `tags` are the named versions of the lakehouse and the tags of the table.
        """
        return f"{self._path(f'-v{version}{_digest_ids(tags)}')}{METADATA_SUFFIX}"

    def after(
        self, parent_id: int | None, sequence_number: int, first_row_ids: Mapping[str, int] = _NONE
    ) -> "PublishedName":
        """Return the name of the same state as a snapshot after another one.

        `first_row_ids` are those of the data files in format version 3, which depend on all snapshots before.
        """
        return replace(self, position=f"-{parent_id or 0}-{sequence_number}{_digest_ids(first_row_ids)}")

    def _path(self, ending: str) -> str:
        return f"{published_folder_of(self.table_id)}{self.digest}-{self.snapshot_id or 0}{self.position}{ending}"


def _digest_ids(ids: Mapping[str, object]) -> str:
    return f"-{compute_digest(map(repr, sorted(ids.items())))[:_IDS_CHARACTERS]}" if ids else ""


def published_folder_of(table_id: str) -> str:
    """Return the folder of a table's published metadata, ending in `/`."""
    return f"data/{table_id}/metadata/"


def compute_published_name(state: TableState, root_uri: str) -> PublishedName:
    """Return the name of a published state; it visits each file once."""
    version = state.version
    others = (CLIENT_SNAPSHOT, STATISTICS)
    properties = sorted((name, value) for name, value in state.properties.items() if name not in others)
    parts = [
        repr((PUBLISHED_FORMAT, root_uri, state.table_id, properties, version.keys, state.log_scheme)),
        repr((version.schemas, version.partition_schemes, version.sort_schemes)),
    ]
    if version.identifier_fields != version.keys:
        parts.append(repr(version.identifier_fields))
    if begins_partitioned(version):
        # Earlier releases published the first partitions of such a table as spec 1.
        parts.append("spec 0")
    if format_version_of(state.properties) == 3:
        # Earlier releases published a table with this property in format version 2.
        parts.append("v3")
    for log in state.logs:
        parts.append(repr(log.values))
        parts += [
            f"{format_file_identity(live.file, live.position)} {live.deletes_earlier_rows}"
            for live in list_live_files(log.deltas)
        ]
    digest = compute_digest(parts)
    is_written = any(log.deltas for log in state.logs)
    return PublishedName(state.table_id, digest, _snapshot_id(state, digest) if is_written else None)


def begins_partitioned(version: TableVersion) -> bool:
    """Return whether the table had partitions when it was created, which are then published as spec 0."""
    return bool(version.partition_schemes[0].fields)


def parse_client_snapshots(properties: Mapping[str, str]) -> list[str]:
    """Return the ids of the last commits of Iceberg clients, newest first.

    >>> parse_client_snapshots({CLIENT_SNAPSHOT: "5f2e 12 7"}), parse_client_snapshots({})
    (['12', '7'], [])
    """
    return properties.get(CLIENT_SNAPSHOT, "").split(" ")[1:]


def list_statistics_paths(properties: Mapping[str, str]) -> list[str]:
    """Return the paths of the statistics files of a table; none if a user gave the property another value.

    >>> list_statistics_paths({STATISTICS: '[{"statistics-path": "data/t/metadata/a.stats"}]'})
    ['data/t/metadata/a.stats']
    >>> list_statistics_paths({STATISTICS: "{"}), list_statistics_paths({})
    ([], [])
    """
    try:
        return [str(one["statistics-path"]) for one in json.loads(properties.get(STATISTICS, "[]"))]
    except (ValueError, LookupError, TypeError):
        return []


def max_snapshots_of(properties: Mapping[str, str]) -> int:
    """Return the number of snapshots that published metadata lists at most.

    >>> max_snapshots_of({MAX_SNAPSHOTS: "3"}), max_snapshots_of({})
    (3, 100)
    """
    return _parse_count(properties, MAX_SNAPSHOTS, _MAX_SNAPSHOTS_DEFAULT)


def max_previous_metadata_of(properties: Mapping[str, str]) -> int:
    """Return the number of previous metadata files that published metadata lists at most."""
    return _parse_count(properties, _MAX_PREVIOUS_METADATA, _MAX_PREVIOUS_METADATA_DEFAULT)


def is_count(text: str) -> bool:
    """Return whether a property is a positive number that a limit may have.

    >>> is_count("100"), is_count("0"), is_count("-3"), is_count("many")
    (True, False, False, False)
    """
    return text.isascii() and text.isdecimal() and len(text) <= 9 and int(text) > 0


def _parse_count(properties: Mapping[str, str], name: str, default: int) -> int:
    text = properties.get(name, "")
    return int(text) if is_count(text) else default


def format_version_of(properties: Mapping[str, str]) -> FormatVersion:
    """Return the Iceberg format version as which a table is published.

    >>> format_version_of({FORMAT_VERSION: "3"}), format_version_of({})
    (3, 2)
    """
    return 3 if properties.get(FORMAT_VERSION) == "3" else 2


def next_row_id_of(properties: Mapping[str, str]) -> int:
    """Return a number above all row ids that files of Iceberg clients contain.

    >>> next_row_id_of({NEXT_ROW_ID: "12"}), next_row_id_of({})
    (12, 0)
    """
    text = properties.get(NEXT_ROW_ID, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < _DIGITS_MAX else 0


def append_client_snapshot(properties: Mapping[str, str], digest: str, snapshot_id: int) -> str:
    """Return the table property after one more commit of a client.

    >>> append_client_snapshot({CLIENT_SNAPSHOT: "5f2e 12 7"}, "03ad", 15)
    '03ad 15 12 7'
    """
    earlier = [one for one in parse_client_snapshots(properties) if one != str(snapshot_id)]
    return " ".join([digest, str(snapshot_id), *earlier[: _CLIENT_COMMITS_MAX - 1]])


def keep_client_properties(properties: Mapping[str, str], was: Mapping[str, str]) -> dict[str, str]:
    """Return the properties about commits of clients for a table that is restored as it `was`.

    The snapshot ids of later commits stay, so that one that comes again is known, and row ids are not used again.

    >>> keep_client_properties({CLIENT_SNAPSHOT: "5f2e 12 7", NEXT_ROW_ID: "20"}, {CLIENT_SNAPSHOT: "03ad 7"})
    {'iceberg.snapshot': '03ad 7 12', 'iceberg.next-row-id': '20'}
    >>> keep_client_properties({CLIENT_SNAPSHOT: "5f2e 12 7"}, {})
    {'iceberg.snapshot': ' 12 7'}
    """
    kept = {}
    if CLIENT_SNAPSHOT in properties:
        digest = was.get(CLIENT_SNAPSHOT, "").partition(" ")[0]
        ids = dict.fromkeys([*parse_client_snapshots(was)[:1], *parse_client_snapshots(properties)])
        kept[CLIENT_SNAPSHOT] = " ".join([digest, *list(ids)[:_CLIENT_COMMITS_MAX]])
    if next_row_id_of(properties) > next_row_id_of(was):
        kept[NEXT_ROW_ID] = properties[NEXT_ROW_ID]
    return kept


def compute_digest(parts: Iterable[str]) -> str:
    """Return a digest of strings in order."""
    found = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        found.update(b"%d:" % len(encoded))
        found.update(encoded)
    return found.hexdigest()[:_DIGEST_CHARACTERS]


def format_file_identity(file: DataFile, position: int) -> str:
    """Return the identity of a file; names are never reused, so statistics are not needed."""
    identity = file.location, position, file.kind.value, file.size_bytes, file.row_count, file.schema_id
    scheme = () if file.partition_scheme_id is None else (file.partition_scheme_id,)
    return repr((*identity, file.partition_values, file.applies_to, file.key_ids, file.content_type, *scheme))


def encode_parts(
    paths: Iterable[str], deleted_rows: Mapping[str, str], first_row_ids: Mapping[str, int] = _NONE
) -> str:
    """Return the content of a parts file: paths, position delete paths by digest, and first row ids by data file.

    >>> text = encode_parts(["a", "b"], {"1f": "b", "2e": ""}, {"data/x y": 7})
    >>> decode_part_paths(text), decode_position_delete_paths(text), decode_first_row_ids(text)
    (['a', 'b'], {'1f': 'b', '2e': ''}, {'data/x y': 7})
    """
    deletes = (f"{digest} {path}" for digest, path in deleted_rows.items())
    row_ids = (f"{row_id} {location}" for location, row_id in first_row_ids.items())
    return _SECTION_END.join("\n".join(lines) for lines in (paths, deletes, row_ids))


def decode_part_paths(text: str) -> list[str]:
    """Return the files of a published state, without the metadata file."""
    return text.split(_SECTION_END, maxsplit=1)[0].splitlines()


def decode_position_delete_paths(text: str) -> dict[str, str]:
    """Return the position delete files by the digests of their inputs."""
    return dict(_split_section(text, 1))


def decode_first_row_ids(text: str) -> dict[str, int]:
    """Return the first row ids of data files by location; there are none in format version 2."""
    return {location: int(row_id) for row_id, location in _split_section(text, 2)}


def _split_section(text: str, place: int) -> Iterator[tuple[str, str]]:
    sections = text.split(_SECTION_END)
    for line in sections[place].splitlines() if place < len(sections) else ():
        key, _, value = line.partition(" ")
        yield key, value


def snapshot_id_of(digest: str) -> int:
    """Return 63 bits of a digest, which are never 0.

    >>> snapshot_id_of("f" * 32) == 2**63 - 1
    True
    """
    return int(digest[:16], 16) >> 1 or 1


def split_runs(items: Sequence[T], texts: Sequence[str], size: int) -> Iterator[tuple[T, ...]]:
    """Split items into runs of about `size`, with content-defined boundaries.

    A run stays the same if items are added or removed elsewhere, so its file is reused. A
    run has at most four times that size.
    """
    run: list[T] = []
    for item, text in zip(items, texts, strict=True):
        run.append(item)
        ends_here = int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) % size == 0
        if ends_here or len(run) == 4 * size:
            yield tuple(run)
            run = []
    if run:
        yield tuple(run)


def _snapshot_id(state: TableState, digest: str) -> int:
    recorded_digest = state.properties.get(CLIENT_SNAPSHOT, "").partition(" ")[0]
    given = next(iter(parse_client_snapshots(state.properties)), "")
    is_given = recorded_digest == digest and given.isascii() and given.isdecimal() and len(given) <= _DIGITS_MAX
    return int(given) if is_given and 0 < int(given) < 2**63 else snapshot_id_of(digest)
