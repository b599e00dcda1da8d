"""A commit that an Iceberg client sends again is known, also after what it wrote was replaced."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from tests.iceberg.iceberg_client import Client

import mangrove
from mangrove.errors import ConflictError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.tables.iceberg_names import CLIENT_SNAPSHOT, parse_client_snapshots

RECOGNIZED_COMMITS = 20


@pytest.fixture(params=["tree", "deltacat"])
def orders(request: pytest.FixtureRequest) -> Client:
    lake = mangrove.create(f"memory://lost-{uuid.uuid4()}", layout=request.param)
    lake.create_namespace("shop")
    lake.create_table("shop.orders", "id bigint not null, name string").append([{"id": 1, "name": "a"}])
    return Client(lake, "shop.orders")


def committed(client: Client, row_id: int) -> dict[str, Any]:
    """Commit one row, and return the request by which it came."""
    client.load()
    request = client.request([client.rows([{"id": row_id, "name": "x"}])])
    client.send(request)
    return request


@pytest.mark.parametrize(
    "replace",
    [
        lambda lake: lake.maintenance.compact("shop.orders"),
        lambda lake: lake.table("shop.orders").overwrite([{"id": 9, "name": "z"}]),
        lambda lake: lake.table("shop.orders").delete("id = 2"),
    ],
    ids=["compacted", "overwritten", "deleted"],
)
def test_a_commit_is_known_after_its_deltas_were_replaced(orders: Client, replace: Callable[[Lakehouse], Any]) -> None:
    request = committed(orders, 2)
    replace(orders.lake)
    before = orders.lake.version, orders.ids()
    orders.send(request)
    assert (orders.lake.version, orders.ids()) == before


def test_the_last_commits_of_clients_are_known_and_older_ones_conflict(orders: Client) -> None:
    requests = [committed(orders, 2 + number) for number in range(RECOGNIZED_COMMITS + 1)]
    orders.lake.maintenance.compact("shop.orders")
    before = orders.lake.version
    for request in requests[1:]:
        orders.send(request)
    with pytest.raises(ConflictError):
        orders.send(requests[0])
    assert orders.lake.version == before
    assert len(parse_client_snapshots(orders.lake.table("shop.orders").state().properties)) == RECOGNIZED_COMMITS


def test_a_recreated_table_does_not_recognize_commits_of_the_dropped_one(orders: Client) -> None:
    request = committed(orders, 2)
    orders.lake.drop_table("shop.orders")
    orders.lake.create_table("shop.orders", "id bigint not null, name string")
    with pytest.raises(ConflictError):
        orders.send(request)


def test_the_property_of_recognized_commits_is_not_published(orders: Client) -> None:
    committed(orders, 2)
    assert CLIENT_SNAPSHOT not in orders.shown.metadata.properties
