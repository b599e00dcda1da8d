"""Maintenance treats every version of a table: rows of the others are never lost, checked, copied and compacted."""

import time
from pathlib import Path

import pytest
from tests.support.table_properties import DATA_FILES_ONLY

import mangrove
from mangrove.errors import AlreadyExistsError, InvalidInputError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.layout_detection import LAYOUTS
from mangrove.lakehouse.opening import create_on_store
from mangrove.lakehouse.table import Table
from mangrove.lakehouse.table_snapshot import TableSnapshot
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.opening import open_store
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.wiring import LocalEngines

DAY_MILLIS = 24 * 60 * 60 * 1000


@pytest.fixture
def clock() -> Clock:
    return Clock(time.time_ns() // 10**6)


@pytest.fixture(params=LAYOUTS)
def lake(request: pytest.FixtureRequest, clock: Clock, tmp_path: Path) -> Lakehouse:
    """Return a lakehouse with a table of three versions, of which the second is the default, and a staged stream."""
    made = create_on_store(
        build_deterministic_effects(open_store(str(tmp_path / "lake")), clock),
        layout=request.param,
        settings=LakehouseSettings(maximum_version_age_millis=DAY_MILLIS, minimum_versions_to_keep=1),
        engines=LocalEngines,
    )
    made.create_namespace("shop")
    table = made.create_table("shop.orders", "id bigint, note string", keys=["id"], properties=DATA_FILES_ONLY)
    table.append([{"id": 1, "note": "one"}])
    two = table.create_version("note string, id bigint, price decimal(9, 2)", keys=["id"])
    two.append([{"id": 1, "note": "two", "price": None}])
    two.upsert([{"id": 2, "note": "two", "price": None}])
    two.set_state("active")
    table.version(1).set_state("deprecated")
    three = table.create_version(keys=["id"], partition_by=["note"])
    three.append([{"id": 3, "note": "three", "price": None}])
    three.create_stream("reload").append([{"id": 30, "note": "staged", "price": None}])
    return made


def ids(table: TableSnapshot) -> list[int]:
    return sorted(table.to_arrow()["id"].to_numpy().tolist())


def everything(lake: Lakehouse) -> list[list[int]]:
    table = lake.table("shop.orders")
    return [ids(table), *(ids(table.version(number)) for number in (1, 2, 3)), ids(table.version(3).stream("reload"))]


ROWS = [[1, 2], [1], [1, 2], [3], [30]]


def test_each_version_is_read_with_its_own_columns(lake: Lakehouse) -> None:
    assert everything(lake) == ROWS
    table = lake.table("shop.orders")
    assert table.to_arrow().column_names == ["note", "id", "price"]
    assert table.version(1).to_arrow().to_pylist() == [{"id": 1, "note": "one"}]


def test_vacuum_deletes_no_rows_of_any_version(lake: Lakehouse, clock: Clock) -> None:
    clock.now_millis += 10 * DAY_MILLIS
    assert lake.maintenance.expire().versions
    lake.maintenance.vacuum(alone=True)
    assert everything(lake) == ROWS
    assert list(lake.maintenance.check()) == []


def test_vacuum_deletes_the_rows_of_a_dropped_version(lake: Lakehouse, clock: Clock) -> None:
    (file,) = lake.table("shop.orders", version=1).scan().files()
    lake.table("shop.orders").drop_version(1)
    clock.now_millis += 10 * DAY_MILLIS
    lake.maintenance.expire()
    report = lake.maintenance.vacuum(alone=True)
    assert file.location in report.paths
    assert ids(lake.table("shop.orders")) == [1, 2]


def test_check_finds_a_missing_file_of_a_version_that_is_not_the_default(lake: Lakehouse, tmp_path: Path) -> None:
    assert list(lake.maintenance.check()) == []
    (file,) = lake.table("shop.orders", version=3).scan().files()
    (tmp_path / "lake" / file.location).unlink()
    assert any(file.location in problem.path for problem in lake.maintenance.check())


def test_a_compaction_of_all_tables_compacts_each_version(lake: Lakehouse) -> None:
    for number in (1, 2, 3):
        for other in range(3):
            lake.table("shop.orders", version=number).append([{"id": 100 + other, "note": "x"}])
    reports = lake.maintenance.compact()
    assert set(reports) == {f"shop.orders.version_{number}" for number in (1, 2, 3)}
    assert [len(lake.table("shop.orders", version=number).scan().files()) for number in (1, 2)] == [1, 1]
    assert list(lake.maintenance.check()) == []


@pytest.mark.parametrize("mode", ["full", "partial"])
def test_an_export_has_every_version(lake: Lakehouse, tmp_path: Path, mode: str) -> None:
    tables = ["shop.orders"] if mode == "partial" else []
    lake.maintenance.export(str(tmp_path / "copy"), "copy", mode, tables=tables)
    assert everything(mangrove.open(str(tmp_path / "copy"))) == ROWS


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_conversion_keeps_every_version(lake: Lakehouse, tmp_path: Path, layout: str) -> None:
    if lake.layout == layout:
        pytest.skip("it has this layout")
    lake.maintenance.convert(str(tmp_path / "converted"), layout=layout)
    converted = mangrove.open(str(tmp_path / "converted"))
    assert everything(converted) == ROWS
    assert converted.table("shop.orders").versions() == lake.table("shop.orders").versions()


def test_a_rollback_restores_states_and_versions(lake: Lakehouse) -> None:
    before = lake.version
    with lake.transaction() as transaction:
        transaction.table("shop.orders").version(1).set_state("active")
        transaction.table("shop.orders").version(2).set_state("deleted")
        transaction.table("shop.orders").drop_version(3)
    assert ids(lake.table("shop.orders")) == [1]
    lake.rollback(before)
    assert everything(lake) == ROWS


def test_changes_of_a_version_are_those_of_its_rows(lake: Lakehouse) -> None:
    before = lake.version
    lake.table("shop.orders", version=3).append([{"id": 4, "note": "four", "price": None}])
    changed = lake.table("shop.orders", version=3).changes(before).to_pylist()
    assert [(row["id"], row["_change_type"]) for row in changed] == [(4, "insert")]
    assert lake.table("shop.orders", version=2).changes(before).to_pylist() == []


def test_changes_across_an_activation_are_refused(lake: Lakehouse) -> None:
    before = lake.version
    lake.table("shop.orders", version=3).set_state("active")
    with pytest.raises(InvalidInputError, match=r"default table version of shop.orders changed from 2 to 3"):
        lake.table("shop.orders").changes(before)


def test_published_iceberg_metadata_of_every_version_survives_a_vacuum(lake: Lakehouse, tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    table = lake.table("shop.orders")
    paths = [table.version(number).iceberg() for number in (1, 2, 3)]
    assert len(set(paths)) == 3
    assert table.iceberg() == paths[1]
    lake.maintenance.vacuum(alone=True)
    for path in paths:
        assert Path(path.removeprefix("file://")).exists()


def _schema_columns(table: Table) -> list[str]:
    assert table.schema is not None
    return [column.name for column in table.schema.columns]


def test_the_columns_of_one_version_change_without_the_others(lake: Lakehouse) -> None:
    with lake.table("shop.orders", version=1).update_schema() as update:
        update.add_column("extra", "int")
    lake.table("shop.orders", version=1).append([{"id": 9, "note": "x", "extra": 1}])
    assert _schema_columns(lake.table("shop.orders", version=1)) == ["id", "note", "extra"]
    assert _schema_columns(lake.table("shop.orders")) == ["note", "id", "price"]
    assert ids(lake.table("shop.orders", version=1)) == [1, 9]


def test_a_delta_has_the_properties_author_and_position_that_it_was_given(lake: Lakehouse) -> None:
    table = lake.table("shop.orders")
    table.append([{"id": 5}], properties={"source": "web"}, author="loader", position=70)
    table.upsert([{"id": 5, "note": "again", "price": None}], author="fixer")
    (_, first), (_, second) = list(table.deltas())[-2:]
    assert (first.position, first.properties, first.author and first.author.name) == (70, {"source": "web"}, "loader")
    assert (second.position, second.author and second.author.name) == (71, "fixer")
    assert ids(table) == [1, 2, 5]


@pytest.mark.parametrize("to", LAYOUTS)
def test_a_conversion_keeps_dropped_numbers_and_stream_ids_in_use(lake: Lakehouse, tmp_path: Path, to: str) -> None:
    lake.table("shop.orders").version(3).stream("reload").drop_stream()
    lake.table("shop.orders").create_version()
    lake.table("shop.orders").drop_version(4)
    lake.maintenance.convert(tmp_path / "converted", to)
    table = mangrove.open(tmp_path / "converted").table("shop.orders")
    with pytest.raises(AlreadyExistsError, match="had a stream 'reload'"):
        table.version(3).create_stream("reload")
    assert table.create_version(partition_by=[]).target.version == 5
