"""Parallel mapping over items with a thread pool."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

__all__ = ["map_parallel"]

Given = TypeVar("Given")
Made = TypeVar("Made")
_THREADS_MAX: Final = 8


def map_parallel(work: Callable[[Given], Made], items: Sequence[Given]) -> list[Made]:
    """Return what becomes of each item, in their order; a lone one needs no thread.

    >>> map_parallel(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(_THREADS_MAX, len(items))) as pool:
        return list(pool.map(work, items))
