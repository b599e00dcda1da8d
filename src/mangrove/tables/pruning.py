"""Telling from statistics and partition values that no row of a file can be meant by a predicate."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, assert_never

from mangrove.model.schemes import PartitionField
from mangrove.model.transforms import Bucket, Identity, Truncate, apply
from mangrove.model.types import DataType, Float4, Float8
from mangrove.model.values import Value
from mangrove.tables.predicates import AllOf, AnyOf, Comparison, Constant, IsIn, IsNull, Operator, Predicate, StartsWith

__all__ = ["UNKNOWN", "ColumnFacts", "PartitionFact", "may_match", "partition_may_match"]


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """What is certain about the values of one column in one file; None bounds nothing."""

    minimum: Value | None = None
    maximum: Value | None = None
    may_be_null: bool = True
    may_be_value: bool = True
    may_be_nan: bool = True


UNKNOWN = ColumnFacts()


@dataclass(frozen=True, slots=True)
class PartitionFact:
    """The one value that a partition field has for all rows of a file."""

    field: PartitionField
    source: DataType
    value: Value | None


def may_match(predicate: Predicate, facts_of: Callable[[int], ColumnFacts]) -> bool:
    """Return whether a row for which `predicate` is true is possible."""
    match predicate:
        case Constant(holds):
            return holds
        case AllOf(parts):
            return all(may_match(part, facts_of) for part in parts)
        case AnyOf(parts):
            return any(may_match(part, facts_of) for part in parts)
        case IsNull(column_id, negated):
            facts = facts_of(column_id)
            return facts.may_be_value if negated else facts.may_be_null
        case Comparison() | IsIn() | StartsWith():
            facts = facts_of(predicate.column_id)
            return facts.may_be_value and _value_may_match(predicate, facts)
        case _:
            assert_never(predicate)


def partition_may_match(predicate: Predicate, partition: Iterable[PartitionFact]) -> bool:
    """Return whether a row for which `predicate` is true is possible in a partition with these values."""
    by_column: dict[int, list[PartitionFact]] = {}
    for fact in partition:
        by_column.setdefault(fact.field.source_id, []).append(fact)
    return _partition_may_match(predicate, by_column)


def _partition_may_match(predicate: Predicate, facts: dict[int, list[PartitionFact]]) -> bool:
    match predicate:
        case Constant(holds):
            return holds
        case AllOf(parts):
            return all(_partition_may_match(part, facts) for part in parts)
        case AnyOf(parts):
            return any(_partition_may_match(part, facts) for part in parts)
        case _:
            return all(_fact_allows(predicate, fact) for fact in facts.get(predicate.column_id, ()))


def _fact_allows(leaf: Comparison | IsNull | IsIn | StartsWith, fact: PartitionFact) -> bool:
    if isinstance(fact.source, Float4 | Float8):
        # NaN has no place among partition values, so it lies in the partition of null.
        return True
    if isinstance(leaf, IsNull):
        return (fact.value is None) != leaf.negated
    if fact.value is None:
        return False
    if isinstance(fact.field.transform, Identity):
        return _value_may_match(leaf, ColumnFacts(fact.value, fact.value, may_be_nan=False))
    match leaf:
        case Comparison(_, Operator.EQUAL, value):
            return _transformed(value, fact) == fact.value
        case Comparison(_, operator, value) if operator is not Operator.UNEQUAL:
            # Transforms but bucket keep the order, though they may make different values equal.
            if isinstance(fact.field.transform, Bucket):
                return True
            bound: Any = _transformed(value, fact)
            here: Any = fact.value
            return bool(here <= bound if operator in (Operator.LESS, Operator.LESS_OR_EQUAL) else here >= bound)
        case IsIn(_, values, False):
            return any(_transformed(value, fact) == fact.value for value in values)
        case StartsWith(_, prefix, False) if isinstance(fact.field.transform, Truncate):
            assert isinstance(fact.value, str)
            return fact.value.startswith(prefix[: fact.field.transform.width]) or prefix.startswith(fact.value)
        case _:
            return True


def _transformed(value: Value, fact: PartitionFact) -> Value | None:
    return apply(fact.field.transform, fact.source, value)


def _value_may_match(leaf: Comparison | IsIn | StartsWith, facts: ColumnFacts) -> bool:
    match leaf:
        case Comparison(_, operator, value):
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


def _bounds_allow(operator: Operator, value: Value, facts: ColumnFacts) -> bool:
    low: Any = facts.minimum
    high: Any = facts.maximum
    beside: Any = value
    # NaN lies above every bound, so it can only be ruled out by what asks for less.
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


def _is_only(value: Value, facts: ColumnFacts) -> bool:
    return not facts.may_be_nan and facts.minimum is not None and facts.minimum == facts.maximum == value
