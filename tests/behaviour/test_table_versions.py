"""Table versions: created beside each other, read and written by their numbers, released in one commit."""

import pickle
from collections.abc import Callable
from dataclasses import replace

import pytest

from mangrove.errors import AlreadyExistsError, ConflictError, InvalidInputError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.snapshot import Snapshot
from mangrove.lakehouse.table import Table
from mangrove.lakehouse.table_snapshot import TableSnapshot
from mangrove.model.locators import PartitionLocator
from mangrove.model.manifests import DataFile, Manifest
from mangrove.model.objects import Delta, DeltaType, Partition, TableVersionState
from mangrove.transaction.deltas import TableTarget
from mangrove.transaction.group_commit import GroupCommitRequest, select_group

STATEMENT = (
    r"shop\.orders has no active table version; versions: 1 \(deprecated\), 2 \(unreleased\)\. Activate one as in "
    r"`mangrove set-state LAKE shop\.orders 2=active`, or name one as in shop\.orders\.version_2"
)
STATES = ("unreleased", "beta", "active", "deprecated", "deleted")


@pytest.fixture
def shop(lake: Lakehouse) -> Lakehouse:
    lake.create_namespace("shop")
    lake.create_table("shop.orders", "id bigint, day date", keys=["id"], sort_by=["id"])
    return lake


def orders(lake: Lakehouse) -> Table:
    return lake.table("shop.orders")


def delta(name: str) -> Delta:
    return Delta(DeltaType.APPEND, Manifest((DataFile(f"data/{name}.parquet", 1000, 10),)))


def add(lake: Lakehouse, name: str, version: int | None = None) -> None:
    with lake.transaction() as transaction:
        transaction.add_delta("shop.orders", (), delta(name), version=version)


def files(table: TableSnapshot) -> list[str]:
    return [
        entry.location.removeprefix("data/").removesuffix(".parquet")
        for _, one in table.deltas()
        for entry in one.manifest.entries
    ]


def summary(lake: Lakehouse | Snapshot) -> list[tuple[int, str, bool]]:
    return [(one.version, one.state, one.is_default) for one in lake.table("shop.orders").versions()]


def test_a_new_version_copies_the_current_definition_without_rows(
    shop: Lakehouse, opened_again: Callable[[], Lakehouse]
) -> None:
    add(shop, "first")
    made = orders(shop).create_version(description="second try")
    assert (str(made), made.keys, made.sort_by, files(made)) == (
        "shop.orders.version_2",
        ("id",),
        ("id asc nulls first",),
        [],
    )
    one, two = orders(opened_again()).versions()
    assert (one.schema, one.keys, one.sort_by) == (two.schema, two.keys, two.sort_by)
    assert (two.description, two.previous_version) == ("second try", 1)
    assert summary(opened_again()) == [(1, "active", True), (2, "unreleased", False)]
    assert files(orders(shop)) == ["first"]


def test_a_new_version_has_its_own_columns_keys_partitions_order_and_properties(shop: Lakehouse) -> None:
    made = orders(shop).create_version(
        {"id": "bigint", "day": "date", "shop": "string"},
        keys=["id", "day"],
        partition_by=["day"],
        sort_by=["shop"],
        properties={"owner": "ana"},
        checks={"positive": "id > 0"},
    )
    two = orders(shop).versions()[1]
    assert (two.keys, two.partition_by, two.sort_by, two.properties) == (
        ("id", "day"),
        ("day",),
        ("shop asc nulls first",),
        {"owner": "ana"},
    )
    assert made.checks == {"positive": "id > 0"}
    assert orders(shop).checks == {}
    assert made.state().properties == {"owner": "ana"}
    assert orders(shop).state().properties == {}


def test_each_version_is_read_and_written_by_its_number(shop: Lakehouse, opened_again: Callable[[], Lakehouse]) -> None:
    orders(shop).create_version()
    add(shop, "default")
    add(shop, "one", 1)
    add(shop, "two", 2)
    again = opened_again()
    assert files(orders(again)) == files(again.table("shop.orders", version=1)) == ["default", "one"]
    assert files(again.table("shop.orders", version=2)) == files(orders(again).version(2)) == ["two"]


