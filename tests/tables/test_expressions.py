"""What an expression's text means, evaluated over Arrow rows by the rules of Spark's ANSI mode."""

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest

from mangrove.errors import InvalidInputError, MangroveError
from mangrove.expressions.expr import RequiresSparkError
from mangrove.expressions.parse import parse_expression
from mangrove.expressions.schema_text import parse_schema
from mangrove.local.evaluation import evaluate_expression
from mangrove.local.row_changes import column_lookup_of
from mangrove.model.arrow_schema import schema_to_arrow
from mangrove.tables.merge import resolve_assignments

SCHEMA = parse_schema(
    "a int, b bigint, d decimal(10,2), w double, s string, ok boolean, day date, ts timestamp, p struct<x: int>"
)
ROW = {
    "a": 7,
    "b": 2,
    "d": decimal.Decimal("1.25"),
    "w": float("nan"),
    "s": "Abc",
    "ok": True,
    "day": datetime.date(2026, 1, 2),
    "ts": datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC),
    "p": {"x": 5},
}


def value(text: str, rows: list[dict[str, Any]] | None = None) -> Any:
    table = pa.Table.from_pylist([ROW] if rows is None else rows, schema=schema_to_arrow(SCHEMA))
    return evaluate_expression(parse_expression(text), table, column_lookup_of(SCHEMA))


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("a + b * 2 - -1", 12),
        ("a / b", 3.5),
        ("a % 4", 3),
        ("-a % 4", -3),
        ("d * 1.1", decimal.Decimal("1.375")),
        ("d / 3", decimal.Decimal("0.416667")),
        ("round(d, 1)", decimal.Decimal("1.3")),
        ("round(-2.5)", decimal.Decimal(-3)),
        ("round(cast(d as double), 1)", 1.3),
        ("round(cast(d as double), 400)", 1.25),
        ("round(w, 2) = w", True),
        ("A > b and not s = 'x'", True),
        ("s || '-' || a", "Abc-7"),
        ("upper(s) || lower(s) || length(trim('  x '))", "ABCabc1"),
        ("case when b = 0 then 0 else a / b end", 3.5),
        ("case s when 'x' then 1 when 'Abc' then 2 end", 2),
        ("coalesce(null, nullif(a, 7), 9)", 9),
        ("if(ok, day, null)", datetime.date(2026, 1, 2)),
        ("cast(d as int)", 1),
        ("cast('12' as bigint) + 1", 13),
        ("cast(2.345 as decimal(3,2))", decimal.Decimal("2.35")),
        ("day = '2026-01-02'", True),
        ("ts > day", True),
        ("w = w and w > 1e308", True),
        ("null <=> null", True),
        ("a in (1, null)", None),
        ("a not between 1 and 6", True),
        ("s like '_b%'", True),
        ("s not like 'b%'", True),
        ("p.X + 1", 6),
        ("greatest(a, b, null)", 7),
        ("abs(-d)", decimal.Decimal("1.25")),
        ("3000000000", 3_000_000_000),
        ("ok is not null or null", True),
    ],
)
def test_an_expression_has_the_same_value_as_in_spark(text: str, meaning: object) -> None:
    assert value(text).to_pylist() == [meaning]


def test_a_case_evaluates_a_branch_for_the_rows_that_take_it_alone() -> None:
    rows = [{**ROW, "b": divisor} for divisor in (0, 1, 2)]
    assert value("case when b <> 0 then a / b end", rows).to_pylist() == [None, 7.0, 3.5]
    with pytest.raises(InvalidInputError, match="divided by zero"):
        value("a / b", rows)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a * 2000000000", "overflow"),
        ("cast(300000 as smallint)", "does not fit"),
        ("d < 0." + "0" * 40 + "1", "more than 38 digits"),
        ("a < " + "9" * 5000, "more than 38 digits"),
        ("nothing + 1", "no column 'nothing'"),
        ("a and ok", "take conditions"),
    ],
)
def test_invalid_expressions_are_rejected(text: str, words: str) -> None:
    with pytest.raises(MangroveError, match=words) as caught:
        value(text)
    assert not isinstance(caught.value, RequiresSparkError)


@pytest.mark.parametrize(
    "text", ["date_add(day, 1)", "a in (select 1)", "cast(w as string)", "a +", "day + 1", "p.x[0]", "s = w", "ts - ts"]
)
def test_expressions_known_only_to_spark_require_spark(text: str) -> None:
    with pytest.raises(RequiresSparkError):
        value(text)


def test_a_struct_field_is_not_mistaken_for_a_misspelled_column() -> None:
    schema = parse_schema("id int, st struct<w: int>")
    with pytest.raises(
        InvalidInputError, match=r"'st\.w' is a field of struct 'st'.*upsert rows with the whole struct"
    ):
        resolve_assignments({"st.w": 5}, schema)
    with pytest.raises(InvalidInputError, match=r"column 'id\.w' does not exist"):
        resolve_assignments({"id.w": 5}, schema)
