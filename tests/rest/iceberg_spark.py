"""A Spark with Iceberg's own JAR, in a process of its own: each line it reads is SQL, each that it writes the answer.

    python iceberg_spark.py JARS ADDRESS TOKEN VERSION

The catalog `lake` is the newest state, `past` that of the version. The server plans the scans of `planned`.
"""

import json
import sys

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def main(jars: str, address: str, token: str, version: str) -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.jars", jars)
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }
    settings["spark.sql.catalog.planned.scan-planning-mode"] = "server"
    for name, warehouse in (("lake", ""), ("past", version), ("planned", "")):
        catalog = f"spark.sql.catalog.{name}"
        settings |= {catalog: "org.apache.iceberg.spark.SparkCatalog", f"{catalog}.type": "rest"}
        settings[f"{catalog}.header.X-Iceberg-Access-Delegation"] = "vended-credentials"
        settings |= {f"{catalog}.uri": address, f"{catalog}.token": token, f"{catalog}.warehouse": warehouse}
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for line in sys.stdin:
        answer: dict[str, object]
        try:
            answer = {"rows": [[str(value) for value in row] for row in spark.sql(json.loads(line)).collect()]}
        except (PySparkException, Py4JJavaError) as error:
            answer = {"error": str(error)}
        sys.stdout.write(f"\n{json.dumps(answer)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
