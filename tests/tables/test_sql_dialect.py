"""What the parser of expressions takes from sqlglot, and where it keeps to Spark instead."""

import subprocess
import sys

import pytest

from mangrove.errors import InvalidInputError
from mangrove.expressions.expr import BinaryOp, Cast, ColumnPath, InList, Literal, NullTest, ScalarFunction, UnaryOp
from mangrove.expressions.parse import parse_expression, parse_predicate
from mangrove.expressions.predicates import AnyOf
from mangrove.expressions.schema_text import parse_schema, parse_type
from mangrove.model.schema_text import quote_text
from mangrove.model.types import Int64

SCHEMA = parse_schema("id bigint, ok boolean")
A, B, C = ColumnPath(("a",)), ColumnPath(("b",)), ColumnPath(("c",))


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("a || b + c", BinaryOp("+", BinaryOp("||", A, B), C)),
        ("a = b in (c)", InList(BinaryOp("=", A, B), (C,))),
        ("a = b < c", BinaryOp("<", BinaryOp("=", A, B), C)),
        ("a = b is not null", NullTest(BinaryOp("=", A, B), negated=True)),
        ("not a = b", UnaryOp("not", BinaryOp("=", A, B))),
    ],
)
def test_operator_precedence_is_that_of_spark(text: str, meaning: object) -> None:
    assert parse_expression(text) == meaning


@pytest.mark.parametrize(
    "word", ["order", "values", "left", "date", "current_date", "select", "`a b`", "map", "interval"]
)
def test_keywords_and_type_names_can_be_column_names(word: str) -> None:
    assert parse_expression(f"{word} > 3") == BinaryOp(">", ColumnPath((word.strip("`"),)), Literal(3))


def test_a_path_may_have_any_number_of_names() -> None:
    assert parse_expression("a.b.c.d.e.f") == ColumnPath(tuple("abcdef"))


def test_a_call_keeps_the_name_that_is_written_and_a_suffix_of_a_number_is_a_cast() -> None:
    assert parse_expression("IF(a, b, c)") == ScalarFunction("if", (A, B, C))
    assert parse_expression("1L") == Cast(Literal(1), Int64())


@pytest.mark.parametrize(
    "text",
    [
        "a not null",
        "a = not b",
        "- not a",
        "a between 1 2",
        "case when a 1 end",
        "cast(a as int",
        "a in (1,)",
        "a in [1]",
        "upper(a, , b)",
        "upper(a b)",
        "a; b",
        "a b",
        "a is true",
        "int '5'",
        "cast(a as int not null)",
        "a[0]",
        "(a, b)",
        "try_cast(a as int)",
        "?",
        ":a",
        "{{a}}",
        "a & b",
        "'x' 'y'",
        "a like b",
    ],
)
def test_invalid_text_that_sqlglot_accepts_is_rejected(text: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_expression(text)


@pytest.mark.parametrize("text", ["int array", "int[]", "timestamp without time zone", "dec()", "array<int,>", "`int`"])
def test_text_that_sqlglot_parses_as_a_type_is_rejected(text: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_type(text)


@pytest.mark.parametrize("text", ["it's", 'a"b', "\\", "\0" + "12", "line\nend", "%_\\%", "\u00e9"])
def test_a_quoted_text_parses_back(text: str) -> None:
    assert parse_expression(quote_text(text)) == Literal(text)


def test_a_long_chain_of_predicates_is_not_deeply_nested() -> None:
    predicate = parse_predicate(" or ".join(f"id = {number}" for number in range(2000)), SCHEMA)
    assert isinstance(predicate, AnyOf)
    assert len(predicate.parts) == 2000


def test_neither_metadata_commands_nor_scans_import_the_parser() -> None:
    program = (
        "import sys, mangrove, mangrove.cli.catalog, mangrove.cli.history, mangrove.local.scan;"
        "sys.exit('sqlglot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
