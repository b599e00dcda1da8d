"""Table versions that DeltaCAT calls by a word and a number, as the whole numbers that Mangrove has for them.

    1 …                                a number alone
    2^62 + word · 2^20 + number        `beta.1`: the word's characters are the digits of a number to base 38

Nothing has to be remembered, so that a folder's name follows from a number. Words
longer than eight characters have no room.
"""

import re
from typing import Final

from mangrove.errors import FormatError

__all__ = ["version_number", "version_text"]

_CHARACTERS: Final = "\0abcdefghijklmnopqrstuvwxyz0123456789_"
_WORD: Final = re.compile(r"(?:([a-z0-9_]{1,8})\.)?([0-9]+)")
_FLAG: Final = 1 << 62
_NUMBER_BITS: Final = 20


def version_number(text: str) -> int:
    """Return the number of the table version that DeltaCAT calls so.

    >>> version_number("7"), version_text(version_number("beta.7"))
    (7, 'beta.7')
    """
    match = _WORD.fullmatch(text)
    if match is None:
        raise FormatError(
            f"the table version {text!r} has no room in Mangrove: it is a number, or up to eight small letters and "
            "digits, a dot and a number"
        )
    word, number = match[1], int(match[2])
    if not word and (number < _FLAG or version_text(number) == text):
        return number
    if not word or not 0 < number < 1 << _NUMBER_BITS:
        raise FormatError(f"the table version {text!r} is out of range: its number is too large for Mangrove")
    digits = 0
    for character in word:
        digits = digits * len(_CHARACTERS) + _CHARACTERS.index(character)
    return _FLAG + (digits << _NUMBER_BITS) + number


def version_text(number: int) -> str:
    """Return what DeltaCAT calls the table version with this number.

    >>> version_text(1), version_text(version_number("x_1.12"))
    ('1', 'x_1.12')
    """
    digits, own = (number - _FLAG) >> _NUMBER_BITS, number % (1 << _NUMBER_BITS)
    word = ""
    while digits > 0:
        digits, place = divmod(digits, len(_CHARACTERS))
        word = _CHARACTERS[place] + word
    # A number of ours may be as large by chance, and stands for itself.
    return f"{word}.{own}" if own and _WORD.fullmatch(f"{word}.1") and len(word) > 0 else str(number)
