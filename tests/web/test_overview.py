"""The pages about the whole lakehouse: live rows, grouped commits, search, lineage and shared transactions."""

import re
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient
from tests.web.conftest import order, visitor
from tests.web.test_pages import get, text_of

import mangrove
from mangrove.inspect.page import VersionInfo
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.web.pages.overview import group_commits


@pytest.fixture
def reader(shop: Lakehouse) -> Iterator[TestClient]:
    with visitor(shop) as client:
        yield client


def test_the_overview_counts_live_rows_and_not_those_that_were_written(shop: Lakehouse, reader: TestClient) -> None:
    shop.create_table("shop.plain", "id bigint")
    shop.table("shop.plain").append([{"id": 1}, {"id": 2}])
    assert reader.get("/api/").json()["live_rows"]["rows"] == 102
    assert "102 rows" in get(reader, "/")
    assert "Rows 100 Keys" in get(reader, "/tables/shop.orders")


def test_rows_of_a_table_version_that_is_not_released_are_not_counted(shop: Lakehouse, reader: TestClient) -> None:
    made = shop.table("shop.orders").create_version("id bigint")
    made.append([{"id": 1}])
    live = reader.get("/api/").json()["live_rows"]
    assert (live["rows"], live["is_exact"]) == (100, True)


def test_the_overview_plots_growth_and_the_rows_that_were_written(reader: TestClient) -> None:
    page = get(reader, "/")
    assert "Rows written per" in page
    assert "Data in files" in page
    assert re.search(r"Most: .*: \d+ rows", page)


def test_the_overview_of_a_lakehouse_without_tables_shows_how_to_begin(reader: TestClient) -> None:
    with visitor(mangrove.create("memory://web-begin")) as client:
        assert "mangrove ingest memory://web-begin/ sales.orders orders.csv --create" in get(client, "/")
    assert "mangrove ingest" not in get(reader, "/")


def test_similar_commits_are_shown_as_one_group_with_its_versions(reader: TestClient) -> None:
    page = get(reader, "/")
    assert "12 similar commits: load 110 and earlier" in page
    assert "by nightly" in page


def test_commits_are_grouped_if_at_least_three_of_one_author_differ_in_numbers_only() -> None:
    commits = [
        VersionInfo(number, 0, message, author, None, ())
        for number, (message, author) in enumerate(
            [("load 9", "a"), ("load 10", "a"), ("load 11", "a"), ("load 12", "b"), ("load 13", "b"), ("drop", "b")]
        )
    ]
    assert [[one.version for one in group] for group in group_commits(commits)] == [[0, 1, 2], [3], [4], [5]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ORDERS", ["shop.orders table"]),
        ("cust", ["shop.orders, column customer column string"]),
        ("city", ["shop.orders, column place.city column string"]),
        ("cheap", ["shop.cheap view"]),
        ("shop", ["shop namespace", "shop.orders table", "shop.cheap view"]),
        ("nowhere", ["No namespace, table, view or column contains “nowhere”."]),
    ],
)
def test_a_search_finds_namespaces_tables_views_and_columns(reader: TestClient, text: str, expected: list[str]) -> None:
    page = get(reader, f"/search?text={text}")
    for hit in expected:
        assert hit in page
    assert f'placeholder="Search" value="{text}"' in reader.get(f"/search?text={text}").text


def test_a_search_keeps_to_the_version_of_the_page(shop: Lakehouse, reader: TestClient) -> None:
    version = shop.version
    shop.create_table("shop.later", "id int")
    assert "shop.later table" in get(reader, "/search?text=later")
    assert "shop.later" not in get(reader, f"/search?text=later&version={version}")


def test_the_lineage_lists_dependencies_of_views_and_views_of_tables(shop: Lakehouse, reader: TestClient) -> None:
    shop.create_view("shop.cheapest", "select min(id) from shop.cheap", reads=["shop.cheap", "other.shop.orders"])
    nodes = {node["name"]: node["level"] for node in reader.get("/api/lineage").json()["nodes"]}
    assert nodes == {"shop.orders": 0, "other.shop.orders": 0, "shop.cheap": 1, "shop.cheapest": 2}
    assert "Read by shop.cheap" in get(reader, "/tables/shop.orders")
    assert "Read by shop.cheapest" in get(reader, "/views/shop.cheap")
    page = reader.get("/lineage").text
    assert 'href="/views/shop.cheapest"' in page
    # The edge from the first column to the third passes the second one below its box.
    (passing,) = re.findall(r'<path d="([^"]*H[^"]*)" class="edge"', page)
    (top,) = re.findall(r'<rect x="302" y="(\d+)"', page)
    assert int(re.findall(r" (\d+)H", passing)[0]) > int(top) + 32


def test_a_shared_transaction_shows_its_changes_and_previews_its_merge(shop: Lakehouse, reader: TestClient) -> None:
    with shop.begin_shared("audit", author="ana", message="load and check") as shared:
        shared.table("shop.orders").overwrite([order(1)])
    assert 'href="/shared/audit"' in reader.get("/").text
    page = get(reader, "/shared/audit")
    assert "load and check" in page
    assert "A publication now would succeed." in page
    assert "changed table shop.orders 1" in page
    shop.table("shop.orders").overwrite([order(2)])
    page = get(reader, "/shared/audit")
    assert "A publication now would be refused" in page
    assert shop.table("shop.orders").scan().count() == 1
    assert reader.get("/shared/nobody").status_code == 404


def test_a_rollback_preview_groups_its_changes_by_table(shop: Lakehouse, reader: TestClient) -> None:
    page = text_of(reader.get(f"/history/1?against={shop.version}").text)
    assert "table shop.orders" in page
    assert "lakehouse 1 object: 1 removed" in page
