"""Changes over HTTP that can be read and cannot be made: each is refused with its reason, and nothing has changed."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from tests.iceberg.iceberg_client import Client
from tests.rest.conftest import TOKEN, request_info

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.server.access import Access

TABLES = "/v1/namespaces/shop/tables"
DOTS = pytest.mark.parametrize("dots", [".", ".."])
PATHS = pytest.mark.parametrize(
    "name", ["write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path"]
)


def shop_of_one_table() -> Lakehouse:
    lake = mangrove.create(f"memory://unfit-{uuid.uuid4()}")
    lake.create_namespace("shop")
    lake.create_table("shop.t", "id bigint not null, name string").append([{"id": 1, "name": "a"}])
    return lake


@pytest.fixture(scope="module")
def unfit_lake() -> Lakehouse:
    return shop_of_one_table()


@pytest.fixture(scope="module")
def unfit(unfit_lake: Lakehouse) -> Iterator[TestClient]:
    yield from writing(unfit_lake)


@pytest.fixture
def own_lake() -> Lakehouse:
    return shop_of_one_table()


@pytest.fixture
def own(own_lake: Lakehouse) -> Iterator[TestClient]:
    yield from writing(own_lake)


def writing(lake: Lakehouse) -> Iterator[TestClient]:
    with request_info(lake, Access("127.0.0.1", TOKEN, is_writable=True)) as found:
        found.headers["Authorization"] = f"Bearer {TOKEN}"
        yield found


def is_rejected_with(lake: Lakehouse, client: TestClient, address: str, body: dict[str, Any], told: str) -> None:
    before = lake.version
    answer = client.post(address, json=body)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "BadRequestException"), answer.text
    assert told in answer.json()["error"]["message"]
    assert lake.version == before


def schema(*more: dict[str, Any]) -> dict[str, Any]:
    known = [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "name", "type": "string", "required": False},
    ]
    return {"type": "struct", "schema-id": 0, "fields": [*known, *more]}


def column(of_type: Any, **told: Any) -> dict[str, Any]:
    return {"id": 3, "name": "more", "type": of_type, "required": False, **told}


def changes(*updates: dict[str, Any]) -> dict[str, Any]:
    return {"requirements": [], "updates": list(updates)}


def with_columns(*more: dict[str, Any]) -> dict[str, Any]:
    return changes({"action": "add-schema", "schema": schema(*more)}, {"action": "set-current-schema", "schema-id": -1})


def structs(depth: int) -> Any:
    found: Any = "long"
    for level in range(depth):
        found = {"type": "struct", "fields": [{"id": 1000 + level, "name": "x", "required": False, "type": found}]}
    return found


@given(st.integers(33, 400), st.booleans())
def test_too_deeply_nested_columns_are_rejected(
    unfit_lake: Lakehouse, unfit: TestClient, depth: int, is_new: bool
) -> None:
    deep = column(structs(depth), id=3_000)
    address, body = (TABLES, {"name": "n", "schema": schema(deep)}) if is_new else (f"{TABLES}/t", with_columns(deep))
    is_rejected_with(unfit_lake, unfit, address, body, "levels")


@pytest.mark.parametrize("is_staged", [True, False])
@pytest.mark.parametrize("default", ["initial-default", "write-default"])
def test_defaults_of_a_new_table_are_refused_and_not_lost(
    unfit_lake: Lakehouse, unfit: TestClient, default: str, is_staged: bool
) -> None:
    inner = {"type": "list", "element-id": 4, "element-required": False, "element": structs(1)}
    inner["element"]["fields"][0][default] = 5
    for more in (column("int", **{default: 5}), column(inner)):
        body = {"name": "n", "schema": schema(more), "stage-create": is_staged}
        is_rejected_with(unfit_lake, unfit, TABLES, body, "has a default, which Iceberg")


SPEC = {"fields": [{"source-id": 7, "field-id": 1000, "name": "p", "transform": "identity"}]}
ORDER = {"fields": [{"source-id": 9, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}]}


@pytest.mark.parametrize(
    "updates",
    [
        with_columns(column("decimal(50,2)"))["updates"],
        [{"action": "add-spec", "spec": SPEC}, {"action": "set-default-spec", "spec-id": -1}],
        [{"action": "add-sort-order", "sort-order": ORDER}, {"action": "set-default-sort-order", "sort-order-id": -1}],
    ],
)
def test_invalid_table_definitions_are_rejected(
    unfit_lake: Lakehouse, unfit: TestClient, updates: list[dict[str, Any]]
) -> None:
    is_rejected_with(unfit_lake, unfit, f"{TABLES}/t", changes(*updates), "")


def test_a_commit_to_a_branch_is_rejected_but_not_a_conflict(unfit_lake: Lakehouse, unfit: TestClient) -> None:
    client = Client(unfit_lake, "shop.t")
    request = client.request([client.rows([{"id": 2, "name": "b"}])])
    request["requirements"] = [{"type": "assert-ref-snapshot-id", "ref": "dev", "snapshot-id": None}]
    del request["updates"][0]["snapshot"]["parent-snapshot-id"]
    request["updates"][1]["ref-name"] = "dev"
    is_rejected_with(unfit_lake, unfit, f"{TABLES}/t", request, "only the branch main")


@PATHS
def test_write_paths_other_than_the_published_ones_are_rejected(
    unfit_lake: Lakehouse, unfit: TestClient, name: str
) -> None:
    folder = Client(unfit_lake, "shop.t").shown.folder
    for address in ("file:///etc", folder + "-more", f"{folder}/../other", f"{folder}/iceberg/staging/data", ""):
        put = changes({"action": "set-properties", "updates": {name: address}})
        is_rejected_with(unfit_lake, unfit, f"{TABLES}/t", put, "remove the property")
        body = {"name": "n", "schema": schema(), "properties": {name: address}}
        is_rejected_with(unfit_lake, unfit, TABLES, body, "remove the property")


@PATHS
def test_the_published_write_paths_are_accepted_and_not_stored(own_lake: Lakehouse, own: TestClient, name: str) -> None:
    folder = Client(own_lake, "shop.t").shown.folder
    put = changes({"action": "set-properties", "updates": {name: f"{folder}/data"}})
    assert own.post(f"{TABLES}/t", json=put).json()["metadata"]["properties"]["write.data.path"] == f"{folder}/data"
    assert own_lake.table("shop.t").properties == {}


def creation(metadata: dict[str, Any]) -> dict[str, Any]:
    return {
        "requirements": [{"type": "assert-create"}],
        "updates": [
            {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
            {"action": "upgrade-format-version", "format-version": 2},
            {"action": "add-schema", "schema": schema()},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
            {"action": "set-default-sort-order", "sort-order-id": -1},
            {"action": "set-location", "location": metadata["location"]},
        ],
    }


def test_a_dropped_table_cannot_be_recreated_from_its_metadata(own_lake: Lakehouse, own: TestClient) -> None:
    staged = own.post(TABLES, json={"name": "s", "schema": schema(), "stage-create": True}).json()["metadata"]
    assert own.post(f"{TABLES}/s", json=creation(staged)).status_code == 200
    made = {name: own.get(f"{TABLES}/{name}").json()["metadata"] for name in ("t", "s")}
    for name, metadata in made.items():
        own.delete(f"{TABLES}/{name}")
        is_rejected_with(own_lake, own, f"{TABLES}/stolen", creation(metadata), "stage the creation")
    is_rejected_with(own_lake, own, f"{TABLES}/t", creation(made["t"]), "stage the creation")
    assert [str(one) for one in own_lake.tables("shop")] == []


@DOTS
def test_dot_segments_are_rejected_as_names(unfit_lake: Lakehouse, unfit: TestClient, dots: str) -> None:
    named = {"namespace": ["shop"], "name": dots}
    elsewhere = {"namespace": [dots], "name": "t"}
    query = {"type": "sql", "sql": "select 1 as id", "dialect": "spark"}
    version = {"version-id": 1, "representations": [query], "default-namespace": ["shop"]}
    staged = unfit.post(TABLES, json={"name": "s", "schema": schema(), "stage-create": True}).json()["metadata"]
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("/v1/namespaces", {"namespace": [dots]}),
        (TABLES, {"name": dots, "schema": schema()}),
        (TABLES, {"name": dots, "schema": schema(), "stage-create": True}),
        ("/v1/tables/rename", {"source": {"namespace": ["shop"], "name": "t"}, "destination": named}),
        ("/v1/tables/rename", {"source": {"namespace": ["shop"], "name": "t"}, "destination": elsewhere}),
        ("/v1/namespaces/shop/views", {"name": dots, "view-version": version, "schema": schema()}),
        ("/v1/views/rename", {"source": {"namespace": ["shop"], "name": "v"}, "destination": named}),
        ("/v1/transactions/commit", {"table-changes": [{"identifier": named, **creation(staged)}]}),
    ]  # fmt: skip
    for address, body in bodies:
        is_rejected_with(unfit_lake, unfit, address, body, "cannot be used as a name")
