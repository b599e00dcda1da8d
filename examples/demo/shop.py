"""The shop of the demo: four tables, their rows, and the job that closes a day in all four tables.

Rows are random with a fixed seed. Run as a script, this module is the job that the demo
kills: it books a day, reports that two of four tables are written, and waits.
"""

import datetime
import random
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import mangrove
from mangrove.lakehouse.catalog import Catalog
from mangrove.lakehouse.transaction import Transaction

__all__ = [
    "COLUMNS",
    "CRASHED_DAY",
    "CUSTOMERS",
    "DAYS_BEFORE",
    "HALF_DONE",
    "INVENTORY",
    "LEDGER",
    "NIGHTS",
    "ORDERS",
    "TILL_DAY",
    "TILL_HOURS",
    "book_till_hour",
    "close_day",
    "close_day_with_spark",
    "create_tables",
    "get_date",
    "load_with_spark",
    "sum_orders_and_ledger",
]

CUSTOMERS = "shop.customers"
INVENTORY = "shop.inventory"
LEDGER = "finance.ledger"
ORDERS = "shop.orders"
COLUMNS = {
    CUSTOMERS: "customer_id bigint not null, name string, city string, points bigint",
    INVENTORY: "product string not null, pieces bigint",
    ORDERS: "order_id bigint not null, customer_id bigint, product string, pieces int, "
    "amount decimal(10,2), ts timestamp",
    LEDGER: "day date not null, orders bigint, revenue decimal(12,2)",
}
"""The columns of each table, in types that both Mangrove and Spark accept."""
DAYS_BEFORE = 10
"""How many days the first load has; the chapters add the days after them."""
NIGHTS = (DAYS_BEFORE, DAYS_BEFORE + 1)
CRASHED_DAY = DAYS_BEFORE + 2
TILL_DAY = DAYS_BEFORE + 3
TILL_HOURS = range(8, 20)
HALF_DONE = "two of four tables are written"
"""What the job reports before it waits to be killed."""
_PRICES = {
    "chair": "89.00", "clock": "34.50", "desk": "249.00", "kettle": "45.90", "lamp": "59.90", "mug": "9.50",
    "rug": "120.00", "shelf": "74.00", "stool": "39.00", "vase": "22.80",
}  # fmt: skip
_CITIES = ("Accra", "Hanoi", "Lima", "Lisbon", "Oslo", "Quito")
_SHARES = (3, 5, 2, 6, 4, 1)
_NAMES = ("Ana", "Bao", "Chidi", "Dara", "Elif", "Femi", "Goran", "Hana", "Ines", "Jun")
_FIRST_DAY = datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC)
_CUSTOMER_COUNT = 600
_ORDERS_A_DAY = 300
_PIECES = 4000

_Rows: TypeAlias = list[dict[str, Any]]


def create_tables(lake: mangrove.Lakehouse) -> int:
    """Create the namespaces and tables in one commit, and return its version."""
    with lake.transaction(message="open the shop", author="ana") as txn:
        txn.create_namespace("shop", description="customers, stock and orders")
        txn.create_namespace("finance", description="revenue by day")
        txn.create_table(CUSTOMERS, COLUMNS[CUSTOMERS], keys=["customer_id"])
        txn.create_table(INVENTORY, COLUMNS[INVENTORY], keys=["product"])
        txn.create_table(ORDERS, COLUMNS[ORDERS], keys=["order_id"], partition_by=["days(ts)"])
        txn.create_table(LEDGER, COLUMNS[LEDGER], keys=["day"])
    return _get_version(txn)


def _make_customers() -> _Rows:
    """Return the rows of all customers."""
    chance = random.Random("customers")
    return [
        {
            "customer_id": number,
            "name": f"{chance.choice(_NAMES)} {chr(65 + number % 26)}.",
            "city": chance.choices(_CITIES, _SHARES)[0],
            "points": 0,
        }
        for number in range(1, _CUSTOMER_COUNT + 1)
    ]


def _make_inventory() -> _Rows:
    """Return the initial stock of each product."""
    return [{"product": product, "pieces": _PIECES} for product in _PRICES]


def _make_orders(day: int) -> _Rows:
    """Return the orders of a day; there are more of them on weekends."""
    chance = random.Random(f"day {day}")
    busy = 1.6 if get_date(day).weekday() >= 5 else 1.0
    count = int(_ORDERS_A_DAY * busy * chance.uniform(0.8, 1.2))
    return [_make_order(day * 10_000 + number, day, chance) for number in range(count)]


def _make_till_orders(day: int, hour: int) -> _Rows:
    """Return the orders of one hour at the till."""
    chance = random.Random(f"till {day} {hour}")
    return [_make_order(day * 10_000 + 9_000 + hour * 20 + number, day, chance, hour) for number in range(12)]


def get_date(day: int) -> datetime.date:
    """Return the date of a day of the shop."""
    return (_FIRST_DAY + datetime.timedelta(days=day)).date()


def _make_ledger_row(orders: Sequence[dict[str, Any]], day: int) -> dict[str, Any]:
    """Return the ledger row of a day."""
    revenue = sum((order["amount"] for order in orders), Decimal(0))
    return {"day": get_date(day), "orders": len(orders), "revenue": revenue}


