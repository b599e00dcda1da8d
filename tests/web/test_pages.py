"""Every page of the explorer says what the lakehouse holds, for people and for programs."""

import html
import re
from datetime import date
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient
from tests.web.conftest import delta, filled, visitor

from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store
from mangrove.model.locators import TableLocator
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects
from mangrove.transaction.deltas import partition_id_of

ORDERS = TableLocator("sales", "orders")


def text_of(page: str) -> str:
    """Return what a reader sees, in one line."""
    body = page.partition("<body>")[2]
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body)))


def get(client: TestClient, address: str, status: int = 200) -> str:
    answer = client.get(address)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return text_of(answer.text)


def partition_address(lake: Lakehouse, day: int) -> str:
    opened = lake.table(ORDERS).opened()
    values = (date(2026, 11, day),)
    partition_id = partition_id_of(opened.stream.id, opened.stream.partition_scheme_id, values)
    return f"/tables/sales.orders/partitions/{partition_id}"


def pages(lake: Lakehouse) -> list[str]:
    """Return an address of each page."""
    partition = partition_address(lake, 1)
    return [
        "/", "/namespaces", "/namespaces/sales", "/tables/sales.orders", "/tables/sales.outside", partition,
        f"{partition}/deltas/1", "/views/sales.daily", "/history", "/history/3", "/history/0", "/tree", "/tree?node=0",
        "/storage", "/objects", "/objects?name=sales%7Corders%7C1",
    ]  # fmt: skip


def test_the_overview_counts_objects_and_lists_the_last_commits(client: TestClient) -> None:
    page = get(client, "/")
    assert "Shop" in page
    for told in (
        "8 version",
        "1 namespace",
        "2 tables",
        "1 view",
        "2 deltas",
        "10 rows",
        "1.0 kB data in files",
    ):
        assert told in page
    assert page.index("Version 8 alter table sales.orders") < page.index("Version 3 load 1")
    assert "by nightly" in page


def test_the_overview_shows_shared_transactions_and_exports() -> None:
    settings = LakehouseSettings(exported_snapshots={"year-end": "memory://elsewhere/#version=4"})
    lake = filled(create_on_store(build_deterministic_effects(MemoryStore()), settings=settings))
    lake.begin_shared("load-2026", ttl="6h")
    with visitor(lake) as client:
        page = get(client, "/")
        assert "load-2026 open 8 " in page
        assert "year-end 4 memory://elsewhere/#version=4" in page
        assert 'href="/?version=year-end"' in client.get("/").text


def test_namespaces_are_listed_and_narrowed_by_a_prefix(lake: Lakehouse, client: TestClient) -> None:
    lake.create_namespace("archive")
    page = get(client, "/namespaces")
    assert "archive" in page
    assert "What was sold" in page
    assert "archive" not in get(client, "/namespaces?prefix=sa")


def test_the_page_of_a_namespace_lists_its_tables_views_and_properties(client: TestClient) -> None:
    page = get(client, "/namespaces/sales")
    for told in ("orders managed MANGROVE One row for each order", "outside external PARQUET", "daily", "owner ana"):
        assert told in page


def test_the_page_of_a_table_lists_columns_with_ids_types_and_statistics(client: TestClient) -> None:
    page = get(client, "/tables/sales.orders")
    assert "key id 1 bigint not null 10 24" in page
    assert "customer 2 string 2 ana zoe who" in page
    assert "place.city 5 string" in page
    assert "Partitioned by day" in page
    assert "retention 5 years" in page
    assert "day=2026-11-01 1 1 5 500 bytes" in page
    assert "In all: 2 deltas, 2 files, 10 rows written, 1.0 kB" in page
    assert "Table version State Columns Schemas so far 1 active default 4 1" in page


def test_the_page_of_a_table_lists_its_versions_and_streams_and_shows_each_version(lake: Lakehouse) -> None:
    made = lake.table(ORDERS).create_version("id bigint, note string", keys=["id"], partition_by=[], sort_by=[])
    made.create_stream("reload", "parquet")
    with lake.transaction() as transaction:
        transaction.add_delta(ORDERS, (), delta("two", 1, 3), version=2)
    with visitor(lake) as client:
        page = get(client, "/tables/sales.orders")
        assert "1 active default 4 1 2 unreleased 2 1" in page
        assert "place.city" in page
        page = get(client, "/tables/sales.orders?table_version=2")
        assert "sales.orders, table version 2" in page
        assert "reload parquet staged" in page
        assert "note 2 string" in page
        assert "place.city" not in page
        (partition,) = re.findall(
            r'href="(/tables/sales.orders/partitions/[^"]*)"', client.get("/tables/sales.orders?table_version=2").text
        )
        assert partition.endswith("?table_version=2")
        assert "append" in get(client, partition)
        assert "append" in get(client, partition.replace("?", "/deltas/1?"))
        lake.table(ORDERS).version(1).set_state("deprecated")
        page = get(client, "/tables/sales.orders")
        assert "1 deprecated 4 1 2 unreleased 2 1" in page
        assert "no active table version; versions: 1 (deprecated), 2 (unreleased). Activate one as in" in page
        assert "The rows are not available." in page
        assert "has no schema" not in page


