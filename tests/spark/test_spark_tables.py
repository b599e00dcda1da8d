"""Spark reads and writes the same rows as the engine in this process."""

import datetime
import decimal
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from mangrove.errors import InvalidInputError
from mangrove.expressions.schema_text import parse_column, parse_schema
from mangrove.local.engine import LocalEngine
from mangrove.model.objects import TableVersion
from mangrove.model.partitioning import UNPARTITIONED, parse_partition_scheme
from mangrove.spark.engine import SparkEngine
from mangrove.spark.types import to_spark_schema
from mangrove.storage.memory import MemoryStore
from mangrove.storage.opening import open_store
from mangrove.tables.compaction import UNBOUNDED, CompactionBounds
from mangrove.tables.table_state import TableState
from mangrove.tables.write_plan import PlannedWrite
from mangrove.testing.effects import build_deterministic_effects
from mangrove.testing.table_model import apply_write

pytestmark = pytest.mark.interop

TYPES = (
    "b boolean, i2 smallint, i4 int, i8 bigint, d decimal(10,2), big decimal(38,0), f float, g double, c char(3), "
    "s string, day date, t time, ts timestamp, local timestamp_ntz, raw binary, fx fixed(2), "
    "st struct<a: int, inner: struct<x: string>>, l array<int>, ll array<array<string>>, m map<string, decimal(4,1)>"
)
FULL: dict[str, Any] = {
    "b": True,
    "i2": -(2**15),
    "i4": 2**31 - 1,
    "i8": -(2**63),
    "d": decimal.Decimal("-99999999.99"),
    "big": decimal.Decimal(10**38 - 1),
    "f": 0.5,
    "g": 1e300,
    "c": "abc",
    "s": "Zürich",
    "day": datetime.date(1969, 12, 31),
    "t": datetime.time(23, 59, 59, 999_999),
    "ts": datetime.datetime(2026, 7, 1, 12, tzinfo=datetime.UTC),
    "local": datetime.datetime(2026, 7, 1, 12),
    "raw": b"",
    "fx": b"\x00\xff",
    "st": {"a": None, "inner": {"x": "y"}},
    "l": [1, None, 3],
    "ll": [["a"], None, []],
    "m": [("k", decimal.Decimal("1.5"))],
}


class Bench:
    """One table in a folder, with both engines on it."""

    def __init__(
        self, folder: Path, spark: SparkSession, schema: str, keys: tuple[str, ...] = (), *by: str, one_log: bool = True
    ) -> None:
        columns = parse_schema(schema)
        scheme = parse_partition_scheme(by, columns, "1" if one_log else "0")
        version = TableVersion(1, columns, keys=tuple(columns.column(key).id for key in keys), partition_scheme=scheme)
        store = open_store(folder)
        new_id = build_deterministic_effects(store).new_id
        self.spark = spark
        self.local = LocalEngine(store, new_id)
        self.engine = SparkEngine(store, new_id, session=spark)
        self.state = TableState("s.t", "table-id", version, UNPARTITIONED if one_log else scheme)

    def commit(self, write: PlannedWrite) -> None:
        self.state = apply_write(self.state, write)

    def frame(self, rows: list[dict[str, Any]]) -> DataFrame:
        plain = to_spark_schema(self.state.schema, with_ids=False)
        return self.spark.createDataFrame([tuple(row.get(name) for name in plain.names) for row in rows], plain)


def local_rows(bench: Bench, **requested: Any) -> Counter[str]:
    return Counter(map(str, bench.local.read(bench.state, **requested).to_pylist()))


def spark_rows(bench: Bench, **requested: Any) -> Counter[str]:
    wanted = bench.local.read(bench.state, **requested).schema
    found = bench.engine.read(bench.state, **requested).toArrow()
    return Counter(map(str, found.select(wanted.names).cast(wanted).to_pylist()))


