"""Tables shown as Iceberg tables, read back by PyIceberg."""

import datetime
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable
from tests.support.table_properties import DATA_FILES_ONLY

import mangrove
from mangrove.iceberg.publish.metadata_writer import PublishedTable, publish_table
from mangrove.lakehouse.catalog import Catalog
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.table import Table
from mangrove.model.locators import TableLocator
from mangrove.tables.table_state import load_table_state

FIXTURE = Path(__file__).parents[1] / "compat" / "fixtures" / "deltacat-2"
LAYOUTS = ["tree", "deltacat"]


@pytest.fixture(params=LAYOUTS)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    found = mangrove.create(tmp_path / "a lake", layout=request.param)
    found.create_namespace("shop")
    return found


def shown(lake: Lakehouse, catalog: Catalog | None = None, name: str = "shop.sales") -> PublishedTable:
    state = load_table_state((catalog or lake)._reading(), TableLocator(*name.split(".")))
    return publish_table(lake.effects.store, state, 1_700_000_000_000)


def opened(found: PublishedTable) -> StaticTable:
    return StaticTable.from_metadata(found.metadata_address)


def in_order(rows: Any) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=repr)


def same_rows(lake: Lakehouse, table: Table) -> bool:
    """Return whether PyIceberg reads what the table has, or show both."""
    read, own = in_order(opened(shown(lake)).scan().to_arrow()), in_order(table.to_arrow())
    assert read == own
    return True


def _counted(lake: Lakehouse, what: str) -> str | None:
    summary = shown(lake).metadata.snapshots[0].summary
    assert summary is not None
    return summary[what]


def test_pyiceberg_reads_a_table_from_its_metadata_file_alone(lake: Lakehouse) -> None:
    sales = lake.create_table("shop.sales", "id bigint not null, what string")
    sales.append([{"id": 1, "what": "lamp"}, {"id": 2, "what": None}])
    sales.append([{"id": 3, "what": "rug"}])
    found = shown(lake)
    assert opened(found).scan().to_arrow().to_pylist() == sales.to_arrow().to_pylist()
    assert found.folder.endswith(f"data/{sales.id}")
    assert found.metadata_address.startswith(f"{found.folder}/metadata/")


def test_a_table_without_writes_is_published_without_a_snapshot(lake: Lakehouse) -> None:
    lake.create_table("shop.sales", "id bigint not null, what string", keys=["id"])
    found = opened(shown(lake))
    assert found.current_snapshot() is None
    assert found.scan().to_arrow().num_rows == 0
    assert found.schema().identifier_field_names() == {"id"}


def test_a_table_whose_rows_are_all_deleted_is_published_empty(lake: Lakehouse) -> None:
    sales = lake.create_table("shop.sales", "id bigint not null")
    sales.append([{"id": 1}])
    sales.overwrite([])
    found = opened(shown(lake))
    assert found.current_snapshot() is not None
    assert found.scan().to_arrow().num_rows == 0


def test_rows_deleted_by_upserts_and_key_deletes_are_not_read(lake: Lakehouse) -> None:
    sales = lake.create_table("shop.sales", "id bigint not null, what string", keys=["id"])
    sales.append([{"id": number, "what": "old"} for number in range(100)])
    sales.upsert([{"id": number, "what": "new"} for number in range(50, 120)])
    assert same_rows(lake, sales)
    sales.delete("id in (3, 60, 119)")
    sales.upsert([{"id": 60, "what": "again"}])
    assert same_rows(lake, sales)
    sales.update({"what": "end"}, where="id < 10")
    assert same_rows(lake, sales)


def test_rows_with_position_deletes_are_not_read(lake: Lakehouse) -> None:
    sales = lake.create_table(
        "shop.sales", "id bigint not null, what string", properties={"write.delete-mode": "position"}
    )
    sales.append([{"id": number, "what": "old"} for number in range(20)])
    sales.delete("id between 3 and 7")
    sales.append([{"id": 4, "what": "new"}])
    assert same_rows(lake, sales)
    sales.delete("id = 4")
    assert same_rows(lake, sales)


