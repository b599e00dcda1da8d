"""The command that serves a lakehouse to browsers and to clients of Iceberg's."""

import json
import sys

import click

from mangrove.cli.command import lake_command
from mangrove.cli.extras import check_installed
from mangrove.cli.session import Session

__all__ = ["serve_command"]

_TOKEN_VARIABLE = "MANGROVE_TOKEN"  # noqa: S105 - the name of a variable, not what it holds
"""The environment variable that holds the token of `mangrove serve` where none is given."""


@lake_command(
    "serve",
    "mangrove serve ./lake\n"
    "MANGROVE_TOKEN=... mangrove serve s3://bucket/lake --host 0.0.0.0\n"
    "MANGROVE_TOKEN=... mangrove serve ./lake --writable",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65_535), default=8181, show_default=True, help="0 takes a free one.")
@click.option(
    "--token",
    envvar=_TOKEN_VARIABLE,
    show_envvar=True,
    help="What visitors must show; needed on any address but this machine's own.",
)
@click.option("--writable", is_flag=True, help="Let those who have the token roll back and commit.")
def serve_command(session: Session, lake: str, host: str, port: int, token: str | None, writable: bool) -> None:
    """Show a lakehouse in the browser, until Ctrl-C.

    Clients of Iceberg's REST catalog are served as well, at the address that is told.
    """
    check_installed("the server", ("starlette", "uvicorn"), "server")
    from mangrove.server.serving import serve  # noqa: PLC0415 - only after it is known to be installed

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
        announce=announce,
    )
