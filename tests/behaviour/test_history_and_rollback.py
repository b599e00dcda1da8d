"""Looking back: what changed between versions, rolling back, undoing one version."""

from collections.abc import Callable
from dataclasses import replace

import pytest

import mangrove
from mangrove.effects import Effects
from mangrove.errors import ConflictError, InvalidInputError, NotFoundError
from mangrove.lakehouse.diff import ChangeKind
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store
from mangrove.model.manifests import DataFile, FileKind, Manifest
from mangrove.model.objects import Delta, DeltaType
from mangrove.transaction.version_diff import scan_all_objects
from mangrove.wiring import LocalEngines

_NUMBERS = iter(range(10**6))


@pytest.fixture
def sales(lake: Lakehouse) -> Lakehouse:
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id int")
    lake.create_view("sales.daily", "select 1")
    return lake


def append(lake: Lakehouse, name: str, rows: int = 10, kind: DeltaType = DeltaType.APPEND) -> int:
    files = (DataFile(f"data/{name}.parquet", 100 * rows, rows), DataFile(f"data/{name}.x", 7, 3, FileKind.KEY_DELETES))
    transaction = lake.transaction()
    transaction.add_delta("sales.orders", (), Delta(kind, Manifest(files)))
    return transaction.commit()


def told(lake: Lakehouse, before: int, after: int | None = None) -> list[str]:
    return [str(change) for change in lake.diff(before, after).changes]


def files(lake: Lakehouse) -> list[str]:
    return [value.manifest.entries[0].location for _, value in lake.table("sales.orders").deltas()]


def test_a_diff_lists_added_changed_renamed_and_dropped_objects(sales: Lakehouse) -> None:
    base = sales.version
    with sales.transaction() as transaction:
        transaction.create_namespace("finance")
        transaction.create_table("finance.ledger", "id int")
        transaction.alter_view("sales.daily", {"a": "b"})
        transaction.rename_table("sales.orders", "finance.orders")
    assert told(sales, base) == [
        "added namespace finance",
        "added table finance.ledger",
        "renamed table finance.orders (was sales.orders)",
        "changed view sales.daily",
    ]
    assert told(sales, sales.version, base) == [
        "dropped namespace finance",
        "dropped table finance.ledger",
        "renamed table sales.orders (was finance.orders)",
        "changed view sales.daily",
    ]
    assert told(sales, base, base) == []
    assert str(sales.diff(base, base)) == f"from version {base} to version {base}:\n  nothing"


def test_a_diff_counts_added_and_removed_rows_and_bytes(sales: Lakehouse) -> None:
    base = sales.version
    append(sales, "one", 10)
    append(sales, "two", 5)
    (change,) = sales.diff(base).changes
    assert (change.name, change.change) == ("sales.orders", ChangeKind.CHANGED)
    assert (change.rows.deltas_added, change.rows.rows_added, change.rows.bytes_added) == (2, 15, 1514)
    (change,) = sales.diff(sales.version, base + 1).changes
    assert (change.rows.deltas_removed, change.rows.rows_removed, change.rows.bytes_removed) == (1, 5, 507)
    assert told(sales, base) == ["changed table sales.orders: +15 −0 rows, +1,514 −0 bytes"]


def test_a_recreated_table_is_reported_as_changed(sales: Lakehouse) -> None:
    base = sales.version
    append(sales, "one")
    sales.drop_table("sales.orders")
    sales.create_table("sales.orders", "id int")
    assert [change.name for change in sales.diff(base).changes if change.change is ChangeKind.CHANGED][:1] == [
        "sales.orders"
    ]


def test_a_rollback_restores_the_whole_content_of_a_version(
    sales: Lakehouse, opened_again: Callable[[], Lakehouse]
) -> None:
    append(sales, "one")
    good = sales.version
    append(sales, "two")
    with sales.transaction() as transaction:
        transaction.drop_view("sales.daily")
        transaction.create_namespace("oops")
        transaction.rename_table("sales.orders", "oops.orders")
    sales.drop_namespace("oops", cascade=True)
    version = sales.rollback(to=good, author="ana")
    assert version == good + 4
    other = opened_again()
    assert dict(scan_all_objects(other._reading())) == dict(scan_all_objects(other.at(good)._reading()))
    assert files(other) == ["data/one.parquet"]
    newest = other.history()[0]
    assert (newest.message, newest.author) == (f"roll back to version {good}", "ana")
    assert [table.name for table in other.at(good + 1).tables("sales")] == ["orders"]
    append(other, "three")
    assert files(other) == ["data/one.parquet", "data/three.parquet"]


