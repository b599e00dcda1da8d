"""JSON codec of predicates."""

from typing import Any, Final

from mangrove.errors import FormatError
from mangrove.expressions.predicates import (
    AllOf,
    AnyOf,
    ColumnComparison,
    ConstantPredicate,
    IsIn,
    IsNull,
    Predicate,
    StartsWith,
)
from mangrove.model.json_codec import Json, from_json, to_json

__all__ = ["predicate_from_json", "predicate_to_json"]

_JUNCTIONS: Final[dict[str, type[AllOf | AnyOf]]] = {"all": AllOf, "any": AnyOf}
_OTHERS: Final[dict[str, type[ConstantPredicate | ColumnComparison | IsNull | IsIn | StartsWith]]] = {
    "constant": ConstantPredicate,
    "compare": ColumnComparison,
    "null": IsNull,
    "in": IsIn,
    "prefix": StartsWith,
}
_NAMES: Final = {model: name for name, model in (_JUNCTIONS | _OTHERS).items()}


def predicate_to_json(predicate: Predicate) -> Json:
    """Return the predicate as a list of its kind and its content.

    >>> predicate_to_json(AllOf((IsNull(3), StartsWith(4, "a"))))
    ['all', ['null', {'column_id': 3, 'negated': False}], ['prefix', {'column_id': 4, 'prefix': 'a', 'negated': False}]]
    """
    name = _NAMES[type(predicate)]
    if isinstance(predicate, AllOf | AnyOf):
        return [name, *map(predicate_to_json, predicate.parts)]
    return [name, to_json(predicate)]


def predicate_from_json(data: Any, path: str = "$") -> Predicate:
    """Return the predicate whose JSON is `data`; errors name it `path`."""
    name, *content = data
    if name in _JUNCTIONS:
        return _JUNCTIONS[name](tuple(predicate_from_json(part, path) for part in content))
    if name not in _OTHERS or len(content) != 1:
        raise FormatError(f"{path} has the unknown predicate {name!r}; expected one of {', '.join(_NAMES.values())}")
    return from_json(content[0], _OTHERS[name], path)
