"""File paths of the DeltaCAT layout.

    <object's folder>/rev/<revision, 20 digits>_<operation>_<transaction>.mpk     one revision of an object
    <parent's folder>/<digest>/<revision, 20 digits>_<operation>_<transaction>.<id>   what a name led to
    mangrove/version/<version, 20 digits>.mpk     the guard of a version
    mangrove/node/<id>.mpk                        a node of the index
    mangrove/adopted.mpk                          what another program had committed before us
    mangrove/latest                               newest version known to somebody

An object's folder is named by its id and lies in the folder of its parent.
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
    """A file that is one of a sequence: a revision of an object, or of what a name leads to."""

    folder: str
    number: int
    operation: str
    transaction: str
    target: str
    """The id that a name leads to; for a revision of an object, how its file's name ends."""

    @property
    def object_folder(self) -> str | None:
        """The folder of the object whose revision this is, or None for a name's mapping."""
        parent, _, last = self.folder.rpartition("/")
        return parent if last == REVISION_FOLDER and self.target == _EXTENSION else None

    @property
    def file_name(self) -> str:
        """What the file is called inside its folder."""
        return f"{self.number:020}_{self.operation}_{self.transaction}.{self.target}"

    @staticmethod
    def of_revision(object_folder: str, number: int, operation: str, transaction: str) -> "NumberedFile":
        """Return the file of one revision of the object in that folder."""
        return NumberedFile(f"{object_folder}/{REVISION_FOLDER}", number, operation, transaction, _EXTENSION)


def is_numbered_path(path: str) -> bool:
    """Return whether a revision or a mapping can lie at `path`."""
    return _NUMBERED.fullmatch(path) is not None


def parse_numbered_path(path: str) -> NumberedFile:
    """Return what the path of a revision or mapping file says, with or without the two folders of the fan-out."""
    match = _NUMBERED.fullmatch(path)
    if match is None:
        raise FormatError(f"{path!r} is neither the path of a revision nor that of a name's mapping")
    return NumberedFile(
        match["folder"], int(match["number"]), match["operation"], match["transaction"], match["target"]
    )


def guard_path(version: int) -> str:
    """Return where the guard of a version lies.

    >>> guard_path(7)
    'mangrove/version/00000000000000000007.mpk'
    """
    return f"{VERSION_FOLDER}{version:020}.{_EXTENSION}"


def is_guard_path(path: str) -> bool:
    """Return whether the guard of a version can lie at `path`."""
    digits = path.removeprefix(VERSION_FOLDER).removesuffix(f".{_EXTENSION}")
    return digits.isascii() and digits.isdigit() and guard_path(int(digits)) == path


def version_of_guard(path: str) -> int:
    """Return the version whose guard lies at `path`.

    >>> version_of_guard(guard_path(7))
    7
    """
    if not is_guard_path(path):
        raise FormatError(f"{path!r} is not the path of a guard")
    return int(path.removeprefix(VERSION_FOLDER).removesuffix(f".{_EXTENSION}"))


def node_path(node_id: str) -> str:
    """Return where a node of the index lies."""
    return f"{NODE_FOLDER}{node_id}.{_EXTENSION}"


def view_folder(view_id: str) -> str:
    """Return the folder of a view, which DeltaCAT does not know and so must not meet in a namespace."""
    return f"{MANGROVE_FOLDER}view/{view_id}"


def shared_transaction_folder(digest: str) -> str:
    """Return the folder of a shared transaction, by the digest of its name."""
    return f"{MANGROVE_FOLDER}shared/{digest}"
