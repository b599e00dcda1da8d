"""A name that meant another column once means the right one in every file, also to what Spark pushes down."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import mangrove
from mangrove import expr
from mangrove.lakehouse.lakehouse import Lakehouse

pytestmark = pytest.mark.interop


def made(lake: Lakehouse, name: str, **options: Any) -> Any:
    table = lake.create_table(name, "k bigint not null, v bigint, w string, z bigint", keys=["k"], **options)
    table.append([{"k": one, "v": 100 + one, "w": "a", "z": 1000 + one} for one in range(4)])
    table.upsert([{"k": 3, "v": 5, "w": "new", "z": 7}])
    return table


def swap(table: Any, one: str, other: str) -> None:
    for name, to in ((one, "tmp"), (other, one), ("tmp", other)):
        table.update_schema().rename_column(name, to).commit()


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()), key=repr)


def rows_here(table: Any, where: str | None = None) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_arrow(where=where).to_pylist()), key=repr)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(tmp_path, layout="tree")
    lake.create_namespace("s")
    return lake


def test_conditions_on_a_name_that_was_used_before_find_all_rows(lake: Lakehouse) -> None:
    table = made(lake, "s.t")
    table.update_schema().drop_column("v").commit()
    table.update_schema().add_column("V", "bigint").commit()
    assert rows_of(lake.sql("select k from s.t where V is null")) == [(0,), (1,), (2,), (3,)]
    swap(table, "V", "z")
    for where in ("V = 1001", "V > 1000 and z is null", "w = 'new' and V = 7", "k in (1, 2) and V < 1002"):
        assert rows_of(lake.sql(f"select * from s.t where {where}")) == rows_here(table, where), where
        assert rows_of(table.to_spark(where=where)) == rows_here(table, where), where
        assert rows_here(table, where), where


@pytest.mark.parametrize("names", [("v", "k"), ("w", "k"), ("w", "z")])
def test_changes_of_rows_after_a_swap_of_names_are_those_of_the_other_engine(
    lake: Lakehouse, names: tuple[str, str]
) -> None:
    table, twin = made(lake, "s.t"), made(lake, "s.u")
    before = lake.version
    for one in (table, twin):
        swap(one, *names)
    (text,) = (column.name for column in table.schema.columns if column.id == 3)
    (key,) = table.keys
    for engine, one in (("spark", table), ("local", twin)):
        one.update({text: expr(f"concat({text}, '!')")}, where=f"{key} >= 2", engine=engine)
        one.delete(f"{key} = 1", engine=engine)
        source = {column.name: value for column, value in zip(one.schema.columns, (3, 6, "m", 8), strict=True)}
        merge = one.merge([source], f"t.{key} = s.{key}", engine=engine)
        merge.when_matched_update().when_not_matched_insert().execute()
    assert rows_of(table.to_spark()) == rows_here(table) == rows_here(twin)
    assert [row[0] for row in rows_here(twin)] == [0, 2, 3]
    changed = [row.asDict() for row in table.changes(before, engine="spark").collect()]
    expected = table.changes(before).to_pylist()
    assert sorted(map(repr, map(sorted, map(dict.items, changed)))) == sorted(
        map(repr, map(sorted, map(dict.items, expected)))
    )
    table.compact(engine="spark")
    assert rows_of(lake.sql(f"select * from s.t where {key} >= 2")) == rows_here(twin, f"{key} >= 2")


@pytest.mark.parametrize("kind", ["bigint", "string"])
def test_names_inside_structs_may_be_used_again_too(lake: Lakehouse, kind: str) -> None:
    table = lake.create_table("s.t", f"id bigint, at struct<x: bigint, y: {kind}, deep: struct<y: bigint>>")
    given = [{"x": one, "y": 100 + one if kind == "bigint" else f"{100 + one}", "deep": {"y": one}} for one in range(4)]
    table.append([{"id": one, "at": at} for one, at in enumerate([*given, None])])
    for name, to in (("at.x", "tmp"), ("at.y", "x"), ("at.tmp", "y")):
        table.update_schema().rename_column(name, to).commit()
    assert rows_of(lake.sql("select id, at.x from s.t where at.x = '102'")) == [(2, given[2]["y"])]
    assert rows_of(lake.sql("select at.y + at.deep.y from s.t where id = 3")) == [(6,)]
    assert rows_of(lake.sql("select id from s.t where at is null")) == [(4,)]
    assert len(rows_of(table.to_spark(where="at.y < 2"))) == table.to_arrow(where="at.y < 2").num_rows == 2
    assert [row["at"] for row in table.to_spark().orderBy("id").toArrow().to_pylist()] == [
        row["at"] for row in table.to_arrow().to_pylist()
    ]
