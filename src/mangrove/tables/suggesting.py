"""Which name was probably meant by one that is not there."""

import difflib
from collections.abc import Sequence

__all__ = ["closest", "did_you_mean"]


def closest(name: str, names: Sequence[str]) -> str | None:
    """Return the name that looks most like one that is not there, if any does."""
    found = difflib.get_close_matches(name.casefold(), [one.casefold() for one in names], 1, 0.6)
    return next((one for one in names if found and one.casefold() == found[0]), None)


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """Return the end of a sentence about a name that is not there."""
    meant = closest(name, names)
    return f": there are {', '.join(names)}" if meant is None else f": did you mean {meant!r}?"
