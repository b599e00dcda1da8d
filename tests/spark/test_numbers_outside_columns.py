"""Spark compares a column with a number that its type cannot hold as the engine in this process does: exactly."""

from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import mangrove

pytestmark = pytest.mark.interop


def test_spark_compares_with_numbers_outside_the_column_type(spark: SparkSession, tmp_path: Path) -> None:
    assert spark is not None
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("lab")
    table = lake.create_table("lab.numbers", "id bigint, i int, b bigint, d decimal(5,2), v decimal(38,38), f double")
    nines = Decimal("0." + "9" * 38)
    table.append([{"id": 1, "i": 2**31 - 1, "b": 2**63 - 1, "d": Decimal("999.99"), "v": nines, "f": float("inf")}])
    table.append(
        [{"id": 2, "i": -1, "b": -(2**63), "d": Decimal("-0.01"), "v": nines.copy_negate(), "f": -1.5}, {"id": 3}]
    )
    expected = {
        "{} < 1e60": {1, 2},
        "not ({} > 1e60)": {1, 2},
        "{} < -1e60": set(),
        "{} <> 1e60": {1, 2},
        "{} in (1e60)": set(),
        "{} between -1e60 and 1e60": {1, 2},
    }
    for column in ("i", "b", "d", "v"):
        for text, ids in expected.items():
            where = text.format(column)
            assert {row.id for row in table.to_spark(where=where).select("id").collect()} == ids, where
    for where, ids in {"v < 1": {1, 2}, "d < 0.001": {2}, "i < 99999999999": {1, 2}, "f > 1e400": {1}}.items():
        assert {row.id for row in table.to_spark(where=where).select("id").collect()} == ids, where
