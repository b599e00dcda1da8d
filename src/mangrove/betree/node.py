"""Tree nodes with sorted keys, values, child pointers and a message buffer."""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeAlias, overload

from mangrove.errors import FormatError

__all__ = [
    "Child",
    "Entry",
    "Message",
    "MessageColumns",
    "Node",
    "NodeLimits",
    "ReadNodes",
    "check_key_bounds",
    "load_node",
    "newest_by_key",
]


class Entry(NamedTuple):
    """A key with its value."""

    key: str
    value: str


class Message(NamedTuple):
    """An entry of a write buffer: set `key` to `value`, or delete it if `value` is None."""

    key: str
    value: str | None
    transaction: str


class MessageColumns(Sequence[Message]):
    """The messages of a stored buffer, oldest first, as columns; equal to the tuple of them.

    A commit of thousands of objects leaves all of its messages in one buffer, and a search needs
    only their keys and values.
    """

    __slots__ = ("keys", "transactions", "values")

    def __init__(self, keys: Sequence[str], values: Sequence[str | None], transactions: Sequence[str]) -> None:
        """All columns have the same length."""
        self.keys = keys
        self.values = values
        self.transactions = transactions

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Message]:
        # A named tuple's own constructor is written in Python.
        return map(partial(tuple.__new__, Message), zip(self.keys, self.values, self.transactions, strict=True))

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(index, int):
            return Message(self.keys[index], self.values[index], self.transactions[index])
        return tuple(MessageColumns(self.keys[index], self.values[index], self.transactions[index]))

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, tuple | MessageColumns) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


@dataclass(frozen=True, slots=True)
class Node:
    """An immutable node.

    `children[i]` has the keys left of `keys[i]`, the last child those right of the last
    key; a leaf has no children. A child is a pointer to a stored node, or an unwritten
    node. `buffer` is ordered oldest first, and a message is newer than everything in the
    key table and below it.
    """

    keys: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    children: "tuple[Child, ...]" = ()
    buffer: Sequence[Message] = ()
    _newest: dict[str, str | None] | None = field(default=None, init=False, repr=False, compare=False)
    _newest_keys: tuple[str, ...] | None = field(default=None, init=False, repr=False, compare=False)
    _extent: tuple[str, ...] | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.keys) != len(self.values):
            raise ValueError(f"{len(self.keys)} keys with {len(self.values)} values")
        if self.children and len(self.children) != len(self.keys) + 1:
            raise ValueError(f"{len(self.keys)} keys with {len(self.children)} children")
        if any(map(operator.ge, self.keys, self.keys[1:])):
            raise ValueError("keys are not in strictly ascending order")

    @property
    def is_leaf(self) -> bool:
        """Whether the node has no children."""
        return not self.children

    @property
    def newest(self) -> Mapping[str, str | None]:
        """The newest value of each key in the buffer; None if it is deleted."""
        if self._newest is None:
            buffer = self.buffer
            values = (
                dict(zip(buffer.keys, buffer.values, strict=True))
                if isinstance(buffer, MessageColumns)
                else {message.key: message.value for message in buffer}
            )
            # Cached, because a node is searched many times; two threads that
            # compute it concurrently store the same value.
            object.__setattr__(self, "_newest", values)
        assert self._newest is not None
        return self._newest

    @property
    def newest_keys(self) -> tuple[str, ...]:
        """The keys with a message, in order, for range searches."""
        if self._newest_keys is None:
            object.__setattr__(self, "_newest_keys", tuple(sorted(self.newest)))
        assert self._newest_keys is not None
        return self._newest_keys

    @property
    def extent(self) -> tuple[str, ...]:
        """The least and the greatest key of its rows and messages, or None."""
        if self._extent is None:
            keys = (*self.keys[:1], *self.keys[-1:], *self.newest)
            object.__setattr__(self, "_extent", (min(keys), max(keys)) if keys else ())
        assert self._extent is not None
        return self._extent


Child: TypeAlias = str | Node
ReadNodes: TypeAlias = Callable[[Sequence[str]], Sequence[Node]]
"""Returns the nodes at the pointers, in order; called with batches where possible."""


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """The maximum sizes of nodes and buffers.

    Every commit writes the root, so the root is small; large buffers below make each flush
    carry many messages.
    """

    order: int = 128
    root_buffer_max: int = 128
    buffer_max: int = 1024
    root_children_max: int = 32
    """The number of children at which a root is split; other nodes have up to `order` children."""
    flush_min: int = 16
    """The number of messages for one child at which the root flushes them before its buffer is full.

    The fewer, the smaller the root, but the more often the child is written: with a leaf of n keys the bytes of
    both are least at √(2n).
    """
    inner_flush_min: int = 64
    """The same number for nodes below the root."""
    root_leaf_bytes_max: int = 64 * 1024
    """The size of the values at which a root without children gets one child with all of them."""
    writes_max: int = 6
    """The number of nodes that a commit of one message may write in addition to one path to a leaf."""

    def __post_init__(self) -> None:
        if self.order < 3 or self.root_buffer_max < 1 or self.buffer_max < 1:
            raise ValueError(
                f"invalid shape {self}: the order must be at least 3, and buffers hold at least one message"
            )

    @property
    def keys_max(self) -> int:
        """The maximum number of keys of a node."""
        return self.order - 1

    @property
    def root_keys_max(self) -> int:
        """The maximum number of keys of a root with children that is not split."""
        return min(self.order, self.root_children_max) - 1

    @property
    def keys_min(self) -> int:
        """The minimum number of keys of a compacted node other than the root."""
        return (self.order + 1) // 2 - 1


def load_node(child: Child, read: ReadNodes) -> Node:
    """Return the node that `child` is or points to."""
    return child if isinstance(child, Node) else read([child])[0]


def check_key_bounds(child: Child, node: Node, low: str | None, high: str | None) -> None:
    """Raise `FormatError` if keys of the node at `child` are not between `low` and `high`, both exclusive.

    A wrong pointer would mask keys or return those of others. A walk that checks every
    node never reaches the same keys twice, so it terminates.
    """
    extent = node.extent
    if extent and ((low is not None and extent[0] <= low) or (high is not None and extent[1] >= high)):
        named = f"node {child}" if isinstance(child, str) else "a node"
        raise FormatError(
            f"{named} has keys from {extent[0]!r} to {extent[1]!r}, outside its range "
            f"{low!r} to {high!r}; run `mangrove check`"
        )


def newest_by_key(messages: Iterable[Message]) -> dict[str, Message]:
    """Return the last message of each key."""
    return {message.key: message for message in messages}
