"""Typed access to the fields of decoded objects, with unknown fields preserved.

Table versions are integers in Mangrove and strings in DeltaCAT:

    1 …                                a plain number
    2^62 + word · 2^20 + number        `beta.1`: the word is a number in base 38

The mapping is stateless, so a folder name follows from the number. Words are
limited to eight characters.

Fields that DeltaCAT's model does not have are JSON text under the key `mangrove`,
which DeltaCAT preserves when it rewrites the body.
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
    """Return the number of the table version with this DeltaCAT name.

    >>> parse_table_version("7"), format_table_version(parse_table_version("beta.7"))
    (7, 'beta.7')
    """
    match = _WORD.fullmatch(text)
    if match is None:
        raise FormatError(
            f"unsupported table version {text!r}; expected a number, or up to eight lower-case letters and "
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
    """Return the DeltaCAT name of the table version with this number.

    >>> format_table_version(1), format_table_version(parse_table_version("x_1.12"))
    ('1', 'x_1.12')
    """
    digits, own = (number - _FLAG) >> _NUMBER_BITS, number % (1 << _NUMBER_BITS)
    word = ""
    while digits > 0:
        digits, place = divmod(digits, len(_CHARACTERS))
        word = _CHARACTERS[place] + word
    # A plain number may be that large; then it is its own name.
    return f"{word}.{own}" if own and _WORD.fullmatch(f"{word}.1") and len(word) > 0 else str(number)


EXTRAS: Final = "mangrove"
T = TypeVar("T")


class BodyFields:
    """Typed access to the fields of a decoded map."""

    def __init__(self, fields: MsgpackMap, path: str) -> None:
        self.raw = fields
        self._path = path
        self.extras = self._read_extras()

    def maybe(self, name: str, expected_type: type[T]) -> T | None:
        """Return a field, or None if it is missing or null."""
        value = self.raw.get(name)
        if value is None:
            return None
        if not isinstance(value, expected_type) or (expected_type is int and isinstance(value, bool)):
            raise self.refused(f"the field {name!r} is {value!r}; expected {expected_type.__name__}")
        return value

    def must(self, name: str, expected_type: type[T]) -> T:
        """Return a required field."""
        value = self.maybe(name, expected_type)
        if value is None:
            raise self.refused(f"the field {name!r} is missing")
        return value

    def inner(self, *names: str) -> "BodyFields":
        """Return the nested map in a field."""
        found = self
        for name in names:
            found = BodyFields(found.must(name, dict), f"{found._path}: {name}")
        return found

    def each(self, name: str) -> "list[BodyFields]":
        """Return the maps of a list, which may be missing."""
        items: list[Any] = self.maybe(name, list) or []
        if not all(isinstance(item, dict) for item in items):
            raise self.refused(f"the field {name!r} is not a list of maps")
        return [BodyFields(item, f"{self._path}: {name}[{place}]") for place, item in enumerate(items)]

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of text, which may be missing."""
        items: list[Any] = self.maybe(name, list) or []
        if not all(isinstance(item, str) for item in items):
            raise self.refused(f"the field {name!r} is not a list of strings")
        return tuple(items)

    def number(self, name: str) -> int | None:
        """Return the number of a table version, or None."""
        text = self.maybe(name, str)
        try:
            return None if text is None else parse_table_version(text)
        except FormatError as error:
            raise self.refused(f"the field {name!r}: {error}") from error

    def properties(self, name: str = "properties") -> Properties:
        """Return free properties; a value that is not a string is formatted as JSON."""
        found: dict[Any, Any] = self.maybe(name, dict) or {}
        return Properties({str(key): _text(value) for key, value in found.items()})

    def refused(self, problem: str) -> FormatError:
        """Return the error for an invalid map."""
        return FormatError(f"{self._path}: {problem}. Run `mangrove check` to see what else is affected")

    def _read_extras(self) -> dict[str, Json]:
        text = self.raw.get(EXTRAS)
        if text is None:
            return {}
        try:
            extras = json.loads(text)
        except (ValueError, TypeError) as error:
            raise self.refused(f"the field {EXTRAS!r} is not JSON") from error
        if not isinstance(extras, dict):
            raise self.refused(f"the field {EXTRAS!r} is not a JSON object")
        return extras


def merge_properties(properties: Mapping[str, str], before: object) -> dict[str, Any] | None:
    """Return the properties to write; unchanged ones keep their original type."""
    known: Mapping[Any, Any] = before if isinstance(before, dict) else {}
    if not properties and before is None:
        return None
    return {
        key: known[key] if key in known and _text(known[key]) == value else value for key, value in properties.items()
    }


def add_extras(fields: dict[str, Any], extras: Mapping[str, Json]) -> dict[str, Any]:
    """Return the fields with the extras that DeltaCAT does not know, if there are any."""
    text = encode_extras(extras)
    fields.pop(EXTRAS, None)
    return fields | ({EXTRAS: text} if text else {})


def encode_extras(extras: Mapping[str, Json]) -> str:
    """Return extras as JSON text without null or empty values; no extras are the empty string."""
    present = {name: value for name, value in extras.items() if value not in (None, [], {})}
    try:
        return json.dumps(present, ensure_ascii=False, separators=(",", ":"), allow_nan=False) if present else ""
    except ValueError as error:
        raise InvalidInputError(f"a value cannot be stored as JSON: {error}") from error


def _text(value: Any) -> str:
    try:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(value)
