"""Reads, writes and streams a table of a lakehouse over Spark Connect, in a process of its own."""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import mangrove
from mangrove.spark.java import java_home
from mangrove.spark.surface import attach


def main(folder: Path) -> None:
    """Print the rows that came through each way."""
    os.environ |= {"JAVA_HOME": str(java_home(os.environ)), "PYSPARK_PYTHON": sys.executable}
    lake = mangrove.create(folder / "lake")
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint, name string")
    copied = lake.create_table("s.copied", "id bigint, name string")
    # Nobody tells the server of the format: it finds it by itself.
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    spark.range(3).selectExpr("id", "'x' as name").write.format("mangrove").option("lake", lake.uri).mode(
        "append"
    ).save("s.t")
    attached = attach(spark, lake.uri, "s.t", "attached")
    spark.sql(f"INSERT INTO {attached} VALUES (7, 'seven')")
    loaded = spark.read.format("mangrove").option("lake", lake.uri).load("s.t")
    print("read", sorted(row.id for row in loaded.collect()), table.to_arrow().num_rows)
    stream = spark.readStream.format("mangrove").option("lake", lake.uri).load("s.t")
    writer = stream.writeStream.format("mangrove").option("lake", lake.uri).trigger(availableNow=True)
    writer.option("checkpointLocation", str(folder / "checkpoint")).start("s.copied").awaitTermination()
    print("streamed", sorted(copied.to_arrow().column("id").to_pylist()))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
