"""Command `python -m mangrove.server`, which serves one lakehouse."""

import argparse
import sys

from mangrove.errors import InvalidInputError, MangroveError
from mangrove.server.serving import certificate_of, serve

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Serve until stopped; return 0, 1 if the lakehouse cannot be opened, or 2 for wrong arguments."""
    parser = argparse.ArgumentParser(
        prog="mangrove serve", description="Serve the explorer and the Iceberg REST catalog of a lakehouse."
    )
    parser.add_argument("uri", help="URI of the lakehouse, as in file:///data/lake or s3://bucket/lake")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8181, help="port; 0 chooses a free one (default: %(default)s)")
    parser.add_argument("--token", help="token that clients must send; required except on a loopback address")
    parser.add_argument("--writable", action="store_true", help="let clients with the token roll back and commit")
    parser.add_argument("--tls-cert", metavar="FILE", help="PEM file of the TLS certificate with its chain")
    parser.add_argument("--tls-key", metavar="FILE", help="PEM file of the certificate's private key")
    parser.add_argument(
        "--max-connections-per-peer", type=int, metavar="COUNT", help="open connections from one address (default: 128)"
    )
    parser.add_argument(
        "--max-wrong-tokens",
        type=int,
        metavar="COUNT",
        help="wrong tokens from one address before it must wait (default: 10)",
    )
    given = parser.parse_args(arguments)
    try:
        serve(
            given.uri,
            host=given.host,
            port=given.port,
            token=given.token,
            is_writable=given.writable,
            certificate=certificate_of(given.tls_cert, given.tls_key),
            connections_per_peer_max=given.max_connections_per_peer,
            wrong_tokens_max=given.max_wrong_tokens,
            announce=_announce,
        )
    except MangroveError as error:
        sys.stderr.write(f"{error}\n")
        return 2 if isinstance(error, InvalidInputError) else 1
    return 0


def _announce(address: str, publish_iceberg_state: str | None) -> None:
    sys.stdout.write(f"Explorer: {address} (Ctrl-C stops the server)\n")
    if publish_iceberg_state is not None:
        sys.stdout.write(f"Iceberg REST catalog: {publish_iceberg_state}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
