"""Each name that DeltaCAT has for a table version is one number here, and each number one name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import FormatError
from mangrove.layouts.deltacat.fields import format_table_version, parse_table_version
from mangrove.model.locators import LARGEST_INTEGER

WORDS = st.text("abcxyz019_", min_size=1, max_size=8)


@given(WORDS, st.integers(1, 2**20 - 1))
def test_a_word_and_a_number_come_back_from_the_number(word: str, number: int) -> None:
    text = f"{word}.{number}"
    assert number < parse_table_version(text) <= LARGEST_INTEGER
    assert format_table_version(parse_table_version(text)) == text


@given(st.integers(1, LARGEST_INTEGER))
def test_every_number_has_a_name_of_its_own(number: int) -> None:
    assert parse_table_version(format_table_version(number)) == number


@pytest.mark.parametrize("text", ["", "beta", "Beta.1", "toolongword.1", "beta.1048576", "-1", "beta.0", "1.2.3"])
def test_what_has_no_room_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match="table version"):
        parse_table_version(text)
