"""Every defect that was seen in DeltaCAT is a claim that a test proves of Mangrove; the list is complete."""

from pathlib import Path

import pytest

import mangrove

TESTS = Path(__file__).parents[1]
PROVEN = {
    "lost concurrent appends": "test_concurrent_appends_of_four_processes_lose_nothing",
    "an orphan file hiding a committed one": "test_an_orphan_file_does_not_replace_a_committed_one",
    "unstable as-of": "test_time_travel_by_time_is_repeatable",
    "ADD across a replace": "test_an_add_conflicts_with_a_concurrent_replace_of_the_stream",
    "append across a drop": "test_an_append_conflicts_with_a_concurrent_drop",
    "an uncommitted rename breaking other readers": "test_an_uncommitted_rename_is_not_seen_by_others",
    "as-of before a rename": "test_as_of_before_renames_finds_the_old_names",
    "a crashed writer's leftovers never cleaned": "test_files_of_a_crashed_writer_are_cleaned_up",
    "partial-column upsert mixing rows up": "test_a_partial_upsert_does_not_mix_up_rows",
    "composite-key delete removing too much": "test_a_delete_by_a_two_column_key_removes_only_the_matching_rows",
    "keys used as column positions": "test_keys_stay_the_same_columns_after_a_column_before_them_is_dropped",
    "999 revisions of one object": "test_an_object_can_have_more_than_999_revisions",
    "reading a partitioned table": "test_a_partitioned_table_is_read_whole_and_by_its_partitions",
}


@pytest.fixture(params=["deltacat", "deltacat-2"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> mangrove.Lakehouse:
    lake = mangrove.create(tmp_path / "lake", layout=request.param)
    lake.create_namespace("sales")
    return lake


def _rows(lake: mangrove.Lakehouse, name: str, where: str | None = None) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in lake.table(name).to_arrow(where=where).to_pylist())


@pytest.mark.parametrize("defect", PROVEN)
def test_each_defect_has_a_test_of_its_own(defect: str) -> None:
    files = [*(TESTS / "layouts" / "deltacat").glob("test_*.py"), Path(__file__)]
    assert sum(f"def {PROVEN[defect]}(" in file.read_text("utf-8") for file in files) == 1


def test_files_of_a_crashed_writer_are_cleaned_up(lake: mangrove.Lakehouse, tmp_path: Path) -> None:
    table = lake.create_table("sales.orders", schema="id bigint")
    table.append([{"id": 1}])
    written = [path for path in (tmp_path / "lake").rglob("*_create_*.mpk") if "/mangrove/" not in str(path)]
    left = []
    for path in written:
        number, operation, _, _ = path.stem.split("_")
        orphan = path.with_name(f"{int(number) + 1:020}_{operation}_1_00000000-0000-4000-8000-000000000000.mpk")
        orphan.write_bytes(path.read_bytes())
        left.append(orphan)
    assert left
    assert _rows(lake, "sales.orders") == [(1,)]
    assert {Path(path).name for path in lake.maintenance.vacuum(alone=True).paths} == {orphan.name for orphan in left}
    assert not any(orphan.exists() for orphan in left)
    assert _rows(lake, "sales.orders") == [(1,)]
    assert list(lake.maintenance.check()) == []


def test_a_partial_upsert_does_not_mix_up_rows(lake: mangrove.Lakehouse) -> None:
    table = lake.create_table("sales.users", schema="uid bigint not null, name string, age bigint", keys=["uid"])
    table.append([{"uid": 1, "name": "a", "age": 10}, {"uid": 2, "name": "b", "age": 20}])
    table.upsert([{"uid": 2, "age": 21}])
    assert _rows(lake, "sales.users", "uid = 1") == [(1, "a", 10)]
    ((uid, name, age),) = _rows(lake, "sales.users", "uid = 2")
    assert (uid, age) == (2, 21)
    assert name in ("b", None), "the other column is kept or null, and never another row's"


def test_a_delete_by_a_two_column_key_removes_only_the_matching_rows(lake: mangrove.Lakehouse) -> None:
    table = lake.create_table("sales.lines", schema="a bigint not null, b bigint not null, v string", keys=["a", "b"])
    table.append([{"a": a, "b": b, "v": f"{a}{b}"} for a in (1, 2) for b in (1, 2)])
    table.delete_keys([{"a": 1, "b": 2}, {"a": 2, "b": 1}])
    assert _rows(lake, "sales.lines") == [(1, 1, "11"), (2, 2, "22")]


def test_keys_stay_the_same_columns_after_a_column_before_them_is_dropped(lake: mangrove.Lakehouse) -> None:
    table = lake.create_table("sales.items", schema="note string, id bigint not null, v string", keys=["id"])
    table.append([{"note": "x", "id": 1, "v": "a"}, {"note": "x", "id": 2, "v": "b"}])
    table.update_schema().drop_column("note").commit()
    table.upsert([{"id": 2, "v": "c"}])
    assert _rows(lake, "sales.items") == [(1, "a"), (2, "c")]


def test_a_partitioned_table_is_read_whole_and_by_its_partitions(lake: mangrove.Lakehouse) -> None:
    table = lake.create_table("sales.days", schema="day string, v bigint", partition_by=["day"])
    table.append([{"day": day, "v": v} for day in ("mon", "tue") for v in (1, 2)])
    table.append([{"day": "tue", "v": 3}])
    assert len(_rows(lake, "sales.days")) == 5
    assert _rows(lake, "sales.days", "day = 'tue'") == [("tue", 1), ("tue", 2), ("tue", 3)]
    assert len({file.location for file in table.scan(where="day = 'mon'").files()}) == 1
