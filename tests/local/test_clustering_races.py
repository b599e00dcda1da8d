"""Naming the columns that rows are clustered by while others write, compact, or change the columns."""

from collections.abc import Callable
from pathlib import Path

import pytest

import mangrove
from mangrove.errors import ConflictError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.transaction import Transaction

Act = Callable[[Transaction], object]

COMPATIBLE_CHANGES: dict[str, tuple[Act, list[int]]] = {
    "append": (lambda txn: txn.table("s.t").append([{"id": 9, "a": 9}]), [0, 1, 2, 9]),
    "upsert": (lambda txn: txn.table("s.t").upsert([{"id": 1, "a": 7}]), [0, 1, 2]),
    "delete": (lambda txn: txn.table("s.t").delete("id = 1"), [0, 2]),
    "overwrite": (lambda txn: txn.table("s.t").overwrite([{"id": 5, "a": 5}]), [5]),
    "compact": (lambda txn: txn.table("s.t").compact(full=True), [0, 1, 2]),
}
CONFLICTING_CHANGES: dict[str, Act] = {
    "rename the column": lambda txn: txn.table("s.t").update_schema().rename_column("a", "z").commit(),
    "drop the column": lambda txn: txn.table("s.t").update_schema().drop_column("a").commit(),
    "cluster by another": lambda txn: txn.table("s.t").alter({"write.cluster-by": "id"}),
    "rename the table": lambda txn: txn.rename_table("s.t", "s.u"),
    "drop the table": lambda txn: txn.drop_table("s.t"),
}


@pytest.fixture(params=["tree", "deltacat"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(tmp_path / "lake", layout=request.param)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id int not null, a int", keys=["id"])
    for number in range(3):
        table.append([{"id": number, "a": -number}])
    return lake


def cluster(transaction: Transaction) -> None:
    transaction.table("s.t").alter({"write.cluster-by": "a"})


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("name", COMPATIBLE_CHANGES)
def test_clustering_and_a_change_of_rows_both_commit_and_no_row_is_lost(
    shop: Lakehouse, name: str, is_first: bool
) -> None:
    act, expected = COMPATIBLE_CHANGES[name]
    clustering, other = shop.transaction(), shop.transaction()
    cluster(clustering)
    act(other)
    for one in (clustering, other) if is_first else (other, clustering):
        one.commit()
    table = shop.table("s.t")
    assert table.properties["write.cluster-by"] == "a"
    assert sorted(table.to_arrow(["id"])["id"].to_numpy().tolist()) == expected
    table.compact(full=True)
    found = table.to_arrow()
    assert sorted(found["id"].to_numpy().tolist()) == expected
    assert found["a"].to_numpy().tolist() == sorted(found["a"].to_numpy().tolist())


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("name", CONFLICTING_CHANGES)
def test_clustering_and_a_change_of_the_same_column_or_table_do_not_both_commit(
    shop: Lakehouse, name: str, is_first: bool
) -> None:
    clustering, other = shop.transaction(), shop.transaction()
    cluster(clustering)
    CONFLICTING_CHANGES[name](other)
    first, second = (clustering, other) if is_first else (other, clustering)
    first.commit()
    with pytest.raises(ConflictError, match=rf"transaction {first.id} changed it first"):
        second.commit()
    for table in shop.tables("s"):
        table.compact(full=True)
        assert table.to_arrow().num_rows == 3


def test_a_column_rename_does_not_conflict_with_a_concurrent_change_of_other_properties(shop: Lakehouse) -> None:
    noting, renaming = shop.transaction(), shop.transaction()
    noting.table("s.t").alter({"owner": "ana"})
    renaming.table("s.t").update_schema().rename_column("a", "z").commit()
    noting.commit()
    renaming.commit()
    table = shop.table("s.t")
    assert table.properties["owner"] == "ana"
    assert table.to_arrow().column_names == ["id", "z"]
