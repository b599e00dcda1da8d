"""Access delegation on Google Cloud Storage: OAuth tokens of a service account, limited to a folder.

The server's own token comes from the key of its service account, or from the metadata server of a machine
in Google Cloud. The token service exchanges it for one with an access boundary (downscoping).
"""

import datetime
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import jwt

from mangrove.errors import InvalidInputError, StorageError
from mangrove.storage.lru import LruCache
from mangrove.storage.uri import RootUri

__all__ = ["GoogleDelegation", "ServiceAccount", "build_google_delegation"]

_VENDED: Final = "vended-credentials"
_SCOPE: Final = "https://www.googleapis.com/auth/devstorage.read_write"
_ASSERTION: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - a name, not a secret
_TOKEN_SERVICE: Final = "https://sts.googleapis.com"  # noqa: S105 - an address, not a secret
_METADATA_HOST: Final = "metadata.google.internal"
_METADATA_PATH: Final = "computeMetadata/v1/instance/service-accounts/default/token"
_SESSION_SECONDS: Final = 3_600
_RENEWAL_SECONDS: Final = 1_800
"""A token is given to clients only if it lasts that long, which is enough for a long query."""
_TIMEOUT_SECONDS: Final = 10
_SESSIONS_MAX: Final = 10_000
_READING: Final = ("inRole:roles/storage.objectViewer",)
_WRITING: Final = (*_READING, "inRole:roles/storage.objectCreator")
"""Without the right to delete, and therefore without the right to overwrite."""


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """The key of a service account."""

    email: str
    private_key: str = field(repr=False)
    token_url: str

    @staticmethod
    def parse(text: str) -> "ServiceAccount":
        """Return the account of a key file."""
        try:
            match json.loads(text):
                case {"client_email": str(email), "private_key": str(key), "token_uri": str(url)}:
                    if urlsplit(url).scheme in ("https", "http"):
                        return ServiceAccount(email, key, url)
        except ValueError:
            pass
        raise InvalidInputError("the key of the service account is invalid; expected the JSON file from Google Cloud")


@dataclass(frozen=True, slots=True)
class _Token:
    text: str = field(repr=False)
    ends_at: datetime.datetime