def test_the_page_of_a_table_version_is_found_by_its_canonical_string(lake: Lakehouse) -> None:
    made = lake.table(ORDERS).create_version("id bigint", keys=["id"], partition_by=[], sort_by=[])
    staged = made.create_stream("reload")
    with lake.transaction() as transaction:
        served = transaction.add_delta(ORDERS, (), delta("two", 1, 3), version=2)
        other = transaction.add_delta(ORDERS, (), delta("staged", 1, 3), version=2, stream_id="reload")
    with visitor(lake) as client:
        page = client.get("/tables/sales.orders?table_version=2").text
        assert 'href="/objects?name=sales%7Corders%7C2"' in page
        assert 'href="/tables/sales.orders?table_version=2"' in client.get("/objects?name=sales%7Corders%7C2").text
        for stream, locators in (
            (made.opened().stream_locator, (served.parent, served)),
            (staged.opened().stream_locator, (other.parent, other)),
        ):
            for locator in (stream, *locators):
                canonical = lake.resolve(locator).canonical
                found = client.get(f"/objects?{urlencode({'name': canonical})}").text
                (address,) = re.findall(r'<p><a href="([^"]*)">Open its page', found)
                address = html.unescape(address)
                assert f"table_version=2&stream={stream.stream_id}" in address
                assert canonical in get(client, address)


def test_the_page_of_an_external_table_displays_its_location(client: TestClient) -> None:
    page = get(client, "/tables/sales.outside")
    assert "external" in page
    assert "s3://other/folder/" in page
    assert "Partitions" not in page


def test_the_page_of_a_partition_lists_its_deltas_and_that_of_a_delta_its_files(
    lake: Lakehouse, client: TestClient
) -> None:
    address = partition_address(lake, 1)
    assert "1 append 1 5 500 bytes loader 2" in get(client, address)
    page = get(client, f"{address}/deltas/1")
    assert "data/load-1.parquet 5 rows, 500 bytes, data" in page
    assert "customer 2 5 1 ana zoe" in page


def test_an_object_is_found_by_its_alias_and_by_its_canonical_string(lake: Lakehouse, client: TestClient) -> None:
    lake.create_alias("sales.purchases", "sales.orders")
    lake.create_alias("store", "sales")
    assert "alias store" in get(client, f"/history/{lake.version}")
    assert "Aliases sales.purchases" in get(client, "/tables/store.purchases")
    assert "Aliases store" in get(client, "/namespaces/store")
    (locator, _) = next(iter(lake.table("sales.orders").deltas()))
    name = lake.resolve(locator).canonical
    page = get(client, f"/objects?{urlencode({'name': name})}")
    assert f"Kind delta Canonical string {name}" in page
    assert f"{partition_address(lake, 2)}/deltas/1" in client.get(f"/objects?{urlencode({'name': name})}").text
    assert client.get("/api/objects?name=store").json()["canonical"] == "sales"
    assert name in get(client, f"{partition_address(lake, 2)}/deltas/1")
    assert client.get("/objects?name=sales%7Cmissing%7C1").status_code == 404


def test_the_page_of_a_view_displays_its_query_and_links_to_its_tables(client: TestClient) -> None:
    assert "select day from sales.orders" in get(client, "/views/sales.daily")
    assert 'href="/tables/sales.orders"' in client.get("/views/sales.daily").text


def test_the_history_is_paged(lake: Lakehouse, client: TestClient) -> None:
    for number in range(60):
        lake.alter_namespace("sales", {"count": str(number)})
    first = client.get("/history").text
    following = re.search(r'href="(/history\?before=\d+)"', first)
    assert following is not None
    second = get(client, following[1])
    assert "Version 68" in text_of(first)
    assert "Version 19 " in text_of(first)
    assert "Version 18 " not in text_of(first)
    assert "Version 18 " in second
    assert "Version 0 create lakehouse" in second


def test_the_page_of_a_version_lists_its_changes(client: TestClient) -> None:
    page = get(client, "/history/8")
    assert "What changed from version 7 to version 8" in page
    assert "changed table sales.orders properties.retention 3 years → 5 years" in page
    assert "added delta sales.orders, 2026-11-01, position 1 delta append: 5 rows in 1 file, 500 bytes" in get(
        client, "/history/3"
    )


def test_a_rename_is_displayed_as_a_rename_and_not_as_a_drop(client: TestClient) -> None:
    page = get(client, "/history/7")
    assert "1 object: 1 renamed" in page
    assert "renamed table sales.elsewhere to sales.outside" in page
    assert "removed" not in page


