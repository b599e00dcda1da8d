"""Access delegation on S3: keys of the server or of a role, and signed requests."""

import datetime
import hashlib
import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urlencode, urlsplit

from mangrove.errors import InvalidInputError, StorageError
from mangrove.rest.sigv4 import UNSIGNED_PAYLOAD, AwsKeys, sign_request
from mangrove.storage.cloud_client import load_profile_options
from mangrove.storage.lru import LruCache
from mangrove.storage.uri import RootUri

__all__ = ["S3Delegation", "SignRequest", "build_s3_delegation"]

_VENDED: Final = "vended-credentials"
_SIGNING: Final = "remote-signing"
_REGION_DEFAULT: Final = "us-east-1"
_SESSION_SECONDS: Final = 3_600
_RENEWAL_SECONDS: Final = 600
"""Temporary keys are handed out for this long; then they still last for a long query."""
_STS_TIMEOUT_SECONDS: Final = 10
_SESSIONS_MAX: Final = 10_000
_READING: Final = ("GET", "HEAD")
_PART: Final = r"(?:x-id=\w+&)?(?:partNumber=\d+&uploadId=[^&]+|uploadId=[^&]+&partNumber=\d+)(?:&x-id=\w+)?"
_UPLOADS: Final = {
    "PUT": re.compile(rf"|x-id=PutObject|{_PART}"),
    "POST": re.compile(r"uploads=?(?:&x-id=\w+)?|uploadId=[^&]+(?:&x-id=\w+)?"),
}
"""The queries of uploads by method; with other ones a PUT may change rights, and a POST may delete many files."""
_SIGNED_HEADER: Final = re.compile(
    r"host|content-(?:disposition|encoding|language|md5|type)|cache-control|amz-sdk-[a-z-]+"
    r"|x-amz-(?:content-sha256|date|decoded-content-length|sdk-checksum-algorithm|storage-class|trailer)"
    r"|x-amz-checksum-[a-z0-9-]+|x-amz-server-side-encryption[a-z0-9-]*"
)
"""The headers that are signed. S3 requires signatures of its own headers, such as the source of a copy."""


@dataclass(frozen=True, slots=True)
class SignRequest:
    """A request to S3 that a client wants to have signed."""

    method: str
    region: str
    uri: str
    headers: Mapping[str, str]
    """Values by lower-case header name."""

    @staticmethod
    def parse(document: Mapping[str, Any]) -> "SignRequest":
        """Return the request that a client sent."""
        match document:
            case {"method": str(method), "region": str(region), "uri": str(uri), "headers": dict(given)}:
                lists = [values if isinstance(values, list) else [values] for values in given.values()]
                headers = {
                    str(name).lower(): ",".join(map(str, values)) for name, values in zip(given, lists, strict=True)
                }
                if uri.isprintable() and _is_valid_uri(uri):
                    return SignRequest(method.upper(), region, uri, headers)
        raise InvalidInputError("invalid request for a signature; send method, region, uri and headers")


