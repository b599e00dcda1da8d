"""However much there is, a page shows a bounded part of it and says so."""

import re
from collections.abc import Callable
from datetime import date, timedelta

import pytest
from starlette.testclient import TestClient
from tests.web.conftest import delta, visitor

from mangrove.inspect.growth import count_objects
from mangrove.inspect.page import VersionComparer
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects

TABLES = 400
DAYS = 120


@pytest.fixture(scope="module")
def large() -> Lakehouse:
    """A lakehouse with many tables, a table of many partitions, and one of many deltas."""
    lake = create_on_store(build_deterministic_effects(MemoryStore()), settings=LakehouseSettings(order=4))
    lake.create_namespace("many")
    with lake.transaction() as transaction:
        for number in range(TABLES):
            transaction.create_table(f"many.t{number:03}", "id int")
    lake.create_table("many.days", "id int, day date", partition_by=["day"])
    with lake.transaction() as transaction:
        for number in range(DAYS):
            day = date(2026, 1, 1) + timedelta(days=number)
            transaction.add_delta("many.days", (day,), delta(f"day-{number}", number, 2))
        for number in range(DAYS):
            transaction.add_delta("many.t000", (), delta(f"load-{number}", number, 2))
    return lake


def followed(client: TestClient, address: str, word: str, pick: Callable[[str], list[str]]) -> list[str]:
    """Return what all pages list together, following the link with this word to the last."""
    found: list[str] = []
    for _ in range(20):
        page = client.get(address).text
        found += pick(page)
        following = re.search(rf'<a href="([^"]*)" rel="next">{word}</a>', page)
        if following is None:
            return found
        address = following[1].replace("&amp;", "&")
    raise AssertionError("there is always another page")


def test_tables_are_listed_page_by_page_each_once(large: Lakehouse) -> None:
    with visitor(large) as client:
        assert len(client.get("/api/namespaces/many").json()["tables"]) == 100
        listed = followed(
            client, "/namespaces/many", "More tables", lambda page: re.findall(r'"/tables/many\.(\w+)"', page)
        )
        assert listed == ["days", *(f"t{number:03}" for number in range(TABLES))]
        narrowed = client.get("/api/namespaces/many?prefix=t39").json()["tables"]
        assert [table["name"] for table in narrowed] == [f"t39{number}" for number in range(10)]


def test_partitions_are_listed_page_by_page_each_once(large: Lakehouse) -> None:
    with visitor(large) as client:
        assert len(client.get("/api/tables/many.days").json()["partitions"]) == 50
        assert "as far as shown" in client.get("/tables/many.days").text
        days = followed(client, "/tables/many.days", "More partitions", lambda page: re.findall(r"day=([\d-]+)", page))
        assert len(days) == len(set(days)) == DAYS


def test_deltas_are_listed_page_by_page_in_their_order(large: Lakehouse) -> None:
    with visitor(large) as client:
        (partition,) = client.get("/api/tables/many.t000").json()["partitions"]
        address = f"/tables/many.t000/partitions/{partition['id']}"
        positions = followed(client, address, "Later deltas", lambda page: re.findall(r"/deltas/(\d+)", page))
        assert positions == [str(number) for number in range(1, DAYS + 1)]


def test_the_tree_drawing_is_limited_and_reports_omitted_nodes(large: Lakehouse) -> None:
    with visitor(large) as client:
        facts = client.get("/api/tree").json()
        drawn = [node for level in facts["levels"] for node in level["nodes"]]
        assert 100 < len(drawn) <= 256
        left_out = sum(level["left_out"] for level in facts["levels"])
        assert left_out > 0
        page = client.get("/tree").text
        assert f"{left_out:,} more nodes and their descendants are not drawn" in page
        assert page.count('class="outline"') == len(drawn)
        for node in drawn[:: len(drawn) // 10]:
            assert client.get(f"/api/tree?node={node['way']}").json()["node"]["way"] == node["way"]


def test_a_diff_page_lists_the_first_changes_and_reports_that_more_exist(large: Lakehouse) -> None:
    with visitor(large) as client:
        answer = client.get("/api/history/2").json()
        assert answer["has_more"] is True
        assert len(answer["changes"]) == 300
        assert "There is more: the first 300 changes are shown" in client.get("/history/2").text


def test_counting_stops_at_its_limit_and_reports_it(large: Lakehouse) -> None:
    assert isinstance(large.metastore, VersionComparer)
    whole = count_objects(large.metastore, large.metastore.latest())
    assert (whole.tables, whole.deltas, whole.is_complete) == (TABLES + 1, 2 * DAYS, True)
    part = count_objects(large.metastore, large.metastore.latest(), counted_max=50)
    assert (part.tables, part.deltas, part.is_complete) == (50, 50, False)


def test_the_growth_chart_is_limited_to_recent_versions(large: Lakehouse) -> None:
    with visitor(large) as client:
        points = client.get("/api/storage").json()["growth"]
        assert [point["deltas"] for point in points][-2:] == [0, 2 * DAYS]
        assert len(points) == large.version + 1
        for number in range(70):
            large.alter_namespace("many", {"count": str(number)})
        points = client.get("/api/storage").json()["growth"]
        assert len(points) == 60
        assert {point["deltas"] for point in points} == {2 * DAYS}
        assert "Older versions are not counted" in client.get("/storage").text
