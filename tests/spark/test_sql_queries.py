"""SQL queries on Spark and on DuckDB over the tables and views of a lakehouse."""

import datetime
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import mangrove
from mangrove import InvalidInputError, Lakehouse, NotFoundError
from mangrove.sql.session import SqlSession

NEEDS_SPARK = pytest.mark.needs_spark


@pytest.fixture(scope="module")
def lake(sql_engine: str, tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    """Three versions of orders, one file each, and customers in a namespace with a dot."""
    lake = mangrove.create(tmp_path_factory.mktemp("sql") / "lake")
    lake.create_namespace("sales")
    lake.create_namespace("`a.b`")
    orders = lake.create_table(
        "sales.orders", "id bigint not null, customer string, amount decimal(10,2), ts timestamp"
    )
    for day in (1, 2, 3):
        when = datetime.datetime(2026, 1, day, 12, tzinfo=datetime.UTC)
        orders.append([{"id": day * 10 + n, "customer": f"c{n}", "amount": n, "ts": when} for n in range(3)])
    lake.create_table("`a.b`.customers", "name string, city string").append(
        [{"name": "c0", "city": "Lima"}, {"name": "c1", "city": "Oslo"}]
    )
    lake.create_table("`a.b`.orders", "id bigint").append([{"id": 10}])
    return lake


@pytest.fixture
def session(lake: Lakehouse, sql_engine: str) -> Iterator[SqlSession]:
    session = SqlSession(lake, engine=sql_engine)
    yield session
    session.close()


def values(session: SqlSession, text: str, arguments: Any = None) -> list[Any]:
    """Return the rows of a query; rows of one column as plain values."""
    return [row[0] if len(row) == 1 else row for row in session.run(text, arguments).rows()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select count(*) from sales.orders", [9]),
        ("select orders.id from sales.orders where orders.id < 11", [10]),
        ("select sales.orders.id from sales.orders where sales.orders.id < 11", [10]),
        ("select o.id from `sales`.`orders` as o where o.id < 11", [10]),
        ("select city from `a.b`.customers order by city", ["Lima", "Oslo"]),
        ("select city from sales.orders join `a.b`.customers on customer = name where id = 21", ["Oslo"]),
        ("select sales.orders.id from sales.orders, `a.b`.orders where sales.orders.id = `a.b`.orders.id", [10]),
        ("select a.id from sales.orders a, sales.orders b where a.id = b.id + 20", [30, 31, 32]),
        ("with orders as (select 5 as five) select five from orders", [5]),
        ("with o as (select * from sales.orders) select count(*) from o where id in (select max(id) from o)", [1]),
        ("select max(id) over (partition by customer) from sales.orders where customer = 'c2' limit 1", [32]),
        ("select id from sales.orders o where exists (select 1 from `a.b`.customers where name = o.customer) "
         "and id > 25", [30, 31]),
        ("from sales.orders |> where id > 30 |> select id |> order by id", [31, 32]),
        ("select '{x}' from sales.orders limit 1", ["{x}"]),
        ("select /*+ broadcast(o) */ id from sales.orders o -- a comment; with a semicolon\n where id = 10", [10]),
    ],
)  # fmt: skip
def test_a_query_of_spark_works_on_our_tables(session: SqlSession, text: str, expected: list[Any]) -> None:
    assert sorted(values(session, text)) == expected


def test_parameters_are_named_or_positional(session: SqlSession) -> None:
    assert values(session, "select id from sales.orders where id > :low", {"low": 31}) == [32]
    assert values(session, "select id from sales.orders where id between ? and ?", [12, 20]) in ([12, 20], [20, 12])


@pytest.mark.needs_spark
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select sum(x) from sales.orders, lateral (select amount * 2 as x)", [18]),
        ("select v:b::int from (select parse_json('{\"b\": 7}') as v from sales.orders limit 1)", [7]),
        ("table `a.b`.orders", [10]),
        ("select count(*) from sales.orders tablesample (4 rows)", [4]),
        ("begin declare n int default 30; select count(*) from sales.orders where id >= n; end", [3]),
        ("select c0 from sales.orders pivot (sum(amount) for customer in ('c0', 'c1')) where id = 10", [0]),
    ],
)  # fmt: skip
def test_spark_sql_features_work_on_lakehouse_tables(session: SqlSession, text: str, expected: list[Any]) -> None:
    assert values(session, text) == expected


