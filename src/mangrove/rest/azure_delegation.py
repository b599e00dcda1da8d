"""Access delegation on Azure: the account key, or shared access signatures computed from it.

A signature for a directory requires an account with a hierarchical namespace; Azure refuses it in
other accounts.
"""

import base64
import binascii
import datetime
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from mangrove.errors import InvalidInputError
from mangrove.storage.uri import RootUri

__all__ = ["AzureDelegation", "build_azure_delegation", "sign_access"]

_VERSION: Final = "2023-11-03"
"""The version of the service whose text is signed."""
_VENDED: Final = "vended-credentials"
_SESSION_SECONDS: Final = 3_600
_CLOCK_SECONDS: Final = 300
"""A signature is valid from this time before now on, because clocks differ."""
_READING: Final = "r"
_WRITING: Final = "rcw"
"""Read, create and write; deletions and listings are never allowed."""


def sign_access(
    account: str,
    key: str,
    container: str,
    path: str,
    permissions: str,
    times: tuple[datetime.datetime, datetime.datetime],
    resource: str = "d",
) -> str:
    """Return the query of a shared access signature for a directory (`d`), a blob (`b`) or a container (`c`).

    `times` are the first and the last at which it is valid.
    """
    starts_at, ends_at = (f"{one.astimezone(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}" for one in times)
    canonical = f"/blob/{account}/{container}" + (f"/{path}" if resource != "c" else "")
    # In this order: identifier, addresses, protocol, version, resource, snapshot, scope of encryption, five headers.
    signed = [permissions, starts_at, ends_at, canonical, "", "", "", _VERSION, resource, "", "", "", "", "", "", ""]
    digest = hmac.new(base64.b64decode(key), "\n".join(signed).encode(), hashlib.sha256).digest()
    fields = {"sp": permissions, "st": starts_at, "se": ends_at, "sv": _VERSION, "sr": resource}
    if resource == "d":
        fields["sdd"] = str(path.count("/") + 1)
    return urlencode({**fields, "sig": base64.b64encode(digest).decode()})


@dataclass(frozen=True, slots=True)
class AzureDelegation:
    """How clients get access to files on Azure, and the key of the server."""

    mode: str
    account: str
    container: str
    root_path: str
    """The path of the lakehouse in the container, which ends in `/` unless it is empty."""
    key: str = field(repr=False)

    def build_table_access(
        self, requested: str, folder: str, sign_path: str, *, is_writable: bool, at: datetime.datetime
    ) -> dict[str, Any]:
        """Return the fields of a response that give access to the folder of a table; empty if not `requested`."""
        del sign_path
        if _VENDED not in {one.strip().lower() for one in requested.split(",")}:
            return {}
        host = f"{self.account}.dfs.core.windows.net"
        prefix = f"{self.root_path}{folder}"
        if self.mode == "static":
            # PyIceberg reads the first two, Java the others.
            config = {
                "adls.account-name": self.account,
                "adls.account-key": self.key,
                "adls.auth.shared-key.account.name": self.account,
                "adls.auth.shared-key.account.key": self.key,
            }
        else:
            ends_at = at + datetime.timedelta(seconds=_SESSION_SECONDS)
            times = at - datetime.timedelta(seconds=_CLOCK_SECONDS), ends_at
            permissions = _WRITING if is_writable else _READING
            text = sign_access(self.account, self.key, self.container, prefix.rstrip("/"), permissions, times)
            config = {
                f"adls.sas-token.{host}": text,
                f"adls.sas-token.{self.account}": text,
                f"adls.sas-token-expires-at-ms.{host}": str(int(ends_at.timestamp() * 1_000)),
            }
        credential = {"prefix": f"abfss://{self.container}@{host}/{prefix}", "config": config}
        return {"config": config, "storage-credentials": [credential]}


def build_azure_delegation(
    mode: str, root: RootUri, options: Mapping[str, str], environment: Mapping[str, str]
) -> AzureDelegation:
    """Return the delegation for a lakehouse on Azure; the account key is an option or a variable of the environment."""
    key = (
        options.get("account_key")
        or options.get("access_key")
        or environment.get("AZURE_STORAGE_ACCOUNT_KEY")
        or environment.get("AZURE_STORAGE_ACCESS_KEY")
    )
    try:
        is_key = key is not None and len(base64.b64decode(key, validate=True)) > 0
    except binascii.Error:
        is_key = False
    if key is None or not is_key or root.account is None:
        raise InvalidInputError("access delegation requires the key of the account: give account_key as an option")
    path = root.path.strip("/")
    return AzureDelegation(mode, root.account, root.container, f"{path}/" if path else "", key)
