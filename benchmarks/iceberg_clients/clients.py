"""The Iceberg clients: how each is installed, and the code with which it performs each operation.

Names in braces are replaced: `{t}` and `{other}` are tables with rows, `{new}` is a free name, `{snapshot}` an
earlier snapshot and `{tag}` its name. Code that reads leaves the
ids in `found`. An operation that a client does not have is missing.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.peers.registry import ICEBERG_JAR, System

__all__ = ["BUCKET_JAR", "CLIENTS", "Client"]


@dataclass(frozen=True, slots=True)
class Client:
    """A client, the code that opens the catalog at `{address}` with `{token}`, and its operations."""

    system: System
    setup: str
    """Python code; `{jars}` are the files of its artifacts, and `{bucket_jars}` the artifact that opens buckets."""
    operations: Mapping[str, str]
    """Python code, or commands of a program, by operation."""
    artifacts: tuple[str, ...] = ()
    """Coordinates of JARs that are installed with Maven."""
    stores: tuple[str, ...] = ("local",)
    """The stores on which it is tried."""


_BOTH = ("local", "bucket")


def _client(
    title: str,
    requirements: tuple[str, ...],
    setup: str,
    operations: Mapping[str, str],
    jar: str = "",
    *,
    artifacts: tuple[str, ...] = (),
    stores: tuple[str, ...] = ("local",),
) -> Client:
    package = re.split("[^a-z-]", requirements[0])[0]
    system = System(title, "", requirements, (package,), f"iceberg-{package}", jar)
    return Client(system, setup, operations, artifacts, stores)


def _program(title: str, operations: Mapping[str, str]) -> Client:
    return Client(System(title, "", (), (), ""), "", operations, (), _BOTH)


def _in_sql(statements: Mapping[str, str]) -> dict[str, str]:
    return {name: f'found = sql("""{text}""")' for name, text in statements.items()}


_CATALOG = """
from pyiceberg.catalog.rest import RestCatalog
import pyarrow as pa
catalog = RestCatalog("lake", uri="{address}", token="{token}")
rows = pa.table({{"id": pa.array([10], pa.int64()), "name": ["new"]}})
"""
_POLARS_KEYS = """
def keys_of(table):
    return {{name: value for name, value in table.io.properties.items() if name.startswith("s3.")}} or None
