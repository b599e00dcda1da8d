"""Isolation by rows on Spark: SQL transactions that read and write, and statements that Spark executes."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

import mangrove
from mangrove import ConflictError, Lakehouse, expr
from mangrove.lakehouse.table import Table
from mangrove.sql.session import SqlSession

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module", params=["tree", "deltacat"])
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Lakehouse:
    assert spark is not None
    return mangrove.create(tmp_path_factory.mktemp("rows") / "lake", layout=request.param)


@pytest.fixture
def accounts(lake: Lakehouse) -> Table:
    lake.create_namespace("bank", if_not_exists=True)
    lake.drop_table("bank.accounts", if_exists=True)
    table = lake.create_table("bank.accounts", "owner string not null, balance bigint", keys=["owner"])
    table.append([{"owner": owner, "balance": 100} for owner in "abc"])
    return table


def put(table: Table, owner: str) -> None:
    table.upsert([{"owner": owner, "balance": 1}])


@pytest.mark.parametrize(("changed", "is_refused"), [("a", True), ("b", False)])
@pytest.mark.parametrize("level", ["snapshot", "serializable"])
def test_a_sql_transaction_conflicts_with_a_concurrent_change_of_a_row_it_read_and_wrote(
    lake: Lakehouse, accounts: Table, level: str, changed: str, is_refused: bool
) -> None:
    session = SqlSession(lake)
    list(session.script(f"use bank; begin isolation level {level}"))
    ((balance,),) = session.run("select balance from accounts where owner = 'a'").rows()
    session.run("insert into accounts values ('log', 0)")
    session.run(
        f"merge into accounts t using (select 'a' as owner, {balance + 10} as balance) s on t.owner = s.owner "
        "when matched then update set balance = s.balance"
    )
    put(accounts, changed)
    if is_refused:
        with pytest.raises(ConflictError, match=r"rows of table bank\.accounts"):
            session.run("commit")
    else:
        session.run("commit")
        assert accounts.to_arrow(where="owner = 'a'")["balance"].to_pylist() == [110]


@pytest.mark.parametrize(("level", "is_refused"), [("snapshot", False), ("serializable", True)])
def test_a_sql_query_is_a_predicate_read(lake: Lakehouse, accounts: Table, level: str, is_refused: bool) -> None:
    session = SqlSession(lake)
    list(session.script(f"use bank; begin isolation level {level}"))
    session.run("select count(*) from accounts where balance >= 100 and owner < 'c'").rows()
    session.run("insert into accounts values ('sum', 200)")
    put(accounts, "c")
    put(accounts, "z")
    if not is_refused:
        put(accounts, "b")
    session.run("commit")
    list(session.script(f"begin isolation level {level}"))
    session.run("select count(*) from accounts where owner <= 'b'").rows()
    session.run("insert into accounts values ('sum2', 200)")
    put(accounts, "a")
    if is_refused:
        with pytest.raises(ConflictError):
            session.run("commit")
    else:
        session.run("commit")


STATEMENTS: dict[str, Callable[[Table], Any]] = {
    "delete": lambda table: table.delete("owner = 'a'", engine="spark"),
    "update": lambda table: table.update({"balance": expr("balance + 1")}, where="owner = 'a'", engine="spark"),
    "merge": lambda table: (
        table.merge([{"owner": "a", "balance": 5}], on="t.owner = s.owner", engine="spark")
        .when_matched_update({"balance": expr("t.balance + s.balance")})
        .when_not_matched_insert()
        .execute()
    ),
    "overwrite": lambda table: table.overwrite([{"owner": "a", "balance": 5}], where="owner = 'a'", engine="spark"),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_of_spark_conflicts_with_changes_of_its_rows_only(
    lake: Lakehouse, accounts: Table, name: str
) -> None:
    late, refused = lake.transaction(), lake.transaction()
    for transaction in (late, refused):
        STATEMENTS[name](transaction.table("bank.accounts"))
    put(accounts, "b")
    accounts.append([{"owner": "d", "balance": 1}])
    late.commit()
    with pytest.raises(ConflictError, match=r"rows of table bank\.accounts"):
        refused.commit()
