"""Verbs, statements and the format over Spark Connect, in a process of its own: it speaks to one kind of Spark only.

python connect_verbs.py FOLDER
"""

import os
import sys
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import mangrove
from mangrove.spark.java import find_java_home
from mangrove.spark.registration import attach
from mangrove.sql.session import SqlSession


def main(folder: Path) -> None:
    os.environ["JAVA_HOME"] = str(find_java_home(os.environ))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # The server then takes any free port, so that another may run beside it.
    os.environ["SPARK_TESTING"] = "1"
    builder = SparkSession.builder.remote("local[2]")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    try:
        assert type(session).__module__.startswith("pyspark.sql.connect"), type(session)
        verbs(session, folder)
        statements(folder.with_name("sql"))
        formats(session, folder.with_name("formats"))
        computed_statements(session, folder.with_name("computed"))
    finally:
        session.stop()


def verbs(session: SparkSession, folder: Path) -> None:
    lake = mangrove.create(folder)
    assert lake.spark() is session or type(lake.spark()) is type(session)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint not null, name string", keys=["id"])
    lists = lake.create_table("s.lists", "id bigint, l array<int>", partition_by=["bucket(2, id)"])
    table.append(session.range(0, 100, 1, 2).selectExpr("id", "concat('n', id) as name"))
    lists.append(session.sql("select id, array(int(id)) as l from range(10)"))
    table.upsert(session.sql("select 7L as id, 'new' as name union all select 200L, 'more'"))
    table.delete_keys(session.sql("select 8L as id"))
    assert table.to_spark().count() == 100
    assert table.to_spark(["name"], "id = 7").collect()[0][0] == "new"
    assert lists.to_spark().selectExpr("sum(l[0])").collect()[0][0] == 45
    table.compact(engine="spark")
    assert len(list(table.deltas())) == 1
    assert table.to_arrow().num_rows == table.to_spark().count() == 100
    with pytest.raises(mangrove.InvalidInputError, match="more than once"):
        table.upsert(session.sql("select 1L as id, 'a' as name union all select 1L, 'b'"))
    with pytest.raises(AnalysisException) as raised:
        lake.spark().range(1).writeTo("s.t").append()
    assert "lake.table('s.t')" in raised.value.__notes__[0]
    print("all verbs done")


def statements(folder: Path) -> None:
    session = SqlSession(mangrove.create(folder))
    list(session.script("create namespace s; use s; create table t (id int, name string); begin"))
    session.run("insert into t values (1, 'a'), (2, 'b'), (:id, 'c')", {"id": 3})
    session.run("create view v as select id + 1 as k from t")
    session.run("update t x set name = upper(name) where x.id in (select k from v)")
    session.run("merge into t using (select 1 as id) u on t.id = u.id when matched then delete")
    assert sorted(session.run("select t.id, name from t join v on k = t.id").rows()) == [(3, "C")]
    session.run("commit")
    found = session.run("select count(*) from s.t where id > 2")
    assert (found.rows(), session.in_transaction) == ([(1,)], False)
    with pytest.raises(mangrove.InvalidInputError, match=r"line 2, column 2: column `nope` does not exist"):
        session.run("select id from s.t where\n nope = 1")
    with pytest.raises(mangrove.NotFoundError, match=r"did you mean s.t\?"):
        session.run("select x:a from s.tt")
    print("all statements done")


def formats(session: SparkSession, folder: Path) -> None:
    lake = mangrove.create(folder / "lake")
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint, name string")
    copied = lake.create_table("s.copied", "id bigint, name string")
    # Nobody tells the server of the format: it finds it by itself.
    rows = session.range(3).selectExpr("id", "'x' as name")
    rows.write.format("mangrove").option("lake", lake.uri).mode("append").save("s.t")
    attached = attach(session, lake.uri, "s.t", "attached")
    session.sql(f"INSERT INTO {attached} VALUES (7, 'seven')")
    loaded = session.read.format("mangrove").option("lake", lake.uri).load("s.t")
    assert sorted(row.id for row in loaded.collect()) == [0, 1, 2, 7]
    assert table.to_arrow().num_rows == 4
    stream = session.readStream.format("mangrove").option("lake", lake.uri).load("s.t")
    writer = stream.writeStream.format("mangrove").option("lake", lake.uri).trigger(availableNow=True)
    writer.option("checkpointLocation", str(folder / "checkpoint")).start("s.copied").awaitTermination()
    assert sorted(copied.to_arrow().column("id").to_numpy().tolist()) == [0, 1, 2, 7]
    print("all formats done")


def computed_statements(spark: SparkSession, folder: Path) -> None:
    lake = mangrove.create(folder)
    session = SqlSession(lake)
    list(session.script("create namespace s; use s; create table t (id int, n int); create table u (id int, n int)"))
    # Several inserts behind one FROM are one version.
    session.run("insert into t values (1, 10), (2, 20), (3, 30)")
    before = lake.version
    text = "with c as (select * from t where id > ?) from c insert into t select id + 10, n insert into u select *"
    done = session.run(text, [1])
    assert (lake.version, done.counts and done.counts.inserted) == (before + 1, 4)
    # Moments, names and whole statements may be computed.
    past = "select count(*) from t version as of :v - 1 join t as now using (id)"
    assert session.run(past, {"v": before + 1}).rows() == [(3,)]
    assert session.run("select count(*) from t timestamp as of current_timestamp()").rows() == [(5,)]
    session.run("update identifier(:name) set n = :n where id = 2", {"name": "s.u", "n": 21})
    session.run("execute immediate 'insert into u values (?, ?)' using 1 + 3, 40")
    found = session.run("execute immediate 'select n from ' || :t || ' where id > :id' using 1 as id", {"t": "u"})
    assert sorted(found.rows()) == [(21,), (30,), (40,)]
    # A merge with clauses of all kinds, by names of both sides.
    done = session.run(
        "with extra as (select 9 as id, 90 as n) merge into t using (select * from u union all select * from extra) s "
        "on t.id = s.id when matched and s.n > 25 then delete when matched then update set * "
        "when not matched and n > 50 then insert (id, n) values (id, n + :more) "
        "when not matched by source and t.id > 10 then update set n = default",
        {"more": 1},
    )
    assert sorted(session.run("select * from t").rows(), key=str) == [(1, 10), (12, None), (13, None), (2, 21), (9, 91)]
    # What is kept in memory is never an old version.
    session.run("cache table t")
    lake.table("s.t").append([{"id": 100, "n": 1}])
    assert session.run("select count(*) from t").rows() == [(6,)]
    session.run("uncache table t")
    # An overwrite replaces the partitions that its rows lie in.
    session.run("create table p (day date, v int) partitioned by (months(day))")
    session.run("insert into p values (date'2026-10-05', 1), (date'2026-11-05', 2), (null, 3)")
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        session.run("insert overwrite p values (date'2026-11-30', 20)")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert sorted(session.run("select v from p").rows()) == [(1,), (3,), (20,)]
    print("all computed statements done")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
