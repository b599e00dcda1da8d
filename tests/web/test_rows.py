"""The pages of a table show its rows, its changed rows, its profile, its history and its files, in each layout."""

import html
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.support.table_properties import DATA_FILES_ONLY
from tests.web.conftest import HOSTILE_TEXT, visitor
from tests.web.test_pages import get, text_of
from tests.web.test_rollback import BEARER, HERE, WRITABLE, form_of

from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store
from mangrove.storage.counting import CountingStore
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects
from mangrove.wiring import build_engines_factory

TABLE = "/tables/shop.orders"


@pytest.fixture
def reader(shop: Lakehouse) -> Iterator[TestClient]:
    with visitor(shop) as client:
        yield client


def ids_of(client: TestClient, address: str) -> list[Any]:
    """Return the first column of a page of rows."""
    answer = client.get(f"/api{address}").json()
    return [row[0] for row in answer["page"]["rows"]]


def count_ids(lake: Lakehouse) -> Counter[Any]:
    """Return how often each id occurs in the table."""
    return Counter(lake.table("shop.orders").to_arrow(["id"]).column(0).to_pylist())


def test_pages_of_rows_contain_each_live_row_once(reader: TestClient) -> None:
    page = reader.get(f"{TABLE}/rows").text
    assert "Rows 1 to 50." in text_of(page)
    assert re.findall(r'<th class="number"[^>]*><a[^>]*>(\w+)</a>', page) == ["id", "amount"]
    listed = ids_of(reader, f"{TABLE}/rows")
    for _ in range(5):
        following = re.search(r'<a href="([^"]*)" rel="next">More rows</a>', page)
        if following is None:
            break
        address = following[1].replace("&amp;", "&")
        listed += ids_of(reader, address)
        page = reader.get(address).text
    assert sorted(listed) == [*range(100)]
    assert len(listed) == 100


def test_rows_are_filtered_by_a_predicate(reader: TestClient) -> None:
    assert sorted(ids_of(reader, f"{TABLE}/rows?where=id%20between%2020%20and%2022")) == [20, 21, 22]
    assert "There are no rows here." in get(reader, f"{TABLE}/rows?where=id%20%3D%20110")
    assert "there is no column 'nothing'" in get(reader, f"{TABLE}/rows?where=nothing%20%3D%201", 404)
    assert reader.get(f"{TABLE}/rows?where=id%20in%20(select%201)").status_code == 400


def test_rows_are_sorted_by_a_column_over_all_pages(reader: TestClient) -> None:
    assert ids_of(reader, f"{TABLE}/rows?sort=id") == [*range(50)]
    assert ids_of(reader, f"{TABLE}/rows?sort=id&order=desc&offset=50") == [*range(49, -1, -1)]
    assert ids_of(reader, f"{TABLE}/rows?sort=id&order=desc&where=id%20%3C%203") == [2, 1, 0]
    page = reader.get(f"{TABLE}/rows?sort=id").text
    link = '<a href="/tables/shop.orders/rows?sort=id&amp;order=desc">id ▲</a>'
    assert f'<th class="number" aria-sort="ascending" scope="col">{link}' in page
    assert 'href="/tables/shop.orders/rows?sort=customer"' in page
    assert "sort=place" not in page, "a struct has no order"
    assert 'sort=id&amp;offset=50" rel="next"' in page
    for wrong in ("sort=nothing", "sort=place", "sort=id&order=up", "sort=id&offset=20000"):
        assert reader.get(f"{TABLE}/rows?{wrong}").status_code == 400


