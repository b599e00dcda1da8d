"""Data files of a partition are in a folder with its values, and counts need no data files."""

import datetime

import pytest
from tests.support.table_properties import DATA_FILES_ONLY

from mangrove.effects import Effects
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store
from mangrove.lakehouse.table import Table
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.counting import CountingStore
from mangrove.wiring import LocalEngines


@pytest.fixture
def rows_lake(effects: Effects, layout: str, strict: bool | None) -> Lakehouse:
    lake = create_on_store(effects, layout=layout, strict=strict, engines=LocalEngines)
    lake.create_namespace("s")
    return lake


def folders_of(table: Table) -> list[str]:
    return sorted(file.location.removeprefix(f"data/{table.id}/").rpartition("/")[0] for file in table.files())


def test_data_files_are_in_folders_of_their_partition_values(rows_lake: Lakehouse) -> None:
    table = rows_lake.create_table(
        "s.t",
        "id int, day date, city string",
        partition_by=["day", "city", "bucket(2, id)"],
        properties=DATA_FILES_ONLY,
    )
    table.append([{"id": 1, "day": datetime.date(2026, 1, 2), "city": "Lima"}, {"id": 1}])
    assert folders_of(table) == [
        "day=2026-01-02/city=Lima",
        "day=__HIVE_DEFAULT_PARTITION__/city=__HIVE_DEFAULT_PARTITION__",
    ]
    assert table.to_arrow(where="city = 'Lima'").num_rows == 1
    table.delete("city = 'Lima'")
    rows_lake.maintenance.compact("s.t")
    assert table.to_arrow().to_pylist() == [{"id": 1, "day": None, "city": None}]


def test_a_value_without_a_plain_text_has_no_folder(rows_lake: Lakehouse) -> None:
    table = rows_lake.create_table("s.t", "id int, city string", partition_by=["city"])
    table.append([{"id": 1, "city": text} for text in ("", "a b", "a/b", "../x", "ü", "__HIVE_DEFAULT_PARTITION__")])
    assert folders_of(table) == 6 * [""]
    assert table.to_arrow(where="city = '../x'").num_rows == 1


def test_paths_of_data_files_keep_the_limit_of_the_lakehouse(effects: Effects, layout: str) -> None:
    settings = LakehouseSettings(file_path_max_size_bytes=120)
    lake = create_on_store(effects, layout=layout, settings=settings, engines=LocalEngines)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id int, city string", partition_by=["city"], properties=DATA_FILES_ONLY)
    table.append([{"id": 1, "city": "x" * 100}, {"id": 2, "city": "y"}])
    assert folders_of(table) == ["", "city=y"]
    assert all(len(file.location) <= 120 for file in table.files())


def test_unpartitioned_tables_and_delete_files_have_no_folders(rows_lake: Lakehouse) -> None:
    table = rows_lake.create_table(
        "s.t", "id int, day int", keys=["id", "day"], partition_by=["day"], properties=DATA_FILES_ONLY
    )
    table.append([{"id": 1, "day": 3}, {"id": 2, "day": 3}])
    table.delete_keys([{"id": 1, "day": 3}])
    assert sorted("day=3" in file.location for file in table.files()) == [False, True]
    plain = rows_lake.create_table("s.plain", "id int")
    plain.append([{"id": 1}])
    assert folders_of(plain) == [""]


def test_rows_of_whole_files_are_counted_without_reading_them(rows_lake: Lakehouse, store: CountingStore) -> None:
    table = rows_lake.create_table("s.t", "id int, day int", partition_by=["day"], properties=DATA_FILES_ONLY)
    table.append([{"id": n, "day": day} for day in range(4) for n in range(3)] + [{"id": None, "day": None}])
    scans = {
        where: table.scan(where)
        for where in ("day = 2", "day in (1, 2)", "day is null", "id < 3", "day <> 2", "id >= 0 and day > 0", "day > 9")
    }
    before = store.requests
    assert [scan.count() for scan in scans.values()] == [3, 6, 1, 12, 9, 9, 0]
    assert (store.requests - before).reads == 0
    assert table.scan("id = 1").count() == 4
    assert (store.requests - before).reads > 0


def test_rows_beside_deletes_are_counted_by_reading(rows_lake: Lakehouse) -> None:
    table = rows_lake.create_table("s.t", "id int, day int", keys=["id", "day"], partition_by=["day"])
    table.append([{"id": n, "day": day} for day in range(3) for n in range(3)])
    table.delete_keys([{"id": 1, "day": 1}])
    assert [table.scan(f"day = {day}").count() for day in range(3)] == [3, 2, 3]
    assert table.scan().count() == 8
