"""What handles and locators mean: a name, or an id that follows its table through renames and moves."""

import decimal
import math
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mangrove
from mangrove.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.layout_detection import LAYOUTS
from mangrove.lakehouse.table import Table
from mangrove.model.canonical import LocatorById, parse_locator
from mangrove.model.locators import (
    DeltaLocator,
    Locator,
    NamespaceLocator,
    TableLocator,
)
from mangrove.model.values import Value
from mangrove.testing.strategies import names

_NUMBERS = iter(range(10**6))
CREATIONS: dict[str, dict[str, object]] = {
    **{layout: {"layout": layout} for layout in LAYOUTS},
    "tree-strict": {"layout": "tree", "strict": True},
    "compatible": {"compatible_with": "deltacat"},
}
ROW = {"id": 1, "kind": "a|b"}


@pytest.fixture(params=CREATIONS)
def shop(request: pytest.FixtureRequest) -> Lakehouse:
    options = CREATIONS[request.param]
    lake = mangrove.create(f"memory://handles-{request.param}-{next(_NUMBERS)}/", **options)  # type: ignore[arg-type]
    lake.create_namespace("shop")
    lake.create_namespace("archive")
    lake.create_table("shop.orders", "id bigint, kind string", partition_by=["kind"]).append([ROW])
    return lake


def list_locators(table: Table) -> list[Locator]:
    """Return the locators of a table with one delta, from its namespace to the delta."""
    opened = table.opened()
    ((partition, _),), ((delta, _),) = table.partitions(), table.deltas()
    return [table.locator.parent, table.locator, opened.version_locator, opened.stream_locator, partition, delta]


def read_ids(table: Table) -> list[object]:
    return table.to_arrow().sort_by("id")["id"].to_pylist()


def replace_by_another_table(lake: Lakehouse, new_name: str) -> Table:
    """Rename the table, and create another one with its old name and the same stream."""
    stream_id = lake.table("shop.orders").streams()[0].id
    lake.rename_table("shop.orders", new_name)
    return lake.create_table("shop.orders", "id bigint, kind string", partition_by=["kind"], stream_id=stream_id)


# Names and ids.


@pytest.mark.parametrize("new_name", ["shop.old", "archive.orders"])
def test_a_handle_by_ids_follows_its_table_and_never_writes_to_another_of_its_name(
    shop: Lakehouse, new_name: str
) -> None:
    table = shop.table("shop.orders")
    named: list[LocatorById] = [table.identity, table.opened().version_locator, table.opened().stream_locator]
    handles = [shop.table(given) for one in named for given in (one, str(one))]
    other = replace_by_another_table(shop, new_name)
    for number, handle in enumerate(handles, start=2):
        handle.append([{"id": number, "kind": "c"}])
    assert [read_ids(one) for one in (shop.table(new_name), handles[0])] == [[1, 2, 3, 4, 5, 6, 7]] * 2
    assert read_ids(other) == []
    assert all(str(one.opened().locator) == new_name for one in handles)
    assert {str(one.locator) for one in handles} == {new_name}
    assert {str(one).partition(".version")[0] for one in handles} == {new_name}
    assert shop.history(limit=1)[0].message.startswith(f"append to {new_name}")
    shop.drop_table(new_name)
    for handle in handles:
        with pytest.raises(NotFoundError, match=f"the table with the id .*, which was {new_name}, does not exist"):
            handle.append([ROW])
    assert read_ids(other) == []


def test_every_change_through_a_handle_by_ids_changes_the_table_with_the_id(shop: Lakehouse) -> None:
    by_id = shop.table(shop.table("shop.orders").identity)
    other = replace_by_another_table(shop, "archive.orders")
    before = other.value, other.versions()
    by_id.alter({"owner": "ana"}, description="mine")
    by_id.update_schema().add_column("more", "string").commit()
    second = by_id.create_version()
    second.set_state("beta")
    by_id.version(2).create_stream("reload").append([{"id": 9, "kind": "c", "more": "x"}])
    by_id.create_partition(("d",), "named")
    assert [one.state for one in by_id.versions()] == ["active", "beta"]
    by_id.drop_version(2)
    assert len(by_id.history()) >= 5
    assert by_id.streams() == shop.table("archive.orders").streams()
    assert (shop.table("archive.orders").description, by_id.partition_by) == ("mine", ("kind",))
    again = shop.table("shop.orders")
    assert (again.value, again.versions()) == before
    by_id.rename("archive.sales")
    assert (str(by_id), by_id.name) == ("archive.sales", "sales")
    by_id.drop()
    assert [str(one) for name in ("archive", "shop") for one in shop.tables(name)] == ["shop.orders"]


