"""Namespaces, tables and views: made, described, altered, renamed, dropped, listed."""

import gc
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import mangrove
from mangrove.errors import AlreadyExistsError, ConflictError, InvalidInputError, MangroveError, NotFoundError
from mangrove.expressions.schema_text import format_schema, parse_schema
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.model.objects import TableType
from mangrove.model.schema import Schema
from mangrove.storage.counting import CountingStore

SCHEMA = "order_id bigint not null, customer string, amount decimal(10,2), ts timestamp"


@pytest.fixture
def sales(lake: Lakehouse) -> Lakehouse:
    lake.create_namespace("sales", properties={"owner": "ana"})
    lake.create_table("sales.orders", SCHEMA, keys=["order_id"], partition_by=["days(ts)"], sort_by=["customer desc"])
    lake.create_view("sales.daily", "select * from sales.orders", reads=["sales.orders"])
    return lake


def text_of(items: Any) -> list[str]:
    return [str(item) for item in items]


def test_a_namespace_round_trips(lake: Lakehouse, opened_again: Callable[[], Lakehouse]) -> None:
    made = lake.create_namespace("sales", properties={"owner": "ana"}, description="what we sold")
    found = opened_again().namespace("sales")
    assert (found.id, found.name, found.properties, found.description) == (
        made.id,
        "sales",
        {"owner": "ana"},
        "what we sold",
    )
    assert lake.version == 1


def test_a_table_round_trips(sales: Lakehouse, opened_again: Callable[[], Lakehouse]) -> None:
    table = opened_again().table("sales.orders")
    assert str(table) == "sales.orders"
    assert table.table_type is TableType.MANAGED
    assert table.schema == parse_schema(SCHEMA)
    assert table.keys == ("order_id",)
    assert table.partition_by == ("days(ts)",)
    assert table.sort_by == ("customer desc nulls last",)
    assert list(table.partitions()) == []


def test_a_view_with_the_name_of_the_table_that_it_reads_is_refused_because_of_the_name(sales: Lakehouse) -> None:
    for replaces in (False, True):
        with pytest.raises(AlreadyExistsError, match=r"sales\.orders"):
            sales.create_view(
                "sales.orders", "select id from sales.orders", reads=["sales.orders"], or_replace=replaces
            )


def test_a_view_cycle_is_rejected_on_create_and_rename(sales: Lakehouse) -> None:
    sales.create_view("sales.one", "select * from two", reads=["two"])
    sales.create_view("sales.two", "select * from sales.three", reads=["sales.three"])
    before = sales.version
    circle = r"sales\.three would read itself: sales\.three reads sales\.one reads sales\.two reads sales\.three\."
    with pytest.raises(InvalidInputError, match=circle):
        sales.create_view("sales.three", "select * from sales.one", reads=["sales.one", "sales.orders"])
    with pytest.raises(InvalidInputError, match=r"sales\.self reads sales\.self"):
        sales.create_view("sales.self", "select * from self", reads=["self"])
    with pytest.raises(InvalidInputError, match=r"sales\.three reads sales\.two reads sales\.three"):
        sales.rename_view("sales.one", "sales.three")
    with pytest.raises(InvalidInputError, match=r"sales\.daily reads sales\.daily"):
        sales.create_view("sales.daily", "select 1", reads=["sales.daily"], or_replace=True)
    assert sales.version == before
    assert str(sales.rename_view("sales.two", "sales.four")) == "sales.four"
    assert sales.create_view("sales.three", "select * from sales.one", reads=["sales.one"]).reads == ("sales.one",)


def test_concurrent_creations_of_views_that_read_each_other_conflict(sales: Lakehouse) -> None:
    first, second = sales.transaction(), sales.transaction()
    first.create_view("sales.one", "select * from two", reads=["sales.two"])
    second.create_view("sales.two", "select * from one", reads=["sales.one"])
    first.commit()
    with pytest.raises(ConflictError):
        second.commit()


def test_the_dependencies_of_a_view_are_derived_from_its_query() -> None:
    lake = mangrove.create("memory://views")
    lake.create_namespace("s")
    made = lake.create_view("s.v", "with c as (select 1) select * from orders, c join far.`a.b` using (x)")
    assert made.reads == ("s.orders", "far.`a.b`")
    assert lake.create_view("s.w", "select * from", or_replace=True).reads == ()
    assert lake.create_view("s.x", "select * from v", dialect="duckdb").reads == ()
    with pytest.raises(InvalidInputError, match=r"s\.orders reads s\.v reads s\.orders"):
        lake.create_view("s.orders", "select * from v")


