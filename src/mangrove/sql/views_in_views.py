"""How views may stand in views: none in itself, not too deep, and an error says in which of them it is."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from mangrove.errors import InvalidInputError, MangroveError

__all__ = ["one_deeper", "reading_view"]

_DEEP_MAX: Final = 50
_TOLD_MAX: Final = 5
_CANNOT_BE_READ: Final = re.compile(r"the view [^:]+ cannot be read: ")


def one_deeper(above: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Return the views inside which the query of the view `name` stands, if it stands inside those `above`.

    >>> one_deeper(("s.a",), "s.b")
    ('s.a', 's.b')
    """
    if name in above:
        way = " reads ".join((*above[above.index(name) :], name))
        raise InvalidInputError(
            f"the view {name} reads itself: {way}. Drop one of them, or make it anew to read something else"
        )
    if len(above) >= _DEEP_MAX:
        way = " reads ".join((*above[:_TOLD_MAX], "…", name))
        raise InvalidInputError(
            f"more than {_DEEP_MAX} views stand in each other: {way}. Keep the rows of one of them in a table "
            "(CREATE TABLE … AS SELECT …), and read that"
        )
    return (*above, name)


@contextmanager
def reading_view(name: str) -> Iterator[None]:
    """Say of an error in which view it is: in the innermost, which is the one to be mended."""
    try:
        yield
    except MangroveError as error:
        if _CANNOT_BE_READ.match(str(error)):
            raise
        # Its first line says all; a caret in the view's text would stand below the user's.
        raise type(error)(f"the view {name} cannot be read: {str(error).splitlines()[0]}") from error
