"""Actions of the explorer that write: rollback and compaction, with CSRF protection."""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl

from mangrove.errors import ConflictError, InvalidInputError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.maintenance.engine_choice import LOCAL
from mangrove.model.locators import LARGEST_INTEGER
from mangrove.web.links import Links

__all__ = [
    "ACTIONS",
    "BODY_BYTES_MAX",
    "MESSAGE_CHARACTERS_MAX",
    "Action",
    "ActionResult",
    "ExplorerSession",
    "RollbackRequest",
    "WriteAccess",
    "parse_form",
    "parse_rollback_request",
    "roll_back",
]

BODY_BYTES_MAX: Final = 8_192
MESSAGE_CHARACTERS_MAX: Final = 500
_FIELDS_MAX: Final = 10
_COMPACTED_BYTES_MAX: Final = 1_000_000_000
"""How many bytes one click compacts, to bound its time; the next click goes on."""


@dataclass(frozen=True, slots=True)
class WriteAccess:
    """Access to actions: by the CSRF token of a form, or by a header with a token."""

    csrf_token: str = field(repr=False)
    has_token: bool
    """Whether the request has a header with a token."""

    def admits(self, csrf_token: str) -> bool:
        """Return whether the request may write; the comparison takes constant time."""
        return self.has_token or hmac.compare_digest(csrf_token.encode("utf-8", "replace"), self.csrf_token.encode())


@dataclass(frozen=True, slots=True)
class ExplorerSession:
    """The lakehouse with the rights of the sender of a request, and its access to actions; None if it is read-only."""

    lake: Lakehouse
    write_access: WriteAccess | None = None


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What an action did, for programs, and the page that shows it, for browsers."""

    fields: Mapping[str, int]
    url: str


@dataclass(frozen=True, slots=True)
class Action:
    """A URL path that accepts POST, and the function that runs with its path parameters and form fields."""

    path: str
    run: Callable[[Lakehouse, Mapping[str, str], Mapping[str, str]], ActionResult]


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


def _run_rollback(lake: Lakehouse, steps: Mapping[str, str], fields: Mapping[str, str]) -> ActionResult:
    version = roll_back(lake, parse_rollback_request(steps["number"], fields))
    return ActionResult({"version": version}, Links().version(version))


def _run_compaction(lake: Lakehouse, steps: Mapping[str, str], fields: Mapping[str, str]) -> ActionResult:  # noqa: ARG001 - all actions have one signature
    """Compact a table in this process, up to a number of bytes."""
    table = lake.table(steps["name"])
    report = table.compact(engine=LOCAL, bytes_max=_COMPACTED_BYTES_MAX)
    fields_done = {
        "version": lake.version,
        "files_read": report.files_read,
        "files_written": report.files_written,
        "files_left": report.files_left,
    }
    return ActionResult(fields_done, Links().files(table.target))


ACTIONS: Final = (
    Action("/history/{number}/rollback", _run_rollback),
    Action("/tables/{name}/compact", _run_compaction),
)


def _version(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(LARGEST_INTEGER)):
        raise InvalidInputError(f"invalid version {text[:40]!r}; give a whole number")
    return int(text)