@pytest.mark.needs_spark
def test_a_parameter_may_be_the_name_of_a_table(session: SqlSession) -> None:
    assert values(session, "select count(*) from identifier(:name)", {"name": "sales.orders"}) == [9]


def test_names_are_looked_up_in_the_session_first_and_then_in_the_namespace_in_use(
    session: SqlSession, spark: SparkSession
) -> None:
    before = spark.catalog.listTables()
    with pytest.raises(NotFoundError, match="did you mean"):
        session.run("select * from orders")
    session.run("use sales")
    assert values(session, "select count(*) from orders") == [9]
    session.run("create temp view orders (number) as select id from sales.orders where id = 10")
    assert values(session, "select number from orders") == [10]
    assert values(session, "select count(*) from sales.orders") == [9]
    session.run("drop view orders")
    assert values(session, "select count(*) from orders") == [9]
    assert spark.catalog.listTables() == before


def test_files_and_tables_can_be_queried_together(session: SqlSession, spark: SparkSession, tmp_path: Path) -> None:
    spark.range(10, 12).write.parquet(str(tmp_path / "ids"))
    text = f"select count(*) from sales.orders join parquet.`{tmp_path / 'ids'}` using (id)"
    assert values(session, text) == [2]


def test_time_travel_applies_to_one_table_or_the_whole_statement(session: SqlSession, lake: Lakehouse) -> None:
    first = next(line.version for line in lake.history() if line.message == "create table sales.orders") + 1
    assert values(session, f"select count(*) from sales.orders version as of {first}") == [3]
    assert values(session, f"select count(*) from sales.orders for version as of {first} as o where o.id > 10") == [2]
    both = f"(select count(*) from sales.orders version as of {first}), (select count(*) from sales.orders)"
    assert values(session, f"select {both}") == [(3, 9)]
    assert values(session, f"select count(*) from sales.orders at lake version {first + 1}") == [6]
    when = lake.at(first).created_at.isoformat()
    assert values(session, f"select count(*) from sales.orders timestamp as of '{when}'") == [3]
    with pytest.raises(NotFoundError, match="line 1, column 15"):
        session.run("select * from `a.b`.customers version as of 2")


def test_explain_rejects_an_invalid_query(session: SqlSession) -> None:
    with pytest.raises(NotFoundError, match=r"line 1, column 23: table or view sales\.nothing does not exist"):
        session.run("explain select * from sales.nothing")


def test_views_are_expanded_with_their_own_namespace_and_time_travel(session: SqlSession, lake: Lakehouse) -> None:
    session.run("use sales")
    session.run("create view large comment 'of one or more' as select * from orders where amount >= 1")
    session.run("create view largest (top) as select max(id) from large")
    assert lake.view("sales.largest").reads == ("sales.large",)
    other = SqlSession(lake, engine=session.engine.name)
    assert values(other, "select top from sales.largest") == [32]
    assert values(other, "select count(*) from sales.large l join sales.orders o on l.id = o.id") == [6]
    before = lake.version
    lake.table("sales.orders").append([{"id": 99, "amount": 5}])
    assert values(other, "select top from sales.largest") == [99]
    assert values(other, f"select top from sales.largest version as of {before}") == [32]
    lake.rollback(before)
    assert [row[0] for row in other.run("show views in sales").rows()] == ["sales", "sales"]
    assert other.run("describe sales.largest").rows() == [("top", "bigint", None)]
    with pytest.raises(InvalidInputError, match="reads itself"):
        session.run("create or replace view large as select 1 as id from largest")
    with pytest.raises(InvalidInputError, match="would read itself"):
        lake.create_view("sales.large", "select 1 as id from largest", or_replace=True)
    lake.create_view("sales.large", "select 1 as id from largest", reads=(), or_replace=True)
    with pytest.raises(InvalidInputError, match="reads itself"):
        session.run("select * from largest")
    session.run("drop view large")
    with pytest.raises(NotFoundError, match=r"cannot read view sales.largest: .*sales\.large|there is no") as it:
        other.run("select * from sales.largest")
    assert str(it.value).count("^") == 1
    session.run("drop view largest")


