"""A lakehouse that promises to hold only what DeltaCAT can read refuses all else, and nothing on storage changes."""

from collections.abc import Callable
from pathlib import Path

import pytest

import mangrove

READABLE = {"deltacat.readable": "true"}


@pytest.fixture
def lake(tmp_path: Path) -> mangrove.Lakehouse:
    lake = mangrove.create(tmp_path / "lake", layout="deltacat-2", properties=READABLE)
    lake.create_namespace("sales")
    orders = lake.create_table("sales.orders", schema="id bigint not null, item string", keys=["id"])
    orders.append([{"id": 1, "item": "a"}, {"id": 2, "item": "b"}])
    return lake


REFUSED: dict[str, Callable[[mangrove.Lakehouse], object]] = {
    "upsert": lambda lake: lake.table("sales.orders").upsert([{"id": 1, "item": "z"}]),
    "delete": lambda lake: lake.table("sales.orders").delete("id = 1"),
    "replace": lambda lake: lake.table("sales.orders").overwrite([{"id": 9, "item": "z"}]),
    "view": lambda lake: lake.create_view("sales.daily", "select * from sales.orders"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_deltacat_could_not_read_is_refused(lake: mangrove.Lakehouse, what: str) -> None:
    before = lake.version
    with pytest.raises(mangrove.InvalidInputError, match=rf"{what}.*DeltaCAT cannot read.*deltacat\.readable"):
        REFUSED[what](lake)
    assert lake.version == before
    assert lake.table("sales.orders").to_arrow().num_rows == 2


def test_what_deltacat_reads_is_written(lake: mangrove.Lakehouse) -> None:
    lake.table("sales.orders").append([{"id": 3, "item": "c"}])
    lake.rename_table("sales.orders", "sales.purchases")
    lake.create_namespace("finance")
    lake.create_table("finance.ledger", schema="id bigint", partition_by=["bucket(4, id)"])
    assert lake.table("sales.purchases").to_arrow().num_rows == 3


def test_a_table_cannot_move_to_where_deltacat_would_not_find_it(lake: mangrove.Lakehouse) -> None:
    lake.create_namespace("shop")
    with pytest.raises(mangrove.InvalidInputError, match="moved to another namespace"):
        lake.rename_table("sales.orders", "shop.orders")


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
def test_a_layout_that_deltacat_does_not_read_cannot_promise_it(tmp_path: Path, layout: str) -> None:
    with pytest.raises(mangrove.InvalidInputError, match="deltacat-2"):
        mangrove.create(tmp_path / "lake", layout=layout, properties=READABLE)
    assert not (tmp_path / "lake").exists() or not any((tmp_path / "lake").iterdir())


def test_the_promise_is_left_out_where_it_means_nothing(lake: mangrove.Lakehouse, tmp_path: Path) -> None:
    report = lake.maintenance.convert(tmp_path / "tree")
    assert report.is_sound, str(report)
    assert any("deltacat.readable" in note for note in report.notes)
    assert "deltacat.readable" not in mangrove.open(tmp_path / "tree").settings.properties


def test_without_the_promise_everything_is_written(lake: mangrove.Lakehouse) -> None:
    lake.alter(remove=("deltacat.readable",))
    lake.table("sales.orders").upsert([{"id": 1, "item": "z"}])
    assert {row["item"] for row in lake.table("sales.orders").to_arrow().to_pylist()} == {"z", "b"}
