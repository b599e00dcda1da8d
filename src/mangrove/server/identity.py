"""Identity tokens (OpenID Connect): verification of JSON Web Tokens by the keys of their issuer.

The keys (JWKS) are loaded from the issuer and cached. A token that names an unknown key makes the
server load them again, at most every 30 seconds, so that foreign tokens do not cause requests.
"""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import jwt

from mangrove.errors import InvalidInputError, StorageError
from mangrove.model.access import TokenIdentity, is_principal_name
from mangrove.server.access import is_loopback

__all__ = ["IdentityProvider", "IdentitySettings"]

_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures by a private key. A shared secret or no signature (`none`) is never accepted."""
_LEEWAY_SECONDS: Final = 60
_KEYS_AGE_MILLIS_MAX: Final = 600_000
_RELOAD_MILLIS_MIN: Final = 30_000
_TIMEOUT_SECONDS: Final = 10
_DOCUMENT_BYTES_MAX: Final = 1_000_000
_TOKEN_CHARACTERS_MAX: Final = 16_000


@dataclass(frozen=True, slots=True)
class IdentitySettings:
    """The issuer whose tokens are accepted, and the claims with the principal and its roles."""

    issuer: str
    audience: str
    keys_url: str | None = None
    """The URL of the keys; by default the one in the issuer's OpenID configuration."""
    principal_claim: str = "sub"
    roles_claim: str = "roles"
    """Claims inside others are named with dots: `realm_access.roles`."""

    def __post_init__(self) -> None:
        for url in filter(None, (self.issuer, self.keys_url)):
            _check_url(url)
        if not self.audience:
            raise InvalidInputError("an issuer of tokens requires an audience: give --oidc-audience")


def _check_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    except ValueError:
        is_valid = False
    if not is_valid:
        raise InvalidInputError(f"{url[:200]!r} is not a URL of an issuer of tokens; expected https://…")
    return url


class IdentityProvider:
    """Verifies tokens of one issuer. Threads share it."""

    def __init__(self, settings: IdentitySettings, now_millis: Callable[[], int]) -> None:
        self._settings = settings
        self._now_millis = now_millis
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._loaded_at_millis: int | None = None
        self._lock = threading.Lock()

    def verify(self, token: str) -> TokenIdentity | None:
        """Return whose token it is, or None if it is not a valid token of the issuer.

        Raise StorageError if the keys cannot be loaded: the token is then neither right nor wrong.
        """
        if token.count(".") != 2 or len(token) > _TOKEN_CHARACTERS_MAX:
            return None
        try:
            header = jwt.get_unverified_header(token)
            key = self._find_key(header.get("kid")) if header.get("alg") in _ALGORITHMS else None
            if key is None:
                return None
            claims = jwt.decode(
                token,
                key,
                algorithms=_ALGORITHMS,
                issuer=self._settings.issuer,
                audience=self._settings.audience,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.PyJWTError:
            return None
        return self._read_claims(claims)

    def _read_claims(self, claims: dict[str, Any]) -> TokenIdentity | None:
        name, roles = (_find_claim(claims, one) for one in (self._settings.principal_claim, self._settings.roles_claim))
        if not isinstance(name, str) or not is_principal_name(name):
            return None
        listed = roles.split() if isinstance(roles, str) else roles if isinstance(roles, list) else []
        return TokenIdentity(name, frozenset(one for one in listed if isinstance(one, str)))

    def _find_key(self, key_id: str | None) -> jwt.PyJWK | None:
        with self._lock:
            age = None if self._loaded_at_millis is None else self._now_millis() - self._loaded_at_millis
            is_old = age is None or age >= _KEYS_AGE_MILLIS_MAX
            if is_old or (key_id not in self._keys and age is not None and age >= _RELOAD_MILLIS_MIN):
                self._reload_keys(key_id)
            return self._keys.get(key_id)

    def _reload_keys(self, key_id: str | None) -> None:
        """Load the keys; while the issuer does not respond, known keys stay valid, and loading is seldom repeated."""
        try:
            self._keys = self._load_keys()
            self._loaded_at_millis = self._now_millis()
        except StorageError:
            if key_id not in self._keys:
                raise
            self._loaded_at_millis = self._now_millis() - _KEYS_AGE_MILLIS_MAX + _RELOAD_MILLIS_MIN

    def _load_keys(self) -> dict[str | None, jwt.PyJWK]:
        url = self._settings.keys_url or self._discover_keys_url()
        try:
            keys = jwt.PyJWKSet.from_dict(_load_json(url)).keys
        except (jwt.PyJWTError, KeyError, TypeError, AttributeError) as error:
            raise StorageError(f"{url} has no keys for tokens ({error})") from error
        signing = [one for one in keys if one.public_key_use in (None, "sig")]
        by_id: dict[str | None, jwt.PyJWK] = {one.key_id: one for one in signing}
        # A token need not name its key if the issuer has only one.
        return {**by_id, None: signing[0]} if len(signing) == 1 else by_id

    def _discover_keys_url(self) -> str:
        issuer = self._settings.issuer
        document = _load_json(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        url = document.get("jwks_uri")
        if document.get("issuer") != issuer or not isinstance(url, str):
            raise StorageError(f"the OpenID configuration of {issuer} is that of another issuer, or has no jwks_uri")
        return _check_url(url)


def _find_claim(claims: dict[str, Any], path: str) -> object:
    """Return a claim by its name, or by its path inside other claims."""
    if path in claims:
        return claims[path]
    found: object = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _load_json(url: str) -> dict[str, Any]:
    try:
        # The URL is a setting of the server or from the issuer, never part of a request; its scheme is checked.
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response:  # noqa: S310
            document = json.loads(response.read(_DOCUMENT_BYTES_MAX))
    except (OSError, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise StorageError(f"{url} cannot be loaded ({error})") from error
    if not isinstance(document, dict):
        raise StorageError(f"{url} is not a JSON object")
    return document