def test_activating_a_version_and_deprecating_the_other_is_one_commit(shop: Lakehouse) -> None:
    orders(shop).create_version()
    add(shop, "two", 2)
    before = shop.version
    with shop.transaction() as transaction:
        table = transaction.table("shop.orders")
        table.version(2).set_state("active")
        table.version(1).set_state("deprecated")
        assert files(transaction.table("shop.orders")) == ["two"]
        assert files(orders(shop)) == []
    assert shop.version == before + 1
    assert summary(shop) == [(1, "deprecated", False), (2, "active", True)]
    assert files(orders(shop)) == ["two"]
    assert summary(shop.at(before)) == [(1, "active", True), (2, "unreleased", False)]


def test_a_version_is_created_filled_and_activated_in_one_transaction(shop: Lakehouse) -> None:
    before = shop.version
    with shop.transaction() as transaction:
        transaction.table("shop.orders").create_version({"id": "bigint", "note": "string"}, sort_by=[])
        transaction.add_delta("shop.orders", (), delta("two"), version=2)
        transaction.table("shop.orders").version(2).set_state("active")
    assert shop.version == before + 1
    assert files(orders(shop)) == ["two"]


@pytest.mark.parametrize("state", STATES)
def test_every_state_can_be_set_and_changed_again(
    shop: Lakehouse, state: str, opened_again: Callable[[], Lakehouse]
) -> None:
    orders(shop).create_version()
    orders(shop).version(2).set_state(state)
    assert summary(opened_again())[1] == (2, state, state == "active")
    orders(shop).version(2).set_state(TableVersionState.BETA)
    assert summary(shop)[1] == (2, "beta", False)


def test_a_deleted_version_is_neither_read_nor_written_but_its_history_is(shop: Lakehouse) -> None:
    orders(shop).create_version()
    add(shop, "two", 2)
    before = shop.version
    two = orders(shop).version(2)
    two.set_state("deleted")
    with pytest.raises(InvalidInputError, match=r"table version 2 of shop.orders is deleted"):
        files(two)
    with pytest.raises(InvalidInputError, match=r"table version 2 of shop.orders is deleted"):
        add(shop, "late", 2)
    assert files(shop.at(before).table("shop.orders", version=2)) == ["two"]
    two.set_state("deprecated")
    assert files(two) == ["two"]


def test_a_table_without_an_active_version_serves_no_unreleased_one(shop: Lakehouse) -> None:
    orders(shop).create_version()
    orders(shop).version(1).set_state("deprecated")
    with pytest.raises(InvalidInputError, match=STATEMENT):
        files(orders(shop))
    assert summary(shop) == [(1, "deprecated", False), (2, "unreleased", False)]
    orders(shop).version(1).set_state("active")
    assert files(orders(shop)) == []
    orders(shop).drop_version(2)
    orders(shop).version(1).set_state("deleted")
    with pytest.raises(InvalidInputError, match=r"no active table version; versions: 1 \(deleted\)\. Activate one"):
        files(orders(shop))


def test_dropping_a_version_drops_its_rows_and_keeps_the_other_versions(
    shop: Lakehouse, opened_again: Callable[[], Lakehouse]
) -> None:
    add(shop, "one")
    orders(shop).create_version(state="active")
    add(shop, "two")
    before = shop.version
    orders(shop).drop_version(2)
    assert summary(opened_again()) == [(1, "active", True)]
    assert files(orders(opened_again())) == ["one"]
    assert files(shop.at(before).table("shop.orders")) == ["two"]
    with pytest.raises(NotFoundError, match="has no table version 2; it has 1"):
        orders(shop).version(2)


def test_the_number_of_a_dropped_version_is_not_used_again(
    shop: Lakehouse, opened_again: Callable[[], Lakehouse]
) -> None:
    orders(shop).create_version()
    orders(shop).create_version(version=5)
    orders(shop).drop_version(5)
    orders(shop).drop_version(2)
    with pytest.raises(InvalidInputError, match=r"shop.orders had a table version 5, which was dropped"):
        orders(shop).create_version(version=5)
    orders(shop).rename("shop.renamed")
    again = opened_again().table("shop.renamed")
    assert str(again.create_version()) == "shop.renamed.version_6"
    again.drop_version(6)
    with pytest.raises(InvalidInputError, match=r"mangrove.last-table-version of shop.renamed .* cannot be changed"):
        again.alter(remove=["mangrove.last-table-version"])
    assert str(again.create_version()) == "shop.renamed.version_7"