def sum_orders_and_ledger(catalog: Catalog) -> tuple[Decimal, Decimal]:
    """Return the sum of the orders and the sum of the ledger; they are equal in every version."""
    ordered: list[Any] = catalog.table(ORDERS).to_arrow(["amount"]).column("amount").to_pylist()
    revenue: list[Any] = catalog.table(LEDGER).to_arrow(["revenue"]).column("revenue").to_pylist()
    return sum(ordered, Decimal(0)), sum(revenue, Decimal(0))


def load_with_spark(lake: mangrove.Lakehouse, spark: Any) -> int:
    """Load the first days into four tables in one transaction, and return the version."""
    days = [_make_orders(day) for day in range(DAYS_BEFORE)]
    rows = {
        CUSTOMERS: _make_customers(),
        INVENTORY: _make_inventory(),
        ORDERS: [order for orders in days for order in orders],
        LEDGER: [_make_ledger_row(orders, day) for day, orders in enumerate(days)],
    }
    with lake.transaction(message=f"load {DAYS_BEFORE} days", author="ana") as txn:
        for name, found in rows.items():
            is_large = name == ORDERS
            txn.table(name).append(spark.createDataFrame(found, COLUMNS[name]).coalesce(1) if is_large else found)
    return _get_version(txn)


def close_day_with_spark(lake: mangrove.Lakehouse, spark: Any, day: int) -> int:
    """Book a day in four tables in one transaction, with Spark, and return the version."""
    with lake.transaction(message=f"close {get_date(day)}", author="nightly") as txn:
        orders = txn.table(ORDERS)
        orders.append(spark.createDataFrame(_make_orders(day), COLUMNS[ORDERS]).coalesce(1))
        # The transaction reads its own uncommitted writes.
        today = orders.to_spark(where=f"days(ts) = '{get_date(day)}'").cache()
        sold = today.groupBy("product").agg({"pieces": "sum"}).withColumnRenamed("sum(pieces)", "sold")
        stock = txn.table(INVENTORY)
        stock.upsert(stock.to_spark().join(sold, "product").selectExpr("product", "pieces - sold as pieces"))
        bought = today.groupBy("customer_id").agg({"order_id": "count"}).withColumnRenamed("count(order_id)", "more")
        people = txn.table(CUSTOMERS)
        buyers = people.to_spark().join(bought, "customer_id")
        people.upsert(buyers.selectExpr("customer_id", "name", "city", "points + more as points"))
        earned = today.selectExpr("count(*) as orders", "sum(amount) as revenue").collect()[0]
        txn.table(LEDGER).upsert([{"day": get_date(day), "orders": earned["orders"], "revenue": earned["revenue"]}])
        today.unpersist()
    return _get_version(txn)


def close_day(txn: Transaction, day: int, after_two: Callable[[], None] = lambda: None) -> None:
    """Book a day in four tables, without Spark; `after_two` is called when two of them are written."""
    orders = _make_orders(day)
    txn.table(ORDERS).append(orders)
    stock = txn.table(INVENTORY)
    left = {row["product"]: row["pieces"] for row in stock.to_arrow().to_pylist()}
    for order in orders:
        left[order["product"]] -= order["pieces"]
    stock.upsert([{"product": product, "pieces": pieces} for product, pieces in left.items()])
    after_two()
    people = {row["customer_id"]: row for row in txn.table(CUSTOMERS).to_arrow().to_pylist()}
    for order in orders:
        people[order["customer_id"]]["points"] += 1
    txn.table(CUSTOMERS).upsert([people[number] for number in sorted({order["customer_id"] for order in orders})])
    txn.table(LEDGER).upsert([_make_ledger_row(orders, day)])


def book_till_hour(lake: mangrove.Lakehouse, day: int, hour: int) -> int:
    """Book one hour at the till, with the ledger, and return the version."""
    orders = _make_till_orders(day, hour)
    with lake.transaction(message=f"till, {hour}:00", author="till") as txn:
        txn.table(ORDERS).append(orders)
        before = txn.table(LEDGER).to_arrow(where=f"day = '{get_date(day)}'").to_pylist()
        now = _make_ledger_row(orders, day)
        for row in before:
            now = {
                "day": row["day"],
                "orders": row["orders"] + now["orders"],
                "revenue": row["revenue"] + now["revenue"],
            }
        txn.table(LEDGER).upsert([now])
    return _get_version(txn)


def _get_version(txn: Transaction) -> int:
    version = txn.version
    if version is None:
        raise AssertionError("a transaction with changes has a version after its commit")
    return version


def _make_order(number: int, day: int, chance: random.Random, hour: int | None = None) -> dict[str, Any]:
    product, pieces = chance.choice(list(_PRICES)), chance.choices((1, 2, 3, 6), (60, 25, 10, 5))[0]
    minute = chance.randrange(60) + 60 * (chance.choices(range(8, 22), range(1, 15))[0] if hour is None else hour)
    return {
        "order_id": number,
        "customer_id": chance.randint(1, _CUSTOMER_COUNT),
        "product": product,
        "pieces": pieces,
        "amount": Decimal(_PRICES[product]) * pieces,
        "ts": _FIRST_DAY + datetime.timedelta(days=day, minutes=minute),
    }


def _close_day_halfway(uri: str, day: int) -> None:
    lake = mangrove.open(uri)
    with lake.transaction(message="a job that is killed") as txn:
        close_day(txn, day, _wait_to_be_killed)


def _wait_to_be_killed() -> None:
    print(HALF_DONE, flush=True)
    sys.stdin.read()
    raise SystemExit("this job was not killed")


if __name__ == "__main__":
    _close_day_halfway(sys.argv[1], int(sys.argv[2]))
