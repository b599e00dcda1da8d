"""Shared transactions: begun by name, joined from elsewhere, audited, published once or not at all."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from mangrove.errors import AlreadyExistsError, ConflictError, InvalidInputError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.model.manifests import DataFile, Manifest
from mangrove.model.objects import Delta, DeltaType
from mangrove.testing.effects import Clock

HOUR_MILLIS = 60 * 60 * 1000


@pytest.fixture
def sales(lake: Lakehouse) -> Lakehouse:
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id int", partition_by=["id"])
    lake.create_view("sales.daily", "select 1")
    return lake


def delta(name: str) -> Delta:
    return Delta(DeltaType.APPEND, Manifest((DataFile(f"data/{name}", 100, 10),)))


def files(lake: Lakehouse) -> list[str]:
    return [value.manifest.entries[0].location for _, value in lake.table("sales.orders").deltas()]


def append(lake: Lakehouse, name: str) -> None:
    with lake.transaction() as transaction:
        transaction.add_delta("sales.orders", (1,), delta(name))


def test_a_shared_transaction_is_written_audited_and_published_by_different_processes(
    sales: Lakehouse, opened_again: Callable[[], Lakehouse]
) -> None:
    with sales.begin_shared("load", "6h", message="the load", author="ana") as begun:
        begun.create_namespace("staging")
        begun.create_table("staging.raw", "id int, name string", keys=["id"], properties={"a": "b"})
        begun.add_delta("sales.orders", (1,), delta("one"))
        begun.drop_view("sales.daily")
    writer = opened_again()
    with writer.join_shared("load") as joined:
        assert joined.table("staging.raw").keys == ("id",)
        joined.add_delta("sales.orders", (1,), delta("two"))
        joined.rename_table("staging.raw", "sales.raw")
    auditor = opened_again().join_shared("load")
    assert [str(change) for change in auditor.diff().changes] == [
        "added namespace staging",
        "changed table sales.orders: +20 −0 rows, +200 −0 bytes",
        "added table sales.raw",
        "dropped view sales.daily",
    ]
    assert [table.name for table in auditor.tables("sales")] == ["orders", "raw"]
    before = opened_again()
    assert ([table.name for table in before.tables("sales")], files(before)) == (["orders"], [])
    version = auditor.publish()
    after = opened_again()
    assert auditor.version == version == after.version
    assert [table.name for table in after.tables("sales")] == ["orders", "raw"]
    assert files(after) == ["data/one", "data/two"]
    assert list(after.views("sales")) == []
    newest = after.history()[0]
    assert (newest.message, newest.author) == ("the load", "ana")
    assert after.shared_transactions() == []


def test_a_shared_transaction_is_published_only_once(sales: Lakehouse, opened_again: Callable[[], Lakehouse]) -> None:
    with sales.begin_shared("load") as begun:
        begun.add_delta("sales.orders", (1,), delta("one"))
    other = opened_again().join_shared("load")
    begun.publish()
    for end in (other.publish, other.save, other.discard):
        with pytest.raises(NotFoundError, match="published, discarded or never begun"):
            end()
    with pytest.raises(InvalidInputError, match="begin another one"):
        begun.publish()
    assert files(sales) == ["data/one"]


def test_a_discarded_shared_transaction_changes_nothing(
    sales: Lakehouse, opened_again: Callable[[], Lakehouse]
) -> None:
    with sales.begin_shared("load") as begun:
        begun.drop_namespace("sales", cascade=True)
    opened_again().join_shared("load").discard()
    assert [table.name for table in sales.tables("sales")] == ["orders"]
    with pytest.raises(NotFoundError, match="shared transaction 'load' does not exist"):
        sales.join_shared("load")


def test_publishing_is_rebased_over_compatible_concurrent_commits(sales: Lakehouse) -> None:
    with sales.begin_shared("load") as begun:
        begun.add_delta("sales.orders", (1,), delta("shared"))
        begun.create_table("sales.new", "id int")
    append(sales, "meanwhile")
    sales.create_table("sales.other", "id int")
    sales.rename_table("sales.orders", "sales.renamed")
    sales.join_shared("load").publish()
    assert [table.name for table in sales.tables("sales")] == ["new", "other", "renamed"]
    sales.rename_table("sales.renamed", "sales.orders")
    assert files(sales) == ["data/meanwhile", "data/shared"]


def test_publishing_is_refused_like_any_commit(sales: Lakehouse) -> None:
    with sales.begin_shared("views") as begun:
        begun.alter_view("sales.daily", {"by": "shared"})
    with sales.transaction(message="mend the view", author="ben") as winner:
        winner.alter_view("sales.daily", {"by": "rival"})
    for number in range(5):
        sales.create_namespace(f"later{number}")
    with pytest.raises(
        ConflictError,
        match=rf"view sales\.daily: transaction {winner.id} \('mend the view' by ben\) changed it first, in version "
        rf"{winner.version}\. Nothing was published: .* is based on version 3\. Discard it and repeat",
    ):
        begun.publish()
    with sales.begin_shared("rows") as rows:
        rows.add_delta("sales.orders", (1,), delta("lost"))
    sales.drop_table("sales.orders")
    with pytest.raises(
        ConflictError,
        match=r"stream \S+ of sales\.orders.*transaction .* \('drop table sales\.orders'\) changed it first",
    ):
        rows.publish()
    assert sales.view("sales.daily").properties == {"by": "rival"}


def test_saved_changes_that_a_rollback_removed_are_not_published_silently(sales: Lakehouse) -> None:
    begun = sales.begin_shared("load")
    began = sales.version
    begun.add_delta("sales.orders", (1,), delta("one"))
    begun.save()
    joined = sales.join_shared("load")
    sales.rollback(to=began)
    with sales.join_shared("load") as other:
        other.add_delta("sales.orders", (1,), delta("another"))
    for handle in (begun, joined):
        with pytest.raises(ConflictError, match="a rollback removed changes that were saved"):
            handle.publish()
    sales.join_shared("load").publish()
    assert files(sales) == ["data/another"]


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_isolation_covers_the_read_sets_of_all_participants(
    sales: Lakehouse, opened_again: Callable[[], Lakehouse], isolation: str
) -> None:
    with sales.begin_shared("load", isolation=isolation) as begun:
        assert len(list(begun.table("sales.orders").deltas())) == 0
    with opened_again().join_shared("load") as joined:
        joined.create_namespace("derived")
    append(sales, "meanwhile")
    if isolation == "snapshot":
        joined.publish()
    else:
        with pytest.raises(ConflictError, match=r"sales\.orders"):
            joined.publish()


def test_isolation_covers_the_objects_that_earlier_participants_read(
    sales: Lakehouse, opened_again: Callable[[], Lakehouse]
) -> None:
    with sales.begin_shared("load", isolation="serializable") as begun:
        assert begun.view("sales.daily").properties == {}
    with opened_again().join_shared("load") as joined:
        joined.create_namespace("derived")
    sales.alter_view("sales.daily", {"by": "another"})
    with pytest.raises(ConflictError, match=r"sales\.daily"):
        joined.publish()


def test_concurrent_saves_of_participants_are_merged_or_conflict(
    sales: Lakehouse, opened_again: Callable[[], Lakehouse]
) -> None:
    sales.begin_shared("load")
    one, two, three = (opened_again().join_shared("load") for _ in range(3))
    one.add_delta("sales.orders", (1,), delta("one"))
    one.alter_view("sales.daily", {"by": "one"})
    two.add_delta("sales.orders", (1,), delta("two"))
    two.create_table("sales.two", "id int")
    three.alter_view("sales.daily", {"by": "three"})
    one.save()
    two.save()
    assert [table.name for table in two.tables("sales")] == ["orders", "two"]
    assert two.view("sales.daily").properties == {"by": "one"}
    with pytest.raises(ConflictError, match=r"view sales\.daily: another participant"):
        three.save()
    two.publish()
    assert files(sales) == ["data/one", "data/two"]


def test_participants_that_rewrite_the_same_rows_conflict(
    sales: Lakehouse, opened_again: Callable[[], Lakehouse]
) -> None:
    append(sales, "before")
    rewrite = replace(delta("rewritten"), type=DeltaType.REPLACE)
    with sales.begin_shared("load") as begun:
        begun.add_delta("sales.orders", (2,), rewrite)
    for number in (1, 2):
        one, two = (opened_again().join_shared("load") for _ in range(2))
        one.add_delta("sales.orders", (number,), rewrite)
        two.add_delta("sales.orders", (number,), rewrite)
        one.save()
        with pytest.raises(ConflictError, match=r"rows of table sales\.orders: another participant"):
            two.save()


def test_a_save_conflicts_with_a_change_of_its_guards_by_another_participant(
    sales: Lakehouse, opened_again: Callable[[], Lakehouse]
) -> None:
    sales.begin_shared("load")
    writer, dropper = (opened_again().join_shared("load") for _ in range(2))
    writer.add_delta("sales.orders", (1,), delta("one"))
    dropper.drop_table("sales.orders")
    dropper.save()
    with pytest.raises(ConflictError, match=r"another participant"):
        writer.save()


@pytest.mark.parametrize("is_dropped_first", [True, False])
@pytest.mark.parametrize("namespace", ["there", "new", "renamed"])
def test_creating_a_table_conflicts_with_a_namespace_drop_by_another_participant(
    lake: Lakehouse, opened_again: Callable[[], Lakehouse], namespace: str, *, is_dropped_first: bool
) -> None:
    lake.create_namespace("there")
    lake.create_namespace("old")
    with lake.begin_shared("load") as begun:
        begun.create_namespace("new")
        begun.rename_namespace("old", "renamed")
    creator, dropper = (opened_again().join_shared("load") for _ in range(2))
    creator.create_table(f"{namespace}.t", "id int")
    dropper.drop_namespace(namespace)
    first, second = (dropper, creator) if is_dropped_first else (creator, dropper)
    first.save()
    with pytest.raises(ConflictError, match=r"another participant"):
        second.save()


def test_extending_keeps_the_saved_changes_of_other_participants(
    sales: Lakehouse, opened_again: Callable[[], Lakehouse]
) -> None:
    begun = sales.begin_shared("load")
    with opened_again().join_shared("load") as other:
        other.create_namespace("others")
    begun.extend("6h")
    begun.create_namespace("mine")
    begun.publish()
    assert [namespace.name for namespace in sales.namespaces()] == ["mine", "others", "sales"]


def test_a_shared_transaction_expires_unless_it_is_extended(sales: Lakehouse, clock: Clock) -> None:
    begun = sales.begin_shared("load", "6h")
    clock.now_millis += 5 * HOUR_MILLIS
    begun.extend("6h")
    clock.now_millis += 5 * HOUR_MILLIS
    with sales.join_shared("load") as joined:
        joined.create_namespace("late")
    assert sales.shared_transactions() == ["load"]
    clock.now_millis += 2 * HOUR_MILLIS
    assert sales.shared_transactions() == []
    for end in (joined.publish, joined.save, lambda: joined.extend("1h"), lambda: sales.join_shared("load")):
        with pytest.raises(InvalidInputError, match="expired"):
            end()
    again = sales.begin_shared("load", "1h")
    assert again.diff().changes == ()
    with pytest.raises(ConflictError, match="not the one that was joined"):
        joined.save()


def test_a_name_has_one_shared_transaction_at_a_time(sales: Lakehouse) -> None:
    sales.begin_shared("load")
    before = sales.version
    with pytest.raises(AlreadyExistsError, match="join it"):
        sales.begin_shared("load")
    for bad in ("a b", "n" * 101):
        with pytest.raises(InvalidInputError):
            sales.begin_shared(bad)
    with pytest.raises(InvalidInputError, match="no duration"):
        sales.begin_shared("other", "soon")
    assert sales.version == before


def test_a_block_that_raises_saves_nothing(sales: Lakehouse) -> None:
    begun = sales.begin_shared("load")

    def fail_halfway() -> None:
        with begun:
            begun.create_namespace("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_halfway()
    assert sales.join_shared("load").diff().changes == ()
    assert begun.diff().changes == ()
    begun.publish()
    assert [space.name for space in sales.namespaces()] == ["sales"]


def test_publishing_includes_unsaved_changes(sales: Lakehouse) -> None:
    begun = sales.begin_shared("load")
    begun.create_namespace("unsaved")
    begun.publish()
    assert [space.name for space in sales.namespaces()] == ["sales", "unsaved"]


def test_a_late_save_reports_the_changes_that_were_not_published(
    sales: Lakehouse, opened_again: Callable[[], Lakehouse]
) -> None:
    with sales.begin_shared("load") as begun:
        begun.create_namespace("saved")
    begun.create_namespace("unsaved")
    begun.add_delta("sales.orders", (1,), delta("unsaved"))
    begun.drop_view("sales.daily")
    opened_again().join_shared("load").publish()
    assert [space.name for space in sales.namespaces()] == ["sales", "saved"]
    with pytest.raises(
        NotFoundError,
        match=r"Not saved here, and so not published: added namespace unsaved; changed table sales\.orders: \+10 .*; "
        r"dropped view sales\.daily$",
    ):
        begun.save()


def test_commit_and_settings_are_rejected_in_a_shared_transaction(sales: Lakehouse) -> None:
    begun = sales.begin_shared("load")
    with pytest.raises(InvalidInputError, match="save it, publish it or discard it"):
        begun.commit()
    with pytest.raises(InvalidInputError, match="settings"):
        begun.alter_settings({"a": "b"})


def test_renames_in_a_shared_transaction_are_saved(sales: Lakehouse, opened_again: Callable[[], Lakehouse]) -> None:
    with sales.begin_shared("rename") as begun:
        begun.rename_namespace("sales", "shop")
        begun.alter_table("shop.orders", {"a": "b"})
    joined = opened_again().join_shared("rename")
    assert [str(table) for table in joined.tables("shop")] == ["shop.orders"]
    joined.publish()
    after = opened_again()
    assert after.table("shop.orders").properties == {"a": "b"}
    assert [space.name for space in after.namespaces()] == ["shop"]


def test_conflicts_are_detected_before_publishing(sales: Lakehouse) -> None:
    with sales.begin_shared("load") as begun:
        begun.alter_table("sales.orders", {"owner": "ana"})
    assert begun.find_conflict() is None
    sales.alter_table("sales.orders", {"owner": "ben"})
    version = sales.version
    conflict = begun.find_conflict()
    assert conflict is not None
    assert "sales.orders" in str(conflict)
    assert sales.version == version
    with pytest.raises(ConflictError) as raised:
        begun.publish()
    assert str(raised.value) == str(conflict)