"""
_TABLE = 'table = catalog.load_table("{t}")\n'
_PYICEBERG = {
    "read": _TABLE + 'found = table.scan().to_arrow()["id"].to_pylist()',
    "read an earlier snapshot": _TABLE + 'found = table.scan(snapshot_id={snapshot}).to_arrow()["id"].to_pylist()',
    "read a tag": _TABLE
    + 'found = table.scan(snapshot_id=table.snapshot_by_name("{tag}").snapshot_id).to_arrow()["id"].to_pylist()',
    "create a namespace": 'catalog.create_namespace("{new_namespace}")',
    "create a table": 'catalog.create_table("{new}", rows.schema)',
    "append": _TABLE + "table.append(rows)",
    "delete": _TABLE + 'table.delete("id = 3")',
    "update": _TABLE + 'table.overwrite(rows.set_column(0, "id", [[3]]), overwrite_filter="id = 3")',
    "merge": _TABLE
    + 'table.upsert(pa.table({{"id": pa.array([3, 10], pa.int64()), "name": ["new"] * 2}}), join_cols=["id"])',
    "add and rename columns": _TABLE
    + "from pyiceberg.types import IntegerType\n"
    + "with table.update_schema() as change:\n"
    + '    change.add_column("more", IntegerType())\n'
    + '    change.rename_column("name", "label")',
    "add a partition field": _TABLE + 'with table.update_spec() as change:\n    change.add_identity("name")',
    "rename a table": 'catalog.rename_table("{t}", "{new}")',
    "drop a table": 'catalog.drop_table("{t}")',
}
_FRAMES = {
    # Polars takes the keys that the catalog gives only for writing.
    "polars": (
        "pl.scan_iceberg(table{at}, storage_options=keys_of(table)).collect()",
        'pl.from_arrow(rows).write_iceberg(table, mode="append")',
    ),
    "daft": ("daft.read_iceberg(table{at}).to_arrow()", 'daft.from_arrow(rows).write_iceberg(table, mode="append")'),
}


def _in_frames(name: str) -> dict[str, str]:
    """Return the operations of a library that opens tables with PyIceberg."""
    read, append = _FRAMES[name]
    ids = {"polars": '["id"].to_list()', "daft": '["id"].to_pylist()'}[name]
    return {
        "read": f"{_TABLE}found = {read.format(at='')}{ids}",
        "read an earlier snapshot": f"{_TABLE}found = {read.format(at=', snapshot_id={snapshot}')}{ids}",
        "append": _TABLE + append,
    }


_SQL = {
    "read": "SELECT id FROM lake.{t}",
    "create a namespace": "CREATE SCHEMA lake.{new_namespace}",
    "create a table": "CREATE TABLE lake.{new} (id bigint, name {string})",
    "create a table as select": "CREATE TABLE lake.{new} AS SELECT id, name FROM lake.{t}",
    "append": "INSERT INTO lake.{t} VALUES (10, 'new')",
    "delete": "DELETE FROM lake.{t} WHERE id = 3",
    "update": "UPDATE lake.{t} SET name = 'new' WHERE id = 3",
    "merge": "MERGE INTO lake.{t} t USING (SELECT * FROM (VALUES (3, 'new'), (10, 'new')) s(id, name)) s "
    "ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)",
    "add and rename columns": "ALTER TABLE lake.{t} ADD COLUMN more int; "
    "ALTER TABLE lake.{t} RENAME COLUMN name TO label",
    "drop a table": "DROP TABLE lake.{t}",
}
_SPARK = {
    **_SQL,
    "read an earlier snapshot": "SELECT id FROM lake.{t} VERSION AS OF {snapshot}",
    "read a tag": "SELECT id FROM lake.{t} VERSION AS OF '{tag}'",
    "add a partition field": "ALTER TABLE lake.{t} ADD PARTITION FIELD name",
    "replace a table": "CREATE OR REPLACE TABLE lake.{t} USING iceberg AS SELECT 1 AS x",
    "rewrite data files": "CALL lake.system.rewrite_data_files(table => '{t}', options => map('rewrite-all', 'true'))",
    "create and read a view": "CREATE VIEW lake.{new} AS SELECT id FROM lake.{t}; SELECT id FROM lake.{new}",
    "rename a table": "ALTER TABLE lake.{t} RENAME TO {new}",
}
_DUCKDB = {
    **_SQL,
    "read an earlier snapshot": "SELECT id FROM lake.{t} AT (VERSION => {snapshot})",
    "rename a table": "ALTER TABLE lake.{t} RENAME TO {new_name}",
    "change two tables in one transaction": "BEGIN; INSERT INTO lake.{t} VALUES (10, 'new'); "
    "INSERT INTO lake.{other} VALUES (10, 'new'); COMMIT",
}
_TRINO = {
    **_SQL,
    "read an earlier snapshot": "SELECT id FROM lake.{t} FOR VERSION AS OF {snapshot}",
    "read a tag": "SELECT id FROM lake.{t} FOR VERSION AS OF '{tag}'",
    "add a partition field": "ALTER TABLE lake.{t} SET PROPERTIES partitioning = ARRAY['name']",
    "replace a table": "CREATE OR REPLACE TABLE lake.{t} AS SELECT 1 AS x",
    "rewrite data files": "ALTER TABLE lake.{t} EXECUTE optimize",
    "create and read a view": "CREATE VIEW lake.{new} AS SELECT id FROM lake.{t}; SELECT id FROM lake.{new}",
    "rename a table": "ALTER TABLE lake.{t} RENAME TO lake.{new}",
}
_FLINK = {
    "read": "SELECT id FROM lake.{t}",
    "read an earlier snapshot": "SELECT id FROM lake.{t} /*+ OPTIONS('snapshot-id' = '{snapshot}') */",
    "read a tag": "SELECT id FROM lake.{t} /*+ OPTIONS('tag' = '{tag}') */",
    "create a namespace": "CREATE DATABASE lake.{new_namespace}",
    "create a table": _SQL["create a table"],
    "create a table as select": _SQL["create a table as select"],
    "append": _SQL["append"],
    "add and rename columns": "ALTER TABLE lake.{t} ADD more int; ALTER TABLE lake.{t} RENAME name TO label",
    "rename a table": "ALTER TABLE lake.{t} RENAME TO {new_name}",
    "drop a table": _SQL["drop a table"],
}
_GO = {
    "read": "read {t}",
    "read an earlier snapshot": "read-snapshot {t} {snapshot}",
    "read a tag": "read-tag {t} {tag}",
    "create a namespace": "create-namespace {new_namespace}",
    "create a table": "create-table {new}",
    "append": "append {t} 10",
    "delete": "delete {t} 3",
    "update": "update {t} 3",
    "add and rename columns": "add-column {t}",
    "add a partition field": "add-partition {t}",
    "rename a table": "rename-table {t} {new}",
    "drop a table": "drop-table {t}",
}
_NOT_IN_RUST = ("delete", "update", "add and rename columns", "add a partition field")
_RUST = {name: command for name, command in _GO.items() if name not in _NOT_IN_RUST} | {"append": "append {t}"}
_OPEN_FLINK = """
import os, pathlib, shutil, pyflink
for jar in "{jars}".split(":"):
    shutil.copy(jar, pathlib.Path(pyflink.__file__).parent / "lib")
