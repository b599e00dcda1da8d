"""Connection snippets for Iceberg REST clients."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mangrove.model.locators import TableLocator
from mangrove.web.html import Element, element
from mangrove.web.pages.pieces import note, section

__all__ = ["SPARK_PACKAGE", "IcebergConnection", "render_connect_section", "render_snippets"]

SPARK_PACKAGE: Final = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
"""What Spark 4.1 loads to speak to an Iceberg catalog."""
_TRINO_STORES: Final = {"s3": "native-s3", "gs": "native-gcs", "az": "native-azure", "abfss": "native-azure"}


@dataclass(frozen=True, slots=True)
class IcebergConnection:
    """Where clients of Iceberg's connect, and which state of the lakehouse they are to see."""

    address: str
    uri: str
    """Of the lakehouse."""
    version: int | None = None
    """The version that is looked at; None for whichever is newest."""
    has_token: bool = False

    @property
    def scheme(self) -> str:
        """What kind of store the lakehouse lies in."""
        return self.uri.partition("://")[0]


def render_connect_section(where: IcebergConnection, table: TableLocator) -> Element | None:
    """Return the part of a page; nothing for a lakehouse in memory, whose files no other process can open."""
    if where.scheme == "memory":
        return None
    told = "This server's token stands where the dots are. " if where.has_token else ""
    return section(
        "Open elsewhere",
        note(f"{told}A click selects a text. Who reads needs access to the files, too."),
        (
            element("details", element("summary", name), element("pre", text, class_="snippet", tabindex=0))
            for name, text in render_snippets(where, table)
        ),
    )


def render_snippets(where: IcebergConnection, table: TableLocator) -> Iterator[tuple[str, str]]:
    """Yield the names of engines with what is typed there."""
    yield "PyIceberg", _pyiceberg(where, table)
    yield "DuckDB", _duckdb(where, table)
    yield "Spark with Iceberg's JAR", _spark(where, table)
    if where.scheme in _TRINO_STORES:
        yield "Trino", _trino(where, table)


def _pyiceberg(where: IcebergConnection, table: TableLocator) -> str:
    given = [("uri", where.address)]
    given += [] if where.version is None else [("warehouse", str(where.version))]
    given += [("token", "…")] if where.has_token else []
    arguments = ", ".join(f"{name}={value!r}" for name, value in given)
    return (
        "from pyiceberg.catalog.rest import RestCatalog\n\n"
        f'catalog = RestCatalog("lake", {arguments})\n'
        f"table = catalog.load_table({(table.namespace, table.name)!r})\n"
        "table.scan().to_arrow()"
    )


def _duckdb(where: IcebergConnection, table: TableLocator) -> str:
    # An address in its place would be taken for a file that is only read.
    warehouse = "" if where.version is None else str(where.version)
    shown = "TOKEN '…'" if where.has_token else "AUTHORIZATION_TYPE 'none'"
    return (
        "INSTALL iceberg; LOAD iceberg;\n"
        f"ATTACH {_text(warehouse)} AS lake (TYPE iceberg, ENDPOINT {_text(where.address)}, {shown});\n"
        f"SELECT * FROM lake.{_quote(table.namespace)}.{_quote(table.name)};"
    )


def _spark(where: IcebergConnection, table: TableLocator) -> str:
    catalog = "spark.sql.catalog.lake"
    settings = [
        ("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"),
        (catalog, "org.apache.iceberg.spark.SparkCatalog"),
        (f"{catalog}.type", "rest"),
        (f"{catalog}.uri", where.address),
    ]
    settings += [] if where.version is None else [(f"{catalog}.warehouse", str(where.version))]
    settings += [(f"{catalog}.token", "…")] if where.has_token else []
    lines = [f"spark-sql --packages {SPARK_PACKAGE}", *(f"  --conf {name}={value}" for name, value in settings)]
    names = ".".join(f"`{part.replace('`', '``')}`" for part in (table.namespace, table.name))
    return " \\\n".join(lines) + f"\n\nSELECT * FROM lake.{names};"


def _trino(where: IcebergConnection, table: TableLocator) -> str:
    lines = [
        "# etc/catalog/lake.properties",
        "connector.name=iceberg",
        "iceberg.catalog.type=rest",
        f"iceberg.rest-catalog.uri={where.address}",
        *([] if where.version is None else [f"iceberg.rest-catalog.warehouse={where.version}"]),
        *(["iceberg.rest-catalog.security=OAUTH2", "iceberg.rest-catalog.oauth2.token=…"] if where.has_token else []),
        f"fs.{_TRINO_STORES[where.scheme]}.enabled=true",
    ]
    return "\n".join(lines) + f"\n\nSELECT * FROM lake.{_quote(table.namespace)}.{_quote(table.name)};"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
