"""A lakehouse that promises to hold only what DeltaCAT can read refuses all else, and nothing on storage changes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import mangrove
from mangrove.lakehouse.table_snapshot import TableSnapshot

READABLE = {"deltacat.readable": "true"}
ORDERS = [{"id": 1, "item": "a"}, {"id": 2, "item": "b"}]


@pytest.fixture
def lake(tmp_path: Path) -> mangrove.Lakehouse:
    lake = mangrove.create(tmp_path / "lake", compatible_with="deltacat")
    lake.create_namespace("sales")
    orders = lake.create_table("sales.orders", schema="id bigint not null, item string", keys=["id"])
    orders.append(ORDERS)
    lake.create_table("sales.log", schema="id bigint, item string").append(ORDERS)
    days = lake.create_table(
        "sales.days", schema="day int not null, id bigint not null, item string", keys=["day", "id"], partition_by="day"
    )
    days.append([{"day": day, **row} for day in (1, 2) for row in ORDERS])
    return lake


def merge(table: mangrove.Table) -> object:
    merging = table.merge([{"id": 1, "item": "x"}, {"id": 5, "item": "new"}], "t.id = s.id")
    return merging.when_matched_update().when_not_matched_insert().execute()


def write_twice(table: mangrove.Table) -> None:
    table.upsert([{"id": 1, "item": "y"}])
    table.append([{"id": 8, "item": "h"}])
    table.upsert([{"id": 8, "item": "i"}, {"id": 2, "item": "z"}])


def append_and_compact(table: mangrove.Table) -> None:
    table.append([{"id": 4, "item": "d"}])
    table.compact()


WRITES: dict[str, tuple[Callable[[mangrove.Table], object], list[tuple[int, str | None]]]] = {
    "upsert": (lambda table: table.upsert([{"id": 1, "item": "z"}]), [(1, "z"), (2, "b")]),
    "upsert of a new row": (lambda table: table.upsert([{"id": 3, "item": "c"}]), [(1, "a"), (2, "b"), (3, "c")]),
    "partial upsert": (lambda table: table.upsert([{"id": 3}]), [(1, "a"), (2, "b"), (3, None)]),
    "delete": (lambda table: table.delete("id = 1"), [(2, "b")]),
    "delete of all rows": (lambda table: table.delete("id > 0"), []),
    "delete by key": (lambda table: table.delete_keys([{"id": 2}]), [(1, "a")]),
    "update": (lambda table: table.update({"item": "u"}, "id = 2"), [(1, "a"), (2, "u")]),
    "merge": (merge, [(1, "x"), (2, "b"), (5, "new")]),
    "overwrite": (lambda table: table.overwrite([{"id": 9, "item": "z"}]), [(9, "z")]),
    "overwrite of some rows": (lambda table: table.overwrite([{"id": 1, "item": "n"}], "id = 1"), [(1, "n"), (2, "b")]),
    "writes in turn": (write_twice, [(1, "y"), (2, "z"), (8, "i")]),
    "compaction": (append_and_compact, [(1, "a"), (2, "b"), (4, "d")]),
}


@pytest.mark.parametrize("what", WRITES)
def test_every_write_leaves_appended_files_of_live_rows_only(lake: mangrove.Lakehouse, what: str) -> None:
    write, expected = WRITES[what]
    before = lake.version
    write(lake.table("sales.orders"))
    orders = lake.table("sales.orders")
    assert read_rows(orders) == expected
    assert read_plain_files(lake, "sales.orders") == expected
    assert read_rows(lake.at(before).table("sales.orders")) == [(1, "a"), (2, "b")]
    assert list(lake.maintenance.check()) == []


@pytest.mark.parametrize("what", ["delete", "update", "delete of all rows", "overwrite of some rows", "merge"])
def test_a_table_without_keys_is_rewritten_too(lake: mangrove.Lakehouse, what: str) -> None:
    write, expected = WRITES[what]
    write(lake.table("sales.log"))
    assert read_plain_files(lake, "sales.log") == expected


def test_writes_of_one_transaction_build_on_each_other(lake: mangrove.Lakehouse) -> None:
    with lake.transaction() as transaction:
        orders = transaction.table("sales.orders")
        orders.append([{"id": 3, "item": "c"}])
        orders.upsert([{"id": 3, "item": "d"}, {"id": 1, "item": "e"}])
        orders.delete("id = 2")
    assert read_plain_files(lake, "sales.orders") == [(1, "e"), (3, "d")]


def test_only_the_partitions_that_a_write_changes_are_rewritten(lake: mangrove.Lakehouse) -> None:
    def locations(day: int) -> set[str]:
        days = lake.table("sales.days")
        return {
            file.location
            for log in days.state().logs
            if log.values == (day,)
            for delta in log.deltas
            for file in delta.manifest.entries
        }

    before = {day: locations(day) for day in (1, 2)}
    lake.table("sales.days").upsert([{"day": 2, "id": 1, "item": "z"}])
    assert locations(1) == before[1]
    assert not locations(2) & before[2]


def test_concurrent_writes_that_rewrite_the_same_rows_conflict(lake: mangrove.Lakehouse) -> None:
    transaction = lake.transaction()
    transaction.table("sales.orders").upsert([{"id": 1, "item": "first"}])
    lake.table("sales.orders").upsert([{"id": 1, "item": "second"}])
    with pytest.raises(mangrove.ConflictError):
        transaction.commit()
    assert read_rows(lake.table("sales.orders")) == [(1, "second"), (2, "b")]


def test_the_change_feed_contains_exactly_the_changed_rows(lake: mangrove.Lakehouse) -> None:
    before = lake.version
    lake.table("sales.orders").upsert([{"id": 1, "item": "z"}])
    lake.table("sales.orders").compact()
    changes = lake.table("sales.orders").changes(before).to_pylist()
    assert [(row["id"], row["item"], row["_change_type"]) for row in changes] == [
        (1, "a", "update_before"),
        (1, "z", "update_after"),
    ]


def read_rows(table: TableSnapshot) -> list[tuple[int, str | None]]:
    return [(row["id"], row["item"]) for row in table.to_arrow().sort_by("id").to_pylist()]


def read_plain_files(lake: mangrove.Lakehouse, name: str) -> list[tuple[int, str | None]]:
    """Return the rows of all files as a reader sees them that knows nothing but appends."""
    root = Path(lake.uri.removeprefix("file://"))
    rows: list[dict[str, Any]] = []
    for log in lake.table(name).state().logs:
        for delta in log.deltas:
            assert delta.type.value == "append"
            for file in delta.manifest.entries:
                rows += pq.read_table(root / file.location).to_pylist()
    return sorted((row["id"], row["item"]) for row in rows)


def test_a_view_is_refused(lake: mangrove.Lakehouse) -> None:
    before = lake.version
    with pytest.raises(mangrove.InvalidInputError, match=r"view.*DeltaCAT cannot read.*deltacat\.readable"):
        lake.create_view("sales.daily", "select * from sales.orders")
    assert lake.version == before


def test_objects_that_deltacat_can_read_are_accepted(lake: mangrove.Lakehouse) -> None:
    lake.table("sales.orders").append([{"id": 3, "item": "c"}])
    lake.rename_table("sales.orders", "sales.purchases")
    lake.create_namespace("finance")
    lake.create_table("finance.ledger", schema="id bigint", partition_by=["bucket(4, id)"])
    lake.rename_table("sales.purchases", "finance.purchases")
    assert lake.table("finance.purchases").to_arrow().num_rows == 3


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
def test_deltacat_compatibility_is_rejected_for_other_layouts(tmp_path: Path, layout: str) -> None:
    with pytest.raises(mangrove.InvalidInputError, match="deltacat-2"):
        mangrove.create(tmp_path / "lake", layout=layout, properties=READABLE)
    assert not (tmp_path / "lake").exists() or not any((tmp_path / "lake").iterdir())


def test_a_conversion_to_the_tree_drops_the_compatibility_property(lake: mangrove.Lakehouse, tmp_path: Path) -> None:
    report = lake.maintenance.convert(tmp_path / "tree")
    assert report.is_sound, str(report)
    assert any("deltacat.readable" in note for note in report.notes)
    assert "deltacat.readable" not in mangrove.open(tmp_path / "tree").settings.properties


def test_without_the_compatibility_property_every_write_is_accepted(lake: mangrove.Lakehouse) -> None:
    lake.alter(remove=("deltacat.readable",))
    lake.table("sales.orders").upsert([{"id": 1, "item": "z"}])
    assert {row["item"] for row in lake.table("sales.orders").to_arrow().to_pylist()} == {"z", "b"}
