"""Iceberg clients create tables without columns, which are tables without schema as long as they have none."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import BadRequestError, CommitFailedException, RESTError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType
from tests.rest.conftest import TOKEN, counted, served

import mangrove
from mangrove.errors import InvalidInputError
from mangrove.iceberg.commit.commit_request import parse_commit_request
from mangrove.iceberg.commit.transaction import TableCommit, commit_tables
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.model.locators import TableLocator
from mangrove.server.access import Access

WRITABLE = Access("127.0.0.1", TOKEN, is_writable=True)
ID = Schema(NestedField(1, "id", LongType(), required=True), identifier_field_ids=[1])
ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture(params=["tree", "deltacat"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(tmp_path / "lake", layout=request.param)
    lake.create_namespace("shop")
    return lake


@pytest.fixture
def catalog(lake: Lakehouse, catalog_of: Callable[..., RestCatalog]) -> Iterator[RestCatalog]:
    with served(counted(lake), WRITABLE) as address:
        yield catalog_of(address, token=TOKEN)


def test_a_table_begins_without_columns_and_gets_them_and_rows_later(lake: Lakehouse, catalog: RestCatalog) -> None:
    catalog.create_table("shop.raw", Schema(), properties={"owner": "ana"})
    table = catalog.load_table("shop.raw")
    assert (table.schema().fields, table.schema().schema_id, table.snapshots()) == ((), 0, [])
    assert table.properties["owner"] == "ana"
    table.transaction().set_properties(owner="bo").commit_transaction()
    with table.update_schema() as update:
        update.add_column("id", LongType())
        update.add_column("name", StringType())
    assert (table.schema().column_names, table.schema().schema_id) == (["id", "name"], 1)
    table.append(pa.table({"id": pa.array([1], pa.int64()), "name": ["ana"]}))
    with table.update_schema() as update:
        update.rename_column("name", "customer")
    assert lake.table("shop.raw").to_arrow().to_pylist() == [{"id": 1, "customer": "ana"}]
    assert catalog.load_table("shop.raw").properties["owner"] == "bo"
    assert lake.maintenance.check().problems == ()


def test_a_table_loses_its_last_column_only_if_it_was_never_written(lake: Lakehouse, catalog: RestCatalog) -> None:
    table = catalog.create_table("shop.orders", ID)
    with table.update_schema() as update:
        update.delete_column("id")
        update.set_identifier_fields()
    table = catalog.load_table("shop.orders")
    assert (table.schema().fields, table.schema().schema_id, table.metadata.last_column_id) == ((), 1, 1)
    with table.update_schema() as update:
        update.add_column("id", LongType())
    assert (table.schema().schema_id, [*table.schema().field_ids]) == (2, [2])
    table.append(ROWS)
    with pytest.raises(BadRequestError, match="needs at least one column"), table.update_schema() as update:
        update.delete_column("id")
    assert lake.table("shop.orders").count() == 2
    assert lake.maintenance.check().problems == ()


def replace_table(lake: Lakehouse, schema: Schema, spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC) -> None:
    """Replace the table as `CREATE OR REPLACE TABLE` does."""
    updates = [
        {"action": "remove-snapshot-ref", "ref-name": "main"},
        {"action": "add-schema", "schema": json.loads(schema.model_dump_json())},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": json.loads(spec.model_dump_json())},
        {"action": "set-default-spec", "spec-id": -1},
    ]
    request = parse_commit_request({"requirements": [], "updates": updates})
    commit_tables(lake, [TableCommit(TableLocator("shop", "raw"), request)])


def test_a_table_without_columns_is_replaced_by_one_with_partitions_and_back(
    lake: Lakehouse, catalog: RestCatalog
) -> None:
    catalog.create_table("shop.raw", Schema())
    replace_table(lake, ID, PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id")))
    catalog.load_table("shop.raw").append(pa.table(ROWS.to_pydict(), schema=ID.as_arrow()))
    assert set(lake.table("shop.raw").to_arrow()["id"].to_pylist()) == {1, 2}
    replace_table(lake, Schema())
    table = catalog.load_table("shop.raw")
    assert (table.schema().fields, table.snapshots()) == ((), [])
    with table.update_schema() as update:
        update.add_column("id", LongType())
    table.append(ROWS)
    assert lake.table("shop.raw").count() == 2
    assert lake.maintenance.check().problems == ()


def test_a_staged_table_gets_its_first_columns_in_the_commit_that_creates_it(
    lake: Lakehouse, catalog: RestCatalog
) -> None:
    with catalog.create_table_transaction("shop.staged", Schema()) as transaction:
        with transaction.update_schema() as update:
            update.add_column("id", LongType())
        transaction.append(ROWS)
    with catalog.create_table_transaction("shop.empty", Schema()):
        pass
    assert lake.table("shop.staged").count() == 2
    assert catalog.load_table("shop.empty").schema().fields == ()


def test_a_table_of_files_is_no_iceberg_table(lake: Lakehouse, catalog: RestCatalog, tmp_path: Path) -> None:
    photos = lake.create_table("shop.photos", schemaless=True)
    stale = catalog.load_table("shop.photos")
    (tmp_path / "photo.jpg").write_bytes(b"photo")
    photos.add_files([tmp_path / "photo.jpg"])
    with pytest.raises(RESTError, match="contains files without a schema"):
        catalog.load_table("shop.photos")
    with pytest.raises((BadRequestError, RESTError), match="contains files"), stale.update_schema() as update:
        update.add_column("id", LongType())
    assert len(photos.files()) == 1


def test_concurrent_clients_do_not_both_add_the_first_columns(lake: Lakehouse, catalog: RestCatalog) -> None:
    table = catalog.create_table("shop.raw", Schema())
    stale = catalog.load_table("shop.raw")
    with table.update_schema() as update:
        update.add_column("id", LongType())
    with pytest.raises(CommitFailedException, match="current schema"), stale.update_schema() as update:
        update.add_column("name", StringType())
    assert lake.table("shop.raw").to_arrow().column_names == ["id"]


def test_mangrove_adds_no_rows_to_a_table_without_columns(lake: Lakehouse, catalog: RestCatalog) -> None:
    catalog.create_table("shop.raw", Schema())
    with pytest.raises(InvalidInputError, match="has no schema"):
        lake.table("shop.raw").append([{"id": 1}])