def test_a_transaction_that_started_before_a_rollback_conflicts_with_it(sales: Lakehouse) -> None:
    before = sales.version
    append(sales, "one")
    append(sales, "two")
    late = sales.transaction()
    late.add_delta("sales.orders", (), Delta(DeltaType.UPSERT))
    late.alter_view("sales.daily", {"a": "b"})
    sales.alter_view("sales.daily", {"c": "d"})
    sales.rollback(to=before)
    with pytest.raises(ConflictError):
        late.commit()


def test_a_rollback_to_a_missing_version_changes_nothing(sales: Lakehouse) -> None:
    before = sales.version
    with pytest.raises(NotFoundError):
        sales.rollback(to=before + 5)
    assert sales.version == before


def test_rolling_back_to_the_newest_version_commits_nothing(sales: Lakehouse) -> None:
    before = sales.version
    assert sales.rollback(to=before) == before
    assert sales.version == before


def test_the_error_of_an_undo_names_the_missing_version(sales: Lakehouse) -> None:
    with pytest.raises(NotFoundError, match="999"):
        sales.undo(999)


def test_undo_reverts_one_version_and_keeps_later_ones_intact(sales: Lakehouse) -> None:
    excluded = append(sales, "unwanted")
    append(sales, "wanted")
    sales.alter_view("sales.daily", {"a": "b"})
    assert sales.undo(excluded) == excluded + 3
    assert files(sales) == ["data/wanted.parquet"]
    assert sales.view("sales.daily").properties == {"a": "b"}
    assert sales.history()[0].message == f"undo version {excluded}"


def test_undo_restores_dropped_objects(sales: Lakehouse) -> None:
    append(sales, "one")
    append(sales, "two")
    before = dict(scan_all_objects(sales._reading()))
    sales.drop_namespace("sales", cascade=True)
    dropped = sales.version
    sales.create_namespace("other")
    sales.undo(dropped)
    sales.drop_namespace("other")
    assert dict(scan_all_objects(sales._reading())) == before
    assert files(sales) == ["data/one.parquet", "data/two.parquet"]


def test_undoing_a_namespace_rename_keeps_its_content(sales: Lakehouse) -> None:
    before = dict(scan_all_objects(sales._reading()))
    sales.rename_namespace("sales", "shop")
    sales.undo(sales.version)
    assert dict(scan_all_objects(sales._reading())) == before


def test_an_undo_of_objects_that_later_versions_changed_is_rejected(sales: Lakehouse) -> None:
    altered = sales.view("sales.daily").alter({"a": "1"}).catalog._reading()
    version = sales.version
    sales.view("sales.daily").alter({"a": "2"})
    with pytest.raises(ConflictError, match=r"view sales\.daily"):
        sales.undo(version)
    assert altered is not None


def test_an_undo_of_a_table_creation_is_rejected_after_later_appends(sales: Lakehouse) -> None:
    append(sales, "rows")
    with pytest.raises(ConflictError, match="later version changed"):
        sales.undo(2)


def test_an_undo_of_an_append_is_rejected_after_a_compaction(sales: Lakehouse) -> None:
    version = append(sales, "one")
    append(sales, "compacted", kind=DeltaType.REPLACE)
    with pytest.raises(ConflictError, match=r"a later version changed rows of table sales.orders.version_1\. Undo the"):
        sales.undo(version)


def test_a_refused_undo_names_the_table_under_its_current_name_and_the_table_version(sales: Lakehouse) -> None:
    table = sales.table("sales.orders")
    table.create_version()
    created = sales.version
    table.version(2).create_stream("reload")
    staged = sales.version
    with pytest.raises(ConflictError, match=r"a later version changed stream reload of sales\.orders\.version_2"):
        sales.undo(created)
    table.rename("sales.renamed")
    sales.table("sales.renamed").version(2).stream("reload").commit_stream()
    with pytest.raises(ConflictError, match=r"changed stream reload of sales\.renamed\.version_2"):
        sales.undo(staged)


def test_conflicts_name_table_versions_and_streams_alike_in_every_layout(sales: Lakehouse) -> None:
    sales.table("sales.orders").create_stream("reload")
    late, other = sales.transaction(), sales.transaction()
    late.add_delta(
        "sales.orders",
        (),
        Delta(DeltaType.APPEND, Manifest((DataFile("data/late.parquet", 1, 1),))),
        stream_id="reload",
    )
    other.table("sales.orders").version(1).update_schema().add_column("more", "string").commit()
    sales.table("sales.orders").stream("reload").commit_stream()
    with pytest.raises(ConflictError, match=r"^stream reload of sales\.orders\.version_1: .* changed it first"):
        late.commit()
    with pytest.raises(ConflictError, match=r"^table version 1 of sales\.orders: .* changed it first"):
        other.commit()


