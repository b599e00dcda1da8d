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
    jar: str = ""
    """The coordinates of the JAR from Maven Central that Spark loads."""

    @property
    def jar_version(self) -> dict[str, str]:
        """The name and the version of the JAR, if there is one."""
        _, name, version = self.jar.split(":") if self.jar else ("", "", "")
        return {name: version} if name else {}


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
DELTA_JAR = "io.delta:delta-spark_4.1_2.13:4.4.0"
ICEBERG_JAR = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"


def _install(title: str, adapter: str, requirements: tuple[str, ...], *versions: str, jar: str = "") -> System:
    return System(title, f"{_ADAPTERS}.{adapter}", requirements, versions, versions[0], jar)


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
    "spark-delta": _install("Delta", "spark_tables:SparkDelta", _SPARK, "pyspark", jar=DELTA_JAR),
    "spark-iceberg": _install("Iceberg", "spark_tables:SparkIceberg", _SPARK, "pyspark", jar=ICEBERG_JAR),
}
