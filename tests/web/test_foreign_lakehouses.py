"""Lakehouses that other programs wrote can be explored from end to end."""

import html
import re
from pathlib import Path

import pytest
from tests.web.conftest import visitor

import mangrove

FIXTURES = Path(__file__).parents[1] / "compat" / "fixtures"
PAGES_MAX = 60


@pytest.mark.parametrize("name", ["deltacat-2", "olympia-java", "trinitylake-java"])
def test_every_linked_page_can_be_displayed(name: str) -> None:
    waiting = ["/", "/tree", "/storage", "/history", "/namespaces"]
    seen: set[str] = set()
    with visitor(mangrove.open(FIXTURES / name)) as client:
        while waiting and len(seen) < PAGES_MAX:
            address = waiting.pop(0)
            if address in seen:
                continue
            seen.add(address)
            answer = client.get(address)
            assert answer.status_code == 200, f"{address}: {answer.text}"
            waiting += map(html.unescape, re.findall(r'href="(/[^"#]*)', answer.text))
    assert any(address.startswith("/tables/") for address in seen)