def test_a_view_cycle_caused_by_a_namespace_rename_is_reported_on_read(session: SqlSession, lake: Lakehouse) -> None:
    for name in ("here", "there"):
        lake.create_namespace(name)
    lake.create_view("here.a", "select * from there.b")
    lake.create_view("there.b", "select * from elsewhere.a")
    lake.rename_namespace("here", "elsewhere")
    circle = r"elsewhere\.a reads there\.b reads elsewhere\.a; drop one of these views"
    for text in ("select * from elsewhere.a", "describe elsewhere.a", "explain select * from elsewhere.a"):
        with pytest.raises(InvalidInputError, match=circle):
            session.run(text)
    session.run("create or replace view there.b as select 1 as one")
    assert values(session, "select * from elsewhere.a") == [1]


def test_deeply_nested_views_are_read_up_to_a_limit(session: SqlSession, lake: Lakehouse) -> None:
    lake.create_namespace("deep")
    with lake.transaction() as transaction:
        for number in range(52):
            read = f"deep.v{number - 1}" if number else "(select 7 as n)"
            transaction.create_view(f"deep.v{number}", f"select * from {read}")
    assert values(session, "select n from deep.v30") == [7]
    with pytest.raises(InvalidInputError, match=r"views are nested more than 50 levels deep: deep\.v51 reads"):
        session.run("select n from deep.v51")


def test_a_tinyint_is_stored_as_a_smallint(session: SqlSession, lake: Lakehouse) -> None:
    session.run("create table sales.small as select cast(-128 as tinyint) as a, cast(1 as smallint) as b")
    session.run("insert into sales.small select cast(127 as tinyint), 300")
    lake.table("sales.small").append(pa.table({"a": pa.array([5], pa.int8()), "b": pa.array([250], pa.uint8())}))
    assert session.run("describe sales.small").rows() == [("a", "smallint", None), ("b", "smallint", None)]
    assert values(session, "select a, b from sales.small order by a") == [(-128, 1), (5, 250), (127, 300)]
    session.run("drop table sales.small")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("select * from sales.orders where id = 10", 1),
        ("select * from sales.orders where ts >= '2026-01-02 00:00:00' and amount > 0", 2),
        ("select * from sales.orders o left join `a.b`.customers on customer = name where o.id > 29", 1),
        ("select * from sales.orders where id = 10 or customer = 'c1'", 3),
        ("select * from sales.orders where id + 1 = 11", 3),
        ("select * from sales.orders where id > 100", 0),
        ("with o as (select id as number, amount from sales.orders) select * from o where number in (10, 32)", 2),
        ("with o as (select * from sales.orders) select * from o x, o y where x.id = 10 and y.id = 11", 1),
        ("select * from (select customer, id from sales.orders union all select name, 0 from `a.b`.customers) "
         "where id = 20", 1),
        ("select * from sales.orders o join `a.b`.orders b on o.id = b.id where b.id = 10", 1),
        ("select * from sales.orders join `a.b`.orders using (id) where id = 10", 1),
        ("select * from (select id, sum(amount) from sales.orders group by id) where id = 20", 1),
        ("select * from sales.orders where cast(ts as date) = '2026-01-02'", 1),
        ("select * from sales.orders where year(ts) = 2025", 0),
        ("select * from sales.orders where ts < date '2025-12-03' + interval 1 month", 2),
        ("select customer as id, count(*) from sales.orders o group by o.id, customer having o.id <=> 10", 1),
        ("select date(ts) as day, sum(amount) as total from sales.orders group by 1 having day = '2026-01-02'", 1),
        pytest.param(
            "from sales.orders |> where id < 12 |> set amount = 2 |> drop ts |> where amount > 1", 1, marks=NEEDS_SPARK
        ),
    ],
)  # fmt: skip
def test_files_without_matching_rows_are_not_opened(session: SqlSession, lake: Lakehouse, text: str, read: int) -> None:
    result = session.run(text)
    assert [entry for entry in result.files() if entry[0] == "sales.orders"] == [("sales.orders", read, 3 - read)]
    without = SqlSession(lake, engine=session.engine.name, prunes=False).run(text)
    assert sorted(result.rows(), key=repr) == sorted(without.rows(), key=repr)


def test_explain_reports_the_number_of_skipped_files(session: SqlSession) -> None:
    plan = values(session, "explain select * from sales.orders where id = 10")[0]
    assert "parquet" in plan.lower()
    assert "sales.orders: 1 read, 2 skipped, by id = 10" in plan


