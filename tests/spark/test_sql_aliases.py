"""SQL through aliases of namespaces and tables: queries, changes of rows, definitions and procedures."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import mangrove
from mangrove import AlreadyExistsError, InvalidInputError, Lakehouse
from mangrove.sql.session import SqlSession


@pytest.fixture
def session(sql_engine: str, tmp_path: Path) -> Iterator[SqlSession]:
    lake = mangrove.create(tmp_path / "lake")
    session = SqlSession(lake, engine=sql_engine)
    list(
        session.script(
            "create namespace shop; create table shop.orders (id bigint, amount bigint);"
            "insert into shop.orders values (1, 10), (2, 20);"
            "call create_alias('shop.purchases', 'shop.orders'); call create_alias('store', 'shop')"
        )
    )
    yield session
    session.close()


def rows(session: SqlSession, text: str) -> list[tuple[object, ...]]:
    return sorted(session.run(text).rows())


def test_queries_and_changes_of_rows_take_aliases(session: SqlSession) -> None:
    assert rows(session, "select purchases.id, amount from shop.purchases") == [(1, 10), (2, 20)]
    assert rows(session, "select o.id from store.orders o join store.purchases p on o.id = p.id") == [(1,), (2,)]
    session.run("insert into store.purchases values (3, 30)")
    session.run("update shop.purchases set amount = purchases.amount + 1 where purchases.id = 1")
    session.run("delete from store.purchases where purchases.id = 2")
    session.run(
        "merge into shop.purchases using (select 3 as id, 0 as amount) s on purchases.id = s.id "
        "when matched then update set amount = s.amount"
    )
    assert rows(session, "select * from shop.orders") == [(1, 11), (3, 0)]
    session.run("create view store.small as select * from store.purchases where amount < 5")
    assert rows(session, "select id from shop.small") == [(3,)]
    session.run("alter table shop.orders rename to shop.sales")
    assert rows(session, "select id from shop.purchases") == [(1,), (3,)]
    assert rows(session, "select id from shop.purchases version as of 5") == [(1,), (2,)]


def test_definitions_and_procedures_know_aliases(session: SqlSession) -> None:
    assert rows(session, "call aliases()") == [
        ("shop.purchases", "shop.orders", "table"),
        ("store", "shop", "namespace"),
    ]
    session.run("alter table shop.purchases add column note string")
    assert [column.name for column in session.lake.table("shop.orders").schema.columns] == ["id", "amount", "note"]  # type: ignore[union-attr]
    session.run("create table if not exists store.purchases (id int)")
    with pytest.raises(AlreadyExistsError, match="alias"):
        session.run("create table shop.purchases (id int)")
    for text in ("drop table shop.purchases", "alter table shop.purchases rename to shop.x", "drop namespace store"):
        with pytest.raises(InvalidInputError, match="is an alias of"):
            session.run(text)
    session.run("create table store.items (id int)")
    assert rows(session, "select count(*) from shop.items") == [(0,)]
    session.run("call compact('shop|purchases')")
    session.run("drop table store.items")
    assert rows(session, "call drop_alias('shop.purchases')") == [("store", "shop", "namespace")]


def test_the_rows_of_a_table_without_a_schema_are_queried(session: SqlSession) -> None:
    raw = session.lake.create_table("shop.raw", schemaless=True)
    raw.add_files({"a.csv": b"id,note\n1,x\n2,y\n", "b.jsonl": b'{"id": 3}\n'})
    assert rows(session, "select id, note from store.raw where id <> 2") == [(1, "x"), (3, None)]
    with pytest.raises(InvalidInputError, match="no schema"):
        session.run("insert into shop.raw values (1)")


def test_lakehouse_sql_accepts_an_alias(session: SqlSession) -> None:
    lake: Lakehouse = session.lake
    assert [
        row[0] for row in lake.sql("select count(*) from store.purchases", engine=session.engine.name).collect()
    ] == [2]
