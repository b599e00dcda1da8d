"""Load a day's orders with two processes, look at them before anybody else does, and publish or discard them.

    python examples/write_audit_publish.py [FOLDER]

A shared transaction lives in the lakehouse under a name. Loaders join it, write and
save; the auditor joins it, sees what the lakehouse would be, and decides. Readers
see nothing until it is published, and then all of it.
"""

import sys
import tempfile
from pathlib import Path

import mangrove
from mangrove.lakehouse.shared_transaction import SharedTransaction

DAY_1 = [
    [{"id": 1, "customer": "ana", "amount": 20}, {"id": 2, "customer": "ben", "amount": 35}],
    [{"id": 3, "customer": "cleo", "amount": 8}],
]
DAY_2 = [
    [{"id": 4, "customer": "ana", "amount": 12}],
    [{"id": 5, "customer": "", "amount": -300}],
]


def load(place: Path, name: str, rows: list[dict[str, object]]) -> None:
    """Do what one loader does: join, write, save. Each would run on a machine of its own."""
    with mangrove.open(place).join_shared(name) as txn:
        txn.table("shop.orders").append(rows)


def problems(txn: SharedTransaction) -> list[str]:
    """Return what is wrong with the orders as they would be."""
    orders = txn.table("shop.orders")
    rules = {"amounts below zero": "amount < 0", "orders of nobody": "customer is null or customer = ''"}
    counts = {rule: orders.to_arrow(columns=["id"], where=where).num_rows for rule, where in rules.items()}
    return [f"{count} {rule}" for rule, count in counts.items() if count]


def publish_day(place: Path, day: str, parts: list[list[dict[str, object]]]) -> None:
    """Load a day, look at it, and let the others see it or not."""
    lake = mangrove.open(place)
    name = f"orders-{day}"
    lake.begin_shared(name, ttl="6h", message=f"orders of {day}")
    for rows in parts:
        load(place, name, rows)
    audit = lake.join_shared(name)
    print(f"{day}: readers see {lake.table('shop.orders').to_arrow().num_rows} orders, the auditor sees")
    for change in audit.diff().changes:
        print(f"  {change}")
    found = problems(audit)
    if found:
        audit.discard()
        print(f"  discarded: {', '.join(found)}")
    else:
        print(f"  published as version {audit.publish()}")


def main(folder: Path) -> None:
    """Publish a good day and discard a bad one."""
    place = folder / "lake"
    lake = mangrove.create(place)
    lake.create_namespace("shop")
    orders = lake.create_table("shop.orders", "id bigint not null, customer string, amount bigint", keys=["id"])
    publish_day(place, "2026-11-14", DAY_1)
    publish_day(place, "2026-11-15", DAY_2)
    print(f"in the end there are {orders.to_arrow().num_rows} orders, and open loads: {lake.shared_transactions()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()))