def test_conditions_on_a_view_skip_files_of_the_tables_inside(session: SqlSession, lake: Lakehouse) -> None:
    session.run("create view sales.paid (number, day, amount) as select id, date(ts), amount from sales.orders")
    session.run("create view sales.daily as select day, sum(amount) as total, min(number) as least "
                "from sales.paid where amount > 0 group by day")  # fmt: skip
    try:
        for text, read, condition in (
            ("select * from sales.paid where number between 20 and 22", 1, "(id >= 20 and id <= 22)"),
            ("select total from sales.daily where day = '2026-01-03'", 1, "ts >= "),
            ("select * from sales.daily d join sales.paid p on d.least = p.number where number = :n", 1, "id = 21"),
            ("select * from sales.daily where total > 100", 3, "amount > 0"),
        ):
            arguments = {"n": 21} if ":n" in text else None
            result = session.run(text, arguments)
            assert ("sales.orders", read, 3 - read) in list(result.files()), text
            without = SqlSession(lake, engine=session.engine.name, prunes=False).run(text, arguments)
            assert sorted(result.rows(), key=repr) == sorted(without.rows(), key=repr)
            plan = values(session, f"explain {text}", arguments)[0]
            assert any(f"sales.orders: {read} read" in line and condition in line for line in plan.splitlines()), plan
    finally:
        session.run("drop view sales.daily")
        session.run("drop view sales.paid")


def test_table_functions_describe_tables_and_versions(session: SqlSession, lake: Lakehouse) -> None:
    assert values(session, "select count(*) from history()") == [lake.version + 1]
    assert values(session, "select count(*) from history('`a.b`.customers')") == [2]
    assert values(session, "select type, rows from deltas('sales.orders')") == [("append", 3)] * 3
    assert values(session, "select sum(rows) from files('sales.orders') f where f.kind = 'data'") == [9]
    assert values(session, "select rows from partitions('sales.orders')") == [9]
    first = next(line.version for line in lake.history() if line.message == "create table sales.orders") + 1
    changed = f"select _change_type, count(*) from changes('sales.orders', {first}, {first + 1}) group by 1"
    assert values(session, changed) == [("insert", 3)]
    with pytest.raises(NotFoundError, match="line 1, column 21"):
        session.run("select * from files('sales.nothing')")
    with pytest.raises(NotFoundError, match="line 1, column 39"):
        session.run("select * from changes('sales.orders', 100000)")


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("select 1 +", InvalidInputError, "line 1, column"),
        ("select\n  nope from sales.orders", InvalidInputError, "line 2, column 3: column `nope` does not exist"),
        (
            "select * from sales.ordrs",
            NotFoundError,
            r"column 15: .* sales.ordrs does not exist; did you mean sales.orders\?",
        ),
        ("select * from sale.orders", NotFoundError, r"did you mean (sales|`a.b`).orders\?"),
        pytest.param(
            "select nope(id) from sales.orders",
            NotFoundError,
            "column 8: function `nope` does not exist",
            marks=NEEDS_SPARK,
        ),
        ("select o.id from sales.orders as o\nwhere o.idd = 5", InvalidInputError, "line 2, column 7"),
        ("select 1; select 2", InvalidInputError, "run several as a script"),
        ("select * from sales.orders where id = :x", InvalidInputError, ":x|parameter|`x`"),
    ],
)
def test_an_error_reports_its_position_in_the_statement_text(
    session: SqlSession, text: str, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        session.run(text)


def test_a_script_stops_at_its_first_error_and_names_the_line(session: SqlSession) -> None:
    results = session.script("select 1;\nselect 2;\n select x;\nselect 3")
    assert [(result.line, result.rows()) for result in islice(results, 2)] == [(1, [(1,)]), (2, [(2,)])]
    with pytest.raises(InvalidInputError, match=r"line 3, column 9: column `x` does not exist"):
        next(results)
    assert list(results) == []


def test_sql_is_run_from_the_lakehouse_and_in_a_transaction_of_python(lake: Lakehouse, sql_engine: str) -> None:
    text = "select count(*) as n from sales.orders where id > ?"
    assert lake.sql(text, [29], engine=sql_engine).collect()[0].n == 3
    assert lake.sql("use sales; show tables", engine=sql_engine).collect()[0].tableName == "orders"
    with lake.transaction() as transaction:
        transaction.table("sales.orders").append([{"id": 500}])
        found = transaction.sql("select id from sales.orders where id > 400", engine=sql_engine)
        assert found.collect()[0].id == 500
        transaction.rollback()
    with pytest.raises(InvalidInputError, match="was not committed"):
        lake.sql("begin; create table sales.never (a int)", engine=sql_engine)
    assert [table.name for table in lake.tables("sales")] == ["orders"]
