"""A first walk through a lakehouse: a small shop, whose four tables change together or not at all.

    make demo        or        python examples/first_steps.py [FOLDER]

It runs on local disk, takes about a minute, and leaves the lakehouse for you to explore.
"""

import datetime
import decimal
import random
import shutil
import sys
from pathlib import Path

import mangrove

FIRST_DAY = datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC)
PRODUCTS = ["kettle", "lamp", "chair", "desk", "mug", "rug", "clock", "shelf"]


def say(title: str, why: str) -> None:
    """Print the heading of a step."""
    print(f"\n\033[1m{title}\033[0m\n  {why}" if sys.stdout.isatty() else f"\n{title}\n  {why}")


def show(line: object) -> None:
    """Print a result."""
    print(f"    {line}")


def build(lake: mangrove.Lakehouse) -> None:
    """Make the shop: customers, stock, orders and the ledger."""
    lake.create_namespace("shop", properties={"owner": "ana"})
    lake.create_namespace("finance")
    lake.create_table(
        "shop.customers", schema="customer_id bigint not null, name string, city string", keys=["customer_id"]
    )
    lake.create_table("shop.stock", schema="product string not null, pieces bigint", keys=["product"])
    lake.create_table(
        "shop.orders",
        schema="order_id bigint not null, customer_id bigint, product string, amount decimal(10,2), ts timestamp",
        keys=["order_id"],
        partition_by=["days(ts)"],
    )
    lake.create_table("finance.ledger", schema="day date not null, revenue decimal(12,2)", keys=["day"])
    cities = ["Lisbon", "Oslo", "Quito", "Hanoi"]
    lake.table("shop.customers").append(
        [{"customer_id": number, "name": f"customer {number}", "city": cities[number % 4]} for number in range(200)]
    )
    lake.table("shop.stock").append([{"product": product, "pieces": 500} for product in PRODUCTS])


def orders_of(day: int, chance: random.Random) -> list[dict[str, object]]:
    """Return a day's orders, the same in every run."""
    return [
        {
            "order_id": day * 1000 + number,
            "customer_id": chance.randrange(200),
            "product": chance.choice(PRODUCTS),
            "amount": decimal.Decimal(chance.randrange(500, 20_000)) / 100,
            "ts": FIRST_DAY + datetime.timedelta(days=day, minutes=chance.randrange(1440)),
        }
        for number in range(60)
    ]


def close_the_day(lake: mangrove.Lakehouse, day: int, *, crash: bool = False) -> None:
    """Book a day in one transaction: its orders, the stock that is left, what was earned, and who is new."""
    chance = random.Random(day)
    orders = orders_of(day, chance)
    with lake.transaction(message=f"close day {day}", author="nightly") as txn:
        txn.table("shop.orders").append(orders)
        left = {row["product"]: row["pieces"] for row in txn.table("shop.stock").to_arrow().to_pylist()}
        for order in orders:
            left[order["product"]] -= 1
        txn.table("shop.stock").upsert([{"product": product, "pieces": pieces} for product, pieces in left.items()])
        if crash:
            raise RuntimeError("the power went out")
        earned = sum((decimal.Decimal(str(order["amount"])) for order in orders), decimal.Decimal())
        date = (FIRST_DAY + datetime.timedelta(days=day)).date()
        txn.table("finance.ledger").upsert([{"day": date, "revenue": earned}])
        txn.table("shop.customers").upsert([{"customer_id": 1000 + day, "name": f"new on day {day}", "city": "Lima"}])


def rows(lake: mangrove.Lakehouse, name: str) -> int:
    """Return how many rows a table has."""
    return int(lake.table(name).to_arrow().num_rows)


def revenue(catalog: object) -> decimal.Decimal:
    """Return what the ledger says was earned."""
    ledger = catalog.table("finance.ledger").to_arrow()  # type: ignore[attr-defined]
    return sum(ledger.column("revenue").to_pylist(), decimal.Decimal())


