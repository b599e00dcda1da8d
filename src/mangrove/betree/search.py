"""Point lookups and range scans through the message buffers."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import NamedTuple, TypeAlias, cast

from mangrove.betree.node import Child, Entry, Node, ReadNodes, check_key_bounds, load_node
from mangrove.errors import FormatError

__all__ = [
    "DEPTH_MAX",
    "Chunk",
    "KeyRangeSet",
    "Span",
    "get",
    "get_many",
    "last",
    "measure_height",
    "merge_ranges",
    "scan",
    "scan_all",
    "scan_chunks",
]


@dataclass(frozen=True, slots=True)
class KeyRangeSet:
    """Sorted, disjoint ranges from `firsts[i]` (inclusive) to `ends[i]` (exclusive)."""

    firsts: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()

    def contains(self, key: str) -> bool:
        """Return whether a key is in one of the ranges."""
        place = bisect_right(self.firsts, key)
        return place > 0 and key < self.ends[place - 1]


def merge_ranges(ranges: Iterable[tuple[str, str]]) -> KeyRangeSet:
    """Return the ranges in order, without empty ones, joined where they meet or overlap.

    >>> merge_ranges([("p", "q"), ("a", "c"), ("b", "d"), ("d", "e")])
    KeyRangeSet(firsts=('a', 'p'), ends=('e', 'q'))
    """
    firsts: list[str] = []
    ends: list[str] = []
    for first, end in sorted(pair for pair in ranges if pair[0] < pair[1]):
        if ends and first <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            firsts.append(first)
            ends.append(end)
    return KeyRangeSet(tuple(firsts), tuple(ends))


DEPTH_MAX = 32
"""Deeper than any valid tree: 2**32 keys at the smallest order. Terminates the walk of a cycle."""

_AHEAD_MAX = 32
_AHEAD_OF_USED = 4

Span: TypeAlias = tuple[str, str | None]
"""The keys from the first (inclusive) to the second (exclusive); None means no upper bound."""
Chunk: TypeAlias = tuple[Sequence[str], Sequence[str]]
"""Keys in order, and their values."""


def get(root: Node, key: str, read: ReadNodes) -> str | None:
    """Return the newest value of `key`, or None if it has none.

    A message is newer than everything below it, so the first hit on the path down is the
    newest.
    """
    node = root
    low = high = None
    for _ in range(DEPTH_MAX):
        newest = node.newest
        if key in newest:
            return newest[key]
        index = bisect_left(node.keys, key)
        if index < len(node.keys) and node.keys[index] == key:
            return node.values[index]
        if node.is_leaf:
            return None
        low = node.keys[index - 1] if index else low
        high = node.keys[index] if index < len(node.keys) else high
        child = node.children[index]
        node = load_node(child, read)
        check_key_bounds(child, node, low, high)
    raise _too_deep()


def get_many(root: Node, keys: Iterable[str], read: ReadNodes) -> dict[str, str]:
    """Return the newest values of those keys that have one; nodes are read once and in batches."""
    requested = sorted(set(keys))
    if len(requested) == 1:
        value = get(root, requested[0], read)
        return {} if value is None else {requested[0]: value}
    return dict(scan_all(root, [(key, key + "\0") for key in requested], read))


def measure_height(root: Node, read: ReadNodes) -> int:
    """Return the number of nodes on the path from the root to a leaf, both included."""
    node = root
    for levels in range(1, DEPTH_MAX + 1):
        if node.is_leaf:
            return levels
        node = load_node(node.children[0], read)
    raise _too_deep()


def scan(root: Node, start: str, end: str | None, read: ReadNodes) -> Iterator[Entry]:
    """Yield the entries with `start <= key < end` in order; `end` None means no upper bound.

    Nodes are read lazily. The longer the scan, the larger the batches, but a batch is never
    more than a quarter of the nodes already used.
    """
    return scan_all(root, [(start, end)], read)


def scan_all(root: Node, spans: Sequence[Span], read: ReadNodes) -> Iterator[Entry]:
    """Yield the entries of several sorted, disjoint ranges.

    This is one walk that reads each node once. Each range leads to a node, so batches
    are large from the start.
    """
    # A named tuple's own constructor is written in Python, and a scan has thousands of entries.
    return chain.from_iterable(
        map(partial(tuple.__new__, Entry), zip(keys, values, strict=True))
        for keys, values in scan_chunks(root, spans, read)
    )


def scan_chunks(root: Node, spans: Sequence[Span], read: ReadNodes) -> Iterator[Chunk]:
    """Yield what `scan_all` yields, as the keys and the values of one node after the other."""
    return _walk(root, _Range(None, None), spans, {}, _ReadAhead(read, len(spans)), DEPTH_MAX)


def last(root: Node, start: str, end: str, read: ReadNodes) -> Entry | None:
    """Return the entry with the greatest key in `start <= key < end`, or None."""
    return _find_last_in(root, _Range(None, None), start, end, {}, read, DEPTH_MAX)


class _Range(NamedTuple):
    """The key bounds of a node, both exclusive."""

    low: str | None
    high: str | None

    def of_child(self, node: Node, index: int) -> "_Range":
        return _Range(
            node.keys[index - 1] if index else self.low, node.keys[index] if index < len(node.keys) else self.high
        )


class _ReadAhead:
    """Prefetches the siblings that a scan needs next in batches."""

    def __init__(self, read: ReadNodes, needed_min: int) -> None:
        self._read = read
        self._used = _AHEAD_OF_USED * (needed_min - 1)

    def siblings(self, children: Sequence[Child]) -> Iterator[Node]:
        position = 0
        while position < len(children):
            ahead = min(1 + self._used // _AHEAD_OF_USED, _AHEAD_MAX)
            batch = children[position : position + ahead]
            pointers = [child for child in batch if isinstance(child, str)]
            stored = iter(self._read(pointers)) if pointers else iter(())
            for child in batch:
                self._used += 1
                yield child if isinstance(child, Node) else next(stored)
            position += len(batch)


def _walk(
    node: Node, place: _Range, spans: Sequence[Span], newer: Mapping[str, str | None], ahead: _ReadAhead, depth: int
) -> Iterator[Chunk]:
    """Yield the entries node by node, each node when it is reached."""
    if depth == 0:
        raise _too_deep()
    pending = _pending(node, spans, newer)
    # Without messages from above they are in the order of the ranges.
    waiting = sorted(pending) if newer else list(pending)
    if node.is_leaf:
        for span in spans:
            first, beyond = _slice_bounds(node.keys, span)
            yield _merge_entries(
                node.keys[first:beyond], node.values[first:beyond], _keys_in_span(waiting, span), pending
            )
        return
    steps = _steps(node.keys, spans)
    children = ahead.siblings([node.children[index] for index, requested in steps if requested])
    for index, requested in steps:
        if not requested:
            yield _pivot(node, index, pending)
            continue
        child, below = next(children), place.of_child(node, index)
        check_key_bounds(node.children[index], child, *below)
        inherited = {key: pending[key] for span in requested for key in _keys_in_span(waiting, span)}
        yield from _walk(child, below, requested, inherited, ahead, depth - 1)


def _steps(pivots: Sequence[str], spans: Sequence[Span]) -> list[tuple[int, list[Span]]]:
    """Return the children and pivots in the ranges, in order; each child with its ranges.

    The keys of a child are strictly between its pivots, so a child is not read if a range
    starts or ends exactly at its pivot.
    """
    steps: list[tuple[int, list[Span]]] = []
    for start, end in spans:
        first, beyond = _slice_bounds(pivots, (start, end))
        for index in range(first, beyond + 1):
            low = start if index == first else pivots[index - 1] + "\0"
            high = pivots[index] if index < beyond else end
            if high is None or low < high:
                if steps and steps[-1][0] == index and steps[-1][1]:
                    steps[-1][1].append((low, high))
                else:
                    steps.append((index, [(low, high)]))
            if index < beyond:
                steps.append((index, []))
    return steps


def _slice_bounds(keys: Sequence[str], span: Span) -> tuple[int, int]:
    """Return the slice bounds of a range in a sorted sequence of keys."""
    start, end = span
    first = bisect_left(keys, start)
    return first, len(keys) if end is None else bisect_left(keys, end, first)


def _keys_in_span(keys: Sequence[str], span: Span) -> Sequence[str]:
    first, beyond = _slice_bounds(keys, span)
    return keys[first:beyond]


def _pivot(node: Node, index: int, pending: Mapping[str, str | None]) -> Chunk:
    key = node.keys[index]
    value = pending[key] if key in pending else node.values[index]
    return ((), ()) if value is None else ((key,), (value,))


def _pending(node: Node, spans: Sequence[Span], newer: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the newest messages in the ranges: those from above mask those of this node."""
    keys, newest = node.newest_keys, node.newest
    pending = {key: newest[key] for span in spans for key in _keys_in_span(keys, span)}
    pending.update(newer)
    return pending


