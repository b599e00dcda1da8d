"""OAuth token endpoint for Iceberg clients.

The client secret is the server's token or that of a principal, and the endpoint returns it
unchanged.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, unquote

from starlette.responses import Response

from mangrove.rest.namespaces import respond_json
from mangrove.rest.request import RestRequest

__all__ = ["TOKENS_PATH", "handle_token"]

TOKENS_PATH: Final = "/v1/oauth/tokens"
_FIELDS_MAX: Final = 20
_NOT_NEEDED: Final = "none-is-needed"


def handle_token(requested: RestRequest) -> Response:
    """Return the token to a client that has it; a server without a token returns a placeholder."""
    try:
        fields = dict(parse_qsl(requested.body.decode("ascii"), keep_blank_values=True, max_num_fields=_FIELDS_MAX))
    except ValueError:
        return _respond_oauth_error(
            400, "invalid_request", "invalid form; send it as application/x-www-form-urlencoded"
        )
    if fields.get("grant_type") != "client_credentials":
        return _respond_oauth_error(
            400, "unsupported_grant_type", "unsupported grant type; expected client_credentials"
        )
    if requested.served.is_secret is None:
        return _respond_token(_NOT_NEEDED)
    secret = fields.get("client_secret") or _secret_of_header(requested.headers)
    if secret is None or not requested.served.is_secret(secret):
        return _respond_oauth_error(401, "invalid_client", "the client secret is not a token of this server")
    return _respond_token(secret)


def _respond_token(token: str) -> Response:
    return respond_json({"access_token": token, "token_type": "bearer", "scope": "catalog"})


def _secret_of_header(headers: Mapping[str, str]) -> str | None:
    scheme, _, text = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        _, colon, secret = base64.b64decode(text.strip(), validate=True).decode("utf-8").partition(":")
    except (binascii.Error, ValueError):
        return None
    return unquote(secret) if colon else None


def _respond_oauth_error(status: int, error: str, description: str) -> Response:
    return respond_json({"error": error, "error_description": description}, status)
