"""Access delegation: clients open the files of a table without keys of their own.

    static           the keys of the server, for each client that requests credentials
    sts              S3: temporary keys of a role from AWS STS, limited to the folder of one table
    remote-signing   S3: the server signs each request of the client, for the folder of one table
    sas              Azure: a shared access signature, limited to the folder of one table
    downscoped       Google Cloud Storage: an OAuth token, limited to the folder of one table

Temporary keys, tokens and signatures never allow deletions: other versions may need the files. They
allow writes if the server is writable.
"""

import datetime
from collections.abc import Mapping
from typing import Any, Final, Protocol

from mangrove.errors import InvalidInputError
from mangrove.rest.azure_delegation import build_azure_delegation
from mangrove.rest.google_delegation import build_google_delegation
from mangrove.rest.s3_delegation import build_s3_delegation
from mangrove.storage.uri import parse_root_uri

__all__ = ["DELEGATION_MODES", "AccessDelegation", "build_delegation"]

_SCHEMES_BY_MODE: Final = {
    "static": ("s3", "abfss", "gs"),
    "sts": ("s3",),
    "remote-signing": ("s3",),
    "sas": ("abfss",),
    "downscoped": ("gs",),
}
DELEGATION_MODES: Final = tuple(_SCHEMES_BY_MODE)


class AccessDelegation(Protocol):
    """How clients get access to files."""

    @property
    def mode(self) -> str:
        """One of the modes above."""

    def build_table_access(
        self, requested: str, folder: str, sign_path: str, *, is_writable: bool, at: datetime.datetime
    ) -> dict[str, Any]:
        """Return the fields of a response that give access to the folder of a table; empty if not `requested`.

        `folder` is relative to the lakehouse and ends in `/`.
        """


def build_delegation(
    mode: str | None,
    uri: str,
    options: Mapping[str, str] | None,
    environment: Mapping[str, str],
    role_arn: str | None = None,
) -> AccessDelegation | None:
    """Return the delegation of a server for a lakehouse, or None without a mode."""
    if (mode == "sts") != (role_arn is not None):
        raise InvalidInputError("--sts-role is required for the access delegation sts, and for no other")
    if mode is None:
        return None
    if mode not in _SCHEMES_BY_MODE:
        raise InvalidInputError(f"unknown access delegation {mode!r}; expected {', '.join(DELEGATION_MODES)}")
    root = parse_root_uri(uri)
    if root.scheme not in _SCHEMES_BY_MODE[mode]:
        expected = " or ".join(f"{scheme}://…" for scheme in _SCHEMES_BY_MODE[mode])
        raise InvalidInputError(
            f"the access delegation {mode} requires a lakehouse at {expected}, not {uri}; omit --access-delegation"
        )
    given = {name.lower(): value for name, value in (options or {}).items()}
    match root.scheme:
        case "s3":
            return build_s3_delegation(mode, root, given, environment, role_arn)
        case "gs":
            return build_google_delegation(mode, root, given, environment)
        case _:
            return build_azure_delegation(mode, root, given, environment)
