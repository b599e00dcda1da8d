"""Small steps on one node: taking messages into its rows, and dividing it."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from mangrove.betree.node import Entry, Message, Node, Shape

__all__ = ["Run", "settled", "split", "with_messages"]


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring nodes of one level, the pivots between them, and messages that hang on those pivots."""

    nodes: tuple[Node, ...]
    pivots: tuple[Entry, ...] = ()
    loose: tuple[Message, ...] = ()

    @staticmethod
    def of(node: Node) -> "Run":
        """Return a run of one node."""
        return Run((node,))

    def chunked(self, shape: Shape) -> "Run":
        """Return a run of one bufferless node divided evenly into as few nodes as may hold its keys."""
        (node,) = self.nodes
        if len(node.keys) <= shape.keys_max:
            return self
        pieces = -(-(len(node.keys) + 1) // shape.order)
        bounds = [round(piece * (len(node.keys) + 1) / pieces) for piece in range(pieces + 1)]
        nodes = tuple(
            Node(node.keys[low : high - 1], node.values[low : high - 1], node.children[low:high])
            for low, high in pairwise(bounds)
        )
        return Run(nodes, tuple(Entry(node.keys[high - 1], node.values[high - 1]) for high in bounds[1:-1]))


def settled(node: Node) -> Node:
    """Return `node` with one message for each key, and new values of its pivots in their rows."""
    buffer = []
    values = list(node.values)
    for message in node.newest.values():
        index = bisect_left(node.keys, message.key)
        if message.value is not None and index < len(node.keys) and node.keys[index] == message.key:
            values[index] = message.value
        else:
            buffer.append(message)
    return replace(node, values=tuple(values), buffer=tuple(buffer))


def with_messages(leaf: Node, messages: Iterable[Message]) -> Node:
    """Return the leaf's rows after the messages, however many they become."""
    rows: dict[str, str] = dict(zip(leaf.keys, leaf.values, strict=True))
    for message in messages:
        if message.value is None:
            rows.pop(message.key, None)
        else:
            rows[message.key] = message.value
    keys = tuple(sorted(rows))
    return Node(keys, tuple(rows[key] for key in keys))


def split(node: Node) -> Run:
    """Return the two halves of a settled node, its middle key between them.

    A delete of the middle key hangs loose: it belongs to the buffer of whichever
    node the key becomes a pivot of.
    """
    middle = len(node.keys) // 2
    pivot = Entry(node.keys[middle], node.values[middle])
    left = Node(
        node.keys[:middle],
        node.values[:middle],
        node.children[: middle + 1],
        tuple(message for message in node.buffer if message.key < pivot.key),
    )
    right = Node(
        node.keys[middle + 1 :],
        node.values[middle + 1 :],
        node.children[middle + 1 :],
        tuple(message for message in node.buffer if message.key > pivot.key),
    )
    return Run((left, right), (pivot,), tuple(message for message in node.buffer if message.key == pivot.key))
