"""Identifier fields inside structs are published as a client set them, and are no keys."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import BadRequestError
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, StructType
from tests.rest.conftest import TOKEN, counted, served

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.model.objects import IDENTIFIER_FIELDS
from mangrove.server.access import Access

PLACE = StructType(NestedField(3, "zip", IntegerType(), required=True), NestedField(4, "note", IntegerType()))
COLUMNS = NestedField(1, "id", LongType(), required=True), NestedField(2, "place", PLACE, required=True)
ROW = {"id": 1, "place": {"zip": 7, "note": None}}


@pytest.fixture(params=["tree", "deltacat"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(tmp_path / "lake", layout=request.param)
    lake.create_namespace("shop")
    return lake


@pytest.fixture
def catalog(lake: Lakehouse, catalog_of: Callable[..., RestCatalog]) -> Iterator[RestCatalog]:
    with served(counted(lake), Access("127.0.0.1", TOKEN, is_writable=True)) as address:
        yield catalog_of(address, token=TOKEN)


def test_a_field_inside_a_struct_identifies_rows_for_clients_and_is_no_key(
    lake: Lakehouse, catalog: RestCatalog
) -> None:
    table = catalog.create_table("shop.t", Schema(*COLUMNS, identifier_field_ids=[1, 3]))
    table.append(pa.Table.from_pylist([ROW], schema=table.schema().as_arrow()))
    with table.update_schema() as update:
        update.add_column("more", IntegerType())
    lake.table("shop.t").append([{**ROW, "more": 2}])
    assert catalog.load_table("shop.t").schema().identifier_field_names() == {"id", "place.zip"}
    assert (lake.table("shop.t").count(), lake.table("shop.t").keys) == (2, ())
    assert IDENTIFIER_FIELDS not in lake.table("shop.t").properties
    with table.refresh().update_schema() as update:
        update.set_identifier_fields("place.zip")
    assert table.schema().identifier_field_names() == {"place.zip"}
    with table.update_schema() as update:
        update.set_identifier_fields("id")
    assert (table.schema().identifier_field_names(), lake.table("shop.t").keys) == ({"id"}, ("id",))
    assert lake.maintenance.check().problems == ()


def test_keys_become_identifiers_inside_a_struct_only_while_no_delta_refers_to_them(
    lake: Lakehouse, catalog: RestCatalog
) -> None:
    table = catalog.create_table("shop.t", Schema(*COLUMNS, identifier_field_ids=[1]))
    lake.table("shop.t").upsert([ROW])
    update = table.refresh().update_schema()
    update.set_identifier_fields("place.zip")
    with pytest.raises(BadRequestError, match="the identifier fields are the table's keys"):
        update.commit()
    assert catalog.load_table("shop.t").schema().identifier_field_names() == {"id"}
