"""Objects found by their canonical strings, and canonical strings of objects, in every layout."""

import datetime
from collections.abc import Callable

import pytest

import mangrove
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.table import Table
from mangrove.model.locators import AliasLocator, Kind, Locator, NamespaceLocator, TableLocator

_NUMBERS = iter(range(10**6))


@pytest.fixture
def shop(layout: str) -> Lakehouse:
    lake = mangrove.create(f"memory://canonical-{layout}-{next(_NUMBERS)}/", layout=layout)
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
    assert [one.value for one in found] == [shop._reading().get(locator) for locator in locators]


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
    with pytest.raises(InvalidInputError, match=r"shop\|all is a view; expected a table, table version, stream"):
        shop.table("shop|all")
    with pytest.raises(NotFoundError, match=r"stream shop\|orders\|1\|stream\|deltacat does not exist"):
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


def test_a_transaction_and_a_snapshot_resolve_names_in_their_own_state(shop: Lakehouse) -> None:
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


DAYS = [datetime.date(2026, 11, day) for day in (16, 17)]


def test_the_rows_of_every_kind_below_a_table_are_read_by_its_string_and_its_locator(shop: Lakehouse) -> None:
    table = shop.table("shop.orders")
    table.append([{"id": 2, "kind": "a|b", "day": DAYS[0]}, {"id": 3, "kind": "c", "day": DAYS[1]}])
    table.delete("id = 1")
    table.create_stream("reload").append([{"id": 9, "kind": "c", "day": DAYS[1]}])
    partition = next(locator for locator, one in table.partitions() if one.values[0] == "a|b")
    first = next(locator for locator, _ in table.deltas() if locator.parent == partition)
    expected: list[tuple[Locator, list[int]]] = [
        (table.locator, [2, 3]),
        (table.opened().version_locator, [2, 3]),
        (table.opened().stream_locator, [2, 3]),
        (table.stream("reload").opened().stream_locator, [9]),
        (partition, [2]),
        (first, [1]),
    ]
    for locator, ids in expected:
        for name in (locator, shop.resolve(locator).canonical):
            opened = shop.table(name)
            assert opened.to_arrow().sort_by("id")["id"].to_pylist() == ids
            assert opened.scan("id > 0", ["id"]).to_arrow().num_rows == len(ids)
            assert len(opened.files()) == len({file.location for file in opened.files()}) >= 1
    assert [at for at, _ in shop.table(first).deltas()] == [first]
    assert [at for at, _ in shop.table(partition).partitions()] == [partition]
    assert str(shop.table(partition)) == (
        f"shop.orders.version_1 (stream {partition.stream_id}, partition {partition.partition_id})"
    )


def test_a_stream_is_written_by_its_string_and_a_partition_or_delta_is_read_only(shop: Lakehouse) -> None:
    table = shop.table("shop.orders")
    staged = table.create_stream("reload").opened().stream_locator
    row = {"id": 5, "kind": "c", "day": DAYS[0]}
    shop.table(shop.resolve(staged).canonical).append([row])
    assert shop.table(staged).to_arrow().to_pylist() == [row]
    before = shop.version
    writes: list[Callable[[Table], object]] = [
        lambda part: part.append([row]),
        lambda part: part.delete("id = 1"),
        lambda part: part.compact(),
    ]
    parts: list[Locator] = [*(at for at, _ in table.partitions()), *(at for at, _ in table.deltas())]
    for locator in parts:
        part = shop.table(locator)
        for write in writes:
            with pytest.raises(InvalidInputError, match="is read-only; write to its table, table version or stream"):
                write(part)
        with pytest.raises(InvalidInputError, match="publish the table"):
            part.iceberg()
    assert shop.version == before


@pytest.mark.parametrize("name", ["a.b", "a.b.c", "`a`", "a=b&c?d#e%2F", "größe", "version_2"])
def test_names_with_separators_are_found_by_canonical_strings_of_all_kinds(layout: str, name: str) -> None:
    lake = mangrove.create(f"memory://canonical-{layout}-{next(_NUMBERS)}/", layout=layout)
    lake.create_namespace(NamespaceLocator(name))
    table = lake.create_table(TableLocator(name, name), "id bigint, kind string", partition_by=["kind"])
    table.append([{"id": 1, "kind": 'x|y",[`.'}])
    opened = table.opened()
    locators: list[Locator] = [table.locator.parent, table.locator, opened.version_locator, opened.stream_locator]
    locators += [*(at for at, _ in table.partitions()), *(at for at, _ in table.deltas())]
    assert len(locators) == 6
    for locator in locators:
        canonical = lake.resolve(locator).canonical
        assert lake.resolve(canonical).locator == locator
        assert canonical.split("|")[:2] == [name] * min(2, canonical.count("|") + 1)
    for locator in locators[1:]:
        assert lake.table(lake.resolve(locator).canonical).to_arrow()["id"].to_pylist() == [1]


def test_a_dotted_name_resolves_to_the_table_before_the_namespace(shop: Lakehouse) -> None:
    shop.create_namespace(NamespaceLocator("shop.orders"))
    assert shop.resolve("shop.orders").kind is Kind.TABLE
    assert shop.resolve("`shop.orders`").kind is Kind.NAMESPACE
    with pytest.raises(NotFoundError, match=r"table shop.missing does not exist"):
        shop.resolve("shop.missing")


def test_where_only_a_table_can_be_named_the_canonical_string_of_another_object_is_refused(shop: Lakehouse) -> None:
    before = shop.version
    for change in (
        lambda name: shop.drop_table(name),
        lambda name: shop.alter_table(name, {"owner": "ana"}),
        lambda name: shop.rename_table(name, "shop.other"),
        lambda name: shop.create_table(name, "id bigint"),
        lambda name: shop.create_alias("shop.other", name),
    ):
        with pytest.raises(InvalidInputError, match="names a table version; expected a table"):
            change("shop|orders|1")
        with pytest.raises(InvalidInputError, match="names a stream; expected a table"):
            change("shop|orders|1|main|deltacat")
    assert shop.version == before
