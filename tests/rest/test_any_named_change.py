"""Whatever a client sends to make, rename or change by name is done or refused, and never an accident."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient
from tests.rest.conftest import TOKEN, request_info
from tests.rest.test_any_change import DONE, REFUSED, spoiled

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.server.access import Access

COLUMN = {"id": 1, "name": "id", "type": "long", "required": False}
DEEP = {"type": "struct", "fields": [{"id": 3, "name": "x", "type": "decimal(9, 2)", "required": False}]}
SCHEMA = {"type": "struct", "schema-id": 0, "fields": [COLUMN, {**COLUMN, "id": 2, "name": "s", "type": DEEP}]}
QUERY = {"type": "sql", "sql": "select 1 as id", "dialect": "spark"}
VIEW_VERSION = {"version-id": 1, "representations": [QUERY], "default-namespace": ["shop"]}
PARTITIONED = {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "transform": "bucket[4]", "name": "p"}]}
SORTED = {
    "order-id": 1,
    "fields": [{"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}],
}


@pytest.fixture(scope="module")
def named_lake() -> Lakehouse:
    lake = mangrove.create(f"memory://any-named-{uuid.uuid4()}")
    lake.create_namespace("shop")
    lake.create_table("shop.t", "id bigint")
    lake.create_view("shop.v", "select cast(1 as bigint) as id", reads=[])
    return lake


@pytest.fixture(scope="module")
def naming(named_lake: Lakehouse) -> Iterator[TestClient]:
    with request_info(named_lake, Access("127.0.0.1", TOKEN, is_writable=True)) as found:
        found.headers["Authorization"] = f"Bearer {TOKEN}"
        yield found


def creation(http: TestClient, name: str) -> dict[str, Any]:
    """Stage a table, and return the commit that makes it."""
    requested = {"name": name, "schema": SCHEMA, "stage-create": True}
    staged = http.post("/v1/namespaces/shop/tables", json=requested).json()["metadata"]
    return {
        "identifier": {"namespace": ["shop"], "name": name},
        "requirements": [{"type": "assert-create"}],
        "updates": [
            {"action": "assign-uuid", "uuid": staged["table-uuid"]},
            {"action": "upgrade-format-version", "format-version": 2},
            {"action": "add-schema", "schema": SCHEMA, "last-column-id": 3},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": PARTITIONED},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-sort-order", "sort-order": SORTED},
            {"action": "set-default-sort-order", "sort-order-id": -1},
            {"action": "set-location", "location": staged["location"]},
            {"action": "set-properties", "updates": {"owner": "ana"}},
        ],
    }


def documents(http: TestClient) -> list[tuple[str, dict[str, Any]]]:
    fresh = f"n{uuid.uuid4().hex}"
    table = {"namespace": ["shop"], "name": "t"}
    properties = {"action": "set-properties", "updates": {"a": "b"}}
    changes = [creation(http, fresh), {"identifier": table, "requirements": [], "updates": [properties]}]
    view = [{"action": "add-schema", "schema": SCHEMA}, {"action": "add-view-version", "view-version": VIEW_VERSION}]
    return [
        (f"/v1/namespaces/shop/tables/{fresh}", creation(http, fresh)),
        ("/v1/transactions/commit", {"table-changes": changes}),
        ("/v1/namespaces", {"namespace": [fresh], "properties": {"owner": "ana"}}),
        ("/v1/namespaces/shop/properties", {"removals": ["x"], "updates": {"y": "1"}}),
        ("/v1/tables/rename", {"source": table, "destination": {**table, "name": fresh}}),
        ("/v1/views/rename", {"source": {**table, "name": "v"}, "destination": {**table, "name": fresh}}),
        ("/v1/namespaces/shop/views", {"name": fresh, "view-version": VIEW_VERSION, "schema": SCHEMA}),
        ("/v1/namespaces/shop/views/v", {"requirements": [], "updates": [*view, properties]}),
    ]


@settings(max_examples=150)
@given(st.data(), st.integers(0, 7))
def test_any_change_by_name_succeeds_or_is_rejected(
    named_lake: Lakehouse, naming: TestClient, data: st.DataObject, which: int
) -> None:
    address, document = documents(naming)[which]
    before = named_lake.version
    answer = naming.post(address, json=spoiled(data, document))
    assert answer.status_code in DONE | REFUSED, (address, answer.text)
    if answer.status_code in REFUSED:
        assert named_lake.version == before
    if named_lake.version != before:
        # What comes next finds again what this one may have renamed.
        named_lake.rollback(to=before)
