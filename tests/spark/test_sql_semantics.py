"""What UPDATE, DELETE, INSERT and MERGE mean, case by case, compared with DuckDB where both speak the same.

Each case begins on the same rows, in a transaction that is rolled back. `t` has
duplicates and nulls, `k` has a key, `s` is what they are compared with.
"""

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

import mangrove
from mangrove import InvalidInputError, NotFoundError
from mangrove.sql.session import SqlSession

pytestmark = pytest.mark.interop

TABLES = """
create table {0}t (id int, g {1}, n int, d decimal(6, 2));
create table {0}k (id int not null, n int, primary key (id));
create table {0}s (id int, g {1}, n int);
create table {0}c (id int not null, n int default 7, constraint small check (n < 100));
insert into {0}t values (1, 'a', 10, 1.25), (1, 'a', 10, 1.25), (2, 'b', null, 2.5), (3, null, 30, null);
insert into {0}t values (null, 'd', 4, 4);
insert into {0}k values (1, 10), (2, 20), (3, null);
insert into {0}s values (1, 'a', 100), (3, 'c', null), (null, 'd', 5), (9, 'z', 9), (9, 'z', 9);
"""
CASES = {
    # Every value is computed from the row as it was.
    "columns swap their values": "update t set id = n, n = id",
    "nothing equals null": "delete from t where g = null or n <> null",
    "what is unknown is not false": "delete from t where not (n > 5)",
    "null is in no list": "delete from t where id in (1, null)",
    "a null in a list leaves nothing outside of it": "delete from t where id not in (select id from s)",
    "without nulls the rest is outside": "delete from t where id not in (select id from s where id is not null)",
    "a null meets no row of a subquery": "delete from t where not exists (select 1 from s where s.id = t.id)",
    "a null is not distinct from a null": (
        "delete from t where exists (select 1 from s where s.id is not distinct from t.id)"
    ),
    "pairs are compared column by column": "delete from t where (id, g) in (select id, g from s)",
    "a subquery may depend on the row": "delete from t where n < (select max(n) from s where s.g = t.g)",
    "duplicates are found in the table itself": (
        "delete from t where id in (select id from t group by id having count(*) > 1)"
    ),
    "a condition sees the table as it was": "delete from t where n >= (select avg(n) from t)",
    "a limit in a subquery holds": "delete from t where id in (select id from s where id > 1 order by id limit 1)",
    "no condition means all": "delete from t",
    "a value may come from a subquery": "update t set n = (select max(n) from s where s.id = t.id)",
    "a value may count the rows of its own group": "update t set n = (select count(*) from t as x where x.g = t.g)",
    "a value is null where its subquery has no row": "update t set g = (select g from s where s.id = 77)",
    "each duplicate is changed": "update t set n = n + 1, g = upper(g) where id = 1",
    "a case without else is null": "update t set g = case when n > 5 then 'big' end",
    "a decimal is rounded to its column": "update t set d = d * 1.111",
    "a number becomes the type of its column": "update t set d = n where n is not null",
    "an alias names the table": "update t as x set n = x.id where x.g = 'b'",
    "no row is a change of no row": "update t set n = 0 where id = 77",
    "keys may move": "update k set id = id + 100 where n is not null",
    "keys may change places": "update k set id = 4 - id",
    "rows may be added to what they come from": "insert into t select * from t where id = 1",
    "columns that are not named are null": "insert into t (n, id) values (5, 50), (null, 51)",
    "columns go by their names": "insert into t by name select 'x' as g, 8 as id",
    "defaults fill what is not named": "insert into c (id) values (1), (2)",
    "a default may be asked for": "insert into c values (1, default), (2, null)",
    "a query before an insert may be used in it": (
        "with q as (select id + 10 as id from s) insert into t (id) select id from q"
    ),
    "a set operation is a query": "insert into t (id) select id from t intersect select id from s",
    "the first clause that applies decides": (
        "merge into t using (select distinct id, g from s) as u on t.id = u.id when matched and t.n > 20 then delete "
        "when matched then update set g = 'second' "
        "when not matched and u.id = 9 then insert (id, g) values (u.id, 'nine') "
        "when not matched then insert (id, g) values (-1, u.g)"
    ),
    "null joins nothing in a merge": (
        "merge into t using (select null as id, 'd' as g) as u on t.id = u.id when matched then delete "
        "when not matched then insert (g) values (u.g)"
    ),
    "a row of the source may change several of the table": (
        "merge into t using (select 1 as id) as u on t.id = u.id when matched then update set n = 0"
    ),
    "rows of the source that are equal are all added": (
        "merge into t using (select * from s where id = 9) as u on t.id = u.id "
        "when not matched then insert values (u.id, u.g, u.n, default)"
    ),
    "what the source lacks is changed or goes": (
        "merge into k using (select 1 as id, 11 as n) as u on k.id = u.id when matched then update set n = u.n "
        "when not matched by source and k.n is null then delete when not matched by source then update set n = k.n * 2"
    ),
    "a table is merged with itself": (
        "merge into k using (select id + 1 as id, n from k) as u on k.id = u.id when matched then update set n = u.n "
        "when not matched then insert (id, n) values (u.id, u.n)"
    ),
    "a condition that never holds adds all": (
        "merge into k using (select 8 as id, 8 as n) as u on false when matched then delete "
        "when not matched then insert (id, n) values (u.id, u.n)"
    ),
    "a merge compares what may be null": (
        "merge into t using s as u on t.id is not distinct from u.id and t.g = u.g when matched then update set n = u.n"
    ),
    "a source may name its columns": (
        "merge into k using (values (3, 33), (4, 44)) as u (id, n) on k.id = u.id "
        "when matched then update set n = u.n when not matched then insert (id, n) values (u.id, u.n)"
    ),
}
REFUSED = {
    "a whole number that is too large": "insert into t (id) values (3000000000)",
    "a whole number that becomes too large": "update t set n = n * 1000000000",
    "a decimal that is too large": "update t set d = 99999.99",
    "a null where none may be": "insert into c values (null, 1)",
    "a null that comes by an update": "update k set id = null where id = 1",
    "a row that breaks a condition": "insert into c values (1, 99), (2, 100)",
    "a row that breaks a condition in a merge": (
        "merge into c using (select 5 as id) as u on c.id = u.id "
        "when not matched then insert (id, n) values (u.id, 500)"
    ),
    "a key that is there already": "update k set id = 1",
    "a division by zero": "update t set n = cast(1 / 0 as int) where id = 1",
    "more values than columns": "insert into k values (1, 2, 3)",
    "a column that is not there": "update t set nope = 1",
    "a column twice": "update t set n = 1, n = 2",
    "a subquery with several rows as a value": "update t set n = (select n from s)",
    "an order and a limit behind a condition": "delete from t where n >= 0 order by n limit 1",
    "a condition on groups": "delete from t where n >= 0 having count(*) > 100",
    "a grouping": "delete from t where n >= 0 group by id",
    "a limit behind a subquery": "delete from t where n in (select n from t) limit 1",
    "a limit on an update": "update t set n = 0 where n >= 0 limit 1",
    "an alias behind a value": "update t set n = 6 as m",
    "an alias behind a condition": "delete from t where n >= 0 m",
    "a default inside of a value": "insert into c values (1, default + 1)",
    "a text as a condition": "delete from t where 'yes'",
    "a number as a condition": "update t set n = 0 where n",
    "a text as a condition of a merge": (
        "merge into k using (select 1 as id) as u on k.id = u.id when matched and 'yes' then delete"
    ),
    "a bracket that was never opened": "delete from t where n < 0) or (n >= 0",
}
OTHERWISE_IN_DUCKDB = {
    "a division by zero",
    "a subquery with several rows as a value",
    "a text as a condition",
    "a number as a condition",
    "a text as a condition of a merge",
}
"""DuckDB takes what we and Spark refuse; it says null, takes the first row, or makes a condition of any value."""


