"""Cutting SQL text into tokens and scripts into statements."""

import pytest

from mangrove.errors import InvalidInputError
from mangrove.sql.parse.tokens import parse_name_chain, parse_text_literal, split_script, tokenize


def words(text: str) -> list[str]:
    return [token.text for token in tokenize(text)[:-1]]


def test_comments_are_skipped_and_string_literals_are_one_token() -> None:
    text = "select 'a;--b' /* one /* two */ */ , `x``y`.z -- the end\n from t"
    assert words(text) == ["select", "'a;--b'", ",", "`x``y`", ".", "z", "from", "t"]


def test_every_token_has_its_text_position() -> None:
    text = "select\n  r'a\\' || X'0f', 1.5e3, .5D /* c */ <=> :name"
    for token in tokenize(text):
        assert text[token.start : token.end] == token.text


@pytest.mark.parametrize("text", ["select 'a", "select `a", "select /* a", 'select "a'])
def test_an_unterminated_token_is_rejected_with_its_position(text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"line 1, column 8: unterminated .*"):
        tokenize(text)


def test_a_dotted_name_has_its_parts_without_backticks() -> None:
    parts, place = parse_name_chain(tokenize("`a.b`.`c``d` x"), 0)
    assert (parts, place) == (("a.b", "c`d"), 3)


def test_string_literals_are_decoded_as_in_spark() -> None:
    assert [parse_text_literal(token) for token in tokenize(r"'a\'b' r'a\b'")[:-1]] == ["a'b", r"a\b"]


@pytest.mark.parametrize(
    ("script", "statements"),
    [
        ("begin; select 1; commit", ["begin", "select 1", "commit"]),
        ("select ';' -- ;\n;; select `;`;", ["select ';'", "select `;`"]),
        ("begin transaction isolation level snapshot; x", ["begin transaction isolation level snapshot", "x"]),
        ("begin select 1; select case when a then b end; end; select 2",
         ["begin select 1; select case when a then b end; end", "select 2"]),
        ("begin if a then select 1; end if; begin select 2; end; case x when 1 then select 3; end case; end; y",
         ["begin if a then select 1; end if; begin select 2; end; case x when 1 then select 3; end case; end", "y"]),
        (" /* nothing */ ; ", []),
    ],
)  # fmt: skip
def test_a_script_is_cut_at_semicolons_outside_of_texts_comments_and_blocks(script: str, statements: list[str]) -> None:
    parts = split_script(script)
    assert [part.text for part in parts] == statements
    assert all(script[part.start :].startswith(part.text) for part in parts)
