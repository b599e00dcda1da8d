"""Checking every rule of the tree and its buffers, node by node."""

from collections.abc import Iterator
from dataclasses import dataclass

from mangrove.betree.node import Child, Node, ReadNodes, Shape
from mangrove.betree.search import DEPTH_MAX

__all__ = ["Problem", "verify"]


@dataclass(frozen=True, slots=True)
class Problem:
    """A rule that a node breaks; `pointer` is empty for the root."""

    pointer: str
    rule: str


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a node stands: what lies between `low` and `high`, both excluded, `depth` nodes below the root."""

    pointer: str
    low: str | None
    high: str | None
    depth: int

    def holds(self, key: str) -> bool:
        return (self.low is None or key > self.low) and (self.high is None or key < self.high)


def verify(root: Node, shape: Shape, read: ReadNodes, *, compacted: bool = False) -> Iterator[Problem]:
    """Yield each rule that the tree breaks; nothing when it is sound.

    A compacted tree must also have empty buffers and nodes that are half full.
    A pointer that was met before is not followed again, so this ends on any input.
    """
    leaf_depths: set[int] = set()
    met: set[str] = set()
    waiting: list[tuple[Child, _Place]] = [(root, _Place("", None, None, 0))]
    while waiting:
        child, place = waiting.pop()
        if isinstance(child, str):
            if child in met:
                yield Problem(child, "a node has exactly one parent, but two pointers lead here")
                continue
            met.add(child)
        node = child if isinstance(child, Node) else read([child])[0]
        yield from _broken_here(node, place, shape)
        if compacted:
            yield from _not_compacted(node, place, shape)
        if node.is_leaf:
            leaf_depths.add(place.depth)
            if len(leaf_depths) == 2:
                leaf_depths.discard(place.depth)
                yield Problem(
                    place.pointer, f"all leaves are equally deep, but this one is {place.depth} below the root"
                )
        elif place.depth >= DEPTH_MAX:
            yield Problem(place.pointer, f"a tree is at most {DEPTH_MAX} nodes deep")
        else:
            waiting.extend(_below(node, place))


def _below(node: Node, place: _Place) -> Iterator[tuple[Child, _Place]]:
    bounds = (place.low, *node.keys, place.high)
    for index, child in enumerate(node.children):
        pointer = child if isinstance(child, str) else ""
        yield child, _Place(pointer, bounds[index], bounds[index + 1], place.depth + 1)


def _broken_here(node: Node, place: _Place, shape: Shape) -> Iterator[Problem]:
    if len(node.keys) > shape.keys_max:
        yield Problem(place.pointer, f"a node has at most {shape.keys_max} keys, but this one has {len(node.keys)}")
    for key in node.keys:
        if not place.holds(key):
            yield Problem(place.pointer, f"key {key!r} lies outside ({place.low!r}, {place.high!r}), the node's range")
    for key in node.newest:
        if not place.holds(key):
            yield Problem(
                place.pointer, f"message {key!r} lies outside ({place.low!r}, {place.high!r}), the node's range"
            )


def _not_compacted(node: Node, place: _Place, shape: Shape) -> Iterator[Problem]:
    if node.buffer:
        yield Problem(place.pointer, f"a compacted node has no messages, but this one has {len(node.buffer)}")
    if place.depth and len(node.keys) < shape.keys_min:
        yield Problem(
            place.pointer, f"a compacted node has at least {shape.keys_min} keys, but this one has {len(node.keys)}"
        )
    if node.children and not node.keys:
        yield Problem(place.pointer, "a compacted node with children has keys")
