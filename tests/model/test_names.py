"""What a name may be, and how dotted names are taken apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import InvalidInputError
from mangrove.model.names import check_id, check_name, join_name, quote_name, split_name, split_path

NAMES = st.text(
    st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters=" /|\x7f"), min_size=1, max_size=12
)


@pytest.mark.parametrize("character", ["\x00", "\t", "\n", " ", "\x7f", "/", "|", "\ud800"])
def test_a_name_with_a_forbidden_character_is_refused(character: str) -> None:
    with pytest.raises(InvalidInputError, match="at position 1"):
        check_name(f"a{character}b")


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="empty"):
        check_name("")


def test_the_maximum_size_of_a_name_counts_bytes_of_utf8_and_not_characters() -> None:
    check_name("é" * 4, size_bytes_max=8)
    with pytest.raises(InvalidInputError, match="has 9 UTF-8 bytes"):
        check_name("é" * 4 + "a", size_bytes_max=8)


@given(NAMES)
def test_a_name_of_other_characters_is_accepted(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("identifier", ["", ".", "..", "a b", "a/b", "a|b"])
def test_an_id_that_could_not_name_a_folder_is_refused(identifier: str) -> None:
    with pytest.raises(InvalidInputError):
        check_id(identifier, "table id")


@given(st.lists(NAMES, min_size=1, max_size=4))
def test_a_joined_name_is_split_into_the_same_parts(parts: list[str]) -> None:
    assert split_name(join_name(*parts)) == tuple(parts)


def test_a_part_between_backticks_may_hold_dots_and_doubled_backticks() -> None:
    assert split_name("a.`b.c``d`") == ("a", "b.c`d")


def test_plain_names_are_not_quoted() -> None:
    names = ("a_1", "1a", "a-b", "ünï", "Order", "orders")
    assert [quote_name(name) for name in names] == ["a_1", "`1a`", "`a-b`", "`ünï`", "`Order`", "orders"]


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "a`b`", "`a`b", "`a", "a b.c"])
def test_an_invalid_dotted_name_is_rejected(text: str) -> None:
    with pytest.raises(InvalidInputError):
        split_name(text)


@pytest.mark.parametrize("text", [None, 5, b"sales"])
def test_a_name_that_is_not_text_is_rejected(text: object) -> None:
    with pytest.raises(InvalidInputError, match="is not a name"):
        split_name(text)  # type: ignore[arg-type]


def test_a_column_path_may_contain_spaces() -> None:
    assert split_path("sel ect") == ("sel ect",)
    assert split_path("address.`x.y z`") == ("address", "x.y z")


@pytest.mark.parametrize("text", ["", "a.", "``", "a.``"])
def test_a_column_path_without_a_column_is_rejected(text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"struct\.column"):
        split_path(text)
