"""Spark with Iceberg's own JAR as a client: what its makers understand of the tables, the views and the past.

`make test-peers` installs it.
"""

import datetime
from collections.abc import Iterator

import pytest
from tests.rest.conftest import ASCENDING, TOKEN, counted, create_ascending_table, served
from tests.rest.peer_process import ICEBERG_JAR, PeerQuery, Rows, needs_iceberg_spark, peer

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.server.access import Access

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("iceberg-java"),
    needs_iceberg_spark,
]


@pytest.fixture(scope="module")
def java_lake(tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    """A lakehouse whose past is version 3."""
    lake = mangrove.create(tmp_path_factory.mktemp("a folder") / "my lake")
    lake.create_namespace("sales", properties={"owner": "ana"}, description="What was sold")
    orders = lake.create_table(
        "sales.orders",
        "id bigint not null, customer string, amount decimal(10,2), place struct<city: string>",
        keys=["id"],
    )
    orders.append(
        [{"id": number, "customer": f"c{number}", "amount": number, "place": {"city": "x"}} for number in range(100)]
    )
    assert lake.version == 3
    lake.tag("opening")
    orders.upsert([{"id": 5, "customer": "new", "amount": 7, "place": None}])
    orders.delete("id > 90")
    orders.update_schema().add_column("note", "string").commit()
    months = lake.create_table("sales.months", "id bigint, day date", partition_by=["months(day)"])
    months.append([{"id": number, "day": datetime.date(2026, 1 + number % 12, 1)} for number in range(24)])
    create_ascending_table(lake, "sales.clicks")
    lake.create_view("sales.sums", "select customer, count(*) as n, sum(amount) as total from orders group by customer")
    lake.create_view("sales.new_sums", "select n, total from sales.sums where customer = 'new'")
    lake.create_view("sales.unsure", "select count(*) from orders")
    return lake


@pytest.fixture(scope="module")
def ask(java_lake: Lakehouse) -> Iterator[PeerQuery]:
    with (
        served(counted(java_lake), Access("127.0.0.1", TOKEN, is_writable=True)) as address,
        peer("iceberg_spark.py", ICEBERG_JAR, address, TOKEN, "3") as found,
    ):
        yield found


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("show namespaces in lake", [["sales"]]),
        ("select count(*), sum(id), sum(amount) from lake.sales.orders", [["91", "4095", "4097.00"]]),
        ("select customer, place, note from lake.sales.orders where id = 5", [["new", "None", "None"]]),
        ("select place.city from lake.sales.orders where id = 6", [["x"]]),
        ("select id from lake.sales.orders where id = 95", []),
        ("select count(*), min(day) from lake.sales.months where day >= date'2026-06-01'", [["14", "2026-06-01"]]),
        ("select count(*), count(distinct clicked_at), sum(id) from lake.sales.clicks", [ASCENDING]),
        ("select id from lake.sales.clicks where id = 39999", [["39999"]]),
        ("select count(*) from past.sales.orders", [["100"]]),
        ("select customer from past.sales.orders where id = 5", [["c5"]]),
        ("select customer from lake.sales.orders version as of 'opening' where id = 5", [["c5"]]),
        ("select * from lake.sales.sums where customer = 'new'", [["new", "1", "7.00"]]),
        ("select * from lake.sales.new_sums", [["1", "7.00"]]),
        (
            "select operation from lake.sales.orders.snapshots order by committed_at",
            [["append"], ["overwrite"], ["delete"], ["replace"]],
        ),
    ],
)
def test_iceberg_java_reads_the_lakehouse(ask: PeerQuery, query: str, rows: Rows) -> None:
    assert ask(query) == rows


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("select * from lake.sales.unsure", "TABLE_OR_VIEW_NOT_FOUND"),
        ("select * from lake.sales.nobody", "TABLE_OR_VIEW_NOT_FOUND"),
        ("select * from lake.sales.orders version as of 12345", "Cannot find snapshot"),
        ("delete from past.sales.orders where id = 1", "does not support endpoint"),
        ("call lake.system.expire_snapshots('sales.orders')", "GC is disabled"),
        ("call lake.system.remove_orphan_files(table => 'sales.orders')", "GC is disabled"),
        ("drop table lake.sales.orders purge", "GC is disabled"),
        ("create namespace lake.a.b", "one level"),
        ("alter table lake.sales.orders create branch other", "only the branch main"),
    ],
)
def test_requests_of_iceberg_java_for_missing_objects_are_rejected(ask: PeerQuery, query: str, told: str) -> None:
    with pytest.raises(RuntimeError, match=told):
        ask(query)