def test_a_version_is_compared_with_any_other(client: TestClient) -> None:
    page = get(client, "/history/8?against=2")
    assert "What changed from version 2 to version 8" in page
    assert "added view sales.daily" in page
    assert "compared with itself" in get(client, "/history/8?against=8", 400)


def test_a_rollback_is_previewed_from_the_newest_version(client: TestClient) -> None:
    page = get(client, "/history/4?against=8")
    assert "What a rollback from version 8 to version 4 would do" in page
    assert "removed view sales.daily" in page


def test_the_oldest_version_has_nothing_before_it(client: TestClient) -> None:
    assert "the oldest version that is kept" in get(client, "/history/0")


def test_the_tree_page_lists_each_node_and_its_content(client: TestClient) -> None:
    page = client.get("/tree").text
    assert re.search(r"Root: \d of 3 keys, \d of 4 messages", page)
    assert "Node 0: " in page
    answer = client.get("/api/tree?node=0").json()
    assert len(answer["levels"][0]["nodes"]) == 1
    assert answer["node"]["way"] == "0"
    held = {row["key"] for row in [*answer["node"]["keys"], *answer["node"]["messages"]]}
    assert held
    assert held <= set(re.findall(r"<td>([^<]*)</td>", client.get("/tree?node=0").text))


def test_the_tree_page_reports_that_another_layout_has_no_tree() -> None:
    lake = create_on_store(build_deterministic_effects(MemoryStore()), layout="deltacat")
    with visitor(lake) as client:
        assert "has no tree to draw" in get(client, "/tree")


def test_files_are_grouped_by_kind_and_growth_is_plotted(lake: Lakehouse, client: TestClient) -> None:
    lake.effects.store.put("data/load-1.parquet", b"x" * 500)
    page = get(client, "/storage")
    assert "version roots 9" in page
    assert "data files 1 500 bytes" in page
    answer = client.get("/api/storage").json()
    assert [(point["version"], point["rows"]) for point in answer["growth"]] == [
        (0, 0), (1, 0), (2, 0), (3, 5), (4, 10), (5, 10), (6, 10), (7, 10), (8, 10),
    ]  # fmt: skip


@pytest.mark.parametrize("way", ["number", "time", "export"])
def test_every_page_supports_time_travel_by_version_time_or_export(way: str) -> None:
    settings = LakehouseSettings("Shop", exported_snapshots={"year-end": "memory://elsewhere/#version=4"})
    lake = filled(create_on_store(build_deterministic_effects(MemoryStore()), settings=settings))
    moment = f"{lake.at(4).created_at:%Y-%m-%dT%H:%M:%S.%fZ}"
    version = {"number": "4", "time": moment, "export": "year-end"}[way]
    with visitor(lake) as client:
        page = get(client, f"/tables/sales.orders?version={version}")
        assert "3 years" in page
        assert "Version 4 of 2025-01-15" in page
        assert "not the newest" in page
        assert "daily" not in get(client, f"/namespaces/sales?version={version}")
        assert client.get(f"/views/sales.daily?version={version}").status_code == 404
        assert client.get(f"/api/?version={version}").json()["seen"]["version"]["version"] == 4


def test_links_preserve_the_displayed_version(client: TestClient) -> None:
    page = client.get("/namespaces/sales?version=4").text
    assert 'href="/tables/sales.orders?version=4"' in page
    assert 'href="/storage?version=4"' in page


def test_each_page_has_a_json_twin_and_leads_to_it(lake: Lakehouse, client: TestClient) -> None:
    for address in pages(lake):
        page = client.get(address)
        assert page.status_code == 200, address
        assert f'href="/api{address}"' in page.text
        twin = client.get(f"/api{address}")
        assert twin.headers["content-type"] == "application/json"
        assert twin.json()["seen"]["version"]["version"] == 8


def test_every_link_of_every_page_has_a_target(lake: Lakehouse, client: TestClient) -> None:
    for address in pages(lake):
        for link in sorted(set(re.findall(r'(?:href|action)="(/[^"#]*)', client.get(address).text))):
            if link.partition("?")[0].endswith(("/rows", "/profile")):
                continue  # the data files of this lakehouse do not exist; test_rows.py has real ones
            assert client.get(link.replace("&amp;", "&")).status_code == 200, f"{link} on {address}"


def test_a_new_commit_is_visible_immediately(lake: Lakehouse, client: TestClient) -> None:
    get(client, "/")
    with lake.transaction(message="load 3") as transaction:
        transaction.add_delta("sales.orders", (date(2026, 11, 3),), delta("load-3", 30, 7))
    assert "17 rows" in get(client, "/")


def test_pages_of_the_deltacat_layout_are_displayed() -> None:
    lake = filled(create_on_store(build_deterministic_effects(MemoryStore()), layout="deltacat"))
    with visitor(lake) as client:
        for address in pages(lake):
            assert client.get(address.partition("?")[0]).status_code == 200, address
        assert "key id 1 bigint" in get(client, "/tables/sales.orders")