def main() -> None:
    """Walk through."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".build/demo").resolve()
    copy = folder.with_name(f"{folder.name}-year-end")
    for old in (folder, copy):
        shutil.rmtree(old, ignore_errors=True)

    say("1. A lakehouse is a folder", "No server, no database: `mangrove.create` writes two files.")
    lake = mangrove.create(folder)
    build(lake)
    show(f"{lake.uri} holds {', '.join(str(table) for space in lake.namespaces() for table in space.tables())}")

    say("2. Four tables, one commit", "Each night books orders, stock, ledger and customers together.")
    for day in range(5):
        close_the_day(lake, day)
    show(f"version {lake.version}: {rows(lake, 'shop.orders')} orders, {revenue(lake)} earned")
    for line in lake.history(limit=3):
        show(f"version {line.version}: " + ", ".join(f"{one.message} (by {one.author})" for one in line.transactions))

    say("3. A crash in the middle changes nothing", "Two of the four tables were written when the power went out.")
    before = lake.version
    try:
        close_the_day(lake, 5, crash=True)
    except RuntimeError as error:
        show(f"{error}; still version {lake.version}, still {rows(lake, 'shop.orders')} orders")
    assert lake.version == before

    say("4. Rivals are told precisely", "Two sessions change the same table's description; the second is refused.")
    first, second = lake.transaction(), lake.transaction()
    first.alter_table("shop.orders", description="what people bought")
    second.alter_table("shop.orders", description="orders of the shop")
    first.commit("describe orders")
    try:
        second.commit()
    except mangrove.ConflictError as error:
        show(error)
    show("appends never meet: both of these stay")
    one, two = lake.transaction(), lake.transaction()
    one.table("shop.orders").append(orders_of(6, random.Random(61)))
    two.table("shop.orders").append(orders_of(7, random.Random(62)))
    one.commit("day 6")
    two.commit("day 7")
    show(f"version {lake.version}: {rows(lake, 'shop.orders')} orders")

    say("5. Upsert, delete, and every past state", "Time travel is for the whole lakehouse at once.")
    then = lake.version
    lake.table("shop.customers").upsert([{"customer_id": 7, "name": "seven", "city": "Accra"}])
    lake.table("shop.orders").delete("amount < 50")
    show(f"now:               {rows(lake, 'shop.orders')} orders")
    show(f"as of version {then}:  {lake.at(then).table('shop.orders').to_arrow().num_rows} orders")
    for changed in str(lake.diff(then, lake.version)).splitlines():
        show(changed)

    say("6. Rollback", "The whole lakehouse as it was, as a new version: nothing is lost, not even the mistake.")
    lake.rollback(to=then)
    show(f"version {lake.version}: {rows(lake, 'shop.orders')} orders")

    say("7. Export", "A named copy that opens by itself anywhere.")
    lake.export(copy, name="year-end", mode="full")
    show(f"{copy} opens with {rows(mangrove.open(copy), 'shop.orders')} orders")

    say("8. Spark reads the same files", "Its own Parquet reader, no JAR; Java comes with pip where there is none.")
    frame = lake.table("shop.orders").to_spark().groupBy("product").sum("amount").orderBy("product")
    for row in frame.collect():
        show(f"{row['product']:<8} {row['sum(amount)']}")

    say("9. Upkeep", "Many small deltas become few files; history stays readable; `check` reads everything.")
    files = len(lake.table("shop.stock").scan().files())
    lake.table("shop.stock").compact()
    after = len(lake.table("shop.stock").scan().files())
    show(f"files to read for the stock: {files} before compaction, {after} after")
    report = lake.check()
    show(f"check: {report}")

    say("10. What is on storage", "Nothing but files.")
    kinds = {
        "data files": "data/*/*.parquet",
        "roots (one for each version)": "_[01]*.ipc",
        "nodes": "*/*/*/*-node-*.ipc",
    }
    for kind, pattern in kinds.items():
        found = list(folder.glob(pattern))
        show(f"{len(found):>4} {kind}, {sum(path.stat().st_size for path in found):,} bytes")
    print(f"\nIt is all yours: mangrove ls {folder} · mangrove log {folder} · mangrove tree {folder}")
    print(f"or in Python: mangrove.open({str(folder)!r})")


if __name__ == "__main__":
    main()
