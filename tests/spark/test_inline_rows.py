"""Spark reads and changes tables whose small writes are inside their deltas."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import mangrove
from mangrove import Lakehouse, Table, expr
from mangrove.expressions.schema_text import parse_schema
from mangrove.model.schema import Schema
from mangrove.spark.types import from_spark_schema, to_spark_schema

pytestmark = pytest.mark.interop

SCHEMA = "id bigint not null, day date, place struct<city: string, tags: array<struct<n: int>>>"


def rows_of(*ids: int, city: str = "Rome") -> list[dict[str, Any]]:
    return [{"id": one, "day": None, "place": {"city": city, "tags": [{"n": one}]}} for one in ids]


def read(rows: Any) -> list[tuple[int, str]]:
    return sorted((row["id"], row["place"]["city"]) for row in rows.to_pylist())


def read_on_spark(table: Table, where: str | None = None) -> list[tuple[int, str]]:
    return read(table.to_spark(where=where).toArrow())


@pytest.fixture
def lake(tmp_path: Path) -> Lakehouse:
    made = mangrove.create(tmp_path / "lake")
    made.create_namespace("s")
    return made


def create_table(lake: Lakehouse, mode: str) -> Table:
    """Return a table of files, with inline rows and keys that apply to some of these and to each other."""
    properties = {"write.inline-rows-max-bytes": "2000", "write.delete-mode": mode}
    table = lake.create_table("s.t", SCHEMA, keys=["id"], properties=properties)
    table.append(rows_of(*range(10, 400)))
    table.append(rows_of(1, 2, 3))
    table.upsert(rows_of(3, 4, 11, city="Oslo"))
    table.delete_keys([{"id": 2}, {"id": 12}])
    table.delete("id = 13 or id = 1")
    return table


@pytest.mark.parametrize("mode", ["keys", "position"])
def test_spark_reads_and_changes_inline_rows(spark: SparkSession, lake: Lakehouse, mode: str) -> None:
    table = create_table(lake, mode)
    before = lake.version
    expected = [(3, "Oslo"), (4, "Oslo"), (10, "Rome"), (11, "Oslo"), *((one, "Rome") for one in range(14, 400))]
    assert read_on_spark(table) == read(table.to_arrow()) == expected
    assert read_on_spark(table, "id < 11 and place.city = 'Oslo'") == expected[:2]
    assert lake.sql("select count(*), max(id) from s.t where id <> 14").collect() == [(389, 399)]
    table.update({"place": expr("named_struct('city', 'Bern', 'tags', place.tags)")}, "id in (3, 14)", engine="spark")
    table.delete("id = 4 or id = 15", engine="spark")
    table.merge(
        spark.createDataFrame([(11,), (5,)], "id bigint"), "t.id = s.id", engine="spark"
    ).when_matched_delete().when_not_matched_insert(
        {"id": expr("s.id"), "place": expr("named_struct('city', 'Lima', 'tags', array(named_struct('n', 1)))")}
    ).execute()
    table.append(rows_of(6))
    now = [
        (3, "Bern"),
        (5, "Lima"),
        (6, "Rome"),
        (10, "Rome"),
        (14, "Bern"),
        *((one, "Rome") for one in range(16, 400)),
    ]
    assert read_on_spark(table) == read(table.to_arrow()) == now
    changes = [table.changes(before, engine=engine) for engine in ("local", "spark")]
    both = [sorted(map(repr, (one.toArrow() if hasattr(one, "toArrow") else one).to_pylist())) for one in changes]
    assert both[0] == both[1]
    table.compact(engine="spark")
    assert read_on_spark(table) == now
    assert not any(file.is_inline for file in table.scan().files())
    assert lake.maintenance.check().problems == ()


def test_columns_in_lists_and_maps_keep_their_ids_in_workers() -> None:
    schema = parse_schema("a map<string, struct<b: int>>, c array<struct<d: int, e: map<int, int>>>")
    found = Schema(from_spark_schema(to_spark_schema(schema)))
    ids = {path: column.id for path, column in found.all_columns() if path[-1] in "abcde"}
    assert ids == {path: column.id for path, column in schema.all_columns() if path[-1] in "abcde"}
