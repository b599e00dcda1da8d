"""A streaming pipeline: files of orders arrive in a folder, and each batch changes two tables together, exactly once.

    python examples/streaming_ingest.py [FOLDER]

Run it again, or stop it in the middle and run it again: every order is there once. It runs on local disk and leaves
the lakehouse for you to explore.
"""

import json
import os
import sys
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import mangrove
from mangrove.spark.session import local_session

COLUMNS = "order_id bigint, customer string, amount decimal(10,2), ts timestamp"
FILES, ORDERS_PER_FILE = 3, 20


def prepared(place: Path) -> mangrove.Lakehouse:
    """Open the lakehouse, or make it with its two tables."""
    if place.exists():
        return mangrove.open(place)
    lake = mangrove.create(place)
    with lake.transaction() as transaction:
        transaction.create_namespace("shop")
        transaction.create_table("shop.orders", COLUMNS, partition_by=["days(ts)"])
        transaction.create_table(
            "shop.customers",
            "customer string not null, last_order bigint, last_amount decimal(10,2)",
            keys=["customer"],
        )
    return lake


def deliver(inbox: Path) -> None:
    """Let files of orders arrive, as another program would."""
    inbox.mkdir(parents=True, exist_ok=True)
    for number in range(FILES):
        orders = [
            {
                "order_id": number * ORDERS_PER_FILE + place,
                "customer": f"customer-{place % 7}",
                "amount": f"{place + 1}.50",
                "ts": f"2026-11-{number + 1:02}T12:00:00Z",
            }
            for place in range(ORDERS_PER_FILE)
        ]
        path = inbox / f"orders-{number}.json"
        path.write_text("\n".join(map(json.dumps, orders)), "utf-8")
        # Spark takes the older file first.
        os.utime(path, (1_700_000_000 + number,) * 2)


def load(lake: mangrove.Lakehouse, batch: DataFrame, batch_id: int) -> None:
    """Write one batch: the orders, and what is newest about each customer, in one transaction.

    The number of the batch is committed with the rows. If this process dies right after that, Spark gives the same
    batch once more, and the lakehouse knows it.
    """
    with lake.transaction_once("orders", batch_id) as transaction:
        if transaction is None:
            print(f"batch {batch_id} is in the lakehouse already")
            return
        batch = batch.persist()
        newest = batch.groupBy("customer").agg({"order_id": "max"}).toDF("customer", "order_id")
        customers = newest.join(batch, ["customer", "order_id"]).selectExpr(
            "customer", "order_id as last_order", "amount as last_amount"
        )
        transaction.table("shop.orders").append(batch)
        transaction.table("shop.customers").upsert(customers)
    batch.unpersist()
    print(f"batch {batch_id} is committed as version {transaction.version}")


def orders_in(spark: SparkSession, inbox: Path) -> DataFrame:
    """Return the orders as a stream, one file in each batch."""
    return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).json(str(inbox))


def started(spark: SparkSession, lake: mangrove.Lakehouse, folder: Path) -> StreamingQuery:
    """Start the pipeline; it takes what has arrived, and ends."""
    writer = orders_in(spark, folder / "inbox").writeStream.foreachBatch(partial(load, lake))
    return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()


def main(folder: Path) -> None:
    """Run the pipeline, and tell what became of the orders."""
    lake = prepared(folder / "lake")
    deliver(folder / "inbox")
    started(local_session(), lake, folder).awaitTermination()
    orders, customers = lake.table("shop.orders").to_arrow(), lake.table("shop.customers").to_arrow()
    print(f"{orders.num_rows} orders of {customers.num_rows} customers in version {lake.version}")
    for done in lake.queries():
        print(f"the last batch of {done.query!r} is {done.batch_id}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "streaming-demo").absolute())
