"""Many ranges of keys as one, against looking at each of them."""

from hypothesis import given
from hypothesis import strategies as st

from mangrove.betree.search import merge_ranges

keys = st.text("abc", max_size=4)


@given(st.lists(st.tuples(keys, keys)), st.lists(keys))
def test_merged_ranges_contain_exactly_the_keys_of_the_ranges(
    ranges: list[tuple[str, str]], requested: list[str]
) -> None:
    spans = merge_ranges(ranges)
    for key in [*requested, *(bound for bounds in ranges for bound in bounds)]:
        assert spans.contains(key) == any(first <= key < end for first, end in ranges)
    assert list(spans.firsts) == sorted(set(spans.firsts))


class CountedKey(str):
    """A key that counts how often it is compared."""

    times = 0

    def __lt__(self, other: str) -> bool:
        CountedKey.times += 1
        return str.__lt__(self, other)


def test_a_membership_test_compares_few_ranges_per_key() -> None:
    spans = merge_ranges((f"{number:05d}a", f"{number:05d}b") for number in range(10_000))
    assert len(spans.firsts) == 10_000
    CountedKey.times = 0
    assert sum(spans.contains(CountedKey(f"{number:05d}a")) for number in range(10_000)) == 10_000
    assert CountedKey.times <= 10_000 * 20
