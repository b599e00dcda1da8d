"""How the files are called that show a state of a table to Iceberg: by digests of all that they depend on.

    data/<table id>/metadata/<digest>-<snapshot>.metadata.json   what an engine opens
    data/<table id>/metadata/<digest>-<snapshot>.parts           the names of all files that it leads to, and what was
                                                                 found out about hidden rows

The same state has the same names, wherever and whenever it is shown. So whether it has
been shown is one request, and two that show it at once write the same. Addresses
inside are absolute, so the root is part of the digest: a copy of a lakehouse never shows
the files of the place that it came from.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from mangrove.model.manifests import DataFile
from mangrove.tables.live_files import live_files
from mangrove.tables.table_state import TableState

__all__ = [
    "CLIENT_SNAPSHOT",
    "METADATA_ENDING",
    "PARTS_ENDING",
    "SHOWN_FORMAT",
    "ShownName",
    "client_snapshots",
    "digest_of",
    "file_words",
    "hidden_in_parts",
    "parts_text",
    "paths_in_parts",
    "runs",
    "shown_folder",
    "shown_name",
    "snapshot_id_of",
    "with_client_snapshot",
]

SHOWN_FORMAT: Final = 1
"""Raised with each release that shows the same state by other files."""
CLIENT_SNAPSHOT: Final = "iceberg.snapshot"
"""The table property `<digest> <snapshot id> <earlier ids>`: which id an Iceberg client gave the state that it made.

It counts only while the state has that digest, so it need not be taken away by later writes. All ids in it
are those of the last commits of clients, newest first, by which one that comes again is known.
"""
_CLIENT_COMMITS_MAX: Final = 20
METADATA_ENDING: Final = ".metadata.json"
PARTS_ENDING: Final = ".parts"

_DIGEST_CHARACTERS: Final = 32
_DIGITS_MAX: Final = len(str(2**63))

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ShownName:
    """Where a state is shown."""

    table_id: str
    digest: str
    snapshot_id: int | None
    """None for a table to which nothing was ever written."""

    @property
    def metadata_path(self) -> str:
        """Where the metadata file lies, which is written last."""
        return self._path(METADATA_ENDING)

    @property
    def parts_path(self) -> str:
        """Where the names of all files lie that the metadata file leads to."""
        return self._path(PARTS_ENDING)

    @property
    def list_path(self) -> str:
        """Where the manifest list lies."""
        return self._path("-snap.avro")

    def _path(self, ending: str) -> str:
        return f"{shown_folder(self.table_id)}{self.digest}-{self.snapshot_id or 0}{ending}"


def shown_folder(table_id: str) -> str:
    """Return the folder that holds what shows a table, ending in `/`."""
    return f"data/{table_id}/metadata/"


def shown_name(state: TableState, root_uri: str) -> ShownName:
    """Return what the files are called that show a state; it looks at each file once."""
    version = state.version
    properties = sorted((name, value) for name, value in state.properties.items() if name != CLIENT_SNAPSHOT)
    words = [
        repr((SHOWN_FORMAT, root_uri, state.table_id, properties, version.keys, state.log_scheme)),
        repr((version.schemas, version.partition_schemes, version.sort_schemes)),
    ]
    for log in state.logs:
        words.append(repr(log.values))
        words += [f"{file_words(live.file, live.position)} {live.hides}" for live in live_files(log.deltas)]
    digest = digest_of(words)
    is_written = any(log.deltas for log in state.logs)
    return ShownName(state.table_id, digest, _snapshot_id(state, digest) if is_written else None)


def client_snapshots(properties: Mapping[str, str]) -> list[str]:
    """Return the ids of the last commits of Iceberg clients that a table knows, newest first.

    >>> client_snapshots({CLIENT_SNAPSHOT: "5f2e 12 7"}), client_snapshots({})
    (['12', '7'], [])
    """
    return properties.get(CLIENT_SNAPSHOT, "").split(" ")[1:]


def with_client_snapshot(properties: Mapping[str, str], digest: str, snapshot_id: int) -> str:
    """Return the property of a table after one more commit of a client.

    >>> with_client_snapshot({CLIENT_SNAPSHOT: "5f2e 12 7"}, "03ad", 15)
    '03ad 15 12 7'
    """
    earlier = [one for one in client_snapshots(properties) if one != str(snapshot_id)]
    return " ".join([digest, str(snapshot_id), *earlier[: _CLIENT_COMMITS_MAX - 1]])


def digest_of(words: Iterable[str]) -> str:
    """Return a digest of texts in their order."""
    found = hashlib.sha256()
    for word in words:
        encoded = word.encode()
        found.update(b"%d:" % len(encoded))
        found.update(encoded)
    return found.hexdigest()[:_DIGEST_CHARACTERS]


def file_words(file: DataFile, position: int) -> str:
    """Return what tells a file from all others; names are never used twice, so its statistics add nothing."""
    told = file.location, position, file.kind.value, file.size_bytes, file.row_count, file.schema_id
    return repr((*told, file.partition_values, file.applies_to, file.key_ids, file.content_type))


def parts_text(paths: Iterable[str], hidden: Mapping[str, str]) -> str:
    """Return what a file of parts holds: paths, an empty line, and by digests of what hides rows where they are told.

    >>> text = parts_text(["a", "b"], {"1f": "b", "2e": ""})
    >>> paths_in_parts(text), hidden_in_parts(text)
    (['a', 'b'], {'1f': 'b', '2e': ''})
    """
    return "\n".join([*paths, "", *(f"{digest} {path}" for digest, path in hidden.items())])


def paths_in_parts(text: str) -> list[str]:
    """Return the files that a state is shown by, without the metadata."""
    return text.partition("\n\n")[0].splitlines()


def hidden_in_parts(text: str) -> dict[str, str]:
    """Return which file tells what is hidden, by the digests of all that decides it; none where nothing is."""
    told = (line.partition(" ") for line in text.partition("\n\n")[2].splitlines())
    return {digest: path for digest, _, path in told}


def snapshot_id_of(digest: str) -> int:
    """Return 63 bits of a digest, which are never 0.

    >>> snapshot_id_of("f" * 32) == 2**63 - 1
    True
    """
    return int(digest[:16], 16) >> 1 or 1


def runs(items: Sequence[T], words: Sequence[str], size: int) -> Iterator[tuple[T, ...]]:
    """Divide items into runs of about `size`, where the words of single items say that one ends.

    So a run stays as it is when items come or go elsewhere, and what was written of it
    serves again. A run has four times that size at most.
    """
    run: list[T] = []
    for item, word in zip(items, words, strict=True):
        run.append(item)
        ends_here = int(hashlib.sha256(word.encode()).hexdigest()[:8], 16) % size == 0
        if ends_here or len(run) == 4 * size:
            yield tuple(run)
            run = []
    if run:
        yield tuple(run)


def _snapshot_id(state: TableState, digest: str) -> int:
    told = state.properties.get(CLIENT_SNAPSHOT, "").partition(" ")[0]
    given = next(iter(client_snapshots(state.properties)), "")
    is_given = told == digest and given.isascii() and given.isdecimal() and len(given) <= _DIGITS_MAX
    return int(given) if is_given and 0 < int(given) < 2**63 else snapshot_id_of(digest)
