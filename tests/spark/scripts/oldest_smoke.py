"""What must work on the oldest PySpark that pyproject.toml allows: `oldest_smoke.py FOLDER VERSION`."""

import sys
from pathlib import Path

import pyspark
import pytest

import mangrove

folder, version = Path(sys.argv[1]), sys.argv[2]
assert pyspark.__version__ == version, pyspark.__version__

lake = mangrove.create(folder / "lake")
lake.create_namespace("shop")
orders = lake.create_table("shop.orders", "id bigint not null, customer string, at timestamp", keys=["id"])
copy = lake.create_table("shop.copy", "id bigint not null, customer string, at timestamp", keys=["id"])
spark = lake.spark()
AT = "timestamp'2026-11-16 08:00:00' AS at"


def ids(frame: object) -> list[int]:
    return sorted(row.id for row in frame.collect())  # type: ignore[attr-defined]


assert orders.append(spark.range(3).selectExpr("id", "'ana' AS customer", AT)).inserted == 3
assert orders.upsert(spark.range(2, 5).selectExpr("id", "'ben' AS customer", AT)).upserted == 3
assert ids(orders.to_spark()) == [0, 1, 2, 3, 4]
assert ids(orders.to_spark(where="customer = 'ben'")) == [2, 3, 4]
lake.sql("DELETE FROM shop.orders WHERE id = 0")
assert ids(lake.sql("SELECT id FROM shop.orders")) == [1, 2, 3, 4]

found = spark.read.format("mangrove").option("lake", lake.uri).load("shop.orders")
assert ids(found) == [1, 2, 3, 4]
assert {row.at.year for row in found.collect()} == {2026}
new = spark.range(9, 10).selectExpr("id", "'zoe' AS customer", AT)
new.write.format("mangrove").option("lake", lake.uri).mode("append").save("shop.orders")
assert ids(orders.to_spark()) == [1, 2, 3, 4, 9]


def copied() -> list[int]:
    """Run a query from the one table to the other, until all that is there now was taken."""
    source = spark.readStream.format("mangrove").option("lake", lake.uri).load("shop.orders")
    sink = source.writeStream.format("mangrove").option("lake", lake.uri)
    query = sink.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start("shop.copy")
    query.awaitTermination()
    return ids(copy.to_spark())


assert copied() == [1, 2, 3, 4, 9]
orders.append([{"id": 10, "customer": "yan", "at": None}])
assert copied() == [1, 2, 3, 4, 9, 10], "the query goes on from its checkpoint"
assert copied() == [1, 2, 3, 4, 9, 10], "nothing is new"

# A version that changes rows stops the stream instead of being skipped, also when new rows come before it.
orders.append([{"id": 11, "customer": "xi", "at": None}])
orders.delete("id = 1")
with pytest.raises(Exception, match="readChangeFeed"):
    print(copied(), copied())
print("done")
