"""Principals as Iceberg clients: PyIceberg sees and commits what the access rules allow."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import ForbiddenError, NoSuchNamespaceError, NoSuchTableError, OAuthError
from starlette.testclient import TestClient
from tests.rest.conftest import TOKEN, counted, request_info, served

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.rest.delegation import build_delegation
from mangrove.rest.settings import RestSettings
from mangrove.server.access import Access
from mangrove.server.app import build_app

WRITABLE = Access("127.0.0.1", TOKEN, is_writable=True)
ROWS = pa.table({"id": [1]})


@pytest.fixture(params=["tree", "deltacat"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    """Return a lakehouse with a table that ana may write, one that she may read, and one that she may not see."""
    lake = mangrove.create(tmp_path / "lake", layout=request.param)
    for name in ("sales", "shared", "staff"):
        lake.create_namespace(name)
    for name in ("sales.orders", "shared.rates", "staff.salaries"):
        lake.create_table(name, "id bigint").append([{"id": 1}])
    return lake


@pytest.fixture
def token(lake: Lakehouse) -> str:
    token = lake.access.create_principal("ana")
    lake.access.grant("write", "sales", to="ana")
    lake.access.grant("read", "shared.rates", to="ana")
    return token


@pytest.fixture
def ana(lake: Lakehouse, token: str, catalog_of: Callable[..., RestCatalog]) -> Iterator[RestCatalog]:
    with served(counted(lake), WRITABLE) as address:
        yield catalog_of(address, token=token)


def test_a_client_lists_and_loads_what_its_principal_may_read(ana: RestCatalog) -> None:
    assert ana.list_namespaces() == [("sales",), ("shared",)]
    assert ana.list_tables("sales") == [("sales", "orders")]
    assert ana.load_table("shared.rates").scan().to_arrow().num_rows == 1
    with pytest.raises(NoSuchTableError):
        ana.load_table("staff.salaries")
    with pytest.raises(NoSuchNamespaceError):
        ana.list_tables("staff")
    assert not ana.table_exists("staff.salaries")


def test_a_client_commits_with_the_rights_of_its_principal(lake: Lakehouse, ana: RestCatalog) -> None:
    ana.load_table("sales.orders").append(ROWS)
    ana.create_table("sales.returns", ROWS.schema).append(ROWS)
    assert {entry.author for entry in lake.history(limit=3)} == {"ana"}
    version = lake.version
    refused_changes: list[Callable[[], object]] = [
        lambda: ana.load_table("shared.rates").append(ROWS),
        lambda: ana.drop_table("sales.orders"),
        lambda: ana.rename_table("sales.orders", "sales.bills"),
        lambda: ana.create_table("shared.more", ROWS.schema),
        lambda: ana.create_namespace("mine"),
        lambda: ana.update_namespace_properties("shared", updates={"owner": "ana"}),
    ]
    for refused in refused_changes:
        with pytest.raises(ForbiddenError):
            refused()
    assert lake.version == version


def test_a_commit_of_several_tables_with_a_forbidden_one_changes_none(lake: Lakehouse, token: str) -> None:
    version = lake.version
    changes = [
        {
            "identifier": {"namespace": [namespace], "name": name},
            "requirements": [],
            "updates": [{"action": "set-properties", "updates": {"note": "mine"}}],
        }
        for namespace, name in (("sales", "orders"), ("shared", "rates"))
    ]
    with request_info(counted(lake), WRITABLE) as client:
        headers = {"Authorization": f"Bearer {token}"}
        answer = client.post("/v1/transactions/commit", json={"table-changes": changes}, headers=headers)
        assert (answer.status_code, answer.json()["error"]["type"]) == (403, "NotAuthorizedException")
        assert lake.version == version
        one = client.post("/v1/transactions/commit", json={"table-changes": changes[:1]}, headers=headers)
        assert one.status_code == 204, one.text
    assert lake.table("sales.orders").properties["note"] == "mine"


def test_an_earlier_version_has_the_rights_of_now(lake: Lakehouse, token: str) -> None:
    with request_info(lake, WRITABLE) as client:
        headers = {"Authorization": f"Bearer {token}"}
        path = f"/v1/version-{lake.version}/namespaces/{{}}"
        assert client.get(path.format("sales/tables/orders"), headers=headers).status_code == 200
        assert client.get(path.format("staff/tables/salaries"), headers=headers).status_code == 404
        lake.access.revoke("write", "sales", from_="ana")
        assert client.get(path.format("sales/tables/orders"), headers=headers).status_code == 404


def test_a_client_exchanges_the_token_of_its_principal(
    lake: Lakehouse, token: str, catalog_of: Callable[..., RestCatalog]
) -> None:
    with served(lake, WRITABLE) as address:
        catalog = catalog_of(address, credential=f"ana:{token}", **{"oauth2-server-uri": f"{address}/v1/oauth/tokens"})
        assert catalog.list_namespaces() == [("sales",), ("shared",)]
        lake.access.rotate_token("ana")
        with pytest.raises(OAuthError):
            catalog_of(address, credential=f"ana:{token}", **{"oauth2-server-uri": f"{address}/v1/oauth/tokens"})


def test_a_dropped_table_that_a_principal_could_not_read_is_not_registered_again(lake: Lakehouse, token: str) -> None:
    with request_info(counted(lake), WRITABLE) as client:
        owner = {"Authorization": f"Bearer {TOKEN}"}
        loaded = client.get("/v1/namespaces/staff/tables/salaries", headers=owner).json()
        lake.drop_table("staff.salaries")
        answer = client.post(
            "/v1/namespaces/sales/register",
            json={"name": "mine", "metadata-location": loaded["metadata-location"]},
            headers={"Authorization": f"Bearer {token}"},
        )
    assert answer.status_code in (400, 404), answer.text
    assert [str(table) for table in lake.tables("sales")] == ["sales.orders"]


def delegating(lake: Lakehouse, mode: str, token: str) -> TestClient:
    """Return a client of a server that gives access to files as if the lakehouse were in a bucket."""
    options = {"access_key_id": "key", "secret_access_key": "secret"}
    settings = RestSettings(delegation=build_delegation(mode, "s3://bucket/lake", options, {}))
    headers = {"Authorization": f"Bearer {token}", "X-Iceberg-Access-Delegation": "vended-credentials,remote-signing"}
    app = build_app(lake, WRITABLE, rest_settings=settings)
    return TestClient(app, base_url="http://127.0.0.1/iceberg", headers=headers)


def test_keys_of_the_server_are_for_managers_of_the_lakehouse(lake: Lakehouse, token: str) -> None:
    with delegating(lake, "static", token) as client:
        assert client.get("/v1/namespaces/sales/tables/orders").json()["config"] == {}
        lake.access.grant("manage", None, to="ana")
        assert "s3.secret-access-key" in client.get("/v1/namespaces/sales/tables/orders").json()["config"]


def test_requests_to_the_bucket_are_signed_with_the_rights_on_the_table(lake: Lakehouse, token: str) -> None:
    def sign(client: TestClient, method: str, name: str) -> int:
        namespace, table = name.split(".")
        uri = f"https://bucket.s3.amazonaws.com/lake/data/{lake.table(name).id}/a.parquet"
        request = {"method": method, "region": "us-east-1", "uri": uri, "headers": {}}
        return client.post(f"/v1/namespaces/{namespace}/tables/{table}/sign", json=request).status_code

    with delegating(lake, "remote-signing", token) as client:
        assert (sign(client, "GET", "sales.orders"), sign(client, "PUT", "sales.orders")) == (200, 200)
        assert (sign(client, "GET", "shared.rates"), sign(client, "PUT", "shared.rates")) == (200, 403)
        assert sign(client, "GET", "staff.salaries") == 404