def test_rows_of_every_type_pass_between_the_engines(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(tmp_path, spark, TYPES)
    rows = [FULL, dict.fromkeys(FULL)]
    bench.commit(bench.local.append(bench.state, rows))
    read = bench.engine.read(bench.state)
    once = local_rows(bench)
    assert spark_rows(bench) == once
    bench.commit(bench.engine.append(bench.state, read))
    assert local_rows(bench) == once + once
    assert bench.local.read(bench.state).to_pylist() == rows + rows


def test_a_named_index_and_whole_numbers_beyond_64_bits_reach_spark(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(tmp_path, spark, "id bigint, x double, d decimal(38,10)", ("id",))
    summed = pd.DataFrame({"id": [3, 3, 4], "x": [1.0, 2.0, 3.0]}).groupby("id").sum()
    bench.commit(bench.engine.append(bench.state, summed))
    bench.commit(bench.engine.upsert(bench.state, [{"id": 4, "d": 10**27}]))
    found = {row["id"]: (row["x"], row["d"]) for row in bench.local.read(bench.state).to_pylist()}
    assert found == {3: (3.0, None), 4: (None, decimal.Decimal(10**27))}
    with pytest.raises(InvalidInputError, match="'week', which is no column of the table"):
        bench.engine.append(bench.state, summed.rename_axis("week"))


def test_rows_after_an_arrow_chunk_without_rows_reach_spark(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(tmp_path, spark, "id bigint", ())
    rows = pa.table({"id": pa.chunked_array([[], [1, 2], [], [], [3]], pa.int64())})
    bench.commit(bench.engine.append(bench.state, rows))
    assert [row["id"] for row in bench.local.read(bench.state).to_pylist()] == [1, 2, 3]


def test_a_read_opens_only_the_required_columns_and_files(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(tmp_path, spark, "id bigint, name string", ())
    for first in (0, 10, 20):
        bench.commit(bench.local.append(bench.state, [{"id": first + row, "name": "x"} for row in range(10)]))
    frame = bench.engine.read(bench.state, ["id"], "id >= 20")
    assert len(frame.inputFiles()) == 1
    assert frame.columns == ["id"]
    plan = frame._jdf.queryExecution().toString()
    assert "ReadSchema: struct<id:bigint>" in plan
    assert frame.count() == 10


def test_an_empty_table_and_an_empty_frame_have_the_columns(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(tmp_path, spark, "id bigint not null, name string", ("id",))
    assert bench.engine.read(bench.state).columns == ["id", "name"]
    assert bench.engine.append(bench.state, bench.frame([])).deltas == ()
    bench.commit(bench.engine.overwrite(bench.state, bench.frame([])))
    assert bench.engine.read(bench.state).count() == 0


def test_paths_are_used_if_spark_does_not_support_file_lists(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(tmp_path, spark, "id bigint not null, name string", ("id",))
    bench.commit(bench.local.append(bench.state, [{"id": 1}, {"id": 2}]))
    bench.commit(bench.local.upsert(bench.state, [{"id": 2, "name": "x"}]))
    bench.engine._lists._is_trusted = {False: False}
    assert spark_rows(bench) == local_rows(bench)


def test_the_installed_spark_supports_file_lists(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(tmp_path, spark, "id bigint")
    bench.commit(bench.local.append(bench.state, [{"id": 1}]))
    bench.engine.read(bench.state)
    assert bench.engine._lists._is_trusted == {False: True}


@pytest.mark.parametrize(
    ("sql", "complaint"),
    [
        ("select 1L as id, 'x' as nmae", "column 'nmae' is not in the table"),
        ("select 'x' as id", "column 'id' is bigint, but the rows have string"),
        ("select 'x' as name", "column 'id' is not null, but missing in the rows"),
        ("select 1L as id, interval 1 day as name", "has the unsupported Spark type interval day"),
        ("select 1L as id, array(null) as name", "'name.element' has only nulls"),
        ("select cast(null as bigint) as id, 'a' as name", "column 'id' is not null, and 1 row"),
        ("select 1L as id, 'abcd' as name", "a string has 4 characters"),
        ("select id % 2 as id from range(4)", "occur more than once"),
    ],
)
def test_an_incompatible_frame_is_rejected(spark: SparkSession, tmp_path: Path, sql: str, complaint: str) -> None:
    bench = Bench(tmp_path, spark, "id bigint not null, name varchar(3)", ("id",))
    with pytest.raises(InvalidInputError, match=complaint):
        bench.engine.upsert(bench.state, spark.sql(sql))


def test_a_cast_frame_has_the_same_rows_on_both_engines(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(tmp_path, spark, "id bigint, price decimal(8,2), sold timestamp, note string")
    frame = spark.sql("select 1 as ID, 19.99D as price, '2026-11-01T08:00:00Z' as sold, true as note")
    for engine in (bench.engine, bench.local):
        rows = frame if engine is bench.engine else frame.toArrow()
        bench.commit(engine.append(bench.state, engine.cast_rows(bench.state, rows)))
    first, second = bench.local.read(bench.state).to_pylist()
    assert first == second
    invalid = bench.engine.cast_rows(bench.state, spark.sql("select 'cheap' as price"))
    with pytest.raises(InvalidInputError, match="cheap"):
        bench.engine.append(bench.state, invalid)


def test_a_lakehouse_in_memory_is_refused() -> None:
    store = MemoryStore()
    with pytest.raises(InvalidInputError, match="Spark workers cannot open"):
        SparkEngine(store, build_deterministic_effects(store).new_id)


DESIGNS: list[tuple[tuple[str, ...], tuple[str, ...], bool]] = [
    (("id",), ("day",), True),
    (("id", "day"), ("months(day)",), False),
    ((), ("bucket(2, id)",), False),
]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2 * len(DESIGNS)))
def test_a_random_history_has_the_same_rows_in_both_engines(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    keys, by, one_log = DESIGNS[seed % len(DESIGNS)]
    chance = random.Random(seed)
    bench = Bench(tmp_path, spark, "id bigint not null, day date not null, name string", keys, *by, one_log=one_log)
    days = [datetime.date(2026, 1, 1), datetime.date(2026, 2, 2)]

    def rows() -> list[dict[str, Any]]:
        found = [
            {"id": chance.randrange(8), "day": chance.choice(days), "name": chance.choice([None, "a", "b"])}
            for _ in range(chance.randrange(6))
        ]
        return list({tuple(row[key] for key in keys or ("id",)): row for row in found}.values())

    for step in range(10):
        engine: Any = chance.choice([bench.local, bench.engine])
        given: Any = rows()
        if engine is bench.engine:
            given = bench.frame(given)
        match chance.choice(
            ["append", *(["upsert", "upsert"] if keys else []), "delete", "overwrite", "compact", "column"]
        ):
            case "append":
                bench.commit(engine.append(bench.state, given))
            case "upsert":
                bench.commit(engine.upsert(bench.state, given))
            case "delete":
                bench.commit(engine.delete(bench.state, f"id = {chance.randrange(8)}"))
            case "overwrite":
                where = chance.choice([None, "name = 'a'"])
                if where is not None:
                    fitting = [{**row, "name": "a"} for row in rows()]
                    given = bench.frame(fitting) if engine is bench.engine else fitting
                bench.commit(engine.overwrite(bench.state, given, where))
            case "compact":
                bounds = chance.choice([UNBOUNDED, CompactionBounds(files_max=2)])
                bench.commit(engine.compact(bench.state, bounds))
            case "column":
                old = bench.state.schema
                column = parse_column(f"more{step} int", old.last_column_id)
                schema = replace(
                    old,
                    columns=(*old.columns, column),
                    schema_id=old.schema_id + 1,
                    last_column_id=column.id,
                )
                earlier = (*bench.state.version.earlier_schemas, old)
                version = replace(bench.state.version, schema=schema, earlier_schemas=earlier)
                bench.state = replace(bench.state, version=version)
        assert spark_rows(bench) == local_rows(bench)
        requested = chance.choice(["id > 3", "day = '2026-01-01'", "name like 'a%' or id in (1, 2)", "name is null"])
        assert spark_rows(bench, columns=["id"], where=requested) == local_rows(bench, columns=["id"], where=requested)