@dataclass(frozen=True, slots=True)
class S3Delegation:
    """How clients get access to files on S3, and the keys of the server."""

    mode: str
    bucket: str
    root_path: str
    """The path of the lakehouse in the bucket, which ends in `/` unless it is empty."""
    keys: AwsKeys
    region: str = _REGION_DEFAULT
    endpoint: str | None = None
    role_arn: str | None = None
    sts_endpoint: str | None = None
    sessions: LruCache[tuple[AwsKeys, float]] = field(default_factory=lambda: LruCache(_SESSIONS_MAX), repr=False)
    """Temporary keys by folder, with the time until which they are handed out."""

    def build_table_access(
        self, requested: str, folder: str, sign_path: str, *, is_writable: bool, at: datetime.datetime
    ) -> dict[str, Any]:
        """Return the fields of a response that give access to the folder of a table; empty if not `requested`.

        `folder` is relative to the lakehouse and ends in `/`.
        """
        kinds = {one.strip().lower() for one in requested.split(",")}
        if self.mode == _SIGNING and _SIGNING in kinds:
            signer = {"s3.signer": "S3V4RestSigner", "s3.signer.endpoint": sign_path}
            return {"config": {"s3.remote-signing-enabled": "true", **signer}}
        if self.mode == _SIGNING or _VENDED not in kinds:
            return {}
        prefix = f"{self.root_path}{folder}"
        keys = self.keys if self.mode == "static" else self._load_session(prefix, is_writable=is_writable, at=at)
        config = {"s3.access-key-id": keys.access_key_id, "s3.secret-access-key": keys.secret_access_key}
        if keys.session_token is not None:
            config["s3.session-token"] = keys.session_token
        config |= {"client.region": self.region, "s3.region": self.region}
        if self.endpoint is not None:
            config |= {"s3.endpoint": self.endpoint, "s3.path-style-access": "true"}
        credential = {"prefix": f"s3://{self.bucket}/{prefix}", "config": config}
        return {"config": config, "storage-credentials": [credential]}

    def find_refusal(self, request: SignRequest, folder: str, *, is_writable: bool) -> str | None:
        """Return why a request is not signed, or None; only files in the folder of the table are signed."""
        parts = urlsplit(request.uri)
        hosts = {urlsplit(self.endpoint).netloc} if self.endpoint else _list_aws_hosts(request.region)
        path = parts.path.removeprefix("/")
        if self.endpoint is None and parts.netloc in {f"{self.bucket}.{host}" for host in hosts}:
            key = unquote(path)
        elif parts.netloc in hosts and path.startswith(f"{self.bucket}/"):
            key = unquote(path.removeprefix(f"{self.bucket}/"))
        else:
            return f"{request.uri[:200]!r} is not in the bucket of this lakehouse"
        if not key.startswith(f"{self.root_path}{folder}") or {".", ".."} & set(key.split("/")):
            return f"{key[:200]!r} is not a file of the table"
        for name in request.headers:
            if name.startswith("x-amz-") and _SIGNED_HEADER.fullmatch(name) is None:
                return f"the header {name[:50]!r} is not allowed for files of the table"
        uploads = _UPLOADS.get(request.method)
        is_upload = uploads is not None and uploads.fullmatch(parts.query) is not None
        if request.method in _READING or (is_writable and is_upload):
            return None
        return f"{request.method[:10]} is not allowed for files of the table"

    def sign(self, request: SignRequest, at: datetime.datetime) -> dict[str, Any]:
        """Return the URL and the headers of a request with its signature."""
        digest = request.headers.get("x-amz-content-sha256", UNSIGNED_PAYLOAD)
        headers = {name: value for name, value in request.headers.items() if _SIGNED_HEADER.fullmatch(name)}
        scope = request.region, "s3"
        signed = sign_request(self.keys, scope, request.method, request.uri, headers, at, digest)
        return {"uri": request.uri, "headers": {name: [value] for name, value in signed.items()}}

    def _load_session(self, prefix: str, *, is_writable: bool, at: datetime.datetime) -> AwsKeys:
        cached = self.sessions.get((prefix, is_writable))
        if cached is not None and at.timestamp() < cached[1]:
            return cached[0]
        actions = ["s3:GetObject", *(["s3:PutObject", "s3:AbortMultipartUpload"] if is_writable else [])]
        statement = {"Effect": "Allow", "Action": actions, "Resource": f"arn:aws:s3:::{self.bucket}/{prefix}*"}
        keys = self._assume_role(json.dumps({"Version": "2012-10-17", "Statement": [statement]}), at)
        self.sessions.put((prefix, is_writable), (keys, at.timestamp() + _RENEWAL_SECONDS), 1)
        return keys

    def _assume_role(self, policy: str, at: datetime.datetime) -> AwsKeys:
        form = {
            "Action": "AssumeRole",
            "Version": "2011-06-15",
            "RoleArn": self.role_arn or "",
            "RoleSessionName": "mangrove",
            "DurationSeconds": str(_SESSION_SECONDS),
            "Policy": policy,
        }
        body = urlencode(form).encode()
        url = self.sts_endpoint or f"https://sts.{self.region}.amazonaws.com/"
        headers = {"content-type": "application/x-www-form-urlencoded"}
        scope = self.region, "sts"
        signed = sign_request(self.keys, scope, "POST", url, headers, at, hashlib.sha256(body).hexdigest())
        try:
            # The URL is a setting of the server, never part of a request.
            sent = urllib.request.Request(url, body, signed)  # noqa: S310
            with urllib.request.urlopen(sent, timeout=_STS_TIMEOUT_SECONDS) as response:  # noqa: S310
                text = response.read().decode()
        except (OSError, ValueError) as error:
            raise StorageError(f"AWS STS returned no keys for role {self.role_arn} ({error})") from error
        found = [re.search(f"<{name}>([^<]+)</{name}>", text) for name in _STS_FIELDS]
        if None in found:
            raise StorageError(f"the response of AWS STS for role {self.role_arn} has no keys")
        return AwsKeys(*(one[1].strip() for one in found if one is not None))


def _is_valid_uri(uri: str) -> bool:
    try:
        return bool(urlsplit(uri).netloc)
    except ValueError:
        return False


_STS_FIELDS: Final = ("AccessKeyId", "SecretAccessKey", "SessionToken")


def _list_aws_hosts(region: str) -> set[str]:
    return {"s3.amazonaws.com", f"s3.{region}.amazonaws.com", f"s3-{region}.amazonaws.com"}


def build_s3_delegation(
    mode: str, root: RootUri, options: Mapping[str, str], environment: Mapping[str, str], role_arn: str | None
) -> S3Delegation:
    """Return the delegation for a lakehouse on S3.

    The keys of the server are storage options, variables of the environment or those of an AWS profile.
    """
    names = ("access_key_id", "secret_access_key", "session_token", "region", "endpoint")
    variables = {name: environment[f"AWS_{name.upper()}"] for name in names if f"AWS_{name.upper()}" in environment}
    found = load_profile_options(environment) | variables | dict(options)
    if "access_key_id" not in found or "secret_access_key" not in found:
        raise InvalidInputError("access delegation requires keys: give access_key_id and secret_access_key as options")
    keys = AwsKeys(found["access_key_id"], found["secret_access_key"], found.get("session_token"))
    path = root.path.strip("/")
    return S3Delegation(
        mode,
        root.authority,
        f"{path}/" if path else "",
        keys,
        found.get("region", _REGION_DEFAULT),
        found.get("endpoint"),
        role_arn,
        environment.get("AWS_ENDPOINT_URL_STS"),
    )
