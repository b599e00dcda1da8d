"""Move a lakehouse from a folder to a bucket, with all its versions, while others still write to it.

    python examples/disk_to_s3.py FOLDER s3://bucket/lake

Credentials come from the environment, the AWS profile or the machine's role. The
first run copies everything that is there. A second one, after the writers have
stopped, copies only what came meanwhile, so they stop for a short time. Both
lakehouses are compared object by object at the end of each run, and the new one is
checked. If the folder holds no lakehouse, a small one is made.
"""

import sys
from pathlib import Path

import mangrove


def sample(folder: Path) -> mangrove.Lakehouse:
    """Make a small lakehouse with a past."""
    lake = mangrove.create(folder)
    lake.create_namespace("shop")
    orders = lake.create_table("shop.orders", "id bigint not null, amount bigint", keys=["id"])
    for day in range(3):
        orders.append([{"id": day * 100 + number, "amount": number} for number in range(100)])
    orders.delete("amount < 10")
    return lake


def main(folder: Path, bucket: str) -> None:
    """Copy, write some more, copy again, and look at the result."""
    there_is_one = folder.exists() and any(folder.iterdir())
    lake = mangrove.open(folder) if there_is_one else sample(folder)
    print(f"{lake.uri} has version {lake.version}")

    report = lake.maintenance.convert(bucket, layout=lake.layout)
    print(f"first run, while others write: {report}")

    if not there_is_one:
        lake.table("shop.orders").upsert([{"id": 1, "amount": 1_000_000}])
    report = lake.maintenance.convert(bucket, layout=lake.layout)
    print(f"second run, after the writers stopped: {report}")

    moved = mangrove.open(bucket)
    print(f"{moved.uri} has version {moved.version}, as the folder has {lake.version}")
    for namespace in moved.namespaces():
        for table in namespace.tables():
            here, there = lake.table(table.locator).to_arrow(), table.to_arrow()
            print(f"  {table}: {there.num_rows} rows, in the folder {here.num_rows}")
    # The past came along, too.
    for line in moved.history(limit=3):
        print(f"  version {line.version}: {line.message}")
    found = moved.maintenance.check()
    print(f"  {found}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), sys.argv[2])
