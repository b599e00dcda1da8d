"""Statements of Spark's that are about several tables, computed names and texts, memory, and periods of partitions."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import mangrove
from mangrove import InvalidInputError, Lakehouse, NotFoundError
from mangrove.sql.session import SqlSession


@pytest.fixture(scope="module")
def lake(sql_engine: str, tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    return mangrove.create(tmp_path_factory.mktemp("statements") / "lake")


@pytest.fixture
def session(lake: Lakehouse, sql_engine: str) -> Iterator[SqlSession]:
    session = SqlSession(lake, engine=sql_engine)
    yield session
    session.close()


def test_an_empty_lakehouse_lists_no_tables(session: SqlSession) -> None:
    assert session.run("show tables").rows() == []
    assert session.run("show views").rows() == []
    with pytest.raises(NotFoundError, match="namespace nope does not exist"):
        session.run("show tables in nope")


@pytest.mark.needs_spark
def test_a_multi_insert_is_one_version_and_its_inserts_read_the_same_snapshot(
    session: SqlSession, lake: Lakehouse
) -> None:
    list(
        session.script(
            "create namespace f; use f; create table t (id int); create table u (id int, kind string);"
            "insert into t values (1), (2), (3)"
        )
    )
    before = lake.version
    done = session.run(
        "with c as (select id from t where id > :least) from c join t using (id)"
        "  insert into t select id + 10 insert into u select id, 'small' where id < 3 "
        "  insert into u by name select id, 'large' as kind where id >= 3",
        {"least": 1},
    )
    assert lake.version == before + 1
    assert done.counts is not None
    assert done.counts.inserted == 4
    assert sorted(session.run("select id from t").rows()) == [(1,), (2,), (3,), (12,), (13,)]
    assert sorted(session.run("select id, kind from u").rows()) == [(2, "small"), (3, "large")]
    with pytest.raises(InvalidInputError, match=r"'id' of f\.u is int, but the query has string"):
        session.run("from t insert into t select id insert into u select 'x', 'y'")
    assert lake.version == before + 1


@pytest.mark.needs_spark
def test_names_and_whole_statements_may_be_computed(session: SqlSession) -> None:
    list(session.script("create namespace i; use i; create table t (id int, name string)"))
    session.run("insert into identifier(:n) values (:id, 'a')", {"n": "i.t", "id": 1})
    session.run("update identifier('i.' || ?) set name = ? where id = ?", ["t", "b", 1])
    assert session.run("select * from identifier(:n)", {"n": "t"}).rows() == [(1, "b")]
    session.run("execute immediate 'insert into t values (?, ?)' using 1 + 1, 'c'")
    found = session.run("execute immediate 'select name from ' || :n || ' where id = :id' using 2 as id", {"n": "t"})
    assert found.rows() == [("c",)]
    with pytest.raises(InvalidInputError, match=r"column `nope` does not exist"):
        session.run("execute immediate 'select nope from t'")
    with pytest.raises(InvalidInputError, match="expected a string"):
        session.run("delete from identifier(null)")


@pytest.mark.needs_spark
def test_execute_immediate_stores_its_row_in_variables(session: SqlSession, lake: Lakehouse) -> None:
    list(session.script("create namespace v; use v; create table t (id int, name string)"))
    session.run("insert into t values (1, 'a'), (2, 'b')")
    list(session.script("declare or replace variable many bigint; declare or replace variable who string"))
    said = session.run("execute immediate 'select count(*), max(name) from t where id < ?' into many, who using 2")
    assert said.message == "set: many, who"
    assert session.run("select many, who, (select max(id) from t where id <= many)").rows() == [(1, "a", 1)]
    session.run("execute immediate 'select id, name from t where id > 7' into many, session.who")
    assert session.run("select many, who").rows() == [(None, None)]
    before = lake.version
    for text, message in {
        "execute immediate 'select id from t' into many": "More than one row",
        "execute immediate 'select id, name from t where id = 1' into many": "does not match",
        "execute immediate 'select id from t where id = 1' into nothing": "line 1, column 56: .*variable",
        "execute immediate 'delete from t' into many": "INTO requires a query",
    }.items():
        with pytest.raises((InvalidInputError, NotFoundError), match=message):
            session.run(text)
    assert lake.version == before


@pytest.mark.usefixtures("spark")
def test_a_cached_table_is_never_stale(session: SqlSession, lake: Lakehouse) -> None:
    list(session.script("create namespace h; use h; create table t (id int); insert into t values (1), (2)"))
    session.run("cache table t")
    assert "InMemoryTableScan" in session.run("explain select * from t").rows()[0][0]
    lake.table("h.t").append([{"id": 3}])
    assert session.run("select count(*) from t").rows() == [(3,)]
    assert "InMemoryTableScan" not in session.run("explain select * from t").rows()[0][0]
    session.run("refresh table h.t")
    assert "InMemoryTableScan" in session.run("explain select * from t").rows()[0][0]
    assert session.run("uncache table t").message == "removed h.t from the cache"
    assert "InMemoryTableScan" not in session.run("explain select * from t").rows()[0][0]
    session.run("uncache table if exists nope")
    with pytest.raises(NotFoundError, match=r"table or view h\.nope does not exist"):
        session.run("cache table nope")
    session.run("cache table large as select * from t where id > 1")
    assert session.run("select count(*) from large").rows() == [(2,)]
    session.run("uncache table large")
    session.run("drop view large")


def test_an_overwrite_replaces_the_time_partitions_of_its_rows(session: SqlSession, spark: SparkSession) -> None:
    list(
        session.script(
            "create namespace o; use o; create table t (ts timestamp, v int) partitioned by (days(ts));"
            "insert into t values (timestamp'2026-11-01T23:30:00Z', 1), (timestamp'2026-11-02T00:30:00Z', 2),"
            " (timestamp'2026-11-02T23:59:59Z', 3), (null, 4)"
        )
    )
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        done = session.run("insert overwrite t values (timestamp'2026-11-02T12:00:00Z', 20), (null, 40)")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert done.counts is not None
    assert (done.counts.inserted, done.counts.deleted) == (2, 3)
    assert sorted(session.run("select v from t").rows()) == [(1,), (20,), (40,)]


def test_an_unqualified_name_in_a_merge_clause_refers_to_its_only_side(session: SqlSession) -> None:
    list(
        session.script("create namespace q; use q; create table t (id int, n int); insert into t values (1, 1), (2, 2)")
    )
    session.run(
        "merge into t using (select 2 as id, 20 as n union all select 3, 30) as s on t.id = s.id "
        "when matched then update set n = s.n when not matched and n > 5 then insert (id, n) values (id, n + 1) "
        "when not matched by source and n = 1 then update set n = n + 5"
    )
    assert sorted(session.run("select id, n from t").rows()) == [(1, 6), (2, 20), (3, 31)]


def test_the_error_for_duplicate_column_names_names_the_column(session: SqlSession, lake: Lakehouse) -> None:
    list(session.script("create namespace d; create table d.t (a int)"))
    before = lake.version
    with pytest.raises(InvalidInputError, match=r"two columns 'a'|'a' is given twice"):
        session.run("create table d.x as select 1 as a, 2 as a")
    with pytest.raises(InvalidInputError, match=r"two columns 'A'|'A' is given twice"):
        lake.table("d.t").append(session.run("select 1 as a, 2 as A").frame)
    assert lake.version == before


def test_columns_with_dots_and_backticks_can_be_partition_columns_and_keys(session: SqlSession) -> None:
    list(
        session.script(
            "create namespace k; use k; create table t (`b``t` int, `x.y` int primary key, g string)"
            " partitioned by (g); insert into t values (1, 2, 'a'), (3, 4, 'b'); delete from t where `b``t` = 1"
        )
    )
    assert session.run("select `b``t`, `x.y`, g from t").rows() == [(3, 4, "b")]


@pytest.mark.usefixtures("spark")
def test_invalid_checks_and_view_cycles_are_rejected_on_definition(session: SqlSession, lake: Lakehouse) -> None:
    list(
        session.script(
            "create namespace y; use y; create table t (a int, name string, check (regexp_like(name, 'x')));"
            "create view v1 as select a from t; create view v2 as select * from v1"
        )
    )
    before = lake.version
    for text, message in {
        "create table u (a int, check (a > 0 order by 1))": "'check_1'.*a > 0 order by 1.*[Ss]yntax",
        "alter table t add constraint c check (regexp_like(nope, 'x'))": "'c'.*nope",
        "create or replace view v1 as select * from v2": "y.v1 reads itself: y.v1 reads y.v2 reads y.v1",
        "alter view v1 as select * from t where a in (select a from v2)": "y.v1 reads itself",
        "create or replace view v1 as select * from y.v1": "y.v1 reads itself: y.v1 reads y.v1",
    }.items():
        with pytest.raises(InvalidInputError, match=message):
            session.run(text)
    assert lake.version == before
    assert session.run("select * from v2").rows() == []


def test_names_with_any_letters_and_reserved_words_need_no_alias(session: SqlSession) -> None:
    list(session.script("create namespace `ö`; use `ö`; create table `Ü` (`ä` int); create table `left` (id int)"))
    list(session.script("insert into `Ü` values (1), (2); insert into `left` values (2)"))
    assert session.run("select `ö`.`Ü`.`ä` from `ö`.`Ü` join `left` on id = `ä`").rows() == [(2,)]
    session.run("update `Ü` set `ä` = 3 where `ä` in (select id from `left`)")
    assert sorted(session.run("select * from `Ü`").rows()) == [(1,), (3,)]


def test_the_null_partition_can_be_overwritten_separately(session: SqlSession) -> None:
    list(
        session.script(
            "create namespace n; use n; create table t (v int, g string) partitioned by (g);"
            "insert into t values (1, null), (2, 'x'); insert overwrite t partition (g = null) select 10"
        )
    )
    session.run("insert overwrite t partition (g = :g) select v + 1 from t where g is null", {"g": None})
    assert sorted(session.run("select v, g from t").rows()) == [(2, "x"), (11, None)]


@pytest.mark.needs_spark
def test_an_overwrite_of_some_rows_reads_times_in_the_zone_of_the_session(
    session: SqlSession, spark: SparkSession
) -> None:
    list(session.script("create namespace z; use z"))
    rows = "insert into {} values (1, timestamp'2024-01-01T02:00:00Z'), (2, timestamp'2024-01-01T05:00:00Z')"
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        for number, partitions in enumerate(("", " partitioned by (ts)", " partitioned by (days(ts))")):
            session.run(f"create table t{number} (id int, ts timestamp){partitions}")
            session.run(rows.format(f"t{number}"))
            session.run(f"insert overwrite t{number} partition (ts = timestamp'2024-01-01') select 3 where false")
            assert session.run(f"select id from t{number}").rows() == [(1,)]
            session.run(f"insert overwrite t{number} partition (ts = '2023-12-31 21:00:00') select 4")
            assert session.run(f"select id from t{number}").rows() == [(4,)]
            session.run(rows.format(f"t{number}"))
            condition = f"t{number}.ts >= '2024-01-01'"
            session.run(f"insert into t{number} replace where {condition} select 9, timestamp'2024-01-02'")
            assert sorted(session.run(f"select id from t{number}").rows()) == [(1,), (4,), (9,)]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize(
    ("kind", "literal", "stored"),
    [
        ("string", "1", "'1'"),
        pytest.param("float", "0.1", "cast(0.1 as float)", marks=pytest.mark.needs_spark),
        ("decimal(5,2)", "1.5", "1.50"),
        ("char(3)", "'a'", "'a'"),
        ("int", "7", "7"),
    ],
)
def test_a_static_partition_has_the_value_that_its_rows_get(
    session: SqlSession, kind: str, literal: str, stored: str
) -> None:
    namespace = f"sp_{kind.partition('(')[0]}"
    list(session.script(f"create namespace {namespace}; use {namespace}"))
    session.run(f"create table t (v int, p {kind}) partitioned by (p)")
    session.run(f"insert into t values (1, {stored}), (2, null)")
    if kind == "string":
        session.run("insert into t values (3, '01'), (4, '+1'), (5, ' 1'), (6, 'one')")
    session.run(f"insert overwrite t partition (p = {literal}) select 9")
    assert sorted(session.run("select v from t").rows()) == [
        (2,),
        *([(3,), (4,), (5,), (6,)] * (kind == "string")),
        (9,),
    ]


def test_a_partition_exists_only_if_it_has_rows(session: SqlSession) -> None:
    list(session.script("create namespace ex; use ex; create table t (v int, p int) partitioned by (bucket(1, p))"))
    session.run("insert into t values (1, 1), (3, 3)")
    session.run("insert overwrite t partition (p = 2) if not exists select 9")
    session.run("insert overwrite t partition (p = 3) if not exists select 10")
    assert sorted(session.run("select v, p from t").rows()) == [(1, 1), (3, 3), (9, 2)]


@pytest.mark.needs_spark
def test_a_dynamic_overwrite_keeps_partitions_without_new_rows_below_a_static_one(
    session: SqlSession, spark: SparkSession
) -> None:
    list(session.script("create namespace dy; use dy; create table t (v int, d int, p int) partitioned by (d, p)"))
    session.run("insert into t values (1, 1, 1), (2, 1, 2), (3, 2, 1)")
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        session.run("insert overwrite t partition (d = 1) select 9, 1")
        assert sorted(session.run("select * from t").rows()) == [(2, 1, 2), (3, 2, 1), (9, 1, 1)]
        session.run("insert overwrite t partition (d = 1, p = 2) select 4 where false")
        assert sorted(session.run("select * from t").rows()) == [(3, 2, 1), (9, 1, 1)]
        # A value of a column by which the table is not partitioned, or whose partitions have no single values.
        session.run("insert overwrite t partition (v = 9) select 1, 5")
        assert sorted(session.run("select * from t").rows()) == [(3, 2, 1), (9, 1, 5)]
        session.run("create table u (v int, d int, id int) partitioned by (d, bucket(4, id))")
        session.run("insert into u values (1, 1, 1), (2, 1, 2), (3, 2, 1)")
        session.run("insert overwrite u partition (d = 1) select 9, 9")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert sorted(session.run("select * from u").rows()) == [(3, 2, 1), (9, 1, 9)]


def test_a_partition_of_a_period_has_no_value_beside_one_without(session: SqlSession) -> None:
    list(session.script("create namespace pe; use pe"))
    session.run("create table t (v int, ts timestamp, p int) partitioned by (days(ts), p)")
    session.run("insert into t values (1, timestamp'2024-01-01 11:00:00', 1)")
    with pytest.raises(InvalidInputError, match="not partitioned by the values of ts"):
        session.run("insert overwrite t partition (ts = timestamp'2024-01-01 10:00:00', p) select 2, 1")
    with pytest.raises(InvalidInputError, match="PARTITION names a column twice"):
        session.run("insert overwrite t partition (p = 1, P = 2) select 2, timestamp'2024-01-01 10:00:00'")
    assert session.run("select v from t").rows() == [(1,)]


def test_an_error_reports_the_position_of_the_wrong_word(session: SqlSession, lake: Lakehouse) -> None:
    list(session.script("create namespace w; use w; create table t (id int, a int, primary key (id))"))
    session.run("insert into t values (1, 1), (2, 2)")
    before = lake.version
    for text, message in {
        "from t insert into t select id + 9, a insert into w.nope select *": "column 51: table w.nope does not exist; ",
        "update t set id = null": "key column 'id' of w.t to null|column 'id' is not null",
        "update t set a = 1, nope = 1": "column 21: there is no column 'nope'",
        "update t set a = 1, a = 2": "column 21: column 'a' of w.t is set twice",
        "insert into t (id, nope) values (3, 3)": "column 20: there is no column 'nope'",
        "insert into t (id, id) values (3, 3)": "column 20: column 'id' is given twice",
        "insert into t select * from t timestamp as of 'x'": "column 47: invalid timestamp 'x' in TIMESTAMP AS OF",
        "select * from t, changes('w.t')": "column 18: changes takes 2 or 3, but 1 arguments|needs Spark",
        "select * from nope.x": "column 15: .* nope.x does not exist; namespace nope does not exist either",
    }.items():
        with pytest.raises((InvalidInputError, NotFoundError), match=message):
            session.run(text)
    assert lake.version == before


@pytest.mark.needs_spark
def test_the_keyword_default_evaluates_the_default_for_each_row(session: SqlSession) -> None:
    list(
        session.script("create namespace fresh; use fresh; create table t (id string default uuid(), n int default 7)")
    )
    session.run("insert into t values (default, 1), (default, default), ('x', 3)")
    found = session.run("select id, n from t order by n").rows()
    assert [n for _, n in found] == [1, 3, 7]
    assert found[1][0] == "x"
    assert len({name for name, _ in found} - {None}) == 3
