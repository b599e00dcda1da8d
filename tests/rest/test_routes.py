"""PyIceberg as a client: it finds namespaces, tables and views, at the newest version and at past ones."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    NoSuchNamespaceError,
    OAuthError,
    RESTError,
    UnauthorizedError,
)
from starlette.testclient import TestClient
from tests.rest.conftest import TOKEN, counted, filled, request_info, served

from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.rest.settings import RestSettings
from mangrove.server.access import Access

Opening = Callable[..., RestCatalog]


def test_namespaces_are_listed_with_their_properties(catalog: RestCatalog) -> None:
    assert catalog.list_namespaces() == [("a.b",), ("sales",)]
    assert catalog.load_namespace_properties("sales") == {"owner": "ana", "comment": "What was sold"}
    assert catalog.load_namespace_properties(("a.b",)) == {}
    assert catalog.namespace_exists("sales")


def test_a_namespace_has_no_child_namespaces(catalog: RestCatalog) -> None:
    assert catalog.list_namespaces("sales") == []
    with pytest.raises(NoSuchNamespaceError):
        catalog.list_namespaces("nowhere")


@pytest.mark.parametrize("name", ["nowhere", ("sales", "orders"), ("two words",), ("a|b",), ("x" * 200,)])
def test_a_missing_or_invalid_namespace_is_not_found(catalog: RestCatalog, name: tuple[str, ...]) -> None:
    assert not catalog.namespace_exists(name)
    with pytest.raises(NoSuchNamespaceError):
        catalog.load_namespace_properties(name)
    with pytest.raises(NoSuchNamespaceError):
        catalog.list_tables(name)
    with pytest.raises(NoSuchNamespaceError):
        catalog.list_views(name)


def test_tables_are_listed_whose_rows_the_lakehouse_keeps(catalog: RestCatalog) -> None:
    assert catalog.list_tables("sales") == [("sales", "orders")]
    assert catalog.list_tables(("a.b",)) == []
    assert catalog.table_exists("sales.orders")
    assert not catalog.table_exists("sales.outside")
    assert not catalog.table_exists("sales.daily")
    assert not catalog.table_exists("sales.nothing")
    assert not catalog.table_exists("nowhere.nothing")


def test_views_are_listed(catalog: RestCatalog) -> None:
    assert catalog.list_views("sales") == [("sales", "daily")]
    assert catalog.view_exists("sales.daily")
    assert not catalog.view_exists("sales.orders")


def test_a_listing_is_paged_if_the_client_requests_it(lake: Lakehouse, catalog_of: Opening) -> None:
    for number in range(7):
        lake.create_table(f"sales.t{number}", "id int")
    with served(counted(lake)) as address:
        catalog = catalog_of(address, **{"rest-page-size": "3"})
        assert catalog.list_tables("sales") == [("sales", "orders"), *(("sales", f"t{n}") for n in range(7))]
        assert catalog.list_namespaces() == [("a.b",), ("sales",)]


def test_two_versions_are_read_at_the_same_time(lake: Lakehouse, address: str, catalog_of: Opening) -> None:
    before = lake.version
    lake.create_table("sales.later", "id int")
    newest, past = catalog_of(address), catalog_of(address, warehouse=str(before))
    at_a_time = catalog_of(address, warehouse=lake.at(before).created_at.isoformat())
    assert newest.list_tables("sales") == [("sales", "later"), ("sales", "orders")]
    assert past.list_tables("sales") == at_a_time.list_tables("sales") == [("sales", "orders")]
    lake.drop_table("sales.orders")
    assert newest.list_tables("sales") == [("sales", "later")]
    assert past.list_tables("sales") == [("sales", "orders")]


def test_an_export_is_a_warehouse(lake: Lakehouse, tmp_path: object, address: str, catalog_of: Opening) -> None:
    lake.maintenance.export(f"{tmp_path}/copy", name="year-end", mode="minimal")
    lake.drop_table("sales.orders")
    assert catalog_of(address, warehouse="year-end").list_tables("sales") == [("sales", "orders")]


def test_the_address_of_the_lakehouse_is_a_warehouse_too(tmp_path: Path, catalog_of: Opening) -> None:
    lake = filled(tmp_path / "my lake")
    assert "%20" in lake.uri
    with served(counted(lake)) as address:
        written = lake.uri.replace("%20", " ")
        folder = written.removeprefix("file://")
        for warehouse in (lake.uri, lake.uri.rstrip("/"), written, folder, folder.rstrip("/"), f"{folder}../my lake"):
            assert "prefix" not in catalog_of(address, warehouse=warehouse).properties


@pytest.mark.parametrize("warehouse", ["", "default", "lake"])
def test_a_client_that_needs_a_warehouse_may_name_the_lakehouse(
    address: str, catalog_of: Opening, warehouse: str
) -> None:
    assert "prefix" not in catalog_of(address, warehouse=warehouse).properties


def test_the_server_has_names_of_its_own_for_the_newest_version(lake: Lakehouse, catalog_of: Opening) -> None:
    lake.tag("prod", 3)
    with served(counted(lake), settings=RestSettings(warehouses=("prod", "2026-99-99"))) as address:
        for warehouse in ("prod", "2026-99-99"):
            assert "prefix" not in catalog_of(address, warehouse=warehouse).properties
        with pytest.raises(RESTError, match="'prod' or '2026-99-99' for the newest version"):
            catalog_of(address, warehouse="other")


def test_a_tag_with_the_name_of_the_lakehouse_selects_its_version(
    lake: Lakehouse, address: str, catalog_of: Opening
) -> None:
    lake.tag("default", 3)
    assert catalog_of(address, warehouse="default").properties["prefix"] == "version-3"


def test_an_unknown_warehouse_is_refused_with_the_known_ones(client: TestClient) -> None:
    answer = client.get("v1/config?warehouse=other")
    assert answer.status_code == 404
    assert "'default' or 'lake' for the newest version" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "error_type", "message"),
    [
        ("namespaces/nowhere", "NoSuchNamespaceException", "Namespace does not exist: nowhere"),
        ("namespaces/nowhere/tables", "NoSuchNamespaceException", "Namespace does not exist: nowhere"),
        ("namespaces/sales/tables/none", "NoSuchTableException", "Table does not exist: sales.none"),
        ("namespaces/nowhere/tables/orders", "NoSuchTableException", "Table does not exist: nowhere.orders"),
        ("namespaces/sales/tables/daily", "NoSuchTableException", "Table does not exist: sales.daily"),
        ("namespaces/sales/views/orders", "NoSuchViewException", "View does not exist: sales.orders"),
        ("namespaces/now-here/views/daily", "NoSuchViewException", "View does not exist: now-here.daily"),
        ("namespaces/a%1Fb/tables/orders", "NoSuchTableException", "Table does not exist: 'a.b' has several levels"),
        ("namespaces/sales/views/none", "NoSuchViewException", "View does not exist: sales.none"),
    ],
)
def test_a_missing_object_has_the_standard_type_and_sentence(
    client: TestClient, path: str, error_type: str, message: str
) -> None:
    answer = client.get(f"v1/{path}")
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["type"]) == (404, 404, error_type)
    assert error["message"].startswith(message)


@pytest.mark.parametrize(
    "warehouse", ["99", "no-such-export", "2000-01-01", "s3://elsewhere/lake", "/elsewhere/lake", "./lake"]
)
def test_a_missing_warehouse_is_rejected(address: str, catalog_of: Opening, warehouse: str) -> None:
    with pytest.raises(RESTError, match="NoSuchWarehouseException"):
        catalog_of(address, warehouse=warehouse)


def test_an_invalid_warehouse_is_rejected(address: str, catalog_of: Opening) -> None:
    with pytest.raises(BadRequestError, match="is no time"):
        catalog_of(address, warehouse="2026-99-99")


@pytest.fixture
def guarded(lake: Lakehouse) -> Iterator[str]:
    with served(counted(lake), Access("127.0.0.1", TOKEN)) as found:
        yield found


def test_a_client_authenticates_with_the_token(guarded: str, catalog_of: Opening) -> None:
    assert catalog_of(guarded, token=TOKEN).list_namespaces() == [("a.b",), ("sales",)]
    for wrong in ({}, {"token": "wrong"}):
        with pytest.raises(UnauthorizedError, match="NotAuthorizedException"):
            catalog_of(guarded, **wrong)


@pytest.mark.parametrize("credential", [TOKEN, f"somebody:{TOKEN}"])
def test_the_token_is_issued_to_a_client_whose_secret_is_the_token(
    guarded: str, catalog_of: Opening, credential: str
) -> None:
    endpoint = f"{guarded}/v1/oauth/tokens"
    catalog = catalog_of(guarded, credential=credential, **{"oauth2-server-uri": endpoint})
    assert catalog.list_tables("sales") == [("sales", "orders")]
    with pytest.raises(OAuthError, match="invalid_client"):
        catalog_of(guarded, credential="somebody:wrong", **{"oauth2-server-uri": endpoint})


EXCHANGE = {
    "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
    "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
}


@pytest.mark.parametrize(
    ("form", "status", "error"),
    [
        ({"grant_type": "client_credentials", "client_secret": TOKEN}, 200, None),
        ({"grant_type": "client_credentials", "client_secret": "wrong"}, 401, "invalid_client"),
        ({"grant_type": "client_credentials"}, 401, "invalid_client"),
        ({**EXCHANGE, "subject_token": TOKEN}, 200, None),
        ({**EXCHANGE, "subject_token": "wrong"}, 401, "invalid_client"),
        (EXCHANGE, 400, "invalid_request"),
        ({"grant_type": EXCHANGE["grant_type"], "subject_token": TOKEN}, 400, "invalid_request"),
        ({"grant_type": "password", "username": "ana", "password": TOKEN}, 400, "unsupported_grant_type"),
        ({}, 400, "invalid_request"),
    ],
)
def test_the_token_endpoint_answers_as_oauth_requires(
    lake: Lakehouse, form: dict[str, str], status: int, error: str | None
) -> None:
    with request_info(counted(lake), Access("127.0.0.1", TOKEN)) as client:
        answer = client.post("v1/oauth/tokens", data=form)
    found = answer.json()
    assert (answer.status_code, found.get("error")) == (status, error)
    assert answer.headers["Cache-Control"] == "no-store"
    assert ("WWW-Authenticate" in answer.headers) == (status == 401)
    if error is None:
        assert (found["access_token"], found["token_type"], found["scope"]) == (TOKEN, "bearer", "catalog")
        assert ("issued_token_type" in found) == ("subject_token" in form)


def test_an_unnecessary_credential_is_ignored(address: str, catalog_of: Opening) -> None:
    catalog = catalog_of(address, credential="a:b", **{"oauth2-server-uri": f"{address}/v1/oauth/tokens"})
    assert catalog.namespace_exists("sales")


def test_a_read_only_server_reports_unsupported_operations(catalog: RestCatalog) -> None:
    with pytest.raises(RuntimeError, match="does not support endpoint"):
        catalog.create_namespace("more")
