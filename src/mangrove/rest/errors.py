"""Error responses of the Iceberg REST protocol.

Clients act on the status code and, where a status is ambiguous, on the error type. Both
follow the protocol.
"""

import json
import re
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from mangrove.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    ConflictError,
    FormatError,
    InvalidInputError,
    MangroveError,
    NotFoundError,
    StorageError,
)
from mangrove.model.names import split_name

__all__ = [
    "BASE_PATH",
    "NO_SUCH_NAMESPACE",
    "NO_SUCH_PLAN",
    "NO_SUCH_PLAN_TASK",
    "NO_SUCH_TABLE",
    "NO_SUCH_VIEW",
    "NO_SUCH_WAREHOUSE",
    "UNSUPPORTED",
    "ErrorResponse",
    "is_iceberg_path",
    "respond_iceberg_error",
    "to_error_response",
]

BASE_PATH: Final = "/iceberg"
"""Path prefix of the protocol's endpoints; clients configure it as part of their `uri`."""
NO_SUCH_NAMESPACE: Final = "NoSuchNamespaceException"
NO_SUCH_PLAN: Final = "NoSuchPlanIdException"
NO_SUCH_PLAN_TASK: Final = "NoSuchPlanTaskException"
NO_SUCH_TABLE: Final = "NoSuchTableException"
NO_SUCH_VIEW: Final = "NoSuchViewException"
NO_SUCH_WAREHOUSE: Final = "NoSuchWarehouseException"
UNSUPPORTED: Final = "UnsupportedOperationException"
_ERROR_TYPES: Final = {
    400: "BadRequestException",
    401: "NotAuthorizedException",
    403: "NotAuthorizedException",
    404: "NotFoundException",
    405: UNSUPPORTED,
    406: UNSUPPORTED,
    409: "CommitFailedException",
    421: "BadRequestException",
    500: "InternalServerError",
    501: UNSUPPORTED,
    503: "SlowDownException",
}
_STATUSES: Final[dict[type[MangroveError], int]] = {
    AccessDeniedError: 403,
    InvalidInputError: 400,
    NotFoundError: 404,
    AlreadyExistsError: 409,
    ConflictError: 409,
    FormatError: 500,
    StorageError: 503,
}


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """An error response of the protocol."""

    status: int
    error_type: str
    """The `type` of the error in the protocol."""
    message: str

    def response(self) -> Response:
        """Return the HTTP response."""
        error = {"message": self.message, "type": self.error_type, "code": self.status}
        content = json.dumps({"error": error}, ensure_ascii=False).encode("utf-8", "replace")
        return Response(content, self.status, media_type="application/json")


def is_iceberg_path(path: str) -> bool:
    """Return whether a path belongs to the Iceberg REST protocol.

    >>> is_iceberg_path("/iceberg/v1/config"), is_iceberg_path("/iceberg"), is_iceberg_path("/icebergs")
    (True, True, False)
    """
    return path == BASE_PATH or path.startswith(f"{BASE_PATH}/")


def respond_iceberg_error(status: int, message: str, error_type: str | None = None) -> Response:
    """Return an error response; the error type defaults to that of the status."""
    return ErrorResponse(status, error_type or _ERROR_TYPES.get(status, _ERROR_TYPES[500]), message).response()


_ABOUT_OBJECT: Final = re.compile(r"(namespace|table|view) (.+?) (does not exist|already exists)", re.DOTALL)
_NOT_FOUND_TYPES: Final = {"namespace": NO_SUCH_NAMESPACE, "table": NO_SUCH_TABLE, "view": NO_SUCH_VIEW}


def to_error_response(
    error: MangroveError, not_found_type: str = _ERROR_TYPES[404], new_kind: str = ""
) -> ErrorResponse:
    """Return the error response of an exception; `not_found_type` is the error type of NotFoundError.

    By default the type is that of the missing object. `new_kind` is the kind of object that the
    request creates. Messages about objects begin as those of other catalogs do, because clients and
    their tests compare them; that a namespace does not exist is the whole message.

    >>> to_error_response(NotFoundError("table a.b does not exist; create it"))
    ErrorResponse(status=404, error_type='NoSuchTableException', message='Table does not exist: a.b; create it')
    """
    status = next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), 500)
    about = _ABOUT_OBJECT.match(str(error))
    message = str(error)
    if about is not None and isinstance(error, NotFoundError | AlreadyExistsError):
        is_other_kind = isinstance(error, AlreadyExistsError) and new_kind not in ("", about[1])
        hint = "" if about[1] == "namespace" else message[about.end() :]
        message = f"{about[1].capitalize()}{' with same name' * is_other_kind} {about[3]}: {_unquote(about[2])}{hint}"
    if isinstance(error, NotFoundError):
        if about is not None and not_found_type == _ERROR_TYPES[404]:
            not_found_type = _NOT_FOUND_TYPES[about[1]]
        return ErrorResponse(status, not_found_type, message)
    if isinstance(error, AlreadyExistsError):
        return ErrorResponse(status, "AlreadyExistsException", message)
    if isinstance(error, InvalidInputError) and message.startswith("Invalid view version"):
        # The type decides which exception Iceberg's Java library raises.
        return ErrorResponse(status, "IllegalArgumentException", message)
    return ErrorResponse(status, _ERROR_TYPES[status], message)


def _unquote(name: str) -> str:
    """Return a dotted name without backticks, which other catalogs do not use."""
    try:
        return ".".join(split_name(name))
    except InvalidInputError:
        return name
