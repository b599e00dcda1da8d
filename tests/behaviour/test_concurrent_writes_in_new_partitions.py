"""Two that depend on which rows are there never both commit, also where neither finds a partition or any row yet."""

from collections.abc import Callable
from typing import Any

import pytest

import mangrove
from mangrove import expr
from mangrove.errors import ConflictError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.table import Table

COLUMNS = "id bigint not null, p int not null, a int, b int"
BY_PARTITION: dict[str, Any] = {"keys": ["id", "p"], "partition_by": ["p"]}
WHOLE: dict[str, Any] = {"keys": ["id"]}
Act = Callable[[Table, int], object]


def row(turn: int, p: int = 7) -> dict[str, int]:
    return {"id": 5, "p": p, "a": turn, "b": turn}


def merge(table: Table, turn: int) -> object:
    on = "t.id = s.id and t.p = s.p"
    found = table.merge([row(turn)], on=on).when_matched_update({"a": expr("t.a + s.a")})
    return found.when_not_matched_insert().execute()


def delete_and_append(table: Table, turn: int) -> None:
    table.delete("p = 7")
    table.append([row(turn)])


LOOKING: dict[str, Act] = {
    "merge": merge,
    "upsert of some columns": lambda table, turn: table.upsert([{"id": 5, "p": 7, "ab"[turn]: 9}]),
    "overwrite of one partition": lambda table, turn: table.overwrite([row(turn)], where="p = 7"),
    "overwrite of many, each in another": lambda table, turn: table.overwrite([row(turn, 7 + turn)], where="p >= 5"),
    "overwrite of its partitions": lambda table, turn: table.overwrite_partitions([row(turn)]),
    "delete and append": delete_and_append,
    "overwrite": lambda table, turn: table.overwrite([row(turn, 7 + turn)]),
}


@pytest.fixture(params=["tree", "deltacat"])
def lake(request: pytest.FixtureRequest, tmp_path: Any) -> Lakehouse:
    opened = mangrove.create(tmp_path / "lake", layout=request.param)
    opened.create_namespace("n")
    return opened


@pytest.mark.parametrize("has_rows", [False, True], ids=["empty", "rows in another partition"])
@pytest.mark.parametrize("name", LOOKING)
def test_concurrent_predicate_writes_to_a_missing_partition_conflict(
    lake: Lakehouse, name: str, has_rows: bool
) -> None:
    table = lake.create_table("n.t", COLUMNS, **BY_PARTITION)
    if has_rows:
        table.append([row(0, p=1)])
    one, two = lake.transaction(), lake.transaction()
    LOOKING[name](one.table("n.t"), 0)
    LOOKING[name](two.table("n.t"), 1)
    one.commit()
    before = table.to_arrow().to_pylist()
    with pytest.raises(ConflictError, match=rf"transaction {one.id} changed it first"):
        two.commit()
    assert table.to_arrow().to_pylist() == before
    lake.run(lambda again: LOOKING[name](again.table("n.t"), 1))
    assert len([found for found in table.to_arrow().to_pylist() if found["p"] >= 5]) == 1


@pytest.mark.parametrize("name", ["merge", "upsert of some columns", "overwrite of one partition", "overwrite"])
def test_concurrent_predicate_writes_to_an_empty_table_conflict(lake: Lakehouse, name: str) -> None:
    table = lake.create_table("n.t", COLUMNS, **WHOLE)
    one, two = lake.transaction(), lake.transaction()
    LOOKING[name](one.table("n.t"), 0)
    LOOKING[name](two.table("n.t"), 1)
    one.commit()
    with pytest.raises(ConflictError):
        two.commit()
    assert table.to_arrow().num_rows == 1


def test_appends_to_new_partitions_conflict_neither_with_each_other_nor_with_an_unpartitioned_overwrite(
    lake: Lakehouse,
) -> None:
    for name, how in {"n.t": BY_PARTITION, "n.u": WHOLE}.items():
        table = lake.create_table(name, COLUMNS, **how)
        first, second = lake.transaction(), lake.transaction()
        first.table(name).append([row(0)])
        second.table(name).append([row(1)])
        first.commit()
        second.commit()
        assert table.to_arrow().num_rows == 2
    fresh = lake.create_table("n.v", COLUMNS, **WHOLE)
    loading, replacing = lake.transaction(), lake.transaction()
    loading.table("n.v").append([row(0)])
    replacing.table("n.v").overwrite([row(1)])
    loading.commit()
    replacing.commit()
    assert fresh.to_arrow()["a"].to_pylist() == [1]


def test_a_retried_merge_reads_the_rows_of_a_concurrent_commit_to_the_new_partition(lake: Lakehouse) -> None:
    table = lake.create_table("n.t", COLUMNS, **BY_PARTITION)
    concurrent_commit = lake.transaction()
    merge(concurrent_commit.table("n.t"), 3)
    merge(table, 4)
    with pytest.raises(ConflictError):
        concurrent_commit.commit()
    lake.run(lambda again: merge(again.table("n.t"), 3))
    assert table.to_arrow()["a"].to_pylist() == [7]