def test_rows_are_counted_once_for_each_version() -> None:
    store = CountingStore(MemoryStore())
    lake = create_on_store(build_deterministic_effects(store), engines=build_engines_factory())
    lake.create_namespace("shop")
    table = lake.create_table("shop.plain", "id bigint", keys=["id"])
    table.append([{"id": number} for number in range(10)])
    table.delete("id = 3")
    with visitor(lake) as client:
        first = client.get("/api/tables/shop.plain").json()["live_rows"]
        before = store.requests.bytes_read
        assert client.get("/api/tables/shop.plain").json()["live_rows"] == first
        assert store.requests.bytes_read == before, "no data file is opened again"
        table.append([{"id": 20}])
        assert client.get("/api/tables/shop.plain").json()["live_rows"]["rows"] == first["rows"] + 1 == 10


def test_rows_of_an_earlier_version_are_displayed(shop: Lakehouse, reader: TestClient) -> None:
    first = next(entry.version for entry in shop.history() if entry.message == "load 0")
    assert ids_of(reader, f"{TABLE}/rows?version={first}") == [*range(10)]
    assert f'href="/tables/shop.orders/profile?version={first}"' in reader.get(f"{TABLE}/rows?version={first}").text


def test_nested_values_are_folded_and_nulls_are_marked(reader: TestClient) -> None:
    page = reader.get(f"{TABLE}/rows?where=id%20%3D%2013").text
    assert '<details class="nested"><summary>city</summary>' in page
    assert '<details class="nested"><summary>2 entries</summary>' in page
    assert 'class="null "' in page
    assert "bigint" in page


def test_files_before_the_offset_are_not_opened_if_no_row_of_them_is_deleted() -> None:
    store = MemoryStore()
    lake = create_on_store(build_deterministic_effects(store), engines=build_engines_factory())
    lake.create_namespace("shop")
    lake.create_table("shop.plain", "id bigint", properties=DATA_FILES_ONLY)
    lake.table("shop.plain").append([{"id": number} for number in range(60)])
    lake.table("shop.plain").append([{"id": number} for number in range(60, 70)])
    first, _ = lake.table("shop.plain").files()
    store.put(first.location, b"not a Parquet file")
    with visitor(lake) as client:
        assert ids_of(client, "/tables/shop.plain/rows?offset=60") == [*range(60, 70)]
        assert client.get("/tables/shop.plain/rows").status_code != 200


def test_a_hostile_value_is_escaped() -> None:
    lake = create_on_store(build_deterministic_effects(MemoryStore()), engines=build_engines_factory())
    lake.create_namespace("shop")
    lake.create_table("shop.notes", "note string, more struct<inner: string>")
    lake.table("shop.notes").append([{"note": HOSTILE_TEXT, "more": {"inner": HOSTILE_TEXT * 5}}])
    with visitor(lake) as client:
        for page in ("rows", "profile", "changes"):
            text = client.get(f"/tables/shop.notes/{page}").text
            assert "<script" not in text
            assert "<img" not in text
        assert HOSTILE_TEXT in text_of(client.get("/tables/shop.notes/rows").text)


def test_the_history_of_a_table_lists_its_versions_with_author_and_origin(shop: Lakehouse, reader: TestClient) -> None:
    shop.create_namespace("other")
    page = get(reader, f"{TABLE}/history")
    assert "load 110 job: loader nightly 10" in page
    assert "create namespace other" not in page
    answer = reader.get(f"/api{TABLE}/history").json()
    assert [line["version"]["message"] for line in answer["versions"]][:2] == [
        "delete from shop.orders",
        "upsert into shop.orders",
    ]


def test_the_rows_changed_by_a_version_are_displayed_before_and_after(shop: Lakehouse, reader: TestClient) -> None:
    versions = {entry.message: entry.version for entry in shop.history()}
    updated = reader.get(f"/api{TABLE}/changes?to={versions['upsert into shop.orders']}").json()
    assert updated["counts"] == [["update_before", 10], ["update_after", 10]]
    page = reader.get(f"{TABLE}/changes?to={versions['upsert into shop.orders']}").text
    assert page.count("different") == 20, "only the amount of each row differs"
    deleted = get(reader, f"{TABLE}/changes?to={versions['delete from shop.orders']}")
    assert "20 delete" in deleted
    created = get(reader, f"{TABLE}/changes?to={versions['create table shop.orders']}")
    assert "does not exist in version" in created


