"""Statistics files of Iceberg clients are published with their snapshots, and vacuum keeps them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.types import LongType, NestedField
from tests.rest.conftest import TOKEN, counted, served

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.server.access import Access
from mangrove.tables.iceberg_names import MAX_SNAPSHOTS, STATISTICS

WRITABLE = Access("127.0.0.1", TOKEN, is_writable=True)
IDS = Schema(NestedField(1, "id", LongType()))


@pytest.fixture(params=["tree", "deltacat"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(tmp_path / "lake", layout=request.param)
    lake.create_namespace("shop")
    return lake


@pytest.fixture
def catalog(lake: Lakehouse, catalog_of: Callable[..., RestCatalog]) -> Iterator[RestCatalog]:
    with served(counted(lake), WRITABLE) as address:
        yield catalog_of(address, token=TOKEN)


@pytest.fixture
def table(catalog: RestCatalog) -> IcebergTable:
    table: IcebergTable = catalog.create_table("shop.orders", IDS)
    table.append(rows_of(1))
    return table


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def current_id_of(table: IcebergTable) -> int:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def write_statistics(
    lake: Lakehouse, table: IcebergTable, name: str, *, folder: str = "metadata", ndv: str = "1"
) -> StatisticsFile:
    """Write a file as Trino does, and return what is said of it."""
    snapshot_id = current_id_of(table)
    path = f"data/{table.metadata.table_uuid}/{folder}/{name}.stats"
    lake.effects.store.put(path, b"PFA1")
    blob = {"type": "apache-datasketches-theta-v1", "snapshot-id": snapshot_id, "sequence-number": 1, "fields": [1]}
    return StatisticsFile.model_validate(
        {
            "snapshot-id": snapshot_id,
            "statistics-path": f"{table.location().removesuffix('iceberg/staging')}{folder}/{name}.stats",
            "file-size-in-bytes": 4,
            "file-footer-size-in-bytes": 2,
            "blob-metadata": [{**blob, "properties": {"ndv": ndv}}],
        }
    )


def set_statistics(table: IcebergTable, *files: StatisticsFile) -> None:
    with table.update_statistics() as update:
        for file in files:
            update.set_statistics(file)


def statistics_of(catalog: RestCatalog) -> list[StatisticsFile]:
    statistics: list[StatisticsFile] = catalog.load_table("shop.orders").metadata.statistics
    return statistics


def list_files(lake: Lakehouse) -> set[str]:
    return {one.path.rpartition("/")[2] for one in lake.effects.store.list("data/") if one.path.endswith(".stats")}


def test_statistics_are_published_with_their_snapshot_after_later_commits(
    lake: Lakehouse, catalog: RestCatalog, table: IcebergTable
) -> None:
    first = write_statistics(lake, table, "first")
    snapshot_ids = [one.snapshot_id for one in table.snapshots()]
    set_statistics(table, first)
    assert table.metadata.statistics == statistics_of(catalog) == [first]
    assert [one.snapshot_id for one in table.snapshots()] == snapshot_ids
    table.append(rows_of(2))
    second = write_statistics(lake, table, "second", folder="iceberg/staging/metadata")
    set_statistics(table, second)
    lake.table("shop.orders").append([{"id": 3}])
    assert statistics_of(catalog) == [first, second]
    assert STATISTICS not in table.properties
    with table.update_statistics() as update:
        update.remove_statistics(first.snapshot_id)
    assert statistics_of(catalog) == [second]
    assert sorted(lake.table("shop.orders").to_arrow()["id"].to_numpy().tolist()) == [1, 2, 3]
    assert lake.maintenance.check().problems == ()


def test_a_file_outside_the_folder_of_the_table_does_not_replace_recorded_statistics(
    lake: Lakehouse, catalog: RestCatalog, table: IcebergTable
) -> None:
    first = write_statistics(lake, table, "first")
    set_statistics(table, first)
    outside = first.model_copy(update={"statistics_path": "file:///elsewhere/other.stats"})
    set_statistics(catalog.load_table("shop.orders"), outside)
    assert statistics_of(catalog) == [first]


def test_a_vacuum_keeps_statistics_until_no_version_has_them(
    lake: Lakehouse, catalog: RestCatalog, table: IcebergTable
) -> None:
    used, unused = (write_statistics(lake, table, name) for name in ("used", "unused"))
    set_statistics(table, unused)
    set_statistics(table, used)
    lake.maintenance.vacuum(alone=True)
    assert (list_files(lake), statistics_of(catalog)) == ({"used.stats", "unused.stats"}, [used])
    lake.alter(maximum_version_age_millis=1, minimum_versions_to_keep=1)
    lake.maintenance.expire(alone=True)
    lake.maintenance.vacuum(alone=True)
    assert (list_files(lake), statistics_of(catalog)) == ({"used.stats"}, [used])
    with table.refresh().update_statistics() as update:
        update.remove_statistics(used.snapshot_id)
    lake.maintenance.expire(alone=True)
    lake.maintenance.vacuum(alone=True)
    assert list_files(lake) == set()


def test_statistics_that_no_client_can_read_are_not_published(
    lake: Lakehouse, catalog: RestCatalog, table: IcebergTable
) -> None:
    outside = write_statistics(lake, table, "outside").model_copy(update={"statistics_path": "s3://other/a.stats"})
    set_statistics(table, outside)
    assert statistics_of(catalog) == []
    missing = write_statistics(lake, table, "missing")
    lake.effects.store.delete_many([f"data/{table.metadata.table_uuid}/metadata/missing.stats"])
    set_statistics(table, missing)
    assert statistics_of(catalog) == []
    set_statistics(table, write_statistics(lake, table, "there"))
    table.transaction().set_properties({MAX_SNAPSHOTS: "1"}).commit_transaction()
    table.append(rows_of(2))
    assert statistics_of(catalog) == []
    lake.table("shop.orders").alter({STATISTICS: '[{"statistics-path": 7}]'})
    assert statistics_of(catalog) == []


def test_the_newest_statistics_are_kept_within_a_limit(
    lake: Lakehouse, catalog: RestCatalog, table: IcebergTable
) -> None:
    for number in range(7):
        table.append(rows_of(number))
        set_statistics(table, write_statistics(lake, table, f"n{number}"))
    names = [one.statistics_path.rpartition("/")[2] for one in statistics_of(catalog)]
    assert names == [f"n{number}.stats" for number in range(2, 7)]
    set_statistics(table, write_statistics(lake, table, "large", ndv="9" * 70_000))
    assert len(statistics_of(catalog)) == 4


def test_the_statistics_of_an_older_version_are_restored_with_the_table(
    lake: Lakehouse, catalog: RestCatalog, table: IcebergTable
) -> None:
    set_statistics(table, write_statistics(lake, table, "kept"))
    version = lake.version
    with table.update_statistics() as update:
        update.remove_statistics(current_id_of(table))
    lake.table("shop.orders").rollback(version)
    assert len(statistics_of(catalog)) == 1