def test_the_lakehouse_reads_commits_of_iceberg_java(ask: PeerQuery, java_lake: Lakehouse) -> None:
    before = java_lake.version
    statements = [
        "create namespace lake.fresh",
        "create table lake.fresh.t (id bigint not null, s string, day date) using iceberg partitioned by (months(day))",
        "insert into lake.fresh.t values (1, 'a', date'2026-01-01'), (2, 'b', date'2026-02-01'), (3, 'c', null)",
        "update lake.fresh.t set s = 'B' where id = 2",
        "delete from lake.fresh.t where id = 1",
        "merge into lake.fresh.t t using (select 3L as id, 'C' as s union all select 4L, 'd') s on t.id = s.id "
        "when matched then update set s = s.s when not matched then insert (id, s) values (s.id, s.s)",
        "alter table lake.fresh.t add column note string",
        "alter table lake.fresh.t rename column s to text",
        "insert into lake.fresh.t values (5, 'e', date'2026-05-05', 'five')",
        "call lake.system.rewrite_data_files('fresh.t')",
        "create table lake.fresh.copy using iceberg as select id, text from lake.fresh.t",
    ]
    for statement in statements:
        ask(statement)
    rows = sorted(java_lake.table("fresh.t").to_arrow().to_pylist(), key=lambda row: row["id"])
    assert [(row["id"], row["text"], row["note"]) for row in rows] == [
        (2, "B", None), (3, "C", None), (4, "d", None), (5, "e", "five"),
    ]  # fmt: skip
    assert java_lake.table("fresh.copy").to_arrow().num_rows == 4
    assert java_lake.version >= before + len(statements) - 1
    assert ask("select count(*) from lake.fresh.t where text in ('B', 'e')") == [["2"]]
    assert java_lake.maintenance.check().problems == ()


def test_iceberg_java_replaces_partitions_identifies_and_registers_tables(ask: PeerQuery, java_lake: Lakehouse) -> None:
    for statement in (
        "create namespace lake.shapes",
        "create table lake.shapes.t (id bigint not null, s string) using iceberg",
        "insert into lake.shapes.t values (1, 'a')",
        "alter table lake.shapes.t set identifier fields id",
        "alter table lake.shapes.t add partition field s",
        "insert into lake.shapes.t values (2, 'b')",
    ):
        ask(statement)
    shapes = java_lake.table("shapes.t")
    assert (shapes.keys, shapes.partition_by) == (("id",), ("s",))
    assert ask("select id, s from lake.shapes.t order by id") == [["1", "a"], ["2", "b"]]
    ask("create or replace table lake.shapes.t using iceberg partitioned by (part) as select 5 as part, 'x' as v")
    assert (shapes.partition_by, shapes.to_arrow().to_pylist()) == (("part",), [{"part": 5, "v": "x"}])
    address = ask("select file from lake.shapes.t.metadata_log_entries")[-1][0]
    ask("drop table lake.shapes.t")
    ask(f"call lake.system.register_table(table => 'shapes.t', metadata_file => '{address}')")
    assert ask("select * from lake.shapes.t") == [["5", "x"]]
    assert java_lake.maintenance.check().problems == ()


@pytest.mark.parametrize(
    "query",
    [
        "select * from {}.sales.orders order by id",
        "select id from {}.sales.orders where id < 7 and amount >= 5.00 order by id",
        "select id, note from {}.sales.orders where customer = 'new' or note is not null order by id",
        "select id from {}.sales.months where day in (date'2026-02-01', date'2026-03-01') order by id",
        "select count(*) from {}.sales.orders version as of 'opening'",
    ],
)
def test_scans_that_the_server_plans_find_the_same_rows(ask: PeerQuery, query: str) -> None:
    rows = ask(query.format("planned"))
    assert rows
    assert rows == ask(query.format("lake"))
