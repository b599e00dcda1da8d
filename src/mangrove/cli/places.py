"""What people type for a lakehouse, a file or an option of a store, in the one form that is understood below."""

from collections.abc import Iterable

from mangrove.errors import InvalidInputError

__all__ = ["CACHE_BYTES_VARIABLE", "CACHE_VARIABLE", "LAKE_VARIABLE", "folder_and_name", "is_place", "key_values"]

LAKE_VARIABLE = "MANGROVE_LAKE"
"""The environment variable that stands for LAKE where it is left out."""
CACHE_VARIABLE = "MANGROVE_CACHE"
"""The environment variable that names the folder of a cache where no option does."""
CACHE_BYTES_VARIABLE = "MANGROVE_CACHE_BYTES"
"""The environment variable that says how much a cache holds where no option does."""


def is_place(word: str) -> bool:
    """Return whether a word can only be a place: no name of a table, version or export holds a slash.

    >>> is_place("./lake"), is_place("."), is_place("sales.orders")
    (True, True, False)
    """
    return "/" in word or word in {".", ".."}


def folder_and_name(location: str) -> tuple[str, str]:
    """Return the folder in which a file lies, and the file's name.

    >>> folder_and_name("s3://bucket/lake/_latest_hint.txt")
    ('s3://bucket/lake', '_latest_hint.txt')
    """
    folder, _, name = location.rpartition("/")
    if not name or not folder or folder.endswith("/"):
        raise InvalidInputError(f"{location!r} names no file: give one, such as ./lake/_latest_hint.txt")
    return folder, name


def key_values(texts: Iterable[str], option: str) -> dict[str, str]:
    """Return what was given as `key=value`, several times.

    >>> key_values(["owner=ana", "note=a=b"], "--property")
    {'owner': 'ana', 'note': 'a=b'}
    """
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InvalidInputError(f"{option} {text!r} has no value: write {option} key=value")
        if key in found:
            raise InvalidInputError(f"{option} {key} was given twice: give it once")
        found[key] = value
    return found
