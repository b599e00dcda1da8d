"""What the index says under its keys, and the files of its nodes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mangrove.betree.node import Message, Node, Shape
from mangrove.errors import FormatError
from mangrove.layouts.deltacat.packed import Packed, seal, unseal
from mangrove.layouts.deltacat.paths import NumberedFile

__all__ = [
    "SHAPE",
    "Mapped",
    "Named",
    "Stored",
    "decode_node",
    "encode_node",
    "node_map",
    "node_of",
    "read_mapped",
    "read_named",
    "read_stored",
]

SHAPE: Final = Shape(order=128, root_buffer_max=96, buffer_max=768, writes_max=3)
"""Fewer writes at once than the tree layout allows itself: a commit here also writes revisions, mappings and a log."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The newest revision of an object, how many names lead to it, and the key of the name that was given last."""

    number: int
    operation: str
    transaction: str
    names: int = 0
    name: str = ""
    checksum: str = ""
    """That of the revision's file. It lies here because DeltaCAT reads the file; what DeltaCAT wrote has none."""

    @property
    def text(self) -> str:
        """The value in the index."""
        words = [str(self.number), self.operation, self.transaction, str(self.names), self.name]
        return " ".join([*words, self.checksum] if self.checksum else words)

    def file(self, folder: str) -> NumberedFile:
        """Return the file of this revision of the object in `folder`."""
        return NumberedFile.of_revision(folder, self.number, self.operation, self.transaction)


@dataclass(frozen=True, slots=True)
class Mapped:
    """How many files a mapping folder has had, and what the newest leads to: nothing where it was deleted."""

    number: int = 0
    target: str = ""

    @property
    def text(self) -> str:
        """The value in the index."""
        return f"{self.number} {self.target}"


@dataclass(frozen=True, slots=True)
class Named:
    """Where the object with a name lies, and the folder that maps the name to it for DeltaCAT.

    In the seed's form that folder is a digest of the namespace's name too, as it
    was when the name was given, so it cannot be found from the names of today.
    """

    folder: str
    mapping_folder: str = ""

    @property
    def text(self) -> str:
        """The value in the index."""
        return f"{self.folder} {self.mapping_folder}"


def read_named(text: str) -> Named:
    """Return what a value of the index says of a name."""
    folder, _, mapping_folder = text.partition(" ")
    return Named(folder, mapping_folder)


def read_stored(text: str) -> Stored:
    """Return the revision that a value of the index tells of."""
    number, operation, transaction, names, name, *checksum = _words(text, 5, 6)
    return Stored(int(number), operation, transaction, int(names), name, *checksum)


def read_mapped(text: str | None) -> Mapped:
    """Return what a value of the index says of a mapping folder; None is a folder without files."""
    if text is None:
        return Mapped()
    number, target = _words(text, 2)
    return Mapped(int(number), target)


def encode_node(node: Node) -> bytes:
    """Return the file of a node whose children are all written."""
    return seal(node_map(node))


def decode_node(data: bytes, path: str) -> Node:
    """Return the node of a file."""
    return node_of(unseal(data, path), path)


def node_map(node: Node) -> Mapping[str, Any]:
    """Return a node as a map, which is a file of its own or part of a guard."""
    return {
        "keys": list(node.keys),
        "values": list(node.values),
        "children": list(node.children),
        "buffer": [list(message) for message in node.buffer],
    }


def node_of(fields: Packed, path: str) -> Node:
    """Return the node of a map."""
    try:
        return Node(
            tuple(fields["keys"]),
            tuple(fields["values"]),
            tuple(fields["children"]),
            tuple(Message(*message) for message in fields["buffer"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path} holds no node of the index ({error}): run `mangrove check`") from error


def _words(text: str, *counts: int) -> list[str]:
    words = text.split(" ")
    if len(words) not in counts or not words[0].isdigit():
        raise FormatError(f"the index holds {text!r}, which is damaged: run `mangrove check`")
    return words
