"""Which partitions can hold the rows that a predicate means, told before anything in them is read."""

import itertools
import math
from collections.abc import Sequence
from typing import Final

from mangrove.model.schema import Schema
from mangrove.model.schemes import PartitionScheme
from mangrove.model.transforms import apply, result_type
from mangrove.model.types import Date, Int2, Int4, Int8, Varchar
from mangrove.model.values import Value, fits_type
from mangrove.tables.predicates import AllOf, AnyOf, Comparison, IsIn, Operator, Predicate
from mangrove.tables.pruning import PartitionFact, partition_may_match

__all__ = ["may_hold", "named_values"]

_NAMED_MAX: Final = 100
"""More partitions than that are listed: it costs less than to look up each."""
_ONE_FORM: Final = (Int2, Int4, Int8, Varchar, Date)
"""The types of which equal values have one form, also when the type of their column becomes wider."""


def may_hold(scheme: PartitionScheme, values: Sequence[Value | None], schema: Schema, predicate: Predicate) -> bool:
    """Return whether a row for which `predicate` is true is possible in the partition with these values.

    Values of another scheme, which are more or fewer, say nothing.
    """
    if len(values) != len(scheme.fields):
        return True
    facts = [
        PartitionFact(field, schema.column_with_id(field.source_id).type, value)
        for field, value in zip(scheme.fields, values, strict=True)
        if schema.has_id(field.source_id)
    ]
    return partition_may_match(predicate, facts)


def named_values(
    scheme: PartitionScheme, schema: Schema, predicate: Predicate
) -> list[tuple[Value | None, ...]] | None:
    """Return the values of all partitions that can hold such rows, or None where they cannot be named.

    They can where each partition field follows from a column of which the predicate
    allows single values only. Then these partitions are looked up, and none is listed.
    """
    choices: list[list[Value | None]] = []
    for field in scheme.fields:
        asked = _values_allowed(predicate, field.source_id) if schema.has_id(field.source_id) else None
        if asked is None:
            return None
        source = schema.column_with_id(field.source_id).type
        if not isinstance(result_type(field.transform, source), _ONE_FORM):
            return None
        if not all(fits_type(value, source) for value in asked):
            return None
        choices.append(list(dict.fromkeys(apply(field.transform, source, value) for value in asked)))
    return list(itertools.product(*choices)) if math.prod(map(len, choices)) <= _NAMED_MAX else None


def _values_allowed(predicate: Predicate, column_id: int) -> tuple[Value, ...] | None:
    """Return values of which the column has one in every row that is meant, or None where it may have any."""
    match predicate:
        case Comparison(column, Operator.EQUAL, value) if column == column_id:
            return (value,)
        case IsIn(column, values, False) if column == column_id:
            return values
        case AllOf(parts):
            return next((found for part in parts if (found := _values_allowed(part, column_id)) is not None), None)
        case AnyOf(parts):
            allowed = [_values_allowed(part, column_id) for part in parts]
            known = [values for values in allowed if values is not None]
            return tuple(itertools.chain.from_iterable(known)) if len(known) == len(allowed) else None
        case _:
            return None
