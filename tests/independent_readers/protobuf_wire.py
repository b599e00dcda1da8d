"""A decoder of protobuf messages that is driven by the text of a `.proto` file.

It supports what `proto/mangrove_tree.proto` uses: proto3 messages, enumerations, maps,
`oneof`, packed and unpacked repeated fields. Unknown fields are skipped.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_BLOCK: Final = re.compile(r"(message|enum|oneof) (\w+) \{")
_FIELD: Final = re.compile(r"(?:(repeated|optional) )?(?:map<(\w+), (\w+)>|(\w+)) (\w+) = (\d+);")
_CONSTANT: Final = re.compile(r"(\w+) = (\d+);")
_ZEROS: Final[dict[str, Any]] = {"string": "", "bytes": b"", "bool": False, "double": 0.0}
_NUMBERS: Final = ("uint32", "uint64", "sint64", "bool", "double", "fixed32")


class Field(NamedTuple):
    """A field of a message; a map has the label `map` and the types of its keys and values."""

    name: str
    type: str
    label: str
    key_type: str = ""


@dataclass
class Definitions:
    """The messages and enumerations of a `.proto` file."""

    messages: dict[str, dict[int, Field]] = field(default_factory=dict)
    enums: dict[str, dict[int, str]] = field(default_factory=dict)

    def decode(self, message: str, data: bytes) -> dict[str, Any]:
        """Return the fields of a message by name.

        A field without a label has its default value if it is absent. An absent optional
        field, message or member of a `oneof` is left out.
        """
        fields = self.messages[message]
        values: dict[str, Any] = {}
        for one in fields.values():
            if one.label in ("repeated", "map"):
                values[one.name] = [] if one.label == "repeated" else {}
            elif one.label == "" and one.type not in self.messages:
                values[one.name] = self.enums[one.type][0] if one.type in self.enums else _ZEROS.get(one.type, 0)
        for number, raw in _split_fields(data):
            if number in fields:
                self._add(values, fields[number], raw)
        return values

    def _add(self, values: dict[str, Any], one: Field, raw: int | bytes) -> None:
        if one.label == "map":
            assert isinstance(raw, bytes)
            entry = {1: _ZEROS.get(one.key_type, 0), 2: _ZEROS.get(one.type, 0)}
            for number, inner in _split_fields(raw):
                entry[number] = self._convert(one.key_type if number == 1 else one.type, inner)
            values[one.name][entry[1]] = entry[2]
        elif one.label == "repeated" and isinstance(raw, bytes) and (one.type in _NUMBERS or one.type in self.enums):
            values[one.name] += [self._convert(one.type, inner) for inner in _split_varints(raw)]
        elif one.label == "repeated":
            values[one.name].append(self._convert(one.type, raw))
        else:
            values[one.name] = self._convert(one.type, raw)

    def _convert(self, type_name: str, raw: int | bytes) -> Any:
        if type_name in self.messages:
            assert isinstance(raw, bytes)
            return self.decode(type_name, raw)
        if type_name in self.enums:
            assert isinstance(raw, int)
            return self.enums[type_name][raw]
        match type_name, raw:
            case "string", bytes():
                return raw.decode()
            case "bytes", bytes():
                return raw
            case "double", bytes():
                return struct.unpack("<d", raw)[0]
            case "bool", int():
                return bool(raw)
            case "sint64", int():
                return (raw >> 1) ^ -(raw & 1)
            case (("uint32" | "uint64"), int()):
                return raw
        raise ValueError(f"a field of type {type_name} has the wire value {raw!r}")


def parse_proto(text: str) -> Definitions:
    """Return the definitions in the text of a `.proto` file."""
    definitions = Definitions()
    blocks: list[tuple[str, str]] = []
    for line in re.sub(r"//.*", "", text).splitlines():
        words = line.strip()
        if match := _BLOCK.fullmatch(words):
            blocks.append((match[1], match[2]))
            if match[1] != "oneof":
                (definitions.messages if match[1] == "message" else definitions.enums)[match[2]] = {}
        elif words == "}":
            blocks.pop()
        elif blocks and blocks[-1][0] == "enum" and (match := _CONSTANT.fullmatch(words)):
            definitions.enums[blocks[-1][1]][int(match[2])] = match[1]
        elif blocks and (match := _FIELD.fullmatch(words)):
            label = "map" if match[2] else "oneof" if blocks[-1][0] == "oneof" else match[1] or ""
            one = Field(match[5], match[3] or match[4], label, match[2] or "")
            definitions.messages[blocks[0][1]][int(match[6])] = one
    return definitions


def _split_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the wire value of each field."""
    place = 0
    while place < len(data):
        tag, place = _read_varint(data, place)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, place = _read_varint(data, place)
            yield number, value
            continue
        if wire == _BYTES:
            size, place = _read_varint(data, place)
        elif wire in (_FIXED_64, _FIXED_32):
            size = 8 if wire == _FIXED_64 else 4
        else:
            raise ValueError(f"field {number} has the unknown wire type {wire}")
        if place + size > len(data):
            raise ValueError(f"field {number} ends behind the message")
        yield number, data[place : place + size]
        place += size


def _split_varints(data: bytes) -> Iterator[int]:
    place = 0
    while place < len(data):
        value, place = _read_varint(data, place)
        yield value


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if not byte & 0x80:
            return value, place
