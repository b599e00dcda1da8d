"""A column is compared exactly with every number, also with one that its type cannot hold."""

import operator
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any, Final

import pytest

import mangrove
from mangrove import expr
from mangrove.lakehouse.table import Table

NINES: Final = Decimal("0." + "9" * 38)
COLUMNS: Final[dict[str, list[Any]]] = {
    "s": [-(2**15), -1, 0, 2**15 - 1],
    "i": [-(2**31), -1, 0, 2**31 - 1],
    "b": [-(2**63), -1, 0, 2**63 - 1],
    "d": [Decimal("-999.99"), Decimal("-0.01"), Decimal("0.00"), Decimal("999.99")],
    "w": [NINES.copy_negate(), Decimal("-0.5"), Decimal(0), NINES],
    "x": [Decimal(1 - 10**38), Decimal(-1), Decimal(0), Decimal(10**38 - 1)],
    "f": [float("-inf"), -1.7e308, 0.0, float("inf")],
}
TYPES: Final = "s smallint, i int, b bigint, d decimal(5,2), w decimal(38,38), x decimal(38,0), f double"
NUMBERS: Final = [
    *("1", "-1", "0.001", "-0.001", "100000", "99999999999", "-99999999999", "9223372036854775808"),
    *("1e37", "1e38", "-1e38", "1e400", "-1e400", "1e-60", "-1e-60", "999.99", "999.991", "1e9999999"),
]
OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "<>": operator.ne,
}


@pytest.fixture(scope="module")
def table() -> Table:
    """A file for each row, so that files are skipped, and a row of nulls."""
    lake = mangrove.create("memory://numbers-outside-columns")
    lake.create_namespace("lab")
    made = lake.create_table("lab.numbers", f"id bigint, {TYPES}")
    for number in range(4):
        made.append([{"id": number, **{name: values[number] for name, values in COLUMNS.items()}}])
    made.append([{"id": 9}])
    return made


def ids(table: Table, where: str) -> set[int]:
    return set(table.to_arrow(where=where)["id"].to_numpy().tolist())


def _compares(compare: Callable[[Any, Any], bool], number: Decimal, held: Any) -> bool:
    return compare(held, number)


def where_true(column: str, holds: Callable[[Any], bool]) -> set[int]:
    return {number for number, value in enumerate(COLUMNS[column]) if holds(value)}


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("number", NUMBERS)
def test_a_comparison_with_any_number_is_exact(table: Table, column: str, number: str) -> None:
    value = Decimal(number)
    for sign, compare in OPERATORS.items():
        expected = where_true(column, partial(_compares, compare, value))
        assert ids(table, f"{column} {sign} {number}") == expected, sign
        assert ids(table, f"not ({column} {sign} {number})") == {0, 1, 2, 3} - expected, sign
    expected = where_true(column, lambda held: held in (value, 0))
    assert ids(table, f"{column} in ({number}, 0)") == expected
    assert ids(table, f"{column} not in ({number}, 0)") == {0, 1, 2, 3} - expected
    assert ids(table, f"{column} in ({number})") == where_true(column, lambda held: held == value)
    assert ids(table, f"{column} not in ({number})") == where_true(column, lambda held: held != value)
    expected = where_true(column, lambda held: held <= value and held >= -1)
    assert ids(table, f"{column} between -1 and {number}") == expected
    assert ids(table, f"{column} not between -1 and {number}") == {0, 1, 2, 3} - expected


def test_updates_compare_with_numbers_outside_the_column_type() -> None:
    lake = mangrove.create("memory://changes-by-numbers-outside-columns")
    lake.create_namespace("lab")
    table = lake.create_table("lab.numbers", "id bigint, v decimal(38,38)")
    table.append([{"id": 1, "v": NINES}, {"id": 2, "v": NINES.copy_negate()}, {"id": 3}])
    table.update({"id": expr("id + 10")}, where="v < 1")
    assert ids(table, "v >= -1") == {11, 12}
    table.delete("v > 1")
    table.delete("v <= 100")
    assert ids(table, "v is null") == {3}
    assert table.to_arrow().num_rows == 1
