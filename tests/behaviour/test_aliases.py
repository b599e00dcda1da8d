"""Aliases of namespaces and tables: created, listed, resolved, kept through renames, dropped."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import pytest

import mangrove
from mangrove.errors import AlreadyExistsError, ConflictError, InvalidInputError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.layout_detection import LAYOUTS
from mangrove.metastore import Changes, Isolation
from mangrove.model.locators import AliasLocator, Locator
from mangrove.model.objects import AliasEntry, Object

ROWS = [{"id": 1, "amount": 5}]
Change: TypeAlias = Callable[[Lakehouse | mangrove.Transaction], object]


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> str:
    """Return a layout; the older tree is strict."""
    assert isinstance(request.param, str)
    return request.param


@pytest.fixture
def shop(layout: str) -> Lakehouse:
    lake = mangrove.create(f"memory://aliases-{layout}-{next(_NUMBERS)}/", layout=layout)
    lake.create_namespace("shop")
    lake.create_table("shop.orders", "id bigint not null, amount bigint", keys=["id"])
    return lake


_NUMBERS = iter(range(10**6))


def name_aliases(lake: Lakehouse) -> list[tuple[str, str]]:
    return [(alias.name, alias.target) for alias in lake.aliases()]


def test_an_alias_of_a_table_is_listed_and_reads_and_writes_the_table(shop: Lakehouse) -> None:
    shop.create_alias("shop.purchases", "shop.orders")
    shop.table("shop.purchases").append(ROWS)
    shop.table("shop.purchases").upsert([{"id": 1, "amount": 6}])
    assert shop.table("shop.orders").to_arrow().to_pylist() == [{"id": 1, "amount": 6}]
    assert shop.table("shop.purchases").id == shop.table("shop.orders").id
    assert name_aliases(shop) == [("shop.purchases", "shop.orders")]
    assert shop.table("shop.orders").aliases == ("shop.purchases",)
    assert [str(table) for table in shop.tables("shop")] == ["shop.orders"]


def test_an_alias_of_a_namespace_resolves_every_name_in_it(shop: Lakehouse) -> None:
    shop.create_view("shop.all", "select * from shop.orders", reads=["shop.orders"])
    shop.create_alias("store", "shop")
    shop.create_alias("store.purchases", "store.orders")
    assert str(shop.table("store.orders")) == "shop.orders"
    assert str(shop.table("store.purchases")) == "shop.orders"
    assert str(shop.view("store.all")) == "shop.all"
    assert str(shop.create_table("store.items", "id bigint")) == "shop.items"
    assert [str(one) for one in shop.tables("store")] == ["shop.items", "shop.orders"]
    assert shop.namespace("store").name == "shop"
    assert shop.namespace("shop").aliases == ("store",)
    assert name_aliases(shop) == [("shop.purchases", "shop.orders"), ("store", "shop")]


def test_an_alias_follows_its_target_through_renames_and_moves(shop: Lakehouse) -> None:
    shop.create_alias("shop.purchases", "shop.orders")
    shop.create_alias("store", "shop")
    made = shop.table("shop.orders").id
    shop.rename_table("shop.orders", "shop.sales")
    assert str(shop.table("shop.purchases")) == "shop.sales"
    shop.create_namespace("archive")
    shop.rename_table("shop.sales", "archive.sales")
    assert str(shop.table("shop.purchases")) == "archive.sales"
    shop.rename_namespace("shop", "market")
    shop.rename_namespace("archive", "history")
    assert name_aliases(shop) == [("market.purchases", "history.sales"), ("store", "market")]
    for name in ("market.purchases", "store.purchases", "history.sales"):
        assert shop.table(name).id == made


def test_an_alias_and_a_namespace_rename_in_one_transaction(shop: Lakehouse) -> None:
    with shop.transaction() as transaction:
        transaction.create_alias("shop.purchases", "shop.orders")
        transaction.rename_namespace("shop", "market")
        transaction.create_alias("market.buys", "market.purchases")
        transaction.rename_table("market.orders", "market.sales")
        assert name_aliases_of(transaction) == ["market.buys", "market.purchases"]
    assert name_aliases(shop) == [("market.buys", "market.sales"), ("market.purchases", "market.sales")]


def name_aliases_of(transaction: mangrove.Transaction) -> list[str]:
    return [alias.name for alias in transaction.aliases()]


def test_dropping_an_alias_leaves_its_table_and_frees_the_name(shop: Lakehouse) -> None:
    shop.create_alias("shop.purchases", "shop.orders")
    shop.drop_alias("shop.purchases")
    assert name_aliases(shop) == []
    assert shop.table("shop.orders").id
    with pytest.raises(NotFoundError, match=r"alias shop\.purchases does not exist"):
        shop.drop_alias("shop.purchases")
    shop.drop_alias("shop.purchases", if_exists=True)
    shop.create_table("shop.purchases", "id bigint")
    assert shop.table("shop.purchases").id != shop.table("shop.orders").id


def test_dropping_a_table_or_namespace_drops_its_aliases(shop: Lakehouse) -> None:
    shop.create_namespace("other")
    shop.create_alias("other.purchases", "shop.orders")
    shop.create_alias("store", "shop")
    shop.create_table("other.kept", "id bigint")
    shop.create_alias("shop.kept", "other.kept")
    shop.drop_namespace("shop", cascade=True)
    assert name_aliases(shop) == []
    with pytest.raises(NotFoundError):
        shop.table("other.purchases")


def test_a_replaced_table_keeps_its_aliases(shop: Lakehouse) -> None:
    shop.create_alias("shop.purchases", "shop.orders")
    made = shop.create_table("shop.orders", "id bigint", replace=True)
    assert shop.table("shop.purchases").id == made.id


def test_aliases_share_names_with_tables_views_and_namespaces(shop: Lakehouse) -> None:
    shop.create_alias("shop.purchases", "shop.orders")
    shop.create_alias("store", "shop")
    before = shop.version
    for make in (
        lambda: shop.create_table("shop.purchases", "id bigint"),
        lambda: shop.create_table("shop.purchases", "id bigint", replace=True),
        lambda: shop.create_view("shop.purchases", "select 1"),
        lambda: shop.create_alias("shop.purchases", "shop.orders"),
        lambda: shop.create_alias("shop.orders", "shop.orders"),
        lambda: shop.create_namespace("store"),
        lambda: shop.rename_table("shop.orders", "shop.purchases"),
        lambda: shop.rename_namespace("shop", "store"),
        lambda: shop.create_alias("shop", "shop"),
    ):
        with pytest.raises(AlreadyExistsError):
            make()
    assert shop.version == before


def test_an_existing_alias_is_accepted_only_for_the_same_target(shop: Lakehouse) -> None:
    shop.create_table("shop.items", "id bigint")
    shop.create_namespace("other")
    made = shop.create_alias("shop.purchases", "shop.orders"), shop.create_alias("store", "shop")
    before = shop.version
    for name in ("shop.purchases", "store.purchases", "shop|purchases"):
        for target in ("shop.orders", "store.orders", "shop.purchases", str(shop.table("shop.orders").identity)):
            assert shop.create_alias(name, target, if_not_exists=True) == made[0]
        with pytest.raises(AlreadyExistsError, match=r"alias shop\.purchases already exists"):
            shop.create_alias(name, "shop.items", if_not_exists=True)
    assert shop.create_alias("store", "shop", if_not_exists=True) == made[1]
    with pytest.raises(AlreadyExistsError, match="alias store already exists"):
        shop.create_alias("store", "other", if_not_exists=True)
    with pytest.raises(NotFoundError, match=r"table shop\.missing does not exist"):
        shop.create_alias("shop.purchases", "shop.missing", if_not_exists=True)
    assert shop.version == before


def test_a_rename_or_drop_needs_the_own_name(shop: Lakehouse) -> None:
    shop.create_alias("shop.purchases", "shop.orders")
    shop.create_alias("store", "shop")
    before = shop.version
    for change in (
        lambda: shop.drop_table("shop.purchases"),
        lambda: shop.rename_table("shop.purchases", "shop.x"),
        lambda: shop.drop_namespace("store", cascade=True),
        lambda: shop.rename_namespace("store", "x"),
    ):
        with pytest.raises(InvalidInputError, match="is an alias of"):
            change()
    with pytest.raises(InvalidInputError, match="as many parts"):
        shop.create_alias("x", "shop.orders")
    assert shop.version == before


def test_concurrent_creations_of_one_name_conflict(shop: Lakehouse) -> None:
    for other in (
        lambda lake: lake.create_table("shop.purchases", "id bigint"),
        lambda lake: lake.create_view("shop.purchases", "select 1"),
        lambda lake: lake.create_alias("shop.purchases", "shop.orders"),
    ):
        version = shop.version
        for first, second in ((other, alias_purchases), (alias_purchases, other)):
            with pytest.raises(ConflictError):
                commit_after(shop, second, first)
            shop.rollback(version)


def commit_after(lake: Lakehouse, second: Change, first: Change) -> None:
    """Commit `second` in a transaction that began before `first` was committed."""
    with lake.transaction() as begun:
        second(begun)
        first(lake)


def alias_purchases(lake: Lakehouse | mangrove.Transaction) -> None:
    lake.create_alias("shop.purchases", "shop.orders")


@pytest.mark.parametrize(
    "change",
    [
        lambda lake: lake.rename_table("shop.orders", "shop.sales"),
        lambda lake: lake.drop_table("shop.orders"),
        lambda lake: lake.rename_namespace("shop", "market"),
        lambda lake: lake.drop_namespace("shop", cascade=True),
    ],
)
def test_a_concurrent_change_of_the_target_conflicts_with_a_new_alias(shop: Lakehouse, change: Change) -> None:
    version = shop.version
    for first, second in ((change, alias_purchases), (alias_purchases, change)):
        with pytest.raises(ConflictError):
            commit_after(shop, second, first)
        shop.rollback(version)


def test_appends_do_not_conflict_with_a_new_alias(shop: Lakehouse) -> None:
    with shop.transaction() as transaction:
        transaction.table("shop.orders").append(ROWS)
        alias_purchases(shop)
    assert shop.table("shop.purchases").to_arrow().num_rows == 1


def test_time_travel_diff_rollback_and_undo_restore_aliases(shop: Lakehouse) -> None:
    before = shop.version
    alias_purchases(shop)
    created = shop.version
    shop.rename_table("shop.orders", "shop.sales")
    assert name_aliases_at(shop, created) == [("shop.purchases", "shop.orders")]
    assert [str(one) for one in shop.diff(before, created).changes] == ["added alias shop.purchases"]
    assert [str(one) for one in shop.diff(created).changes] == [
        "renamed table shop.sales (was shop.orders)",
        "changed alias shop.purchases",
    ]
    shop.undo(shop.version)
    assert name_aliases(shop) == [("shop.purchases", "shop.orders")]
    shop.rename_namespace("shop", "market")
    assert "renamed alias market.purchases (was shop.purchases)" in map(str, shop.diff(shop.version - 1).changes)
    shop.undo(shop.version)
    assert name_aliases(shop) == [("shop.purchases", "shop.orders")]
    shop.rollback(before)
    assert name_aliases(shop) == []
    shop.rollback(created)
    assert str(shop.table("shop.purchases")) == "shop.orders"


def name_aliases_at(lake: Lakehouse, version: int) -> list[tuple[str, str]]:
    return [(alias.name, alias.target) for alias in lake.at(version).aliases()]


def test_the_creation_of_a_table_with_a_later_alias_cannot_be_undone(shop: Lakehouse) -> None:
    created = shop.version
    alias_purchases(shop)
    with pytest.raises(ConflictError, match="alias"):
        shop.undo(created)


def test_check_vacuum_and_expiry_leave_aliases(shop: Lakehouse) -> None:
    alias_purchases(shop)
    shop.create_alias("store", "shop")
    shop.rename_namespace("shop", "market")
    assert not shop.maintenance.check().problems
    shop.alter(maximum_version_age_millis=0, minimum_versions_to_keep=1)
    shop.maintenance.expire(alone=True)
    shop.maintenance.vacuum(alone=True)
    assert not shop.maintenance.check().problems
    assert name_aliases(shop) == [("market.purchases", "market.orders"), ("store", "market")]


def test_check_reports_an_alias_whose_target_is_missing(shop: Lakehouse) -> None:
    alias_purchases(shop)
    newest = shop._reading()
    entry = newest.get(AliasLocator("shop|purchases"))
    assert isinstance(entry, AliasEntry)
    damaged: dict[Locator, Object] = {AliasLocator("shop|purchases"): replace(entry, target_id="other")}
    shop.metastore.commit(newest, Changes("damage", damaged), Isolation.SNAPSHOT)
    (problem,) = shop.maintenance.check().problems
    assert problem.path == "alias shop.purchases"
    assert "does not exist" in problem.rule


def test_an_export_and_a_conversion_keep_aliases(shop: Lakehouse, layout: str) -> None:
    alias_purchases(shop)
    shop.create_alias("store", "shop")
    shop.rename_namespace("shop", "market")
    shop.table("market.purchases").append(ROWS)
    kept = name_aliases(shop)
    copied = f"memory://aliases-export-{layout}/"
    shop.maintenance.export(copied, "copy", "partial", tables=["store.purchases"])
    assert name_aliases(mangrove.open(copied)) == kept
    there = f"memory://aliases-convert-{layout}/"
    shop.maintenance.convert(there)
    converted = mangrove.open(there)
    assert name_aliases(converted) == kept
    assert converted.layout != layout
    assert converted.table("store.purchases").to_arrow().to_pylist() == ROWS
    back = f"memory://aliases-back-{layout}/"
    converted.maintenance.convert(back, layout)
    assert name_aliases(mangrove.open(back)) == kept
    assert [name_aliases_at(mangrove.open(back), version) for version in range(shop.version + 1)] == [
        name_aliases_at(shop, version) for version in range(shop.version + 1)
    ]


def test_a_shared_transaction_creates_an_alias(shop: Lakehouse) -> None:
    shared = shop.begin_shared("work")
    shared.create_alias("shop.purchases", "shop.orders")
    shared.save()
    shop.join_shared("work").publish()
    assert name_aliases(shop) == [("shop.purchases", "shop.orders")]
