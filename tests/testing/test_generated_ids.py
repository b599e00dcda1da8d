from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.testing.metastore_contract import make_id


def test_ids_are_new_each_time() -> None:
    assert len({make_id() for _ in range(100)}) == 100


def test_a_repeated_example_generates_the_same_ids() -> None:
    """Ids are part of paths, and a faulty store decides by paths: otherwise a property would be flaky."""
    found: set[tuple[str, str]] = set()

    @settings(max_examples=3, database=None)
    @given(st.integers())
    def generate_ids(_: int) -> None:
        found.add((make_id(), make_id()))

    generate_ids()
    assert len(found) == 1
