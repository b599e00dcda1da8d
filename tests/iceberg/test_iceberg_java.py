"""Tables shown to Iceberg, read by its own Java library, which most engines use.

The library comes from Maven Central and is large: `make test-peers` installs it.
"""

import datetime
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.rest.peer_process import ICEBERG_JAR

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.spark.java import find_java_home

pytestmark = [
    pytest.mark.slow,
    pytest.mark.interop,
    pytest.mark.xdist_group("spark-processes"),
    pytest.mark.skipif(
        not ICEBERG_JAR, reason="MANGROVE_ICEBERG_JAR names no file with Iceberg's Java library; run: make test-peers"
    ),
]

READER = """
import json, sys
from pyspark.sql import SparkSession
jar, *addresses = sys.argv[1:]
settings = {"spark.jars": jar, "spark.ui.enabled": "false"}
session = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
iceberg = session._jvm.org.apache.iceberg
found = []
for address in addresses:
    io = iceberg.hadoop.HadoopFileIO(session._jsc.hadoopConfiguration())
    table = iceberg.BaseTable(iceberg.StaticTableOperations(address, io), "shown")
    rows, width = [], len(table.schema().columns())
    each = iceberg.data.IcebergGenerics.read(table).build().iterator()
    while each.hasNext():
        row = each.next()
        rows.append([str(row.get(place)) for place in range(width)])
    found.append(sorted(rows))
print("found " + json.dumps(found))
session.stop()
"""


def read_by_java(addresses: list[str]) -> list[list[list[str]]]:
    environment = {**os.environ, "JAVA_HOME": str(find_java_home(os.environ))}
    done = subprocess.run(
        [sys.executable, "-c", READER, ICEBERG_JAR, *addresses],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    told = [line for line in done.stdout.splitlines() if line.startswith("found ")]
    assert told, done.stderr[-3000:]
    found: list[list[list[str]]] = json.loads(told[0].removeprefix("found "))
    return found


def texts(rows: Any) -> list[list[str]]:
    return sorted([str(value) for value in row.values()] for row in rows.to_pylist())


def _changed(lake: Lakehouse, name: str, **settings: Any) -> list[tuple[str, list[list[str]]]]:
    """Return the addresses of the states of a table that is written to, each with its rows."""
    table = lake.create_table(f"shop.{name}", "id bigint not null, day date not null, what string", **settings)
    days = [datetime.date(2026, month, 1) for month in (1, 2, 3)]
    found = []

    def shown() -> None:
        found.append((table.iceberg(), texts(table.to_arrow())))

    shown()
    table.append([{"id": one, "day": days[one % 3], "what": "old"} for one in range(30)])
    shown()
    if settings.get("keys"):
        table.upsert([{"id": one, "day": days[one % 3], "what": "new"} for one in range(20, 40)])
    table.delete("id in (3, 21, 29)")
    shown()
    table.update_schema().rename_column("what", "thing").commit()
    table.update_schema().add_column("what", "string").commit()
    table.update({"what": "updated"}, where="id < 5")
    shown()
    return found


def test_the_java_library_reads_every_state_as_it_is(tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "a lake")
    lake.create_namespace("shop")
    states = [
        *_changed(lake, "plain"),
        *_changed(lake, "by_position", properties={"write.delete-mode": "position"}),
        *_changed(lake, "by_keys", keys=["id"], sort_by=["what desc"]),
        *_changed(lake, "one_log", keys=["id"], partition_by=["day"]),
        *_changed(lake, "logs", keys=["id", "day"], partition_by=["months(day)", "bucket(4, id)"]),
    ]
    read = read_by_java([address for address, _ in states])
    assert read == [rows for _, rows in states]