MODES = [("auto", True), ("auto", False), ("keys", True), ("position", True), ("position", False), ("copy", False)]


@pytest.mark.parametrize(("mode", "has_keys"), MODES)
def test_a_redone_update_does_not_bring_back_a_row_whose_append_was_undone(
    layout: str, mode: str, has_keys: bool
) -> None:
    lake = mangrove.create(f"memory://redo-{layout}-{next(_NUMBERS)}/", layout=layout)
    lake.create_namespace("s")
    keys = ["id"] if has_keys else []
    properties = {"write.delete-mode": mode}
    table = lake.create_table("s.t", "id bigint not null, v bigint", keys=keys, properties=properties)
    table.append([{"id": 9, "v": 0}])
    table.append([{"id": 1, "v": 0}])
    appended = lake.version
    table.update({"v": 5}, where="id = 1")
    undone_update = lake.undo(lake.version)
    undone_append = lake.undo(appended)
    with pytest.raises(ConflictError, match=r"a later version changed rows of table s\.t\.version_1\. Undo the later"):
        lake.undo(undone_update)
    assert table.to_arrow().to_pylist() == [{"id": 9, "v": 0}]
    lake.undo(undone_append)
    lake.undo(undone_update)
    assert table.to_arrow().sort_by("id").to_pylist() == [{"id": 1, "v": 5}, {"id": 9, "v": 0}]


def test_a_redone_append_does_not_depend_on_other_appends(layout: str) -> None:
    lake = mangrove.create(f"memory://redo-{layout}-{next(_NUMBERS)}/", layout=layout)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint")
    table.append([{"id": 1}])
    first = lake.version
    table.append([{"id": 2}])
    undone = lake.undo(lake.version)
    lake.undo(first)
    lake.undo(undone)
    assert table.to_arrow()["id"].to_pylist() == [2]


@pytest.mark.parametrize("mode", ["auto", "keys", "position"])
def test_an_undone_delete_brings_no_key_back_that_was_added_again(layout: str, mode: str) -> None:
    lake = mangrove.create(f"memory://regain-{layout}-{next(_NUMBERS)}/", layout=layout)
    lake.create_namespace("s")
    properties = {"write.delete-mode": mode}
    table = lake.create_table("s.t", "id bigint not null, v bigint", keys=["id"], properties=properties)
    table.append([{"id": 1, "v": 0}, {"id": 2, "v": 0}])
    table.delete("id = 1")
    deleted = lake.version
    table.overwrite([{"id": 1, "v": 5}], where="id = 1")
    with pytest.raises(ConflictError, match=r"a later version changed rows of table s\.t\.version_1\. Undo the later"):
        lake.undo(deleted)
    lake.undo(lake.version)
    table.upsert([{"id": 1, "v": 6}])
    lake.undo(deleted)
    assert table.to_arrow().sort_by("id").to_pylist() == [{"id": 1, "v": 6}, {"id": 2, "v": 0}]


def test_the_first_version_and_settings_are_not_undone(sales: Lakehouse) -> None:
    with pytest.raises(InvalidInputError, match="cannot be undone"):
        sales.undo(0)
    sales.alter({"a": "b"})
    with pytest.raises(InvalidInputError, match="settings"):
        sales.undo(sales.version)


@pytest.fixture
def stocked(effects: Effects, layout: str, strict: bool | None) -> Lakehouse:
    """Return a lakehouse with a table that has rows, and a namespace to move it to."""
    lake = create_on_store(effects, layout=layout, strict=strict, engines=LocalEngines)
    lake.create_namespace("sales")
    lake.create_namespace("attic")
    lake.create_table("sales.stock", "id int not null, what string", keys=["id"], partition_by=["bucket(2, id)"])
    lake.create_table("sales.other", "id int")
    lake.table("sales.stock").append([{"id": number, "what": "a"} for number in range(4)])
    return lake


def read_stock(lake: Lakehouse, name: str = "sales.stock") -> list[tuple[int, str]]:
    return sorted((row["id"], row["what"]) for row in lake.table(name).to_arrow().to_pylist())


