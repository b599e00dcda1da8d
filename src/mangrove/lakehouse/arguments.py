"""Validation of names, lists and counts that callers pass."""

from collections.abc import Iterable
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.model.locators import NamespaceLocator, TableLocator, ViewLocator, parse_table_name, parse_view_name
from mangrove.model.names import check_text, split_name

__all__ = [
    "parse_namespace_argument",
    "parse_table_argument",
    "parse_view_argument",
    "validate_count",
    "validate_limit",
    "validate_prefix",
    "validate_texts",
]

_COUNT_MAX: Final = 2**62


def validate_count(given: object, what: str, least: int = 0) -> int:
    """Validate a whole number of at least `least` and return it."""
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= _COUNT_MAX:
        raise InvalidInputError(
            f"invalid value {given!r} of {what}; expected a whole number from {least} to {_COUNT_MAX}"
        )
    return given


def validate_limit(given: object) -> int | None:
    """Validate the maximum number of entries of a listing; None means no limit."""
    return None if given is None else validate_count(given, "the limit of a list")


def validate_prefix(given: object) -> str:
    """Validate a prefix of names and return it."""
    return _validate_text(given, "the beginning of a name")


def validate_texts(given: object, what: str) -> tuple[str, ...]:
    """Return a list of strings as a tuple; a single string is a list of one, and None is an empty list.

    >>> validate_texts("id", "the keys"), validate_texts(["a", "b"], "the keys"), validate_texts(None, "the keys")
    (('id',), ('a', 'b'), ())
    """
    if given is None:
        return ()
    if isinstance(given, str):
        return (_validate_text(given, what),)
    if not isinstance(given, Iterable) or isinstance(given, bytes | bytearray):
        raise InvalidInputError(f"invalid value {given!r} of {what}; expected a list of texts")
    return tuple(_validate_text(one, what) for one in given)


def parse_namespace_argument(name: str | NamespaceLocator) -> NamespaceLocator:
    """Return the locator of the namespace that an argument names."""
    if isinstance(name, NamespaceLocator):
        return name
    parts = split_name(name)
    if len(parts) != 1:
        raise InvalidInputError(
            f"{name!r} has {len(parts)} parts: a namespace's name is one, with backticks if it holds a dot"
        )
    return NamespaceLocator(parts[0])


def parse_table_argument(name: str | TableLocator) -> TableLocator:
    """Return the locator of the table that an argument names."""
    return name if isinstance(name, TableLocator) else parse_table_name(name)


def parse_view_argument(name: str | ViewLocator) -> ViewLocator:
    """Return the locator of the view that an argument names."""
    return name if isinstance(name, ViewLocator) else parse_view_name(name)


def _validate_text(given: object, what: str) -> str:
    if not isinstance(given, str):
        raise InvalidInputError(f"invalid value {given!r} of {what}; expected text")
    check_text(given, what)
    return given