def test_concurrent_drop_and_creation_of_versions_do_not_use_a_number_twice(shop: Lakehouse) -> None:
    orders(shop).create_version()
    creator = shop.transaction()
    assert str(creator.table("shop.orders").create_version()) == "shop.orders.version_3"
    orders(shop).drop_version(2)
    with pytest.raises(ConflictError):
        creator.commit()
    assert str(orders(shop).create_version()) == "shop.orders.version_3"


def test_the_id_of_a_dropped_stream_is_not_used_again(shop: Lakehouse, opened_again: Callable[[], Lakehouse]) -> None:
    orders(shop).create_stream("reload").drop_stream()
    orders(shop).create_stream("again").drop_stream()
    for stream_id in ("reload", "again"):
        with pytest.raises(AlreadyExistsError, match=rf"had a stream '{stream_id}', which was dropped"):
            orders(opened_again()).create_stream(stream_id)
    assert orders(shop).create_version().create_stream("reload").streams()
    assert "mangrove.dropped-streams" not in orders(shop).versions()[0].properties


def test_the_only_version_and_the_only_active_one_cannot_be_dropped(shop: Lakehouse) -> None:
    with pytest.raises(InvalidInputError, match=r"the only table version of shop.orders; drop the table"):
        orders(shop).drop_version(1)
    orders(shop).create_version()
    with pytest.raises(InvalidInputError, match=r"the only active table version of shop.orders"):
        orders(shop).drop_version(1)
    assert len(orders(shop).versions()) == 2


def test_a_version_can_be_created_with_a_chosen_number(shop: Lakehouse) -> None:
    assert str(orders(shop).create_version(version=7, stream_id="main")) == "shop.orders.version_7"
    assert [one.id for one in orders(shop).version(7).streams()] == ["main"]
    assert str(orders(shop).create_version()) == "shop.orders.version_8"
    with pytest.raises(AlreadyExistsError, match="has a table version 7 already"):
        orders(shop).create_version(version=7)
    with pytest.raises(InvalidInputError, match="would be older than 8"):
        orders(shop).create_version(version=3)
    shop.create_table("shop.named", "id bigint", version=4, stream_id="first")
    (only,) = shop.table("shop.named").versions()
    assert (only.version, only.stream_id, only.is_default) == (4, "first", True)


def test_errors_for_invalid_arguments_name_the_expected_values(shop: Lakehouse) -> None:
    with pytest.raises(InvalidInputError, match="unknown state of a table version 'live'; expected created, unr"):
        orders(shop).version(1).set_state("live")
    with pytest.raises(InvalidInputError, match=r"choose a table version of shop.orders to set its state"):
        orders(shop).set_state("active")
    with pytest.raises(InvalidInputError):
        orders(shop).version(0)
    with pytest.raises(NotFoundError, match="'nothing'"):
        orders(shop).create_version(keys=["nothing"])
    shop.create_table("shop.outside", table_type="external", location="s3://a/b", table_format="parquet")
    with pytest.raises(InvalidInputError, match=r"only a managed table has table versions|has no table version"):
        shop.table("shop.outside").create_version("id bigint")
    assert len(orders(shop).versions()) == 1


def test_the_properties_and_the_description_of_a_version_are_its_own_and_inherited(
    shop: Lakehouse, opened_again: Callable[[], Lakehouse]
) -> None:
    table = orders(shop)
    table.alter({"owner": "ana", "team": "shop"}, description="all orders")
    second = table.create_version(properties={"owner": "ben"}, checks={"positive": "id > 0"})
    assert (second.properties, second.description) == ({"owner": "ben", "team": "shop"}, "all orders")
    assert second.alter({"note": "new"}, ["owner"], "the new ones") == second
    read = opened_again().table("shop.orders.version_2")
    assert (read.properties, read.description) == ({"owner": "ana", "team": "shop", "note": "new"}, "the new ones")
    assert (read.checks, read.versions()[1].properties) == ({"positive": "id > 0"}, {"note": "new"})
    assert orders(shop).properties == table.version(1).properties == {"owner": "ana", "team": "shop"}
    before = shop.version
    second.alter({"note": "new"})
    with pytest.raises(InvalidInputError, match=r"version_2 inherits the property 'owner' from its table; set another"):
        second.alter(remove=["owner"])
    with pytest.raises(
        InvalidInputError, match=r"'mangrove.check.x' of shop.orders.version_2 is maintained by Mangrove"
    ):
        second.alter({"mangrove.check.x": "id > 1"})
    with pytest.raises(InvalidInputError, match=r"write\.delete-mode"):
        second.alter({"write.delete-mode": "never"})
    with pytest.raises(NotFoundError, match="property 'missing' does not exist"):
        second.alter(remove=["missing"])
    assert shop.version == before


