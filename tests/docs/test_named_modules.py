"""Pages about the code name only modules that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "docs" / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs" / "decisions").glob("*.md")),
]
PLACES = (ROOT, ROOT / "src", ROOT / "src" / "mangrove")
HISTORICAL: frozenset[str] = frozenset()
"""Paths of modules that no longer exist and that a page names on purpose."""

_MODULE = re.compile(r"`([\w/.-]+\.py)`")


def find_missing(page: str) -> list[str]:
    """Return the paths of modules that a page names and that do not exist."""
    named = set(_MODULE.findall(page)) - HISTORICAL
    return sorted(name for name in named if not any((place / name).is_file() for place in PLACES))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_module_that_a_page_names_exists(page: Path) -> None:
    assert find_missing(page.read_text("utf-8")) == []


def test_a_module_that_does_not_exist_is_reported() -> None:
    assert find_missing("`metastore.py`, `betree/edit.py`, `docs/map.py` and `tables/no_such.py`") == [
        "tables/no_such.py"
    ]


def test_no_historical_module_exists_or_is_unused() -> None:
    text = "".join(page.read_text("utf-8") for page in PAGES)
    assert all(f"`{name}`" in text for name in HISTORICAL)
    assert not any((place / name).exists() for name in HISTORICAL for place in PLACES)
