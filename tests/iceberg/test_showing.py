"""Tables shown as Iceberg tables, read back by PyIceberg."""

from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

import mangrove
from mangrove.iceberg.showing import Shown, show
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.table_staging import table_state
from mangrove.model.locators import TableLocator
from mangrove.storage.opening import open_store

LAYOUTS = ["tree", "deltacat"]
SALES = TableLocator("shop", "sales")


@pytest.fixture(params=LAYOUTS)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    found = mangrove.create(tmp_path / "a lake", layout=request.param)
    found.create_namespace("shop")
    return found


def shown(lake: Lakehouse, at: int | None = None) -> Shown:
    reading = lake.reading() if at is None else lake.at(at).reading()
    return show(open_store(lake.uri), table_state(reading, SALES), 1_700_000_000_000)


def rows(found: Shown) -> list[dict[str, object]]:
    return StaticTable.from_metadata(found.metadata_address).scan().to_arrow().to_pylist()


def test_an_appended_table_is_read_by_pyiceberg_from_the_metadata_file_alone(lake: Lakehouse) -> None:
    sales = lake.create_table("shop.sales", "id bigint not null, what string")
    sales.append([{"id": 1, "what": "lamp"}, {"id": 2, "what": None}])
    sales.append([{"id": 3, "what": "rug"}])
    found = shown(lake)
    assert rows(found) == sales.to_arrow().to_pylist()
    assert found.location.endswith(f"data/{sales.id}")
    assert found.metadata_address.startswith(f"{found.location}/metadata/")
