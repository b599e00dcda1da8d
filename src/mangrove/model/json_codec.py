"""A deterministic JSON codec for model values.

A value becomes an object with its fields by name; what is None or empty by
default is left out. A plain type is its SQL text, a transform its text without
the column, and a value whose kind JSON cannot tell is an object with one entry
that says it, such as `{"date": "2026-11-15"}`.
"""

import datetime
import decimal
import enum
import json
from collections.abc import Callable, Mapping, Sized
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from mangrove.errors import FormatError, InvalidInputError
from mangrove.model.partitioning import (
    Bucket,
    Days,
    Hours,
    Identity,
    Months,
    Transform,
    Truncate,
    Years,
    transform_name_of,
)
from mangrove.model.schema import NESTING_MAX
from mangrove.model.schema_text import format_type, parse_plain_type
from mangrove.model.types import Column, DataType, List, Map, Struct, inner_columns
from mangrove.model.values import Value, normalize_values

__all__ = [
    "Json",
    "format_partition_values",
    "from_json",
    "parse_partition_values",
    "to_json",
    "value_from_json",
    "value_to_json",
]

Json = bool | int | float | str | None | list["Json"] | dict[str, "Json"]
Model = TypeVar("Model")

_DATA_TYPES: Final = frozenset(get_args(DataType))
_TRANSFORMS: Final = frozenset(get_args(Transform))
_VALUES: Final = frozenset(get_args(Value))
_SIMPLE_TRANSFORMS: Final[dict[str, Transform]] = {
    transform_name_of(transform): transform for transform in (Identity(), Years(), Months(), Days(), Hours())
}
_DEPTH_MAX: Final = 4 * NESTING_MAX
"""Each level of a nested type takes at most three levels of JSON, and its surroundings a few more."""


def to_json(value: Any) -> Json:
    """Return the JSON of a schema, scheme, manifest, object or any other value of the model."""
    if isinstance(value, DataType):
        return _type_to_json(value)
    if isinstance(value, Transform):
        return _transform_text(value)
    if is_dataclass(value):
        model: Any = type(value)
        return {
            field.name: field.write(found)
            for field in _fields_of(model)
            if not field.is_left_out(found := getattr(value, field.name))
        }
    raise InvalidInputError(f"{value!r} is not a model value and has no JSON form")


def from_json(data: Json, model: type[Model], path: str = "$") -> Model:
    """Return the value of class `model` with the JSON `data`; errors name it `path`."""
    if path.count(".") + path.count("[") > _DEPTH_MAX:
        raise FormatError(f"{path[:80]}… is nested too deep")
    entries = _object(data, path)
    expected: Any = model
    known = {field.name: field for field in _fields_of(expected)}
    unknown = entries.keys() - known.keys()
    if unknown:
        raise FormatError(f"{path} has the unknown field {min(unknown)!r}; expected {', '.join(known)}")
    arguments: dict[str, Any] = {}
    for name, field in known.items():
        if name in entries:
            arguments[name] = field.read(entries[name], f"{path}.{name}")
        elif field.default is MISSING:
            raise FormatError(f"{path} has no field {name!r}")
    try:
        return model(**arguments)
    except InvalidInputError as error:
        raise FormatError(f"{path}: {error}") from error


