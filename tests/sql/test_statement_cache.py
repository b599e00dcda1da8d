"""What statements leave to the next is bounded, and forgotten in the order of use."""

from mangrove.sql.statement_cache import BoundedCache


def test_the_least_recently_used_entry_is_evicted() -> None:
    made: list[str] = []
    kept: BoundedCache[str] = BoundedCache(2)

    def use(key: str) -> str:
        def make() -> str:
            made.append(key)
            return key.upper()

        return kept.get_or_create(key, make)

    assert [use(key) for key in ("a", "b", "a", "c", "a", "b")] == ["A", "B", "A", "C", "A", "B"]
    assert made == ["a", "b", "c", "b"]


def test_without_a_key_nothing_is_cached() -> None:
    kept: BoundedCache[int] = BoundedCache(2)
    assert [kept.get_or_create(None, lambda: 1), kept.get_or_create(None, lambda: 2)] == [1, 2]
