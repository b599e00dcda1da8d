"""Queries on DuckDB: every clause over real tables in each layout, and what needs Spark."""

import datetime
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.s3_server import Fault, S3Server

import mangrove
from mangrove.errors import FormatError, InvalidInputError, NotFoundError, StorageError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.layout_detection import LAYOUTS
from mangrove.sql.session import SqlSession
from mangrove.wiring import LakehouseEngines

DAY = datetime.date(2026, 1, 1)


@pytest.fixture(scope="module", params=LAYOUTS)
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    """Make a lakehouse whose table has renamed and added columns, and deletes of both kinds."""
    lake = mangrove.create(tmp_path_factory.mktemp("duckdb") / "lake", layout=request.param)
    lake.create_namespace("shop")
    orders = lake.create_table("shop.orders", "id int not null, who string, price decimal(10,2), day date", keys=["id"])
    rows = [
        {"id": n, "who": f"w{n % 3}", "price": Decimal(n) / 4, "day": DAY + datetime.timedelta(n)} for n in range(9)
    ]
    orders.append(rows)
    orders.append([{"id": 20, "who": None, "price": None, "day": None}])
    orders.update_schema().rename_column("who", "customer").add_column("note", "string").commit()
    orders.append([{"id": 21, "customer": "w0", "price": Decimal("1.10"), "day": DAY, "note": "new"}])
    orders.delete("id = 3")
    orders.upsert([{"id": 4, "customer": "changed", "price": Decimal("9.99"), "day": DAY, "note": None}])
    lake.create_table("shop.names", "who string, n bigint").append([{"who": "w1", "n": 1}, {"who": "w2", "n": 2}])
    lake.create_view("shop.cheap", "select id, customer from shop.orders where price < 1")
    return lake


@pytest.fixture
def session(lake: Lakehouse) -> Iterator[SqlSession]:
    session = SqlSession(lake, engine="duckdb")
    yield session
    session.close()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select count(*), sum(id), min(day), max(customer) from shop.orders", [(10, 74, DAY, "w2")]),
        ("select id, note from shop.orders where note is not null or customer = 'changed' order by id",
         [(4, None), (21, "new")]),
        ("select customer, count(*) n from shop.orders group by customer order by customer",
         [(None, 1), ("changed", 1), ("w0", 3), ("w1", 2), ("w2", 3)]),
        ("select customer c, sum(price) from shop.orders group by c having sum(price) > 3 order by 2 desc",
         [("changed", Decimal("9.99")), ("w2", Decimal("3.75"))]),
        ("select avg(price), avg(id), sum(price) / 3 from shop.orders where id < 3",
         [(Decimal("0.250000"), 1.0, Decimal("0.250000"))]),
        ("select id from shop.cheap order by id desc limit 2", [(2,), (1,)]),
        ("select o.id, n.n from shop.orders o join shop.names n on o.customer = n.who where o.id < 3 order by 1",
         [(1, 1), (2, 2)]),
        ("select who, n, id from shop.names left join (select id, customer as who from shop.orders where id = 1) "
         "using (who) order by n", [("w1", 1, 1), ("w2", 2, None)]),
        ("select n from shop.names left anti join shop.cheap on customer = who", []),
        ("with t as (select id, id % 2 as odd from shop.orders) select odd, max(id) from t group by odd order by odd",
         [(0, 20), (1, 21)]),
        ("select id from shop.orders o where price = (select max(price) from shop.orders i where i.day = o.day) "
         "and id in (select id from shop.orders where id < 3)", [(1,), (2,)]),
        ("select 1 as a union all select 2 union select 2.5 order by a",
         [(Decimal("1.0"),), (Decimal("2.0"),), (Decimal("2.5"),)]),
        ("select id, row_number() over (partition by customer order by id desc) r from shop.orders "
         "where customer = 'w0' order by id", [(0, 3), (6, 2), (21, 1)]),
        ("select case when id > 5 then 'many' when id > 2 then 'some' end k, count(*) from shop.orders "
         "where id < 9 group by 1 order by 1", [(None, 3), ("many", 3), ("some", 2)]),
        ("select * from values (1, 'a'), (2, null) as v(x, y) order by y", [(2, None), (1, "a")]),
        ("select id from shop.orders where day between '2026-01-02' and date '2026-01-01' + interval 2 days order by 1",
         [(1,), (2,)]),
        ("select -7 div 2, -7 % 2, 7 / 2, 1.10 * 2, cast(2.7 as int), round(2.345, 2), ceil(-1.5)",
         [(-3, -1, 3.5, Decimal("2.20"), 2, Decimal("2.35"), Decimal(-1))]),
        ("select year(day), month(day), dayofweek(day), datediff(day, '2026-01-01') from shop.orders where id = 5",
         [(2026, 1, 3, 5)]),
        ("select upper(who) || '-' || substring(who, 2, 1), length(who), concat(who, null) from shop.names where n = 1",
         [("W1-1", 2, None)]),
        ("select count(*) from shop.orders version as of 3", [(9,)]),
        ("select count(*) from shop.orders for version as of (1 + 2)", [(9,)]),
        ("select distinct id % 3 k from shop.orders order by k desc", [(2,), (1,), (0,)]),
        ("select coalesce(price, 0), nullif(id, 20), if(id = 20, 'x', 'y') from shop.orders where id = 20",
         [(Decimal("0.00"), None, "x")]),
        ("select sum(n) filter (where who = 'w1'), count(distinct who), count_if(n > 1) from shop.names", [(1, 2, 1)]),
        ("select timestamp '2026-01-01 10:00:00' + interval 3 hours as t, hour(timestamp '2026-01-01 10:00:00')",
         [(datetime.datetime(2026, 1, 1, 13, tzinfo=datetime.UTC), 10)]),
    ],
)  # fmt: skip
def test_a_query_has_the_result_that_spark_computes(session: SqlSession, query: str, expected: list[Any]) -> None:
    result = session.run(query)
    assert result.engine is not None
    assert (result.rows(), result.engine.name) == (expected, "duckdb")


