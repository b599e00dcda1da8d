"""UPDATE, DELETE and MERGE on Spark: the number of jobs, and the same rows by collected and by distributed row ids."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import mangrove
from mangrove import InvalidInputError, expr
from mangrove.lakehouse.table import Table
from mangrove.spark.engine import SparkEngine
from mangrove.spark.task_files import create_file_id
from mangrove.storage.counting import CountingStore
from mangrove.storage.opening import open_store
from mangrove.tables.write_plan import RowCounts

pytestmark = pytest.mark.interop

MODES: dict[str, dict[str, Any]] = {
    "keys": {"keys": ["id"]},
    "position": {"keys": ["id"], "properties": {"write.delete-mode": "position"}},
    "copy": {},
}
THREES = "pmod(v, 5) = 3"
"""A condition that only Spark evaluates, so that the driver does not make the change itself."""


@pytest.fixture(params=["tree", "deltacat"])
def create_table(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[str], Table]:
    assert spark is not None
    lake = mangrove.create(tmp_path, layout=request.param)
    lake.create_namespace("s")

    def create(mode: str) -> Table:
        table = lake.create_table(f"s.{mode}", "id bigint not null, v int, w string", **MODES[mode])
        for first in (0, 10):
            table.append([{"id": first + number, "v": number, "w": "a"} for number in range(10)])
        return table

    return create


@pytest.fixture
def count_jobs(spark: SparkSession) -> Callable[[], int]:
    context: Any = spark.sparkContext._jsc.sc()

    def count() -> int:
        context.listenerBus().waitUntilEmpty()
        return int(context.statusStore().jobsList(None).size())

    return count


def rows_of(table: Table) -> list[tuple[int, int | None]]:
    return sorted((row["id"], row["v"]) for row in table.to_arrow(["id", "v"]).to_pylist())


@pytest.mark.parametrize("mode", ["keys", "position"])
def test_a_delete_is_one_job(create_table: Callable[[str], Table], count_jobs: Callable[[], int], mode: str) -> None:
    table = create_table(mode)
    before = count_jobs()
    assert table.delete(THREES, engine="spark") == RowCounts(deleted=4)
    assert count_jobs() - before == 1
    assert [key for key, _ in rows_of(table)] == [key for key in range(20) if key % 5 != 3]


def test_position_deletes_of_many_rows_are_written_by_the_tasks_that_find_them(
    create_table: Callable[[str], Table], count_jobs: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mangrove.spark.row_changes.LOCAL_ROWS_MAX", 0)
    table = create_table("position")
    before = count_jobs()
    assert table.delete("v % 5 = 3", engine="spark") == RowCounts(deleted=4)
    assert count_jobs() - before <= 2, "the job that reads, and the one behind its exchange"
    assert [key for key, _ in rows_of(table)] == [key for key in range(20) if key % 5 != 3]
    assert table.delete("v = 99", engine="spark") == RowCounts()


def test_an_update_that_keeps_the_keys_is_one_job(
    create_table: Callable[[str], Table], count_jobs: Callable[[], int]
) -> None:
    table = create_table("keys")
    before = count_jobs()
    assert table.update({"v": expr("v + id")}, THREES, engine="spark") == RowCounts(updated=4)
    assert table.update({"v": 0}, "abs(v) = 99", engine="spark") == RowCounts()
    assert count_jobs() - before == 2
    assert [pair for pair in rows_of(table) if pair[0] % 5 == 3] == [(3, 6), (8, 16), (13, 16), (18, 26)]


def test_a_change_after_a_delete_and_an_upsert_is_still_one_job(
    create_table: Callable[[str], Table], count_jobs: Callable[[], int]
) -> None:
    table = create_table("keys")
    table.delete("id = 4", engine="local")
    table.upsert([{"id": 5, "v": 3, "w": "a"}, {"id": 20, "v": 3, "w": "a"}], engine="local")
    before = count_jobs()
    assert table.update({"w": "b"}, THREES, engine="spark") == RowCounts(updated=6)
    assert table.delete("w = 'b' and abs(id) > 10", engine="spark") == RowCounts(deleted=3)
    assert count_jobs() - before == 2
    assert {row["id"] for row in table.to_arrow(where="w = 'b'").to_pylist()} == {3, 5, 8}


def test_the_keys_of_a_table_are_read_once_for_all_later_changes(
    create_table: Callable[[str], Table], tmp_path: Path
) -> None:
    table = create_table("keys")
    # Rows inside deltas need no request, so there are more.
    table.append([{"id": number, "v": 3, "w": str(number)} for number in range(100, 4000)])
    table.delete_keys([{"id": number} for number in range(0, 4000, 2)])
    state = table.state()
    store = CountingStore(open_store(str(tmp_path)))
    engine = SparkEngine(store, create_file_id)
    for _ in range(2):
        before = store.requests.reads
        assert engine.delete(state, "v = 3 and pmod(id, 50) in (3, 13)").counts == RowCounts(deleted=2 + 2 * 78)
    assert store.requests.reads == before


def test_a_merge_that_updates_and_inserts_writes_in_the_job_that_joins(
    spark: SparkSession, create_table: Callable[[str], Table], count_jobs: Callable[[], int]
) -> None:
    table = create_table("keys")
    # More rows than are compared value by value.
    source = spark.range(5, 205).selectExpr("id", "cast(id as int) as v", "'b' as w").repartition(2)
    merge = table.merge(source, "t.id = s.id").when_matched_update({"v": expr("t.v + s.v")}, where="s.id % 2 = 0")
    before = count_jobs()
    assert merge.when_not_matched_insert().execute() == RowCounts(inserted=185, updated=7)
    assert count_jobs() - before <= 7
    changed = {key: key % 10 + key if key % 2 == 0 else key % 10 for key in range(5, 20)}
    expected = [(key, changed.get(key, key)) for key in range(205)]
    assert rows_of(table) == expected


def test_a_merge_of_rows_that_share_keys_changes_only_the_matched_ones(create_table: Callable[[str], Table]) -> None:
    table = create_table("keys")
    table.append([{"id": 1, "v": 100}])
    merge = table.merge([{"id": 1, "v": 7}, {"id": 30, "v": 8}], "t.id = s.id", engine="spark")
    merge = merge.when_matched_update({"v": expr("s.v")}, where="t.v = 100").when_not_matched_insert()
    assert merge.execute() == RowCounts(inserted=1, updated=1)
    assert [pair for pair in rows_of(table) if pair[0] in (1, 30)] == [(1, 1), (1, 7), (30, 8)]


def test_a_merge_joins_only_rows_with_keys_of_the_source_and_reads_the_table_once(
    spark: SparkSession, create_table: Callable[[str], Table], count_jobs: Callable[[], int]
) -> None:
    table = create_table("keys")
    source = spark.range(5, 25).selectExpr("id", "cast(id as int) as v", "'b' as w").repartition(2)
    merge = table.merge(source, "t.id = s.id").when_matched_delete("s.v % 2 = 0").when_matched_update()
    before = count_jobs()
    assert merge.when_not_matched_insert().execute() == RowCounts(inserted=5, updated=8, deleted=7)
    assert count_jobs() - before <= 12
    kept, updated, added = range(5), range(5, 20, 2), range(20, 25)
    assert rows_of(table) == [(number, number) for number in (*kept, *updated, *added)]


@pytest.mark.parametrize("rows_max", [None, 0], ids=["collected", "distributed"])
@pytest.mark.parametrize("mode", MODES)
def test_other_rows_with_the_key_of_a_changed_row_remain(
    create_table: Callable[[str], Table], mode: str, rows_max: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rows_max is not None:
        monkeypatch.setattr("mangrove.spark.row_changes.LOCAL_ROWS_MAX", rows_max)
    table = create_table(mode)
    table.append([{"id": 1, "v": 100}, {"id": 1, "v": 101}])
    assert table.update({"v": 200}, "v = 100", engine="spark") == RowCounts(updated=1)
    assert [pair for pair in rows_of(table) if pair[0] == 1] == [(1, 1), (1, 101), (1, 200)]
    assert table.delete("v = 101 or id > 2", engine="spark") == RowCounts(deleted=18)
    assert rows_of(table) == [(0, 0), (1, 1), (1, 200), (2, 2)]
    merge = table.merge([{"id": 1, "v": 5}, {"id": 7, "v": 7}], "t.id = s.id", engine="spark")
    merge = merge.when_matched_delete("t.v = 200").when_not_matched_insert()
    assert merge.execute() == RowCounts(inserted=1, deleted=1)
    assert rows_of(table) == [(0, 0), (1, 1), (2, 2), (7, 7)]


@pytest.mark.parametrize("rows_max", [None, 0], ids=["collected", "distributed"])
def test_a_merge_that_creates_duplicate_keys_is_rejected(
    create_table: Callable[[str], Table], rows_max: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rows_max is not None:
        monkeypatch.setattr("mangrove.spark.row_changes.LOCAL_ROWS_MAX", rows_max)
    table = create_table("keys")
    before = rows_of(table)
    for source, on, clause in (
        ([(1, 0), (1, 1)], "t.id = s.id", {"v": expr("s.v")}),
        ([(1, 2)], "t.id = s.id", {"id": expr("s.v")}),
        ([(1, 40), (2, 40)], "t.id = s.id", {"id": expr("s.v")}),
    ):
        rows = [{"id": key, "v": v} for key, v in source]
        merge = table.merge(rows, on, engine="spark").when_matched_update(clause)
        with pytest.raises(InvalidInputError, match=r"several source rows|keys|more than once"):
            merge.when_not_matched_insert().execute()
    assert rows_of(table) == before
    swapped = table.merge([{"id": 1, "v": 2}, {"id": 2, "v": 1}], "t.id = s.id", engine="spark")
    assert swapped.when_matched_update({"id": expr("s.v")}).execute() == RowCounts(updated=2)
    assert [pair for pair in rows_of(table) if pair[0] in (1, 2)] == [(1, 2), (2, 1)]
