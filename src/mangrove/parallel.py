"""Parallel mapping over items with a thread pool.

Python starts no pool thread after the main thread has ended, although other threads still
run, and none beyond the limit of the system. The caller's thread does the work then.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from itertools import chain
from typing import Final, TypeVar

__all__ = ["THREADS_MAX", "map_ahead", "map_in_pool", "map_parallel", "submit_task"]

T = TypeVar("T")
R = TypeVar("R")
THREADS_MAX: Final = 8


def submit_task(pool: Executor, work: Callable[[T], R], item: T) -> Future[R]:
    """Begin the work on a thread of the pool, or do it here if no thread can be started."""
    try:
        return pool.submit(work, item)
    except RuntimeError:
        done: Future[R] = Future()
        try:
            done.set_result(work(item))
        except Exception as error:  # noqa: BLE001 - raised where the result is read, as by threads
            done.set_exception(error)
        return done


def map_in_pool(pool: Executor, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Begin the work for all items, and return the results in order; an error cancels what has not begun."""
    return _take_results([submit_task(pool, work, item) for item in items])


def _take_results(futures: Sequence[Future[R]]) -> Iterator[R]:
    try:
        for future in futures:
            yield future.result()
    finally:
        for future in futures:
            future.cancel()


def map_parallel(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return the result for each item, in order; a single item needs no thread.

    >>> map_parallel(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(THREADS_MAX, len(items))) as pool:
        return list(map_in_pool(pool, work, items))


def map_ahead(
    work: Callable[[T], R],
    items: Iterable[T],
    size_of: Callable[[T], int] = lambda _: 0,
    size_max: int = 0,
) -> Iterator[R]:
    """Yield the result for each item, in order, and compute the next ones meanwhile.

    At most as many items as there are threads are computed or waiting, and of those after the
    first one at most `size_max` in all. A single item needs no thread.

    >>> list(map_ahead(abs, iter([-1, 2, -3])))
    [1, 2, 3]
    """
    remaining = iter(items)
    first = [item for _, item in zip(range(2), remaining, strict=False)]
    if len(first) < 2:
        yield from map(work, first)
        return
    pool = ThreadPoolExecutor(THREADS_MAX)
    pending: deque[tuple[Future[R], int]] = deque()
    size = 0

    def take_oldest() -> R:
        nonlocal size
        future, freed = pending.popleft()
        size -= freed
        return future.result()

    try:
        for item in chain(first, remaining):
            added = size_of(item)
            while pending and (len(pending) == THREADS_MAX or size + added > size_max):
                yield take_oldest()
            pending.append((submit_task(pool, work, item), added))
            size += added
        while pending:
            yield take_oldest()
    finally:
        pool.shutdown(cancel_futures=True)
