"""Transactions: own writes, isolation, conflicts, ends and limits."""

from collections.abc import Callable

import pytest

from mangrove.effects import Effects
from mangrove.errors import AlreadyExistsError, ConflictError, InvalidInputError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store
from mangrove.lakehouse.transaction import Transaction
from mangrove.metastore import MetastoreSnapshot
from mangrove.model.settings import TIME_LIMIT_PROPERTY
from mangrove.storage.counting import CountingStore
from mangrove.testing.effects import Clock
from mangrove.transaction.transaction import TransactionState
from mangrove.wiring import LocalEngines

HOUR_MILLIS = 60 * 60 * 1000


@pytest.fixture
def sales(lake: Lakehouse) -> Lakehouse:
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id int")
    lake.create_table("sales.users", "id int")
    return lake


def names(lake: Lakehouse) -> list[str]:
    return [table.name for table in lake.tables("sales")]


def test_uncommitted_writes_are_visible_only_in_their_transaction(
    sales: Lakehouse, opened_again: Callable[[], Lakehouse]
) -> None:
    with sales.transaction() as transaction:
        transaction.create_namespace("finance")
        transaction.create_table("finance.ledger", "id int")
        transaction.rename_table("sales.users", "finance.people")
        transaction.create_view("sales.daily", "select 1")
        transaction.drop_table("sales.orders")
        assert [str(table) for table in transaction.tables("finance")] == ["finance.ledger", "finance.people"]
        assert list(transaction.tables("sales")) == []
        assert names(sales) == ["orders", "users"]
        assert names(opened_again()) == ["orders", "users"]
    assert transaction.state is TransactionState.COMMITTED
    assert transaction.version == sales.version == 4
    other = opened_again()
    assert [str(table) for table in other.tables("finance")] == ["finance.ledger", "finance.people"]
    assert names(other) == []


def test_the_diff_of_a_transaction_lists_what_its_commit_changes(
    effects: Effects, layout: str, strict: bool | None
) -> None:
    lake = create_on_store(effects, layout=layout, strict=strict, engines=LocalEngines)
    lake.create_namespace("sales")
    lake.create_table("sales.users", "id int")
    lake.create_table("sales.orders", "id int").append([{"id": 1}])
    with lake.transaction() as transaction:
        assert transaction.diff().changes == ()
        transaction.create_namespace("finance")
        transaction.create_table("finance.ledger", "id int").append([{"id": 1}])
        transaction.table("sales.orders").append([{"id": 2}, {"id": 3}])
        transaction.table("sales.orders").delete("id = 1")
        transaction.rename_table("sales.users", "finance.people")
        transaction.create_view("sales.daily", "select 1")
        staged = transaction.diff()
    assert staged.changes == lake.diff(staged.before, lake.version).changes
    changed = {change.name: str(change) for change in staged.changes}
    assert changed["finance.people"] == "renamed table finance.people (was sales.users)"
    assert "+2 " in changed["sales.orders"]


def test_nothing_is_on_storage_before_the_commit(sales: Lakehouse, store: CountingStore) -> None:
    before = sorted(entry.path for entry in store.list())
    transaction = sales.transaction()
    transaction.create_table("sales.new", "id int")
    assert sorted(entry.path for entry in store.list()) == before
    transaction.rollback()
    assert sorted(entry.path for entry in store.list()) == before
    assert transaction.state is TransactionState.ROLLED_BACK


def test_a_block_that_raises_commits_nothing(sales: Lakehouse) -> None:
    transaction = sales.transaction()

    def fail_halfway() -> None:
        with transaction:
            transaction.drop_table("sales.orders")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_halfway()
    assert transaction.state is TransactionState.ROLLED_BACK
    assert names(sales) == ["orders", "users"]


def test_a_rejected_statement_keeps_the_other_changes_of_the_transaction(sales: Lakehouse) -> None:
    with sales.transaction() as transaction:
        transaction.create_table("sales.first", "id int")
        with pytest.raises(AlreadyExistsError):
            transaction.create_table("sales.orders", "id int")
        with pytest.raises(InvalidInputError):
            transaction.create_table("sales.bad", "id int", partition_by=["days(id)"])
        transaction.create_table("sales.second", "id int")
    assert names(sales) == ["first", "orders", "second", "users"]


