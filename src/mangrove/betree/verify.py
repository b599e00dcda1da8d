"""Verification of the tree invariants, node by node."""

from collections.abc import Iterator
from dataclasses import dataclass

from mangrove.betree.node import Child, Node, NodeLimits, ReadNodes
from mangrove.betree.search import DEPTH_MAX

__all__ = ["NodeProblem", "verify_tree"]


@dataclass(frozen=True, slots=True)
class NodeProblem:
    """A violated invariant of a node; `pointer` is empty for the root."""

    pointer: str
    rule: str


@dataclass(frozen=True, slots=True)
class _NodePlace:
    """The position of a node: the key bounds `low` and `high`, both exclusive, and the depth below the root."""

    pointer: str
    low: str | None
    high: str | None
    depth: int

    def holds(self, key: str) -> bool:
        return (self.low is None or key > self.low) and (self.high is None or key < self.high)


def verify_tree(root: Node, shape: NodeLimits, read: ReadNodes, *, compacted: bool = False) -> Iterator[NodeProblem]:
    """Yield each violated invariant of the tree.

    A compacted tree must also have empty buffers and nodes that are half full. Pointers
    are followed once, so this terminates on any input.
    """
    leaf_depths: set[int] = set()
    met: set[str] = set()
    waiting: list[tuple[Child, _NodePlace]] = [(root, _NodePlace("", None, None, 0))]
    while waiting:
        child, place = waiting.pop()
        if isinstance(child, str):
            if child in met:
                yield NodeProblem(child, "two nodes point to this node; expected one parent")
                continue
            met.add(child)
        node = child if isinstance(child, Node) else read([child])[0]
        yield from _node_problems(node, place, shape)
        if compacted:
            yield from _compaction_problems(node, place, shape)
        if node.is_leaf:
            leaf_depths.add(place.depth)
            if len(leaf_depths) == 2:
                leaf_depths.discard(place.depth)
                yield NodeProblem(
                    place.pointer, f"all leaves are equally deep, but this one is {place.depth} below the root"
                )
        elif place.depth >= DEPTH_MAX:
            yield NodeProblem(place.pointer, f"a tree is at most {DEPTH_MAX} nodes deep")
        else:
            waiting.extend(_below(node, place))


def _below(node: Node, place: _NodePlace) -> Iterator[tuple[Child, _NodePlace]]:
    bounds = (place.low, *node.keys, place.high)
    for index, child in enumerate(node.children):
        pointer = child if isinstance(child, str) else ""
        yield child, _NodePlace(pointer, bounds[index], bounds[index + 1], place.depth + 1)


def _node_problems(node: Node, place: _NodePlace, shape: NodeLimits) -> Iterator[NodeProblem]:
    if len(node.keys) > shape.keys_max:
        yield NodeProblem(place.pointer, f"a node has at most {shape.keys_max} keys, but this one has {len(node.keys)}")
    for key in node.keys:
        if not place.holds(key):
            yield NodeProblem(
                place.pointer, f"key {key!r} lies outside ({place.low!r}, {place.high!r}), the node's range"
            )
    for key in node.newest:
        if not place.holds(key):
            yield NodeProblem(
                place.pointer, f"message {key!r} lies outside ({place.low!r}, {place.high!r}), the node's range"
            )


def _compaction_problems(node: Node, place: _NodePlace, shape: NodeLimits) -> Iterator[NodeProblem]:
    if node.buffer:
        yield NodeProblem(place.pointer, f"a compacted node has no messages, but this one has {len(node.buffer)}")
    if place.depth and len(node.keys) < shape.keys_min:
        yield NodeProblem(
            place.pointer, f"a compacted node has at least {shape.keys_min} keys, but this one has {len(node.keys)}"
        )
    if node.children and not node.keys:
        yield NodeProblem(place.pointer, "a compacted node with children has keys")
