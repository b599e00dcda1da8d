"""Systems on Spark: Mangrove, Delta and Iceberg with their JARs from Maven Central, and bare Parquet.

All run on the same version of Spark with the same settings, each in its own session. A
table is known by its bare name in the SQL of every system.
"""

import hashlib
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.peers.environments import FOLDER
from benchmarks.peers.registry import DELTA_JAR, ICEBERG_JAR
from benchmarks.peers.rows import KEY
from benchmarks.peers.systems.port import Place, TableSystem, Unsupported
from pyspark.sql import DataFrame

import mangrove
from mangrove.spark.session import local_session
from mangrove.sql.session import SqlSession

SETTINGS = {
    "spark.driver.memory": "3g",
    "spark.jars.ivy": str(FOLDER / "ivy"),
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "8",
}
FILES = 10
DAYS = 365
DIGITS = 9
"""Floating-point numbers are compared to this many significant digits."""


class SparkTables(TableSystem):
    """One Spark session with a catalog; subclasses say how tables are created, written and compacted."""

    settings: ClassVar[Mapping[str, str]] = {}
    provider: ClassVar[str] = ""
    properties: ClassVar[Mapping[str, str]] = {}

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        warehouse = {"spark.sql.warehouse.dir": place.data}
        own = {name: value.format(data=place.data) for name, value in self.settings.items()}
        self._spark = local_session({**SETTINGS, **warehouse, **own})
        self._spark.sparkContext.setLogLevel("ERROR")

    def create_like(self, table: str, total: int) -> None:
        """Create an empty table with the columns of the generated rows."""
        self._create(table, self._generate(total, 1))

    def append_generated(self, table: str, total: int) -> None:
        """Append generated rows, ordered by id and day."""
        self._append(table, self._generate(total, FILES))

    def load_files(self, table: str, path: str) -> None:
        """Create a table with the rows of a Parquet file."""
        frame = self._spark.read.parquet(path)
        self._create(table, frame)
        self._append(table, frame)

    def prepare_source(self, total: int, number: int, count: int) -> None:
        """Define the view `source` with new values for `count` rows spread over the table, a tenth of them new."""
        step = total // count
        ids = f"case when id % 10 = 0 then {total + number * count} + id else id * {step} + {number % step} end as id"
        frame = self._spark.range(0, count, 1, 1).selectExpr(ids).selectExpr(*_render_columns(total))
        frame.withColumn("amount", frame.amount + number + 1).localCheckpoint().createOrReplaceTempView("source")

    def query(self, sql: str) -> Any:
        """Run a query and return a digest of its rows."""
        return digest_answer(self._run(sql))

    def execute(self, sql: str) -> None:
        """Run a statement that changes rows."""
        self._run(sql)

    def list_processes(self) -> Sequence[int]:
        return [self._spark.sparkContext._gateway.proc.pid]  # type: ignore[union-attr]

    def close(self) -> None:
        self._spark.stop()

    def _generate(self, total: int, files: int) -> DataFrame:
        return self._spark.range(0, total, 1, files).selectExpr(*_render_columns(total))

    def _run(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._spark.sql(sql).collect()]

    def _create(self, table: str, frame: DataFrame) -> None:
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema.fields)
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in self.properties.items())
        self._run(f"create table {table} ({columns}) using {self.provider} tblproperties ({properties})")

    def _append(self, table: str, frame: DataFrame) -> None:
        frame.writeTo(table).append()


class SparkParquet(SparkTables):
    """A folder of Parquet files per table, seen through a view."""

    def _create(self, table: str, frame: DataFrame) -> None:
        pass

    def _append(self, table: str, frame: DataFrame) -> None:
        folder = f"{self.place.data}/{table}"
        frame.write.mode("append").parquet(folder)
        self._spark.read.schema(frame.schema).parquet(folder).createOrReplaceTempView(table)

    def execute(self, sql: str) -> None:  # noqa: ARG002
        raise Unsupported("files cannot be changed")


class SparkMangrove(SparkTables):
    """A lakehouse, through the SQL session of Mangrove."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._lake = mangrove.create(Path(place.data))
        self._lake.create_namespace("bench")
        self._session = SqlSession(self._lake, engine="spark")
        self._session.run("use bench")

    def compact(self, table: str) -> None:
        self._lake.table(f"bench.{table}").compact(engine="spark")

    def _run(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._session.run(sql).rows()]

    def _create(self, table: str, frame: DataFrame) -> None:
        keys = [KEY] if KEY in frame.columns else []
        self._lake.create_table(f"bench.{table}", frame.schema, keys=keys)

    def _append(self, table: str, frame: DataFrame) -> None:
        self._lake.table(f"bench.{table}").append(frame)


class SparkDelta(SparkTables):
    """Delta tables with deletion vectors."""

    settings: ClassVar[Mapping[str, str]] = {
        "spark.jars.packages": DELTA_JAR,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    provider = "delta"
    properties: ClassVar[Mapping[str, str]] = {"delta.enableDeletionVectors": "true"}

    def compact(self, table: str) -> None:
        self._run(f"optimize {table}")


class SparkIceberg(SparkTables):
    """Iceberg tables of format version 3, with merge-on-read."""

    settings: ClassVar[Mapping[str, str]] = {
        "spark.jars.packages": ICEBERG_JAR,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": "{data}",
    }
    provider = "iceberg"
    properties: ClassVar[Mapping[str, str]] = {
        "format-version": "3",
        "write.delete.mode": "merge-on-read",
        "write.update.mode": "merge-on-read",
        "write.merge.mode": "merge-on-read",
    }

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._run("create namespace lake.bench")
        self._run("use lake.bench")

    def compact(self, table: str) -> None:
        options = "map('rewrite-all', 'true')"
        self._run(f"call lake.system.rewrite_data_files(table => 'bench.{table}', options => {options})")


def digest_answer(rows: Sequence[Sequence[Any]]) -> str:
    """Return a short text that is equal for equal rows in any order."""
    lines = sorted(repr([_normalize(value) for value in row]) for row in rows)
    text = "; ".join(lines)
    return text if len(text) <= 100 else f"{len(rows)} rows, {hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _normalize(value: Any) -> Any:
    if isinstance(value, float | Decimal):
        return f"{float(value):.{DIGITS}g}"
    return value


def _render_columns(total: int) -> list[str]:
    return [
        "id",
        f"cast(id * {DAYS} div {total} as int) as day",
        "cast(pmod(hash(id), 1000000) as int) as customer",
        "cast(id % 1000 as decimal(12,2)) as amount",
        "id * 0.5D as weight",
        "concat('name-', cast(id % 100000 as string)) as name",
        "timestamp_millis(1700000000000 + id * 1000) as ts",
        "substr('newpaidsent', cast(id % 3 as int) * 4, 4) as status",
    ]