def test_a_schema_can_be_given_as_a_dict_of_sql_types(lake: Lakehouse) -> None:
    lake.create_namespace("sales")
    given = {"id": "bigint", "my note": "string not null", "place": "struct<city: string>", "n": "int default 5"}
    table = lake.create_table("sales.orders", schema=given, keys=["id"])
    assert table.schema == parse_schema(
        "id bigint not null, `my note` string not null, place struct<city: string>, n int default 5"
    )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "empty dict"),
        ({"id": int}, "give names and SQL types as text"),
        ({1: "bigint"}, "give names and SQL types as text"),
        ({"id": "bigintt"}, "column 'id' of the schema cannot be read: .*'bigintt'.*one of the types"),
        ({"id": ""}, "column 'id' of the schema cannot be read: .*the end"),
        ({"id": "bigint, x string"}, "column 'id' of the schema cannot be read: .*','"),
        ({"id": "bigint", "ID": "string"}, "ID"),
        ({"": "bigint"}, "column ''"),
    ],
)
def test_an_invalid_schema_dict_is_rejected(lake: Lakehouse, given: object, told: str) -> None:
    lake.create_namespace("sales")
    before = lake.version
    with pytest.raises(InvalidInputError, match=told):
        lake.create_table("sales.orders", schema=given)
    assert lake.version == before


def test_an_arrow_schema_is_accepted(lake: Lakehouse) -> None:
    lake.create_namespace("sales")
    arrow = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("tags", pa.list_(pa.string()))])
    schema = lake.create_table("sales.orders", arrow, keys=["id"]).schema
    assert schema is not None
    assert format_schema(schema) == "id bigint not null, tags array<string>"


def test_key_columns_are_never_null(lake: Lakehouse) -> None:
    lake.create_namespace("sales")
    schema = lake.create_table("sales.orders", "id bigint, name string", keys=["id"]).schema
    assert schema is not None
    assert [column.nullable for column in schema.columns] == [False, True]


def test_a_view_round_trips(sales: Lakehouse, opened_again: Callable[[], Lakehouse]) -> None:
    view = opened_again().view("sales.daily")
    assert (view.sql, view.reads) == ("select * from sales.orders", ("sales.orders",))


def test_a_view_can_be_replaced_and_keeps_its_id(sales: Lakehouse) -> None:
    before = sales.view("sales.daily")
    with pytest.raises(AlreadyExistsError, match=r"view sales\.daily"):
        sales.create_view("sales.daily", "select 1")
    after = sales.create_view("sales.daily", "select 1", or_replace=True)
    assert (after.id, sales.view("sales.daily").sql) == (before.id, "select 1")


@pytest.mark.parametrize("what", ["namespace", "table", "view"])
def test_properties_are_put_and_removed(sales: Lakehouse, what: str) -> None:
    name = {"namespace": "sales", "table": "sales.orders", "view": "sales.daily"}[what]
    look: Callable[[str], Any] = getattr(sales, what)
    look(name).alter({"a": "1", "b": "2"}, description="new words")
    look(name).alter({"b": "3"}, remove=["a"])
    found = look(name)
    assert found.properties.get("b") == "3"
    assert "a" not in found.properties
    assert found.description == "new words"
    with pytest.raises(NotFoundError, match="property 'a' does not exist"):
        look(name).alter(remove=["a"])


def test_altering_nothing_creates_no_version(sales: Lakehouse) -> None:
    before = sales.version
    sales.namespace("sales").alter({"owner": "ana"})
    assert sales.version == before


def test_a_renamed_table_keeps_its_id_and_content(sales: Lakehouse) -> None:
    before = sales.table("sales.orders")
    sales.create_namespace("archive")
    moved = before.rename("archive.orders_2026")
    assert (moved.id, str(moved), moved.schema) == (before.id, "archive.orders_2026", before_schema(sales, before.id))
    with pytest.raises(NotFoundError, match=r"table sales\.orders does not exist"):
        sales.table("sales.orders")
    assert text_of(sales.tables("archive")) == ["archive.orders_2026"]


