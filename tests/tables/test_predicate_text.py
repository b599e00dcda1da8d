"""What a predicate's text means, and what is refused with which words."""

import datetime
import decimal
import re

import pytest

from mangrove.errors import InvalidInputError, MangroveError
from mangrove.expressions.parse import parse_predicate
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
    collect_column_ids,
    negate_predicate,
)
from mangrove.expressions.schema_text import parse_schema

SCHEMA = parse_schema(
    "id bigint, name string, amount decimal(10,2), ts timestamp, day date, weight double, ok boolean, raw binary, "
    "local timestamp_ntz, place struct<city: string, `odd name`: int>, tags array<string>, clock time"
)
EQUAL, LESS, LESS_OR_EQUAL = Operator.EQUAL, Operator.LESS, Operator.LESS_OR_EQUAL
GREATER, GREATER_OR_EQUAL = Operator.GREATER, Operator.GREATER_OR_EQUAL
UTC = datetime.UTC


def at(*parts: int) -> datetime.datetime:
    return datetime.datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("id = 5", ColumnComparison(1, EQUAL, 5)),
        ("ID==-5", ColumnComparison(1, EQUAL, -5)),
        ("5 < id", ColumnComparison(1, GREATER, 5)),
        ("id >= 1e3", ColumnComparison(1, GREATER_OR_EQUAL, 1000)),
        ("id < 2.5", ColumnComparison(1, LESS_OR_EQUAL, 2)),
        ("id > -2.5", ColumnComparison(1, GREATER_OR_EQUAL, -2)),
        ("amount < 0.005", ColumnComparison(3, LESS_OR_EQUAL, decimal.Decimal("0.00"))),
        ("amount = 12", ColumnComparison(3, EQUAL, decimal.Decimal(12))),
        ("amount = 12." + "0" * 200, ColumnComparison(3, EQUAL, decimal.Decimal(12))),
        ("amount < 1." + "0" * 200 + "1", ColumnComparison(3, LESS_OR_EQUAL, decimal.Decimal(1))),
        ("amount > -1e-9999999", ColumnComparison(3, GREATER_OR_EQUAL, decimal.Decimal(0))),
        ("amount = 0e-9999999", ColumnComparison(3, EQUAL, decimal.Decimal(0))),
        ("id < 1e-9999999", ColumnComparison(1, LESS_OR_EQUAL, 0)),
        ("id = 0e9999999", ColumnComparison(1, EQUAL, 0)),
        ("weight > 2.5", ColumnComparison(6, GREATER, 2.5)),
        ("name <> 'it''s'", ColumnComparison(2, Operator.UNEQUAL, "it's")),
        ("not name != 'x'", ColumnComparison(2, EQUAL, "x")),
        ("ts >= '2026-01-01'", ColumnComparison(4, GREATER_OR_EQUAL, at(2026, 1, 1))),
        ("ts < timestamp '2026-01-01 02:00:00+02:00'", ColumnComparison(4, LESS, at(2026, 1, 1))),
        (
            "local = '2026-01-01T00:00:00.5'",
            ColumnComparison(9, EQUAL, datetime.datetime(2026, 1, 1, 0, 0, 0, 500_000)),
        ),
        ("day = date '2026-01-01'", ColumnComparison(5, EQUAL, datetime.date(2026, 1, 1))),
        ("clock < '12:30'", ColumnComparison(12, LESS, datetime.time(12, 30))),
        ("raw = x'0aFF'", ColumnComparison(8, EQUAL, b"\x0a\xff")),
        ("ok", ColumnComparison(7, EQUAL, value=True)),
        ("not ok", ColumnComparison(7, Operator.UNEQUAL, value=True)),
        ("ok = false", ColumnComparison(7, EQUAL, value=False)),
        ("true", ConstantPredicate(holds=True)),
        ("not true", ConstantPredicate(holds=False)),
        ("place.city is not null", IsNull(13, negated=True)),
        ("place.`odd name` in (1, 2)", IsIn(14, (1, 2))),
        ("tags is null", IsNull(11)),
        ("id not in (1)", IsIn(1, (1,), negated=True)),
        ("name like 'a%'", StartsWith(2, "a")),
        ("name not like 'a\\\\%b%'", StartsWith(2, "a%b", negated=True)),
        ("name like 'ab'", ColumnComparison(2, EQUAL, "ab")),
        (r"name like 'a\%'", ColumnComparison(2, EQUAL, "a%")),
        (r"name like 'a\_%'", StartsWith(2, "a_")),
        (r"name not like 'a\\\\%'", StartsWith(2, "a\\", negated=True)),
        (
            "id between 1 and 2",
            AllOf((ColumnComparison(1, GREATER_OR_EQUAL, 1), ColumnComparison(1, LESS_OR_EQUAL, 2))),
        ),
        ("id not between 1 and 2", AnyOf((ColumnComparison(1, LESS, 1), ColumnComparison(1, GREATER, 2)))),
        (
            "id = 1 or id = 2 and ok",
            AnyOf(
                (
                    ColumnComparison(1, EQUAL, 1),
                    AllOf((ColumnComparison(1, EQUAL, 2), ColumnComparison(7, EQUAL, value=True))),
                )
            ),
        ),
        (
            "days(ts) = '2026-02-28'",
            AllOf((ColumnComparison(4, GREATER_OR_EQUAL, at(2026, 2, 28)), ColumnComparison(4, LESS, at(2026, 3, 1)))),
        ),
        ("months(day) > '2025-12'", ColumnComparison(5, GREATER_OR_EQUAL, datetime.date(2026, 1, 1))),
        ("years(local) <= '2025'", ColumnComparison(9, LESS, datetime.datetime(2026, 1, 1))),
        ("hours(ts) < '2026-01-01 05'", ColumnComparison(4, LESS, at(2026, 1, 1, 5))),
        ("years(day) > '9999'", ColumnComparison(5, GREATER, datetime.date(9999, 12, 31))),
    ],
)
def test_a_predicate_is_parsed(text: str, meaning: Predicate) -> None:
    assert parse_predicate(text, SCHEMA) == meaning


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nme = 1", "no column 'nme'"),
        ("id = 'x'", "'id' is of type bigint"),
        ("weight < 1e99999999999999999999", "exponent"),
        ("ts = 5", "type timestamp"),
        ("ts = 'yesterday'", "type timestamp"),
        ("local = '2026-01-01T00:00:00Z'", "type timestamp_ntz"),
        ("name = null", "is null"),
        ("id in ()", "position 7"),
        ("id in (null)", "is null"),
        ("(id = 1", "the end"),
        ("id = 1 id", "`and`, `or` or the end"),
        ("id", "a comparison"),
        ("", "is empty"),
        ("tags = 1", "nested"),
        ("tags.element = 'x'", "inside a list"),
        ("name like '%a'", "wildcard"),
        ("name like 'a_b%'", "wildcard"),
        (r"name like 'a\\b%'", "a backslash in the pattern"),
        (r"name like 'ab\\'", "a backslash in the pattern"),
        ("id like 'a%'", "requires a string column"),
        ("bucket(4, id) = 1", "compare the column itself"),
        ("days(ts) = 'soon'", "'2026-11-01'"),
        ("days(name) = '2026-11-01'", "does not support"),
        ("days(ts", "`)`"),
        ("raw = x'0'", "hexadecimal"),
        ("(" * 101 + "ok" + ")" * 101, "nested too deeply"),
        ("not " * 20_000 + "ok", "nested too deeply"),
    ],
)
def test_an_invalid_predicate_is_rejected_with_the_reason(text: str, complaint: str) -> None:
    with pytest.raises(MangroveError, match=re.escape(complaint)):
        parse_predicate(text, SCHEMA)


def test_a_double_negation_is_the_predicate_itself() -> None:
    text = "id < 1 and (name like 'a%' or day is null or not (weight in (1, 2) and true)) and amount <> 3"
    predicate = parse_predicate(text, SCHEMA)
    assert negate_predicate(negate_predicate(predicate)) == predicate
    assert negate_predicate(predicate) == parse_predicate(f"not ({text})", SCHEMA)
    assert collect_column_ids(predicate) == {1, 2, 3, 5, 6}


def test_a_list_of_values_is_never_empty() -> None:
    with pytest.raises(InvalidInputError):
        IsIn(1, ())


@pytest.mark.parametrize(
    "text", ["1e2 < weight", "100 < weight", "1E+2 < weight", "weight > 1e2", "not (1e2 >= weight)"]
)
def test_a_number_with_an_exponent_is_parsed_anywhere(text: str) -> None:
    column = SCHEMA.column("weight").id
    assert parse_predicate(text, SCHEMA) == ColumnComparison(column, GREATER, 100.0)
