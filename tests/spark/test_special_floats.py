"""NaN and the negative zero are found by Spark wherever they lie, as the engine in this process finds them."""

from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

import mangrove

pytestmark = pytest.mark.interop

NAN: Final = float("nan")
FILES: Final = [
    [(1, -0.0), (2, -0.0)],
    [(3, 0.0)],
    [(4, NAN)],
    [(5, 2.0), (6, NAN)],
]


def test_no_filter_of_spark_skips_nan_or_the_negative_zero(spark: SparkSession, tmp_path: Path) -> None:
    assert spark is not None
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("lab")
    table = lake.create_table("lab.floats", "id bigint, d double, f float, st struct<x: double>")
    for file in FILES:
        table.append([{"id": number, "d": value, "f": value, "st": {"x": value}} for number, value in file])
    expected = {
        "{} = 0.0": {1, 2, 3},
        "{} >= 0.0": {1, 2, 3, 4, 5, 6},
        "{} <> 2": {1, 2, 3, 4, 6},
        "{} > 3": {4, 6},
        "{} in (0.0, 7.0)": {1, 2, 3},
    }
    for text, ids in expected.items():
        for column in ("d", "f", "st.x"):
            frame = table.to_spark().where(text.format(column))
            assert {row.id for row in frame.collect()} == ids, (text, column)
        assert set(table.to_arrow(where=text.format("d"))["id"].to_pylist()) == ids, text