@dataclass(frozen=True, slots=True)
class GoogleDelegation:
    """How clients get access to files on Google Cloud Storage."""

    mode: str
    bucket: str
    root_path: str
    """The path of the lakehouse in the bucket, which ends in `/` unless it is empty."""
    account: ServiceAccount | None = None
    """The server's account; None on a machine in Google Cloud, whose metadata server has tokens."""
    metadata_host: str = _METADATA_HOST
    token_service: str = _TOKEN_SERVICE
    sessions: LruCache[_Token] = field(default_factory=lambda: LruCache(_SESSIONS_MAX), repr=False)
    """Tokens by folder and right; that of the server has no folder."""

    def build_table_access(
        self, requested: str, folder: str, sign_path: str, *, is_writable: bool, at: datetime.datetime
    ) -> dict[str, Any]:
        """Return the fields of a response that give access to the folder of a table; empty if not `requested`."""
        del sign_path
        if _VENDED not in {one.strip().lower() for one in requested.split(",")}:
            return {}
        prefix = f"{self.root_path}{folder}"
        token = self._load_own_token(at) if self.mode == "static" else self._load_session(prefix, is_writable, at)
        expiry = str(int(token.ends_at.timestamp() * 1_000))
        config = {"gcs.oauth2.token": token.text, "gcs.oauth2.token-expires-at": expiry}
        credential = {"prefix": f"gs://{self.bucket}/{prefix}", "config": config}
        return {"config": config, "storage-credentials": [credential]}

    def _load_session(self, prefix: str, is_writable: bool, at: datetime.datetime) -> _Token:
        cached = self._find_cached((prefix, is_writable), at)
        if cached is not None:
            return cached
        resource = f"projects/_/buckets/{self.bucket}/objects/{prefix}"
        rule = {
            "availableResource": f"//storage.googleapis.com/projects/_/buckets/{self.bucket}",
            "availablePermissions": list(_WRITING if is_writable else _READING),
            "availabilityCondition": {"expression": f"resource.name.startsWith({_quote(resource)})"},
        }
        own = self._load_own_token(at)
        form = {
            "grant_type": _EXCHANGE,
            "subject_token_type": _ACCESS_TOKEN,
            "requested_token_type": _ACCESS_TOKEN,
            "subject_token": own.text,
            "options": json.dumps({"accessBoundary": {"accessBoundaryRules": [rule]}}),
        }
        # The response need not say when the token ends: it ends with the server's.
        found = _request_token(f"{self.token_service.rstrip('/')}/v1/token", form, at, own.ends_at)
        self.sessions.put((prefix, is_writable), found, 1)
        return found

    def _load_own_token(self, at: datetime.datetime) -> _Token:
        cached = self._find_cached(("", True), at)
        if cached is not None:
            return cached
        if self.account is None:
            found = _request_token(f"http://{self.metadata_host}/{_METADATA_PATH}", None, at)
        else:
            found = _request_token(self.account.token_url, self._build_assertion(self.account, at), at)
        self.sessions.put(("", True), found, 1)
        return found

    def _find_cached(self, key: tuple[str, bool], at: datetime.datetime) -> _Token | None:
        cached = self.sessions.get(key)
        is_long = cached is not None and cached.ends_at - at >= datetime.timedelta(seconds=_RENEWAL_SECONDS)
        return cached if is_long else None

    def _build_assertion(self, account: ServiceAccount, at: datetime.datetime) -> dict[str, str]:
        now = int(at.timestamp())
        claims = {
            "iss": account.email,
            "scope": _SCOPE,
            "aud": account.token_url,
            "iat": now,
            "exp": now + _SESSION_SECONDS,
        }
        try:
            return {"grant_type": _ASSERTION, "assertion": jwt.encode(claims, account.private_key, "RS256")}
        except (ValueError, TypeError, jwt.PyJWTError) as error:
            raise InvalidInputError(f"the private key of {account.email} cannot be used ({error})") from error


def _quote(text: str) -> str:
    """Return a text as a literal of the expression language of access boundaries."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _request_token(
    url: str, form: Mapping[str, str] | None, at: datetime.datetime, ends_at_max: datetime.datetime | None = None
) -> _Token:
    body = None if form is None else urlencode(form).encode()
    try:
        # The URL is a setting of the server, never part of a request.
        request = urllib.request.Request(url, body, {"Metadata-Flavor": "Google"} if body is None else {})  # noqa: S310
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:  # noqa: S310
            document = json.loads(response.read())
    except (OSError, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise StorageError(f"{url} returned no token ({error})") from error
    match document:
        case {"access_token": str(text)}:
            seconds = document.get("expires_in", _SESSION_SECONDS)
            ends_at = at + datetime.timedelta(seconds=seconds if isinstance(seconds, int) else _SESSION_SECONDS)
            return _Token(text, ends_at if ends_at_max is None else min(ends_at, ends_at_max))
    raise StorageError(f"the response of {url} has no token")


def build_google_delegation(
    mode: str, root: RootUri, options: Mapping[str, str], environment: Mapping[str, str]
) -> GoogleDelegation:
    """Return the delegation for a lakehouse on Google Cloud Storage.

    The key of the service account is an option (its text or its path) or the file that the environment names.
    """
    text = options.get("service_account_key") or options.get("google_service_account_key")
    places = ("service_account_path", "service_account", "google_service_account", "application_credentials")
    path = next(
        (options[name] for name in places if name in options), environment.get("GOOGLE_APPLICATION_CREDENTIALS")
    )
    if text is None and path is not None:
        try:
            text = Path(path).read_text()
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"the key of the service account cannot be read ({error})") from error
    folder = root.path.strip("/")
    return GoogleDelegation(
        mode,
        root.authority,
        f"{folder}/" if folder else "",
        None if text is None else ServiceAccount.parse(text),
        environment.get("GCE_METADATA_HOST", _METADATA_HOST),
        environment.get("CLOUDSDK_API_ENDPOINT_OVERRIDES_STS", _TOKEN_SERVICE),
    )