def before_schema(lake: Lakehouse, table_id: str) -> Schema | None:
    past = lake.at(2).table("sales.orders")
    assert past.id == table_id
    return past.schema


def test_a_renamed_namespace_keeps_its_tables_and_views(
    sales: Lakehouse, opened_again: Callable[[], Lakehouse]
) -> None:
    before = sales.namespace("sales")
    renamed = before.rename("shop")
    assert renamed.id == before.id
    other = opened_again()
    assert text_of(other.namespaces()) == ["shop"]
    assert text_of(other.tables("shop")) == ["shop.orders"]
    assert text_of(other.views("shop")) == ["shop.daily"]
    assert other.table("shop.orders").schema == parse_schema(SCHEMA)
    with pytest.raises(NotFoundError, match="namespace sales does not exist"):
        other.table("sales.orders")


def test_a_renamed_view_can_move(sales: Lakehouse) -> None:
    sales.create_namespace("reports")
    assert str(sales.view("sales.daily").rename("reports.by_day")) == "reports.by_day"
    assert text_of(sales.views("sales")) == []
    assert text_of(sales.views("reports")) == ["reports.by_day"]


def test_the_name_of_a_dropped_table_can_be_reused(sales: Lakehouse) -> None:
    first = sales.table("sales.orders").id
    sales.drop_table("sales.orders")
    assert text_of(sales.tables("sales")) == []
    again = sales.create_table("sales.orders", "id int")
    assert again.id != first
    assert text_of(sales.at(3).tables("sales")) == ["sales.orders"]


def test_a_namespace_with_something_in_it_is_dropped_only_by_cascade(sales: Lakehouse) -> None:
    with pytest.raises(InvalidInputError, match=r"contains table sales\.orders and 1 more.*cascade"):
        sales.drop_namespace("sales")
    assert text_of(sales.tables("sales")) == ["sales.orders"]
    sales.drop_namespace("sales", cascade=True)
    assert text_of(sales.namespaces()) == []
    sales.create_namespace("sales")
    assert text_of(sales.tables("sales")) == []
    assert text_of(sales.views("sales")) == []


def test_dropping_a_missing_object_requires_if_exists(sales: Lakehouse) -> None:
    before = sales.version
    for drop in (sales.drop_table, sales.drop_view):
        with pytest.raises(NotFoundError):
            drop("sales.missing")
        drop("sales.missing", if_exists=True)
    sales.drop_namespace("missing", if_exists=True)
    assert sales.version == before


def test_creating_an_existing_object_requires_if_not_exists(sales: Lakehouse) -> None:
    before = sales.version
    with pytest.raises(AlreadyExistsError, match="namespace sales"):
        sales.create_namespace("sales")
    with pytest.raises(AlreadyExistsError, match=r"table sales\.orders"):
        sales.create_table("sales.orders", "id int")
    assert sales.create_namespace("sales", if_not_exists=True).properties == {"owner": "ana"}
    assert sales.create_table("sales.orders", "id int", if_not_exists=True).keys == ("order_id",)
    assert sales.version == before


def test_a_table_and_a_view_cannot_have_the_same_name(sales: Lakehouse) -> None:
    with pytest.raises(AlreadyExistsError, match=r"table sales\.orders"):
        sales.create_view("sales.orders", "select 1")
    with pytest.raises(AlreadyExistsError, match=r"view sales\.daily"):
        sales.create_table("sales.daily", "id int")
    with pytest.raises(AlreadyExistsError, match=r"view sales\.daily"):
        sales.rename_table("sales.orders", "sales.daily")


def test_listings_accept_a_prefix_and_paging(lake: Lakehouse) -> None:
    lake.create_namespace("sales")
    with lake.transaction() as transaction:
        for number in range(30):
            transaction.create_table(f"sales.t{number:02d}", "id int")
            transaction.create_namespace(f"n{number:02d}")
    assert text_of(lake.tables("sales", "t1", limit=3)) == ["sales.t10", "sales.t11", "sales.t12"]
    assert text_of(lake.tables("sales", "t1", after="t17")) == ["sales.t18", "sales.t19"]
    assert text_of(lake.namespaces("n0", after="n07")) == ["n08", "n09"]
    assert text_of(lake.tables("sales", limit=0)) == []
    assert len(text_of(lake.tables("sales"))) == 30


