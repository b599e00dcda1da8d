"""Comparison of two trees that skips the subtrees they share.

Two versions of a tree share most nodes by pointer. Both trees are walked from left
to right in parallel, as two queues of entries and unopened subtrees. If the same
unopened subtree is at the head of both queues, it is skipped, unless messages above
it differ: then it is opened, and its children without such messages are skipped.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeAlias

from mangrove.betree.node import Child, Entry, Node, ReadNodes, check_key_bounds
from mangrove.betree.search import DEPTH_MAX
from mangrove.errors import FormatError

__all__ = ["KeyChange", "diff_trees"]

_NODES_PER_READ = 64


class KeyChange(NamedTuple):
    """A key whose value differs between two trees; None if a tree does not have it."""

    key: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class _Subtree:
    """The keys between `low` and `high`, both exclusive, with the newer messages from above."""

    child: Child
    low: str | None
    high: str | None
    newer: Mapping[str, str | None]
    depth: int

    def starts_before(self, other: "_Subtree") -> bool:
        """Whether this one must be opened before the other: it starts further left, or there and is wider."""
        if self.low != other.low:
            return self.low is None or (other.low is not None and self.low < other.low)
        return self.high != other.high and (self.high is None or (other.high is not None and self.high > other.high))

    def may_start_left_of(self, entry: Entry | None) -> bool:
        """Whether it must be opened before the entry at the head of the other queue is taken."""
        return entry is None or self.low is None or entry.key > self.low

    def is_same_as(self, other: "_Subtree") -> bool:
        """Whether both are the same stored node with the same bounds."""
        same = self.child is other.child or (isinstance(self.child, str) and self.child == other.child)
        return same and (self.low, self.high) == (other.low, other.high)


_Item: TypeAlias = Entry | _Subtree


def diff_trees(before: Node, after: Node, read: ReadNodes) -> Iterator[KeyChange]:
    """Yield the keys whose values differ, in order."""
    left: list[_Item] = [_Subtree(before, None, None, {}, 0)]
    right: list[_Item] = [_Subtree(after, None, None, {}, 0)]
    # Each queue is a stack whose top is its leftmost item.
    ahead = _Ahead(read)
    while left or right:
        ours, theirs = left[-1] if left else None, right[-1] if right else None
        if ours == theirs:
            # Both trees share it. Reading ahead here would cost the length of both queues for each shared item.
            left.pop()
            right.pop()
        elif isinstance(ours, _Subtree) and isinstance(theirs, _Subtree):
            ahead.look(left, right)
            _open_either(left, right, ours, theirs, ahead.read)
        elif isinstance(ours, _Subtree) and not isinstance(theirs, _Subtree) and ours.may_start_left_of(theirs):
            ahead.look(left, right)
            _open(left, ahead.read)
        elif isinstance(theirs, _Subtree) and not isinstance(ours, _Subtree) and theirs.may_start_left_of(ours):
            ahead.look(left, right)
            _open(right, ahead.read)
        else:
            # Unopened subtrees on one side are right of the entry on the other.
            yield from _compare_leftmost(left, right)


class _Ahead:
    """Prefetches in batches the nodes that are certainly needed."""

    def __init__(self, read: ReadNodes) -> None:
        self._read = read
        self._nodes: dict[str, Node] = {}

    def look(self, left: list[_Item], right: list[_Item]) -> None:
        """Read the nodes that both queues will certainly open, if one of the heads is among them and not read yet."""
        heads = [row[-1] for row in (left, right) if row]
        pointers = {head.child for head in heads if isinstance(head, _Subtree) and isinstance(head.child, str)}
        if pointers <= self._nodes.keys():
            return
        sure = dict.fromkeys(pointer for pointer in _certain_reads(left, right) if pointer not in self._nodes)
        if not sure.keys().isdisjoint(pointers):
            requested = list(islice(sure, _NODES_PER_READ))
            self._nodes |= dict(zip(requested, self._read(requested), strict=True))

    def read(self, pointers: Sequence[str]) -> Sequence[Node]:
        """Return nodes and drop them from the prefetch buffer: each is opened once."""
        return [
            self._nodes.pop(pointer) if pointer in self._nodes else self._read([pointer])[0] for pointer in pointers
        ]


def _certain_reads(left: list[_Item], right: list[_Item]) -> Iterator[str]:
    """Yield the stored nodes that are opened in any case: at the same position in both queues, and different.

    This includes all nodes left of the other queue's first unopened subtree.
    """
    theirs = {(item.low, item.high): item for item in _subtrees(right)}
    for ours in _subtrees(left):
        other = theirs.get((ours.low, ours.high))
        if other is not None and (not ours.is_same_as(other) or ours.newer != other.newer):
            yield from (child for child in (ours.child, other.child) if isinstance(child, str))
    for row, opposite in ((left, right), (right, left)):
        bound = next(_subtrees(opposite), None)
        for one in _subtrees(row):
            if isinstance(one.child, str) and _is_left_of(one, bound):
                yield one.child


def _subtrees(row: list[_Item]) -> Iterator[_Subtree]:
    return (item for item in reversed(row) if isinstance(item, _Subtree))


def _is_left_of(subtree: _Subtree, bound: _Subtree | None) -> bool:
    if bound is None:
        return True
    return subtree.high is not None and bound.low is not None and subtree.high <= bound.low


def _compare_leftmost(left: list[_Item], right: list[_Item]) -> Iterator[KeyChange]:
    """Take the leftmost entry, and its counterpart if there is one, and yield the difference."""
    ours = left[-1] if left and isinstance(left[-1], Entry) else None
    theirs = right[-1] if right and isinstance(right[-1], Entry) else None
    key = min(entry.key for entry in (ours, theirs) if entry is not None)
    before = after = None
    if ours is not None and ours.key == key:
        before = ours.value
        left.pop()
    if theirs is not None and theirs.key == key:
        after = theirs.value
        right.pop()
    if before != after:
        yield KeyChange(key, before, after)


def _open_either(left: list[_Item], right: list[_Item], ours: _Subtree, theirs: _Subtree, read: ReadNodes) -> None:
    if ours.is_same_as(theirs):
        own_messages = {
            key: value for key, value in ours.newer.items() if not _has_same_message(theirs.newer, key, value)
        }
        other_messages = {
            key: value for key, value in theirs.newer.items() if not _has_same_message(ours.newer, key, value)
        }
        left.pop()
        right.pop()
        if own_messages or other_messages:
            node = _read(ours, read)
            left.extend(_expand_subtree(ours, node, own_messages))
            right.extend(_expand_subtree(theirs, node, other_messages))
        return
    if not theirs.starts_before(ours):
        _open(left, read)
    if not ours.starts_before(theirs):
        _open(right, read)


def _has_same_message(newer: Mapping[str, str | None], key: str, value: str | None) -> bool:
    return key in newer and newer[key] == value


def _open(row: list[_Item], read: ReadNodes) -> None:
    subtree = row.pop()
    assert isinstance(subtree, _Subtree)
    row.extend(_expand_subtree(subtree, _read(subtree, read), subtree.newer))


def _read(subtree: _Subtree, read: ReadNodes) -> Node:
    """Return the root node of the subtree, with its key bounds checked, since both queues must be ordered."""
    if subtree.depth >= DEPTH_MAX:
        raise FormatError(
            f"the tree is more than {DEPTH_MAX} nodes deep, so its pointers form a cycle or are damaged; "
            "run `mangrove check`"
        )
    if isinstance(subtree.child, Node):
        return subtree.child
    node = read([subtree.child])[0]
    check_key_bounds(subtree.child, node, subtree.low, subtree.high)
    return node


def _expand_subtree(subtree: _Subtree, node: Node, newer: Mapping[str, str | None]) -> list[_Item]:
    """Return the items of the subtree, rightmost first, with the messages from above applied."""
    messages: dict[str, str | None] = {**node.newest, **newer}
    if node.is_leaf:
        rows: dict[str, str | None] = {**dict(zip(node.keys, node.values, strict=True)), **messages}
        return [Entry(key, value) for key, value in sorted(rows.items(), reverse=True) if value is not None]
    waiting = sorted(messages)
    items: list[_Item] = []
    for index, child in enumerate(node.children):
        low = node.keys[index - 1] if index else subtree.low
        high = node.keys[index] if index < len(node.keys) else subtree.high
        first = 0 if low is None else bisect_right(waiting, low)
        end = len(waiting) if high is None else bisect_left(waiting, high)
        items.append(_Subtree(child, low, high, {key: messages[key] for key in waiting[first:end]}, subtree.depth + 1))
        if index < len(node.keys):
            key = node.keys[index]
            value = messages.get(key, node.values[index])
            if value is not None:
                items.append(Entry(key, value))
    items.reverse()
    return items
