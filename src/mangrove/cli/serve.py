"""The serve command, which serves a lakehouse over HTTP."""

import json
import os
import sys

import click

from mangrove.cli.command import lake_command
from mangrove.cli.context import CommandContext
from mangrove.errors import InvalidInputError
from mangrove.rest.delegation import DELEGATION_MODES, build_delegation
from mangrove.rest.settings import RestSettings
from mangrove.server.identity import IdentitySettings
from mangrove.server.serving import certificate_of, serve

__all__ = ["serve_command"]

_TOKEN_VARIABLE = "MANGROVE_TOKEN"  # noqa: S105 - the name of a variable, not a token
"""Environment variable with the default token of `mangrove serve`."""


@lake_command(
    "serve",
    "mangrove serve ./lake\n"
    "MANGROVE_TOKEN=... mangrove serve s3://bucket/lake --host 0.0.0.0 \\\n"
    "    --tls-cert cert.pem --tls-key key.pem\n"
    "MANGROVE_TOKEN=... mangrove serve ./lake --writable",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=8181, show_default=True, help="Port; 0 picks a free one."
)
@click.option(
    "--token",
    envvar=_TOKEN_VARIABLE,
    show_envvar=True,
    help="Access token of at least 16 characters; required unless listening on a loopback address.",
)
@click.option("--writable", is_flag=True, help="Allow rollbacks and commits with the token.")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Processes that answer requests.")
@click.option("--tls-cert", metavar="FILE", help="PEM file with the TLS certificate chain.")
@click.option("--tls-key", metavar="FILE", help="PEM file with the private key of the certificate.")
@click.option(
    "--max-connections-per-peer",
    type=click.IntRange(1),
    metavar="COUNT",
    help="Maximum number of open connections per client address; default 128.",
)
@click.option(
    "--max-wrong-tokens",
    type=click.IntRange(0),
    metavar="COUNT",
    help="Wrong tokens per client address before it is throttled; default 10, 0 disables the limit.",
)
@click.option(
    "--warehouse",
    "warehouses",
    multiple=True,
    metavar="NAME",
    help="Warehouse name under which Iceberg clients find the newest version; repeatable.",
)
@click.option(
    "--access-delegation",
    type=click.Choice(DELEGATION_MODES),
    help="How Iceberg clients without keys of their own get access to files: static; sts, remote-signing (S3); "
    "sas (Azure); downscoped (Google Cloud Storage).",
)
@click.option("--sts-role", metavar="ARN", help="Role whose temporary keys clients get, for the delegation sts.")
@click.option("--oidc-issuer", metavar="URL", help="Issuer of identity tokens (OpenID Connect) that are accepted.")
@click.option("--oidc-audience", metavar="TEXT", help="Audience that identity tokens must have.")
@click.option(
    "--oidc-keys", metavar="URL", help="URL of the issuer's keys (JWKS); default: in its OpenID configuration."
)
@click.option(
    "--oidc-principal-claim", metavar="CLAIM", default="sub", show_default=True, help="Claim with the principal's name."
)
@click.option(
    "--oidc-roles-claim", metavar="CLAIM", default="roles", show_default=True, help="Claim with the roles, as a list."
)
def serve_command(
    session: CommandContext,
    lake: str,
    host: str,
    port: int,
    token: str | None,
    writable: bool,
    workers: int,
    tls_cert: str | None,
    tls_key: str | None,
    max_connections_per_peer: int | None,
    max_wrong_tokens: int | None,
    warehouses: tuple[str, ...],
    access_delegation: str | None,
    sts_role: str | None,
    oidc_issuer: str | None,
    oidc_audience: str | None,
    oidc_keys: str | None,
    oidc_principal_claim: str,
    oidc_roles_claim: str,
) -> None:
    """Serve the explorer and the Iceberg REST catalog over HTTP.

    Prints the addresses of both. Ctrl-C stops the server.
    """

    def announce(address: str, publish_iceberg_state: str | None) -> None:
        text = f"Explorer: {address} (Ctrl-C stops the server)"
        if publish_iceberg_state is not None:
            text += f"\nIceberg REST catalog: {publish_iceberg_state}"
        addresses = json.dumps({"address": address, "iceberg": publish_iceberg_state})
        sys.stdout.write((addresses if session.as_json else text) + "\n")
        sys.stdout.flush()

    uri = session.store(lake).uri
    serve(
        uri,
        host=host,
        port=port,
        token=token,
        is_writable=writable,
        storage_options=session.storage_options,
        cache=session.cache,
        certificate=certificate_of(tls_cert, tls_key),
        connections_per_peer_max=max_connections_per_peer,
        wrong_tokens_max=max_wrong_tokens,
        rest_settings=RestSettings(
            warehouses, build_delegation(access_delegation, uri, session.storage_options, os.environ, sts_role)
        ),
        workers=workers,
        identity=_identity_of(oidc_issuer, oidc_audience, oidc_keys, oidc_principal_claim, oidc_roles_claim),
        announce=announce,
    )


def _identity_of(
    issuer: str | None, audience: str | None, keys_url: str | None, principal_claim: str, roles_claim: str
) -> IdentitySettings | None:
    if issuer is None:
        if audience is not None or keys_url is not None:
            raise InvalidInputError("--oidc-audience and --oidc-keys require --oidc-issuer")
        return None
    return IdentitySettings(issuer, audience or "", keys_url, principal_claim, roles_claim)