def test_a_profile_has_nulls_distinct_values_and_a_histogram_of_each_column(reader: TestClient) -> None:
    page = get(reader, f"{TABLE}/profile")
    assert "100 rows profiled." in page
    columns = {one["name"]: one for one in reader.get(f"/api{TABLE}/profile").json()["columns"]}
    assert (columns["customer"]["nulls"], columns["customer"]["distinct"]) == (10, 90)
    assert sum(columns["id"]["histogram"]["counts"]) == 100
    assert columns["place"]["distinct"] is None
    assert columns["id"]["frequent"] == []


def test_the_files_of_a_table_are_listed_and_a_compaction_is_recommended(reader: TestClient) -> None:
    page = get(reader, f"{TABLE}/files")
    assert "Rows 100 Data files" in page
    assert "many small files" in page
    assert "mangrove compact" in page
    assert "Files over time" in page
    assert 'method="post"' not in reader.get(f"{TABLE}/files").text


def test_the_button_compacts_the_table_and_changes_no_rows(shop: Lakehouse) -> None:
    with visitor(shop, WRITABLE) as writer:
        writer.get("/?token=right-token-1234")
        before = count_ids(shop)
        files = writer.get(f"/api{TABLE}/files").json()["files"]
        address, fields = form_of(writer, f"{TABLE}/files")
        assert writer.post(address, data={"proof": "wrong"}, headers=HERE).status_code == 403
        answer = writer.post(address, data=fields, headers=HERE)
        assert (answer.status_code, answer.headers["location"]) == (303, f"{TABLE}/files")
        after = writer.get(f"/api{TABLE}/files").json()
        assert after["files"] < files
        assert (after["live_rows"]["rows"], after["live_rows"]["is_exact"]) == (100, True)
        assert after["is_compaction_recommended"] is False
        assert count_ids(shop) == before
        answer = writer.post(f"/api{TABLE}/compact", headers=BEARER)
        assert answer.json()["files_read"] == 0


def test_a_read_only_server_compacts_nothing(shop: Lakehouse, reader: TestClient) -> None:
    version = shop.version
    assert reader.post(f"{TABLE}/compact", headers=HERE).status_code == 403
    assert shop.version == version


def test_an_external_table_rejects_row_pages_in_one_sentence(client: TestClient) -> None:
    assert "tables/sales.outside/rows" not in client.get("/tables/sales.outside").text
    for page in ("rows", "profile", "files"):
        assert client.get(f"/tables/sales.outside/{page}").status_code == 400


def test_every_link_of_the_pages_of_a_table_has_a_target(reader: TestClient) -> None:
    for name in ("", "/rows", "/profile", "/history", "/files", "/changes"):
        for link in sorted(set(re.findall(r'(?:href|action)="(/[^"#]*)', reader.get(f"{TABLE}{name}").text))):
            assert reader.get(link.replace("&amp;", "&")).status_code == 200, f"{link} on {name}"


def find_link(client: TestClient, address: str, pattern: str) -> str:
    """Return the address of the only link of a page that matches."""
    (found,) = {
        link for link in re.findall(r'href="([^"]*"[^<]*)<', client.get(address).text) if re.search(pattern, link)
    }
    return html.unescape(found.partition('"')[0])