def test_a_list_of_tables_reads_definitions_page_by_page_when_one_is_used(
    lake: Lakehouse, opened_again: Callable[[], Lakehouse], store: CountingStore
) -> None:
    lake.create_namespace("sales")
    wide = ", ".join(f"column_{number} int" for number in range(40))
    with lake.transaction() as transaction:
        for number in range(20):
            description = f"table {number}: {'long ' * 150}"
            transaction.create_table(f"sales.t{number:02d}", wide, description=description)
    named, described = opened_again(), opened_again()
    before = store.requests
    names = [table.name for table in named.tables("sales")]
    first = store.requests - before
    descriptions = [table.description or "" for table in described.tables("sales")]
    second = store.requests - before - first
    assert names == [f"t{number:02d}" for number in range(20)]
    assert [text.partition(":")[0] for text in descriptions] == [f"table {number}" for number in range(20)]
    assert second.reads == first.reads + 20


def test_a_list_of_tables_leaves_few_values_to_the_garbage_collector(
    lake: Lakehouse, opened_again: Callable[[], Lakehouse]
) -> None:
    tables = 200
    lake.create_namespace("sales")
    with lake.transaction() as transaction:
        for number in range(tables):
            transaction.create_table(f"sales.table_{number:03d}", "id bigint")
    other = opened_again()
    assert len(list(other.tables("sales", limit=None))) == tables  # the nodes are in memory now
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        listed = list(other.tables("sales"))
        values = len(gc.get_objects()) - before
    finally:
        gc.enable()
    # A handle, a locator and, in a DeltaCAT layout, an entry of the index.
    assert (len(listed), listed[-1].name) == (tables, f"table_{tables - 1:03d}")
    assert values < 3.5 * tables


def test_a_transaction_lists_the_tables_of_a_namespace_that_it_renamed(lake: Lakehouse) -> None:
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id bigint", description="what we sold")
    with lake.transaction() as transaction:
        transaction.rename_namespace("sales", "shop")
        transaction.create_table("shop.items", "id bigint", description="what we have")
        listed = {one.name: one.description for one in transaction.tables("shop")}
    assert listed == {"items": "what we have", "orders": "what we sold"}


def test_a_listed_table_is_described_as_of_the_list(lake: Lakehouse) -> None:
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id int", description="before")
    listed = lake.tables("sales")
    with lake.transaction() as transaction:
        transaction.create_table("sales.customers", "id int", description="staged")
        staged = transaction.tables("sales")
        assert [(one.name, one.description) for one in staged] == [("customers", "staged"), ("orders", "before")]
    lake.alter_table("sales.orders", description="after")
    assert [one.description for one in listed] == ["before"]
    assert [one.description for one in lake.tables("sales")] == ["staged", "after"]


def test_names_with_dots_and_of_other_scripts_work(lake: Lakehouse) -> None:
    lake.create_namespace("`a.b`")
    lake.create_table("`a.b`.`表.1`", "id int")
    assert text_of(lake.tables("`a.b`")) == ["`a.b`.`表.1`"]
    assert lake.table("`a.b`.`表.1`").name == "表.1"


def test_the_error_for_a_missing_name_suggests_similar_names(sales: Lakehouse) -> None:
    with pytest.raises(NotFoundError, match=r"did you mean sales\.orders\?"):
        sales.table("sales.order")
    with pytest.raises(NotFoundError, match=r"did you mean sales\?"):
        sales.table("sale.orders")
    with pytest.raises(NotFoundError, match=r"sales\.daily is a view"):
        sales.table("sales.daily")
    with pytest.raises(NotFoundError, match=r"sales\.orders is a table"):
        sales.view("sales.orders")


class OtherCatalog:
    """The client of another catalog, which knows one table."""

    def schema_of(self, table: str) -> Schema:
        assert table == "db.events"
        return parse_schema("event_id bigint, kind string")


