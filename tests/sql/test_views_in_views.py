"""Views that stand in views: circles and depths are told in words, never by a stack that ran over."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove import InvalidInputError, NotFoundError
from mangrove.sql.views import annotate_view_errors, enter_view

NAMES = st.sampled_from(["s.a", "s.b", "s.c", "s.d"])


@given(st.dictionaries(NAMES, NAMES, min_size=4, max_size=4), NAMES)
def test_every_view_cycle_is_detected_and_reported(reads: dict[str, str], name: str) -> None:
    def walk(above: tuple[str, ...], name: str) -> None:
        walk(enter_view(above, name), reads[name])

    with pytest.raises(InvalidInputError, match="reads itself") as refused:
        walk((), name)
    circle = str(refused.value).partition(": ")[2].partition("; ")[0].split(" reads ")
    assert circle[0] == circle[-1]
    assert all(reads[view] == following for view, following in pairwise(circle))


def test_too_deeply_nested_views_are_not_reported_as_a_cycle() -> None:
    above: tuple[str, ...] = ()
    for number in range(50):
        above = enter_view(above, f"s.v{number}")
    with pytest.raises(
        InvalidInputError, match=r"nested more than 50 levels deep: s\.v0 reads s\.v1 .*CREATE TABLE"
    ) as refused:
        enter_view(above, "s.last")
    assert "itself" not in str(refused.value)


def test_an_error_names_the_innermost_view_and_keeps_its_class_and_first_line() -> None:
    expected = r"^cannot read view s\.inner: no such table$"
    with pytest.raises(NotFoundError, match=expected), annotate_view_errors("s.outer"), annotate_view_errors("s.inner"):
        raise NotFoundError("no such table\nselect * from t\n              ^")