def test_a_transaction_without_writes_creates_no_version(sales: Lakehouse) -> None:
    before = sales.version
    with sales.transaction("serializable") as transaction:
        assert transaction.table("sales.orders").name == "orders"
    assert (transaction.version, sales.version) == (before, before)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_transaction_that_has_ended_refuses_use(sales: Lakehouse, end: str) -> None:
    transaction = sales.transaction()
    transaction.create_table("sales.new", "id int")
    getattr(transaction, end)()
    for use in (
        lambda: transaction.create_table("sales.more", "id int"),
        lambda: list(transaction.tables("sales")),
        transaction.commit,
        transaction.__enter__,
    ):
        with pytest.raises(InvalidInputError, match="begin another one"):
            use()


def test_a_committed_transaction_cannot_be_rolled_back(sales: Lakehouse) -> None:
    with sales.transaction() as transaction:
        transaction.drop_table("sales.orders")
    with pytest.raises(InvalidInputError, match="is committed"):
        transaction.rollback()


def test_transactions_do_not_nest(sales: Lakehouse) -> None:
    with sales.transaction() as transaction:
        with pytest.raises(InvalidInputError, match="do not nest"):
            transaction.transaction()
        with pytest.raises(InvalidInputError, match="do not nest"), transaction:
            pass
        transaction.create_table("sales.new", "id int")
    assert "new" in names(sales)


def test_a_transaction_can_be_ended_inside_its_block(sales: Lakehouse) -> None:
    with sales.transaction() as transaction:
        transaction.drop_table("sales.orders")
        transaction.rollback()
    assert names(sales) == ["orders", "users"]
    with sales.transaction() as transaction:
        transaction.drop_table("sales.orders")
        assert transaction.commit("tidied") == 4
    assert sales.history()[0].message == "tidied"


def test_a_conflict_names_the_object_the_concurrent_commit_its_version_and_what_to_do(sales: Lakehouse) -> None:
    concurrent_commit, loser = sales.transaction(), sales.transaction()
    concurrent_commit.alter_table("sales.orders", {"by": "rival"})
    loser.alter_table("sales.orders", {"by": "loser"})
    version = concurrent_commit.commit()
    with pytest.raises(ConflictError) as caught:
        loser.commit()
    for part in ("sales.orders", concurrent_commit.id, f"version {version}", "repeat"):
        assert part in str(caught.value)
    assert loser.state is TransactionState.FAILED
    assert sales.table("sales.orders").properties == {"by": "rival"}


def test_changes_of_different_objects_both_commit(sales: Lakehouse) -> None:
    one, two, three = sales.transaction(), sales.transaction(), sales.transaction()
    one.alter_table("sales.orders", {"by": "one"})
    two.alter_table("sales.users", {"by": "two"})
    three.create_table("sales.new", "id int")
    assert [one.commit(), two.commit(), three.commit()] == [4, 5, 6]
    assert [table.properties.get("by") for table in sales.tables("sales")] == [None, "one", "two"]


def test_a_changed_read_object_conflicts_only_at_serializable(sales: Lakehouse) -> None:
    careless, careful = sales.transaction(), sales.transaction("serializable")
    for transaction in (careless, careful):
        assert transaction.table("sales.orders").properties == {}
        transaction.create_table(f"sales.{transaction.isolation.value}", "id int")
    sales.alter_table("sales.orders", {"changed": "yes"})
    careless.commit()
    with pytest.raises(ConflictError, match=r"table sales\.orders"):
        careful.commit()


def test_a_new_name_in_a_listed_range_conflicts_only_at_serializable(sales: Lakehouse) -> None:
    careless, careful = sales.transaction(), sales.transaction("serializable")
    for transaction in (careless, careful):
        assert len(list(transaction.tables("sales", "o"))) == 1
        transaction.create_namespace(transaction.isolation.value)
    sales.create_table("sales.offers", "id int")
    careless.commit()
    with pytest.raises(ConflictError, match=r"sales\.offers"):
        careful.commit()


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_transactions_that_read_what_the_other_writes_both_commit_only_at_snapshot(
    sales: Lakehouse, isolation: str
) -> None:
    one, two = sales.transaction(isolation), sales.transaction(isolation)
    for transaction, read, written in ((one, "orders", "users"), (two, "users", "orders")):
        assert "off" not in transaction.table(f"sales.{read}").properties
        transaction.alter_table(f"sales.{written}", {"off": "yes"})
    one.commit()
    if isolation == "snapshot":
        two.commit()
    else:
        with pytest.raises(ConflictError, match=r"sales\.users"):
            two.commit()
    assert ["off" in table.properties for table in sales.tables("sales")] == [isolation == "snapshot", True]


