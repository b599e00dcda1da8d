"""Iceberg clients use aliases: they load, list and commit by them, and see each table once."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import BadRequestError
from tests.rest.conftest import TOKEN, counted, filled, served

from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.server.access import Access

WRITABLE = Access("127.0.0.1", TOKEN, is_writable=True)


@pytest.fixture(params=["tree", "deltacat"])
def shop(tmp_path: Path, request: pytest.FixtureRequest) -> Lakehouse:
    lake = filled(tmp_path / "lake", request.param)
    lake.create_alias("sales.purchases", "sales.orders")
    lake.create_alias("store", "sales")
    return lake


@pytest.fixture
def catalog(shop: Lakehouse, catalog_of: Callable[..., RestCatalog]) -> Iterator[RestCatalog]:
    with served(counted(shop), WRITABLE) as address:
        yield catalog_of(address, token=TOKEN)


def test_a_client_loads_lists_and_appends_by_alias(shop: Lakehouse, catalog: RestCatalog) -> None:
    assert catalog.list_tables("store") == [("store", "orders")]
    assert catalog.list_views("store") == [("store", "daily")]
    table = catalog.load_table("store.purchases")
    assert table.scan().to_arrow().num_rows == 3
    rows = pa.table({"id": [4], "customer": ["di"]}, schema=table.schema().as_arrow())
    table.append(rows)
    assert shop.table("sales.orders").to_arrow().num_rows == 4
    made = catalog.create_table("store.items", table.schema())
    assert str(shop.table("sales.items").id) == str(made.metadata.table_uuid)
    with pytest.raises(BadRequestError, match="alias"):
        catalog.drop_table("sales.purchases")
