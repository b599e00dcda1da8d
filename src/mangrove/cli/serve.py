"""Commands that serve a lakehouse over HTTP and publish Iceberg metadata."""

import json
import sys

import click

from mangrove.cli.command import LocalEngines, check_installed, lake_command, open_as_of
from mangrove.cli.completion import offer_tables
from mangrove.cli.context import CommandContext

__all__ = ["iceberg_command", "serve_command"]

_TOKEN_VARIABLE = "MANGROVE_TOKEN"  # noqa: S105 - the name of a variable, not what it holds
"""The environment variable that holds the token of `mangrove serve` where none is given."""


@lake_command(
    "serve",
    "mangrove serve ./lake\n"
    "MANGROVE_TOKEN=... mangrove serve s3://bucket/lake --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem\n"
    "MANGROVE_TOKEN=... mangrove serve ./lake --writable",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65_535), default=8181, show_default=True, help="0 takes a free one.")
@click.option(
    "--token",
    envvar=_TOKEN_VARIABLE,
    show_envvar=True,
    help="What visitors must show, 16 characters or more; needed on any address but this machine's own.",
)
@click.option("--writable", is_flag=True, help="Let those who have the token roll back and commit.")
@click.option("--tls-cert", metavar="FILE", help="PEM file of the TLS certificate with its chain.")
@click.option("--tls-key", metavar="FILE", help="PEM file of the certificate's private key.")
@click.option(
    "--max-connections-per-peer",
    type=click.IntRange(1),
    metavar="COUNT",
    help="Open connections from one address; 128 unless set.",
)
@click.option(
    "--max-wrong-tokens",
    type=click.IntRange(0),
    metavar="COUNT",
    help="Wrong tokens from one address before it must wait; 10 unless set, 0: no limit.",
)
def serve_command(
    session: CommandContext,
    lake: str,
    host: str,
    port: int,
    token: str | None,
    writable: bool,
    tls_cert: str | None,
    tls_key: str | None,
    max_connections_per_peer: int | None,
    max_wrong_tokens: int | None,
) -> None:
    """Show a lakehouse in the browser, until Ctrl-C.

    Clients of Iceberg's REST catalog are served as well, at the address that is told.
    """
    check_installed("the server", ("jinja2", "prometheus_client", "starlette", "uvicorn"), "server")
    from mangrove.server.serving import certificate_of, serve  # noqa: PLC0415 - only after it is known to be installed

    def announce(address: str, iceberg_address: str | None) -> None:
        said = f"Open {address} in a browser; Ctrl-C stops the server."
        if iceberg_address is not None:
            said += f"\nClients of Iceberg's REST catalog connect to {iceberg_address}"
        told = json.dumps({"address": address, "iceberg": iceberg_address})
        sys.stdout.write((told if session.as_json else said) + "\n")
        sys.stdout.flush()

    serve(
        session.store(lake).uri,
        host=host,
        port=port,
        token=token,
        is_writable=writable,
        storage_options=session.storage_options,
        cache=session.cache,
        certificate=certificate_of(tls_cert, tls_key),
        connections_per_peer_max=max_connections_per_peer,
        wrong_tokens_max=max_wrong_tokens,
        announce=announce,
    )


@lake_command("iceberg", "mangrove iceberg ./lake sales.orders")
@click.argument("table", shell_complete=offer_tables)
@click.option("--at", metavar="WHEN", help="As of a version, a time or the name of an export.")
def iceberg_command(session: CommandContext, lake: str, table: str, at: str | None) -> None:
    """Show a table to engines that read Iceberg: print the address of a metadata file.

    It shows the table as it is now, or was then. What it leads to is written where it is
    missing; rows stay where they are.
    """
    check_installed("mangrove iceberg", ["pyiceberg"], "iceberg")
    catalog = open_as_of(session.open(lake, LocalEngines), at)
    found = catalog.table(table)
    with session.watching("showing"):
        address = found.iceberg()
    session.answer(
        {"table": str(found), "version": catalog.version, "metadata": address},
        # Each on a line of its own, so that a shell takes the first.
        lambda: f"{address}\nopen it: StaticTable.from_metadata(…) of PyIceberg, iceberg_scan('…') of DuckDB",
    )