def test_a_new_name_outside_a_listed_range_never_conflicts(sales: Lakehouse) -> None:
    careful = sales.transaction("serializable")
    assert len(list(careful.tables("sales", "o"))) == 1
    careful.create_namespace("mine")
    sales.create_table("sales.zebras", "id int")
    careful.commit()


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_creating_a_table_conflicts_with_a_concurrent_drop_of_its_namespace(sales: Lakehouse, isolation: str) -> None:
    sales.create_namespace("empty")
    transaction = sales.transaction(isolation)
    transaction.create_table("empty.orders", "id int")
    sales.drop_namespace("empty")
    with pytest.raises(ConflictError, match="namespace empty"):
        transaction.commit()


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_dropping_a_namespace_conflicts_with_a_concurrent_creation_in_it(sales: Lakehouse, isolation: str) -> None:
    for create in (
        lambda: sales.create_table("sales.late", "id int"),
        lambda: sales.create_view("sales.later", "select 1"),
    ):
        transaction = sales.transaction(isolation)
        transaction.drop_namespace("sales", cascade=True)
        create()
        with pytest.raises(ConflictError, match=r"sales\.late"):
            transaction.commit()


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_dropping_a_view_conflicts_with_a_concurrent_change_of_it(sales: Lakehouse, isolation: str) -> None:
    sales.create_view("sales.recent", "select 1")
    transaction = sales.transaction(isolation)
    transaction.drop_view("sales.recent")
    sales.alter_view("sales.recent", {"by": "another"})
    with pytest.raises(ConflictError, match=r"view sales\.recent"):
        transaction.commit()


def test_concurrent_creations_of_a_table_and_a_view_with_the_same_name_conflict(sales: Lakehouse) -> None:
    one, two = sales.transaction(), sales.transaction()
    one.create_table("sales.same", "id int")
    two.create_view("sales.same", "select 1")
    one.commit()
    with pytest.raises(ConflictError, match=r"table sales\.same"):
        two.commit()


def test_altering_a_table_conflicts_with_a_concurrent_rename_of_its_namespace(sales: Lakehouse) -> None:
    transaction = sales.transaction()
    transaction.alter_table("sales.orders", {"a": "b"})
    sales.rename_namespace("sales", "shop")
    with pytest.raises(ConflictError, match="namespace sales"):
        transaction.commit()


def test_altering_a_table_in_a_renamed_namespace_conflicts_with_a_change_under_the_old_name(
    sales: Lakehouse,
) -> None:
    transaction = sales.transaction()
    transaction.rename_namespace("sales", "shop")
    transaction.alter_table("shop.orders", {"by": "loser"})
    sales.alter_table("sales.orders", {"by": "rival"})
    with pytest.raises(ConflictError, match="orders"):
        transaction.commit()


def test_run_repeats_the_whole_function_after_a_conflict(sales: Lakehouse) -> None:
    seen = []

    def work(transaction: Transaction) -> None:
        seen.append(dict(transaction.table("sales.orders").properties))
        transaction.alter_table("sales.orders", {"count": str(len(seen))})
        if len(seen) == 1:
            sales.alter_table("sales.orders", {"by": "rival"})

    sales.run(work, message="work")
    assert seen == [{}, {"by": "rival"}]
    assert sales.table("sales.orders").properties == {"by": "rival", "count": "2"}
    assert sales.history()[0].message == "work"


def test_repeating_is_bounded(sales: Lakehouse) -> None:
    attempts = 0

    def always_overtaken(transaction: Transaction) -> None:
        nonlocal attempts
        attempts += 1
        transaction.alter_table("sales.orders", {"by": "loser"})
        sales.alter_table("sales.orders", {"by": f"rival {attempts}"})

    with pytest.raises(ConflictError):
        sales.run(always_overtaken, attempts=3)
    assert attempts == 3


def test_a_statement_that_lost_a_race_reports_the_current_state(
    sales: Lakehouse, opened_again: Callable[[], Lakehouse]
) -> None:
    other = opened_again()
    latest, is_overtaken = other.metastore.latest, False

    def overtaken() -> MetastoreSnapshot:
        nonlocal is_overtaken
        found = latest()
        if not is_overtaken:
            is_overtaken = True
            sales.create_table("sales.same", "id int")
        return found

    other.metastore.latest = overtaken  # type: ignore[method-assign]
    with pytest.raises(AlreadyExistsError, match=r"table sales\.same"):
        other.create_table("sales.same", "id int")


