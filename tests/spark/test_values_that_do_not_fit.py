"""Spark writes no infinity for a number that is too large, and no map with a key twice."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import mangrove
from mangrove import InvalidInputError

pytestmark = pytest.mark.interop

REFUSED = {
    "insert into lab.{} (x) values (1e300)": "cannot hold 1.0E300",
    "insert into lab.{} (x) select cast('-1e300' as double)": "cannot hold -1.0E300",
    "insert into lab.{} (s) select named_struct('y', 1, 'x', 1e300)": r"cannot hold \{",
    "update lab.{} set x = id * 1e300 where id = 1": "cannot hold 1.0E300",
    "merge into lab.{} as t using (select 1 as id, 1e300 as x) as s on t.id = s.id when matched then "
    "update set x = s.x": "cannot hold 1.0E300",
}


@pytest.mark.parametrize("more", ["", ", l array<float>, m map<string, int>"])
def test_a_number_too_large_for_a_float_is_refused_by_every_verb_of_spark(
    spark: SparkSession, tmp_path: Path, more: str
) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("lab")
    table = lake.create_table("lab.t", f"id int, x float, s struct<y: int, x: float>{more}")
    table.append(spark.sql("select 1 as id, double('inf') as x union all select 2, double('nan')"))
    before = lake.version
    for text, message in REFUSED.items():
        with pytest.raises(InvalidInputError, match=message):
            lake.sql(text.format("t"))
    with pytest.raises(InvalidInputError, match="'x' is float, which cannot hold"):
        table.append(spark.sql("select 3 as id, 1e300 as x"))
    if more:
        with pytest.raises(InvalidInputError, match="'l' is array<float>, which cannot hold"):
            table.append(spark.sql("select 3 as id, array(1.0D, 1e300) as l"))
        spark.conf.set("spark.sql.mapKeyDedupPolicy", "LAST_WIN")
        twice = "select 3 as id, from_json('{\"a\": 1, \"a\": 2}', 'map<string, int>') as m"
        try:
            with pytest.raises(InvalidInputError, match="a map in column 'm' has the key 'a' twice"):
                table.append(spark.sql(twice))
        finally:
            spark.conf.unset("spark.sql.mapKeyDedupPolicy")
    assert lake.version == before
    assert [row.x for row in table.to_spark().where("id = 1").collect()] == [float("inf")]
