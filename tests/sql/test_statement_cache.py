"""What statements leave to the next is bounded, and forgotten in the order of use."""

from mangrove.sql.statement_cache import BoundedCache


def test_what_was_used_last_is_made_once_and_the_oldest_is_forgotten() -> None:
    made: list[str] = []
    kept: BoundedCache[str] = BoundedCache(2)

    def use(key: str) -> str:
        def make() -> str:
            made.append(key)
            return key.upper()

        return kept.get_or_create(key, make)

    assert [use(key) for key in ("a", "b", "a", "c", "a", "b")] == ["A", "B", "A", "C", "A", "B"]
    assert made == ["a", "b", "c", "b"]


def test_without_a_key_nothing_is_kept() -> None:
    kept: BoundedCache[int] = BoundedCache(2)
    assert [kept.get_or_create(None, lambda: 1), kept.get_or_create(None, lambda: 2)] == [1, 2]