@pytest.mark.parametrize(
    ("query", "position"),
    [
        ("select id, transform(array(1), x -> x) from shop.orders", "transform"),
        ("select regexp_replace(customer, 'a', 'b') from shop.orders", "regexp_replace"),
        ("select customer rlike 'a' from shop.orders", "customer"),
        ("select date_format(day, 'EEEE') from shop.orders", "date_format"),
        ("select id from shop.orders where customer = 5", "customer"),
        ("select percentile(id, 0.5) from shop.orders", "percentile"),
        ("select cast(price as binary) from shop.orders", "price"),
        ("select round(cast(id as double), -2) from shop.orders", "round"),
        ("select id from shop.orders tablesample (1 rows)", "id"),
        ("declare variable v int", "declare"),
        ("select id from shop.orders group by id with rollup", "id"),
    ],
)
def test_statements_not_known_to_agree_require_spark(session: SqlSession, query: str, position: str) -> None:
    with pytest.raises(InvalidInputError, match="needs Spark"):
        session.run(query)
    assert position in query


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select nope from shop.orders", "column `nope` does not exist; did you mean"),
        ("select pric from shop.orders", r"column `pric` does not exist; did you mean `price`\?"),
        ("selct 1", r"syntax error near 'selct'; did you mean SELECT\?"),
        ("select 1\nfrom shop.orders where", r"line 2, column 18: cannot parse the query near 'where'"),
        ("select id xor 1 from shop.orders", r"line 1, column 11: cannot parse the query near 'xor'"),
        ("select", "SELECT without columns"),
        (".tables", r"syntax error near '\.'"),
        ("select count(*), id from shop.orders", "neither in GROUP BY nor in an aggregate"),
        ("select id from shop.orders o join shop.orders p on o.id = p.id", "id is ambiguous"),
        ("select id from shop.orders order by 5", "position 5"),
        ("select * from shop.orders where id", "must be boolean"),
        ("select case when null then 1 else 2 end", "must be boolean, but it is NULL"),
    ],
)
def test_an_invalid_query_is_refused_before_it_runs(session: SqlSession, query: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        session.run(query)


def test_a_statement_that_is_no_text_is_refused(lake: Lakehouse) -> None:
    with pytest.raises(InvalidInputError, match="SQL is a text, not int"):
        lake.sql(5, engine="duckdb")  # type: ignore[call-overload]


def test_an_unknown_table_is_reported_with_a_similar_name(session: SqlSession) -> None:
    with pytest.raises(NotFoundError, match=r"did you mean shop\.orders\?"):
        session.run("select * from shop.ordrs")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select 1 / (n - 1) from shop.names", "division by zero"),
        ("select cast(n + 2147483647 as int) from shop.names", "out of range"),
        ("select id from shop.orders where id + 2147483647 > 0", "Overflow in addition"),
        ("select id from shop.orders where -2147483647 - id < 0", "Overflow in subtraction"),
        ("select id from shop.orders where 2147483647 * id > 0", "Overflow in multiplication"),
        ("select upper(concat(who, 'ä')) from shop.names", "needs Spark"),
        ("select cast(who as int) from shop.names", "needs Spark"),
    ],
)
def test_a_value_without_a_result_fails_when_it_is_computed(session: SqlSession, query: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        session.run(query).rows()


def test_arguments_are_named_or_positional(session: SqlSession) -> None:
    assert session.run("select n from shop.names where who = :who", {"who": "w2"}).rows() == [(2,)]
    assert session.run("select ? + n from shop.names where who = ?", [10, "w1"]).rows() == [(11,)]


@pytest.mark.parametrize("operator", ["like", "ilike"])
def test_a_pattern_with_a_backslash_requires_spark(session: SqlSession, operator: str) -> None:
    with pytest.raises(InvalidInputError, match="a LIKE pattern with a backslash needs Spark"):
        session.run(f"select n from shop.names where who {operator} :pattern", {"pattern": "w\\%"})


def test_a_frame_has_an_arrow_schema_batches_and_a_limit(lake: Lakehouse) -> None:
    frame = lake.sql("select id, price, customer as id from shop.orders order by 1", engine="duckdb")
    assert [(one.name, str(one.type)) for one in frame.schema] == [
        ("id", "int32"),
        ("price", "decimal128(10, 2)"),
        ("id", "string"),
    ]
    assert frame.to_arrow(limit=3).num_rows == 3
    assert sum(batch.num_rows for batch in frame.to_batches()) == 10
    assert frame.columns == ["id", "price", "id"]


def test_a_frame_reads_the_version_at_which_it_was_created(tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id int")
    table.append([{"id": 1}])
    frame = lake.sql("select * from s.t", engine="duckdb")
    table.append([{"id": 2}])
    assert frame.collect() == [(1,)]


def test_temporary_views_are_read_before_tables_and_dropped_again(session: SqlSession) -> None:
    session.run("create temporary view orders as select 1 as one")
    assert session.run("select * from orders").rows() == [(1,)]
    session.run("drop view orders")
    with pytest.raises(NotFoundError):
        session.run("select * from orders")


def test_explain_lists_the_files_and_the_plan(session: SqlSession) -> None:
    ((text,),) = session.run("explain select id from shop.orders where id = 1").rows()
    assert "shop.orders:" in text
    assert "read" in text


def test_an_unknown_engine_is_refused(lake: Lakehouse) -> None:
    with pytest.raises(InvalidInputError, match="unknown SQL engine 'duck'; expected duckdb or spark"):
        lake.sql("select 1", engine="duck")


@pytest.mark.parametrize(
    "text",
    ["timestamp '2026-01-02T00:00:00Z'", "timestamp '2026-01-02 01:00:00+01:00'", "'2026-01-01T23:00:00.000-01:00'"],
)
def test_files_are_pruned_by_times_with_an_offset(tmp_path: Path, text: str) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    table = lake.create_table("s.t", "ts timestamp")
    days = [datetime.datetime(2026, 1, day, tzinfo=datetime.UTC) for day in (1, 2)]
    for day in days:
        table.append([{"ts": day}])
    result = SqlSession(lake, engine="duckdb").run(f"select ts from s.t where ts >= {text}")
    assert (result.rows(), list(result.files())) == ([(days[1],)], [("s.t", 1, 1)])
    assert SqlSession(lake, engine="duckdb").run(f"select ts < {text} from s.t order by 1").rows() == [
        (False,),
        (True,),
    ]


ENDLESS = "select count(*) from " + " cross join ".join(f"shop.orders t{number}" for number in range(12))
"""So many rows that nobody waits for them."""


def test_a_read_is_cancelled_from_another_thread(lake: Lakehouse) -> None:
    frame = lake.sql(ENDLESS, engine="duckdb")
    errors: list[Exception] = []

    def read() -> None:
        try:
            frame.collect()
        except InvalidInputError as error:
            errors.append(error)

    reading = threading.Thread(target=read)
    reading.start()
    while reading.is_alive():
        # A query that has not begun is not cancelled.
        frame.cancel()
        reading.join(0.01)
    assert [str(error) for error in errors] == ["the query was cancelled"]
    assert lake.sql("select count(*) from shop.names", engine="duckdb").collect() == [(2,)]


def test_a_cancelled_statement_changes_nothing(lake: Lakehouse) -> None:
    engines, before = lake.engines, lake.version
    assert isinstance(engines, LakehouseEngines)
    errors: list[Exception] = []

    def change() -> None:
        try:
            with engines.cancellable():
                lake.sql(f"create table shop.never as {ENDLESS.replace('count(*)', 'count(*) as n')}", engine="duckdb")
        except InvalidInputError as error:
            errors.append(error)

    changing = threading.Thread(target=change)
    changing.start()
    while changing.is_alive():
        engines.cancel()
        changing.join(0.01)
    assert ["cancelled" in str(error) for error in errors] == [True]
    assert lake.version == before


def _fill_bucket(server: S3Server, files: int, rows: int, **options: str) -> Lakehouse:
    """Create a table with as many files of as many rows."""
    lake = mangrove.create(f"s3://{server.bucket}/lake", storage_options={**server.options, **options})
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint, value double")
    chance = random.Random(7)
    for first in range(0, files * rows, rows):
        table.append(pa.table({"id": range(first, first + rows), "value": [chance.random() for _ in range(rows)]}))
    return lake


def test_duckdb_reads_the_files_of_a_bucket_through_the_store() -> None:
    with S3Server() as server:
        lake = _fill_bucket(server, 3, 150_000)
        query = "select count(*), min(id), max(value) < 1 from s.t where value >= 0 and id > 200000"
        assert "READ_PARQUET" in lake.sql(query, engine="duckdb").explain()
        for _ in range(2):
            before = server.requests["GET"]
            assert lake.sql(query, engine="duckdb").collect() == [(249_999, 200_001, True)]
            # One file is skipped by its statistics, and both columns of another are read at once; footers are cached.
            assert server.requests["GET"] - before <= 4
        small = lake.create_table("s.small", as_=pa.table({"id": range(20_000), "double": range(20_000)}))
        assert len(small.files()) == 1
        before = server.requests["GET"]
        for _ in range(2):
            assert lake.sql("select sum(id), max(double + 1) from s.small", engine="duckdb").collect() == [
                (199_990_000, 20_000)
            ]
        assert server.requests["GET"] - before <= 3


def test_threads_query_a_bucket_at_once() -> None:
    with S3Server() as server:
        lake = _fill_bucket(server, 3, 20_000)
        query = "select count(*), sum(a.id), sum(b.id) from s.t a join s.t b on a.id = b.id + 1 where a.value >= 0"
        expected = lake.sql(query, engine="duckdb").collect()
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: lake.sql(query, engine="duckdb").collect(), range(24)))
        assert found == [expected] * 24