def test_a_handle_by_name_means_the_name_and_follows_only_its_own_rename(shop: Lakehouse) -> None:
    table, bystander = shop.table("shop.orders"), shop.table("shop.orders")
    assert str(table.rename("archive.sales")) == str(table) == "archive.sales"
    assert (read_ids(table), table.name, table.value.name) == ([1], "sales", "sales")
    with pytest.raises(NotFoundError, match=r"shop\.orders does not exist"):
        bystander.to_arrow()
    made = shop.create_table("shop.orders", "id bigint, kind string")
    bystander.append([{"id": 7, "kind": "x"}])
    assert (read_ids(made), read_ids(table)) == ([7], [1])
    space = shop.namespace("shop")
    assert str(space.rename("market")) == str(space) == "market"
    assert [one.name for one in space.tables()] == ["orders"]


def test_a_view_follows_its_own_rename(shop: Lakehouse) -> None:
    if shop.settings.is_readable_by_deltacat:
        return  # it has no views
    view = shop.create_view("shop.all", "select * from shop.orders", reads=["shop.orders"])
    assert str(view.rename("archive.every")) == str(view) == "archive.every"
    view.alter(description="all")
    assert shop.view("archive.every").description == "all"


def test_a_transaction_finds_a_table_by_ids_under_the_name_that_it_gave_it(shop: Lakehouse) -> None:
    stream = shop.table("shop.orders").opened().stream_locator
    with shop.transaction() as transaction:
        handle = transaction.table(stream)
        transaction.rename_table("shop.orders", "archive.orders")
        transaction.create_table("shop.orders", "id bigint, kind string", stream_id=stream.stream_id)
        handle.append([{"id": 2, "kind": "b"}])
        transaction.table(stream).append([{"id": 3, "kind": "b"}])
        assert transaction.resolve(stream).canonical.startswith("archive|orders|1|")
    assert read_ids(shop.table("archive.orders")) == [1, 2, 3]
    assert read_ids(shop.table("shop.orders")) == []


def test_a_state_set_through_a_name_that_became_an_alias_changes_its_table(tmp_path: Path) -> None:
    for layout in ("tree", "deltacat"):
        lake = mangrove.create(tmp_path / layout, layout=layout)
        lake.create_namespace("shop")
        table = lake.create_table("shop.orders", "id bigint")
        lake.rename_table("shop.orders", "shop.sales")
        lake.create_alias("shop.orders", "shop.sales")
        table.create_version().set_state("active")
        table.drop_version(1)
        assert [one.name for one in lake.tables("shop")] == ["sales"]
        assert [one.version for one in lake.table("shop.sales").versions()] == [2]


