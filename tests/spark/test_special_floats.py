"""NaN and the negative zero are found by Spark wherever they lie, as the engine in this process finds them."""

from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
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
    in_files = {"write.inline-rows-max-bytes": "0"}
    table = lake.create_table("lab.floats", "id bigint, d double, f float, st struct<x: double>", properties=in_files)
    for file in FILES:
        table.append([{"id": number, "d": value, "f": value, "st": {"x": value}} for number, value in file])
    expected = {
        "{} = 0.0": {1, 2, 3},
        "{} = -0e0": {1, 2, 3},
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


@pytest.mark.parametrize("name", ["D", "a.b", "x y", "größe"])
def test_spark_finds_the_negative_zeros_that_it_wrote(spark: SparkSession, tmp_path: Path, name: str) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("lab")
    table = lake.create_table("lab.floats", f"id bigint, `{name}` double, f float, St struct<x: double, y: int>")
    # A dictionary of both zeros is as wrong for other filters as one of negative zeros for this one.
    for values in ("double('-0.0')", "if(id % 2 = 0, double('-0.0'), 5D)"):
        query = f"select id, {values} as v from range(0, 3000, 1, 1)"
        table.append(
            spark.sql(
                f"select id, v as `{name}`, cast(v as float) as f, named_struct('x', v, 'y', 1) as St from ({query})"
            )
        )
    for column in (f"`{name}`", "f", "St.x"):
        for text in ("{} = 0.0", "{} in (0.0, 7.0)", "{0} >= 0.0 and {0} < 1", "{} <> 5"):
            assert table.to_spark().where(text.format(column)).count() == 4500, (text, column)
            assert table.to_arrow(where=text.format(column)).num_rows == 4500, (text, column)


def test_only_floats_and_a_single_key_are_written_without_a_dictionary(spark: SparkSession, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("lab")
    columns = "Id bigint, kind string, n int, d double, st struct<x: float, y: string>"
    rows = spark.sql(
        "select id % 2 as Id, 'a' as kind, 1 as n, 2D as d, named_struct('x', 1F, 'y', 'b') as st "
        "from range(0, 3000, 1, 1)"
    )
    for table, keys, expected in (
        ("lab.single", ["Id"], {"kind", "n", "st.y"}),
        ("lab.pair", ["Id", "n"], {"Id", "kind", "n", "st.y"}),
    ):
        written = lake.create_table(table, columns, keys=keys)
        written.append(rows)
        (file,) = written.scan().files()
        group = pq.read_metadata(tmp_path / "lake" / file.location).row_group(0)
        chunks = [group.column(place) for place in range(group.num_columns)]
        assert {chunk.path_in_schema for chunk in chunks if chunk.has_dictionary_page} == expected
