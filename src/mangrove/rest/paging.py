"""Pagination of listings at a pinned version."""

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

from mangrove.errors import InvalidInputError

__all__ = ["PaginatedNames", "PaginationRequest", "paginate_names", "parse_pagination"]

T = TypeVar("T")
_SIZE_DEFAULT: Final = 1_000
_SIZE_MAX: Final = 10_000
_TOKEN_CHARACTERS_MAX: Final = 4_000


@dataclass(frozen=True, slots=True)
class PaginationRequest:
    """Which page is wanted: what follows `after`, in the version that the first page was of."""

    size: int | None
    """None where the whole list is wanted."""
    version: int | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True)
class PaginatedNames:
    """A page of names, and the token for what follows; None after the last."""

    names: Sequence[str]
    next_token: str | None


def parse_pagination(query: Mapping[str, str]) -> PaginationRequest:
    """Return which page a query asks for: the whole list, unless it gives a token or a size.

    The protocol begins with an empty token; PyIceberg begins with a size alone.
    """
    if "pageToken" not in query and "pageSize" not in query:
        return PaginationRequest(None)
    size = _size(query["pageSize"]) if "pageSize" in query else _SIZE_DEFAULT
    token = query.get("pageToken", "")
    if not token:
        return PaginationRequest(size)
    version, after = _read_token(token)
    return PaginationRequest(size, version, after)


def paginate_names(
    requested: PaginationRequest, version: int, names: Callable[[str | None], Iterator[str]]
) -> PaginatedNames:
    """Return a page of `names`, which yields those after a name in their order."""
    if requested.size is None:
        return PaginatedNames(tuple(names(None)), None)
    # One more than the page holds says whether there is another.
    found = tuple(islice(names(requested.after), requested.size + 1))
    shown = found[: requested.size]
    return PaginatedNames(shown, _encode_token(version, shown[-1]) if len(found) > requested.size else None)


def _encode_token(version: int, after: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([version, after]).encode()).decode()


def _read_token(token: str) -> tuple[int, str]:
    if len(token) > _TOKEN_CHARACTERS_MAX:
        raise InvalidInputError(f"the pageToken has {len(token)} characters: begin the list again without it")
    try:
        match json.loads(base64.b64decode(token.encode(), altchars=b"-_", validate=True)):
            case [int(version), str(after)] if version >= 0 and after:
                return version, after
    except (ValueError, binascii.Error, RecursionError):
        pass
    raise InvalidInputError(f"the pageToken {token[:40]!r} was not given by this server: begin the list again")


def _size(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 9 or int(text) == 0:
        raise InvalidInputError(f"the pageSize is {text[:40]!r}: give a whole number from 1")
    return min(int(text), _SIZE_MAX)
