"""Parsing and normalization of root URIs.

    /data/lake                       a local folder
    file:///data/lake                the same
    s3://bucket/lake                 Amazon S3 and compatible servers
    gs://bucket/lake                 Google Cloud Storage
    az://container/lake              Azure Blob Storage, the account from options or environment
    abfss://container@account.dfs.core.windows.net/lake
    memory://name                    this process only

A root ends in exactly one `/`. Normalizing it as a POSIX path must leave it unchanged,
so `.`, `..` and empty segments are invalid. Percent escapes follow RFC 3986; a bare
folder is taken literally.
"""

import os
import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from mangrove.errors import InvalidInputError

__all__ = ["RootUri", "expand_location", "parse_root_uri"]

_SCHEMES = ("file", "s3", "gs", "az", "abfss", "memory")
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)(/[^?#]*)?([?#].*)?", re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_SCHEME_ONLY = re.compile(rf"(?:{'|'.join(_SCHEMES)}):/", re.IGNORECASE)
_AUTHORITY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_AZURE_AUTHORITY = re.compile(
    r"([A-Za-z0-9$](?:[A-Za-z0-9-]*[A-Za-z0-9])?)@([A-Za-z0-9]+)\.(?:dfs|blob)\.[A-Za-z0-9.-]+"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class RootUri:
    """The parts of a root: `path` is decoded; in a bucket it is relative and ends in `/` or is empty.

    For a local folder `authority` is empty and `path` is absolute.
    """

    scheme: str
    authority: str
    path: str

    def __post_init__(self) -> None:
        if self.scheme not in _SCHEMES:
            raise InvalidInputError(f"unknown scheme {self.scheme!r}; expected one of {', '.join(_SCHEMES)}")
        if self.scheme == "file":
            if self.authority:
                raise InvalidInputError(
                    f"file://{self.authority}/… names another machine; write file:/// and an absolute path"
                )
            if not self.path.startswith("/"):
                raise InvalidInputError(f"the folder {self.path!r} is not absolute; write it in full")
        elif self.scheme == "abfss":
            if _AZURE_AUTHORITY.fullmatch(self.authority) is None:
                raise InvalidInputError(
                    f"{self.authority!r} is not an Azure address; write abfss://container@account.dfs.core.windows.net/…"
                )
        elif _AUTHORITY.fullmatch(self.authority) is None:
            # The text before an @ may be a password.
            name = self.authority.rpartition("@")[2]
            raise InvalidInputError(
                f"{name!r} is not a valid bucket name; write {self.scheme}://name/… of letters, digits and '._-'"
            )
        _check_segments(self.path if self.scheme == "file" else f"/{self.path}")

    @property
    def text(self) -> str:
        """The whole URI, ending in exactly one `/`."""
        path = self.path if self.path.startswith("/") else "/" + self.path
        return f"{self.scheme}://{self.authority}{quote(path, safe='/~!$&()*+,;=:@')}"

    @property
    def container(self) -> str:
        """The bucket or container, without Azure's account."""
        return self.authority.partition("@")[0]

    @property
    def account(self) -> str | None:
        """The Azure account, if the URI contains it."""
        match = _AZURE_AUTHORITY.fullmatch(self.authority) if self.scheme == "abfss" else None
        return None if match is None else match[2]


def expand_location(location: str, folder: str) -> str:
    """Return the expanded location: a URI as it is, a local folder relative to `folder`.

    For folders `.`, `..` and `~` are expanded as in a shell; URIs are not changed.

    >>> expand_location("../lake", "/data/now"), expand_location("s3://bucket/lake", "/data")
    ('/data/lake', 's3://bucket/lake')
    """
    if not location or _SCHEME.match(location) or _CONTROL.search(location):
        return location
    expanded = os.path.expanduser(location)
    if expanded.startswith("~"):
        raise InvalidInputError(f"{location} begins with an unknown user; write the folder in full")
    return os.path.normpath(os.path.join(folder, expanded))


def parse_root_uri(location: str | os.PathLike[str]) -> RootUri:
    """Return the root at `location`: a URI, or a local folder.

    >>> parse_root_uri("s3://bucket/lake").text
    's3://bucket/lake/'
    """
    if not isinstance(location, str | os.PathLike):
        raise InvalidInputError(f"{location!r} is not a location; name a folder or a URI such as s3://bucket/lake")
    text = os.fspath(location)
    if not text:
        raise InvalidInputError("the location is empty; name a folder or a URI such as s3://bucket/lake")
    match = _URI.fullmatch(text)
    if match is None:
        if _SCHEME_ONLY.match(text):
            raise InvalidInputError(
                f"{text!r} is not a URI; write two slashes after the scheme, as in file:///data/lake"
            )
        return RootUri("file", "", _with_final_slash(_absolute(text)))
    if match[1].lower() == "file" and not match[2] and not match[3]:
        raise InvalidInputError(f"{text!r} names no folder; write file:/// and an absolute path")
    scheme, authority, path, rest = match[1].lower(), match[2], match[3] or "/", match[4]
    if rest:
        raise InvalidInputError(
            f"{text!r} has a query or a fragment, which a root cannot have (write %3F for a '?' in a name)"
        )
    decoded = _decode_path(text, path)
    return RootUri(scheme, authority, _with_final_slash(decoded if scheme == "file" else decoded.removeprefix("/")))


def _absolute(folder: str) -> str:
    if folder.startswith("/"):
        return folder
    if folder.startswith("~"):
        raise InvalidInputError(
            f"{folder!r} would be a folder with that literal name; write out the path that `~` stands for"
        )
    # Checked before joining, which would remove the invalid segments.
    _check_segments(_with_final_slash(folder))
    return f"{os.getcwd().rstrip('/')}/{folder}"


def _decode_path(text: str, path: str) -> str:
    if re.search(r"%(?![0-9A-Fa-f]{2})", path):
        raise InvalidInputError(f"{text!r} has a '%' without two hex digits; write %25 for a '%' in a name")
    if re.search("%2f", path, re.IGNORECASE):
        raise InvalidInputError(f"{text!r} has an escaped '/'; no name may hold one")
    try:
        return unquote(path, errors="strict")
    except UnicodeDecodeError:
        raise InvalidInputError(f"{text!r} has escapes that are not UTF-8; escape the bytes of UTF-8 text") from None


def _with_final_slash(path: str) -> str:
    return path if path.endswith("/") or not path else path + "/"


def _check_segments(path: str) -> None:
    if _CONTROL.search(path):
        raise InvalidInputError(f"the root {path!r} holds a control character; use printable characters")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"the root {path!r} is not valid Unicode; use text that UTF-8 can encode") from None
    inner = path.removeprefix("/").removesuffix("/")
    if not inner and "//" not in path:
        return
    for segment in inner.split("/"):
        if not segment:
            raise InvalidInputError(f"the root {path!r} has an empty segment; write single slashes")
        if segment in {".", ".."}:
            in_full = os.path.abspath(path)
            raise InvalidInputError(f"the root {path!r} has a {segment!r} segment; write it in full, as in {in_full!r}")