def _merge_entries(
    keys: Sequence[str], values: Sequence[str], waiting: Sequence[str], pending: Mapping[str, str | None]
) -> Chunk:
    if not waiting:
        return keys, values
    if not keys:
        # After a commit of thousands of objects, all of them wait in the buffer of one node, in order.
        ordered, found = waiting, [pending[key] for key in waiting]
    else:
        merged: dict[str, str | None] = dict(zip(keys, values, strict=True))
        merged.update((key, pending[key]) for key in waiting)
        ordered = sorted(merged)
        found = [merged[key] for key in ordered]
    if None not in found:
        return ordered, cast("list[str]", found)
    present = [(key, value) for key, value in zip(ordered, found, strict=True) if value is not None]
    return [key for key, _ in present], [value for _, value in present]


def _find_last_in(
    node: Node, place: _Range, start: str, end: str, newer: Mapping[str, str | None], read: ReadNodes, depth: int
) -> Entry | None:
    if depth == 0:
        raise _too_deep()
    pending = _pending(node, [(start, end)], newer)
    first, beyond = _slice_bounds(node.keys, (start, end))
    if node.is_leaf:
        stored = next((place for place in range(beyond - 1, first - 1, -1) if node.keys[place] not in pending), None)
        found = [Entry(key, value) for key, value in pending.items() if value is not None]
        found += [] if stored is None else [Entry(node.keys[stored], node.values[stored])]
        return max(found, default=None)
    high = end
    pivots = set(node.keys[first:beyond])
    for index in range(beyond, first - 1, -1):
        low = node.keys[index - 1] if index > first else start
        inherited = {key: value for key, value in pending.items() if low <= key < high and key not in pivots}
        child, below = load_node(node.children[index], read), place.of_child(node, index)
        check_key_bounds(node.children[index], child, *below)
        greatest = _find_last_in(child, below, low, high, inherited, read, depth - 1)
        if greatest is not None:
            return greatest
        if index > first:
            keys, values = _pivot(node, index - 1, pending)
            if keys:
                return Entry(keys[0], values[0])
            high = low
    return None


def _too_deep() -> FormatError:
    return FormatError(
        f"the tree is more than {DEPTH_MAX} nodes deep, "
        "so its pointers form a cycle or are damaged; run `mangrove check`"
    )
