"""Scans that the server plans: they find the rows that scans planned by the client find."""

import datetime
import decimal
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import DataScan
from starlette.testclient import TestClient
from tests.rest.conftest import counted, request_info, served

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.storage.counting import CountingStore

Opening = Callable[..., RestCatalog]

PLAN = "v1/namespaces/sales/tables/orders/plan"
TASKS = "v1/namespaces/sales/tables/orders/tasks"
DAY = datetime.date(2026, 1, 1)


def filled_by_day(folder: Path, layout: str) -> Lakehouse:
    """Return a lakehouse with a table of ten files by day, with a deleted row and a column that is newer than most."""
    lake = mangrove.create(folder, layout=layout)
    lake.create_namespace("sales")
    orders = lake.create_table(
        "sales.orders",
        "id bigint not null, day date, price decimal(9,2), name string, weight double",
        partition_by=["day"],
        properties={"write.inline-rows-max-bytes": "0", "write.delete-mode": "position"},
    )
    days = [
        {
            "id": 10 * number + row,
            "day": DAY + datetime.timedelta(days=number),
            "price": decimal.Decimal(number),
            "name": None if number == 3 else f"name {number}",
            "weight": float("nan") if number == 5 else number / 2,
        }
        for number in range(8)
        for row in range(3)
    ]
    orders.append(days[:12])
    orders.append(days[12:])
    orders.delete("id = 41")
    orders.update_schema().add_column("note", "string").commit()
    orders.append([{"id": 1_000, "day": DAY, "note": "late"}, {"id": 1_001, "day": None, "note": "later"}])
    return lake


@pytest.fixture(scope="module", params=["tree", "deltacat"])
def shared_lake(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Lakehouse:
    """Return a lakehouse for tests that change nothing."""
    return filled_by_day(tmp_path_factory.mktemp("shared") / "lake", request.param)


@pytest.fixture
def lake(tmp_path: Path) -> Lakehouse:
    return filled_by_day(tmp_path / "lake", "tree")


@pytest.fixture(scope="module")
def client(shared_lake: Lakehouse) -> Iterator[TestClient]:
    with request_info(counted(shared_lake)) as found:
        yield found


def plan(client: TestClient, **fields: Any) -> dict[str, Any]:
    response = client.post(PLAN, json={name.replace("_", "-"): value for name, value in fields.items()})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    assert found["status"] == "completed"
    return found


def paths_of(found: dict[str, Any]) -> list[str]:
    return [one["data-file"]["file-path"] for one in found["file-scan-tasks"]]


def compare(term: str, name: str, value: object) -> dict[str, object]:
    return {"type": name, "term": term, "value": value}


ROW_FILTERS = (
    "id > 40",
    "id = 41",
    "id in (1, 72)",
    "not id < 70",
    "day = '2026-01-03'",
    "day in ('2026-01-03', '2026-01-04') or id = 1001",
    "day is not null and price >= 5.00",
    "price != 3.00",
    "name is null",
    "name like 'name 4%'",
    "name not like 'name 4%'",
    "not (name = 'name 2' or id > 20)",
    "weight is nan",
    "weight > 3.0",
    "note = 'late'",
    "note is null",
    "id > 5000",
)


def test_a_scan_planned_by_the_server_finds_the_rows_of_one_planned_by_the_client(
    shared_lake: Lakehouse, catalog_of: Opening
) -> None:
    with served(counted(shared_lake)) as address:
        by_client, by_server = (
            catalog_of(address, **{"scan-planning-mode": mode}).load_table("sales.orders")
            for mode in ("client", "server")
        )
        for row_filter in ROW_FILTERS:
            expected, found = by_client.scan(row_filter=row_filter), by_server.scan(row_filter=row_filter)
            assert rows_of(found) == rows_of(expected), row_filter


def rows_of(scan: DataScan) -> list[str]:
    return sorted(map(repr, scan.to_arrow().to_pylist()))


def test_a_scan_without_a_filter_has_every_file_and_its_deletes(client: TestClient) -> None:
    found = plan(client)
    assert len(paths_of(found)) == 10
    (deleted,) = [one for one in found["file-scan-tasks"] if "delete-file-references" in one]
    assert deleted["data-file"]["partition"] == ["2026-01-05"]
    (file,) = found["delete-files"]
    assert (file["content"], file["record-count"]) == ("position-deletes", 1)
    assert file["referenced-data-file"] == deleted["data-file"]["file-path"]
    assert deleted["delete-file-references"] == [0]


def test_deletion_vectors_and_row_ids_of_format_version_3_are_planned(lake: Lakehouse, catalog_of: Opening) -> None:
    orders = lake.table("sales.orders")
    orders.alter({"format-version": "3"})
    with request_info(counted(lake)) as client:
        found = plan(client)
    (file,) = found["delete-files"]
    assert (file["file-format"], file["content-offset"]) == ("puffin", 4)
    assert 0 < file["content-size-in-bytes"] < file["file-size-in-bytes"]
    starts = sorted(
        (one["data-file"]["first-row-id"], one["data-file"]["record-count"]) for one in found["file-scan-tasks"]
    )
    assert all(first + count == following for (first, count), (following, _) in pairwise(starts))
    with served(counted(lake)) as address:
        by_server = catalog_of(address, **{"scan-planning-mode": "server"}).load_table("sales.orders")
        assert by_server.scan().to_arrow().num_rows == orders.to_arrow().num_rows == 25


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        (True, 10),
        (False, 0),
        ({"type": "true"}, 10),
        (compare("id", "lt", 20), 2),
        ({"type": "not", "child": compare("id", "lt", 20)}, 8),
        (compare("ID", "lt", 20), None),
        (compare("id", "lt", "twenty"), 10),
        (compare("price", "eq", 3.001), 10),
        ({"type": "eq", "term": {"type": "reference", "term": "id"}, "value": 1_000}, 1),
        ({"type": "eq", "term": {"type": "transform", "transform": "bucket[4]", "term": "id"}, "value": 1}, 10),
        ({"type": "and", "left": compare("id", "gt", 20), "right": compare("day", "lt", "2026-01-05")}, 3),
        ({"type": "in", "term": "id", "values": [1, 2, 71]}, 2),
        ({"type": "not-eq", "term": "name", "value": "name 2"}, 9),
        ({"type": "starts-with", "term": "name", "value": "name 2"}, 1),
        ({"type": "is-null", "term": "note"}, 8),
        ({"type": "is-nan", "term": "weight"}, 10),
        ({"type": "eq", "term": "nothing", "value": 1}, None),
        ({"type": "like", "term": "name", "value": "x"}, None),
        ({"type": "eq", "term": 7, "value": 1}, None),
        ([], None),
    ],
)
def test_files_are_pruned_by_the_filter(client: TestClient, expression: object, count: int | None) -> None:
    response = client.post(PLAN, json={"filter": expression})
    if count is None:
        assert (response.status_code, response.json()["error"]["type"]) == (400, "BadRequestException")
    else:
        assert len(response.json()["file-scan-tasks"]) == count
        assert all(one["residual-filter"] == expression for one in response.json()["file-scan-tasks"])