def test_an_external_table_has_a_location_and_can_be_dropped(sales: Lakehouse) -> None:
    made = sales.create_table(
        "sales.raw", "id int", table_type="external", table_format="parquet", location="s3://elsewhere/raw/"
    )
    assert (made.table_type, sales.table("sales.raw").location) == (TableType.EXTERNAL, "s3://elsewhere/raw/")
    assert sales.table("sales.raw").schema == parse_schema("id int")
    with pytest.raises(InvalidInputError, match="external: its data is not managed by the lakehouse"):
        made.opened()
    sales.drop_table("sales.raw")
    assert text_of(sales.tables("sales", "raw")) == []


def test_a_federated_table_is_described_by_its_catalogs_client(sales: Lakehouse) -> None:
    where = {"catalog": "warehouse", "table": "db.events"}
    sales.create_table("sales.events", table_type="federated", format_properties=where)
    with pytest.raises(InvalidInputError, match="clients="):
        _ = sales.table("sales.events").schema
    sales.clients = {"warehouse": OtherCatalog()}
    assert sales.table("sales.events").schema == parse_schema("event_id bigint, kind string")
    sales.drop_table("sales.events")
    assert text_of(sales.tables("sales", "events")) == []


BAD: dict[str, Callable[[Lakehouse], object]] = {
    "a name of one part": lambda lake: lake.create_table("orders", "id int"),
    "a name with a space": lambda lake: lake.create_namespace("my sales"),
    "a name that is too long": lambda lake: lake.create_namespace("n" * 101),
    "a namespace of two parts": lambda lake: lake.create_namespace("a.b"),
    "no schema": lambda lake: lake.create_table("sales.x"),
    "a schema that is none": lambda lake: lake.create_table("sales.x", 7),
    "a schema that does not parse": lambda lake: lake.create_table("sales.x", "id bigintt"),
    "a key that is no column": lambda lake: lake.create_table("sales.x", "id int", keys=["no"]),
    "keys as one text that is no column": lambda lake: lake.create_table("sales.x", "id int", keys="id,more"),
    "a partition that is no column": lambda lake: lake.create_table("sales.x", "id int", partition_by=["days(no)"]),
    "a transform that does not fit": lambda lake: lake.create_table("sales.x", "id int", partition_by=["days(id)"]),
    "a managed table elsewhere": lambda lake: lake.create_table("sales.x", "id int", location="s3://b/x"),
    "an external table nowhere": lambda lake: lake.create_table("sales.x", table_type="external", table_format="csv"),
    "an external table at a path": lambda lake: lake.create_table(
        "sales.x", table_type="external", table_format="csv", location="data/x"
    ),
    "a federated table of no catalog": lambda lake: lake.create_table("sales.x", table_type="federated"),
    "a type of table that is none": lambda lake: lake.create_table("sales.x", "id int", table_type="odd"),
    "a namespace that is not there": lambda lake: lake.create_table("nowhere.x", "id int"),
    "a view without a query": lambda lake: lake.create_view("sales.v", "  "),
    "a view that reads no name": lambda lake: lake.create_view("sales.v", "select 1", reads=["a..b"]),
    "a property that is no text": lambda lake: lake.create_namespace("x", properties={"a": 1}),  # type: ignore[dict-item]
    "a rename to a taken name": lambda lake: lake.rename_table("sales.orders", "sales.daily"),
    "a rename into nowhere": lambda lake: lake.rename_table("sales.orders", "nowhere.orders"),
    "a rename of a missing namespace": lambda lake: lake.rename_namespace("nowhere", "x"),
    "a limit below zero": lambda lake: list(lake.tables("sales", limit=-1)),
    "an isolation that is none": lambda lake: lake.transaction("dirty"),
    "a time limit that is none": lambda lake: lake.transaction(time_limit="soon"),
    "a time limit over the lakehouse's": lambda lake: lake.transaction(time_limit="2h"),
    "no attempts": lambda lake: lake.run(lambda _: None, attempts=0),
    "a setting that cannot change": lambda lake: lake.alter(order=7),
    "a time that is none": lambda lake: lake.at("2026-13-01"),
    "an export that is not there": lambda lake: lake.at("year-end"),
    "a version that is not there": lambda lake: lake.at(10**6),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_input_changes_nothing_on_storage(sales: Lakehouse, store: CountingStore, bad: str) -> None:
    before = {entry.path: store.read(entry.path) for entry in store.list()}
    with pytest.raises(MangroveError):
        BAD[bad](sales)
    assert {entry.path: store.read(entry.path) for entry in store.list()} == before
