"""The page about SQL has every statement, procedure and function, and its examples are taken apart as it says."""

import re
from pathlib import Path
from typing import get_args

import pytest
from tests.docs.page_code import blocks_of

from mangrove.sql.execute.call import PROCEDURES, TABLE_PROCEDURES
from mangrove.sql.execute.table_functions import TABLE_FUNCTIONS
from mangrove.sql.parse.grammar import parse_statement
from mangrove.sql.parse.statements import Statement
from mangrove.sql.parse.tokens import split_script

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "sql.md").read_text("utf-8")
_KIND = re.compile(r"^-- (\w+)$", re.MULTILINE)


def examples() -> list[tuple[str, str]]:
    """Return each example with the kind of statement that the page says it is."""
    found = []
    for block in blocks_of(PAGE):
        _, *parts = _KIND.split(block.code)
        for kind, script in zip(parts[::2], parts[1::2], strict=True):
            found += [(kind, part.text.strip()) for part in split_script(script)]
    return found


def rows_below(heading: str) -> dict[str, str]:
    """Return the first two columns of the table below a heading."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `(\w+)` \| (.*?) ?\|", section, re.MULTILINE))


@pytest.mark.parametrize(("kind", "text"), examples())
def test_an_example_parses_as_the_documented_statement(kind: str, text: str) -> None:
    assert type(parse_statement(text)).__name__.removesuffix("Statement") == kind


def test_every_statement_has_an_example() -> None:
    assert {kind for kind, _ in examples()} == {one.__name__.removesuffix("Statement") for one in get_args(Statement)}


def test_every_procedure_is_documented_with_its_arguments() -> None:
    listed = {name: tuple(re.findall(r"`(\w+)`", arguments)) for name, arguments in rows_below("Procedures").items()}
    expected = {name: procedure.arguments for name, procedure in PROCEDURES.items()}
    expected |= {name: procedure.arguments for name, procedure in TABLE_PROCEDURES.items()}
    assert listed == expected


def test_every_function_is_documented() -> None:
    assert set(rows_below("Functions in the place of a table")) == set(TABLE_FUNCTIONS)