def test_names_in_a_filter_may_be_in_another_case_if_the_client_wants_that(client: TestClient) -> None:
    found = plan(client, filter=compare("ID", "lt", 20), case_sensitive=False)
    assert len(paths_of(found)) == 2


def test_an_earlier_snapshot_is_planned_as_it_was(shared_lake: Lakehouse, catalog_of: Opening) -> None:
    with served(counted(shared_lake)) as address:
        table = catalog_of(address, **{"scan-planning-mode": "server"}).load_table("sales.orders")
        ids = [one.snapshot_id for one in table.snapshots()]
        counts = [table.scan(snapshot_id=one).to_arrow().num_rows for one in ids]
    assert counts == [12, 24, 23, 23, 25]


def test_an_unknown_snapshot_is_a_bad_request(client: TestClient) -> None:
    response = client.post(PLAN, json={"snapshot-id": 7})
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith("Cannot find snapshot with ID 7")


def test_a_plan_is_fetched_by_its_id_and_stays_at_its_snapshot(lake: Lakehouse) -> None:
    with request_info(counted(lake)) as client:
        found = plan(client, filter=compare("id", "lt", 20))
        lake.table("sales.orders").append([{"id": 5}])
        assert client.get(f"{PLAN}/{found['plan-id']}").json() == found
        assert client.delete(f"{PLAN}/{found['plan-id']}").status_code == 204
        assert len(paths_of(plan(client, filter=compare("id", "lt", 20)))) == 3


def test_a_long_plan_is_fetched_in_tasks(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = paths_of(plan(client, filter=compare("id", "gt", 5)))
    monkeypatch.setattr("mangrove.rest.scan_planning._FILES_PER_TASK", 4)
    found = plan(client, filter=compare("id", "gt", 5))
    parts = [client.post(TASKS, json={"plan-task": one}).json() for one in found["plan-tasks"]]
    assert [len(paths_of(part)) for part in (found, *parts)] == [4, 4, 1]
    assert [path for part in (found, *parts) for path in paths_of(part)] == whole


@pytest.mark.parametrize("token", ["", "x", "bm90IGpzb24=", "W10=", "W3t9LCAwLCAxXQ=="])
def test_an_unknown_plan_or_task_is_not_found(client: TestClient, token: str) -> None:
    task = client.post(TASKS, json={"plan-task": token})
    assert (task.status_code, task.json()["error"]["type"]) == (404, "NoSuchPlanTaskException")
    if token:
        found = client.get(f"{PLAN}/{token}")
        assert (found.status_code, found.json()["error"]["type"]) == (404, "NoSuchPlanIdException")


def test_a_table_without_writes_has_no_files(shared_lake: Lakehouse, client: TestClient) -> None:
    shared_lake.create_table("sales.empty", "id int")
    response = client.post("v1/namespaces/sales/tables/empty/plan", json={})
    assert response.json() == {"status": "completed", "file-scan-tasks": []}


def test_a_missing_table_is_not_planned(client: TestClient) -> None:
    response = client.post("v1/namespaces/sales/tables/none/plan", json={})
    assert (response.status_code, response.json()["error"]["type"]) == (404, "NoSuchTableException")


def test_the_server_lists_the_endpoints_of_scan_planning(client: TestClient) -> None:
    table = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
    assert {
        f"POST {table}/plan",
        f"GET {table}/plan/{{plan-id}}",
        f"DELETE {table}/plan/{{plan-id}}",
        f"POST {table}/tasks",
    } <= set(client.get("v1/config").json()["endpoints"])


def test_a_second_plan_of_a_snapshot_neither_lists_nor_writes_files(shared_lake: Lakehouse) -> None:
    far = counted(shared_lake)
    store = far.effects.store
    assert isinstance(store, CountingStore)
    with request_info(far) as client:
        plan(client)
        before = store.requests
        plan(client, filter=compare("id", "lt", 20))
        since = store.requests - before
    assert (since.lists, since.puts, since.creates) == (0, 0, 0)
