"""The SQL on the README's first screen runs, on the tables that the Python above it makes."""

from contextlib import closing
from pathlib import Path

import pytest
from tests.docs.page_code import blocks_of

import mangrove
from mangrove.sql.session import SqlSession

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.interop
def test_the_sql_of_the_readme_runs(tmp_path: Path, spark: object) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("shop")
    orders = lake.create_table("shop.orders", "id bigint not null, product string, amount decimal(10,2)", keys=["id"])
    stock = lake.create_table("shop.stock", "product string not null, pieces bigint", keys=["product"])
    with lake.transaction() as txn:
        txn.table("shop.orders").append([{"id": 1, "product": "rug", "amount": 20}])
        txn.table("shop.stock").append([{"product": "rug", "pieces": 9}])
    lake.spark().sql("select 'rug' as product, 3L as pieces").createOrReplaceTempView("delivery")
    (block,) = [block for block in blocks_of(README.read_text("utf-8")) if block.language == "sql"]
    with closing(SqlSession(lake)) as session:
        *_, selected = session.script(block.code)
        assert [row[-1] for row in selected.rows()] == [20]
    assert orders.to_arrow().column("amount").to_pylist() == [18]
    assert stock.to_arrow().column("pieces").to_pylist() == [12]
    assert next(iter(lake.history())).message == "a delivery, and the sale of rugs"