def test_a_compacted_table_needs_no_position_deletes(lake: Lakehouse) -> None:
    sales = lake.create_table("shop.sales", "id bigint not null, what string", keys=["id"])
    sales.append([{"id": number, "what": "old"} for number in range(10)])
    sales.upsert([{"id": 5, "what": "new"}])
    assert _counted(lake, "total-position-deletes") == "1"
    sales.compact()
    assert _counted(lake, "total-delete-files") == "0"
    assert same_rows(lake, sales)


@pytest.mark.parametrize("keys", [[], ["id"], ["id", "day"]], ids=["without keys", "one log", "logs by partition"])
def test_published_partitions_prune_files(lake: Lakehouse, keys: list[str]) -> None:
    sales = lake.create_table(
        "shop.sales", "id bigint not null, day date not null, what string", keys=keys, partition_by=["day"]
    )
    days = [datetime.date(2026, 1, day) for day in (1, 2, 3)]
    sales.append([{"id": number, "day": days[number % 3], "what": "old"} for number in range(30)])
    if keys:
        sales.upsert([{"id": 4, "day": days[1], "what": "new"}])
    assert same_rows(lake, sales)
    found = opened(shown(lake))
    assert [field.name for field in found.spec().fields] == ["day"]
    tasks = list(found.scan(row_filter="day = '2026-01-02'").plan_files())
    assert {task.file.partition[0] for task in tasks} == {(days[1] - datetime.date(1970, 1, 1)).days}
    assert all(task.file.partition == deletes.partition for task in tasks for deletes in task.delete_files)
    assert in_order(found.scan(row_filter="day = '2026-01-02'").to_arrow()) == in_order(
        sales.to_arrow(where="day = '2026-01-02'")
    )


@pytest.mark.parametrize(
    "partition_by",
    [
        "id",
        "bucket(4, id)",
        "truncate(10, id)",
        "truncate(2, what)",
        "years(at)",
        "months(at)",
        "days(at)",
        "hours(at)",
    ],
)
def test_filters_on_every_partition_transform_return_the_matching_rows(tmp_path: Path, partition_by: str) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("shop")
    sales = lake.create_table("shop.sales", "id bigint, what string, at timestamp_ntz", partition_by=[partition_by])
    moments = [datetime.datetime(1969 + 2 * year, 3, 4, 5 + year) for year in range(4)]
    sales.append([{"id": number - 7, "what": f"what{number}", "at": moments[number % 4]} for number in range(20)])
    sales.append([{"id": None, "what": None, "at": None}])
    assert same_rows(lake, sales)
    found = opened(shown(lake))
    for where in ("id = 5", "id < -2", "what = 'what3'", "at = '1969-03-04T05:00:00'", "at is null", "id is null"):
        own = sales.to_arrow(where=where.replace("'1969-03-04T05:00:00'", "timestamp_ntz '1969-03-04 05:00:00'"))
        assert in_order(found.scan(row_filter=where).to_arrow()) == in_order(own), where


def test_a_partitioned_table_is_read_completely_after_a_column_was_dropped(lake: Lakehouse) -> None:
    sales = lake.create_table("shop.sales", "id bigint not null, what string", partition_by=["what"])
    sales.append([{"id": number, "what": "ab"[number % 2]} for number in range(6)])
    sales.update_schema().drop_column("id").commit()
    assert same_rows(lake, sales)


