"""A merge by the keys that sets all columns is an upsert: it reads no rows and never conflicts with another one."""

from collections.abc import Callable
from decimal import Decimal

import pytest
from tests.support.table_properties import DATA_FILES_ONLY

from mangrove import ConflictError, InvalidInputError, Lakehouse, expr
from mangrove.effects import Effects
from mangrove.lakehouse.merge import TableMerge
from mangrove.lakehouse.opening import create_on_store
from mangrove.lakehouse.table import Table
from mangrove.model.objects import DeltaType
from mangrove.storage.counting import CountingStore
from mangrove.tables.write_plan import RowCounts
from mangrove.wiring import LocalEngines

SOURCE = [{"day": 1, "id": 2, "v": 20}, {"day": 1, "id": 3, "v": 30}]
ON = "t.id = s.id and t.day = s.day"
ALL = {"day": expr("s.day"), "id": expr("s.id"), "v": expr("s.v")}
VALUE = {"v": expr("s.v")}


@pytest.fixture
def lake(effects: Effects, layout: str, strict: bool | None) -> Lakehouse:
    made = create_on_store(effects, layout=layout, strict=strict, engines=LocalEngines)
    made.create_namespace("s")
    return made


@pytest.fixture
def table(lake: Lakehouse) -> Table:
    schema = "day int not null, id bigint not null, v int"
    table = lake.create_table("s.t", schema, keys=["day", "id"], properties=DATA_FILES_ONLY)
    table.append([{"day": 1, "id": number, "v": number} for number in (1, 2)])
    return table


def add_clauses(merge: TableMerge) -> TableMerge:
    return merge.when_matched_update().when_not_matched_insert()


UPSERTS: dict[str, Callable[[Table], TableMerge]] = {
    "all columns": lambda table: add_clauses(table.merge(SOURCE, ON)),
    "source first, other case": lambda table: add_clauses(table.merge(SOURCE, "S.day = T.DAY and (s.ID = t.id)")),
    "insert clause first": lambda table: table.merge(SOURCE, ON).when_not_matched_insert().when_matched_update(),
    "columns listed": lambda table: table.merge(SOURCE, ON).when_matched_update(ALL).when_not_matched_insert(ALL),
    "keys not updated": lambda table: table.merge(SOURCE, ON).when_matched_update(VALUE).when_not_matched_insert(),
    "source columns of other names": lambda table: (
        table.merge([{"d": 1, "i": row["id"], "n": row["v"]} for row in SOURCE], "t.id = s.i and t.day = s.d")
        .when_matched_update({"v": expr("s.n")})
        .when_not_matched_insert({"day": expr("s.d"), "id": expr("s.i"), "v": expr("s.n")})
    ),
    "additional source columns": lambda table: add_clauses(table.merge([{**row, "x": 1} for row in SOURCE], ON)),
}


@pytest.mark.parametrize("name", UPSERTS)
def test_a_merge_that_sets_all_columns_by_key_reads_no_rows(table: Table, store: CountingStore, name: str) -> None:
    (file,) = table.scan().files()
    data = store.read(file.location)
    store.delete_many([file.location])
    assert UPSERTS[name](table).execute() == RowCounts(None, None, 0, upserted=2)
    store.put(file.location, data)
    assert [delta.type for _, delta in table.deltas()][-1] is DeltaType.UPSERT
    found = table.to_arrow(["id", "v"]).sort_by("id").to_pylist()
    assert found == [{"id": 1, "v": 1}, {"id": 2, "v": 20}, {"id": 3, "v": 30}]


OTHERS: dict[str, Callable[[Table], TableMerge]] = {
    "condition beside the keys": lambda table: add_clauses(table.merge(SOURCE, f"{ON} and s.v > 0")),
    "condition of a clause": lambda table: (
        table.merge(SOURCE, ON).when_matched_update(where="s.v > 0").when_not_matched_insert()
    ),
    "some keys": lambda table: add_clauses(table.merge(SOURCE, "t.id = s.id")),
    "missing source columns": lambda table: add_clauses(
        table.merge([{"day": row["day"], "id": row["id"]} for row in SOURCE], ON)
    ),
    "values of the table": lambda table: (
        table.merge(SOURCE, ON).when_matched_update({"v": expr("t.v * s.v")}).when_not_matched_insert()
    ),
    "different values": lambda table: table.merge(SOURCE, ON).when_matched_update({"v": 1}).when_not_matched_insert(),
    "additional clause": lambda table: add_clauses(table.merge(SOURCE, ON).when_matched_delete("s.v < 0")),
}


@pytest.mark.parametrize("name", OTHERS)
def test_every_other_merge_counts_updated_and_inserted_rows(table: Table, name: str) -> None:
    assert OTHERS[name](table).execute() == RowCounts(inserted=1, updated=1, deleted=0)


def test_a_key_that_sql_compares_as_another_type_is_matched_by_its_value(lake: Lakehouse) -> None:
    table = lake.create_table("s.t", "id decimal(9,2) not null, v int", keys=["id"])
    table.append([{"id": Decimal("1.00"), "v": 1}])
    merge = table.merge([{"id": 1, "v": 2}, {"id": 2, "v": 3}], "t.id = s.id")
    assert add_clauses(merge).execute() == RowCounts(inserted=1, updated=1, deleted=0)


def test_a_table_that_deletes_by_position_is_merged_by_position(table: Table) -> None:
    table.alter({"write.delete-mode": "position"})
    assert add_clauses(table.merge(SOURCE, ON)).execute() == RowCounts(inserted=1, updated=1, deleted=0)


@pytest.mark.parametrize("fault", [{"id": 3, "v": 31}, {"id": None, "v": 1}])
def test_duplicate_and_null_keys_of_the_source_are_errors(table: Table, lake: Lakehouse, fault: dict[str, int]) -> None:
    before = lake.version
    with pytest.raises(InvalidInputError, match=r"more than once|not null"):
        add_clauses(table.merge([*SOURCE, {"day": 1, **fault}], ON)).execute()
    assert lake.version == before


def test_two_merges_of_the_same_row_both_commit_and_the_later_one_wins(table: Table, lake: Lakehouse) -> None:
    first, second = lake.transaction(), lake.transaction()
    for transaction, v in ((first, 7), (second, 8)):
        add_clauses(transaction.table("s.t").merge([{"day": 1, "id": 1, "v": v}], ON)).execute()
    first.commit()
    second.commit()
    assert table.to_arrow(where="id = 1")["v"].to_pylist() == [8]


def test_a_merge_of_a_row_that_the_transaction_has_read_conflicts_with_its_change(
    table: Table, lake: Lakehouse
) -> None:
    reader = lake.transaction()
    assert reader.table("s.t").to_arrow(where="id = 1")["v"].to_pylist() == [1]
    add_clauses(reader.table("s.t").merge([{"day": 1, "id": 1, "v": 2}], ON)).execute()
    table.upsert([{"day": 1, "id": 1, "v": 100}])
    with pytest.raises(ConflictError, match=r"rows of table s\.t"):
        reader.commit()
