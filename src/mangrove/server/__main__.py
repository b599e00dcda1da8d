"""The command that serves a lakehouse: `python -m mangrove.server URI`."""

import argparse
import sys

from mangrove.errors import InvalidInputError, MangroveError
from mangrove.server.serving import serve

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Serve until stopped; return 0, 1 where the lakehouse could not be opened, 2 where the call was wrong."""
    parser = argparse.ArgumentParser(prog="mangrove serve", description="Show a lakehouse in the browser.")
    parser.add_argument("uri", help="where the lakehouse lies, as in file:///data/lake or s3://bucket/lake")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8181, help="the port; 0 takes a free one (default: %(default)s)")
    parser.add_argument("--token", help="what visitors must show; needed on any address but a loopback one")
    parser.add_argument("--writable", action="store_true", help="let those who have the token roll back and commit")
    given = parser.parse_args(arguments)
    try:
        serve(
            given.uri,
            host=given.host,
            port=given.port,
            token=given.token,
            is_writable=given.writable,
            announce=_announce,
        )
    except MangroveError as error:
        sys.stderr.write(f"{error}\n")
        return 2 if isinstance(error, InvalidInputError) else 1
    return 0


def _announce(address: str, iceberg_address: str | None) -> None:
    sys.stdout.write(f"Open {address} in a browser; Ctrl-C stops the server.\n")
    if iceberg_address is not None:
        sys.stdout.write(f"Clients of Iceberg's REST catalog connect to {iceberg_address}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
