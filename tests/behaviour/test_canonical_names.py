"""Objects found by their canonical strings, and canonical strings of objects, in every layout."""

import datetime

import pytest

import mangrove
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.model.locators import AliasLocator, Kind, Locator, TableLocator

_NUMBERS = iter(range(10**6))


@pytest.fixture
def shop(layout: str) -> Lakehouse:
    lake = mangrove.create(f"memory://canonical-{layout}-{next(_NUMBERS)}/", layout=layout, strict=False)
    lake.create_namespace("shop")
    lake.create_table("shop.orders", "id bigint, kind string, day date", partition_by=["kind", "days(day)"])
    lake.table("shop.orders").append([{"id": 1, "kind": "a|b", "day": datetime.date(2026, 11, 16)}])
    lake.create_view("shop.all", "select * from shop.orders", reads=["shop.orders"])
    return lake


def test_the_objects_of_all_kinds_are_found_by_the_canonical_strings_of_their_locators(shop: Lakehouse) -> None:
    table = shop.table("shop.orders")
    opened = table.opened()
    ((partition, _),) = table.partitions()
    ((delta, _),) = table.deltas()
    locators: list[Locator] = [table.locator.parent, table.locator, opened.version_locator, opened.stream_locator]
    locators += [partition, delta]
    strings = [shop.resolve(locator).canonical for locator in locators]
    assert strings[:4] == ["shop", "shop|orders", "shop|orders|1", f"shop|orders|1|{opened.stream.id}|deltacat"]
    assert strings[4].startswith(f"{strings[3]}|{partition.partition_id}|[")
    assert strings[5] == f"{strings[4]}|{delta.position}"
    found = [shop.resolve(text) for text in strings]
    assert [one.locator for one in found] == locators
    assert [one.kind for one in found] == [
        Kind.NAMESPACE, Kind.TABLE, Kind.TABLE_VERSION, Kind.STREAM, Kind.PARTITION, Kind.DELTA
    ]  # fmt: skip
    assert [one.value for one in found] == [shop.reading().get(locator) for locator in locators]


def test_a_rename_changes_canonical_strings_and_not_locators(shop: Lakehouse) -> None:
    (delta, _) = next(iter(shop.table("shop.orders").deltas()))
    before = shop.resolve(delta).canonical
    shop.create_alias("store", "shop")
    shop.rename_namespace("shop", "market")
    after = shop.resolve(delta).canonical
    assert after == before.replace("shop|", "market|", 1)
    assert shop.resolve(before.replace("shop|", "store|", 1)).canonical == after
    assert shop.resolve(AliasLocator("store")).canonical == "market"
    with pytest.raises(NotFoundError):
        shop.resolve(before)


def test_names_with_bars_name_tables_and_views(shop: Lakehouse) -> None:
    assert str(shop.table("shop|orders")) == "shop.orders"
    assert str(shop.view("shop|all")) == "shop.all"
    assert shop.resolve("shop|all").kind is Kind.VIEW
    assert shop.resolve("shop.orders").locator == TableLocator("shop", "orders")
    shop.create_table("shop|items", "id bigint")
    shop.rename_table("shop|items", "shop|things.2026")
    assert shop.table("shop.`things.2026`").name == "things.2026"
    assert shop.table("shop|orders|1").target.version == 1
    with pytest.raises(InvalidInputError, match="names a stream; expected a table or a table version"):
        shop.table("shop|orders|1|stream|deltacat")


def test_another_format_or_other_partition_values_are_not_found(shop: Lakehouse) -> None:
    (partition, _) = next(iter(shop.table("shop.orders").partitions()))
    name = shop.resolve(partition).canonical
    for wrong, message in (
        (name.replace("|deltacat|", "|iceberg|"), "format"),
        (name.replace("a\\u007cb", "ab"), "values"),
        (f"{name}|99", "delta"),
        ("shop|orders|7", "table version"),
        ("shop|missing|1", "table shop.missing"),
    ):
        with pytest.raises(NotFoundError, match=message):
            shop.resolve(wrong)


def test_a_transaction_and_a_snapshot_resolve_what_they_see(shop: Lakehouse) -> None:
    before = shop.version
    with shop.transaction() as transaction:
        transaction.rename_table("shop.orders", "shop.sales")
        assert transaction.resolve("shop|sales|1").kind is Kind.TABLE_VERSION
    assert shop.at(before).resolve("shop|orders|1").locator == shop.resolve("shop|sales|1").locator


def test_every_table_version_has_a_canonical_string_also_by_an_alias(shop: Lakehouse) -> None:
    second = shop.table("shop.orders").create_version("id bigint", partition_by=[])
    shop.create_alias("shop.purchases", "shop.orders")
    for number in (1, 2):
        resolved = shop.resolve(f"shop|purchases|{number}")
        assert resolved.canonical == f"shop|orders|{number}"
        assert shop.resolve(resolved.locator) == resolved
    stream = second.opened().stream_locator
    assert shop.resolve(shop.resolve(stream).canonical).locator == stream
    second.append([{"id": 7}])
    assert shop.table("shop.purchases", version=2).to_arrow().to_pylist() == [{"id": 7}]
    shop.create_namespace("archive")
    shop.rename_table("shop.orders", "archive.orders")
    assert shop.resolve("shop|purchases|2").canonical == "archive|orders|2"
    assert shop.table("shop.purchases", version=2).to_arrow().to_pylist() == [{"id": 7}]
