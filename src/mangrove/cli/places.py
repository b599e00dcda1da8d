"""What people type for a lakehouse, a file or an option of a store, in the one form that is understood below."""

import os
import re
from collections.abc import Iterable

from mangrove.errors import InvalidInputError

__all__ = ["LAKE_VARIABLE", "folder_and_name", "is_place", "key_values", "resolved"]

LAKE_VARIABLE = "MANGROVE_LAKE"
"""The environment variable that stands for LAKE where it is left out."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def is_place(word: str) -> bool:
    """Return whether a word can only be a place: no name of a table, version or export holds a slash.

    >>> is_place("./lake"), is_place("."), is_place("sales.orders")
    (True, True, False)
    """
    return "/" in word or word in {".", ".."}


def resolved(location: str, folder: str) -> str:
    """Return a location in full: a URI as it is, a folder of this machine as seen from `folder`.

    Stores refuse `.` and `..` because a bucket has no such thing; a shell's user means the folder.

    >>> resolved("../lake", "/data/now"), resolved("s3://bucket/lake", "/data")
    ('/data/lake', 's3://bucket/lake')
    """
    if not location or _SCHEME.match(location):
        return location
    expanded = os.path.expanduser(location)
    if expanded.startswith("~"):
        raise InvalidInputError(f"{location} begins with a user who is not known here: write the folder in full")
    return os.path.normpath(os.path.join(folder, expanded))


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
