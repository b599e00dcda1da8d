"""File paths of the DeltaCAT layout.

    <object's folder>/rev/<revision, 20 digits>_<operation>_<transaction>.mpk     one revision of an object
    <parent's folder>/<digest>/<revision, 20 digits>_<operation>_<transaction>.<id>   a mapping of a name to an id
    mangrove/version/<version, 20 digits>.mpk     the guard of a version
    mangrove/node/<id>.mpk                        a node of the index
    mangrove/adopted.mpk                          the imported commits of another program
    mangrove/latest                               hint to the newest version

The folder of an object is named by its id and is in the folder of its parent.
"""

import re
from dataclasses import dataclass
from typing import Final

from mangrove.errors import FormatError

__all__ = [
    "HINT_PATH",
    "MANGROVE_FOLDER",
    "NODE_FOLDER",
    "REVISION_FOLDER",
    "SETTINGS_FOLDER",
    "TAKEOVER_PATH",
    "VERSION_FOLDER",
    "NumberedFile",
    "alias_folder",
    "guard_path",
    "is_guard_path",
    "is_numbered_path",
    "node_path",
    "parse_numbered_path",
    "shared_transaction_folder",
    "version_of_guard",
    "view_folder",
]

MANGROVE_FOLDER: Final = "mangrove/"
VERSION_FOLDER: Final = f"{MANGROVE_FOLDER}version/"
NODE_FOLDER: Final = f"{MANGROVE_FOLDER}node/"
TAKEOVER_PATH: Final = f"{MANGROVE_FOLDER}adopted.mpk"
HINT_PATH: Final = f"{MANGROVE_FOLDER}latest"
SETTINGS_FOLDER: Final = f"{MANGROVE_FOLDER}settings"
REVISION_FOLDER: Final = "rev"
_EXTENSION: Final = "mpk"
_NUMBERED: Final = re.compile(
    r"(?P<folder>.+?)(?:/\d+/\d+)?/(?P<number>\d{20})_(?P<operation>[a-z]+)_(?P<transaction>\d+_[^_/]+)\.(?P<target>[^./]+)"
)


@dataclass(frozen=True, slots=True)
class NumberedFile:
    """A file of a numbered sequence: a revision of an object or of a name mapping."""

    folder: str
    number: int
    operation: str
    transaction: str
    target: str
    """The target id of a mapping; for a revision of an object, the file name extension."""

    @property
    def object_folder(self) -> str | None:
        """The folder of the object of this revision, or None for a name mapping."""
        parent, _, last = self.folder.rpartition("/")
        return parent if last == REVISION_FOLDER and self.target == _EXTENSION else None

    @property
    def file_name(self) -> str:
        """The file name inside its folder."""
        return f"{self.number:020}_{self.operation}_{self.transaction}.{self.target}"

    @staticmethod
    def of_revision(object_folder: str, number: int, operation: str, transaction: str) -> "NumberedFile":
        """Return the file of one revision of the object in that folder."""
        return NumberedFile(f"{object_folder}/{REVISION_FOLDER}", number, operation, transaction, _EXTENSION)


def is_numbered_path(path: str) -> bool:
    """Return whether `path` is the path of a revision or mapping."""
    return _NUMBERED.fullmatch(path) is not None


def parse_numbered_path(path: str) -> NumberedFile:
    """Return the parsed path of a revision or mapping file, with or without the two fan-out folders."""
    match = _NUMBERED.fullmatch(path)
    if match is None:
        raise FormatError(f"{path!r} is neither the path of a revision nor that of a name's mapping")
    return NumberedFile(
        match["folder"], int(match["number"]), match["operation"], match["transaction"], match["target"]
    )


def guard_path(version: int) -> str:
    """Return the path of the guard of a version.

    >>> guard_path(7)
    'mangrove/version/00000000000000000007.mpk'
    """
    return f"{VERSION_FOLDER}{version:020}.{_EXTENSION}"


def is_guard_path(path: str) -> bool:
    """Return whether `path` is the path of a guard."""
    digits = path.removeprefix(VERSION_FOLDER).removesuffix(f".{_EXTENSION}")
    return digits.isascii() and digits.isdigit() and guard_path(int(digits)) == path


def version_of_guard(path: str) -> int:
    """Return the version of the guard at `path`.

    >>> version_of_guard(guard_path(7))
    7
    """
    if not is_guard_path(path):
        raise FormatError(f"{path!r} is not the path of a guard")
    return int(path.removeprefix(VERSION_FOLDER).removesuffix(f".{_EXTENSION}"))


def node_path(node_id: str) -> str:
    """Return the path of an index node."""
    return f"{NODE_FOLDER}{node_id}.{_EXTENSION}"


def alias_folder(alias_id: str) -> str:
    """Return the folder of an alias: a mapping has a digest of the name, this has the name."""
    return f"{MANGROVE_FOLDER}alias/{alias_id}"


def view_folder(view_id: str) -> str:
    """Return the folder of a view; outside the namespace, because DeltaCAT does not know views."""
    return f"{MANGROVE_FOLDER}view/{view_id}"


def shared_transaction_folder(digest: str) -> str:
    """Return the folder of a shared transaction, by the digest of its name."""
    return f"{MANGROVE_FOLDER}shared/{digest}"
