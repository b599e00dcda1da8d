"""The rows of a catalog that DeltaCAT wrote are those that DeltaCAT had, at every version, also when converted."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import mangrove
from mangrove.lakehouse.catalog import Catalog
from mangrove.model.locators import Kind
from mangrove.model.objects import Partition, StreamState

FIXTURE = Path(__file__).with_name("fixtures") / "deltacat-2"
USERS_AT_THE_END = [(2, "n2b", 21), (3, "n3", 30), (4, "n4", 40), (9, "n9", 90)]


def _rows(catalog: Catalog, name: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in catalog.table(name).to_arrow().to_pylist())


@pytest.fixture(params=["as DeltaCAT wrote it", "tree", "deltacat"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> mangrove.Lakehouse:
    shutil.copytree(FIXTURE, tmp_path / "catalog")
    written = mangrove.open(tmp_path / "catalog")
    if not request.param.islower():
        return written
    report = written.maintenance.convert(tmp_path / "converted", request.param)
    assert report.is_sound, str(report)
    return mangrove.open(tmp_path / "converted")


def test_the_rows_equal_those_of_deltacat(lake: mangrove.Lakehouse) -> None:
    assert _rows(lake, "sales2.purchases") == [(100, "z", 1, "W")]
    assert _rows(lake, "sales2.users") == USERS_AT_THE_END


def test_the_rows_of_earlier_versions_are_unchanged(lake: mangrove.Lakehouse) -> None:
    assert _rows(lake.at(2), "sales.orders") == [(1, "a", 1), (2, "b", 2), (3, "c", 3)]
    assert [row[0] for row in _rows(lake.at(10), "sales.purchases")] == [1, 2, 3, 4, 5, 6, 7]
    assert _rows(lake.at(7), "sales.users") == [(1, "n1", 10), (2, "n2b", 21), (3, "n3", 30), (4, "n4", 40)]


def test_uncommitted_staged_deltas_of_deltacat_are_not_read(lake: mangrove.Lakehouse) -> None:
    metastore = lake.maintenance.context().maintenance
    partitions = [one for _, one in metastore.objects(lake._reading(), Kind.PARTITION) if isinstance(one, Partition)]
    assert [one.state for one in partitions].count(StreamState.STAGED) == 1
    assert _rows(lake, "sales2.users") == USERS_AT_THE_END


def test_an_append_to_a_catalog_of_deltacat_is_sound_and_adds_no_partition(tmp_path: Path) -> None:
    shutil.copytree(FIXTURE, tmp_path / "catalog")
    lake = mangrove.open(tmp_path / "catalog")
    lake.table("sales2.purchases").append([{"id": 101, "item": "ours", "qty": 2, "city": "V"}])
    assert _rows(lake, "sales2.purchases") == [(100, "z", 1, "W"), (101, "ours", 2, "V")]
    maintenance = lake.maintenance.context().maintenance
    before, after = lake._snapshot_at(14), lake._reading()
    assert [len(list(maintenance.objects(one, Kind.PARTITION))) for one in (before, after)] == [3, 3]
    assert list(lake.maintenance.check()) == []