def test_properties_of_a_version_conflict_with_its_other_changes_and_not_with_rows(shop: Lakehouse) -> None:
    second = orders(shop).create_version()
    changed = shop.transaction()
    changed.table("shop.orders.version_2").alter({"owner": "ana"})
    add(shop, "two", version=2)
    orders(shop).version(1).alter({"owner": "ben"})
    changed.commit()
    assert (second.properties, files(second)) == ({"owner": "ana"}, ["two"])
    late = shop.transaction()
    late.table("shop.orders.version_2").alter({"owner": "cy"})
    second.set_state("beta")
    with pytest.raises(ConflictError):
        late.commit()
    assert second.properties == {"owner": "ana"}


def test_a_version_and_a_stream_are_chosen_by_name_or_by_argument_and_not_by_both(shop: Lakehouse) -> None:
    orders(shop).create_version()
    orders(shop).create_stream("reload")
    stream = "shop|orders|1|reload|deltacat"
    assert shop.table("shop.orders", stream_id="reload").target == TableTarget(orders(shop).locator, None, "reload")
    assert shop.table(stream, version=1, stream_id="reload").target == shop.table(stream).target
    with pytest.raises(InvalidInputError, match=r"names stream reload, but stream_id is 'other'; give one"):
        shop.table(stream, stream_id="other")
    with pytest.raises(InvalidInputError, match=r"names table version 1, but version is 2; give one"):
        shop.table(stream, version=2)
    with pytest.raises(InvalidInputError, match=r"choose a table version of shop.orders to drop"):
        orders(shop).drop_version()
    shop.table("shop|orders|2").drop_version()
    shop.table(stream).commit_stream()
    assert [one.version for one in orders(shop).versions()] == [1]
    assert orders(shop).opened().stream.id == "reload"


@pytest.mark.parametrize(
    ("number", "problem"),
    [
        (9, "its default table version 9 does not exist; it has [1, 2, 3]"),
        (1, "its default table version is 1, but the newest active one is 2"),
        (3, "its default table version is 3, but the newest active one is 2"),
    ],
)
def test_check_reports_a_default_version_that_is_missing_or_not_the_newest_active(
    shop: Lakehouse, number: int, problem: str
) -> None:
    orders(shop).create_version(state="active")
    orders(shop).create_version()
    assert not shop.maintenance.check().problems
    table = orders(shop)
    with shop.transaction() as transaction:
        transaction.core.workspace.put(table.locator, replace(table.value, latest_active_table_version=number))
    (found,) = [one for one in shop.maintenance.check().problems if one.path == "table shop.orders"]
    assert found.rule == problem


# Concurrency.


def test_a_write_by_name_conflicts_with_a_concurrent_activation(shop: Lakehouse) -> None:
    orders(shop).create_version()
    writer = shop.transaction()
    writer.add_delta("shop.orders", (), delta("late"))
    orders(shop).version(2).set_state("active")
    with pytest.raises(
        ConflictError, match=r"shop.orders: a concurrent commit changed its default table version from 1 to 2"
    ):
        writer.commit()
    assert files(orders(shop).version(1)) == []


def test_a_write_by_name_conflicts_with_an_activation_also_after_a_concurrent_rename(shop: Lakehouse) -> None:
    orders(shop).create_version()
    writer = shop.transaction()
    writer.add_delta("shop.orders", (), delta("late"))
    orders(shop).rename("shop.renamed")
    shop.rename_namespace("shop", "store")
    shop.table("store.renamed").version(2).set_state("active")
    with pytest.raises(ConflictError, match="from 1 to 2"):
        writer.commit()


