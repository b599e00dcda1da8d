"""Saying in words of the table what Arrow refused to take as the values of a column."""

import decimal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from mangrove.errors import InvalidInputError
from mangrove.model.arrow_form import type_to_arrow
from mangrove.model.sql_text import type_text
from mangrove.model.types import DataType, Map
from mangrove.tables.assigning import decimal_fault

__all__ = ["refused_values"]


def refused_values(name: str, values: Sequence[Any], wanted: DataType | None, error: Exception) -> InvalidInputError:
    """Return the refusal of a column of rows, as exact as the values allow."""
    for value in _inside(values):
        fault = decimal_fault(value) if isinstance(value, decimal.Decimal) else None
        if fault is not None:
            return InvalidInputError(f"column {name!r} holds {fault}")
    if isinstance(wanted, Map):
        fault = _map_fault(name, values, wanted)
        if fault is not None:
            return InvalidInputError(fault)
    return InvalidInputError(f"column {name!r} holds values that are not of one type: {error}")


def _inside(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, Mapping):
            yield from _inside([*value.keys(), *value.values()])
        elif isinstance(value, list | tuple):
            yield from _inside(value)
        else:
            yield value


def _map_fault(name: str, values: Sequence[Any], wanted: Map) -> str | None:
    for value in values:
        if value is None:
            continue
        if not isinstance(value, Mapping | list | tuple):
            return f"column {name!r} is {type_text(wanted)} and holds {value!r}: give a dict"
        pairs = [*value.items()] if isinstance(value, Mapping) else [*value]
        for key, inner in (pair for pair in pairs if isinstance(pair, tuple) and len(pair) == 2):
            if key is None:
                return f"a map in column {name!r} has the key null: leave that entry out"
            if not _fits(key, wanted.key.type):
                return f"a map in column {name!r} has the key {key!r}, and its keys are {type_text(wanted.key.type)}"
            if not _fits(inner, wanted.value.type):
                return (
                    f"a map in column {name!r} has {inner!r} for the key {key!r}, and its values are "
                    f"{type_text(wanted.value.type)}"
                )
    return None


def _fits(value: Any, wanted: DataType) -> bool:
    try:
        pa.array([value], type_to_arrow(wanted))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError):
        return False
    return True
