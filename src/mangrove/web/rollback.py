"""Rollback form of the explorer with CSRF protection."""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl

from mangrove.errors import ConflictError, InvalidInputError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.model.locators import LARGEST_INTEGER

__all__ = [
    "BODY_BYTES_MAX",
    "MESSAGE_CHARACTERS_MAX",
    "RollbackAccess",
    "RollbackRequest",
    "parse_form",
    "parse_rollback_request",
    "roll_back",
]

BODY_BYTES_MAX: Final = 8_192
MESSAGE_CHARACTERS_MAX: Final = 500
_FIELDS_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class RollbackAccess:
    """Access to rollbacks: by the CSRF token of the form, or by a header with the server's token."""

    csrf_token: str = field(repr=False)
    has_token: Callable[[str | None], bool] = field(repr=False)

    def admits(self, authorization: str | None, csrf_token: str) -> bool:
        """Return whether the request may roll back; the comparison takes constant time."""
        return self.has_token(authorization) or hmac.compare_digest(
            csrf_token.encode("utf-8", "replace"), self.csrf_token.encode()
        )


@dataclass(frozen=True, slots=True)
class RollbackRequest:
    """An authorized rollback request."""

    to: int
    expected_version: int | None
    """The newest version when the preview was rendered; None if the client did not send it."""
    message: str


def parse_form(body: bytes) -> dict[str, str]:
    """Return the fields of a URL-encoded form."""
    try:
        return dict(
            parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_FIELDS_MAX, errors="strict")
        )
    except ValueError as error:
        raise InvalidInputError(f"invalid form ({error}); open the preview again") from error


def parse_rollback_request(to: str, fields: Mapping[str, str]) -> RollbackRequest:
    """Return the rollback request of a form, or raise `InvalidInputError`."""
    message = fields.get("message", "").strip()
    if len(message) > MESSAGE_CHARACTERS_MAX:
        raise InvalidInputError(f"the message has {len(message)} characters; the limit is {MESSAGE_CHARACTERS_MAX}")
    expected_version = fields.get("from")
    return RollbackRequest(_version(to), None if expected_version is None else _version(expected_version), message)


def roll_back(lake: Lakehouse, request: RollbackRequest) -> int:
    """Roll back and return the new version; raise `ConflictError` if a newer version than expected exists.

    A commit between this check and the rollback is not detected. It stays in the history, and the
    new version records the version that it was rolled back from.
    """
    newest = lake.version
    if request.expected_version is not None and request.expected_version != newest:
        raise ConflictError(
            f"the newest version is {newest}, but the preview was of a rollback from version "
            f"{request.expected_version}; nothing was changed, open the preview again"
        )
    if request.to >= newest:
        raise InvalidInputError(
            f"version {request.to} is not older than the newest version {newest}; give an older version"
        )
    return lake.rollback(request.to, message=request.message, author="explorer")


def _version(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(LARGEST_INTEGER)):
        raise InvalidInputError(f"invalid version {text[:40]!r}; give a whole number")
    return int(text)
