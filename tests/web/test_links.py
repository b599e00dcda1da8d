"""Every link of every page leads to a page, also after renames, in deleted table versions and without a schema."""

import pytest
from tests.web.conftest import crawl, visitor

from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects
from mangrove.wiring import build_engines_factory


def fill(lake: Lakehouse) -> str:
    """Fill a lakehouse with all kinds of objects, and return a version before the renames."""
    with lake.transaction() as first:
        first.create_namespace("shop")
        first.create_table("shop.orders", "id bigint, kind string", partition_by=["kind"])
        first.create_alias("store", "shop")
        first.create_alias("shop.bought", "shop.orders")
        first.create_view("shop.every", "select id from shop.orders", reads=["shop.orders"])
        first.create_view(
            "shop.some", "select id from shop.every", reads=["shop.every", "shop.orders.version_1", "x.y.z"]
        )
        first.create_table("shop.gone", "id bigint").append([{"id": 1}])
    table = lake.table("shop.orders")
    table.append([{"id": 1, "kind": "a"}])
    table.create_partition(("b",), "named")
    named = lake.version
    second = table.create_version("id bigint", partition_by=[], state="active")
    second.append([{"id": 2}])
    reload = second.create_stream("reload")
    reload.append([{"id": 3}, {"id": 4}])
    reload.commit_stream()
    with lake.transaction() as changes:
        orders = changes.table("shop.orders")
        orders.version(2).create_stream("staged").append([{"id": 5}])
        orders.create_version(schemaless=True).add_files({"a.csv": b"id\n1\n", "b.bin": b"x"})
        orders.version(1).set_state("deleted")
        changes.drop_table("shop.gone")
    lake.rename_table("shop.orders", "shop.sales")
    lake.rename_namespace("shop", "market")
    with lake.transaction() as last:
        last.table("store.sales").append([{"id": 6}])
        last.create_table("market.beta", "id bigint").append([{"id": 7}])
        last.table("market.beta").version(1).set_state("beta")
        last.create_table("market.files", schemaless=True).add_files({"c.csv": b"id\n1\n"})
        last.create_table("market.outside", "id int", table_type="external", table_format="PARQUET", location="s3://b/")
        last.drop_alias("market.bought")
    lake.begin_shared("load", ttl="6h")
    return str(named)


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
def test_every_link_of_every_page_leads_to_a_page(layout: str) -> None:
    effects = build_deterministic_effects(MemoryStore())
    lake = create_on_store(effects, layout=layout, engines=build_engines_factory())
    before = fill(lake)
    with visitor(lake) as client:
        seen = crawl(client, "/", "/search?text=a", versions=[before])
        for part in ("stream=staged", "table_version=3", "/changes?", "/partitions/named", "name=market%7Csales"):
            assert any(part in address for address in seen), part
        changes = client.get("/tables/market.sales/changes?table_version=2&to=2").text
        assert "there are no rows to compare: shop.orders has no table version 2" in changes