@pytest.mark.parametrize("version", [1, 2])
def test_a_write_to_a_chosen_version_does_not_conflict_with_an_activation(shop: Lakehouse, version: int) -> None:
    orders(shop).create_version()
    writer = shop.transaction()
    writer.add_delta("shop.orders", (), delta("late"), version=version)
    with shop.transaction() as transaction:
        transaction.table("shop.orders").version(2).set_state("active")
        transaction.table("shop.orders").version(1).set_state("deprecated")
    writer.commit()
    assert files(orders(shop).version(version)) == ["late"]


def test_a_write_by_name_does_not_conflict_with_changes_that_keep_the_default(shop: Lakehouse) -> None:
    orders(shop).create_version()
    changes: tuple[Callable[[], object], ...] = (
        lambda: orders(shop).create_version(),
        lambda: orders(shop).version(2).set_state("beta"),
        lambda: orders(shop).alter({"owner": "ana"}),
        lambda: orders(shop).drop_version(2),
        lambda: orders(shop).rename("shop.other"),
    )
    for number, change in enumerate(changes):
        writer = shop.transaction()
        writer.add_delta("shop.orders", (), delta(str(number)))
        change()
        writer.commit()
    assert files(shop.table("shop.other")) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_concurrent_creations_of_the_next_version_conflict(shop: Lakehouse, isolation: str) -> None:
    one, two = shop.transaction(isolation), shop.transaction(isolation)
    for transaction in (one, two):
        transaction.table("shop.orders").create_version(stream_id="same")
    one.commit()
    with pytest.raises(ConflictError):
        two.commit()
    assert summary(shop) == [(1, "active", True), (2, "unreleased", False)]


def test_dropping_a_version_conflicts_with_concurrent_writes_to_it_both_ways(shop: Lakehouse) -> None:
    orders(shop).create_version()
    writer, dropper = shop.transaction(), shop.transaction()
    writer.add_delta("shop.orders", (), delta("two"), version=2)
    dropper.table("shop.orders").drop_version(2)
    writer.commit()
    with pytest.raises(ConflictError):
        dropper.commit()
    assert files(orders(shop).version(2)) == ["two"]
    writer = shop.transaction()
    writer.add_delta("shop.orders", (), delta("more"), version=2)
    orders(shop).drop_version(2)
    with pytest.raises(ConflictError):
        writer.commit()


def test_dropping_a_version_does_not_conflict_with_writes_to_another(shop: Lakehouse) -> None:
    orders(shop).create_version()
    writer = shop.transaction()
    writer.add_delta("shop.orders", (), delta("one"))
    orders(shop).drop_version(2)
    writer.commit()
    assert files(orders(shop)) == ["one"]


def test_deleting_a_version_conflicts_with_concurrent_writes_to_it(shop: Lakehouse) -> None:
    orders(shop).create_version()
    writer = shop.transaction()
    writer.add_delta("shop.orders", (), delta("two"), version=2)
    orders(shop).version(2).set_state("deleted")
    with pytest.raises(ConflictError):
        writer.commit()


def test_concurrent_changes_of_states_never_leave_a_default_that_is_not_the_newest_active(shop: Lakehouse) -> None:
    orders(shop).create_version(state="active")
    orders(shop).create_version(state="active")
    one, two = shop.transaction(), shop.transaction()
    one.table("shop.orders").version(3).set_state("deprecated")
    two.table("shop.orders").version(2).set_state("deprecated")
    one.commit()
    with pytest.raises(ConflictError):
        two.commit()
    assert summary(shop) == [(1, "active", False), (2, "active", True), (3, "deprecated", False)]


def test_threads_that_commit_together_do_not_miss_a_changed_default(shop: Lakehouse) -> None:
    orders(shop).create_version()
    activation, writer = shop.transaction(), shop.transaction()
    activation.table("shop.orders").version(2).set_state("active")
    writer.add_delta("shop.orders", (), delta("late"))
    requests = [
        GroupCommitRequest(one.core.workspace.snapshot, one.core.workspace.changes(one.id), one.isolation)
        for one in (activation, writer)
    ]
    members, others = select_group(requests)
    assert (members, others) == (requests[:1], requests[1:])


# Streams.


