"""Storage usage by file kind and growth by version."""

import re
from dataclasses import dataclass
from itertools import islice
from typing import Final

from mangrove.inspect.growth import GrowthPoint, ObjectCounts, count_objects, load_growth
from mangrove.inspect.page import PageRequest, PageVersion, PinnedLakehouse, version_comparer_of
from mangrove.storage.port import ObjectInfo, Store

__all__ = ["FileKindLine", "StorageInfo", "classify_file", "load_storage_info"]

_FILES_MAX: Final = 50_000

_KINDS: Final = (
    ("version roots", re.compile(r"_[01]+\.ipc|vn/[01]+")),
    ("tree nodes", re.compile(r"(?:.*/)?(?:[01]+-)?(?:node-)?[\w-]+\.ipc")),
    ("definitions", re.compile(r".*\.binpb")),
    ("hints", re.compile(r"_latest_hint(?:\.txt)?|vn/latest|(?:.*/)?_?latest[\w.]*")),
    ("revision files", re.compile(r".*\.mpk|.*/rev/.*")),
    ("transaction log", re.compile(r"(?:.*/)?txn/.*")),
    ("files for Iceberg", re.compile(r"data/[^/]+/metadata/.*")),
    ("data files", re.compile(r".*\.(?:parquet|orc|avro|feather|csv|json|jsonl|arrow|lance)")),
)
_OTHER: Final = "other files"


@dataclass(frozen=True, slots=True)
class FileKindLine:
    """The files of one kind."""

    kind: str
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class StorageInfo:
    """The files on storage, of any version, and the data that the last versions reference."""

    seen: PageVersion
    kinds: tuple[FileKindLine, ...]
    is_listing_complete: bool
    files_listed: int
    tally: ObjectCounts | None
    growth: tuple[GrowthPoint, ...]
    """Oldest first; empty if the layout cannot compare versions or there are too many objects."""


def classify_file(path: str) -> str:
    """Return the kind of a file by its path.

    >>> classify_file("_00100110000000000000000000000000.ipc"), classify_file("data/a.parquet")
    ('version roots', 'data files')
    """
    return next((kind for kind, pattern in _KINDS if pattern.fullmatch(path)), _OTHER)


def load_storage_info(pinned: PinnedLakehouse, requested: PageRequest) -> StorageInfo:  # noqa: ARG001 - all pages have one signature
    """Return the files by kind and the growth up to the pinned version."""
    kinds, listed, is_complete = _list_file_kinds(pinned.lake.effects.store)
    compared = version_comparer_of(pinned.lake)
    tally = None if compared is None else count_objects(compared, pinned.snapshot)
    growth = () if compared is None or tally is None else load_growth(pinned, compared, tally)
    return StorageInfo(pinned.seen, kinds, is_complete, listed, tally, growth)


def _list_file_kinds(store: Store) -> tuple[tuple[FileKindLine, ...], int, bool]:
    counts: dict[str, tuple[int, int]] = {}
    listed = 0
    for entry in islice(store.list(), _FILES_MAX + 1):
        if listed == _FILES_MAX:
            break
        if isinstance(entry, ObjectInfo):
            listed += 1
            files, size = counts.get(classify_file(entry.path), (0, 0))
            counts[classify_file(entry.path)] = (files + 1, size + entry.size)
    order = [*(kind for kind, _ in _KINDS), _OTHER]
    lines = tuple(FileKindLine(kind, *counts[kind]) for kind in order if kind in counts)
    return lines, listed, listed < _FILES_MAX