def test_a_rollback_of_a_table_restores_its_rows_columns_and_properties_alone(stocked: Lakehouse) -> None:
    table, good, rows = stocked.table("sales.stock"), stocked.version, read_stock(stocked)
    assert table.schema is not None
    # The id of the removed column is not assigned again.
    was = (replace(table.schema, last_column_id=3), dict(table.properties), table.description)
    table.upsert([{"id": 1, "what": "b"}, {"id": 9, "what": "c"}])
    table.delete("id = 2")
    table.update_schema().add_column("more", "int").commit()
    table.alter({"owner": "ana"}, description="changed")
    stocked.table("sales.other").append([{"id": 1}])
    before = stocked.version
    table.rollback(to=good)
    assert stocked.version == before + 1
    restored = stocked.table("sales.stock")
    assert read_stock(stocked) == rows
    assert (restored.schema, dict(restored.properties), restored.description) == was
    assert stocked.table("sales.other").count() == 1
    assert stocked.at(before).table("sales.stock").count() == 4
    assert stocked.history()[0].message == f"roll back sales.stock to {good}"
    assert stocked.maintenance.check().problems == ()
    table.rollback(to=good)
    assert stocked.version == before + 1
    table.upsert([{"id": 1, "what": "z"}])
    assert read_stock(stocked)[1] == (1, "z")
    table.rollback(to=before)
    assert [one for one, _ in read_stock(stocked)] == [0, 1, 3, 9]


def test_a_rollback_of_a_table_keeps_its_name_and_namespace(stocked: Lakehouse) -> None:
    good, rows = stocked.version, read_stock(stocked)
    table = stocked.table("sales.stock")
    table.delete("id > 0")
    table.rename("attic.stock")
    stocked.create_table("sales.stock", "id int")
    table.rollback(to=good)
    assert read_stock(stocked, "attic.stock") == rows
    assert stocked.table("attic.stock").id == table.id
    assert stocked.table("sales.stock").count() == 0
    assert stocked.maintenance.check().problems == ()


def test_a_rollback_of_a_table_restores_its_table_versions_and_uses_no_number_again(stocked: Lakehouse) -> None:
    good, rows = stocked.version, read_stock(stocked)
    table = stocked.table("sales.stock")
    table.create_version("id int", state="active")
    table.version(1).drop_version()
    table.rollback(to=good)
    assert [one.version for one in table.versions()] == [1]
    assert read_stock(stocked) == rows
    assert table.create_version("id int").target.version == 3


def test_a_rollback_of_a_table_conflicts_with_concurrent_writes_and_is_repeated(stocked: Lakehouse) -> None:
    good, table = stocked.version, stocked.table("sales.stock")
    table.append([{"id": 7, "what": "x"}])
    late = stocked.transaction()
    late.table("sales.stock").append([{"id": 8, "what": "x"}])
    rolling = stocked.transaction()
    rolling.table("sales.stock").rollback(to=good)
    table.append([{"id": 9, "what": "x"}])
    with pytest.raises(ConflictError):
        rolling.commit()
    table.rollback(to=good)
    with pytest.raises(ConflictError):
        late.commit()
    assert [one for one, _ in read_stock(stocked)] == [0, 1, 2, 3]


def test_a_rollback_of_a_table_is_part_of_a_transaction(stocked: Lakehouse) -> None:
    good, table = stocked.version, stocked.table("sales.stock")
    table.append([{"id": 7, "what": "x"}])
    with stocked.transaction() as transaction:
        transaction.table("sales.stock").append([{"id": 8, "what": "x"}])
        transaction.table("sales.stock").rollback(to=good)
        assert transaction.table("sales.stock").count() == 4
        transaction.table("sales.stock").append([{"id": 9, "what": "x"}])
        transaction.table("sales.other").append([{"id": 1}])
    assert [one for one, _ in read_stock(stocked)] == [0, 1, 2, 3, 9]
    assert stocked.maintenance.check().problems == ()


def test_a_rollback_of_a_part_of_a_table_or_to_a_version_without_it_is_refused(stocked: Lakehouse) -> None:
    table, before = stocked.table("sales.stock"), stocked.version
    with pytest.raises(InvalidInputError, match="rollback is for a table"):
        table.version(1).rollback(to=before)
    with pytest.raises(NotFoundError, match="not created yet"):
        table.rollback(to=1)
    with pytest.raises(NotFoundError):
        table.rollback(to="no-such-tag")
    assert stocked.version == before


def test_changes_across_a_rollback_of_a_table_are_the_rows_that_differ(stocked: Lakehouse) -> None:
    good, table = stocked.version, stocked.table("sales.stock")
    table.upsert([{"id": 1, "what": "b"}])
    middle = stocked.version
    table.rollback(to=good)
    table.upsert([{"id": 2, "what": "b"}])
    assert [(row["id"], row["what"]) for row in table.changes(good).to_pylist()] == [(2, "a"), (2, "b")]
    assert sorted((row["id"], row["what"]) for row in table.changes(middle).to_pylist()) == [
        (1, "a"), (1, "b"), (2, "a"), (2, "b"),
    ]  # fmt: skip
