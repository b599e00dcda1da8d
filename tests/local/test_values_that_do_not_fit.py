"""Values that a file could hold only as something else are refused, and nothing is written."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mangrove
from mangrove import InvalidInputError
from mangrove.lakehouse.handles import LakeTable

_MAPS: Any = pa.map_(pa.string(), pa.int32())
_MAPS_OF_STRUCTS: Any = pa.map_(pa.struct([pa.field("a", pa.int32())]), pa.int32())
TOO_LARGE = [
    [{"x": 1e300}],
    [{"x": -3.5e38}],
    [{"s": {"x": 1e300}}],
    [{"l": [1.0, 1e300]}],
]


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("lab")
    columns = (
        "id int, x float, s struct<x: float>, l array<float>, m map<string, int>, n map<struct<a: int>, int>, d double"
    )
    return lake.create_table("lab.t", columns)


@pytest.mark.parametrize("rows", TOO_LARGE)
def test_a_number_too_large_for_a_float_is_refused_and_does_not_become_infinite(
    table: LakeTable, rows: list[dict[str, Any]]
) -> None:
    with pytest.raises(InvalidInputError, match="float, which cannot hold"):
        table.append(rows)
    assert table.to_arrow().num_rows == 0


def test_an_expression_that_gives_a_number_too_large_for_its_column_is_refused(table: LakeTable) -> None:
    table.append([{"id": 2, "x": 1.0}])
    with pytest.raises(InvalidInputError, match="cannot hold 2e\\+300"):
        table.update({"x": "id * 1e300"}, engine="local")
    assert table.to_arrow()["x"].to_pylist() == [1.0]


def test_infinity_nan_and_the_largest_float_are_floats(table: LakeTable) -> None:
    table.append([{"x": value} for value in (float("inf"), float("-inf"), 3.4028234663852886e38, 1e-300, None)])
    assert table.to_arrow()["x"].to_pylist() == [float("inf"), float("-inf"), 3.4028234663852886e38, 0.0, None]


@pytest.mark.parametrize(
    "rows",
    [
        pa.table({"m": pa.array([None, [("a", 1)], [("b", 1), ("a", 1), ("b", 2)]], _MAPS)}),
        pa.table({"n": pa.array([[({"a": 1}, 1), ({"a": 1}, 2)]], _MAPS_OF_STRUCTS)}),
    ],
)
def test_a_map_with_a_key_twice_is_refused(table: LakeTable, rows: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"a map in column '[mn]' has the key .* twice"):
        table.append(rows)
    assert table.to_arrow().num_rows == 0


def test_two_maps_may_have_the_same_key(table: LakeTable) -> None:
    rows = pa.table({"m": pa.array([[("a", 1)], None, [], [("a", 2), ("b", 3)]], _MAPS)})
    table.append(rows)
    assert table.to_arrow()["m"].to_pylist() == [[("a", 1)], None, [], [("a", 2), ("b", 3)]]
