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
    """Who may change things: a form with this proof, which stands only on our pages, or a header with the token."""

    csrf_token: str = field(repr=False)
    has_token: Callable[[str | None], bool] = field(repr=False)

    def admits(self, authorization: str | None, csrf_token: str) -> bool:
        """Return whether the sender may change things; how long it takes says nothing about the proof."""
        return self.has_token(authorization) or hmac.compare_digest(
            csrf_token.encode("utf-8", "replace"), self.csrf_token.encode()
        )


@dataclass(frozen=True, slots=True)
class RollbackRequest:
    """A rollback that somebody asked for who may."""

    to: int
    expected_version: int | None
    """The version that was the newest when the sender looked; None from a program that did not say."""
    message: str


def parse_form(body: bytes) -> dict[str, str]:
    """Return the fields of a form as browsers send it."""
    try:
        return dict(
            parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_FIELDS_MAX, errors="strict")
        )
    except ValueError as error:
        raise InvalidInputError(f"the form cannot be read ({error}): open the preview again") from error


def parse_rollback_request(to: str, fields: Mapping[str, str]) -> RollbackRequest:
    """Return what a form asks for, or refuse it before anything is read."""
    message = fields.get("message", "").strip()
    if len(message) > MESSAGE_CHARACTERS_MAX:
        raise InvalidInputError(f"the message has {len(message)} characters: {MESSAGE_CHARACTERS_MAX} are allowed")
    expected_version = fields.get("from")
    return RollbackRequest(_version(to), None if expected_version is None else _version(expected_version), message)


def roll_back(lake: Lakehouse, order: RollbackRequest) -> int:
    """Roll back and return the new version, unless somebody committed what the sender has not seen.

    Who commits between our look and our commit is not noticed. What they wrote stays in the
    history, and the new version names the one that it was rolled back from.
    """
    newest = lake.version
    if order.expected_version is not None and order.expected_version != newest:
        raise ConflictError(
            f"the newest version is now {newest}, and the preview was of a rollback from version "
            f"{order.expected_version}: "
            f"nothing was changed; look at the preview again"
        )
    if order.to >= newest:
        raise InvalidInputError(f"version {order.to} is not older than the newest, {newest}: name an earlier one")
    return lake.rollback(order.to, message=order.message, author="explorer")


def _version(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(LARGEST_INTEGER)):
        raise InvalidInputError(f"{text[:40]!r} is no version: give a whole number")
    return int(text)
