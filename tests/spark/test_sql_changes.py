"""Rows changed in SQL, compared with DuckDB where it has the statement, and transactions over several of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import mangrove
from mangrove import ConflictError, InvalidInputError, Lakehouse, NotFoundError
from mangrove.sql.session import SqlSession
from mangrove.tables.write_plan import RowCounts

# Each is run here and in DuckDB, one after the other, on the same rows.
STATEMENTS = [
    "insert into s.t values (1, 'a', 10), (2, 'b', null), (3, null, 30), (3, null, 30), (4, 'd', 40)",
    "update s.t set n = n + 1 where name in ('a', 'b') or id = 4",
    # A subquery of the table itself sees it as it was before.
    "update s.t set n = (select max(n) from s.t) where n is null",
    # A null in the list of NOT IN: nothing is known to be outside of it.
    "delete from s.t where id not in (select id from s.u)",
    "delete from s.t as x where exists (select 1 from s.t as y where y.n > x.n and y.id = x.id + 1 and x.id > 2)",
    # Duplicates of the table are matched one by one; null equals nothing.
    "merge into s.t using s.u on t.name = u.name when matched and u.n is null then delete "
    "when matched then update set n = u.n, id = u.id * 10 when not matched then insert (id, name) values (0, u.name)",
    "merge into s.t as a using (select 0 as id, 5 as n union all select 77, 6) as b on a.id = b.id "
    "when matched and a.n > 0 then update set n = 0 when matched then delete when not matched then insert values "
    "(b.id, 'new', b.n)",
    "insert into s.t (n, id) select id, n from s.t where id > 3",
]


@pytest.fixture(scope="module")
def lake(sql_engine: str, tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    return mangrove.create(tmp_path_factory.mktemp("sql") / "lake")


@pytest.fixture
def session(lake: Lakehouse, sql_engine: str) -> Iterator[SqlSession]:
    session = SqlSession(lake, engine=sql_engine)
    yield session
    session.close()


def rows(found: list[Any]) -> list[str]:
    return sorted(repr(tuple(row)) for row in found)


def test_row_changes_have_the_same_rows_and_counts_as_in_duckdb(session: SqlSession) -> None:
    peer = duckdb.connect()
    definition = "create table s.t (id int, name {0}, n int)"
    peer.execute(f"create schema s; {definition.format('varchar')}; create table s.u (id int, name varchar, n int)")
    list(
        session.script(
            f"create namespace s; {definition.format('string')}; create table s.u (id int, name string, n int)"
        )
    )
    source = "insert into s.u values (1, 'a', 100), (null, 'b', null), (9, 'z', 9), (8, null, 8)"
    peer.execute(source)
    session.run(source)
    for statement in STATEMENTS:
        # DuckDB knows only INSERT * and lists; it calls all columns in order where Spark wants their names.
        ours = statement.replace("insert values (b.id", "insert (id, name, n) values (b.id")
        counts = session.run(ours).counts
        assert counts is not None
        (expected,) = peer.execute(statement).fetchone() or (None,)
        assert (counts.inserted or 0) + (counts.updated or 0) + (counts.deleted or 0) + counts.upserted == expected, (
            statement
        )
        found = session.run("select id, name, n from s.t").rows()
        assert rows(found) == rows(peer.execute("select id, name, n from s.t").fetchall()), statement


def test_writing_to_an_external_table_is_rejected(session: SqlSession) -> None:
    list(session.script("create namespace ext; create external table ext.x (a int) using csv location 's3://b/x/'"))
    with pytest.raises(InvalidInputError, match="cannot be written to"):
        session.run("truncate table ext.x")


def test_a_rejected_statement_changes_nothing_and_reports_its_position(session: SqlSession, lake: Lakehouse) -> None:
    list(
        session.script(
            "create namespace r; use r; create table t (id int not null, n decimal(6,2) default 7, "
            "constraint small check (n < 100)); insert into t (id) values (1); insert into t values (2, default)"
        )
    )
    before = lake.version
    refused = {
        "merge into t using (select 1 as id union all select 1) s on t.id = s.id when matched then delete": "several",
        "update t set n = 500": "small",
        "insert into t values (null, 1)": "id",
        "insert into t values (99999999999, 1)": "cannot hold|out of range",
        "insert into t values (1)": "1 columns",
        "insert into t values ('x', 1)": "use a cast",
        "update t set n = 1 where\n idd = 3": r"line 2, column 2: column `idd` does not exist; did you mean",
        "merge into t using (select 1 as k) s on t.id = s.kk when matched then delete": "column 48: column .* does not",
    }
    for text, message in refused.items():
        with pytest.raises(InvalidInputError, match=message):
            session.run(text)
    with pytest.raises(NotFoundError, match=r"column 13: table r.tt does not exist; did you mean r.t\?"):
        session.run("delete from tt where id = 1")
    assert lake.version == before
    assert rows(session.run("select id, cast(n as int) from t").rows()) == ["(1, 7)", "(2, 7)"]


def test_a_transaction_reads_its_own_writes_and_is_atomic(session: SqlSession, lake: Lakehouse) -> None:
    list(session.script("create namespace b; use b; create table t (id int); insert into t values (1)"))
    before = lake.version
    script = """
        begin isolation level serializable;
        insert into t values (2);
        create table u as select id * 10 as id from t;
        savepoint two;
        delete from t where id = 1;
        rollback to two;
        update t set id = id + 5 where id in (select id / 10 from u where id = 20)
    """
    list(session.script(script))
    assert (session.in_transaction, session.isolation) == (True, "serializable")
    with pytest.raises(InvalidInputError, match="column `nope` does not exist"):
        session.run("select nope from t")
    assert rows(session.run("select id from t").rows()) == ["(1,)", "(7,)"]
    assert lake.version == before
    done = session.run("commit message 'two tables'")
    assert (done.version, lake.version, session.in_transaction) == (before + 1, before + 1, False)
    assert lake.history()[0].message == "two tables"
    assert rows(session.run("select * from u").rows()) == ["(10,)", "(20,)"]
    list(session.script("begin; delete from t; rollback"))
    assert session.run("select count(*) from t").rows() == [(2,)]


def test_a_conflict_at_commit_ends_the_transaction_and_names_the_table(session: SqlSession, lake: Lakehouse) -> None:
    list(session.script("create namespace c; use c; create table t (id int); insert into t values (1), (2)"))
    session.run("begin")
    session.run("delete from t where id = 1")
    lake.table("c.t").update({"id": 3}, where="id = 1")
    with pytest.raises(ConflictError, match=r"c\.t"):
        session.run("commit")
    assert not session.in_transaction
    assert session.run("select sum(id) from t").rows() == [(5,)]


def test_partitions_are_overwritten_statically_or_dynamically(session: SqlSession) -> None:
    list(
        session.script(
            "create namespace p; use p; create table t (d string, v int) partitioned by (d);"
            "insert into t values ('a', 1), ('b', 2), ('c', 3);"
            "insert overwrite t partition (d = 'a') values (10);"
            "insert overwrite t partition (d) select 'b', 20 union all select 'e', 5;"
            "insert into t replace where v = 3 values ('f', 3)"
        )
    )
    assert rows(session.run("select * from t").rows()) == ["('a', 10)", "('b', 20)", "('e', 5)", "('f', 3)"]
    assert session.run("insert overwrite t select * from t where v > 5").counts == RowCounts(2, 0, 4)
    assert session.run("truncate table t").rows() == [(0, 0, 2, 0)]
    assert session.run("select * from t").rows() == []


def mangrove_counts(inserted: int, deleted: int) -> object:
    from mangrove.tables.write_plan import RowCounts

    return RowCounts(inserted, 0, deleted)


@pytest.mark.needs_spark
def test_parameters_common_tables_and_fields_of_structs_are_understood_in_changes(session: SqlSession) -> None:
    list(session.script("create namespace q; use q; create table t (id int, s struct<a: int, b: struct<c: string>>)"))
    session.run("insert into t values (1, named_struct('a', 1, 'b', named_struct('c', 'x'))), (:id, null)", {"id": 2})
    session.run("update t set s.b.c = :word, s.a = 5 where id = 1", {"word": "it's"})
    session.run("with gone as (select ? as k) delete from t where id in (select k from gone) and id > ?", [2, 1])
    assert session.run("select id, s.a, s.b.c from t").rows() == [(1, 5, "it's")]


def test_a_merge_with_schema_evolution_brings_the_columns_of_its_source(session: SqlSession) -> None:
    session.run("create namespace evolving")
    session.run("create table evolving.t (id bigint not null, n int, kept string, primary key (id))")
    session.run("insert into evolving.t values (1, 10, 'a'), (2, 20, 'b')")
    source = "(select 2L as id, 21L as n, 'x' as colour union all select 3L, 31L, 'y') s on t.id = s.id"
    merge = f"into evolving.t using {source} when matched then update set * when not matched then insert *"
    with pytest.raises(InvalidInputError, match="has no column 'kept'"):
        session.run(f"merge {merge}")
    merged = session.run(f"merge with schema evolution {merge}")
    assert merged.counts == RowCounts(1, 1, 0)
    found = session.run("select id, n, kept, colour from evolving.t order by id").rows()
    assert found == [(1, 10, "a", None), (2, 21, "b", "x"), (3, 31, None, "y")]
    session.run(
        "merge with schema evolution into evolving.t using (select 1L as id, 5 as size, 6 as unused) s on t.id = s.id "
        "when matched then update set size = s.size"
    )
    assert session.run("select * from evolving.t where id = 1").rows() == [(1, 10, "a", None, 5)]


def test_row_changes_open_no_file_pruned_by_a_part_of_the_predicate(lake: Lakehouse, session: SqlSession) -> None:
    lake.create_namespace("narrow")
    table = lake.create_table("narrow.t", "id bigint, name string")
    for first in (0, 10, 20):
        table.append([{"id": first + number, "name": f"n{number}"} for number in range(3)])
    (lost,) = (scan.file.location for scan in table.scan("id = 20").plan.scans)
    (Path(lake.uri.removeprefix("file://")) / lost).unlink()
    # Who opened the lost file would fail.
    assert session.run("delete from narrow.t where id < 12 and upper(name) = 'N1'").counts == RowCounts(0, 0, 2)
    updated = session.run("update narrow.t set name = 'x' where id in (0, 2) and length(name) = :two", {"two": 2})
    assert updated.counts == RowCounts(0, 2, 0)
    found = session.run("select id, name from narrow.t where id < 20 order by id").rows()
    assert found == [(0, "x"), (2, "x"), (10, "n0"), (12, "n2")]
