"""File paths of the tree layout.

    _<version, binary digits, last digit first>.ipc              root node of a version
    _lakehouse_def_<uuid>.binpb                                  definition of the lakehouse
    _latest_hint.txt                                             hint to the newest version
    <20 hash bits as folders>-node-<uuid>.ipc                    any other node
    <20 hash bits as folders>-<kind>-<readable name>-<uuid>.binpb    any other definition

Digits are reversed and other names start with hash bits, so that an object store
can spread neighbours over its partitions. Pointers store full paths: readers never
compute or parse a hashed path.
"""

import base64
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import mmh3

from mangrove.errors import FormatError, InvalidInputError
from mangrove.model.locators import Kind
from mangrove.model.paths import SEGMENT_BYTES_MAX

__all__ = [
    "DEFINITION_PREFIXES",
    "PATH_BYTES_MIN",
    "ROOT_DIGITS_KNOWN",
    "RootNames",
    "definition_path",
    "hashed_path",
    "lakehouse_definition_path",
    "newer_node_path",
    "older_node_path",
]

ROOT_DIGITS_KNOWN = (32, 64)
"""The example in the specification has 32 digits; the Java programs write 64."""

_HASH_FOLDERS_BYTES = len("0000/0000/0000/")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_KIND_PREFIXES = {
    Kind.NAMESPACE: "namespace",
    Kind.TABLE: "table",
    Kind.VIEW: "view",
    Kind.SHARED_TRANSACTION: "txn",
    Kind.TABLE_VERSION: "tableversion",
    Kind.STREAM: "stream",
    Kind.PARTITION: "partition",
    Kind.DELTA: "delta",
    Kind.ALIAS: "alias",
}
DEFINITION_PREFIXES = tuple(_KIND_PREFIXES.values())
"""The word for each kind at the start of a definition's file name, before hashing."""

_NOT_READABLE = re.compile(r"[^\w.~+=@-]")


def hashed_path(original: str) -> str:
    """Return the storage path of a file with the path `original`.

    >>> hashed_path("my/path/my-table-definition.binpb")
    '1101/0111/0011/01111110-my-path-my-table-definition.binpb'
    """
    low_bits = mmh3.hash(original.encode(), seed=0, signed=False) & 0xFFFFF
    digits = f"{low_bits:020b}"
    return f"{digits[:4]}/{digits[4:8]}/{digits[8:12]}/{digits[12:]}-{original.replace('/', '-')}"


@dataclass(frozen=True, slots=True)
class RootNames:
    """The naming of the root nodes of one lakehouse: all have the same number of digits."""

    digits: int
    before: str = "_"
    after: str = ".ipc"

    def __post_init__(self) -> None:
        if self.digits not in ROOT_DIGITS_KNOWN:
            raise ValueError(
                f"unsupported number of digits in root node names: {self.digits}; expected one of {ROOT_DIGITS_KNOWN}"
            )

    def path(self, version: int) -> str:
        """Return the path of the root node of `version`.

        >>> RootNames(digits=32).path(100)
        '_00100110000000000000000000000000.ipc'
        """
        if not 0 <= version < 2**self.digits:
            raise InvalidInputError(f"version {version} is not between 0 and 2 ** {self.digits} - 1")
        return f"{self.before}{format(version, f'0{self.digits}b')[::-1]}{self.after}"

    def version_of(self, path: str) -> int:
        """Return the version of the root node at `path`.

        >>> RootNames(digits=32).version_of("_00100110000000000000000000000000.ipc")
        100
        """
        if not self.is_root(path):
            raise FormatError(
                f"{path!r} is not the path of a root node; expected "
                f"`{self.before}`, {self.digits} binary digits, last digit first, and `{self.after}`"
            )
        return int(path[len(self.before) : len(self.before) + self.digits][::-1], base=2)

    def is_root(self, path: str) -> bool:
        """Return whether `path` is a root node path of this lakehouse."""
        digits = path.removeprefix(self.before).removesuffix(self.after)
        return path == f"{self.before}{digits}{self.after}" and len(digits) == self.digits and not digits.strip("01")


def newer_node_path(node_id: str) -> str:
    """Return the path of a non-root node in the newer format revision."""
    return hashed_path(f"node-{_uuid_text(node_id)}.ipc")


def older_node_path(node_id: str) -> str:
    """Return the path of a non-root node in the older format revision.

    The name is URL-safe base64: the standard alphabet contains `/`, which would split
    the file name into two segments.
    """
    name = base64.urlsafe_b64encode(uuid.UUID(_uuid_text(node_id)).bytes).rstrip(b"=").decode()
    return hashed_path(f"{name}.ipc")


def lakehouse_definition_path(definition_id: str) -> str:
    """Return the path of a lakehouse definition."""
    return f"_lakehouse_def_{_uuid_text(definition_id)}.binpb"


def definition_path(kind: Kind, names: Sequence[str], definition_id: str, path_bytes_max: int) -> str:
    """Return the path of a definition of the object with these names, innermost name first.

    The names are informative; the id makes the path unique. Names that would exceed
    `path_bytes_max` or a file system limit are truncated, and characters that are
    special in stores or URLs become `_`.

    >>> definition_path(Kind.TABLE, ("t1", "ns1"), "6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8", 200)
    '1001/0011/1000/10010110-table-t1-ns1-6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8.binpb'
    """
    word = _KIND_PREFIXES.get(kind)
    if word is None:
        raise InvalidInputError(f"a {kind.word} has no object definition path")
    nameless = hashed_path(f"{word}-{_uuid_text(definition_id)}.binpb")
    bytes_max = min(path_bytes_max, _HASH_FOLDERS_BYTES + SEGMENT_BYTES_MAX)
    if len(nameless) > bytes_max:
        raise InvalidInputError(
            f"a {kind.word} definition path needs at least {len(nameless)} bytes, but this lakehouse allows "
            f"{bytes_max}; increase its file_path_max_size_bytes"
        )
    readable = (
        _NOT_READABLE.sub("_", "-".join(names))
        .encode()[: max(0, bytes_max - len(nameless) - 1)]
        .decode(errors="ignore")
    )
    return hashed_path("-".join(filter(None, (word, readable, definition_id))) + ".binpb")


def _uuid_text(text: str) -> str:
    if _UUID.fullmatch(text) is None:
        raise InvalidInputError(f"{text!r} is not a lower-case UUID")
    return text


def _required_paths() -> list[str]:
    """Return a root, a node, a lakehouse definition, a definition of each kind and a data file with shortest names."""
    some_id = "00000000-0000-4000-8000-000000000000"
    unlimited = _HASH_FOLDERS_BYTES + SEGMENT_BYTES_MAX
    definitions = [definition_path(kind, (), some_id, unlimited) for kind in _KIND_PREFIXES]
    roots = [RootNames(digits).path(0) for digits in ROOT_DIGITS_KNOWN]
    return [
        *roots, newer_node_path(some_id), lakehouse_definition_path(some_id), *definitions,
        f"data/{some_id}/{some_id}.parquet",
    ]  # fmt: skip


PATH_BYTES_MIN = max(map(len, _required_paths()))
"""The least file_path_max_size_bytes with which every kind of file fits."""
