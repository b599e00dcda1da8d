"""PyIceberg loads tables from a served lakehouse and reads the rows that the lakehouse itself reads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchTableError, RESTError
from starlette.testclient import TestClient
from tests.rest.conftest import counted, filled, request_info, served

from mangrove.effects import build_effects
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import open_on_store
from mangrove.storage.opening import open_store
from mangrove.testing.faulty_store import Faults, FaultyStore

Opening = Callable[..., RestCatalog]


def rows_of(table: Any, **scan: Any) -> list[dict[str, Any]]:
    found = table.scan(**scan).to_arrow() if hasattr(table, "metadata_location") else table.to_arrow(**scan)
    assert isinstance(found, pa.Table)
    return sorted(found.to_pylist(), key=repr)


def test_a_table_is_read_through_the_catalog(lake: Lakehouse, catalog: RestCatalog) -> None:
    table = catalog.load_table("sales.orders")
    assert rows_of(table) == rows_of(lake.table("sales.orders"))
    assert [field.name for field in table.schema().fields] == ["id", "customer"]
    assert table.schema().identifier_field_names() == {"id"}


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
def test_updated_and_deleted_rows_are_read_in_their_current_state(
    tmp_path: Path, catalog_of: Opening, layout: str
) -> None:
    lake = filled(tmp_path / "lake", layout)
    orders = lake.table("sales.orders")
    orders.upsert([{"id": 2, "customer": "bea"}, {"id": 4, "customer": None}])
    orders.delete("id = 1")
    with served(counted(lake)) as address:
        table = catalog_of(address).load_table("sales.orders")
        assert rows_of(table) == rows_of(orders)
        assert rows_of(table, row_filter="id > 2") == rows_of(orders, where="id > 2")
        assert rows_of(table, row_filter="customer is null", selected_fields=("id",)) == [{"id": 4}]


def test_an_empty_table_is_loaded_without_a_snapshot(lake: Lakehouse, catalog: RestCatalog) -> None:
    lake.create_table("sales.nothing_yet", "id int, place struct<city: string>")
    table = catalog.load_table("sales.nothing_yet")
    assert table.current_snapshot() is None
    assert rows_of(table) == []


def test_each_version_is_a_warehouse_with_its_own_rows(lake: Lakehouse, address: str, catalog_of: Opening) -> None:
    orders = lake.table("sales.orders")
    before = lake.version
    was = rows_of(orders)
    orders.update_schema().add_column("note", "string").commit()
    orders.overwrite([{"id": 9, "customer": "di", "note": "new"}])
    past = catalog_of(address, warehouse=str(before)).load_table("sales.orders")
    assert rows_of(past) == was == rows_of(lake.at(before).table("sales.orders"))
    assert rows_of(catalog_of(address).load_table("sales.orders")) == rows_of(orders)


def test_a_client_that_reloads_a_table_reads_later_commits(lake: Lakehouse, catalog: RestCatalog) -> None:
    table = catalog.load_table("sales.orders")
    lake.table("sales.orders").append([{"id": 10, "customer": "ed"}])
    assert len(rows_of(table)) == 3
    assert len(rows_of(table.refresh())) == 4


@pytest.mark.parametrize(
    "name", ["sales.outside", "sales.daily", "sales.nobody", "nowhere.orders", "sales.orders.files"]
)
def test_views_external_tables_and_missing_tables_are_not_loaded(catalog: RestCatalog, name: str) -> None:
    with pytest.raises(NoSuchTableError):
        catalog.load_table(name)


@pytest.mark.parametrize(
    "name", ["ünï-çødé-🙂", "a.b.c", "100%", "%2e%2e", "a+b&c=d;e", "%1F", "(x)", "it's", "version-1"]
)
def test_tables_of_any_name_are_loaded_by_it(tmp_path: Path, catalog_of: Opening, name: str) -> None:
    lake = filled(tmp_path / "my lake")
    lake.create_namespace(f"`{name}`")
    table = lake.create_table(f"`{name}`.`{name}`", "`a b` int, `c.d` string")
    table.append([{"a b": 1, "c.d": "x"}])
    with served(counted(lake)) as address:
        catalog = catalog_of(address)
        assert catalog.list_tables((name,)) == [(name, name)]
        assert rows_of(catalog.load_table((name, name))) == [{"a b": 1, "c.d": "x"}]


def test_loading_a_published_state_writes_nothing(lake: Lakehouse, client: TestClient) -> None:
    first = client.get("v1/namespaces/sales/tables/orders")
    files = stored(lake)
    assert client.get("v1/namespaces/sales/tables/orders").json() == first.json()
    assert stored(lake) == files


def test_a_client_may_ask_for_the_referenced_snapshots_only(client: TestClient) -> None:
    every = client.get("v1/namespaces/sales/tables/orders")
    referenced = client.get("v1/namespaces/sales/tables/orders?snapshots=refs")
    snapshots = every.json()["metadata"]["snapshots"]
    assert len(snapshots) == 2
    assert referenced.json()["metadata"]["snapshots"] == snapshots[-1:]
    assert referenced.headers["etag"] != every.headers["etag"]


def stored(lake: Lakehouse) -> list[Path]:
    return sorted(Path(lake.uri.removeprefix("file://")).rglob("data/**/metadata/*"))


def test_an_unchanged_table_is_answered_with_not_modified(lake: Lakehouse, client: TestClient) -> None:
    first = client.get("v1/namespaces/sales/tables/orders")
    again = {"If-None-Match": first.headers["etag"]}
    known = client.get("v1/namespaces/sales/tables/orders", headers=again)
    assert (known.status_code, known.content, known.headers["etag"]) == (304, b"", first.headers["etag"])
    lake.table("sales.orders").append([{"id": 4, "customer": "ed"}])
    changed = client.get("v1/namespaces/sales/tables/orders", headers=again)
    assert changed.status_code == 200
    assert changed.headers["etag"] != first.headers["etag"]


def test_the_configuration_of_a_table_contains_no_credentials(client: TestClient) -> None:
    assert client.get("v1/namespaces/sales/tables/orders").json()["config"] == {}


def test_a_table_that_iceberg_cannot_have_is_refused_with_the_reason(lake: Lakehouse, client: TestClient) -> None:
    lake.create_table("sales.dotted", "`a.b` int, a struct<b: int>")
    answer = client.get("v1/namespaces/sales/tables/dotted")
    assert answer.status_code == 406
    assert answer.json()["error"]["type"] == "UnsupportedOperationException"
    assert "two columns have the dotted path 'a.b'" in answer.json()["error"]["message"]
    assert client.get("v1/namespaces/sales/tables/orders?snapshots=some").status_code == 400


def test_pyiceberg_reports_why_a_table_is_not_published(lake: Lakehouse, catalog: RestCatalog) -> None:
    lake.create_table("sales.dotted", "`a.b` int, a struct<b: int>")
    with pytest.raises(RESTError, match="UnsupportedOperationException"):
        catalog.load_table("sales.dotted")


def test_a_namespace_of_two_levels_is_not_found(client: TestClient) -> None:
    answer = client.get("v1/namespaces/sales%1Forders/tables/orders")
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "NoSuchTableException")
    assert "one level" in answer.json()["error"]["message"]


def test_a_damaged_file_of_metadata_is_an_error_of_the_server(lake: Lakehouse) -> None:
    with request_info(counted(lake)) as client:
        client.get("v1/namespaces/sales/tables/orders")
        (metadata,) = [path for path in stored(lake) if path.name.endswith(".metadata.json")]
        metadata.write_text("{}")
    with request_info(counted(lake)) as client:
        answer = client.get("v1/namespaces/sales/tables/orders")
        assert answer.status_code == 500
        assert "delete it" in answer.json()["error"]["message"]


def test_a_failed_write_is_reported_and_the_next_request_succeeds(lake: Lakehouse) -> None:
    faulty = FaultyStore(open_store(lake.uri), Faults(0))
    with request_info(open_on_store(build_effects(faulty))) as client:
        faulty.fail_next("put", "before")
        answer = client.get("v1/namespaces/sales/tables/orders")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, 503)
        assert answer.json()["error"]["message"]
        assert [path for path in stored(lake) if path.name.endswith(".metadata.json")] == []
        assert client.get("v1/namespaces/sales/tables/orders").status_code == 200


def test_pages_of_namespaces_belong_to_one_version(lake: Lakehouse, address: str, catalog_of: Opening) -> None:
    with lake.transaction() as transaction:
        for number in range(25):
            transaction.create_namespace(f"n{number:02}")
    wanted = [("a.b",), *((f"n{number:02}",) for number in range(25)), ("sales",)]
    for size in ("1", "7", "27", "1000"):
        assert catalog_of(address, **{"rest-page-size": size}).list_namespaces() == wanted


def test_later_pages_of_a_listing_use_the_version_of_the_first(lake: Lakehouse, client: TestClient) -> None:
    first = client.get("v1/namespaces?pageSize=1").json()
    lake.drop_view("sales.daily")
    lake.drop_table("sales.orders")
    lake.drop_table("sales.outside")
    lake.drop_namespace("sales")
    second = client.get(f"v1/namespaces?pageSize=1&pageToken={first['next-page-token']}").json()
    assert (first["namespaces"], second["namespaces"]) == ([["a.b"]], [["sales"]])
    assert client.get("v1/namespaces").json()["namespaces"] == [["a.b"]]
