"""The facts of a page as JSON, field by field."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from mangrove.model.json_form import Json, to_json, value_to_json
from mangrove.model.schema import Schema

__all__ = ["facts_json", "json_bytes"]


def facts_json(value: Any) -> Json:
    """Return plain JSON of facts: objects, lists, text, numbers.

    Values of columns have the form that `mangrove.model.json_form` gives them.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Enum):
        return facts_json(value.value)
    if isinstance(value, Schema):
        return to_json(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: facts_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): facts_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [facts_json(entry) for entry in value]
    return value_to_json(value)


def json_bytes(answer: Json) -> bytes:
    """Return JSON as it is sent."""
    return json.dumps(answer, ensure_ascii=False, indent=2).encode("utf-8", "replace") + b"\n"
