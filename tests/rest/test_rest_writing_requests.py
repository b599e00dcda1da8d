"""Changes as requests over HTTP: who may make them, what is refused, what is made together, and lost answers."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.iceberg.iceberg_client import Client
from tests.rest.conftest import TOKEN, request_info

import mangrove
from mangrove.effects import build_effects
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import open_on_store
from mangrove.model.schema import COLUMNS_MAX
from mangrove.server.access import Access
from mangrove.storage.opening import open_store
from mangrove.testing.faulty_store import Faults, FaultyStore

WRITABLE = Access("127.0.0.1", TOKEN, is_writable=True)
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def shop(tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("shop")
    for name in ("shop.a", "shop.b"):
        lake.create_table(name, "id bigint not null, name string")
    return lake


@pytest.fixture
def http(shop: Lakehouse) -> Iterator[TestClient]:
    with request_info(shop, WRITABLE) as found:
        found.headers.update(BEARER)
        yield found


def change_of(client: Client, request: dict[str, Any]) -> dict[str, Any]:
    namespace, name = client.table.split(".")
    return {"identifier": {"namespace": [namespace], "name": name}, **request}


def test_two_tables_are_committed_by_one_request(shop: Lakehouse, http: TestClient) -> None:
    clients = [Client(shop, name) for name in ("shop.a", "shop.b")]
    requests = [one.request([one.rows([{"id": 1, "name": "x"}])]) for one in clients]
    before = shop.version
    body = {"table-changes": [change_of(one, request) for one, request in zip(clients, requests, strict=True)]}
    answer = http.post("/v1/transactions/commit", json=body)
    assert (answer.status_code, answer.content) == (204, b"")
    assert shop.version == before + 1
    assert [one.ids() for one in clients] == [[1], [1]]
    # The same again, as by a client whose answer got lost.
    assert http.post("/v1/transactions/commit", json=body).status_code == 204
    assert shop.version == before + 1


def test_a_repeated_request_is_recognized_by_any_of_its_tables(shop: Lakehouse, http: TestClient) -> None:
    rows, other = Client(shop, "shop.a"), Client(shop, "shop.b")
    renamed = {"requirements": [{"type": "assert-current-schema-id", "current-schema-id": 0}]}
    schema = other.shown.metadata.schema().model_dump(mode="json", by_alias=True)
    more = {"id": 3, "name": "more", "type": "long", "required": False}
    renamed["updates"] = [
        {"action": "add-schema", "schema": {**schema, "schema-id": 1, "fields": [*schema["fields"], more]}},
        {"action": "set-current-schema", "schema-id": -1},
    ]
    changes = [change_of(other, renamed), change_of(rows, rows.request([rows.rows([{"id": 1}])]))]
    assert http.post("/v1/transactions/commit", json={"table-changes": changes}).status_code == 204
    version = shop.version
    assert http.post("/v1/transactions/commit", json={"table-changes": changes}).status_code == 204
    assert (shop.version, rows.ids()) == (version, [1])


@pytest.mark.parametrize(
    ("source", "destination", "error_type"),
    [
        (("shop", "a"), ("nowhere", "a"), "NoSuchNamespaceException"),
        (("shop", "z"), ("shop", "y"), "NoSuchTableException"),
    ],
)
def test_a_rename_names_the_kind_of_what_is_missing(
    http: TestClient, source: tuple[str, str], destination: tuple[str, str], error_type: str
) -> None:
    body = {
        place: {"namespace": [namespace], "name": name}
        for place, (namespace, name) in (("source", source), ("destination", destination))
    }
    answer = http.post("/v1/tables/rename", json=body)
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, error_type)


def test_a_violated_requirement_of_one_table_aborts_the_whole_transaction(shop: Lakehouse, http: TestClient) -> None:
    clients = [Client(shop, name) for name in ("shop.a", "shop.b")]
    body = {"table-changes": [change_of(one, one.request([one.rows([{"id": 1}])])) for one in clients]}
    shop.table("shop.b").append([{"id": 5, "name": None}])
    before = shop.version
    answer = http.post("/v1/transactions/commit", json=body)
    assert (answer.status_code, answer.json()["error"]["type"]) == (409, "CommitFailedException")
    assert (shop.version, clients[0].ids()) == (before, [])


def test_an_unknown_commit_outcome_is_reported_to_the_client(shop: Lakehouse) -> None:
    store = FaultyStore(open_store(shop.uri), Faults(0))
    faulty = open_on_store(build_effects(store))
    client = Client(shop, "shop.a")
    request = client.request([client.rows([{"id": 1}])])
    before = shop.version
    with request_info(faulty, WRITABLE) as http:
        store.fail_next("put", "before", ".metadata.json")
        answer = http.post("/v1/namespaces/shop/tables/a", json=request, headers=BEARER)
        assert (answer.status_code, answer.json()["error"]["type"]) == (500, "CommitStateUnknownException")
        assert (shop.version, client.ids()) == (before + 1, [1])
        again = http.post("/v1/namespaces/shop/tables/a", json=request, headers=BEARER)
    assert again.status_code == 200
    snapshot_id = request["updates"][0]["snapshot"]["snapshot-id"]
    assert again.json()["metadata"]["current-snapshot-id"] == snapshot_id
    assert (shop.version, client.ids()) == (before + 1, [1])


CHANGES = [
    ("POST", "/v1/namespaces"),
    ("DELETE", "/v1/namespaces/shop"),
    ("POST", "/v1/namespaces/shop/properties"),
    ("POST", "/v1/namespaces/shop/tables"),
    ("POST", "/v1/namespaces/shop/tables/a"),
    ("DELETE", "/v1/namespaces/shop/tables/a"),
    ("POST", "/v1/tables/rename"),
    ("POST", "/v1/namespaces/shop/register"),
    ("POST", "/v1/transactions/commit"),
    ("POST", "/v1/namespaces/shop/views"),
    ("POST", "/v1/namespaces/shop/views/v"),
    ("DELETE", "/v1/namespaces/shop/views/v"),
    ("POST", "/v1/views/rename"),
]


@pytest.mark.parametrize(("method", "path"), CHANGES)
def test_a_server_that_only_reads_changes_nothing(shop: Lakehouse, method: str, path: str) -> None:
    before = shop.version
    with request_info(shop, Access("127.0.0.1", TOKEN)) as http:
        answer = http.request(method, path, headers=BEARER, content=b"{}")
    assert (answer.status_code, answer.json()["error"]["type"]) == (403, "NotAuthorizedException")
    assert "--writable" in answer.json()["error"]["message"]
    assert shop.version == before


@pytest.mark.parametrize(("method", "path"), CHANGES)
def test_changes_of_an_earlier_version_or_an_unauthenticated_client_are_rejected(
    shop: Lakehouse, method: str, path: str
) -> None:
    before = shop.version
    with request_info(shop, WRITABLE) as http:
        past = http.request(method, path.replace("/v1/", "/v1/version-1/"), headers=BEARER, content=b"{}")
        stranger = http.request(method, path, content=b"{}")
    assert past.status_code == 403
    assert "earlier version" in past.json()["error"]["message"]
    assert stranger.status_code == 401
    assert shop.version == before


@pytest.mark.parametrize("content", [b"", b"[]", b"no JSON", b'{"a":' * 10_000, b"\xff\xfe", b'"text"', b"{}"])
@pytest.mark.parametrize(("method", "path"), [one for one in CHANGES if one[0] == "POST"])
def test_an_empty_body_changes_nothing(
    shop: Lakehouse, http: TestClient, method: str, path: str, content: bytes
) -> None:
    before = shop.version
    answer = http.request(method, path, content=content)
    is_idle = content == b"{}" and path in ("/v1/namespaces/shop/tables/a", "/v1/namespaces/shop/properties")
    assert answer.status_code in ((200,) if is_idle else (400, 404, 406)), answer.text
    assert shop.version == before


def test_a_request_that_is_too_large_is_refused(shop: Lakehouse, http: TestClient) -> None:
    before = shop.version
    answer = http.post("/v1/namespaces/shop/tables/a", content=b" " * (16 * 1024 * 1024 + 1))
    assert answer.status_code == 400
    assert "bytes" in answer.json()["error"]["message"]
    assert http.post("/v1/namespaces", content=b" " * (1024 * 1024 + 1)).status_code == 400
    assert shop.version == before


def test_the_configuration_lists_the_permitted_endpoints(shop: Lakehouse, http: TestClient) -> None:
    told = http.get("/v1/config").json()["endpoints"]
    assert "POST /v1/{prefix}/transactions/commit" in told
    assert "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}" in told
    past = http.get("/v1/config", params={"warehouse": "1"}).json()["endpoints"]
    assert [one for one in past if one.startswith("DELETE") and "/plan/" not in one] == []


def test_a_dropped_table_is_registered_by_its_metadata(shop: Lakehouse, http: TestClient) -> None:
    shop.table("shop.a").append([{"id": 1}])
    shop.tag("before")
    loaded = http.get("/v1/namespaces/shop/tables/a").json()
    body = {"name": "again", "metadata-location": loaded["metadata-location"]}
    answer = http.post("/v1/namespaces/shop/register", json=body)
    assert (answer.status_code, answer.json()["error"]["type"]) == (409, "AlreadyExistsException")
    assert http.delete("/v1/namespaces/shop/tables/a").status_code == 204
    made = http.post("/v1/namespaces/shop/register", json=body).json()["metadata"]
    for name in ("table-uuid", "location", "current-snapshot-id", "properties"):
        assert made[name] == loaded["metadata"][name]
    assert shop.table("shop.again").to_arrow().num_rows == 1
    shop.table("shop.again").append([{"id": 2}])
    assert shop.table("shop.again").to_arrow().num_rows == 2
    assert shop.maintenance.check().problems == ()


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (lambda address: "s3://elsewhere/a.metadata.json", 400),
        (lambda address: address.replace(".metadata.json", "9.metadata.json"), 404),
        (lambda address: address.replace("/metadata/", "/metadata/0"), 404),
        (lambda address: address.replace("/data/", "/data/x"), 404),
    ],
)
def test_other_metadata_files_are_not_registered(
    shop: Lakehouse, http: TestClient, change: Callable[[str], str], status: int
) -> None:
    address = http.get("/v1/namespaces/shop/tables/a").json()["metadata-location"]
    before = shop.version
    answer = http.post("/v1/namespaces/shop/register", json={"name": "x", "metadata-location": change(address)})
    assert answer.status_code == status, answer.json()
    assert shop.version == before


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"table-changes": []}, "0 tables"),
        ({"table-changes": [{}]}, "no valid identifier"),
        ({"table-changes": "all"}, "no 'table-changes'"),
    ],
)
def test_a_transaction_that_names_no_tables_is_refused(http: TestClient, body: dict[str, Any], told: str) -> None:
    answer = http.post("/v1/transactions/commit", json=body)
    assert answer.status_code == 400
    assert told in answer.json()["error"]["message"]


def test_a_namespace_with_several_levels_is_not_found_and_cannot_be_created(http: TestClient) -> None:
    made = http.post("/v1/namespaces", json={"namespace": ["a", "b"]})
    assert (made.status_code, made.json()["error"]["type"]) == (400, "BadRequestException")
    other = {"namespace": ["a", "b"], "name": "t"}
    view = {"name": "v", "schema": VIEW_SCHEMA, "view-version": view_version("select 1 as id")}
    for path, body in {
        "/v1/namespaces/a%1Fb/tables": {"name": "t", "schema": schema_of(field_of())},
        "/v1/namespaces/a%1Fb/views": view,
        "/v1/tables/rename": {"source": {"namespace": ["shop"], "name": "a"}, "destination": other},
    }.items():
        answer = http.post(path, json=body)
        assert (answer.status_code, answer.json()["error"]["type"]) == (404, "NoSuchNamespaceException")
    changes = {"table-changes": [{"identifier": other, "requirements": [], "updates": []}]}
    for path, body in {"/v1/namespaces/a%1Fb/tables/t": {"updates": []}, "/v1/transactions/commit": changes}.items():
        answer = http.post(path, json=body)
        assert (answer.status_code, answer.json()["error"]["type"]) == (404, "NoSuchTableException")


def test_a_commit_to_a_missing_table_is_not_found(http: TestClient) -> None:
    for path in ("/v1/namespaces/shop/tables/none", "/v1/namespaces/none/tables/none"):
        answer = http.post(path, json={"requirements": [], "updates": []})
        assert (answer.status_code, answer.json()["error"]["type"]) == (404, "NoSuchTableException")


def test_a_request_for_another_table_than_its_address_is_refused(http: TestClient) -> None:
    other = {"identifier": {"namespace": ["shop"], "name": "b"}, "requirements": [], "updates": []}
    answer = http.post("/v1/namespaces/shop/tables/a", json=other)
    assert answer.status_code == 400
    assert "names another table" in answer.json()["error"]["message"]


def test_setting_and_removing_the_same_property_is_rejected(shop: Lakehouse, http: TestClient) -> None:
    answer = http.post("/v1/namespaces/shop/properties", json={"removals": ["a"], "updates": {"a": "1"}})
    assert answer.status_code == 422
    assert dict(shop.namespace("shop").properties) == {}


def field_of(**told: Any) -> dict[str, Any]:
    return {"id": 1, "name": "a", "type": "long", "required": False, **told}


def schema_of(*fields: Any, **told: Any) -> dict[str, Any]:
    return {"type": "struct", "schema-id": 0, "fields": list(fields), **told}


PLAIN_SCHEMA = schema_of(field_of())
PARTITION_FIELD = {"source-id": 1, "field-id": 1000, "transform": "identity", "name": "p"}
SORT_FIELD = {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"schema": None},
        {"schema": []},
        {"schema": schema_of(field_of(), field_of(id=2))},
        {"schema": schema_of(field_of(type="no-type"))},
        {"schema": schema_of(field_of(type="timestamp_ns"))},
        {"schema": schema_of(field_of(type="decimal(99,2)"))},
        {"schema": schema_of(field_of(name=""))},
        {"schema": schema_of(field_of(type={"type": "struct", "fields": []}))},
        {"schema": schema_of(field_of(), **{"identifier-field-ids": [7]})},
        {"schema": schema_of(field_of(), **{"identifier-field-ids": [1]})},
        {"schema": PLAIN_SCHEMA, "partition-spec": {"spec-id": 0, "fields": [{**PARTITION_FIELD, "source-id": 9}]}},
        {
            "schema": PLAIN_SCHEMA,
            "partition-spec": {"spec-id": 0, "fields": [{**PARTITION_FIELD, "transform": "zorder"}]},
        },
        {"schema": PLAIN_SCHEMA, "partition-spec": {"spec-id": 0, "fields": [{**PARTITION_FIELD, "transform": "day"}]}},
        {"schema": PLAIN_SCHEMA, "partition-spec": {"spec-id": 0, "fields": [PARTITION_FIELD, PARTITION_FIELD]}},
        {"schema": PLAIN_SCHEMA, "partition-spec": 7},
        {"schema": PLAIN_SCHEMA, "write-order": {"order-id": 1, "fields": [{**SORT_FIELD, "source-id": 9}]}},
        {"schema": PLAIN_SCHEMA, "write-order": {"order-id": 1, "fields": [{**SORT_FIELD, "transform": "day"}]}},
        {"schema": PLAIN_SCHEMA, "properties": {"a": 1}},
        {"schema": PLAIN_SCHEMA, "properties": {"write.delete-mode": "never"}},
        {"schema": PLAIN_SCHEMA, "name": "two\nlines"},
        {"schema": PLAIN_SCHEMA, "name": "left\u202eright"},
        {"schema": schema_of({**field_of(), "name": "left\u202eright"})},
        {"schema": schema_of(*({**field_of(), "id": n, "name": f"c{n}"} for n in range(1, COLUMNS_MAX + 2)))},
    ],
)
@pytest.mark.parametrize("is_staged", [False, True])
def test_an_invalid_table_is_rejected(shop: Lakehouse, http: TestClient, told: dict[str, Any], is_staged: bool) -> None:
    before = shop.version
    answer = http.post("/v1/namespaces/shop/tables", json={"name": "new", "stage-create": is_staged, **told})
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "BadRequestException"), answer.text
    assert shop.version == before


@pytest.mark.parametrize(
    "update",
    [
        {"action": "add-schema", "schema": schema_of(field_of(), field_of(id=2))},
        {"action": "add-schema", "schema": schema_of()},
        {"action": "add-schema", "schema": schema_of(field_of(type="uuid"))},
        {"action": "add-spec", "spec": {"spec-id": 7, "fields": [{**PARTITION_FIELD, "source-id": 9}]}},
        {"action": "add-sort-order", "sort-order": {"order-id": 7, "fields": [{**SORT_FIELD, "source-id": 9}]}},
        {"action": "set-properties", "updates": {"write.delete-mode": "never"}},
        {"action": "set-properties", "updates": {"": "nameless"}},
        {"action": "add-snapshot", "snapshot": {"snapshot-id": 1, "timestamp-ms": 1, "manifest-list": "s3://x/y.avro"}},
    ],
)
def test_an_invalid_change_is_rejected(shop: Lakehouse, http: TestClient, update: dict[str, Any]) -> None:
    if update["action"] == "add-schema":
        # The columns of an empty table may get any type.
        shop.table("shop.a").append([{"id": 1, "name": "x"}])
    following = {
        "add-schema": {"action": "set-current-schema", "schema-id": -1},
        "add-spec": {"action": "set-default-spec", "spec-id": -1},
        "add-sort-order": {"action": "set-default-sort-order", "sort-order-id": -1},
        "add-snapshot": {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1},
    }
    if "schema" in update:
        update = {**update, "schema": {**update["schema"], "schema-id": 7}}
    updates = [update, *([following[update["action"]]] if update["action"] in following else [])]
    before = shop.version
    answer = http.post("/v1/namespaces/shop/tables/a", json={"requirements": [], "updates": updates})
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "BadRequestException"), answer.text
    assert shop.version == before


VIEW_SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 0, "name": "id", "type": "long", "required": False}]}


def view_version(sql: str, dialect: str = "spark") -> dict[str, Any]:
    return {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": 1,
        "summary": {},
        "default-namespace": ["shop"],
        "representations": [{"type": "sql", "sql": sql, "dialect": dialect}],
    }


def test_views_are_created_replaced_renamed_and_dropped(shop: Lakehouse, http: TestClient) -> None:
    body = {
        "name": "v",
        "schema": VIEW_SCHEMA,
        "view-version": view_version("select id from a"),
        "properties": {"comment": "c"},
    }
    made = http.post("/v1/namespaces/shop/views", json=body)
    assert made.status_code == 200
    metadata = made.json()["metadata"]
    assert metadata["versions"][0]["representations"][0]["sql"] == "select id from a"
    view = shop.view("shop.v")
    assert (view.sql, view.description, view.reads) == ("select id from a", "c", ("shop.a",))
    assert http.post("/v1/namespaces/shop/views", json=body).json()["error"]["type"] == "AlreadyExistsException"
    replaced = http.post(
        "/v1/namespaces/shop/views/v",
        json={
            "requirements": [{"type": "assert-view-uuid", "uuid": metadata["view-uuid"]}],
            "updates": [
                {"action": "add-schema", "schema": VIEW_SCHEMA},
                {"action": "add-view-version", "view-version": view_version("select id + 1 as id from b", "trino")},
                {"action": "set-current-view-version", "view-version-id": -1},
                {"action": "set-properties", "updates": {"owner": "ana"}},
                {"action": "remove-properties", "removals": ["comment"]},
            ],
        },
    )
    assert replaced.json()["metadata"]["view-uuid"] == metadata["view-uuid"]
    view = shop.view("shop.v")
    assert (view.sql, view.value.dialect, view.description) == ("select id + 1 as id from b", "trino", None)
    assert view.properties["owner"] == "ana"
    names = {"source": {"namespace": ["shop"], "name": "v"}, "destination": {"namespace": ["shop"], "name": "w"}}
    assert http.post("/v1/views/rename", json=names).status_code == 204
    assert http.delete("/v1/namespaces/shop/views/w").status_code == 204
    assert http.delete("/v1/namespaces/shop/views/w").json()["error"]["type"] == "NoSuchViewException"
    assert shop.maintenance.check().problems == ()


def test_a_view_has_a_query_for_each_dialect_and_a_default_catalog_until_its_query_changes(
    shop: Lakehouse, http: TestClient
) -> None:
    queries = {"trino": "select id from a -- trino", "spark": "select id from a"}
    version = view_version("") | {
        "default-catalog": "lake",
        "representations": [{"type": "sql", "sql": sql, "dialect": dialect} for dialect, sql in queries.items()],
    }
    body = {"name": "v", "schema": VIEW_SCHEMA, "view-version": version}
    metadata = http.post("/v1/namespaces/shop/views", json=body).json()["metadata"]
    (shown,) = metadata["versions"]
    assert {one["dialect"]: one["sql"] for one in shown["representations"]} == queries
    assert shown["default-catalog"] == "lake"
    assert "iceberg.view" not in metadata["properties"]
    assert (shop.view("shop.v").sql, shop.view("shop.v").value.dialect) == (queries["spark"], "spark")
    # A client sends only schemas that the view does not have yet.
    update = {"action": "add-view-version", "view-version": view_version("select id + 1 as id from a")}
    first, shown = http.post("/v1/namespaces/shop/views/v", json={"updates": [update]}).json()["metadata"]["versions"]
    assert first == metadata["versions"][0]
    assert [one["dialect"] for one in shown["representations"]] == ["spark"]
    assert "default-catalog" not in shown


def test_a_view_lists_its_versions_and_schemas_as_clients_sent_them(shop: Lakehouse, http: TestClient) -> None:
    schema = {"type": "struct", "schema-id": 0, "fields": [{"id": 7, "name": "id", "type": "int", "required": True}]}
    http.post(
        "/v1/namespaces/shop/views", json={"name": "v", "schema": schema, "view-version": view_version("select 1")}
    )
    address = "/v1/namespaces/shop/views/v"
    other = {"type": "struct", "schema-id": 9, "fields": [{"id": 2, "name": "x", "type": "int", "required": False}]}
    added = {"action": "add-view-version", "view-version": view_version("select 2 as x", "trino") | {"schema-id": -1}}
    last = {"action": "set-current-view-version", "view-version-id": -1}
    changed = http.post(address, json={"updates": [{"action": "add-schema", "schema": other}, added, last]}).json()
    metadata = changed["metadata"]
    assert metadata["schemas"][0]["fields"] == schema["fields"]
    assert [one["schema-id"] for one in metadata["schemas"]] == [0, 1]
    assert [(one["version-id"], one["schema-id"]) for one in metadata["versions"]] == [(1, 0), (2, 1)]
    assert [one["version-id"] for one in metadata["version-log"]] == [1, 2]
    # A client that did not see the second version adds a third one.
    added = {"action": "add-view-version", "view-version": view_version("select 3 as id")}
    metadata = http.post(address, json={"updates": [added, last]}).json()["metadata"]
    assert (metadata["current-version-id"], metadata["versions"][-1]["schema-id"]) == (3, 0)
    restored = {"action": "set-current-view-version", "view-version-id": 1}
    metadata = http.post(address, json={"updates": [restored]}).json()["metadata"]
    assert (metadata["current-version-id"], shop.view("shop.v").sql) == (1, "select 1")
    shop.drop_view("shop.v")
    shop.create_view("shop.v", "select cast(1 as int) as y", reads=[])
    assert len(http.get(address).json()["metadata"]["versions"]) == 1


def test_a_query_of_mangrove_is_the_next_version_of_a_view_and_old_versions_are_dropped(
    shop: Lakehouse, http: TestClient
) -> None:
    body = {"name": "v", "schema": VIEW_SCHEMA, "view-version": view_version("select id from a")}
    http.post("/v1/namespaces/shop/views", json=body | {"properties": {"version.history.num-entries": "2"}})
    before = shop.view("shop.v").value
    for number in range(3):
        shop.create_view(
            "shop.v",
            f"select cast({number} as bigint) as id",
            reads=[],
            properties=before.properties,
            or_replace=True,
        )
        metadata = http.get("/v1/namespaces/shop/views/v").json()["metadata"]
        assert [one["version-id"] for one in metadata["versions"]] == [1, 2]
        assert metadata["current-version-id"] == 2


def test_a_dropped_view_is_registered_again_by_the_location_of_its_metadata(shop: Lakehouse, http: TestClient) -> None:
    body = {"name": "v", "schema": VIEW_SCHEMA, "view-version": view_version("select id from a")}
    made = http.post("/v1/namespaces/shop/views", json=body).json()
    register = {"name": "v", "metadata-location": made["metadata-location"]}
    error = http.post("/v1/namespaces/shop/register-view", json=register).json()["error"]
    assert (error["type"], error["message"]) == ("AlreadyExistsException", "View already exists: shop.v; drop it first")
    shop.rename_view("shop.v", "shop.w")
    renamed = http.get("/v1/namespaces/shop/views/w").json()
    assert renamed == made
    shop.drop_view("shop.w")
    assert http.post("/v1/namespaces/shop/register-view", json=register).json() == made
    register = {"name": "other", "metadata-location": "s3://bucket/views/x.metadata.json"}
    assert http.post("/v1/namespaces/shop/register-view", json=register).status_code == 404


def test_a_name_that_another_kind_of_object_has_is_reported_in_the_standard_words(
    shop: Lakehouse, http: TestClient
) -> None:
    shop.create_view("shop.v", "select cast(1 as bigint) as id", reads=[])
    view = {"name": "a", "schema": VIEW_SCHEMA, "view-version": view_version("select 1")}
    message = http.post("/v1/namespaces/shop/views", json=view).json()["error"]["message"]
    assert message.startswith("Table with same name already exists: shop.a")
    table = {"name": "v", "schema": VIEW_SCHEMA}
    message = http.post("/v1/namespaces/shop/tables", json=table).json()["error"]["message"]
    assert message.startswith("View with same name already exists: shop.v")
    names = {"source": {"namespace": ["shop"], "name": "a"}, "destination": {"namespace": ["shop"], "name": "v"}}
    message = http.post("/v1/tables/rename", json=names).json()["error"]["message"]
    assert message == "Cannot rename shop.a to shop.v. View already exists"


def test_the_metadata_folder_of_a_staged_table_exists_on_disk_for_clients_that_do_not_create_it(
    shop: Lakehouse, http: TestClient
) -> None:
    staged = http.post("/v1/namespaces/shop/tables", json={"name": "c", "schema": VIEW_SCHEMA, "stage-create": True})
    folder = Path(staged.json()["metadata"]["properties"]["write.metadata.path"].removeprefix("file://"))
    assert [*folder.iterdir()] == []
    assert shop.version == 3


def test_a_table_of_format_version_1_is_created_in_version_2(http: TestClient) -> None:
    body = {"name": "old", "schema": VIEW_SCHEMA, "properties": {"format-version": "1"}}
    assert http.post("/v1/namespaces/shop/tables", json=body).json()["metadata"]["format-version"] == 2


@pytest.mark.parametrize("representations", [[], [{"type": "sql", "sql": "select 1"}], [{"type": "x"}] * 2])
def test_a_view_without_a_query_for_each_dialect_is_rejected(http: TestClient, representations: list[Any]) -> None:
    version = view_version("") | {"representations": representations}
    body = {"name": "v", "schema": VIEW_SCHEMA, "view-version": version}
    assert http.post("/v1/namespaces/shop/views", json=body).status_code == 400


@pytest.mark.parametrize(
    ("requirements", "updates", "status"),
    [
        ([{"type": "assert-view-uuid", "uuid": "another"}], [], 409),
        ([{"type": "assert-create"}], [], 400),
        ([], [{"action": "drop-everything"}], 400),
        (
            [],
            [{"action": "add-schema", "schema": 7}, {"action": "add-view-version", "view-version": view_version("x")}],
            400,
        ),
        (
            [],
            [{"action": "add-schema", "schema": VIEW_SCHEMA}, {"action": "add-view-version", "view-version": {}}],
            400,
        ),
    ],
)
def test_an_invalid_change_of_a_view_is_rejected(
    shop: Lakehouse, http: TestClient, requirements: list[Any], updates: list[Any], status: int
) -> None:
    shop.create_view("shop.v", "select cast(1 as bigint) as id", reads=[])
    before = shop.version
    answer = http.post("/v1/namespaces/shop/views/v", json={"requirements": requirements, "updates": updates})
    assert answer.status_code == status, json.dumps(answer.json())
    assert shop.version == before
