"""A program that knows Spark and nothing of ours: it reads, writes and streams a table of a lakehouse that is there."""

import sys

from pyspark.sql import SparkSession


def main(lake: str, folder: str) -> None:
    """Print what came through each way, and whether anything of ours was imported for it."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.warehouse.dir", f"{folder}/warehouse").getOrCreate()
    options = {"lake": lake}
    rows = spark.range(3).selectExpr("id", "'x' AS name")
    rows.write.format("mangrove").options(**options).mode("append").save("s.t")
    print("read", sorted(row.id for row in spark.read.format("mangrove").options(**options).load("s.t").collect()))
    spark.sql(f"CREATE TABLE made USING mangrove OPTIONS (lake '{lake}', table 's.t')")
    spark.sql(f"INSERT INTO made WITH (lake = '{lake}', table = 's.t') VALUES (7, 'seven')")
    print("selected", spark.sql("SELECT sum(id) FROM made").collect()[0][0])
    stream = spark.readStream.format("mangrove").options(**options).load("s.t").writeStream.format("mangrove")
    stream = stream.options(**options).option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    stream.start("s.copied").awaitTermination()
    print("streamed", spark.read.format("mangrove").options(**options).load("s.copied").count())
    print("imported", [name for name in sys.modules if "mangrove" in name])
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
