"""The systems of the comparison: how each is installed and which adapter drives it."""

from collections.abc import Mapping
from dataclasses import dataclass

_ADAPTERS = "benchmarks.peers.systems"


@dataclass(frozen=True, slots=True)
class System:
    """One system; without requirements it runs in the environment of the project."""

    title: str
    adapter: str
    """`module:class` of the adapter."""
    requirements: tuple[str, ...] = ()
    versions: tuple[str, ...] = ("pyarrow",)
    """The packages whose versions the report lists."""


# The newest DuckDB whose extensions are packaged.
_DUCKDB = (
    "duckdb==1.5.5",
    "duckdb-extension-ducklake==1.5.5",
    "duckdb-extension-httpfs==1.5.5",
    "duckdb-extension-postgres-scanner==1.5.5",
)

SYSTEMS: Mapping[str, System] = {
    "parquet": System("bare Parquet", f"{_ADAPTERS}.bare_parquet:BareParquet"),
    "mangrove": System("Mangrove", f"{_ADAPTERS}.mangrove_local:MangroveLocal", versions=("mangrove-lake",)),
    "lance": System("Lance", f"{_ADAPTERS}.lance_tables:LanceTables", ("pylance", "pyarrow"), ("pylance",)),
    "delta": System("delta-rs", f"{_ADAPTERS}.delta_rs:DeltaRs", ("deltalake", "pyarrow"), ("deltalake",)),
    "ducklake": System("DuckLake", f"{_ADAPTERS}.ducklake:DuckLake", (*_DUCKDB, "pyarrow"), _DUCKDB[:1]),
    "ducklake-postgres": System(
        "DuckLake on PostgreSQL",
        f"{_ADAPTERS}.ducklake:DuckLakePostgres",
        (*_DUCKDB, "pyarrow", "pgserver"),
        (*_DUCKDB[:1], "pgserver"),
    ),
    "pyiceberg": System(
        "PyIceberg", f"{_ADAPTERS}.py_iceberg:PyIceberg", ("pyiceberg[sql-sqlite,pyarrow]",), ("pyiceberg",)
    ),
    "icechunk": System(
        "Icechunk", f"{_ADAPTERS}.icechunk_arrays:IcechunkArrays", ("icechunk", "zarr", "pyarrow"), ("icechunk",)
    ),
}
