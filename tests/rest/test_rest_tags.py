"""Tags of Iceberg clients: they pin a version, are published with the table, and are found by name."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import BadRequestError, CommitFailedException, ForbiddenError
from pyiceberg.table import Table as IcebergTable
from pyiceberg.types import LongType
from tests.rest.conftest import TOKEN, counted, served

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.server.access import Access
from mangrove.tables.iceberg_names import MAX_SNAPSHOTS

Opening = Callable[..., RestCatalog]
WRITABLE = Access("127.0.0.1", TOKEN, is_writable=True)
DAY_MILLIS = 24 * 60 * 60 * 1_000


@pytest.fixture(params=["tree", "deltacat"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(tmp_path / "lake", layout=request.param)
    lake.create_namespace("shop")
    return lake


@pytest.fixture
def catalog(lake: Lakehouse, catalog_of: Opening) -> Iterator[RestCatalog]:
    with served(counted(lake), WRITABLE) as address:
        yield catalog_of(address, token=TOKEN)


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def create_table(catalog: RestCatalog, *, count: int = 2) -> IcebergTable:
    table: IcebergTable = catalog.create_table("shop.orders", rows_of().schema)
    for number in range(1, count + 1):
        table.append(rows_of(number))
    return table


def read_tag(table: IcebergTable, name: str) -> list[Any]:
    snapshot = table.snapshot_by_name(name)
    assert snapshot is not None
    ids: list[Any] = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()["id"].to_pylist()
    return sorted(ids)


def current_id_of(table: IcebergTable) -> int:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def tags_of(table: IcebergTable) -> set[str]:
    return set(table.refs()) - {"main"}


def expire_all(lake: Lakehouse) -> None:
    """Expire all versions but the newest and the pinned ones, and vacuum."""
    lake.alter(maximum_version_age_millis=1, minimum_versions_to_keep=1)
    lake.maintenance.expire(alone=True)
    lake.maintenance.vacuum(alone=True)


def test_a_client_tags_a_snapshot_and_reads_it_by_name(lake: Lakehouse, catalog: RestCatalog) -> None:
    table = create_table(catalog)
    first, second = (one.snapshot_id for one in table.snapshots())
    table.manage_snapshots().create_tag(first, "opening").create_tag(second, "2026 Q1").commit()
    assert tags_of(table) == {"opening", "2026 Q1"}
    table = catalog.load_table("shop.orders")
    assert (read_tag(table, "opening"), read_tag(table, "2026 Q1")) == ([1], [1, 2])
    assert [one.version for one in lake.tags()] == [lake.version - 1, lake.version - 2]
    assert lake.maintenance.check().problems == ()


def test_a_tag_keeps_its_snapshot_after_expiry_and_vacuum(lake: Lakehouse, catalog: RestCatalog) -> None:
    table = create_table(catalog, count=3)
    tagged = table.snapshots()[1].snapshot_id
    table.manage_snapshots().create_tag(tagged, "kept").commit()
    with table.update_schema() as update:
        update.add_column("more", LongType())
    lake.table("shop.orders").append([{"id": 9}])
    expire_all(lake)
    table = catalog.load_table("shop.orders")
    assert read_tag(table, "kept") == [1, 2]
    assert table.refs()["kept"].snapshot_id == tagged
    assert tagged not in {one.snapshot_id for one in table.metadata.snapshot_log}
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 9]
    lake.table("shop.orders").append([{"id": 10}])
    assert read_tag(table.refresh(), "kept") == [1, 2]
    table.manage_snapshots().remove_tag("kept").commit()
    assert tags_of(table) == set()
    assert tagged not in {one.snapshot_id for one in table.snapshots()}
    assert lake.tags() == []
    assert lake.maintenance.check().problems == ()


def test_a_tag_that_is_not_listed_is_removed_but_not_replaced(lake: Lakehouse, catalog: RestCatalog) -> None:
    lake.create_table("shop.orders", "id bigint, day int", partition_by=["day"]).append([{"id": 1, "day": 1}])
    table = catalog.load_table("shop.orders")
    table.manage_snapshots().create_tag(current_id_of(table), "kept").commit()
    pinned = [(one.name, one.version) for one in lake.tags()]
    with table.transaction() as transaction:
        with transaction.update_spec() as spec:
            spec.remove_field("day")
        with transaction.update_schema() as schema:
            schema.delete_column("day")
    table = catalog.load_table("shop.orders")
    assert tags_of(table) == set()
    with pytest.raises(CommitFailedException, match="'kept' of the table exists, but is not listed"):
        table.manage_snapshots().create_tag(current_id_of(table), "kept").commit()
    assert [(one.name, one.version) for one in lake.tags()] == pinned
    removed = {"action": "remove-snapshot-ref", "ref-name": "kept"}
    url = f"{catalog.uri}/v1/namespaces/shop/tables/orders"
    assert catalog._session.post(url, json={"requirements": [], "updates": [removed]}).status_code == 200
    assert lake.tags() == []
    table.refresh().manage_snapshots().create_tag(current_id_of(table), "kept").commit()
    assert tags_of(table.refresh()) == {"kept"}


def test_a_tag_before_the_listed_snapshots_stays(lake: Lakehouse, catalog: RestCatalog) -> None:
    table = create_table(catalog)
    table.manage_snapshots().create_tag(table.snapshots()[0].snapshot_id, "first").commit()
    table = table.transaction().set_properties({MAX_SNAPSHOTS: "1"}).commit_transaction()
    for number in (3, 4):
        table.append(rows_of(number))
        assert read_tag(table, "first") == [1]
        assert len(table.snapshots()) == 2
    assert read_tag(catalog.load_table("shop.orders"), "first") == [1]
    table.manage_snapshots().rollback_to_snapshot(current_id_of(table)).commit()
    table.manage_snapshots().set_current_snapshot(ref_name="first").commit()
    assert lake.table("shop.orders").to_arrow()["id"].to_pylist() == [1]


def test_a_tag_belongs_to_one_table_also_after_a_rename(lake: Lakehouse, catalog: RestCatalog) -> None:
    table = create_table(catalog)
    other = catalog.create_table("shop.other", rows_of().schema)
    other.append(rows_of(7))
    table.manage_snapshots().create_tag(current_id_of(table), "mine").commit()
    assert tags_of(other.refresh()) == set()
    other.manage_snapshots().create_tag(current_id_of(other), "mine").commit()
    catalog.rename_table("shop.orders", "shop.sales")
    assert read_tag(catalog.load_table("shop.sales"), "mine") == [1, 2]
    assert read_tag(catalog.load_table("shop.other"), "mine") == [7]


def test_a_rollback_and_a_tag_are_one_version(lake: Lakehouse, catalog: RestCatalog) -> None:
    table = create_table(catalog)
    first, second = (one.snapshot_id for one in table.snapshots())
    before = lake.version
    table.manage_snapshots().create_tag(second, "before").rollback_to_snapshot(first).commit()
    assert lake.version == before + 1
    assert lake.table("shop.orders").to_arrow()["id"].to_pylist() == [1]
    assert read_tag(table, "before") == [1, 2]


def test_a_tag_with_a_maximum_age_pins_its_version_until_then(lake: Lakehouse, catalog: RestCatalog) -> None:
    table = create_table(catalog)
    first, second = table.snapshots()
    table.manage_snapshots().create_tag(first.snapshot_id, "brief", max_ref_age_ms=1).commit()
    table.manage_snapshots().create_tag(second.snapshot_id, "long", max_ref_age_ms=DAY_MILLIS).commit()
    assert table.refs()["long"].max_ref_age_ms == DAY_MILLIS
    expire_all(lake)
    assert tags_of(catalog.load_table("shop.orders")) == {"long"}
    assert lake.maintenance.check().problems == ()


def test_a_tag_is_moved_and_a_concurrent_change_of_it_is_a_conflict(lake: Lakehouse, catalog: RestCatalog) -> None:
    table = create_table(catalog)
    first, second = (one.snapshot_id for one in table.snapshots())
    stale = catalog.load_table("shop.orders")
    table.manage_snapshots().create_tag(first, "moving").commit()
    with pytest.raises(CommitFailedException, match="moving was created concurrently"):
        stale.manage_snapshots().create_tag(second, "moving").commit()
    table.manage_snapshots().create_tag(second, "moving").commit()
    assert read_tag(table, "moving") == [1, 2]


def test_names_of_versions_and_branches_are_not_changed_by_clients(lake: Lakehouse, catalog: RestCatalog) -> None:
    table = create_table(catalog)
    first, second = (one.snapshot_id for one in table.snapshots())
    lake.tag("closing")
    table.refresh()
    with pytest.raises(BadRequestError, match="'closing' is the name of a version of the lakehouse"):
        table.manage_snapshots().create_tag(first, "closing").commit()
    with pytest.raises(BadRequestError, match="'closing' is the name of a version of the lakehouse"):
        table.manage_snapshots().remove_tag("closing").commit()
    with pytest.raises(BadRequestError, match="unsupported branch 'audit'; a table has only the branch main"):
        table.manage_snapshots().create_branch(second, "audit").commit()
    with pytest.raises(BadRequestError, match="invalid export name"):
        table.manage_snapshots().create_tag(second, "x" * 200).commit()
    assert tags_of(catalog.load_table("shop.orders")) == {"closing"}


def test_the_server_plans_scans_of_a_tagged_snapshot(lake: Lakehouse, catalog: RestCatalog) -> None:
    table = create_table(catalog)
    table.manage_snapshots().create_tag(table.snapshots()[0].snapshot_id, "first").commit()
    expire_all(lake)
    planned = RestCatalog("planned", uri=catalog.uri, token=TOKEN, **{"scan-planning-mode": "server"})
    assert read_tag(planned.load_table("shop.orders"), "first") == [1]


def test_a_principal_needs_manage_on_the_lakehouse_to_tag(lake: Lakehouse, catalog_of: Opening) -> None:
    lake.create_table("shop.orders", "id bigint").append([{"id": 1}])
    token = lake.access.create_principal("ana")
    lake.access.grant("write", "shop", to="ana")
    with served(counted(lake), WRITABLE) as address:
        table = catalog_of(address, token=token).load_table("shop.orders")
        with pytest.raises(ForbiddenError):
            table.manage_snapshots().create_tag(current_id_of(table), "mine").commit()
        lake.access.grant("manage", None, to="ana")
        table.manage_snapshots().create_tag(current_id_of(table), "mine").commit()
        assert read_tag(table, "mine") == [1]
