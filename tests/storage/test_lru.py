"""The LRU cache keeps to its bound and evicts what was not used for longest."""

from concurrent.futures import ThreadPoolExecutor

from mangrove.storage.lru import LruCache


def test_the_least_recently_used_value_is_evicted_beyond_the_bound() -> None:
    cache: LruCache[str] = LruCache(10)
    cache.put("a", "A", 4)
    cache.put("b", "B", 4)
    assert cache.get("a") == "A"
    cache.put("c", "C", 4)
    assert [cache.get(path) for path in "abc"] == ["A", None, "C"]


def test_a_value_larger_than_the_cache_is_not_cached_and_evicts_nothing() -> None:
    cache: LruCache[str] = LruCache(10)
    cache.put("a", "A", 10)
    cache.put("b", "B", 11)
    assert [cache.get(path) for path in "ab"] == ["A", None]


def test_a_replaced_value_counts_with_its_new_size_only() -> None:
    cache: LruCache[str] = LruCache(10)
    cache.put("a", "A", 9)
    cache.put("a", "A2", 2)
    cache.put("b", "B", 8)
    assert [cache.get(path) for path in "ab"] == ["A2", "B"]


def test_threads_share_a_cache() -> None:
    cache: LruCache[int] = LruCache(50)

    def use(number: int) -> bool:
        cache.put(str(number % 100), number % 100, 1)
        return cache.get(str(number % 100)) in (None, number % 100)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(use, range(5_000)))
    assert sum(cache.get(str(number)) is not None for number in range(100)) == 50
