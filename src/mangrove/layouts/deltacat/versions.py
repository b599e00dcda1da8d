"""Finding the guards of versions."""

from collections.abc import Iterator, Sequence

from mangrove.layouts.deltacat.guard import Guard, decode_guard
from mangrove.layouts.deltacat.paths import ADOPTED_PATH, HINT_PATH, VERSION_FOLDER, guard_path, is_guard, version_of
from mangrove.model.version_search import newest_version
from mangrove.storage.port import ObjectInfo, Store

__all__ = [
    "encode_hint",
    "find_newest",
    "read_adopted",
    "read_guard",
    "read_guards",
    "read_hint",
    "read_kept",
    "read_retired",
    "taken_versions",
    "written_since",
]

_HINT_DIGITS_MAX = 20


def read_guard(store: Store, version: int) -> Guard | None:
    """Return the guard of a version, or None if there is none."""
    return read_guards(store, [version])[0]


def read_kept(store: Store, versions: Sequence[int]) -> list[Guard]:
    """Return the guards of those of the versions that are there and have not expired."""
    return [guard for guard in read_guards(store, versions) if guard is not None and not guard.is_expired]


def read_guards(store: Store, versions: Sequence[int]) -> list[Guard | None]:
    """Return the guards of several versions, None where there is none; those that have expired are there."""
    paths = [guard_path(version) for version in versions]
    return [
        None if data is None else decode_guard(data, path)
        for path, data in zip(paths, store.read_many(paths), strict=True)
    ]


def read_retired(store: Store, versions: Sequence[int]) -> Iterator[tuple[str, Guard]]:
    """Yield where each of the versions that has expired is kept as it was, and its guard; not those that are gone."""
    paths = [guard.retired_path for guard in read_guards(store, versions) if guard is not None and guard.retired_path]
    for path, data in zip(paths, store.read_many(paths), strict=True):
        if data is not None:
            yield path, decode_guard(data, path)


def read_adopted(store: Store) -> Guard | None:
    """Return the version in which what another program had committed was taken over, or None."""
    (data,) = store.read_many([ADOPTED_PATH])
    return None if data is None else decode_guard(data, ADOPTED_PATH)


def encode_hint(version: int) -> bytes:
    """Return the content of the hint."""
    return str(version).encode()


def read_hint(store: Store) -> int | None:
    """Return the version that the hint names, or None if it is missing or unreadable."""
    (hint,) = store.read_many([HINT_PATH])
    return _decode_hint(hint)


def find_newest(store: Store) -> Guard | None:
    """Return the newest guard, or None if there is none.

    The hint may be missing, unreadable, behind or ahead. Then the search starts
    at the first version, and only where that has expired, too, from a listing.
    """
    known = read_hint(store)
    newest = None if known is None else _newest_after(store, known)
    if newest is not None:
        return newest
    adopted = read_adopted(store)
    first = 0 if adopted is None else adopted.version + 1
    newest = _newest_after(store, first)
    if newest is None and adopted is None:
        taken = taken_versions(store)
        newest = _newest_after(store, taken[-1]) if taken else None
    return newest or adopted


def taken_versions(store: Store) -> list[int]:
    """Return all versions whose names are taken, those that have expired too, oldest first, from a listing."""
    return [version_of(entry.path) for entry in _guards(store)]


def written_since(store: Store, millis: int) -> list[int]:
    """Return the versions whose guards were written at that time or later by the store's clock, oldest first."""
    return [version_of(entry.path) for entry in _guards(store) if entry.modified_at_millis >= millis]


def _guards(store: Store) -> Iterator[ObjectInfo]:
    """Yield the files of versions; what else may lie there is nobody's business."""
    for entry in store.list(VERSION_FOLDER):
        if isinstance(entry, ObjectInfo) and is_guard(entry.path):
            yield entry


def _newest_after(store: Store, known: int) -> Guard | None:
    """Return the newest guard if `known` is a version that has one; one request more if it is the newest itself."""
    guard = read_guard(store, known)
    if guard is None:
        return None
    newest = newest_version(lambda version: store.exists(guard_path(version)), known)
    return guard if newest == known else read_guard(store, newest)


def _decode_hint(data: bytes | None) -> int | None:
    text = b"" if data is None else data.strip()
    return int(text) if text.isdigit() and len(text) <= _HINT_DIGITS_MAX else None
