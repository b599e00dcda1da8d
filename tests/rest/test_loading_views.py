"""Clients are told views whose columns are certain, and why the others are not there for them."""

from collections.abc import Callable

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchViewError
from pyiceberg.view import View
from starlette.testclient import TestClient

from mangrove.lakehouse.lakehouse import Lakehouse

Opening = Callable[..., RestCatalog]


def columns_of(view: View) -> list[tuple[str, str]]:
    (schema,) = view.metadata.schemas
    return [(field.name, str(field.field_type)) for field in schema.fields]


def test_a_view_is_loaded_with_its_query_and_columns(catalog: RestCatalog) -> None:
    view = catalog.load_view("sales.daily")
    (version,) = view.metadata.versions
    assert columns_of(view) == [("id", "long")]
    assert version.default_namespace == ("sales",)
    assert [(one.root.dialect, one.root.sql) for one in version.representations] == [
        ("spark", "select id from sales.orders")
    ]
    assert view.metadata.properties == {"comment": "By day"}


def test_the_columns_of_a_nested_view_are_derived_from_its_tables(lake: Lakehouse, catalog: RestCatalog) -> None:
    lake.create_view("sales.weekly", "select count(*) as n, max(id) as `Last` from daily")
    assert columns_of(catalog.load_view("sales.weekly")) == [("n", "long"), ("Last", "long")]


def test_unqualified_names_are_resolved_in_the_default_namespace_of_the_view(
    lake: Lakehouse, catalog: RestCatalog
) -> None:
    lake.create_view("`a.b`.far", "select customer from orders", properties={"sql.namespace": "sales"}, reads=[])
    view = catalog.load_view(("a.b", "far"))
    assert columns_of(view) == [("customer", "string")]
    assert view.metadata.versions[0].default_namespace == ("sales",)


def test_an_earlier_version_has_its_own_views(lake: Lakehouse, address: str, catalog_of: Opening) -> None:
    before = lake.version
    lake.create_view("sales.daily", "select customer from sales.orders", or_replace=True)
    past, newest = catalog_of(address, warehouse=str(before)), catalog_of(address)
    assert columns_of(past.load_view("sales.daily")) == [("id", "long")]
    assert columns_of(newest.load_view("sales.daily")) == [("customer", "string")]


@pytest.mark.parametrize(
    "query",
    [
        "select count(*) from sales.orders",
        "select strange(id) as s from sales.orders",
        "select id from sales.outside",
        "select id from sales.orders version as of 3",
        "select id from csv.`/tmp/a.csv`",
        "select id from one.two.three",
    ],
)
def test_a_view_whose_columns_require_spark_is_not_found(lake: Lakehouse, catalog: RestCatalog, query: str) -> None:
    lake.create_view("sales.unsure", query, reads=[])
    assert not catalog.view_exists("sales.unsure")
    with pytest.raises(NoSuchViewError, match="cannot be inferred without Spark"):
        catalog.load_view("sales.unsure")


def test_a_missing_view_is_not_found(catalog: RestCatalog, client: TestClient) -> None:
    with pytest.raises(NoSuchViewError):
        catalog.load_view("sales.orders")
    assert client.get("v1/namespaces/nowhere/views/daily").json()["error"]["type"] == "NoSuchViewException"