@pytest.fixture(scope="module")
def both(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[SqlSession, duckdb.DuckDBPyConnection]]:
    assert spark is not None
    lake = mangrove.create(tmp_path_factory.mktemp("semantics") / "lake")
    session, peer = SqlSession(lake), duckdb.connect()
    list(session.script("create namespace m; use m;" + TABLES.format("m.", "string")))
    peer.execute(TABLES.format("", "varchar").replace("constraint small check", "check"))
    yield session, peer
    session.close()


def rows(found: list[Any]) -> list[str]:
    return sorted(repr(tuple(row)) for row in found)


def table_of(statement: str) -> str:
    words = statement.replace("with q as (select id + 10 as id from s) ", "").split()
    return words[1] if words[0] == "update" else words[2]


@pytest.mark.parametrize("case", CASES)
def test_a_statement_has_the_same_rows_and_counts_as_in_duckdb(
    both: tuple[SqlSession, duckdb.DuckDBPyConnection], case: str
) -> None:
    session, peer = both
    statement = CASES[case]
    look = f"select * from {table_of(statement)}"
    session.run("begin")
    peer.execute("begin")
    try:
        counts = session.run(statement).counts
        (touched,) = peer.execute(statement).fetchone() or (None,)
        assert rows(session.run(look).rows()) == rows(peer.execute(look).fetchall())
        assert counts is not None
        assert (counts.inserted or 0) + (counts.updated or 0) + (counts.deleted or 0) + counts.upserted == touched
    finally:
        session.run("rollback")
        peer.execute("rollback")


@pytest.mark.parametrize("case", REFUSED)
def test_an_invalid_statement_is_rejected_and_changes_nothing(
    both: tuple[SqlSession, duckdb.DuckDBPyConnection], case: str
) -> None:
    session, peer = both
    before = session.lake.version
    with pytest.raises((InvalidInputError, NotFoundError)):
        session.run(REFUSED[case])
    assert session.lake.version == before
    if case not in OTHERWISE_IN_DUCKDB:
        with pytest.raises(duckdb.Error):
            peer.execute(REFUSED[case])
