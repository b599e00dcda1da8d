"""Signatures of requests to AWS services, version 4."""

import datetime
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote, urlsplit

__all__ = ["UNSIGNED_PAYLOAD", "AwsKeys", "sign_request"]

UNSIGNED_PAYLOAD: Final = "UNSIGNED-PAYLOAD"
_ALGORITHM: Final = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class AwsKeys:
    """An access key with its secret, and the session token of temporary keys."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


def sign_request(
    keys: AwsKeys,
    scope: tuple[str, str],
    method: str,
    url: str,
    headers: Mapping[str, str],
    at: datetime.datetime,
    payload_digest: str = UNSIGNED_PAYLOAD,
) -> dict[str, str]:
    """Return the headers of a request by lower-case name, with its signature; all of them are signed.

    `scope` is the region and the service. The path of the URL must be percent-encoded as it is sent.
    """
    parts = urlsplit(url)
    stamp = f"{at.astimezone(datetime.UTC):%Y%m%dT%H%M%SZ}"
    signed = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
    signed |= {"host": parts.netloc, "x-amz-content-sha256": payload_digest, "x-amz-date": stamp}
    if keys.session_token is not None:
        signed["x-amz-security-token"] = keys.session_token
    names = ";".join(sorted(signed))
    query = sorted(
        (quote(name, "-_.~"), quote(value, "-_.~")) for name, value in parse_qsl(parts.query, keep_blank_values=True)
    )
    canonical = "\n".join(
        [
            method,
            parts.path or "/",
            "&".join(f"{name}={value}" for name, value in query),
            *(f"{name}:{signed[name]}" for name in sorted(signed)),
            "",
            names,
            payload_digest,
        ]
    )
    credential = "/".join([stamp[:8], *scope, "aws4_request"])
    text = "\n".join([_ALGORITHM, stamp, credential, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{keys.secret_access_key}".encode()
    for part in credential.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    return {
        **signed,
        "authorization": f"{_ALGORITHM} Credential={keys.access_key_id}/{credential}, SignedHeaders={names}, "
        f"Signature={signature}",
    }