def test_a_staged_stream_is_filled_beside_the_one_that_is_read_and_replaces_it_in_one_commit(
    shop: Lakehouse, opened_again: Callable[[], Lakehouse]
) -> None:
    add(shop, "old")
    (served,) = orders(shop).streams()
    staged = orders(shop).create_stream("reload", "iceberg")
    with shop.transaction() as transaction:
        transaction.add_delta("shop.orders", (), delta("new"), stream_id="reload")
    assert files(orders(shop)) == ["old"]
    assert files(orders(opened_again()).stream("reload")) == ["new"]
    assert {(one.id, one.format, one.state, one.is_served) for one in orders(opened_again()).streams()} == {
        (served.id, "deltacat", "committed", True),
        ("reload", "iceberg", "staged", False),
    }
    staged.commit_stream()
    assert files(orders(opened_again())) == ["new"]
    found = {one.id: one for one in orders(opened_again()).streams()}
    assert (found["reload"].state, found["reload"].is_served, found["reload"].previous_id) == (
        "committed",
        True,
        served.id,
    )
    assert found[served.id].state == "deprecated"
    assert files(orders(shop).stream(served.id)) == ["old"]
    with (
        pytest.raises(InvalidInputError, match="was replaced by another stream and is read-only"),
        shop.transaction() as transaction,
    ):
        transaction.add_delta("shop.orders", (), delta("late"), stream_id=served.id)
    orders(shop).stream(served.id).drop_stream()
    assert [one.id for one in orders(opened_again()).streams()] == ["reload"]


def test_committing_a_stream_conflicts_with_concurrent_writes_to_the_one_before(shop: Lakehouse) -> None:
    staged = orders(shop).create_stream("reload")
    writer = shop.transaction()
    writer.add_delta("shop.orders", (), delta("late"))
    staged.commit_stream()
    with pytest.raises(ConflictError):
        writer.commit()


def test_the_id_of_a_stream_is_unique(shop: Lakehouse) -> None:
    one, two = shop.transaction(), shop.transaction()
    for transaction in (one, two):
        transaction.table("shop.orders").create_stream("reload")
    one.commit()
    with pytest.raises(ConflictError):
        two.commit()
    with pytest.raises(AlreadyExistsError, match="has a stream 'reload' already"):
        orders(shop).create_stream("reload")
    with pytest.raises(InvalidInputError, match="stream id"):
        orders(shop).create_stream("a/b")
    with pytest.raises(NotFoundError, match="has no stream 'none'"):
        orders(shop).stream("none")
    served = next(one for one in orders(shop).streams() if one.is_served)
    with pytest.raises(InvalidInputError, match="is the stream that is read"):
        orders(shop).stream(served.id).drop_stream()
    with pytest.raises(InvalidInputError, match="only a staged stream"):
        orders(shop).stream(served.id).commit_stream()


# Partitions.


def test_rows_are_written_to_the_partition_with_the_chosen_id(
    lake: Lakehouse, opened_again: Callable[[], Lakehouse]
) -> None:
    lake.create_namespace("shop")
    table = lake.create_table("shop.parted", "id bigint, shop string", partition_by=["shop"])
    table.create_partition(("a",), "shop-a")
    for name in ("a", "b", "a"):
        with lake.transaction() as transaction:
            transaction.add_delta("shop.parted", (name,), delta(name))
    found = {partition.values: partition.id for _, partition in opened_again().table("shop.parted").partitions()}
    assert found[("a",)] == "shop-a"
    assert len(found) == 2
    assert [at.position for at, _ in table.deltas() if at.partition_id == "shop-a"] == [1, 2]
    with pytest.raises(AlreadyExistsError, match="already, 'shop-a'"):
        table.create_partition(("a",), "other")
    with pytest.raises(AlreadyExistsError, match="with the id 'shop-a' already"):
        table.create_partition(("c",), "shop-a")


def test_creating_a_partition_conflicts_with_concurrent_writes_of_the_same_values(lake: Lakehouse) -> None:
    lake.create_namespace("shop")
    table = lake.create_table("shop.parted", "id bigint, shop string", partition_by=["shop"])
    writer = lake.transaction()
    writer.add_delta("shop.parted", ("a",), delta("late"))
    table.create_partition(("a",), "shop-a")
    with pytest.raises(ConflictError):
        writer.commit()