def value_to_json(value: Value | None) -> Json:
    """Return the JSON of a bound or a partition value, from which `value_from_json` gives the same."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return {"float": value if value - value == 0 else str(value)}
        case decimal.Decimal():
            return {"decimal": str(value)}
        case bytes():
            return {"binary": value.hex()}
        case datetime.datetime():
            return {"timestamp" if value.tzinfo is None else "timestamptz": value.isoformat()}
        case datetime.date():
            return {"date": value.isoformat()}
        case datetime.time():
            return {"time" if value.tzinfo is None else "timetz": value.isoformat()}


def value_from_json(data: Json, path: str = "$") -> Value | None:
    """Return the value whose JSON is `data`."""
    if data is None or isinstance(data, bool | int | str):
        return data
    if not isinstance(data, dict) or len(data) != 1:
        raise FormatError(f"{path} is {data!r}: a value is null, a bool, an integer, text or one of {_tags()}")
    ((tag, body),) = data.items()
    read = _READERS.get(tag)
    if read is None:
        raise FormatError(f"{path} has the unknown kind {tag!r}; expected one of {_tags()}")
    try:
        return read(body)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise FormatError(f"{path}.{tag} has the invalid value {body!r}") from error


def format_partition_values(values: tuple[Value | None, ...]) -> str:
    r"""Return partition values as a JSON array without bars.

    >>> print(format_partition_values(("a|b", 1, None)))
    ["a\u007cb",1,null]
    """
    text = json.dumps([value_to_json(value) for value in values], ensure_ascii=False, separators=(",", ":"))
    return text.replace("|", "\\u007c")


def parse_partition_values(text: str) -> tuple[Value | None, ...]:
    """Return the partition values of their text."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"partition values {text[:200]!r} are not a JSON array ({error})") from error
    if not isinstance(data, list):
        raise InvalidInputError(f"partition values {text!r} are not a JSON array")
    try:
        return normalize_values(tuple(value_from_json(one) for one in data))
    except FormatError as error:
        raise InvalidInputError(f"partition values {text!r}: {error}") from error


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    default: Any
    write: Callable[[Any], Json]
    read: Callable[[Json, str], Any]

    def is_left_out(self, value: Any) -> bool:
        return value == self.default and (value is None or (isinstance(value, Sized) and len(value) == 0))


@cache
def _fields_of(model: type) -> tuple[_Field, ...]:
    hints = get_type_hints(model)
    return tuple(_Field(field.name, field.default, *_codec(hints[field.name])) for field in fields(model))


def _codec(hint: Any) -> tuple[Callable[[Any], Json], Callable[[Json, str], Any]]:
    """Return how a field of this type is written and read."""
    options = frozenset(get_args(hint)) if isinstance(hint, UnionType) else frozenset([hint])
    without_none = options - {NoneType}
    if without_none == _VALUES:
        return value_to_json, value_from_json
    if without_none == _DATA_TYPES:
        return _type_to_json, _type_from_json
    if without_none == _TRANSFORMS:
        return _transform_text, _transform_of_text
    (only,) = without_none
    write, read = _codec_of_one(only)
    if NoneType not in options:
        return write, read
    return (
        lambda value: None if value is None else write(value),
        lambda data, path: None if data is None else read(data, path),
    )


def _codec_of_one(hint: Any) -> tuple[Callable[[Any], Json], Callable[[Json, str], Any]]:
    if get_origin(hint) is tuple:
        write, read = _codec(get_args(hint)[0])
        return lambda values: [write(value) for value in values], lambda data, path: _list(data, path, read)
    if get_origin(hint) is Mapping:
        key = get_args(hint)[0]
        return lambda entries: {str(name): value for name, value in entries.items()}, (
            lambda data, path: _mapping(data, path, key)
        )
    if hint is bytes:
        return bytes.hex, _bytes
    if isinstance(hint, enum.EnumMeta):
        return lambda member: member.value, lambda data, path: _member(data, path, hint)
    if is_dataclass(hint):
        model: Any = hint
        return to_json, lambda data, path: from_json(data, model, path)
    return lambda value: value, lambda data, path: _exactly(data, path, hint)


def _type_to_json(data_type: DataType) -> Json:
    if not inner_columns(data_type):
        return format_type(data_type)
    match data_type:
        case Struct(columns):
            return {"struct": [to_json(column) for column in columns]}
        case List(element):
            return {"list": to_json(element)}
        case Map(key, value):
            return {"map": {"key": to_json(key), "value": to_json(value)}}
    raise AssertionError(data_type)


def _type_from_json(data: Json, path: str) -> DataType:
    try:
        match data:
            case str():
                if "<" in data:
                    raise FormatError(f"{path} is {data!r}: a nested type is an object, so that its columns have ids")
                return parse_plain_type(data)
            case {"struct": columns, **others} if not others:
                return Struct(tuple(_list(columns, f"{path}.struct", _column)))
            case {"list": element, **others} if not others:
                return List(_column(element, f"{path}.list"))
            case {"map": {"key": key, "value": value, **inner}, **others} if not others and not inner:
                return Map(_column(key, f"{path}.map.key"), _column(value, f"{path}.map.value"))
    except InvalidInputError as error:
        raise FormatError(f"{path}: {error}") from error
    raise FormatError(f"{path} is {data!r}: a type is text, or an object with struct, list or map")


