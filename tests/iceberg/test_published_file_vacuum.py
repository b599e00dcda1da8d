"""Vacuum and check beside files that show tables to Iceberg."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

import mangrove
from mangrove.effects import build_effects
from mangrove.errors import FormatError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.table import Table
from mangrove.lakehouse.table_snapshot import TableSnapshot
from mangrove.maintenance.context import MaintenanceContext
from mangrove.maintenance.vacuum import vacuum_files
from mangrove.storage.port import ObjectInfo
from mangrove.tables.iceberg_names import METADATA_SUFFIX, PARTS_SUFFIX, decode_part_paths, published_folder_of
from mangrove.testing.faulty_store import Faults, FaultyStore, SimulatedCrash


@pytest.fixture(params=["tree", "deltacat"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(tmp_path / "lake", layout=request.param)
    lake.create_namespace("shop")
    sales = lake.create_table("shop.sales", "id bigint not null, what string", keys=["id"])
    sales.append([{"id": number, "what": "old"} for number in range(10)])
    sales.upsert([{"id": 5, "what": "new"}])
    return lake


def published_paths(lake: Lakehouse, table: Table) -> set[str]:
    return {
        entry.path for entry in lake.effects.store.list(published_folder_of(table.id)) if isinstance(entry, ObjectInfo)
    }


def written_at(address: str, seconds: int) -> None:
    """Say when a file was written: those of one tick are equally old."""
    os.utime(address.removeprefix("file://"), (seconds, seconds))


def rows(address: str) -> list[dict[str, Any]]:
    return sorted(StaticTable.from_metadata(address).scan().to_arrow().to_pylist(), key=repr)


def own_rows(table: TableSnapshot) -> list[dict[str, Any]]:
    return sorted(table.to_arrow().to_pylist(), key=repr)


def test_vacuum_retains_the_published_metadata_of_the_newest_state(lake: Lakehouse) -> None:
    sales = lake.table("shop.sales")
    address = sales.iceberg()
    before = published_paths(lake, sales)
    assert list(lake.maintenance.check()) == []
    lake.maintenance.vacuum(alone=True)
    assert published_paths(lake, sales) == before
    assert rows(address) == own_rows(sales)


@pytest.mark.parametrize("keys", [[], ["id"], ["id", "what"]], ids=["without keys", "one log", "logs by partition"])
def test_vacuum_retains_the_published_metadata_of_a_partitioned_table(lake: Lakehouse, keys: list[str]) -> None:
    table = lake.create_table(
        "shop.divided", "id bigint not null, what string not null", keys=keys, partition_by=["what"]
    )
    before = lake.version
    table.append([{"id": number, "what": "abc"[number % 3]} for number in range(9)])
    address = table.iceberg()
    # Shown later, so that the newest state is not what was shown last.
    written_at(lake.at(before).table("shop.divided").iceberg(), 2_000_000_000)
    assert table.iceberg() == address
    kept = published_paths(lake, table)
    lake.effects.store.put(f"{published_folder_of(table.id)}stray", b"")
    lake.maintenance.vacuum(alone=True)
    assert published_paths(lake, table) == kept
    assert rows(address) == own_rows(table)


def test_vacuum_retains_only_the_newest_and_the_last_published_state(lake: Lakehouse) -> None:
    sales = lake.table("shop.sales")
    versions, addresses = [], []
    for number in range(20, 24):
        sales.upsert([{"id": number, "what": "more"}])
        versions.append(lake.version)
        addresses.append(sales.iceberg())
    written_at(addresses[1], 2_000_000_000)
    lake.maintenance.vacuum(alone=True)
    left = {path for path in published_paths(lake, sales) if path.endswith(METADATA_SUFFIX)}
    assert left == {path for path in left if addresses[1].endswith(path) or addresses[3].endswith(path)}
    assert len(left) == 2
    assert rows(addresses[3]) == own_rows(sales)
    past = lake.at(versions[1]).table("shop.sales")
    assert rows(addresses[1]) == own_rows(past)
    # What is gone is written again when it is asked for.
    past = lake.at(versions[0]).table("shop.sales")
    assert past.iceberg() == addresses[0]
    assert rows(addresses[0]) == own_rows(past)


def test_published_metadata_is_retained_within_the_grace_period(lake: Lakehouse) -> None:
    sales = lake.table("shop.sales")
    for number in range(20, 23):
        sales.upsert([{"id": number, "what": "more"}])
        sales.iceberg()
    before = published_paths(lake, sales)
    lake.maintenance.vacuum()
    assert published_paths(lake, sales) == before


def test_the_last_published_metadata_is_retained_until_the_next_publication(lake: Lakehouse) -> None:
    sales = lake.table("shop.sales")
    sales.iceberg()
    before = published_paths(lake, sales)
    sales.append([{"id": 40, "what": "more"}])
    lake.maintenance.vacuum(alone=True)
    assert published_paths(lake, sales) == before
    assert rows(sales.iceberg()) == own_rows(sales)


def test_vacuum_deletes_the_published_metadata_of_a_dropped_table(lake: Lakehouse) -> None:
    sales = lake.table("shop.sales")
    sales.iceberg()
    before = lake.version
    sales.drop()
    lake.maintenance.vacuum(alone=True)
    assert published_paths(lake, sales) == set()
    assert list(lake.maintenance.check()) == []
    past = lake.at(before).table("shop.sales")
    assert rows(past.iceberg()) == own_rows(past)


def test_vacuum_deletes_files_of_an_incomplete_publication(lake: Lakehouse) -> None:
    sales = lake.table("shop.sales")
    sales.iceberg()
    stray = f"{published_folder_of(sales.id)}{'0' * 32}.avro"
    lake.effects.store.put(stray, b"left")
    assert lake.maintenance.vacuum(alone=True, dry_run=True).paths == (stray,)
    lake.maintenance.vacuum(alone=True)
    assert stray not in published_paths(lake, sales)


def test_a_crashed_vacuum_leaves_no_metadata_that_references_missing_files(lake: Lakehouse) -> None:
    sales = lake.table("shop.sales")
    for seed in range(12):
        for number in range(3):
            sales.upsert([{"id": 100 + 10 * seed + number, "what": "more"}])
            sales.iceberg()
        faulty = FaultyStore(lake.effects.store, Faults(seed))
        faulty.fail_next("delete", "crash", (METADATA_SUFFIX, ".avro", PARTS_SUFFIX)[seed % 3])
        dying = MaintenanceContext(build_effects(faulty), lake.metastore, lake.maintenance.context().maintenance)
        with pytest.raises(SimulatedCrash):
            vacuum_files(dying, alone=True)
        there = published_paths(lake, sales)
        for path in there:
            if path.endswith(METADATA_SUFFIX):
                parts = re.sub(re.escape(METADATA_SUFFIX) + "$", PARTS_SUFFIX, path)
                assert there.issuperset(decode_part_paths(lake.effects.store.read(parts).decode()))
    assert rows(sales.iceberg()) == own_rows(sales)


def test_vacuum_deletes_a_publication_whose_file_list_is_missing(lake: Lakehouse) -> None:
    sales = lake.table("shop.sales")
    address = sales.iceberg()
    (parts,) = [path for path in published_paths(lake, sales) if path.endswith(PARTS_SUFFIX)]
    lake.effects.store.delete_many([parts])
    lake.maintenance.vacuum(alone=True)
    assert published_paths(lake, sales) == set()
    assert sales.iceberg() == address
    assert rows(address) == own_rows(sales)


def test_vacuum_retains_the_published_metadata_of_a_table_without_writes(lake: Lakehouse) -> None:
    table = lake.create_table("shop.nothing", "id bigint")
    table.iceberg()
    before = published_paths(lake, table)
    lake.effects.store.put(f"{published_folder_of(table.id)}stray", b"")
    lake.maintenance.vacuum(alone=True)
    assert published_paths(lake, table) == before != set()


def test_a_damaged_file_list_of_a_publication_stops_vacuum_with_a_remedy(lake: Lakehouse) -> None:
    sales = lake.table("shop.sales")
    sales.iceberg()
    before = published_paths(lake, sales)
    (parts,) = [path for path in before if path.endswith(PARTS_SUFFIX)]
    lake.effects.store.put(parts, b"\xff")
    with pytest.raises(FormatError, match="is damaged; delete it"):
        lake.maintenance.vacuum(alone=True)
    assert published_paths(lake, sales) == before
    sales.append([{"id": 50, "what": "more"}])
    assert rows(sales.iceberg()) == own_rows(sales)
