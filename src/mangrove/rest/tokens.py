"""Giving a token to clients that ask for one first, as those do that are configured with a `credential`.

There is one token, which whoever started the server chose. The secret of a
client is that token, and so it gets back what it already has.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, unquote

from starlette.responses import Response

from mangrove.rest.asked import Asked
from mangrove.rest.catalog_answers import answered

__all__ = ["TOKENS", "token_answer"]

TOKENS: Final = "/v1/oauth/tokens"
_FIELDS_MAX: Final = 20
_NOT_NEEDED: Final = "none-is-needed"


def token_answer(asked: Asked) -> Response:
    """Return the token to who has it; on a server that asks for none, to anybody a text that does as well."""
    try:
        fields = dict(parse_qsl(asked.body.decode("ascii"), keep_blank_values=True, max_num_fields=_FIELDS_MAX))
    except ValueError:
        return _refused(400, "invalid_request", "the form cannot be read: send it as application/x-www-form-urlencoded")
    if fields.get("grant_type") != "client_credentials":
        return _refused(400, "unsupported_grant_type", "only client_credentials are taken here: give a credential")
    if asked.served.is_secret is None:
        return _given(_NOT_NEEDED)
    secret = fields.get("client_secret") or _secret_of_header(asked.headers)
    if secret is None or not asked.served.is_secret(secret):
        return _refused(401, "invalid_client", "the client's secret is not the token of this server: give that")
    return _given(secret)


def _given(token: str) -> Response:
    return answered({"access_token": token, "token_type": "bearer", "scope": "catalog"})


def _secret_of_header(headers: Mapping[str, str]) -> str | None:
    scheme, _, text = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        _, colon, secret = base64.b64decode(text.strip(), validate=True).decode("utf-8").partition(":")
    except (binascii.Error, ValueError):
        return None
    return unquote(secret) if colon else None


def _refused(status: int, word: str, sentence: str) -> Response:
    return answered({"error": word, "error_description": sentence}, status)