def test_the_history_lists_messages_and_properties_newest_first(
    sales: Lakehouse, opened_again: Callable[[], Lakehouse]
) -> None:
    with sales.transaction(message="load", author="ana", properties={"job": "nightly"}) as transaction:
        transaction.create_table("sales.new", "id int")
    newest, *older = opened_again().history()
    assert (newest.version, newest.message, newest.author, newest.properties) == (4, "load", "ana", {"job": "nightly"})
    assert [record.id for record in newest.transactions] == [transaction.id]
    assert [line.message for line in older] == [
        "create table sales.users",
        "create table sales.orders",
        "create namespace sales",
        "create lakehouse",
    ]
    assert [line.version for line in sales.history(before=3, limit=2)] == [2, 1]


def test_a_transaction_has_a_time_limit(sales: Lakehouse, clock: Clock) -> None:
    on_time, late = sales.transaction(), sales.transaction()
    on_time.create_table("sales.on_time", "id int")
    late.create_table("sales.late", "id int")
    clock.now_millis += HOUR_MILLIS - 60_000
    on_time.commit()
    clock.now_millis += 120_000
    with pytest.raises(ConflictError, match="limit is 3600 s"):
        late.commit()
    assert names(sales) == ["on_time", "orders", "users"]


def test_the_time_limit_can_be_shorter_for_one_transaction_and_longer_for_the_lakehouse(
    sales: Lakehouse, clock: Clock
) -> None:
    hasty = sales.transaction(time_limit="10s")
    hasty.create_table("sales.hasty", "id int")
    clock.now_millis += 11_000
    with pytest.raises(ConflictError, match="limit is 10 s"):
        hasty.commit()
    with pytest.raises(InvalidInputError, match="this lakehouse allows"):
        sales.transaction(time_limit="3h")
    sales.alter({TIME_LIMIT_PROPERTY: str(4 * HOUR_MILLIS)})
    patient = sales.transaction(time_limit="3h")
    patient.create_table("sales.patient", "id int")
    clock.now_millis += 2 * HOUR_MILLIS
    patient.commit()
    with pytest.raises(InvalidInputError, match="expected milliseconds"):
        sales.alter({TIME_LIMIT_PROPERTY: "long"})


def test_settings_are_versioned_like_other_changes(sales: Lakehouse, opened_again: Callable[[], Lakehouse]) -> None:
    sales.alter({"team": "sales"}, minimum_versions_to_keep=7)
    settings = opened_again().settings
    assert (settings.properties["team"], settings.minimum_versions_to_keep) == ("sales", 7)
    assert opened_again().at(1).settings.minimum_versions_to_keep == 3


def test_a_snapshot_is_read_only(sales: Lakehouse) -> None:
    sales.drop_table("sales.orders")
    past = sales.at(3)
    assert [table.name for table in past.tables("sales")] == ["orders", "users"]
    assert past.table("sales.orders").schema is not None
    mutators = {"change", *(name for name in dir(past) if name.startswith(("create_", "alter_", "rename_", "drop_")))}
    handles = [past.namespace("sales"), past.table("sales.orders")]
    written = {"alter", "rename", "drop", "append", "update", "delete", "overwrite", "update_schema", "compact"}
    assert [name for name in mutators if hasattr(past, name)] == []
    assert [name for handle in handles for name in written if hasattr(handle, name)] == []
    with pytest.raises(NotFoundError):
        sales.at(1).table("sales.orders")


def test_a_time_names_the_version_that_was_newest_then(sales: Lakehouse, clock: Clock) -> None:
    clock.now_millis += 10_000
    sales.drop_table("sales.orders")
    lines = {line.version: line for line in sales.history()}
    dropped = lines[4].created_at
    assert sales.at(dropped).version == 4
    assert sales.at(dropped.isoformat()).version == 4
    assert sales.at(dropped.replace(tzinfo=None).isoformat()).version == 4
    assert sales.at(lines[3].created_at).version == 3
    assert sales.at("2100-01-01").version == 4
    assert sales.at("4").version == sales.at(4).version == 4
    with pytest.raises(NotFoundError, match="later time"):
        sales.at("1999-01-01T00:00:00Z")


def test_a_namespace_that_gets_its_old_name_back_is_written_in_the_same_transaction(sales: Lakehouse) -> None:
    sales.rename_namespace("sales", "shop")
    with sales.transaction() as transaction:
        transaction.rename_namespace("shop", "sales")
        transaction.alter_table("sales.orders", {"a": "b"})
        transaction.drop_table("sales.users")
        transaction.create_table("sales.new", "id int")
    assert [table.name for table in sales.tables("sales")] == ["new", "orders"]
    assert sales.table("sales.orders").properties == {"a": "b"}