def test_a_handle_by_ids_is_pickled_with_its_id(tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("shop")
    table = lake.create_table("shop.orders", "id bigint")
    lake.create_alias("store", "shop")
    sent, space = pickle.dumps(lake.table(table.identity)), pickle.dumps(lake.namespace("store"))
    table.rename("shop.sales")
    lake.create_table("shop.orders", "id bigint")
    pickle.loads(sent).append([{"id": 1}])
    assert read_ids(table) == [1]
    lake.rename_namespace("shop", "market")
    assert str(pickle.loads(space)) == "market"


# Locators.


@pytest.mark.parametrize("new_name", ["shop.old", "archive.orders"])
def test_the_locators_of_a_renamed_or_moved_table_and_their_strings_are_found(shop: Lakehouse, new_name: str) -> None:
    locators = list_locators(shop.table("shop.orders"))[2:]
    replace_by_another_table(shop, new_name)
    space, name = new_name.split(".")
    for locator in locators:
        for given_name in (locator, str(locator)):
            found = shop.resolve(given_name)
            assert found.canonical.startswith(f"{space}|{name}|1")
            assert found.kind is locator.kind
            assert shop.resolve(found.locator) == shop.resolve(found.canonical) == found
            assert read_ids(shop.table(given_name)) == [1]


def test_printed_locators_are_complete_and_are_parsed_and_resolved_to_equal_ones(shop: Lakehouse) -> None:
    table = shop.table("shop.orders")
    ids = f"|{table.value.namespace_id}|{table.id}"
    stream = f"{ids}|1|{table.streams()[0].id}|deltacat"
    ((partition, _),) = table.partitions()
    values = f'{stream}|{partition.partition_id}|["a\\u007cb"]'
    printed = [str(one) for one in list_locators(table)]
    assert printed == ["shop", "shop.orders", f"{ids}|1", stream, values, f"{values}|1"]
    for locator, text in zip(list_locators(table), printed, strict=True):
        assert parse_locator(text) == locator
        assert str(parse_locator(text)) == text
        resolved = shop.resolve(text)
        assert (resolved.locator, str(resolved.locator)) == (locator, text)
        assert shop.resolve(resolved.canonical) == resolved
    assert shop.resolve(str(table.identity)).locator == table.locator
    assert [str(one.locator) for one in table.partition_stats()] == [values]
    with shop.transaction() as transaction:
        added = transaction.add_delta("shop.orders", ("a|b",), replace(table.deltas()[0][1], position=None))
        assert str(added) == f"{values}|2"


def test_a_locator_with_another_format_or_other_values_is_not_found(shop: Lakehouse) -> None:
    ((delta, _),) = shop.table("shop.orders").deltas()
    wrong: list[tuple[Locator | str, str]] = [
        (replace(delta, format="iceberg"), "the stream has the format 'deltacat'"),
        (replace(delta, partition_values=("c",)), "the partition has the values"),
        (replace(delta, position=9), "delta .* does not exist"),
        (str(delta).replace("|deltacat|", "|iceberg|"), "the stream has the format 'deltacat'"),
        (replace(delta, table_id="none"), "the table with the id none does not exist"),
    ]
    for given_name, message in wrong:
        with pytest.raises(NotFoundError, match=message):
            shop.resolve(given_name)
        with pytest.raises(NotFoundError, match=message):
            shop.table(given_name)
    key = DeltaLocator(*delta.parts)  # type: ignore[arg-type]
    assert str(key) == str(delta).replace("|deltacat|", "||").replace('["a\\u007cb"]', "")
    assert str(shop.resolve(str(key)).locator) == str(delta)


def test_a_table_is_named_by_its_ids_wherever_it_can_be_named(shop: Lakehouse) -> None:
    table = shop.table("shop.orders")
    text = str(table.identity)
    assert all(one in shop and str(one) in shop for one in [table.identity, *list_locators(table)])
    assert shop.alter_table(text, {"owner": "ana"}).properties == {"owner": "ana"}
    assert str(shop.rename_table(table.identity, "shop.sales")) == "shop.sales"
    with shop.transaction() as transaction:
        opened = transaction.table(text).opened()
        transaction.put_table_version(text, replace(opened.version, description="x"), stops_writers=False)
    shop.drop_table(text)
    shop.drop_table(text, if_exists=True)
    with pytest.raises(NotFoundError, match="the table with the id"):
        shop.drop_table(text)
    with pytest.raises(InvalidInputError, match="contains ids; expected the name of a table"):
        shop.create_table(text, "id bigint")
    assert text not in shop
    assert table.identity not in shop


@given(space=names(), name=names(), value=st.text(max_size=5).filter(lambda text: text.isprintable()))
def test_locators_of_all_kinds_round_trip_with_awkward_names_and_values(space: str, name: str, value: str) -> None:
    lake = mangrove.create(f"memory://handles-{next(_NUMBERS)}/")
    lake.create_namespace(NamespaceLocator(space))
    table = lake.create_table(TableLocator(space, name), "id bigint, kind string", partition_by=["kind"])
    table.append([{"id": 1, "kind": value}])
    for locator in list_locators(table):
        found = lake.resolve(str(locator))
        assert (parse_locator(str(locator)), found.locator) == (locator, locator)
        assert lake.resolve(found.canonical).locator == locator


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_handle_by_an_alias_follows_its_table_through_renames(layout: str) -> None:
    lake = mangrove.create(f"memory://handles-alias-{next(_NUMBERS)}/", layout=layout)
    lake.create_namespace("shop")
    lake.create_namespace("archive")
    lake.create_table("shop.orders", "id bigint not null", keys=["id"]).append([{"id": 1}])
    lake.create_alias("shop.bought", "shop.orders")
    lake.create_alias("store", "shop")
    handles = [lake.table(name) for name in ("shop.bought", "shop.bought.version_1", "shop|bought|1", "store.orders")]
    lake.rename_table("shop.orders", "archive.sales")
    other = lake.create_table("shop.orders", "id bigint not null", keys=["id"])
    for number, handle in enumerate(handles, start=2):
        handle.append([{"id": number}])
    with lake.transaction() as transaction:
        handle = transaction.table("shop.bought")
        transaction.rename_table("archive.sales", "shop.sales")
        handle.append([{"id": 6}])
    assert (read_ids(lake.table("shop.sales")), other.count()) == ([1, 2, 3, 4, 5, 6], 0)


def test_a_namespace_and_its_views_that_an_alias_names_are_followed_through_renames(shop: Lakehouse) -> None:
    shop.create_alias("store", "shop")
    space, listed = shop.namespace("store"), shop.namespace("store")
    view = None
    if not shop.settings.is_readable_by_deltacat:
        shop.create_view("shop.every", "select * from shop.orders", reads=["shop.orders"])
        view = shop.view("store.every")
    shop.rename_namespace("shop", "market")
    shop.create_namespace("shop")
    if view is not None:
        shop.create_view("shop.every", "select 1", reads=[])
        assert (str(view.alter(description="mine")), str(view)) == ("market.every", "market.every")
        assert shop.view("shop.every").description is None
        view.drop()
        assert [one.name for one in shop.views("market")] == []
    assert (str(space), space.name, str(space.locator), repr(space)) == ("market",) * 3 + ("<namespace market>",)
    assert [str(one) for one in listed.tables()] == ["market.orders"]
    orders = listed["orders"]
    assert str(space.alter({"owner": "ana"})) == "market"
    assert (shop.namespace("shop").properties, shop.namespace("market").properties) == ({}, {"owner": "ana"})
    with shop.transaction() as transaction:
        inside = transaction.namespace("store")
        transaction.rename_namespace("market", "bazaar")
        transaction.create_namespace("market")
        assert (str(inside), [one.name for one in inside.tables()]) == ("bazaar", ["orders"])
    assert (read_ids(orders), str(orders)) == ([1], "bazaar.orders")
    assert str(space.rename("mall")) == str(space) == "mall"
    assert listed.aliases == ("store",)
    space.drop(cascade=True)
    assert [one.name for one in shop.namespaces()] == ["archive", "market", "shop"]
    with pytest.raises(NotFoundError, match=r"the namespace with the id .*, which was mall, was dropped"):
        listed.tables()
    assert str(listed) == "mall"


def test_the_changes_of_a_renamed_table_include_those_under_its_old_name(shop: Lakehouse) -> None:
    before = shop.version
    shop.table("shop.orders").append([{"id": 2, "kind": "c"}])
    shop.rename_table("shop.orders", "archive.orders")
    assert shop.table("archive.orders").changes(before)["id"].to_pylist() == [2]


def test_an_author_is_a_name(shop: Lakehouse) -> None:
    author: object = 5
    with pytest.raises(InvalidInputError, match="invalid author 5"):
        shop.table("shop.orders").append([ROW], author=author)  # type: ignore[arg-type]


def test_a_table_version_without_the_column_of_an_inherited_check_is_refused(shop: Lakehouse) -> None:
    table = shop.create_table("shop.prices", "id bigint not null, price int", keys=["id"], checks={"pos": "price > 0"})
    version = shop.version
    with pytest.raises(NotFoundError, match=r"the check 'pos'.* there is no column 'price'"):
        table.create_version("id bigint not null", keys=["id"])
    assert (shop.version, len(table.versions())) == (version, 1)
    assert table.create_version("id bigint not null, price bigint", keys=["id"]).checks == {"pos": "price > 0"}


def test_a_delete_by_keys_ignores_the_other_columns_of_its_rows(shop: Lakehouse) -> None:
    table = shop.create_table("shop.prices", "id bigint not null, price int", keys=["id"])
    table.append([{"id": 1}, {"id": 2}])
    table.delete_keys([{"id": 1, "price": None}])
    assert read_ids(table) == [2]
    with pytest.raises(InvalidInputError, match="'other' is not in the table"):
        table.delete_keys([{"id": 2, "other": 1}])


# Chosen ids and messages.


def test_a_partition_has_only_values_that_rows_can_have_and_messages_name_sql_types(shop: Lakehouse) -> None:
    columns = "k smallint, id bigint, n string, d decimal(4,2), c varchar(2)"
    table = shop.create_table("shop.parts", columns, partition_by=["k", "bucket(4, id)", "truncate(2, n)", "d", "c"])
    possible: tuple[Value, ...] = (1, 3, "ab", decimal.Decimal("12.5"), "xy")
    impossible: dict[int, Value] = {0: 40_000, 1: 4, 2: "abc", 3: decimal.Decimal(100), 4: "xyz"}
    for place, value in impossible.items():
        values = (*possible[:place], value, *possible[place + 1 :])
        with pytest.raises(InvalidInputError, match=r"no row of shop\.parts has the value"):
            table.create_partition(values, "one")
    with pytest.raises(InvalidInputError, match="'x' is not a valid value of the partition field k of type smallint"):
        table.create_partition(("x", *possible[1:]), "one")
    table.create_partition(possible, "one")
    with pytest.raises(AlreadyExistsError, match="a partition with the id 'one' already"):
        table.create_partition((2, *possible[1:]), "one")
    with pytest.raises(AlreadyExistsError, match=r"with the values \[1,3,.*\] already, 'one'"):
        table.create_partition(possible, "two")


def test_changes_by_key_have_the_chosen_position_author_and_properties(shop: Lakehouse) -> None:
    table = shop.create_table("shop.prices", "id bigint not null, price int", keys=["id"])
    table.append([{"id": 1, "price": 1}, {"id": 2, "price": 2}], position=10)
    table.upsert([{"id": 1, "price": 3}], position=20, author="ana", properties={"source": "x"})
    assert describe_last_delta(table) == (20, "ana", {"source": "x"})
    table.delete_keys([{"id": 2}], position=30, author="ben", properties={"source": "y"})
    assert describe_last_delta(table) == (30, "ben", {"source": "y"})
    assert table.to_arrow().to_pylist() == [{"id": 1, "price": 3}]
    with pytest.raises(AlreadyExistsError, match="stream position 30 is not free"):
        table.upsert([{"id": 1, "price": 4}], position=30)
    assert not shop.maintenance.check().problems


def describe_last_delta(table: Table) -> tuple[object, ...]:
    *_, (locator, delta) = table.deltas()
    return locator.position, delta.author and delta.author.name, dict(delta.properties)


def test_a_table_whose_partition_fields_are_no_keys_has_one_partition(shop: Lakehouse) -> None:
    table = shop.create_table("shop.keyed", "id bigint not null, k string", keys=["id"], partition_by=["k"])
    seventh = table.create_version(version=7)
    message = r"shop\.keyed\.version_7 has one partition, without fields: fields that are not keys only separate data"
    with pytest.raises(InvalidInputError, match=message):
        seventh.create_partition(("a",), "one")
    assert seventh.create_partition((), "one").partition_id == "one"


def test_messages_about_objects_that_do_not_exist_name_the_object_and_what_is_missing(shop: Lakehouse) -> None:
    table = shop.table("shop.orders")
    ((delta, _),) = table.deltas()
    table.create_version(state="active")
    table.drop_version(1)
    with pytest.raises(NotFoundError, match=r"^delta .* does not exist: its table version 1 does not exist"):
        shop.resolve(delta)
    with pytest.raises(InvalidInputError, match="expected a whole number from 1 to 9223372036854775807"):
        shop.resolve("shop|orders|99999999999999999999")
    with pytest.raises(NotFoundError, match=r"there is no column 'nope': there are id, kind$"):
        table.create_version(keys=["nope"])
    table.version(2).set_state("deleted")
    with pytest.raises(InvalidInputError, match=r"versions: 2 \(deleted\)\. Activate one as in `[^`]*`$"):
        table.to_arrow()
    raw = shop.create_table("shop.raw", schemaless=True)
    with pytest.raises(InvalidInputError, match="a file has an empty name"):
        raw.add_files({"": b"x"})
    with pytest.raises(InvalidInputError, match=r"shop\.raw has no schema and no files"):
        shop.sql("select * from shop.raw", engine="duckdb")


def test_an_overwrite_of_the_partition_of_nan_replaces_its_rows(shop: Lakehouse) -> None:
    table = shop.create_table("shop.floats", "id bigint, v double", partition_by=["v"])
    table.append([{"id": 1, "v": math.nan}, {"id": 2, "v": None}, {"id": 3, "v": 1.5}])
    table.overwrite_partitions([{"id": 4, "v": math.nan}])
    assert read_ids(table) == [3, 4]


def test_the_create_statement_of_a_table_version_names_its_number(shop: Lakehouse) -> None:
    table = shop.table("shop.orders")
    table.create_version("id bigint, more string", partition_by=[], version=7)
    (text,) = shop.sql("show create table shop.orders.version_7", engine="duckdb").to_arrow()[0].to_pylist()
    assert text is not None
    assert "OPTIONS (version = 7)" in text
    shop.sql(text.replace("orders", "copies"), engine="duckdb")
    (copied,) = shop.table("shop.copies").versions()
    assert (copied.version, copied.schema) == (7, table.versions()[1].schema)
