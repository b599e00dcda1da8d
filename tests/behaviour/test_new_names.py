"""What a new object may be called and how many columns it may have; what exists stays as it is."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from mangrove.effects import Effects
from mangrove.errors import InvalidInputError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.layout_detection import open_layout
from mangrove.lakehouse.opening import open_on_store
from mangrove.metastore import Changes, Isolation
from mangrove.model.locators import Locator, NamespaceLocator, TableLocator, TableVersionLocator, ViewLocator
from mangrove.model.objects import NamespaceEntry, Object, TableVersion, ViewEntry
from mangrove.model.schema import COLUMNS_MAX, Schema, assign_fresh_ids
from mangrove.model.types import Column, Int64, Struct
from mangrove.wiring import LocalEngines

UNSAFE = ["a\x85b", "a\u061cb", "a\u200eb", "a\u202eb", "a\u2028b", "a\u2066b"]
BEYOND = Schema(assign_fresh_ids(Column(0, f"c{number}", Int64()) for number in range(COLUMNS_MAX + 1)))


@pytest.fixture
def shop(lake: Lakehouse) -> Lakehouse:
    lake.create_namespace("shop")
    lake.create_table("shop.orders", "id bigint, place struct<city: string>")
    lake.create_view("shop.daily", "select id from shop.orders", reads=["shop.orders"])
    return lake


CREATED: dict[str, Callable[[Lakehouse, str], object]] = {
    "namespace": lambda lake, name: lake.create_namespace(NamespaceLocator(name)),
    "renamed namespace": lambda lake, name: lake.rename_namespace("shop", NamespaceLocator(name)),
    "table": lambda lake, name: lake.create_table(TableLocator("shop", name), "id bigint"),
    "renamed table": lambda lake, name: lake.rename_table("shop.orders", TableLocator("shop", name)),
    "view": lambda lake, name: lake.create_view(ViewLocator("shop", name), "select 1 as x", reads=[]),
    "renamed view": lambda lake, name: lake.rename_view("shop.daily", ViewLocator("shop", name)),
    "column": lambda lake, name: lake.create_table("shop.new", f"id bigint, `{name}` string"),
    "inner column": lambda lake, name: lake.create_table("shop.new", f"s struct<`{name}`: string>"),
    "added column": lambda lake, name: (
        lake.table("shop.orders").update_schema().add_column(f"`{name}`", "string").commit()
    ),
    "renamed column": lambda lake, name: lake.table("shop.orders").update_schema().rename_column("id", name).commit(),
    "column of an external table": lambda lake, name: lake.create_table(
        "shop.new", f"`{name}` int", table_type="external", table_format="PARQUET", location="s3://other/folder/"
    ),
}


@pytest.mark.parametrize("what", [what for what in CREATED if "column" not in what])
def test_dot_and_dot_dot_are_rejected_as_names(shop: Lakehouse, what: str) -> None:
    before = shop.version
    for name in (".", ".."):
        with pytest.raises(InvalidInputError, match="choose another name"):
            CREATED[what](shop, name)
    assert shop.version == before


@pytest.mark.parametrize("name", [".", ".."])
def test_the_metastore_rejects_dot_and_dot_dot_as_names(lake: Lakehouse, name: str) -> None:
    entry = NamespaceEntry("some-id", name)
    with pytest.raises(InvalidInputError, match="choose another name"):
        lake.metastore.commit(
            lake.metastore.latest(), Changes("dots", puts={NamespaceLocator(name): entry}), Isolation.SNAPSHOT
        )


@pytest.mark.parametrize("what", CREATED)
def test_new_names_hold_no_control_or_bidirectional_character(shop: Lakehouse, what: str) -> None:
    before = shop.version
    for name in UNSAFE:
        with pytest.raises(InvalidInputError, match="control or bidirectional") as refused:
            CREATED[what](shop, name)
        assert str(refused.value).isascii()
    assert shop.version == before


def test_letters_of_right_to_left_scripts_and_joiners_are_names(shop: Lakehouse) -> None:
    shop.create_namespace("שלום")
    shop.create_table("shop.می‌خواهم", "`טקסט` string")


def test_an_existing_object_with_an_unsafe_name_is_read_written_and_renamed(shop: Lakehouse, effects: Effects) -> None:
    name = "a\u202eb"
    unsafe = {
        NamespaceLocator(name): NamespaceEntry("an-id", name),
        ViewLocator("shop", name): ViewEntry("view-id", name, "select 1 as x"),
        **_renamed_column(shop, name),
    }
    _commit_unchecked(effects, unsafe)
    lake = open_on_store(effects, engines=LocalEngines)
    orders = lake.table("shop.orders")
    orders.append([{name: 7, "place": None}])
    assert orders.to_arrow()[name].to_pylist() == [7]
    orders.update_schema().add_column("more", "string").commit()
    orders.update_schema().rename_column(f"`{name}`", "id").commit()
    lake.alter_namespace(NamespaceLocator(name), {"owner": "ana"})
    lake.create_table(TableLocator(name, "safe"), "id bigint")
    lake.rename_namespace(NamespaceLocator(name), "safe")
    lake.rename_view(ViewLocator("shop", name), "shop.safe")


def test_a_new_table_has_no_more_columns_than_the_limit(shop: Lakehouse) -> None:
    before = shop.version
    nested = Schema(assign_fresh_ids([Column(0, "s", Struct(BEYOND.columns[:-1]))]))
    for schema in (BEYOND, nested):
        with pytest.raises(InvalidInputError, match=f"{COLUMNS_MAX + 1} columns, nested ones included"):
            shop.create_table("shop.wide", schema)
    assert shop.version == before
    shop.create_table("shop.wide", Schema(BEYOND.columns[:-1]))
    with pytest.raises(InvalidInputError, match=f"expected at most {COLUMNS_MAX}"):
        shop.table("shop.wide").update_schema().add_column("more", "int").commit()


def test_an_existing_table_wider_than_the_limit_is_read_and_can_lose_columns(shop: Lakehouse, effects: Effects) -> None:
    locator, version = _version_of_orders(shop)
    _commit_unchecked(effects, {locator: replace(version, schema=BEYOND, earlier_schemas=())})
    orders = open_on_store(effects).table("shop.orders")
    assert orders.schema is not None
    assert len(orders.schema.columns) == COLUMNS_MAX + 1
    orders.update_schema().drop_column("c0").commit()
    assert orders.schema.names[0] == "c1"


def _version_of_orders(lake: Lakehouse) -> tuple[TableVersionLocator, TableVersion]:
    snapshot = open_layout(lake.effects).metastore.latest()
    table = snapshot.get(TableLocator("shop", "orders"))
    locator = TableVersionLocator(table.namespace_id, table.id, 1)  # type: ignore[union-attr]
    version = snapshot.get(locator)
    assert isinstance(version, TableVersion)
    return locator, version


def _renamed_column(lake: Lakehouse, name: str) -> dict[Locator, Object]:
    locator, version = _version_of_orders(lake)
    assert version.schema is not None
    first, *others = version.schema.columns
    return {locator: replace(version, schema=replace(version.schema, columns=(replace(first, name=name), *others)))}


def _commit_unchecked(effects: Effects, puts: dict[Locator, Object]) -> None:
    """Commit as a program that knows no such rules."""
    metastore = open_layout(effects).metastore
    metastore.commit(metastore.latest(), Changes(effects.new_id(), puts=puts), Isolation.SNAPSHOT)
