"""Typed access to the fields of decoded objects, with unknown fields preserved.

    1 …                                a number alone
    2^62 + word · 2^20 + number        `beta.1`: the word's characters are the digits of a number to base 38

Nothing has to be remembered, so that a folder's name follows from a number. Words
longer than eight characters have no room.

What our model has and DeltaCAT's has not is JSON text under the key `mangrove`,
which DeltaCAT carries along when it writes the body again.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from mangrove.errors import FormatError, InvalidInputError
from mangrove.layouts.deltacat.msgpack_maps import MsgpackMap
from mangrove.model.json_codec import Json
from mangrove.model.properties import Properties

__all__ = [
    "EXTRAS",
    "BodyFields",
    "add_extras",
    "encode_extras",
    "format_table_version",
    "merge_properties",
    "parse_table_version",
]

_CHARACTERS: Final = "\0abcdefghijklmnopqrstuvwxyz0123456789_"
_WORD: Final = re.compile(r"(?:([a-z0-9_]{1,8})\.)?([0-9]+)")
_FLAG: Final = 1 << 62
_NUMBER_BITS: Final = 20


def parse_table_version(text: str) -> int:
    """Return the number of the table version that DeltaCAT calls so.

    >>> parse_table_version("7"), format_table_version(parse_table_version("beta.7"))
    (7, 'beta.7')
    """
    match = _WORD.fullmatch(text)
    if match is None:
        raise FormatError(
            f"the table version {text!r} has no room in Mangrove: it is a number, or up to eight small letters and "
            "digits, a dot and a number"
        )
    word, number = match[1], int(match[2])
    if not word and (number < _FLAG or format_table_version(number) == text):
        return number
    if not word or not 0 < number < 1 << _NUMBER_BITS:
        raise FormatError(f"the table version {text!r} is out of range: its number is too large for Mangrove")
    digits = 0
    for character in word:
        digits = digits * len(_CHARACTERS) + _CHARACTERS.index(character)
    return _FLAG + (digits << _NUMBER_BITS) + number


def format_table_version(number: int) -> str:
    """Return what DeltaCAT calls the table version with this number.

    >>> format_table_version(1), format_table_version(parse_table_version("x_1.12"))
    ('1', 'x_1.12')
    """
    digits, own = (number - _FLAG) >> _NUMBER_BITS, number % (1 << _NUMBER_BITS)
    word = ""
    while digits > 0:
        digits, place = divmod(digits, len(_CHARACTERS))
        word = _CHARACTERS[place] + word
    # A number of ours may be as large by chance, and stands for itself.
    return f"{word}.{own}" if own and _WORD.fullmatch(f"{word}.1") and len(word) > 0 else str(number)


EXTRAS: Final = "mangrove"
T = TypeVar("T")


class BodyFields:
    """A map from a file, asked for its fields one by one, each with the type that it must have."""

    def __init__(self, fields: MsgpackMap, path: str) -> None:
        self.raw = fields
        self._path = path
        self.extras = self._read_extras()

    def maybe(self, name: str, wanted: type[T]) -> T | None:
        """Return a field, or None where it is missing or null."""
        value = self.raw.get(name)
        if value is None:
            return None
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            raise self.refused(f"the field {name!r} is {value!r}, which is not {wanted.__name__}")
        return value

    def must(self, name: str, wanted: type[T]) -> T:
        """Return a field that cannot be missing."""
        value = self.maybe(name, wanted)
        if value is None:
            raise self.refused(f"it lacks the field {name!r}")
        return value

    def inner(self, *names: str) -> "BodyFields":
        """Return the map that lies inside this one, field by field."""
        found = self
        for name in names:
            found = BodyFields(found.must(name, dict), f"{found._path}: {name}")
        return found

    def each(self, name: str) -> "list[BodyFields]":
        """Return the maps of a list, which may be missing."""
        items: list[Any] = self.maybe(name, list) or []
        if not all(isinstance(item, dict) for item in items):
            raise self.refused(f"the field {name!r} is no list of maps")
        return [BodyFields(item, f"{self._path}: {name}[{place}]") for place, item in enumerate(items)]

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of text, which may be missing."""
        items: list[Any] = self.maybe(name, list) or []
        if not all(isinstance(item, str) for item in items):
            raise self.refused(f"the field {name!r} is no list of text")
        return tuple(items)

    def number(self, name: str) -> int | None:
        """Return the number of a table version, or None."""
        text = self.maybe(name, str)
        try:
            return None if text is None else parse_table_version(text)
        except FormatError as error:
            raise self.refused(f"the field {name!r}: {error}") from error

    def properties(self, name: str = "properties") -> Properties:
        """Return free properties; a value that is no text is shown as JSON."""
        found: dict[Any, Any] = self.maybe(name, dict) or {}
        return Properties({str(key): _text(value) for key, value in found.items()})

    def refused(self, problem: str) -> FormatError:
        """Return the error that says what is wrong with this map."""
        return FormatError(f"{self._path}: {problem}. Run `mangrove check` to see what else is affected")

    def _read_extras(self) -> dict[str, Json]:
        text = self.raw.get(EXTRAS)
        if text is None:
            return {}
        try:
            extras = json.loads(text)
        except (ValueError, TypeError) as error:
            raise self.refused(f"the field {EXTRAS!r} is no JSON") from error
        if not isinstance(extras, dict):
            raise self.refused(f"the field {EXTRAS!r} is no JSON object")
        return extras


def merge_properties(properties: Mapping[str, str], before: object) -> dict[str, Any] | None:
    """Return properties to write, with each that did not change as it was, whatever its type."""
    known: Mapping[Any, Any] = before if isinstance(before, dict) else {}
    if not properties and before is None:
        return None
    return {
        key: known[key] if key in known and _text(known[key]) == value else value for key, value in properties.items()
    }


def add_extras(fields: dict[str, Any], extras: Mapping[str, Json]) -> dict[str, Any]:
    """Return the fields with what DeltaCAT does not know, if there is any."""
    text = encode_extras(extras)
    fields.pop(EXTRAS, None)
    return fields | ({EXTRAS: text} if text else {})


def encode_extras(extras: Mapping[str, Json]) -> str:
    """Return extras as JSON text without those that are null or empty; nothing at all is the empty text."""
    kept = {name: value for name, value in extras.items() if value not in (None, [], {})}
    try:
        return json.dumps(kept, ensure_ascii=False, separators=(",", ":"), allow_nan=False) if kept else ""
    except ValueError as error:
        raise InvalidInputError(f"a value cannot be stored as JSON: {error}") from error


def _text(value: Any) -> str:
    try:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(value)