def test_errors_of_a_store_are_reported_by_queries_of_a_bucket() -> None:
    with S3Server() as server:
        lake = _fill_bucket(server, 2, 150_000, retries_max="0")
        query = "select sum(id) from s.t where value >= 0"
        frame = lake.sql(query, engine="duckdb")
        server.fail_next(Fault("GET", "refuse"))
        with pytest.raises(StorageError, match="throttles requests"):
            frame.collect()
        assert frame.collect() == [(44_999_850_000,)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: None, "is missing though a version needs it"),
        (lambda data: data[:-5000], "ends before byte"),
        (lambda data: data[:-40] + bytes(8) + data[-32:], "its footer does not match its checksum"),
    ],
)
def test_damaged_files_of_a_bucket_are_reported(change: Callable[[bytes], bytes | None], message: str) -> None:
    with S3Server() as server:
        lake = _fill_bucket(server, 2, 150_000)
        (key,) = [key for key in server.objects if key.endswith(lake.table("s.t").files()[1].path)]
        data = change(server.objects.pop(key))
        if data is not None:
            server.objects[key] = data
        with pytest.raises(FormatError, match=message):
            lake.sql("select sum(id) from s.t where value >= 0", engine="duckdb").collect()


def test_a_query_of_a_bucket_reads_only_the_columns_and_files_that_it_needs() -> None:
    with S3Server() as server:
        lake = mangrove.create(f"s3://{server.bucket}/lake", storage_options=server.options)
        lake.create_namespace("s")
        table = lake.create_table("s.t", "id int, wide string")
        chance = random.Random(7)
        for first in (0, 100):
            table.append([{"id": first + n, "wide": chance.randbytes(500_000).hex()} for n in range(10)])
        before = server.bytes_sent
        assert lake.sql("select min(id + 1) from s.t where id > 50", engine="duckdb").collect() == [(101,)]
        assert server.bytes_sent - before < 500_000
        assert lake.sql("select max(length(wide)) from s.t where id = 3", engine="duckdb").collect() == [(1_000_000,)]


def test_a_query_of_a_bucket_reads_only_the_row_groups_that_it_needs() -> None:
    with S3Server() as server:
        lake = mangrove.create(f"s3://{server.bucket}/lake", storage_options=server.options)
        lake.create_namespace("s")
        table = lake.create_table("s.t", "id bigint, value double")
        chance = random.Random(7)
        rows = 600_000
        table.append(pa.table({"id": range(rows), "value": [chance.random() for _ in range(rows)]}))
        (file,) = table.files()
        before = server.bytes_sent
        found = lake.sql("select id, value > 0 from s.t where id = 5 or id = 9", engine="duckdb").collect()
        assert found == [(5, True), (9, True)]
        assert server.bytes_sent - before < 0.6 * file.size_bytes
        assert lake.sql("select count(value) from s.t where id <> 5", engine="duckdb").collect() == [(rows - 1,)]
        joined = "select count(*), min(a.id) from s.t a join s.t b on a.id = b.id + 1 where a.id < 10"
        assert lake.sql(joined, engine="duckdb").collect() == [(9, 1)]
