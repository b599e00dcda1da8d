"""What is told of a view's columns from its text, and when nothing is."""

import pytest

from mangrove.expressions.schema_text import parse_schema
from mangrove.model.schema_text import format_type
from mangrove.sql.pushdown.scopes import TypedColumns
from mangrove.sql.views import infer_view_columns

ORDERS = "Id bigint, customer string, amount decimal(10,2), pieces int, weight double, day date"
TABLES = {
    ("sales", "orders"): ORDERS,
    ("sales", "old_orders"): ORDERS,
    ("stock",): "Id int, product string, tags array<string>",
}


def columns_of(parts: tuple[str, ...]) -> TypedColumns | None:
    return [(one.name, one.type) for one in parse_schema(TABLES[parts]).columns] if parts in TABLES else None


def told(query: str) -> str | None:
    found = infer_view_columns(query, columns_of)
    return None if found is None else ", ".join(f"{name} {format_type(kind)}" for name, kind in found)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("select id from sales.orders", "id bigint"),
        ("select * from stock", "Id int, product string, tags array<string>"),
        ("select o.*, product from sales.orders o join stock s on o.id = s.id where pieces > 3",
         f"{ORDERS}, product string"),
        ("select o.id, s.Product as Name from sales.orders o left join stock s on o.id = s.id",
         "id bigint, Name string"),
        ("select customer, count(*) as orders, sum(amount) as total, avg(weight) mean from sales.orders group by 1",
         "customer string, orders bigint, total decimal(20,2), mean double"),
        ("select cast(amount as double) as a, amount > 5 as is_large, pieces + 1 as more from sales.orders",
         "a double, is_large boolean, more int"),
        ("with recent as (select id, max(day) as last from sales.orders group by id) select * from recent",
         "Id bigint, last date"),
        ("select * from (\nselect id, sum(pieces) from sales.orders group by id\n) as view_query(`Who`, `n`)",
         "Who bigint, n bigint"),
        ("select id, customer from sales.orders union all select id, customer from sales.old_orders",
         "id bigint, customer string"),
        ("select case when pieces > 1 then 'many' else '' end as how, coalesce(customer, '?') as who from sales.orders",
         "how string, who string"),
        ("select row_number() over (partition by customer order by day) as n, year(day) as y from sales.orders",
         "n int, y int"),
    ],
)  # fmt: skip
def test_the_columns_of_a_view_are_inferred_from_its_text(query: str, wanted: str) -> None:
    assert told(query) == wanted


@pytest.mark.parametrize(
    "query",
    [
        "select from",
        "select id, strange_function(id) as x from sales.orders",
        "select count(*) from sales.orders",
        "select * from nobody",
        "select id, id from sales.orders",
        "select id from sales.orders union all select id from stock",
        "select id from (select id from sales.orders union all select id from stock)",
        "select id from sales.orders version as of 4",
        "select id from sales.orders where id in (select id from stock version as of 4)",
        "select id from stock right join sales.orders using (id)",
        "select explode(tags) from stock",
        "select concat(id, pieces) as text from sales.orders",
        "select amount / 2 as half from sales.orders",
        "select x from sales.orders",
    ],
)
def test_columns_of_a_view_that_require_spark_are_not_inferred(query: str) -> None:
    assert told(query) is None