def test_columns_that_were_renamed_added_dropped_and_widened_are_read_as_they_are_now(lake: Lakehouse) -> None:
    sales = lake.create_table("shop.sales", "id int not null, what string, gone int, price float")
    sales.append([{"id": 1, "what": "lamp", "gone": 5, "price": 1.5}])
    shown(lake)
    sales.update_schema().rename_column("what", "thing").commit()
    sales.update_schema().add_column("what", "bigint").commit()
    sales.update_schema().drop_column("gone").commit()
    sales.update_schema().widen("id", "bigint").commit()
    sales.update_schema().widen("price", "double").commit()
    assert same_rows(lake, sales)
    sales.append([{"id": 2**40, "thing": "mug", "what": 3, "price": 0.1}])
    assert same_rows(lake, sales)
    found = opened(shown(lake))
    assert [field.name for field in found.schema().fields] == ["id", "thing", "price", "what"]
    assert found.scan(row_filter="id = 1").to_arrow().num_rows == 1
    assert found.scan(row_filter="what is null").to_arrow().num_rows == 1


def test_every_type_is_read_with_its_values(lake: Lakehouse) -> None:
    sales = lake.create_table(
        "shop.sales",
        "a boolean, b smallint, c int, d bigint, e float, f double, g decimal(12,3), h string, i varchar(5), j binary, "
        "k date, l timestamp, m timestamp_ntz, n struct<x int, y string>, o array<string>, p map<string, int>",
    )
    sales.append(
        [
            {
                "a": True, "b": -3, "c": 2**31 - 1, "d": -(2**63), "e": 1.5, "f": float("-inf"), "g": Decimal("-1.250"),
                "h": "ä", "i": "abc", "j": b"\x00\xff", "k": datetime.date(1900, 1, 1),
                "l": datetime.datetime(2020, 1, 2, 3, 4, 5, 6, datetime.UTC), "m": datetime.datetime(1950, 1, 1),
                "n": {"x": 1, "y": None}, "o": ["a", None], "p": [("k", 1)],
            },
            dict.fromkeys("abcdefghijklmnop"),
        ]
    )  # fmt: skip
    assert same_rows(lake, sales)


def test_an_earlier_version_is_published_with_its_rows(lake: Lakehouse) -> None:
    sales = lake.create_table("shop.sales", "id bigint not null, what string", keys=["id"])
    sales.append([{"id": 1, "what": "old"}])
    before = lake.version
    sales.upsert([{"id": 1, "what": "new"}])
    sales.update_schema().rename_column("what", "thing").commit()
    newest, past = shown(lake), shown(lake, lake.at(before))
    assert opened(newest).scan().to_arrow().to_pylist() == [{"id": 1, "thing": "new"}]
    assert opened(past).scan().to_arrow().to_pylist() == [{"id": 1, "what": "old"}]


def test_a_minimal_export_publishes_files_of_its_source(lake: Lakehouse, tmp_path: Path) -> None:
    sales = lake.create_table("shop.sales", "id bigint not null, what string", keys=["id"], properties=DATA_FILES_ONLY)
    sales.append([{"id": number, "what": "old"} for number in range(5)])
    sales.upsert([{"id": 1, "what": "new"}])
    shown(lake)
    lake.maintenance.export(tmp_path / "copy", "copied", "minimal")
    copy = mangrove.open(tmp_path / "copy")
    copy.table("shop.sales").append([{"id": 9, "what": "of the copy"}])
    found = shown(copy)
    assert found.folder.startswith(copy.uri)
    tasks = list(opened(found).scan().plan_files())
    assert sorted(task.file.file_path.startswith(copy.uri) for task in tasks) == [False, False, True]
    assert in_order(opened(found).scan().to_arrow()) == in_order(copy.table("shop.sales").to_arrow())


def test_files_of_deltacat_which_keep_no_ids_are_read_by_their_names(tmp_path: Path) -> None:
    shutil.copytree(FIXTURE, tmp_path / "catalog")
    lake = mangrove.open(tmp_path / "catalog")
    for name in ("sales2.purchases", "sales2.users"):
        found = opened(shown(lake, name=name))
        assert in_order(found.scan().to_arrow()) == in_order(lake.table(name).to_arrow())
    assert list(lake.maintenance.check()) == []
