"""Spark writes no infinity for a number that is too large, no map with a key twice, and no field under a wrong name."""

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


@pytest.mark.parametrize("more", ["", ", l array<struct<a: int, b: int>>, m map<string, struct<a: int, b: int>>"])
def test_struct_fields_are_matched_by_name_in_any_order(spark: SparkSession, tmp_path: Path, more: str) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("lab")
    table = lake.create_table("lab.t", f"id int, s struct<a: int, b: int>{more}")
    turned = "named_struct('b', 2, 'a', 1)"
    table.append(spark.sql(f"select 1 as id, {turned} as s union all select 2, null"))
    table.append(spark.sql("select 3 as id, named_struct('B', 2) as s"))
    table.append([{"id": 4, "s": {"b": 2, "a": 1}}], engine="local")
    lake.sql(f"insert into lab.t by name select {turned} as s, 5 as id")
    table.append(spark.sql("select 6 as id, named_struct('a', 0, 'b', 0) as s"))
    lake.sql(f"update lab.t set s = {turned} where id = 6")
    found = {row.id: row.s and (row.s.a, row.s.b) for row in table.to_spark().collect()}
    assert found == {1: (1, 2), 2: None, 3: (None, 2), 4: (1, 2), 5: (1, 2), 6: (1, 2)}
    if more:
        table.append(spark.sql(f"select 7 as id, array({turned}, null) as l, map('k', {turned}) as m"))
        (row,) = table.to_spark().where("id = 7").collect()
        assert [one and (one.a, one.b) for one in row.l] == [(1, 2), None]
        assert (row.m["k"].a, row.m["k"].b) == (1, 2)
