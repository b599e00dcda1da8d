"""Maintenance through the lakehouse: exports by name, expiry, vacuum, check."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.table_properties import DATA_FILES_ONLY

import mangrove
from mangrove import expr
from mangrove.errors import FormatError, InvalidInputError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import Clock, build_deterministic_effects

DAY_MILLIS = 24 * 60 * 60 * 1000


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sales(clock: Clock, layout: str, strict: bool | None) -> Lakehouse:
    store = MemoryStore("memory://upkeep/", clock.read)
    lake = create_on_store(build_deterministic_effects(store, clock), layout=layout, strict=strict)
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id int")
    return lake


def test_an_export_is_read_by_its_name_and_opens_as_a_lakehouse_of_its_own(sales: Lakehouse, tmp_path: Path) -> None:
    report = sales.maintenance.export(tmp_path / "copy", "year-end", "full")
    sales.drop_table("sales.orders")
    assert report.files_copied > 0
    assert [export.name for export in sales.maintenance.exports()] == ["year-end"]
    assert [str(table) for table in sales.at("year-end").tables("sales")] == ["sales.orders"]
    assert [str(table) for table in mangrove.open(tmp_path / "copy").tables("sales")] == ["sales.orders"]
    sales.maintenance.drop_export("year-end")
    with pytest.raises(NotFoundError, match="does not exist"):
        sales.at("year-end")
    with pytest.raises(InvalidInputError, match="no mode of exports"):
        sales.maintenance.export(tmp_path / "other", "x", "half")


@pytest.mark.parametrize("mode", ["full", "minimal"])
def test_every_export_mode_reads_the_rows_of_its_version(
    tmp_path: Path, layout: str, strict: bool | None, mode: str
) -> None:
    lake = mangrove.create(tmp_path / "lake", layout=layout, strict=strict)
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id int").append([{"id": 1}, {"id": 2}])
    lake.maintenance.export(tmp_path / "copy", "year-end", mode)
    lake.table("sales.orders").append([{"id": 3}])
    copied = mangrove.open(tmp_path / "copy")
    assert copied.table("sales.orders").to_arrow().column("id").to_pylist() == [1, 2]
    assert copied.maintenance.check().problems == ()
    copied.table("sales.orders").append([{"id": 4}])
    assert mangrove.open(tmp_path / "copy").maintenance.check().problems == ()


def test_vacuum_finds_files_of_an_aborted_transaction(sales: Lakehouse, clock: Clock, layout: str) -> None:
    store = sales.effects.store
    loser = sales.transaction()
    loser.alter_table("sales.orders", {"by": "loser" * 200})
    other = open_on_store(build_deterministic_effects(store, clock, 10**6))
    other.alter_table("sales.orders", {"by": "concurrent"})
    before = {entry.path for entry in store.list()}
    with pytest.raises(mangrove.ConflictError):
        loser.commit()
    left = {entry.path for entry in store.list()} - before
    # The DeltaCAT layout takes back what it wrote, since it could hide a committed file from DeltaCAT.
    assert bool(left) == layout.startswith("tree")
    clock.now_millis += 3 * DAY_MILLIS
    assert left <= set(sales.maintenance.vacuum(dry_run=True).paths)
    assert left <= {entry.path for entry in store.list()}
    sales.maintenance.vacuum()
    assert not left & {entry.path for entry in store.list()}
    assert not sales.maintenance.check().problems


def test_expiry_retains_the_base_version_of_a_shared_transaction(sales: Lakehouse, clock: Clock) -> None:
    begun = sales.begin_shared("load", "60d")
    with begun:
        begun.create_table("sales.new", "id int")
    for number in range(10):
        sales.create_namespace(f"n{number}")
    clock.now_millis += 30 * DAY_MILLIS
    assert sales.maintenance.expire(dry_run=True).versions
    expired = sales.maintenance.expire()
    assert begun.base_version not in expired.versions
    assert expired.versions
    clock.now_millis += 3 * DAY_MILLIS
    sales.maintenance.vacuum()
    sales.join_shared("load").publish()
    assert [table.name for table in sales.tables("sales")] == ["new", "orders"]
    assert not sales.maintenance.check().problems


def test_a_sound_lakehouse_has_no_problems(sales: Lakehouse) -> None:
    assert not sales.maintenance.check().problems


def test_an_export_of_an_export_is_whole_and_sound(tmp_path: Path, layout: str, strict: bool | None) -> None:
    lake = mangrove.create(tmp_path / "lake", layout=layout, strict=strict)
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id int").append([{"id": 1}])
    lake.maintenance.export(tmp_path / "first", "first", "full")
    mangrove.open(tmp_path / "first").maintenance.export(tmp_path / "second", "second", "full")
    copied = mangrove.open(tmp_path / "second")
    assert copied.table("sales.orders").to_arrow().column("id").to_pylist() == [1]
    assert not list(copied.maintenance.check())


def test_a_copy_of_a_lakehouse_that_has_other_exports_is_sound(
    tmp_path: Path, layout: str, strict: bool | None
) -> None:
    lake = mangrove.create(tmp_path / "lake", layout=layout, strict=strict)
    lake.create_namespace("sales")
    lake.maintenance.export(tmp_path / "first", "first", "full")
    lake.create_namespace("more")
    lake.maintenance.export(tmp_path / "second", "second", "full")
    assert not list(mangrove.open(tmp_path / "second").maintenance.check())


def test_a_lakehouse_with_a_truncated_definition_is_rejected(tmp_path: Path) -> None:
    mangrove.create(tmp_path / "lake")
    (definition,) = (tmp_path / "lake").glob("_lakehouse_def_*")
    definition.write_bytes(b"")
    with pytest.raises(mangrove.FormatError, match="is empty"):
        mangrove.open(tmp_path / "lake")


def test_check_reports_deleted_settings_and_continues(tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake", layout="deltacat")
    lake.alter({"owner": "ana"})
    newest = max((tmp_path / "lake/mangrove/settings/rev").iterdir())
    newest.unlink()
    report = mangrove.open(tmp_path / "lake").maintenance.check()
    assert report.versions == (0, 1)
    assert report.problems
    assert all(newest.name in problem.rule for problem in report.problems)


@pytest.mark.parametrize("nowhere", [None, 7, b"lake", ""])
def test_a_conversion_without_a_location_is_rejected(sales: Lakehouse, nowhere: Any) -> None:
    with pytest.raises(InvalidInputError, match="location"):
        sales.maintenance.convert(nowhere)


def test_a_flipped_bit_in_the_rows_of_a_data_file_is_found(tmp_path: Path, layout: str, strict: bool | None) -> None:
    lake = mangrove.create(tmp_path / "lake", layout=layout, strict=strict)
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id int, note string").append([{"id": n, "note": f"n{n}"} for n in range(500)])
    assert lake.maintenance.check().is_sound
    (data,) = (tmp_path / "lake").rglob("*.parquet")
    sound = data.read_bytes()
    for position in range(100, 1000, 97):  # where the first column's page lies
        damaged = bytearray(sound)
        damaged[position] ^= 1
        data.write_bytes(bytes(damaged))
        assert [problem.path for problem in lake.maintenance.check()] == [str(data.relative_to(tmp_path / "lake"))]


def test_a_flipped_bit_in_a_footer_is_found_and_the_file_is_not_read(
    tmp_path: Path, layout: str, strict: bool | None
) -> None:
    lake = mangrove.create(tmp_path / "lake", layout=layout, strict=strict)
    lake.create_namespace("sales")
    orders = lake.create_table("sales.orders", "id bigint not null, a bigint", keys=["id"], properties=DATA_FILES_ONLY)
    orders.append([{"id": 1, "a": 100}])
    (data,) = (tmp_path / "lake").rglob("*.parquet")
    damaged = bytearray(data.read_bytes())
    damaged[damaged.index(b"\x18\x01aU\x04") + 4] ^= 1  # the id of the column a
    data.write_bytes(damaged)
    place = str(data.relative_to(tmp_path / "lake"))
    assert [problem.path for problem in lake.maintenance.check()] == [place]
    for refused in (
        orders.to_arrow,
        lambda: orders.update({"a": expr("a + 1")}),
        lambda: orders.to_arrow(where="a = 100"),
    ):
        with pytest.raises(FormatError, match="its footer does not match its checksum"):
            refused()


def test_expiry_reports_which_setting_retains_a_version_and_until_when(sales: Lakehouse, clock: Clock) -> None:
    sales.alter(minimum_versions_to_keep=2, maximum_version_age_millis=DAY_MILLIS)
    report = sales.maintenance.expire()
    assert (report.versions, report.kept) == ((), 4)
    assert report.reasons[0] == "the newest 2 stay (minimum_versions_to_keep)"
    assert report.reasons[1].startswith("version 0 and later ones are retained until 2025-01-16T08:00:00")
    assert str(report).startswith("no version expired, 4 are kept: the newest 2 stay (minimum_versions_to_keep); ")
    clock.now_millis += 2 * DAY_MILLIS
    sales.create_namespace("lately")
    assert sales.maintenance.expire(dry_run=True).versions == (0, 1, 2)
    sales.begin_shared("load")
    sales.create_namespace("more")
    sales.maintenance.expire()
    report = sales.maintenance.expire()
    assert not report.versions
    assert report.reasons[1] == "1 are pinned by exports or shared transactions"
    assert "may be the base of a running transaction until 2025-01-17T10:10:00" in report.reasons[2]


def test_dropping_a_table_leaves_the_views_that_read_it(sales: Lakehouse) -> None:
    sales.create_view("sales.daily", "select id from sales.orders", reads=["sales.orders"])
    sales.drop_table("sales.orders")
    assert sales.view("sales.daily").reads == ("sales.orders",)
    sales.create_table("sales.orders", "id int")
    assert [table.name for table in sales.tables("sales")] == ["orders"]
    sales.drop_namespace("sales", cascade=True)
    assert list(sales.namespaces()) == []
