"""Partitions are chosen by a predicate so that none that can hold a row which is meant is left out."""

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.expressions.parse import parse_predicate
from mangrove.expressions.predicates import AllOf, AnyOf, ColumnComparison, IsIn, IsNull, Operator, Predicate
from mangrove.expressions.schema_text import parse_schema
from mangrove.model.partitioning import PartitionScheme, parse_partition_scheme, transform_value
from mangrove.model.values import Value
from mangrove.tables.pruning import can_partition_match, enumerate_partition_values

SCHEMA = parse_schema("n int, s varchar, d date, g double, t timestamp")
N, S, D = (SCHEMA.column(name).id for name in "nsd")
SCHEMES = [
    parse_partition_scheme(fields, SCHEMA)
    for fields in (["n"], ["bucket(4, n)"], ["truncate(10, n)", "s"], ["truncate(1, s)", "months(d)"], ["days(d)", "n"])
]
VALUES: dict[int, st.SearchStrategy[Any]] = {
    N: st.integers(-20, 20),
    S: st.text("ab", max_size=2),
    D: st.dates(datetime.date(2026, 1, 1), datetime.date(2026, 4, 1)),
}

rows = st.fixed_dictionaries({column: st.none() | values for column, values in VALUES.items()})


def leaves(column: int) -> st.SearchStrategy[Predicate]:
    values = VALUES[column]
    return st.one_of(
        st.builds(ColumnComparison, st.just(column), st.sampled_from(Operator), values),
        st.builds(IsIn, st.just(column), st.lists(values, min_size=1, max_size=4).map(tuple), st.booleans()),
        st.builds(IsNull, st.just(column), st.booleans()),
    )


predicates: st.SearchStrategy[Predicate] = st.recursive(
    st.sampled_from([N, S, D]).flatmap(leaves),
    lambda parts: (
        st.lists(parts, min_size=1, max_size=3)
        .map(tuple)
        .flatmap(lambda listed: st.sampled_from([AllOf(listed), AnyOf(listed)]))
    ),
    max_leaves=6,
)


def holds(predicate: Predicate, row: dict[int, Any]) -> bool:
    """Return whether the predicate is true for a row, written out once more."""
    match predicate:
        case AllOf(parts):
            return all(holds(part, row) for part in parts)
        case AnyOf(parts):
            return any(holds(part, row) for part in parts)
        case IsNull(column, negated):
            return (row[column] is None) != negated
        case IsIn(column, values, negated):
            return row[column] is not None and (row[column] in values) != negated
        case ColumnComparison(column, operator, value):
            there = row[column]
            return (
                there is not None
                and {
                    Operator.EQUAL: there == value,
                    Operator.UNEQUAL: there != value,
                    Operator.LESS: there < value,
                    Operator.LESS_OR_EQUAL: there <= value,
                    Operator.GREATER: there > value,
                    Operator.GREATER_OR_EQUAL: there >= value,
                }[operator]
            )
        case _:
            raise AssertionError(predicate)


def values_of(scheme: PartitionScheme, row: dict[int, Any]) -> tuple[Value | None, ...]:
    return tuple(
        transform_value(field.transform, SCHEMA.column_with_id(field.source_id).type, row[field.source_id])
        for field in scheme.fields
    )


@given(st.sampled_from(SCHEMES), predicates, st.lists(rows, max_size=20))
def test_partition_pruning_never_excludes_a_matching_row(
    scheme: PartitionScheme, predicate: Predicate, there: list[dict[int, Any]]
) -> None:
    named = enumerate_partition_values(scheme, SCHEMA, predicate)
    for row in there:
        if holds(predicate, row):
            assert can_partition_match(scheme, values_of(scheme, row), SCHEMA, predicate)
            assert named is None or values_of(scheme, row) in named


@pytest.mark.parametrize(
    ("fields", "where", "named"),
    [
        (["n"], "n = 7", [(7,)]),
        (["n"], "n in (1, 2) and s = 'x'", [(1,), (2,)]),
        (["n"], "n = 1 or n = 1 or n = 2", [(1,), (2,)]),
        (["n", "s"], "n = 1 and s = 'x'", [(1, "x")]),
        (["truncate(10, n)"], "n = 17", [(10,)]),
        (["days(t)"], "t = '2026-11-15T10:00:00'", [(datetime.date(2026, 11, 15),)]),
        (["n"], "n > 7", None),
        (["n"], "n = 7 or s = 'x'", None),
        (["n"], "n is null", None),
        (["n", "s"], "n = 7", None),
        (["g"], "g = 1.5", None),
        (["t"], "t = '2026-11-15T10:00:00'", None),
        (["n"], f"n in ({', '.join(map(str, range(101)))})", None),
    ],
)
def test_partition_values_are_enumerated_if_each_field_equals_few_values(
    fields: list[str], where: str, named: list[tuple[Value, ...]] | None
) -> None:
    scheme = parse_partition_scheme(fields, SCHEMA)
    assert enumerate_partition_values(scheme, SCHEMA, parse_predicate(where, SCHEMA)) == named
