"""Connection snippets for Iceberg REST clients."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mangrove.model.locators import TableLocator

__all__ = ["SPARK_PACKAGE", "IcebergConnection", "render_snippets"]

SPARK_PACKAGE: Final = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
"""The Maven coordinates of the Iceberg runtime for Spark 4.1."""
_TRINO_STORES: Final = {"s3": "native-s3", "gs": "native-gcs", "az": "native-azure", "abfss": "native-azure"}


@dataclass(frozen=True, slots=True)
class IcebergConnection:
    """The REST endpoint for Iceberg clients, and the version that they read."""

    address: str
    uri: str
    """The URI of the lakehouse."""
    version: int | None = None
    """The pinned version; None for the newest."""
    has_token: bool = False

    @property
    def scheme(self) -> str:
        """The URI scheme of the lakehouse's store."""
        return self.uri.partition("://")[0]


def render_snippets(connection: IcebergConnection, table: TableLocator) -> Iterator[tuple[str, str]]:
    """Yield the name of each engine with the text to enter there.

    A lakehouse in memory has none: no other process can open its files.
    """
    if connection.scheme == "memory":
        return
    yield "PyIceberg", _pyiceberg(connection, table)
    yield "DuckDB", _duckdb(connection, table)
    yield "Spark with Iceberg's JAR", _spark(connection, table)
    if connection.scheme in _TRINO_STORES:
        yield "Trino", _trino(connection, table)


def _pyiceberg(connection: IcebergConnection, table: TableLocator) -> str:
    options = [("uri", connection.address)]
    options += [] if connection.version is None else [("warehouse", str(connection.version))]
    options += [("token", "…")] if connection.has_token else []
    arguments = ", ".join(f"{name}={value!r}" for name, value in options)
    return (
        "from pyiceberg.catalog.rest import RestCatalog\n\n"
        f'catalog = RestCatalog("lake", {arguments})\n'
        f"table = catalog.load_table({(table.namespace, table.name)!r})\n"
        "table.scan().to_arrow()"
    )


def _duckdb(connection: IcebergConnection, table: TableLocator) -> str:
    # DuckDB takes a URL here for a database file, which it opens read-only.
    warehouse = "" if connection.version is None else str(connection.version)
    credentials = "TOKEN '…'" if connection.has_token else "AUTHORIZATION_TYPE 'none'"
    return (
        "INSTALL iceberg; LOAD iceberg;\n"
        f"ATTACH {_quote_text(warehouse)} AS lake "
        f"(TYPE iceberg, ENDPOINT {_quote_text(connection.address)}, {credentials});\n"
        f"SELECT * FROM lake.{_quote_name(table.namespace)}.{_quote_name(table.name)};"
    )


def _spark(connection: IcebergConnection, table: TableLocator) -> str:
    catalog = "spark.sql.catalog.lake"
    settings = [
        ("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"),
        (catalog, "org.apache.iceberg.spark.SparkCatalog"),
        (f"{catalog}.type", "rest"),
        (f"{catalog}.uri", connection.address),
    ]
    settings += [] if connection.version is None else [(f"{catalog}.warehouse", str(connection.version))]
    settings += [(f"{catalog}.token", "…")] if connection.has_token else []
    lines = [f"spark-sql --packages {SPARK_PACKAGE}", *(f"  --conf {name}={value}" for name, value in settings)]
    names = ".".join(f"`{part.replace('`', '``')}`" for part in (table.namespace, table.name))
    return " \\\n".join(lines) + f"\n\nSELECT * FROM lake.{names};"


def _trino(connection: IcebergConnection, table: TableLocator) -> str:
    lines = [
        "# etc/catalog/lake.properties",
        "connector.name=iceberg",
        "iceberg.catalog.type=rest",
        f"iceberg.rest-catalog.uri={connection.address}",
        *([] if connection.version is None else [f"iceberg.rest-catalog.warehouse={connection.version}"]),
        *(
            ["iceberg.rest-catalog.security=OAUTH2", "iceberg.rest-catalog.oauth2.token=…"]
            if connection.has_token
            else []
        ),
        f"fs.{_TRINO_STORES[connection.scheme]}.enabled=true",
    ]
    return "\n".join(lines) + f"\n\nSELECT * FROM lake.{_quote_name(table.namespace)}.{_quote_name(table.name)};"


def _quote_text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
