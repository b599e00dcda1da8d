"""Keep a star schema whole: facts and the dimensions that they point to change in one version.

    python examples/star_schema.py [FOLDER]

Sales arrive with products that nobody has seen before. The new products, the sales
and a table of daily totals are written in one transaction, so no reader ever finds
a sale without its product or a total that does not add up. The totals are computed
from what is there, so the transaction is serializable: it is refused, and run
again, if other sales came meanwhile.
"""

import sys
import tempfile
from collections.abc import Iterable
from datetime import date
from functools import partial
from pathlib import Path

import pyarrow as pa

import mangrove
from mangrove.lakehouse.transaction import Transaction

Sale = tuple[int, date, str, int, int]
DELIVERIES: list[list[Sale]] = [
    [(1, date(2026, 11, 14), "lamp", 2, 40), (2, date(2026, 11, 14), "mug", 10, 50)],
    [
        (3, date(2026, 11, 15), "lamp", 1, 20),
        (4, date(2026, 11, 15), "rug", 1, 80),
        (5, date(2026, 11, 14), "mug", 1, 5),
    ],
]


def build(lake: mangrove.Lakehouse) -> None:
    """Make the star: one table of facts, one dimension, one table of totals, all at once."""
    with lake.transaction(message="make the star") as txn:
        txn.create_namespace("mart")
        txn.create_table("mart.products", "product_id bigint not null, name string", keys=["product_id"])
        txn.create_table(
            "mart.sales",
            "sale_id bigint not null, day date not null, product_id bigint, pieces bigint, amount bigint",
            keys=["sale_id", "day"],
            partition_by=["months(day)"],
        )
        txn.create_table("mart.daily", "day date not null, amount bigint, sales bigint", keys=["day"])


def product_ids(txn: Transaction, names: Iterable[str]) -> dict[str, int]:
    """Return the number of each product, and add those that are new."""
    products = txn.table("mart.products")
    known = {row["name"]: row["product_id"] for row in products.to_arrow().to_pylist()}
    new = sorted(set(names) - known.keys())
    added = {name: len(known) + place for place, name in enumerate(new, 1)}
    if added:
        products.append([{"product_id": number, "name": name} for name, number in added.items()])
    return known | added


def deliver(txn: Transaction, sales: list[Sale]) -> None:
    """Write a delivery: products, sales, and the totals of the days that it touches."""
    ids = product_ids(txn, (name for _, _, name, _, _ in sales))
    facts = txn.table("mart.sales")
    facts.append(
        [
            {"sale_id": sale_id, "day": day, "product_id": ids[name], "pieces": pieces, "amount": amount}
            for sale_id, day, name, pieces, amount in sales
        ]
    )
    # The transaction sees its own writes, so the totals are those of the version that it will become.
    everything: pa.Table = facts.to_arrow(columns=["day", "amount"])
    totals = everything.group_by("day").aggregate([("amount", "sum"), ("amount", "count")])
    touched = {day for _, day, _, _, _ in sales}
    txn.table("mart.daily").upsert(
        [
            {"day": row["day"], "amount": row["amount_sum"], "sales": row["amount_count"]}
            for row in totals.to_pylist()
            if row["day"] in touched
        ]
    )


def main(folder: Path) -> None:
    """Build the star, take two deliveries, and look at it now and before."""
    lake = mangrove.create(folder / "lake")
    build(lake)
    for number, sales in enumerate(DELIVERIES, 1):
        lake.run(partial(deliver, sales=sales), "serializable", message=f"delivery {number}")
    for version in (lake.version - 1, lake.version):
        past = lake.at(version)
        print(f"version {version}, {past.line.message}:")
        for row in past.table("mart.daily").to_arrow().sort_by("day").to_pylist():
            print(f"  {row['day']}  {row['amount']:>4}  from {row['sales']} sales")
    sold = lake.table("mart.sales").to_arrow().join(lake.table("mart.products").to_arrow(), "product_id")
    best = sold.group_by("name").aggregate([("amount", "sum")]).sort_by([("amount_sum", "descending")])
    print("sold most:", ", ".join(f"{row['name']} {row['amount_sum']}" for row in best.to_pylist()))
    print(lake.diff(lake.version - 1))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()))