from pyflink.table import EnvironmentSettings, TableEnvironment
environment = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
environment.get_config().set("parallelism.default", "1")
options = "'type' = 'iceberg', 'catalog-type' = 'rest', 'cache-enabled' = 'false'"
options += ", 'header.X-Iceberg-Access-Delegation' = 'vended-credentials'"
environment.execute_sql(f"CREATE CATALOG lake WITH ({{options}}, 'uri' = '{address}', 'token' = '{token}')")
def sql(text):
    for one in text.split("; "):
        result = environment.execute_sql(one)
        found = [row[0] for row in result.collect()] if one.startswith("SELECT") else result.wait()
    return found
"""
_OPEN_TRINO = """
import json, urllib.request
def send(address, body=None):
    request = urllib.request.Request(address, body and body.encode(), {{"X-Trino-User": "test"}})
    return json.load(urllib.request.urlopen(request, timeout=120))
def run(text):
    answer, rows = send("{trino}/v1/statement", text), []
    while True:
        if "error" in answer:
            raise OSError(answer["error"]["message"])
        rows += [row[0] for row in answer.get("data", [])]
        if "nextUri" not in answer:
            return rows
        answer = send(answer["nextUri"])
def sql(text):
    return [run(one) for one in text.split("; ")][-1]
"""
_OPEN_SPARK = """
from pyspark.sql import SparkSession
settings = {{
    "spark.jars.packages": "JAR{bucket_jars}",
    "spark.sql.catalog.lake.header.X-Iceberg-Access-Delegation": "vended-credentials",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "rest",
    "spark.sql.catalog.lake.uri": "{address}",
    "spark.sql.catalog.lake.token": "{token}",
    "spark.sql.catalog.lake.cache-enabled": "false",
}}
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
def sql(text):
    return [[row[0] for row in spark.sql(one).collect()] for one in text.split("; ")][-1]
""".replace("JAR", ICEBERG_JAR)
_OPEN_DUCKDB = """
import duckdb, importlib.util, pathlib, tempfile
connection = duckdb.connect(config={{"extension_directory": tempfile.mkdtemp()}})
for name in ("avro", "httpfs", "iceberg"):
    folder = pathlib.Path(importlib.util.find_spec(f"duckdb_extension_{{name}}").origin).parent
    (path,) = folder.rglob("*.duckdb_extension")
    connection.execute(f"INSTALL '{{path}}'; LOAD {{name}}")
connection.execute("ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{address}', TOKEN '{token}')")
def sql(text):
    try:
        return [row[0] for row in connection.execute(text).fetchall()]
    except duckdb.Error:
        if "BEGIN" in text:
            connection.execute("ROLLBACK")
        raise
"""
_EXTENSIONS = tuple(f"duckdb-extension-{name}==1.5.5" for name in ("avro", "httpfs", "iceberg"))

FLINK_JAR = "org.apache.iceberg:iceberg-flink-runtime-2.1:1.11.0"
BUCKET_JAR = "org.apache.iceberg:iceberg-aws-bundle:1.12.0"
"""What Iceberg's Java library needs to open files in a bucket."""

CLIENTS: Mapping[str, Client] = {
    "pyiceberg": _client("PyIceberg", ("pyiceberg[pyarrow]",), _CATALOG, _PYICEBERG, stores=_BOTH),
    "polars": _client(
        "Polars",
        ("polars", "pyiceberg[pyarrow]"),
        "import polars as pl" + _CATALOG + _POLARS_KEYS,
        _in_frames("polars"),
        stores=_BOTH,
    ),
    "daft": _client("Daft", ("daft", "pyiceberg[pyarrow]"), "import daft" + _CATALOG, _in_frames("daft"), stores=_BOTH),
    "duckdb": _client("DuckDB", ("duckdb==1.5.5", *_EXTENSIONS), _OPEN_DUCKDB, _in_sql(_DUCKDB), stores=_BOTH),
    "spark": _client("Spark", ("pyspark>=4.1,<4.2",), _OPEN_SPARK, _in_sql(_SPARK), ICEBERG_JAR, stores=_BOTH),
    "flink": _client(
        "PyFlink",
        ("apache-flink==2.1.3",),
        _OPEN_FLINK,
        _in_sql(_FLINK),
        FLINK_JAR,
        artifacts=(
            FLINK_JAR,
            "org.apache.iceberg:iceberg-aws-bundle:1.11.0",
            *(f"org.apache.hadoop:hadoop-client-{name}:3.4.1" for name in ("api", "runtime")),
        ),
        stores=_BOTH,
    ),
    "go": _program("iceberg-go", _GO),
    "rust": _program("iceberg-rust", _RUST),
    "trino": _client("Trino", ("pip",), _OPEN_TRINO, _in_sql(_TRINO), stores=("bucket",)),
}
