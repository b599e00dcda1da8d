"""The systems of the comparison: how each is installed and which adapter drives it."""

from collections.abc import Mapping
from dataclasses import dataclass

_ADAPTERS = "benchmarks.peers.systems"


@dataclass(frozen=True, slots=True)
class System:
    """One system: its adapter and its environment."""

    title: str
    adapter: str
    """`module:class` of the adapter."""
    requirements: tuple[str, ...]
    """Arguments of `uv pip install`, run in the root of the repository."""
    versions: tuple[str, ...]
    """The packages whose versions the report lists."""
    environment: str
    """The folder of the environment below `.build/peers`."""


# The newest DuckDB whose extensions are packaged.
_DUCKDB = (
    "duckdb==1.5.5",
    "duckdb-extension-ducklake==1.5.5",
    "duckdb-extension-httpfs==1.5.5",
    "duckdb-extension-postgres-scanner==1.5.5",
    "pgserver",
    "pyarrow",
)
# The newest Spark for which Iceberg has a JAR.
_SPARK = ("pyspark>=4.1,<4.2", "--editable", ".[spark]")


def _install(title: str, adapter: str, requirements: tuple[str, ...], *versions: str) -> System:
    return System(title, f"{_ADAPTERS}.{adapter}", requirements, versions, versions[0])


SYSTEMS: Mapping[str, System] = {
    "parquet": _install("bare Parquet", "bare_parquet:BareParquet", ("pyarrow",), "pyarrow"),
    "mangrove": _install("Mangrove", "mangrove_local:MangroveLocal", ("--editable", "."), "mangrove-lake"),
    "lance": _install("Lance", "lance_tables:LanceTables", ("pylance", "pyarrow"), "pylance"),
    "delta": _install("delta-rs", "delta_rs:DeltaRs", ("deltalake", "pyarrow"), "deltalake"),
    "ducklake": _install("DuckLake", "ducklake:DuckLake", _DUCKDB, "duckdb", "duckdb-extension-ducklake"),
    "ducklake-postgres": _install("DuckLake on PostgreSQL", "ducklake:DuckLakePostgres", _DUCKDB, "duckdb", "pgserver"),
    "pyiceberg": _install("PyIceberg", "py_iceberg:PyIceberg", ("pyiceberg[sql-sqlite,pyarrow]",), "pyiceberg"),
    "icechunk": _install("Icechunk", "icechunk_arrays:IcechunkArrays", ("icechunk", "zarr", "pyarrow"), "icechunk"),
    "spark-parquet": _install("bare Parquet", "spark_tables:SparkParquet", _SPARK, "pyspark"),
    "spark-mangrove": _install("Mangrove", "spark_tables:SparkMangrove", _SPARK, "pyspark", "mangrove-lake"),
    "spark-delta": _install("Delta", "spark_tables:SparkDelta", _SPARK, "pyspark"),
    "spark-iceberg": _install("Iceberg", "spark_tables:SparkIceberg", _SPARK, "pyspark"),
}
