"""Error responses of the Iceberg REST protocol.

Clients decide by the status and, where one status means several things, by the
word. So the words are those of the protocol, and the sentence is ours.
"""

import json
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from mangrove.errors import (
    AlreadyExistsError,
    ConflictError,
    FormatError,
    InvalidInputError,
    MangroveError,
    NotFoundError,
    StorageError,
)

__all__ = [
    "BASE_PATH",
    "NO_SUCH_NAMESPACE",
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
"""What stands before every address of the protocol; clients are given it as their `uri`."""
NO_SUCH_NAMESPACE: Final = "NoSuchNamespaceException"
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
    InvalidInputError: 400,
    NotFoundError: 404,
    AlreadyExistsError: 409,
    ConflictError: 409,
    FormatError: 500,
    StorageError: 503,
}


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """Why there is no other answer."""

    status: int
    word: str
    """What the protocol calls the `type` of the error."""
    sentence: str

    def response(self) -> Response:
        """Return it as it is sent."""
        error = {"message": self.sentence, "type": self.word, "code": self.status}
        content = json.dumps({"error": error}, ensure_ascii=False).encode("utf-8", "replace")
        return Response(content, self.status, media_type="application/json")


def is_iceberg_path(path: str) -> bool:
    """Return whether an address is one of the protocol's.

    >>> is_iceberg_path("/iceberg/v1/config"), is_iceberg_path("/iceberg"), is_iceberg_path("/icebergs")
    (True, True, False)
    """
    return path == BASE_PATH or path.startswith(f"{BASE_PATH}/")


def respond_iceberg_error(status: int, sentence: str, word: str | None = None) -> Response:
    """Return a refusal by its status."""
    return ErrorResponse(status, word or _ERROR_TYPES.get(status, _ERROR_TYPES[500]), sentence).response()


def to_error_response(error: MangroveError, missing: str = _ERROR_TYPES[404]) -> ErrorResponse:
    """Return how an error of ours is told; `missing` is the word for what was looked for.

    >>> to_error_response(NotFoundError("there is no table a.b"), NO_SUCH_TABLE)
    Refusal(status=404, word='NoSuchTableException', sentence='there is no table a.b')
    """
    status = next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), 500)
    if isinstance(error, NotFoundError):
        return ErrorResponse(status, missing, str(error))
    if isinstance(error, AlreadyExistsError):
        return ErrorResponse(status, "AlreadyExistsException", str(error))
    return ErrorResponse(status, _ERROR_TYPES[status], str(error))