def test_a_stream_that_is_not_served_has_the_pages_of_the_served_one(shop: Lakehouse, reader: TestClient) -> None:
    staged = shop.table("shop.orders").create_stream("reload")
    for number in (7, 8):
        staged.append([{"id": number, "customer": "staged"}])
    stream = find_link(reader, TABLE, "stream=reload")
    assert "shop.orders, table version 1, stream reload" in get(reader, stream)
    partition = find_link(reader, stream, "/partitions/")
    delta = find_link(reader, partition, "/deltas/1[?]")
    assert "Written by" in get(reader, delta)
    rows = find_link(reader, partition, ">Rows")
    assert sorted(ids_of(reader, rows)) == [7, 8]
    assert ids_of(reader, find_link(reader, delta, ">Rows")) == [7]
    assert ids_of(reader, f"{rows}&where=id+%3D+8") == [8]
    assert 'name="stream" value="reload"' in reader.get(rows).text
    for tab in ("profile", "history", "files", "changes"):
        assert "stream reload" in get(reader, rows.replace("/rows?", f"/{tab}?"))
    assert len(reader.get(f"/api{find_link(reader, partition, '>Files')}").json()["listed"]) == 2
    assert "staged" not in reader.get(f"{TABLE}/rows?where=id+%3D+7").text


def test_the_files_of_a_table_without_a_schema_are_listed_with_type_and_size(
    shop: Lakehouse, reader: TestClient
) -> None:
    shop.create_table("shop.raw", schemaless=True).add_files({"a.csv": b"id\n1\n", "b.png": b"xyz"})
    page = get(reader, find_link(reader, "/tables/shop.raw", ">Files"))
    assert "image/png" in page
    assert "Data files 2 Size 8 bytes" in page
    partition = find_link(reader, "/tables/shop.raw", "/partitions/")
    assert "image/png, which has no columns" in get(reader, find_link(reader, partition, ">Rows"))
    assert "text/csv" in get(reader, find_link(reader, partition, ">Files"))


def test_the_rows_and_profiles_of_a_table_without_a_schema_are_those_of_its_files(
    shop: Lakehouse, reader: TestClient
) -> None:
    table = shop.create_table("shop.raw", schemaless=True)
    assert "There are no rows here." in get(reader, "/tables/shop.raw/rows")
    table.add_files({"a.csv": b"id,who\n3,ana\n1,ben\n", "b.jsonl": b'{"id": 2}\n'})
    rows = find_link(reader, "/tables/shop.raw", ">Rows")
    assert ids_of(reader, rows) == [3, 1, 2]
    assert ids_of(reader, f"{rows}?sort=id&order=desc&offset=1") == [2, 1]
    assert ids_of(reader, find_link(reader, find_link(reader, "/tables/shop.raw", "/partitions/"), ">Rows")) == [
        3,
        1,
        2,
    ]
    assert "3 rows profiled" in get(reader, find_link(reader, "/tables/shop.raw", ">Profile"))
    assert reader.get(f"{rows}?where=id+%3D+1").status_code == 400
    table.add_files({"c.png": b"xyz", "d.csv": b"\xff"})
    for page in ("rows", "profile"):
        assert "image/png, which has no columns" in get(reader, f"/tables/shop.raw/{page}")


def test_pages_take_the_names_and_canonical_strings_of_every_part_of_a_table(
    shop: Lakehouse, reader: TestClient
) -> None:
    made = shop.table("shop.orders").create_version("id bigint", keys=["id"], properties={"owner": "ana"})
    made.append([{"id": 7}])
    stream = made.opened().stream.id
    for name in ("shop.orders.version_2", "shop%7Corders%7C2", f"shop%7Corders%7C2%7C{stream}%7Cdeltacat"):
        assert ids_of(reader, f"/tables/{name}/rows") == [7]
        assert "table version 2" in get(reader, f"/tables/{name}")
        for tab in ("profile", "history", "files"):
            assert reader.get(f"/tables/{name}/{tab}").status_code == 200
    assert "owner ana" in get(reader, "/tables/shop.orders.version_2")
    (partition,) = (locator.partition_id for locator, _ in made.partitions())
    assert partition in get(reader, "/tables/shop.orders.version_2")
    assert reader.get("/tables/shop.orders.version_2/rows?table_version=1").status_code == 400
    assert reader.get("/tables/shop%7Corders%7C9").status_code == 404
