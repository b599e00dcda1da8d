"""Validation of object paths and data file locations.

The rules are the same for all stores, so that a lakehouse can be copied between any of
them: `/` between segments, no empty, `.` or `..` segment, no control character, at most
1,024 bytes of UTF-8 and 255 bytes per segment. A backslash is invalid too, because
Azure and some S3 servers treat it as `/`.

Other engines join the root and a location, and some decode percent escapes. A location
must therefore be valid both as written and decoded.
"""

import re
from collections.abc import Sequence
from urllib.parse import unquote

from mangrove.errors import InvalidInputError

__all__ = [
    "PATH_BYTES_MAX",
    "SEGMENT_BYTES_MAX",
    "TEMPORARY_PREFIX",
    "are_plain_locations",
    "check_location",
    "check_path",
    "check_prefix",
    "check_range",
    "is_uri",
]

PATH_BYTES_MAX = 1024
SEGMENT_BYTES_MAX = 255
TEMPORARY_PREFIX = ".mangrove-tmp-"
"""The prefix of the local store's temporary files; object names cannot have it."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SHOWN_CHARACTERS_MAX = 80
_PLAIN_LOCATION = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9_=.-]*(?:/[A-Za-z0-9_=-][A-Za-z0-9_=.-]*)*")
"""A fast path: short locations that match are valid."""
_PLAIN_LOCATIONS = re.compile(rf"(?:{_PLAIN_LOCATION.pattern}\n)*")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?=/)")


def check_path(path: str) -> None:
    """Raise an error for an invalid object path.

    >>> check_path("1011/0000/1010/01001110-node.ipc")
    >>> check_path("a/../b")
    Traceback (most recent call last):
    mangrove.errors.InvalidInputError: the path 'a/../b' has a '..' segment; use a path without '.' and '..' segments
    """
    if not path:
        raise InvalidInputError("the path is empty; name an object below the root")
    encoded_size = _check_characters(path)
    if encoded_size > PATH_BYTES_MAX:
        raise _refusal(path, f"is {encoded_size} bytes long", f"use at most {PATH_BYTES_MAX} bytes")
    for segment in path.split("/"):
        _check_segment(path, segment)


def check_prefix(prefix: str) -> None:
    """Raise an error for a prefix that no path can have; the last segment may be partial."""
    if not prefix:
        return
    encoded_size = _check_characters(prefix)
    if encoded_size > PATH_BYTES_MAX:
        raise _refusal(prefix, f"is {encoded_size} bytes long", f"use at most {PATH_BYTES_MAX} bytes")
    for segment in prefix.split("/")[:-1]:
        _check_segment(prefix, segment)


def is_uri(location: str) -> bool:
    """Return whether a location is a URI and not a path below the lakehouse root.

    >>> is_uri("s3://bucket/a.parquet"), is_uri("data/a.parquet")
    (True, False)
    """
    return "://" in location


def are_plain_locations(locations: Sequence[str]) -> bool:
    """Return whether all of the locations are usual paths, which `check_location` accepts.

    >>> are_plain_locations(["data/t/a.parquet", "data/t/b.parquet"]), are_plain_locations(["s3://bucket/a"])
    (True, False)
    """
    text = "\n".join([*locations, ""])
    is_plain = _PLAIN_LOCATIONS.fullmatch(text) is not None and text.count("\n") == len(locations)
    return is_plain and max(map(len, locations), default=0) <= SEGMENT_BYTES_MAX


def check_location(location: str) -> None:
    """Raise an error for a data file location that is neither a path below the root nor a full URI.

    >>> check_location("data/t/a.parquet"), check_location("s3://bucket/a.parquet")
    (None, None)
    >>> check_location("data/%2e%2e/a")
    Traceback (most recent call last):
    mangrove.errors.InvalidInputError: the path 'data/../a' has a '..' segment; use a path without '.' and '..' segments
    """
    if len(location) <= SEGMENT_BYTES_MAX and _PLAIN_LOCATION.fullmatch(location):
        return
    scheme = _SCHEME.match(location)
    if scheme is not None and not location.startswith("//", scheme.end()):
        raise _refusal(location, "has a scheme and a single slash", "use a path below the root or a full URI")
    for reading in dict.fromkeys([location, unquote(location)]):
        if scheme is None:
            check_path(reading)
            continue
        _check_characters(reading)
        for segment in reading[scheme.end() :].split("/"):
            if segment in {".", ".."}:
                raise _refusal(reading, f"has a {segment!r} segment", "use a URI without '.' and '..' segments")


def _check_characters(path: str) -> int:
    """Return the size in UTF-8 of a text without control characters."""
    control = _CONTROL.search(path)
    if control is not None:
        raise _refusal(path, f"contains the control character {control[0]!r}", "use printable characters")
    if "\\" in path:
        raise _refusal(path, "contains a backslash", "use '/' between segments")
    if path.isascii():
        return len(path)
    try:
        return len(path.encode())
    except UnicodeEncodeError:
        raise _refusal(path, "is not valid Unicode", "use text that UTF-8 can encode") from None


def _check_segment(path: str, segment: str) -> None:
    if not segment:
        raise _refusal(path, "has an empty segment", "use single slashes, none at the start or the end")
    if segment[0] == ".":
        if segment in {".", ".."}:
            raise _refusal(path, f"has a {segment!r} segment", "use a path without '.' and '..' segments")
        if segment.startswith(TEMPORARY_PREFIX):
            raise _refusal(path, f"has a segment that starts with {TEMPORARY_PREFIX!r}", "choose another name")
    # No character takes more than four bytes, so most segments need no encoding.
    if len(segment) * 4 > SEGMENT_BYTES_MAX and len(segment.encode()) > SEGMENT_BYTES_MAX:
        raise _refusal(
            path, "has a segment that no file system can hold", f"use at most {SEGMENT_BYTES_MAX} bytes per segment"
        )


def _refusal(path: str, problem: str, remedy: str) -> InvalidInputError:
    shown = path if len(path) <= _SHOWN_CHARACTERS_MAX else path[:_SHOWN_CHARACTERS_MAX] + "…"
    return InvalidInputError(f"the path {shown!r} {problem}; {remedy}")


def check_range(start: int, length: int | None) -> None:
    """Raise an error for a negative byte range."""
    if start < 0 or (length is not None and length < 0):
        raise InvalidInputError(f"invalid range of {length} bytes from {start}; both must be at least 0")
