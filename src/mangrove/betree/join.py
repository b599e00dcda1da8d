"""Joining two neighbouring nodes, so that a deleted pivot between them can go."""

from mangrove.betree.node import Entry, Node, ReadNodes, Shape, load
from mangrove.betree.rows import Run, settled, split

__all__ = ["joined"]


def joined(left: Node, pivot: Entry | None, right: Node, shape: Shape, read: ReadNodes) -> Run:
    """Return the one or two nodes that hold what `left`, `pivot` and `right` held.

    Without a pivot nothing stands between the last child of `left` and the first
    of `right`, so these are joined too, down to the leaves. A node without keys
    may have a child that is too small to stand alone; that one is joined as well.
    """
    left, right = settled(left), settled(right)
    between = () if pivot is None else (pivot,)
    keys = left.keys + tuple(entry.key for entry in between) + right.keys
    values = left.values + tuple(entry.value for entry in between) + right.values
    if left.is_leaf:
        return Run.of(Node(keys, values)).chunked(shape)
    children = left.children + right.children
    if pivot is None or not left.keys or not right.keys:
        near = load(left.children[-1], read), load(right.children[0], read)
        if pivot is None or any(len(child.keys) < shape.keys_min for child in near):
            run = joined(near[0], pivot, near[1], shape, read)
            keys = left.keys + tuple(entry.key for entry in run.pivots) + right.keys
            values = left.values + tuple(entry.value for entry in run.pivots) + right.values
            children = left.children[:-1] + run.nodes + right.children[1:]
            both = (*run.loose, *left.buffer, *right.buffer)
            return _divided(settled(Node(keys, values, children, both)), shape)
    return _divided(settled(Node(keys, values, children, left.buffer + right.buffer)), shape)


def _divided(node: Node, shape: Shape) -> Run:
    too_heavy = len(node.buffer) > shape.buffer_max and len(node.keys) >= 3
    if len(node.keys) > shape.keys_max or too_heavy:
        return split(node)
    return Run.of(node)