@pytest.mark.parametrize("concurrent", [("a", "mine"), ("b", "other")])
def test_concurrent_creations_of_a_partition_id_or_of_its_values_conflict(
    lake: Lakehouse, concurrent: tuple[str, str]
) -> None:
    lake.create_namespace("shop")
    table = lake.create_table("shop.parted", "id bigint, shop string", partition_by=["shop"])
    late = lake.transaction()
    late.table("shop.parted").create_partition(("b",), "mine")
    table.create_partition(concurrent[:1], concurrent[1])
    with pytest.raises(ConflictError):
        late.commit()
    assert [(one.id, one.values) for _, one in table.partitions()] == [(concurrent[1], concurrent[:1])]


def test_a_partition_that_a_concurrent_write_creates_conflicts_with_its_creation(lake: Lakehouse) -> None:
    lake.create_namespace("shop")
    table = lake.create_table("shop.parted", "id bigint, shop string", partition_by=["shop"])
    late = lake.transaction()
    late.table("shop.parted").create_partition(("b",), "mine")
    with lake.transaction() as transaction:
        transaction.add_delta("shop.parted", ("b",), delta("first"))
    with pytest.raises(ConflictError):
        late.commit()
    assert [one.values for _, one in table.partitions()] == [("b",)]


def test_a_handle_of_a_part_of_a_table_changes_nothing_above_the_part(lake: Lakehouse) -> None:
    lake.create_namespace("shop")
    table = lake.create_table("shop.orders", "id bigint", stream_id="main")
    add(lake, "first")
    ((partition, _),), ((position, _),) = table.partitions(), table.deltas()
    of_table: list[Callable[[Table], object]] = [lambda part: part.drop(), lambda part: part.rename("shop.other")]
    of_version: list[Callable[[Table], object]] = [
        lambda part: part.alter({"owner": "ana"}),
        lambda part: part.create_version(),
        lambda part: part.drop_version(1),
        lambda part: part.set_state("deleted"),
        lambda part: part.update_schema(),
        lambda part: part._evolve([{"id": 1, "more": 2}]),
        lambda part: part.create_stream("reload"),
    ]
    of_stream: list[Callable[[Table], object]] = [
        lambda part: part.commit_stream(),
        lambda part: part.drop_stream(),
        lambda part: part.create_partition((), "named"),
    ]
    refused = {
        "table version": (table.version(1), lake.table("shop|orders|1")),
        "stream": (table.stream("main"), lake.table("shop|orders|1|main|deltacat")),
        "partition": (lake.table(partition),),
        "delta": (lake.table(position),),
    }
    before = lake.version
    for kind, parts in refused.items():
        changes = of_table + of_version * (kind != "table version") + of_stream * (kind in ("partition", "delta"))
        for part in parts:
            for change in changes:
                with pytest.raises(InvalidInputError, match=f"is a {kind}, a part of the table shop.orders; .* is for"):
                    change(part)
    assert lake.version == before


@pytest.mark.parametrize("stream_id", ["", ".", "..", "a b", "a/b"])
def test_an_invalid_stream_id_is_refused_with_the_rule(lake: Lakehouse, stream_id: str) -> None:
    lake.create_namespace("shop")
    table = lake.create_table("shop.orders", "id bigint")
    before = lake.version
    calls: list[Callable[[], object]] = [
        lambda: lake.create_table("shop.other", "id bigint", stream_id=stream_id),
        lambda: lake.create_table("shop.other", schemaless=True, stream_id=stream_id),
        lambda: table.create_version(stream_id=stream_id),
        lambda: table.create_stream(stream_id),
        lambda: table.stream(stream_id),
        lambda: lake.transaction().add_delta("shop.orders", (), delta("x"), stream_id=stream_id),
    ]
    for call in calls:
        with pytest.raises(InvalidInputError, match=r"stream id '.*' is not an id: an id is text other than '\.' and"):
            call()
    with pytest.raises(InvalidInputError, match="invalid table version 0"):
        lake.transaction().add_delta("shop.orders", (), delta("x"), version=0)
    assert lake.version == before


