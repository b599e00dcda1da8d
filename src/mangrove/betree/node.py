"""A node of the tree: a sorted table of keys with their values and children, and a buffer of messages."""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias

__all__ = ["Child", "Message", "Node"]


class Message(NamedTuple):
    """One entry of a write buffer: set `key` to `value`, or delete it where `value` is None."""

    key: str
    value: str | None
    transaction: str


@dataclass(frozen=True, slots=True)
class Node:
    """A node, as immutable as the file that holds it.

    `children[i]` holds the keys left of `keys[i]`, the last child those right of
    the last key; a leaf has no children. A child is a pointer to a stored node,
    or a node that has yet to be written. `buffer` is ordered oldest first, and a
    message is newer than everything in the key table and below it.
    """

    keys: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    children: "tuple[Child, ...]" = ()
    buffer: tuple[Message, ...] = ()

    def __post_init__(self) -> None:
        if len(self.keys) != len(self.values):
            raise ValueError(f"{len(self.keys)} keys with {len(self.values)} values")
        if self.children and len(self.children) != len(self.keys) + 1:
            raise ValueError(f"{len(self.keys)} keys with {len(self.children)} children")
        if any(left >= right for left, right in pairwise(self.keys)):
            raise ValueError("keys are not in strictly ascending order")

    @property
    def is_leaf(self) -> bool:
        """Whether nothing lies below."""
        return not self.children


Child: TypeAlias = str | Node
