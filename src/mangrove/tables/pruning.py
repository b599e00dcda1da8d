"""Partition pruning and file pruning by column statistics."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, assert_never

from mangrove.expressions.predicates import (
    AllOf,
    AnyOf,
    ColumnComparison,
    ConstantPredicate,
    IsIn,
    IsNull,
    Operator,
    Predicate,
    StartsWith,
    negate_predicate,
)
from mangrove.model.partitioning import (
    Bucket,
    Identity,
    PartitionField,
    PartitionScheme,
    Truncate,
    result_type_of,
    transform_value,
)
from mangrove.model.schema import Schema
from mangrove.model.types import DataType, Date, Float32, Float64, Int16, Int32, Int64, Varchar
from mangrove.model.values import Value, is_value_of_type

__all__ = [
    "UNKNOWN_STATS",
    "ColumnPruningStats",
    "PartitionFieldValue",
    "can_match_partition_values",
    "can_match_stats",
    "can_partition_match",
    "enumerate_partition_values",
    "must_match_stats",
]


@dataclass(frozen=True, slots=True)
class ColumnPruningStats:
    """The bounds of one column in one file; None is unbounded."""

    minimum: Value | None = None
    maximum: Value | None = None
    may_be_null: bool = True
    may_be_value: bool = True
    may_be_nan: bool = True


UNKNOWN_STATS = ColumnPruningStats()


@dataclass(frozen=True, slots=True)
class PartitionFieldValue:
    """The value of a partition field for all rows of a file."""

    field: PartitionField
    source: DataType
    value: Value | None


def can_match_stats(predicate: Predicate, stats_of: Callable[[int], ColumnPruningStats]) -> bool:
    """Return whether a row that satisfies `predicate` is possible."""
    match predicate:
        case ConstantPredicate(holds):
            return holds
        case AllOf(parts):
            return all(can_match_stats(part, stats_of) for part in parts)
        case AnyOf(parts):
            return any(can_match_stats(part, stats_of) for part in parts)
        case IsNull(column_id, negated):
            facts = stats_of(column_id)
            return facts.may_be_value if negated else facts.may_be_null
        case ColumnComparison() | IsIn() | StartsWith():
            facts = stats_of(predicate.column_id)
            return facts.may_be_value and _value_may_match(predicate, facts)
        case _:
            assert_never(predicate)


def must_match_stats(predicate: Predicate, stats_of: Callable[[int], ColumnPruningStats]) -> bool:
    """Return whether every row satisfies `predicate`, as far as the statistics tell."""
    match predicate:
        case AllOf(parts):
            return all(must_match_stats(part, stats_of) for part in parts)
        case AnyOf(parts):
            return any(must_match_stats(part, stats_of) for part in parts)
        case ColumnComparison() | IsIn() | StartsWith() if stats_of(predicate.column_id).may_be_null:
            return False
        case _:
            return not can_match_stats(negate_predicate(predicate), stats_of)


def can_match_partition_values(predicate: Predicate, partition: Iterable[PartitionFieldValue]) -> bool:
    """Return whether a row that satisfies `predicate` is possible in a partition with these values."""
    by_column: dict[int, list[PartitionFieldValue]] = {}
    for partition_value in partition:
        by_column.setdefault(partition_value.field.source_id, []).append(partition_value)
    return _partition_may_match(predicate, by_column)


def _partition_may_match(predicate: Predicate, facts: dict[int, list[PartitionFieldValue]]) -> bool:
    match predicate:
        case ConstantPredicate(holds):
            return holds
        case AllOf(parts):
            return all(_partition_may_match(part, facts) for part in parts)
        case AnyOf(parts):
            return any(_partition_may_match(part, facts) for part in parts)
        case _:
            return all(
                _partition_value_allows(predicate, partition_value)
                for partition_value in facts.get(predicate.column_id, ())
            )


def _partition_value_allows(
    leaf: ColumnComparison | IsNull | IsIn | StartsWith, partition_value: PartitionFieldValue
) -> bool:
    if isinstance(partition_value.source, Float32 | Float64):
        # NaN is not a partition value; it is in the partition of null.
        return True
    if isinstance(leaf, IsNull):
        return (partition_value.value is None) != leaf.negated
    if partition_value.value is None:
        return False
    if isinstance(partition_value.field.transform, Identity):
        return _value_may_match(
            leaf, ColumnPruningStats(partition_value.value, partition_value.value, may_be_nan=False)
        )
    match leaf:
        case ColumnComparison(_, Operator.EQUAL, value):
            return _apply_transform(value, partition_value) == partition_value.value
        case ColumnComparison(_, operator, value) if operator is not Operator.UNEQUAL:
            # Transforms but bucket keep the order, though they may make different values equal.
            if isinstance(partition_value.field.transform, Bucket):
                return True
            bound: Any = _apply_transform(value, partition_value)
            here: Any = partition_value.value
            return bool(here <= bound if operator in (Operator.LESS, Operator.LESS_OR_EQUAL) else here >= bound)
        case IsIn(_, values, False):
            return any(_apply_transform(value, partition_value) == partition_value.value for value in values)
        case StartsWith(_, prefix, False) if isinstance(partition_value.field.transform, Truncate):
            assert isinstance(partition_value.value, str)
            return partition_value.value.startswith(
                prefix[: partition_value.field.transform.width]
            ) or prefix.startswith(partition_value.value)
        case _:
            return True


def _apply_transform(value: Value, partition_value: PartitionFieldValue) -> Value | None:
    return transform_value(partition_value.field.transform, partition_value.source, value)


def _value_may_match(leaf: ColumnComparison | IsIn | StartsWith, facts: ColumnPruningStats) -> bool:
    match leaf:
        case ColumnComparison(_, operator, value):
            return _bounds_allow(operator, value, facts)
        case IsIn(_, values, negated):
            if negated:
                return not any(_is_only(value, facts) for value in values)
            return any(_bounds_allow(Operator.EQUAL, value, facts) for value in values)
        case StartsWith(_, prefix, negated):
            low, high = facts.minimum, facts.maximum
            if not isinstance(low, str) or not isinstance(high, str):
                return True
            if negated:
                return not (low.startswith(prefix) and high.startswith(prefix))
            return low[: len(prefix)] <= prefix <= high
        case _:
            assert_never(leaf)


def _bounds_allow(operator: Operator, value: Value, facts: ColumnPruningStats) -> bool:
    low: Any = facts.minimum
    high: Any = facts.maximum
    beside: Any = value
    # NaN sorts above every bound, so only upper bounds exclude it.
    match operator:
        case Operator.EQUAL:
            return (low is None or low <= beside) and (high is None or beside <= high)
        case Operator.UNEQUAL:
            return not _is_only(value, facts)
        case Operator.LESS:
            return bool(low is None or low < beside)
        case Operator.LESS_OR_EQUAL:
            return bool(low is None or low <= beside)
        case Operator.GREATER:
            return bool(facts.may_be_nan or high is None or high > beside)
        case Operator.GREATER_OR_EQUAL:
            return bool(facts.may_be_nan or high is None or high >= beside)
        case _:
            assert_never(operator)


def _is_only(value: Value, facts: ColumnPruningStats) -> bool:
    return not facts.may_be_nan and facts.minimum is not None and facts.minimum == facts.maximum == value


_NAMED_MAX: Final = 100
"""Above this number, listing all partitions is cheaper than looking up each."""
_ONE_FORM: Final = (Int16, Int32, Int64, Varchar, Date)
"""The types whose equal values have one form, even after widening."""


def can_partition_match(
    scheme: PartitionScheme, values: Sequence[Value | None], schema: Schema, predicate: Predicate
) -> bool:
    """Return whether a row that satisfies `predicate` is possible in the partition with these values.

    Values of another scheme, with another number of fields, prune nothing.
    """
    if len(values) != len(scheme.fields):
        return True
    facts = [
        PartitionFieldValue(field, schema.column_with_id(field.source_id).type, value)
        for field, value in zip(scheme.fields, values, strict=True)
        if schema.has_id(field.source_id)
    ]
    return can_match_partition_values(predicate, facts)


def enumerate_partition_values(
    scheme: PartitionScheme, schema: Schema, predicate: Predicate
) -> list[tuple[Value | None, ...]] | None:
    """Return the values of all partitions that can contain matching rows, or None if they cannot be enumerated.

    This requires that each partition field derives from a column for which the predicate
    allows only single values. These partitions are then looked up instead of listed.
    """
    choices: list[list[Value | None]] = []
    for field in scheme.fields:
        requested = _values_allowed(predicate, field.source_id) if schema.has_id(field.source_id) else None
        if requested is None:
            return None
        source = schema.column_with_id(field.source_id).type
        if not isinstance(result_type_of(field.transform, source), _ONE_FORM):
            return None
        if not all(is_value_of_type(value, source) for value in requested):
            return None
        choices.append(list(dict.fromkeys(transform_value(field.transform, source, value) for value in requested)))
    return list(itertools.product(*choices)) if math.prod(map(len, choices)) <= _NAMED_MAX else None


def _values_allowed(predicate: Predicate, column_id: int) -> tuple[Value, ...] | None:
    """Return the only values of the column in matching rows, or None if it may have any."""
    match predicate:
        case ColumnComparison(column, Operator.EQUAL, value) if column == column_id:
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
