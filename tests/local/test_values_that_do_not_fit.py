"""Values that a file could hold only as something else are refused, and nothing is written."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import mangrove
from mangrove import InvalidInputError, expr
from mangrove.expressions.schema_text import parse_schema
from mangrove.lakehouse.table import Table
from mangrove.local.data_files import split_by_partition
from mangrove.model.partitioning import parse_partition_scheme

_MAPS: Any = pa.map_(pa.string(), pa.int32())
_MAPS_OF_STRUCTS: Any = pa.map_(pa.struct([pa.field("a", pa.int32())]), pa.int32())
TOO_LARGE = [
    [{"x": 1e300}],
    [{"x": -3.5e38}],
    [{"s": {"x": 1e300}}],
    [{"l": [1.0, 1e300]}],
]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("lab")
    columns = (
        "id int, x float, s struct<x: float>, l array<float>, m map<string, int>, n map<struct<a: int>, int>, "
        "d double, e decimal(5,2)"
    )
    return lake.create_table("lab.t", columns)


@pytest.mark.parametrize("rows", TOO_LARGE)
def test_a_number_too_large_for_a_float_is_refused_and_does_not_become_infinite(
    table: Table, rows: list[dict[str, Any]]
) -> None:
    with pytest.raises(InvalidInputError, match="float, which cannot hold"):
        table.append(rows)
    assert table.to_arrow().num_rows == 0


def test_an_expression_that_gives_a_number_too_large_for_its_column_is_refused(table: Table) -> None:
    table.append([{"id": 2, "x": 1.0}])
    with pytest.raises(InvalidInputError, match="cannot hold 2e\\+300"):
        table.update({"x": expr("id * 1e300")}, engine="local")
    assert table.to_arrow()["x"].to_pylist() == [1.0]


def test_infinity_nan_and_the_largest_float_are_floats(table: Table) -> None:
    table.append([{"x": value} for value in (float("inf"), float("-inf"), 3.4028234663852886e38, 1e-300, None)])
    assert table.to_arrow()["x"].to_pylist() == [float("inf"), float("-inf"), 3.4028234663852886e38, 0.0, None]


@pytest.mark.parametrize(
    "rows",
    [
        pa.table({"m": pa.array([None, [("a", 1)], [("b", 1), ("a", 1), ("b", 2)]], _MAPS)}),
        pa.table({"n": pa.array([[({"a": 1}, 1), ({"a": 1}, 2)]], _MAPS_OF_STRUCTS)}),
    ],
)
def test_a_map_with_duplicate_keys_is_rejected(table: Table, rows: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"a map in column '[mn]' has the key .* twice"):
        table.append(rows)
    assert table.to_arrow().num_rows == 0


def test_two_maps_may_have_the_same_key(table: Table) -> None:
    rows = pa.table({"m": pa.array([[("a", 1)], None, [], [("a", 2), ("b", 3)]], _MAPS)})
    table.append(rows)
    assert table.to_arrow()["m"].to_pylist() == [[("a", 1)], None, [], [("a", 2), ("b", 3)]]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([{"m": {"a": 1, None: 2}}], "a map in column 'm' has the key null: leave that entry out"),
        ([{"m": {1: 1}}], "a map in column 'm' has the key 1, and its keys are string"),
        ([{"m": {"a": 1}}, {"m": {"b": "x"}}], "a map in column 'm' has 'x' for the key 'b', and its values are int"),
        ([{"m": 5}], "column 'm' is map<string, int> and holds 5: give a dict"),
        ([{"e": Decimal("NaN")}], "column 'e' holds NaN, but decimals have no NaN or infinity"),
        ([{"e": Decimal(1)}, {"e": Decimal("-Infinity")}], "column 'e' holds -Infinity, but decimals"),
        ([{"e": Decimal("1e400")}], "column 'e' holds 1.000e\\+400, but decimals have at most 38 digits"),
    ],
)
def test_the_error_for_an_invalid_map_or_decimal_names_the_cause(
    table: Table, rows: list[dict[str, Any]], told: str
) -> None:
    with pytest.raises(InvalidInputError, match=told):
        table.append(rows)
    assert table.to_arrow().num_rows == 0


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (Decimal("NaN"), "column 'e' is set to NaN, but decimals have no NaN or infinity"),
        (float("inf"), "does not fit into decimal\\(5,2\\): Infinity is given, and decimals"),
        (expr("cast('nan' as double)"), "does not fit into decimal\\(5,2\\): NaN is given"),
        (1e6, "does not fit into decimal\\(5,2\\): 1000000.0 has more than 3 digits before the point"),
        (999.995, "does not fit into decimal\\(5,2\\): 999.995 has more than 3 digits"),
    ],
)
def test_updating_a_decimal_to_an_unrepresentable_number_is_rejected(table: Table, value: Any, told: str) -> None:
    table.append([{"e": Decimal("1.5")}])
    with pytest.raises(InvalidInputError, match=told):
        table.update({"e": value}, engine="local")
    assert table.to_arrow()["e"].to_pylist() == [Decimal("1.50")]


_FAR: Any = {
    "ts": pa.array([253_402_300_800_000_000], pa.timestamp("us", "UTC")),
    "day": pa.array([-719_163], pa.date32()),
    "big": pa.array([-(2**63)], pa.int64()),
}


@pytest.mark.parametrize(
    ("column", "by"),
    [
        *(("ts", by) for by in ("ts", "years(ts)", "months(ts)", "days(ts)", "bucket(3, ts)")),
        *(("day", by) for by in ("day", "years(day)", "bucket(3, day)")),
        ("big", "truncate(10, big)"),
    ],
)
def test_a_value_without_a_partition_is_refused_by_the_field(table: Table, column: str, by: str) -> None:
    lake = table.catalog
    made = lake.create_table("lab.far", "ts timestamp, day date, big bigint", partition_by=[by])
    with pytest.raises(InvalidInputError, match=f"cannot be grouped by .*{column}.*correct such rows"):
        made.append(pa.table({column: _FAR[column]}))
    assert made.to_arrow().num_rows == 0


def test_partitions_are_distinct_for_any_number_of_value_combinations() -> None:
    names, count = "abcdefg", 2**11
    schema = parse_schema(", ".join(f"{name} bigint" for name in names))
    last_but_first = {name: [count - 1] for name in names} | {"a": [0]}
    rows = pa.concat_tables([pa.table({name: range(count) for name in names}), pa.table(last_but_first)])
    assert len(list(split_by_partition(rows, parse_partition_scheme(list(names), schema), schema))) == count + 1


def rows_of(table: Table) -> list[dict[str, Any]]:
    return sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])


@pytest.fixture
def numbers(tmp_path: Path) -> Table:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    columns = "text string, exact decimal(4,2), wide decimal(10,1), whole bigint, double double, float float"
    return lake.create_table("s.numbers", f"id bigint not null, {columns}", keys=["id"])


def test_a_decimal_is_rounded_in_a_type_into_which_the_rounded_number_fits(numbers: Table) -> None:
    numbers.append([{"id": n, "exact": Decimal(text)} for n, text in enumerate(("99.99", "-99.95", "1.23", "1.25"))])
    numbers.update({"wide": expr("exact")}, where="id >= 0", engine="local")
    assert [row["wide"] for row in rows_of(numbers)] == [Decimal(text) for text in ("100.0", "-100.0", "1.2", "1.3")]
    assert numbers.delete("round(exact, 1) = 0", engine="local").deleted == 0
    assert numbers.delete("round(exact, 0) = 100", engine="local").deleted == 1


def test_a_decimal_becomes_the_float_that_is_nearest_to_it(numbers: Table) -> None:
    numbers.append([{"id": n, "exact": Decimal(n) / 100, "double": n / 100} for n in range(10_000)])
    numbers.update({"float": expr("cast(exact as float)")}, where="id >= 0", engine="local")
    floats = np.array([n / 100 for n in range(10_000)]).astype(np.float32)
    assert numbers.to_arrow(columns=["float"])["float"].to_pylist() == floats.tolist()
    assert numbers.delete("exact = double", engine="local").deleted == 10_000


def test_the_members_of_a_list_are_compared_by_their_common_type(numbers: Table) -> None:
    numbers.append([{"id": n, "text": text} for n, text in enumerate(("026", "26", "5", "1"))])
    assert numbers.delete("text not in (1, '26')", engine="local").deleted == 1
    assert [row["id"] for row in rows_of(numbers)] == [0, 1, 3]


@pytest.mark.parametrize("text", ["0x1A", "1_0", "٣", "nan(1)", "\u00a026", "1,5", "."])
@pytest.mark.parametrize("name", ["whole", "double", "wide"])
def test_a_text_that_is_no_number_in_sql_is_refused(numbers: Table, text: str, name: str) -> None:
    numbers.append([{"id": 1, "text": text}])
    kind = {"whole": "bigint", "double": "double", "wide": "decimal(10,1)"}[name]
    with pytest.raises(InvalidInputError, match="is no number"):
        numbers.update({name: expr(f"cast(text as {kind})")}, where="id = 1", engine="local")


def test_a_text_that_is_a_number_in_sql_is_taken(numbers: Table) -> None:
    numbers.append([{"id": 1, "text": " +5\t"}])
    values = {"whole": "bigint", "double": "double", "wide": "decimal(10,1)"}
    numbers.update(
        {name: expr(f"cast(text as {kind})") for name, kind in values.items()}, where="id = 1", engine="local"
    )
    assert [(row["whole"], row["double"], row["wide"]) for row in rows_of(numbers)] == [(5, 5.0, Decimal(5))]


@pytest.mark.parametrize("name", ["upper", "lower"])
def test_the_case_of_letters_outside_ascii_is_changed_by_spark_only(numbers: Table, name: str) -> None:
    numbers.append([{"id": 1, "text": "straße"}])
    with pytest.raises(InvalidInputError, match=f"{name} of letters outside ASCII: only Spark evaluates that"):
        numbers.update({"text": expr(f"{name}(text)")}, where="id = 1", engine="local")
