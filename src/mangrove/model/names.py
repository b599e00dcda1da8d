"""Validation, quoting and suggestion of namespace, table, view and column names.

A name has 1 to a maximum of UTF-8 bytes without spaces, control characters and `/`,
because names are padded with spaces in tree keys and are part of file names. It has no
`|` either, which separates the parts of canonical strings. New names, including column
names, have no bidirectional control characters, which would display as another name.
"""

import difflib
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from mangrove.errors import InvalidInputError

__all__ = [
    "ID_BYTES_MAX",
    "are_names",
    "check_id",
    "check_name",
    "check_new_id",
    "check_new_name",
    "check_text",
    "find_closest_name",
    "join_name",
    "quote_name",
    "split_name",
    "split_path",
    "suggest_name",
]


def find_closest_name(name: str, names: Sequence[str]) -> str | None:
    """Return the most similar of the names, or None if none is similar."""
    found = difflib.get_close_matches(name.casefold(), [one.casefold() for one in names], 1, 0.6)
    return next((one for one in names if found and one.casefold() == found[0]), None)


def suggest_name(name: str, names: Sequence[str]) -> str:
    """Return the end of an error message about an unknown name."""
    closest = find_closest_name(name, names)
    return f"; expected one of {', '.join(names)}" if closest is None else f"; did you mean {closest!r}?"


ID_BYTES_MAX: Final = 100
"""The largest size of an id that a caller chooses."""
_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f/|\ud800-\udfff]")
_DECEPTIVE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters, line and paragraph separators, and the characters that control the direction of text."""
_WORD: Final = re.compile(r"[^\W\d]\w*")
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""What Spark takes without backticks, unless it is one of the reserved words."""
_RESERVED: Final = frozenset(
    {"ALL", "AND", "ANTI", "AS", "BETWEEN", "CASE", "CAST", "CHECK", "COLUMN", "CONSTRAINT", "CREATE", "CROSS"}
    | {"DISTINCT", "ELSE", "END", "EXCEPT", "EXISTS", "FALSE", "FETCH", "FOR", "FOREIGN", "FROM", "FULL", "GROUP"}
    | {"HAVING", "IN", "INNER", "INTERSECT", "INTO", "IS", "JOIN", "LATERAL", "LEFT", "LIKE", "LIMIT", "MINUS"}
    | {"NATURAL", "NOT", "NULL", "OFFSET", "ON", "OR", "ORDER", "OUTER", "PRIMARY", "REFERENCES", "RIGHT", "SELECT"}
    | {"SEMI", "SET", "TABLE", "THEN", "TRUE", "UNION", "UNIQUE", "USING", "VALUES", "WHEN", "WHERE", "WITH"}
)
_PART: Final = re.compile(r"`((?:[^`]|``)*)`|([^`.]+)")
_LONE_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


def check_name(name: str, what: str = "name", size_bytes_max: int | None = None) -> None:
    """Raise an error for an invalid name; `what` describes the named object."""
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"{what} {name!r} is empty; a name has at least one character")
    found = _FORBIDDEN.search(name)
    if found:
        raise InvalidInputError(
            f"{what} {name!r} holds {found[0]!r} at position {found.start()}: "
            "a name holds no space, control character, '/', '|' or lone surrogate"
        )
    if size_bytes_max is not None and len(name.encode()) > size_bytes_max:
        raise InvalidInputError(
            f"{what} {name!r} has {len(name.encode())} UTF-8 bytes; this lakehouse allows {size_bytes_max}; "
            "choose a shorter one"
        )


def are_names(names: Sequence[str]) -> bool:
    """Return whether `check_name` accepts all of the names.

    >>> are_names(["orders", "items"]), are_names(["orders", ""]), are_names(["order items"])
    (True, False, False)
    """
    return all(names) and _FORBIDDEN.search("".join(names)) is None


def check_new_name(name: str, what: str) -> None:
    """Raise an error for control and bidirectional characters in a new name; existing names stay valid."""
    found = _DECEPTIVE.search(name)
    if found:
        raise InvalidInputError(
            f"{what} {name!a} holds {found[0]!a} at position {found.start()}: "
            "a new name holds no control or bidirectional character"
        )


@lru_cache(maxsize=4096)
def _is_id(text: str) -> bool:
    """Return whether a text is an id; locators of one table repeat the same few ids thousands of times."""
    return bool(text) and _FORBIDDEN.search(text) is None and text not in (".", "..")


def check_id(identifier: str, what: str) -> None:
    """Raise an error for an id that cannot be part of a tree key or a folder name."""
    if not isinstance(identifier, str) or not _is_id(identifier):
        raise InvalidInputError(
            f"{what} {identifier!r} is not an id: an id is text other than '.' and '..', without spaces, control "
            "characters, '/' or '|'"
        )


def check_new_id(identifier: str, what: str) -> None:
    """Raise an error for a chosen id that not every layout can store."""
    check_id(identifier, what)
    size_bytes = len(identifier.encode())
    if size_bytes > ID_BYTES_MAX:
        raise InvalidInputError(f"{what} {identifier!r} has {size_bytes} UTF-8 bytes; an id has at most {ID_BYTES_MAX}")


def check_text(text: str, what: str) -> None:
    """Raise an error for text that UTF-8 cannot encode."""
    if not isinstance(text, str):
        raise InvalidInputError(f"{what} is {text!r}, which is not text")
    if not text.isascii() and _LONE_SURROGATE.search(text):
        raise InvalidInputError(f"{what} {text!r} contains a lone surrogate, which UTF-8 cannot encode")


def split_name(text: str) -> tuple[str, ...]:
    """Return the parts of a dotted name; a part between backticks may hold dots.

    >>> split_name("sales.`orders.2026`")
    ('sales', 'orders.2026')
    """
    parts = _parts(text, "namespace.table")
    for part in parts:
        check_name(part)
    return parts


def split_path(text: str) -> tuple[str, ...]:
    """Return the path of a column through its structs; column names may contain spaces.

    >>> split_path("address.`post code`")
    ('address', 'post code')
    """
    return _parts(text, "column or struct.column")


def _parts(text: str, form: str) -> tuple[str, ...]:
    if not isinstance(text, str):
        raise InvalidInputError(f"{text!r} is not a name; expected text such as 'sales' or 'sales.orders'")
    parts: list[str] = []
    position = 0
    while True:
        match = _PART.match(text, position)
        if match is None or match[0] == "``":
            raise InvalidInputError(
                f"{text!r} has no name at position {position}: write {form}, "
                "with backticks around a part that contains a dot"
            )
        parts.append(match[1].replace("``", "`") if match[1] is not None else match[2])
        position = match.end()
        if position == len(text):
            return tuple(parts)
        if text[position] != ".":
            raise InvalidInputError(f"{text!r} has {text[position]!r} at position {position}, where a dot belongs")
        position += 1


def quote_name(name: str) -> str:
    """Return `name` as SQL text, with backticks unless Spark accepts it without.

    >>> quote_name("amount"), quote_name("order"), quote_name("größe")
    ('amount', '`order`', '`größe`')
    """
    is_plain = _PLAIN.fullmatch(name) and name.upper() not in _RESERVED
    return name if is_plain else _between_backticks(name)


def join_name(*parts: str) -> str:
    """Return the dotted text that `split_name` takes apart into `parts`, with backticks only where it needs them.

    >>> join_name("straße", "order"), join_name("sales", "orders.2026")
    ('straße.order', 'sales.`orders.2026`')
    """
    return ".".join(part if _WORD.fullmatch(part) else _between_backticks(part) for part in parts)


def _between_backticks(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
