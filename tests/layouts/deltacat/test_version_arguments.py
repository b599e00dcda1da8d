"""Each name that DeltaCAT has for a table version is one number here, and each number one name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import FormatError
from mangrove.layouts.deltacat.fields import format_table_version, parse_table_version
from mangrove.model.locators import LARGEST_INTEGER

WORDS = st.text("abcxyz019_", min_size=1, max_size=8)


@given(WORDS, st.integers(1, 2**20 - 1))
def test_a_named_table_version_round_trips_through_its_number(word: str, number: int) -> None:
    text = f"{word}.{number}"
    assert number < parse_table_version(text) <= LARGEST_INTEGER
    assert format_table_version(parse_table_version(text)) == text


@given(st.integers(1, LARGEST_INTEGER))
def test_every_table_version_number_round_trips_through_its_name(number: int) -> None:
    assert parse_table_version(format_table_version(number)) == number


@pytest.mark.parametrize("text", ["", "beta", "Beta.1", "toolongword.1", "beta.1048576", "-1", "beta.0", "1.2.3"])
def test_a_table_version_name_out_of_range_is_rejected(text: str) -> None:
    with pytest.raises(FormatError, match="table version"):
        parse_table_version(text)
