"""Pagination of listings at a pinned version."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

from mangrove.errors import InvalidInputError
from mangrove.rest.request import decode_token, encode_token

__all__ = ["PaginatedNames", "PaginationRequest", "paginate_names", "parse_pagination"]

T = TypeVar("T")
_SIZE_DEFAULT: Final = 1_000
_SIZE_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class PaginationRequest:
    """The requested page: the names after `after`, in the version of the first page."""

    size: int | None
    """None for the whole list."""
    version: int | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True)
class PaginatedNames:
    """A page of names, and the token of the next page or None."""

    names: Sequence[str]
    next_token: str | None


def parse_pagination(query: Mapping[str, str]) -> PaginationRequest:
    """Return the requested page: the whole list unless the query has a token or a size.

    The protocol starts with an empty token; PyIceberg starts with only a size.
    """
    if "pageToken" not in query and "pageSize" not in query:
        return PaginationRequest(None)
    size = _parse_size(query["pageSize"]) if "pageSize" in query else _SIZE_DEFAULT
    token = query.get("pageToken", "")
    if not token:
        return PaginationRequest(size)
    version, after = _decode_page_token(token)
    return PaginationRequest(size, version, after)


def paginate_names(
    requested: PaginationRequest, version: int, names: Callable[[str | None], Iterator[str]]
) -> PaginatedNames:
    """Return a page of names; `names` yields the names after a given one in order."""
    if requested.size is None:
        return PaginatedNames(tuple(names(None)), None)
    # One more name than the page holds, to detect whether there is a next page.
    taken = tuple(islice(names(requested.after), requested.size + 1))
    page = taken[: requested.size]
    return PaginatedNames(page, encode_token([version, page[-1]]) if len(taken) > requested.size else None)


def _decode_page_token(token: str) -> tuple[int, str]:
    match decode_token(token):
        case [int(version), str(after)] if version >= 0 and after:
            return version, after
        case _:
            raise InvalidInputError(f"invalid pageToken {token[:40]!r}; restart the listing without it")


def _parse_size(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 9 or int(text) == 0:
        raise InvalidInputError(f"invalid pageSize {text[:40]!r}; expected a positive integer")
    return min(int(text), _SIZE_MAX)
