"""Table versions and streams in SQL."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import mangrove
from mangrove import ConflictError, InvalidInputError, Lakehouse, NotFoundError
from mangrove.spark.registration import register
from mangrove.sql.session import SqlSession


@pytest.fixture(scope="module", params=["tree", "deltacat"])
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    lake = mangrove.create(tmp_path_factory.mktemp("sql") / "lake", layout=request.param)
    lake.create_namespace("shop")
    return lake


@pytest.fixture
def session(lake: Lakehouse, sql_engine: str) -> Iterator[SqlSession]:
    for table in list(lake.tables("shop")):
        table.drop()
    lake.create_table("shop.orders", "id bigint, note string", keys=["id"]).append([{"id": 1, "note": "one"}])
    session = SqlSession(lake, engine=sql_engine)
    yield session
    session.close()


def values(session: SqlSession, text: str, arguments: Any = None) -> list[Any]:
    return [row[0] if len(row) == 1 else row for row in session.run(text, arguments).rows()]


def test_a_version_is_loaded_compared_and_activated_with_sql(session: SqlSession) -> None:
    assert values(
        session,
        "call system.create_table_version(table => 'shop.orders', schema => 'note string, id bigint, price int', "
        "keys => 'id', sort_by => 'id, truncate(3, note)')",
    ) == [("shop.orders", 2, "unreleased", False)]
    session.run("insert into shop.orders.version_2 select note, id, 7 from shop.orders")
    session.run("insert into shop.orders.version_2 values ('two', 2, 8)")
    session.run("update shop.orders.version_2 set price = price + 1 where id = 2")
    session.run(
        "merge into shop.orders.version_2 t using (select 3 as id) s on t.id = s.id "
        "when not matched then insert (id, note, price) values (s.id, 'three', 9)"
    )
    session.run("delete from shop.orders.version_2 where shop.orders.version_2.id = 3")
    compared = "select id, price from shop.orders.version_2 order by id"
    assert values(session, compared) == [(1, 7), (2, 9)]
    joined = "select a.id from shop.orders a full join shop.orders.version_2 b on a.id = b.id order by b.id"
    assert values(session, joined) == [1, None]
    assert values(session, "select version_2.price from shop.orders.version_2 where id = 1") == [7]
    session.run("begin")
    session.run("call set_table_version_state('shop.orders', 2, 'active')")
    session.run("call set_table_version_state('shop.orders', 1, 'deprecated')")
    session.run("commit")
    assert values(session, "select count(*) from shop.orders") == [2]
    assert values(session, "select version, state, is_default from table_versions('shop.orders')") == [
        (1, "deprecated", False),
        (2, "active", True),
    ]
    assert values(session, "select note from shop.orders.version_1") == ["one"]
    session.run("call drop_table_version('shop.orders', 1)")
    with pytest.raises(NotFoundError, match=r"no table version 1; it has 2"):
        session.run("select * from shop.orders.version_1")


def test_the_columns_of_a_version_are_altered_and_described(session: SqlSession) -> None:
    session.run("call create_table_version('shop.orders')")
    session.run("alter table shop.orders.version_2 add column extra int")
    assert [row[0] for row in session.run("describe shop.orders.version_2").rows()] == ["id", "note", "extra"]
    assert [row[0] for row in session.run("describe shop.orders").rows()] == ["id", "note"]
    session.run("create view shop.next as select * from shop.orders.version_2")
    assert session.lake.view("shop.next").reads == ("shop.orders",)
    assert values(session, "select count(*) from shop.next") == [0]


def test_streams_and_deltas_are_listed(session: SqlSession) -> None:
    session.run("call create_stream('shop.orders', 'reload')")
    session.lake.table("shop.orders").stream("reload").append([{"id": 9}], author="loader", properties={"a": "b"})
    listed = "select stream_id, state, is_served from streams('shop.orders') where stream_id = 'reload'"
    assert values(session, listed) == [("reload", "staged", False)]
    session.run("call commit_stream('shop.orders', 'reload')")
    assert values(session, listed) == [("reload", "committed", True)]
    assert values(session, "select position, author, properties from deltas('shop.orders')") == [
        (1, "loader", {"a": "b"})
    ]


def test_an_insert_by_name_conflicts_with_an_activation_in_between(session: SqlSession) -> None:
    session.run("call create_table_version('shop.orders')")
    session.run("begin")
    session.run("insert into shop.orders values (5, 'five')")
    session.lake.table("shop.orders", version=2).set_state("active")
    with pytest.raises(ConflictError, match="from 1 to 2"):
        session.run("commit")


def test_other_procedures_are_still_refused_in_a_transaction(session: SqlSession) -> None:
    session.run("begin")
    with pytest.raises(InvalidInputError, match="COMMIT or ROLLBACK first"):
        session.run("call vacuum()")
    session.run("rollback")


@pytest.mark.usefixtures("spark")
def test_spark_reads_the_rows_of_a_version(session: SqlSession) -> None:
    table = session.lake.table("shop.orders").create_version()
    table.append([{"id": 4, "note": "x"}], engine="spark")
    assert [row.id for row in table.to_spark().collect()] == [4]
    table.upsert([{"id": 4, "note": "y"}], engine="spark")
    table.compact(engine="spark")
    assert [row.note for row in table.to_spark().collect()] == ["y"]
    assert session.lake.table("shop.orders").to_spark().count() == 1


def test_the_data_source_reads_and_writes_a_version(session: SqlSession, spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    lake = session.lake
    lake.table("shop.orders").create_version()
    frame = spark.createDataFrame([(5, "five")], "id bigint, note string")
    frame.write.format("mangrove").options(lake=lake.uri, tableVersion=2).mode("append").save("shop.orders")
    read = spark.read.format("mangrove").option("lake", lake.uri).load("shop.orders.version_2")
    assert [row.id for row in read.collect()] == [5]
    assert spark.read.format("mangrove").option("lake", lake.uri).load("shop.orders").count() == 1
    stream = spark.readStream.format("mangrove").option("lake", lake.uri).load("shop.orders.version_2")
    query = stream.writeStream.format("memory").queryName("of_version").trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path)).start().awaitTermination()
    assert [row.id for row in spark.table("of_version").collect()] == [5]


def test_every_part_of_a_table_is_read_by_its_canonical_string_in_backticks(session: SqlSession) -> None:
    lake, table = session.lake, session.lake.table("shop.orders")
    table.append([{"id": 2, "note": "two"}])
    table.create_stream("reload").append([{"id": 9, "note": "staged"}])
    ((partition, _),), ((first, _), _) = table.partitions(), table.deltas()
    assert values(session, "SELECT id FROM `shop|orders` ORDER BY id") == [1, 2]
    assert values(session, "SELECT id FROM `shop|orders|1|reload|deltacat`") == [9]
    assert values(session, f"SELECT id FROM `{lake.resolve(first).canonical}`") == [1]
    joined = f"SELECT count(*) FROM `{lake.resolve(partition).canonical}` a JOIN shop.orders b ON a.id = b.id"
    assert values(session, joined) == [2]
    session.run("INSERT INTO `shop|orders|1|reload|deltacat` VALUES (10, 'more')")
    session.run("DELETE FROM `shop|orders|1|reload|deltacat` WHERE id = 9")
    assert values(session, "SELECT id FROM `shop|orders|1|reload|deltacat`") == [10]
    with pytest.raises(InvalidInputError, match="is read-only"):
        session.run(f"INSERT INTO `{lake.resolve(partition).canonical}` VALUES (3, 'three')")
    with pytest.raises(NotFoundError, match=r"stream shop\|orders\|1\|none\|deltacat does not exist"):
        session.run("SELECT * FROM `shop|orders|1|none|deltacat`")
    assert values(session, "SELECT id FROM shop.orders ORDER BY id") == [1, 2]


def test_versions_streams_partitions_and_deltas_are_changed_by_their_names(session: SqlSession) -> None:
    session.run("call create_table_version('shop.orders', stream_id => 'one', properties => map('owner', 'ana'))")
    session.run("alter table shop.orders.version_2 set tblproperties (note = 'new')")
    assert values(session, "show tblproperties `shop|orders|2`") == [("note", "new"), ("owner", "ana")]
    session.run("insert into shop.orders.version_2 with (author = 'loader', position = 40) values (4, 'four')")
    assert values(session, "select position, author from deltas('shop|orders|2')") == [(40, "loader")]
    session.run("call create_stream('shop|orders|2', 'two')")
    session.run("call commit_stream('shop|orders|2|two|deltacat')")
    session.run("call drop_stream('shop.orders.version_2', 'one')")
    assert values(session, "select stream_id from streams('shop.orders.version_2')") == ["two"]
    session.run("call create_partition('shop.orders.version_2', 'all', '[]')")
    assert values(session, "select partition_id, rows from partitions('shop.orders.version_2')") == [("all", 0)]
    session.run("call set_table_version_state('shop|orders|2', 'beta')")
    session.run("call drop_table_version('shop.orders.version_2')")
    assert values(session, "select version from table_versions('shop.orders')") == [1]


def test_a_table_without_a_schema_is_created_and_its_files_are_read(session: SqlSession) -> None:
    session.run("create table shop.raw ()")
    table = session.lake.table("shop.raw")
    table.add_files({"a.csv": b"id,who\n1,\n2,\n"})
    assert values(session, "select sum(id) from shop.raw") == [3]


@pytest.mark.interop
def test_spark_reads_the_files_of_a_table_without_a_schema(lake: Lakehouse, spark: SparkSession) -> None:
    table = lake.create_table("shop.files", schemaless=True)
    table.add_files({"a.csv": b"id,who\n1,\n2,\n"})
    table.add_files({"b.csv": b"id,who\n"})
    table.add_files({"c.csv": b"id,who\n3,\n"})
    assert sorted(row.id for row in table.to_spark().collect()) == [1, 2, 3], "rows after a file without rows"
    table.drop()