def _column(data: Json, path: str) -> Column:
    return from_json(data, Column, path)


def _transform_text(transform: Transform) -> str:
    match transform:
        case Bucket(number) | Truncate(number):
            return f"{transform_name_of(transform)}({number})"
        case _:
            return transform_name_of(transform)


def _transform_of_text(data: Json, path: str) -> Transform:
    if isinstance(data, str):
        if data in _SIMPLE_TRANSFORMS:
            return _SIMPLE_TRANSFORMS[data]
        word, _, rest = data.partition("(")
        number = rest.removesuffix(")")
        if word in ("bucket", "truncate") and rest != number and number.isascii() and number.isdigit():
            try:
                return Bucket(int(number)) if word == "bucket" else Truncate(int(number))
            except InvalidInputError as error:
                raise FormatError(f"{path}: {error}") from error
    raise FormatError(f"{path} is {data!r}: it is identity, years, months, days, hours, bucket(n) or truncate(n)")


def _object(data: Json, path: str) -> dict[str, Json]:
    if not isinstance(data, dict):
        raise FormatError(f"{path} is {data!r}: it is an object")
    return data


def _list(data: Json, path: str, read: Callable[[Json, str], Any]) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise FormatError(f"{path} is {data!r}: it is a list")
    return tuple(read(item, f"{path}[{place}]") for place, item in enumerate(data))


def _mapping(data: Json, path: str, key: type) -> dict[Any, Any]:
    entries = _object(data, path)
    if key is str:
        return {name: _exactly(value, f"{path}.{name}", str) for name, value in entries.items()}
    for name in entries:
        if not (name.isascii() and name.isdigit() and len(name) < 20):
            raise FormatError(f"{path} has the key {name!r}: it is a whole number as text")
    return {int(name): _exactly(value, f"{path}.{name}", int) for name, value in entries.items()}


def _member(data: Json, path: str, members: enum.EnumMeta) -> Any:
    for member in members:  # type: ignore[var-annotated]
        if type(data) is str and member.value == data:
            return member
    allowed = ", ".join(str(member.value) for member in members)  # type: ignore[var-annotated]
    raise FormatError(f"{path} is {data!r}: it is one of {allowed}")


def _bytes(data: Json, path: str) -> bytes:
    try:
        return _hex(data)
    except (ValueError, TypeError) as error:
        raise FormatError(f"{path} is {data!r}: it is bytes as hexadecimal digits") from error


def _exactly(data: Json, path: str, expected: type) -> Any:
    if type(data) is not expected:
        raise FormatError(f"{path} is {data!r}: it is of type {expected.__name__}")
    return data


def _hex(body: Json) -> bytes:
    return bytes.fromhex(_text(body))


def _text(body: Json) -> str:
    if not isinstance(body, str):
        raise TypeError(body)
    return body


def _float(body: Json) -> float:
    if isinstance(body, str):
        if body not in ("inf", "-inf"):
            raise ValueError(body)
        return float(body)
    if not isinstance(body, float):
        raise TypeError(body)
    return body


def _timestamp(body: Json, *, has_zone: bool) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(_text(body))
    if (moment.tzinfo is not None) != has_zone:
        raise ValueError(body)
    return moment


def _time_of_day(body: Json, *, has_zone: bool) -> datetime.time:
    time = datetime.time.fromisoformat(_text(body))
    if (time.tzinfo is not None) != has_zone:
        raise ValueError(body)
    return time


_READERS: Final[dict[str, Callable[[Json], Value]]] = {
    "binary": _hex,
    "date": lambda body: datetime.date.fromisoformat(_text(body)),
    "decimal": lambda body: decimal.Decimal(_text(body)),
    "float": _float,
    "time": lambda body: _time_of_day(body, has_zone=False),
    "timestamp": lambda body: _timestamp(body, has_zone=False),
    "timestamptz": lambda body: _timestamp(body, has_zone=True),
    "timetz": lambda body: _time_of_day(body, has_zone=True),
}


def _tags() -> str:
    return ", ".join(_READERS)
