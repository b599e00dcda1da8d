"""Each guarantee names tests that are there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guarantees.md"
_TEST_REFERENCE = re.compile(r"^    \* `([^`]+)`: (.+)$", re.MULTILINE)
SHOWN = _TEST_REFERENCE.findall(PAGE.read_text("utf-8"))


@pytest.mark.parametrize(("file", "words"), SHOWN)
def test_the_tests_of_each_guarantee_exist(file: str, words: str) -> None:
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    wanted = {f"test_{'_'.join(one.split())}" for one in words.split("; ")}
    assert wanted <= names, f"{PAGE.name} names {sorted(wanted - names)}, which {file} does not have"


def test_no_guarantee_is_without_a_test() -> None:
    promised = PAGE.read_text("utf-8").partition("## Guarantees\n")[2].partition("\n## ")[0]
    lines = [line for line in promised.splitlines() if line.lstrip().startswith("*")]
    alone = [
        line
        for line, following in zip(lines, [*lines[1:], "* "], strict=True)
        if not _has_test_reference(line, following)
    ]
    assert lines
    assert not alone


def _has_test_reference(line: str, following: str) -> bool:
    return line.startswith("    *") or following.startswith("    *")