def test_check_reports_two_partitions_of_a_stream_with_the_same_values(lake: Lakehouse) -> None:
    lake.create_namespace("shop")
    table = lake.create_table("shop.parted", "id bigint, shop string", partition_by=["shop"])
    first = table.create_partition(("a",), "first")
    table.create_partition(("b",), "other")
    table.create_version().create_partition(("a",), "first")
    assert not lake.maintenance.check().problems
    second = replace(first, partition_id="second")
    with lake.transaction() as transaction:
        transaction.core.workspace.put(second, Partition("second", ("a",), table.opened().stream.partition_scheme_id))
    (problem,) = lake.maintenance.check().problems
    assert problem.path == f"partition {PartitionLocator(*second.parts)}"  # type: ignore[arg-type]
    assert problem.rule.startswith("the partition first of the same stream has the same id or values")


def test_partitions_are_listed_with_their_numbers_of_files_and_rows(
    lake: Lakehouse, opened_again: Callable[[], Lakehouse]
) -> None:
    lake.create_namespace("shop")
    lake.create_table("shop.parted", "id bigint, shop string", partition_by=["shop"])
    for name in ("a", "b", "a"):
        with lake.transaction() as transaction:
            transaction.add_delta("shop.parted", (name,), delta(f"{name}-{lake.version}"))
    with lake.transaction() as transaction:
        transaction.add_delta("shop.parted", ("b",), replace(delta("compacted"), type=DeltaType.REPLACE))
    stats = {one.values: one for one in opened_again().table("shop.parted").partition_stats()}
    found = {values: (one.delta_count, one.file_count, one.row_count, one.size_bytes) for values, one in stats.items()}
    assert found == {("a",): (2, 2, 20, 2000), ("b",): (2, 1, 10, 1000)}
    (only,) = lake.table(stats[("a",)].locator).partition_stats()
    assert only == stats[("a",)]
    assert lake.create_table("shop.empty", "id int").partition_stats() == []


# Deltas.


def test_a_delta_can_be_added_at_a_chosen_position(shop: Lakehouse) -> None:
    with shop.transaction() as transaction:
        assert transaction.add_delta("shop.orders", (), replace(delta("first"), position=40)).position == 40
    add(shop, "next")
    assert [at.position for at, _ in orders(shop).deltas()] == [40, 41]
    with pytest.raises(AlreadyExistsError, match="stream position 41 is not free"), shop.transaction() as transaction:
        transaction.add_delta("shop.orders", (), replace(delta("late"), position=41))


def test_a_chosen_position_is_never_changed_by_a_rebase(shop: Lakehouse) -> None:
    add(shop, "first")
    writer = shop.transaction()
    writer.add_delta("shop.orders", (), replace(delta("chosen"), position=2))
    add(shop, "faster")
    with pytest.raises(ConflictError):
        writer.commit()
    assert files(orders(shop)) == ["first", "faster"]


# Shared transactions.


def test_a_shared_transaction_that_wrote_by_name_conflicts_with_an_activation_only(shop: Lakehouse) -> None:
    orders(shop).create_version()
    with shop.begin_shared("load", ttl="6h") as load:
        load.add_delta("shop.orders", (), delta("shared"))
    orders(shop).alter({"owner": "ana"})
    shop.join_shared("load").publish()
    assert files(orders(shop)) == ["shared"]
    with shop.begin_shared("late", ttl="6h") as load:
        load.add_delta("shop.orders", (), delta("late"))
    orders(shop).version(2).set_state("active")
    with pytest.raises(ConflictError, match="from 1 to 2"):
        shop.join_shared("late").publish()
    assert files(orders(shop).version(1)) == ["shared"]


def test_two_participants_of_a_shared_transaction_do_not_miss_a_changed_default(shop: Lakehouse) -> None:
    orders(shop).create_version()
    shop.begin_shared("load", ttl="6h").save()
    one, two = shop.join_shared("load"), shop.join_shared("load")
    one.table("shop.orders").version(2).set_state("active")
    one.save()
    two.add_delta("shop.orders", (), delta("late"))
    with pytest.raises(ConflictError, match="another participant changed it"):
        two.save()


def test_a_table_bound_to_a_version_is_pickled_with_it(shop: Lakehouse) -> None:
    orders(shop).create_version()
    copy = pickle.loads(pickle.dumps(TableTarget(orders(shop).locator, 2, "main")))
    assert str(copy) == "shop.orders.version_2 (stream main)"
