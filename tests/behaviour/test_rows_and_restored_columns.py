"""Rows stay valid, and column ids are assigned once, when columns and constraints of a table are restored."""

import itertools
from collections.abc import Callable

import pytest

import mangrove
from mangrove.errors import ConflictError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.table import Table

LARGE = 2**40


_NUMBERS = itertools.count()


@pytest.fixture
def lake(layout: str, strict: bool | None) -> Lakehouse:
    return mangrove.create(f"memory://restored-{layout}-{next(_NUMBERS)}/", layout=layout, strict=strict)


@pytest.fixture
def table(lake: Lakehouse) -> Table:
    lake.create_namespace("n")
    made = lake.create_table("n.t", "id bigint not null, k int", keys=["id"])
    made.append([{"id": 1, "k": 1}])
    return made


def widen(table: Table) -> None:
    with table.update_schema() as update:
        update.widen("k", "bigint")


def add_column(table: Table, name: str, data_type: str) -> None:
    with table.update_schema() as update:
        update.add_column(name, data_type)


def require_k(table: Table) -> None:
    with table.update_schema() as update:
        update.set_not_null("k")


def require_positive(table: Table) -> None:
    with table.update_schema() as update:
        update.add_check("positive", "id > 0")


def test_an_undo_does_not_narrow_a_column_over_later_rows(lake: Lakehouse, table: Table) -> None:
    widen(table)
    widened = lake.version
    table.append([{"id": 2, "k": LARGE}])
    with pytest.raises(ConflictError, match=f"version {widened} cannot be undone"):
        lake.undo(widened)
    assert table.to_arrow().column("k").to_pylist() == [1, LARGE]


@pytest.mark.parametrize("require", [require_k, require_positive])
def test_an_undo_does_not_restore_a_constraint_over_later_rows(
    lake: Lakehouse, table: Table, require: Callable[[Table], None]
) -> None:
    require(table)
    with table.update_schema() as update:
        if require is require_k:
            update.drop_not_null("k")
        else:
            update.drop_check("positive")
    dropped = lake.version
    table.append([{"id": -2, "k": None}])
    with pytest.raises(ConflictError, match="cannot be undone"):
        lake.undo(dropped)
    assert table.count() == 2


def test_an_undo_that_narrows_a_column_conflicts_with_a_concurrent_append(lake: Lakehouse, table: Table) -> None:
    widen(table)
    widened = lake.version
    transaction = lake.transaction()
    transaction.table("n.t").append([{"id": 2, "k": LARGE}])
    lake.undo(widened)
    with pytest.raises(ConflictError):
        transaction.commit()
    assert table.to_arrow().to_pylist() == [{"id": 1, "k": 1}]


def test_a_constraint_that_no_later_row_violates_is_dropped_by_an_undo(lake: Lakehouse, table: Table) -> None:
    require_positive(table)
    required = lake.version
    table.append([{"id": 2, "k": 2}])
    lake.undo(required)
    table.append([{"id": -3, "k": 3}])
    assert table.count() == 3


def test_a_new_column_has_no_values_of_a_column_whose_addition_was_undone(lake: Lakehouse, table: Table) -> None:
    add_column(table, "salary", "bigint")
    added = lake.version
    table.append([{"id": 2, "k": 2, "salary": 7777}])
    lake.undo(added)
    add_column(table, "note", "string")
    assert table.to_arrow().column("note").to_pylist() == [None, None]


@pytest.mark.parametrize("rolled_back", ["table", "lakehouse"])
def test_a_new_column_has_no_changes_of_a_column_that_a_rollback_removed(
    lake: Lakehouse, table: Table, rolled_back: str
) -> None:
    first = lake.version
    add_column(table, "salary", "bigint")
    table.upsert([{"id": 1, "k": 1, "salary": 5}])
    changed = lake.version
    if rolled_back == "table":
        table.rollback(to=first)
    else:
        lake.rollback(to=first)
    lake = mangrove.open(lake.uri)
    table = lake.table("n.t")
    add_column(table, "note", "string")
    table.upsert([{"id": 1, "k": 2, "note": "new"}])
    before = [row for row in table.changes(changed).to_pylist() if row["_change_type"] == "update_before"]
    assert [row["note"] for row in before] == [None]
    assert lake.maintenance.check().is_sound


def test_a_rollback_of_the_lakehouse_changes_no_table_version_without_new_columns(
    lake: Lakehouse, table: Table
) -> None:
    first = lake.version
    table.append([{"id": 2, "k": 2}])
    lake.rollback(to=first)
    assert lake.diff(first, lake.version).changes == ()


@pytest.mark.parametrize("require", [require_k, require_positive])
def test_rows_that_violate_a_later_constraint_are_not_published(
    lake: Lakehouse, table: Table, require: Callable[[Table], None]
) -> None:
    with lake.begin_shared("load", "6h") as shared:
        shared.table("n.t").append([{"id": -5, "k": None}])
    require(table)
    loaded = lake.join_shared("load")
    assert loaded.find_conflict() is not None
    with pytest.raises(ConflictError, match="Nothing was published"):
        loaded.publish()
    assert table.count() == 1


def test_rows_of_a_column_that_a_rollback_narrowed_are_not_published(lake: Lakehouse, table: Table) -> None:
    narrow = lake.version
    widen(table)
    with lake.begin_shared("load", "6h") as shared:
        shared.table("n.t").append([{"id": 2, "k": LARGE}])
    table.rollback(to=narrow)
    with pytest.raises(ConflictError, match="Nothing was published"):
        lake.join_shared("load").publish()
    assert table.to_arrow().to_pylist() == [{"id": 1, "k": 1}]


def test_rows_are_not_published_beside_a_partition_with_a_chosen_id(lake: Lakehouse) -> None:
    lake.create_namespace("n")
    table = lake.create_table("n.p", "id bigint not null, p string not null", keys=["id", "p"], partition_by=["p"])
    with lake.begin_shared("load", "6h") as shared:
        shared.table("n.p").append([{"id": 1, "p": "a"}])
    table.create_partition(["a"], "chosen")
    table.append([{"id": 1, "p": "a"}])
    with pytest.raises(ConflictError, match="Nothing was published"):
        lake.join_shared("load").publish()
    assert table.count() == 1


def test_rows_are_published_after_a_column_was_added(lake: Lakehouse, table: Table) -> None:
    with lake.begin_shared("load", "6h") as shared:
        shared.table("n.t").append([{"id": 2, "k": 2}])
    add_column(table, "note", "string")
    lake.join_shared("load").publish()
    assert table.to_arrow().column("note").to_pylist() == [None, None]


def test_rows_of_a_partition_that_a_rollback_removed_are_not_published(lake: Lakehouse) -> None:
    lake.create_namespace("n")
    table = lake.create_table("n.visits", "id bigint not null, day bigint", partition_by=["day"])
    empty = lake.version
    table.append([{"id": 1, "day": 1}])
    shared = lake.begin_shared("load", ttl="6h")
    shared.table("n.visits").append([{"id": 2, "day": 1}])
    table.rollback(to=empty)
    with pytest.raises(ConflictError, match=r"roll back n\.visits"):
        shared.publish()
    assert table.to_arrow().num_rows == 0
