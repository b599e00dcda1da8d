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
_CLIENT_CREDENTIALS: Final = "client_credentials"
_TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - a name, not a secret
_ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - a name, not a secret
_SCOPE_DEFAULT: Final = "catalog"


def handle_token(requested: RestRequest) -> Response:
    """Return the token to a client that has it; a server without a token returns a placeholder.

    A client has it as its secret, or exchanges it for a new one, as clients do to renew a token.
    """
    try:
        fields = dict(parse_qsl(requested.body.decode("ascii"), keep_blank_values=True, max_num_fields=_FIELDS_MAX))
    except ValueError:
        return _respond_oauth_error("invalid_request", "invalid form; send it as application/x-www-form-urlencoded")
    grant, issued = fields.get("grant_type"), {}
    if not grant:
        return _respond_oauth_error("invalid_request", "grant_type is required")
    if grant == _CLIENT_CREDENTIALS:
        secret = fields.get("client_secret") or _secret_of_header(requested.headers)
    elif grant == _TOKEN_EXCHANGE:
        if not fields.get("subject_token") or not fields.get("subject_token_type"):
            return _respond_oauth_error("invalid_request", "subject_token and subject_token_type are required")
        secret, issued = fields["subject_token"], {"issued_token_type": _ACCESS_TOKEN}
    else:
        return _respond_oauth_error(
            "unsupported_grant_type", f"expected grant_type {_CLIENT_CREDENTIALS} or {_TOKEN_EXCHANGE}"
        )
    if requested.served.is_secret is None:
        secret = _NOT_NEEDED
    elif secret is None or not requested.served.is_secret(secret):
        return _respond_oauth_error("invalid_client", "the secret is not a token of this server", 401)
    scope = fields.get("scope") or _SCOPE_DEFAULT
    return _respond_uncached({"access_token": secret, "token_type": "bearer", "scope": scope, **issued})


def _secret_of_header(headers: Mapping[str, str]) -> str | None:
    scheme, _, text = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        _, colon, secret = base64.b64decode(text.strip(), validate=True).decode("utf-8").partition(":")
    except (binascii.Error, ValueError):
        return None
    return unquote(secret) if colon else None


def _respond_oauth_error(error: str, description: str, status: int = 400) -> Response:
    response = _respond_uncached({"error": error, "error_description": description}, status)
    if status == 401:
        response.headers["WWW-Authenticate"] = 'Basic realm="mangrove"'
    return response


def _respond_uncached(document: Mapping[str, str], status: int = 200) -> Response:
    """Return a response that no proxy may store, as OAuth requires."""
    response = respond_json(document, status)
    response.headers["Cache-Control"] = "no-store"
    return response
