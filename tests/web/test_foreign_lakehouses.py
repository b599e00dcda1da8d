"""Lakehouses that other programs wrote can be explored from end to end."""

from pathlib import Path

import pytest
from tests.web.conftest import crawl, visitor

import mangrove

FIXTURES = Path(__file__).parents[1] / "compat" / "fixtures"
PAGES_MAX = 60


@pytest.mark.parametrize("name", ["deltacat-2", "olympia-java", "trinitylake-java"])
def test_every_linked_page_can_be_displayed(name: str) -> None:
    with visitor(mangrove.open(FIXTURES / name)) as client:
        starts = ("/", "/tree", "/storage", "/history", "/namespaces")
        seen = crawl(client, *starts, versions=[str(number) for number in range(1_000)], pages_max=PAGES_MAX)
    assert any(address.startswith("/tables/") for address in seen)
