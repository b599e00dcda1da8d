"""Tree nodes with sorted keys, values, child pointers and a message buffer."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from mangrove.errors import FormatError

__all__ = ["Child", "Entry", "Message", "Node", "ReadNodes", "Shape", "check_key_bounds", "load_node", "newest_by_key"]


class Entry(NamedTuple):
    """A key with its value."""

    key: str
    value: str


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
    _newest: dict[str, Message] | None = field(default=None, init=False, repr=False, compare=False)
    _newest_keys: tuple[str, ...] | None = field(default=None, init=False, repr=False, compare=False)
    _extent: tuple[str, ...] | None = field(default=None, init=False, repr=False, compare=False)

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

    @property
    def newest(self) -> Mapping[str, Message]:
        """The message that counts for each key that has one."""
        if self._newest is None:
            # Kept, because a cached node is searched many times; two threads that
            # both come first write the same thing.
            object.__setattr__(self, "_newest", newest_by_key(self.buffer))
        assert self._newest is not None
        return self._newest

    @property
    def newest_keys(self) -> tuple[str, ...]:
        """The keys that have a message, in order: a search of a short range looks at few of them."""
        if self._newest_keys is None:
            object.__setattr__(self, "_newest_keys", tuple(sorted(self.newest)))
        assert self._newest_keys is not None
        return self._newest_keys

    @property
    def extent(self) -> tuple[str, ...]:
        """The least and the greatest key of its rows and messages; nothing where it has neither."""
        if self._extent is None:
            keys = (*self.keys[:1], *self.keys[-1:], *self.newest)
            object.__setattr__(self, "_extent", (min(keys), max(keys)) if keys else ())
        assert self._extent is not None
        return self._extent


Child: TypeAlias = str | Node
ReadNodes: TypeAlias = Callable[[Sequence[str]], Sequence[Node]]
"""Returns the nodes that the pointers lead to, in their order; asked for many at once where that helps."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How large nodes and buffers may grow.

    A small buffer at the root keeps the file that every commit writes small;
    large buffers below make each flush carry many messages.
    """

    order: int = 128
    root_buffer_max: int = 128
    buffer_max: int = 1024
    writes_max: int = 6
    """How many nodes a commit of one message may write, once the way down to one leaf is paid."""

    def __post_init__(self) -> None:
        if self.order < 3 or self.root_buffer_max < 1 or self.buffer_max < 1:
            raise ValueError(f"{self} leaves no room: order is at least 3, buffers hold at least one message")

    @property
    def keys_max(self) -> int:
        """The most keys that a node may have."""
        return self.order - 1

    @property
    def keys_min(self) -> int:
        """The fewest keys that a compacted node other than the root may have."""
        return (self.order + 1) // 2 - 1


def load_node(child: Child, read: ReadNodes) -> Node:
    """Return the node that `child` is or points to."""
    return child if isinstance(child, Node) else read([child])[0]


def check_key_bounds(child: Child, node: Node, low: str | None, high: str | None) -> None:
    """Refuse a node, to which `child` points, whose keys do not all lie between `low` and `high`, both excluded.

    A pointer that leads to a wrong place would hide keys or show others'; and a
    walk that checks every node cannot come to the same keys twice, so it ends.
    """
    extent = node.extent
    if extent and ((low is not None and extent[0] <= low) or (high is not None and extent[1] >= high)):
        named = f"node {child}" if isinstance(child, str) else "a node"
        raise FormatError(
            f"{named} has keys from {extent[0]!r} to {extent[1]!r}, which is outside of its range, "
            f"{low!r} to {high!r}: run `mangrove check`"
        )


def newest_by_key(messages: Iterable[Message]) -> dict[str, Message]:
    """Return the last message of each key."""
    return {message.key: message for message in messages}
