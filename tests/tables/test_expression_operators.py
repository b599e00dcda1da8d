"""Comparisons of expressions are conditions, and expressions stay usable in sets and dictionaries."""

import datetime
import pickle
from decimal import Decimal

import pytest

import mangrove
from mangrove import col, expr, lit
from mangrove.errors import InvalidInputError
from mangrove.expressions.sql_expression import Expr


@pytest.mark.parametrize(
    ("condition", "sql"),
    [
        (col("id") == 1, "id = 1"),
        (col("id") != 1, "id <> 1"),
        (col("order id") < "it's", "`order id` < 'it\\'s'"),
        (col("id") <= Decimal("1.5"), "id <= 1.5bd"),
        (expr("a + b") > col("c"), "(a + b) > c"),
        (col("day") >= datetime.date(2026, 11, 16), "day >= date '2026-11-16'"),
        (col("id") == None, "id is null"),  # noqa: E711
        (expr("a or b") != None, "(a or b) is not null"),  # noqa: E711
        (1 < col("id"), "id > 1"),  # noqa: SIM300
        ((col("a") == 1) & (col("b") == 2) | ~(col("c") == col("d")), "((a = 1) and (b = 2)) or (not (c = d))"),
    ],
)
def test_a_comparison_builds_a_condition(condition: Expr, sql: str) -> None:
    assert str(condition) == sql


def test_conditions_select_and_change_rows() -> None:
    lake = mangrove.create("memory://expression-operators/")
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint, name string")
    table.append([{"id": 1, "name": "a"}, {"id": 2, "name": None}, {"id": 3, "name": "c"}])
    assert table.to_arrow(where=col("id") == 1)["name"].to_pylist() == ["a"]
    assert table.to_arrow(where=(col("id") > 1) & (col("name") == None))["id"].to_pylist() == [2]  # noqa: E711
    table.update({"id": expr("id * 10")}, where=~(col("id") < 3))
    table.delete((col("id") == 30) | (col("name") == "a"))
    assert table.to_arrow()["id"].to_pylist() == [2]


def test_a_condition_has_no_truth_value() -> None:
    with pytest.raises(InvalidInputError, match=r"'id = 1' has no truth value in Python; .* with & \| ~"):
        assert col("id") == 1
    with pytest.raises(InvalidInputError, match="put parentheses around comparisons"):
        col("a") & 1  # type: ignore[operator]
    with pytest.raises(InvalidInputError, match="compared with \\[1\\]; give a scalar"):
        col("a") == [1]  # noqa: B015


def test_expressions_are_compared_by_their_text_in_sets_and_dictionaries() -> None:
    assert {col("a"): 1}[expr("a")] == 1
    assert len({col("a"), col("b"), expr("a")}) == 2
    assert bool(expr("x") == expr("x"))
    assert bool(expr("x") != expr("y"))
    assert bool(lit(1) != expr("1"))
    assert str(pickle.loads(pickle.dumps(col("a") == 1))) == "a = 1"


def test_text_that_looks_like_an_expression_is_a_value_and_the_error_names_expr() -> None:
    lake = mangrove.create("memory://expression-text/")
    lake.create_namespace("s")
    table = lake.create_table("s.t", "v bigint")
    table.append([{"v": 1}])
    with pytest.raises(InvalidInputError, match=r"column 'v' is bigint and is set to string.*mangrove\.expr\(…\)"):
        table.update({"v": "v + 1"})
    table.update({"v": expr("v + 1")})
    assert table.to_arrow()["v"].to_pylist() == [2]
