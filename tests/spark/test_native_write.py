"""Spark's own writer makes files that every reader of ours takes for its own."""

import datetime
import decimal
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import mangrove
from mangrove.errors import InvalidInputError

pytestmark = pytest.mark.interop

SCHEMA = (
    "id bigint not null, b boolean, i2 smallint, i4 int, d decimal(10,2), big decimal(38,0), f float, g double, "
    "c char(3), v varchar(4), s string, day date, t time, ts timestamp, local timestamp_ntz, raw binary, "
    "st struct<a: int, inner: struct<x: string>>"
)
ROW: dict[str, Any] = {
    "id": 1,
    "b": True,
    "i2": -(2**15),
    "i4": 2**31 - 1,
    "d": decimal.Decimal("-99999999.99"),
    "big": decimal.Decimal(10**38 - 1),
    "f": 0.5,
    "g": 1e300,
    "c": "ab",
    "v": "Zür",
    "s": "x" * 40,
    "day": datetime.date(1969, 12, 31),
    "t": datetime.time(23, 59, 59, 999_999),
    "ts": datetime.datetime(2026, 7, 1, 12, tzinfo=datetime.UTC),
    "local": datetime.datetime(2026, 7, 1, 12),
    "raw": b"\x00",
    "st": {"a": 3, "inner": {"x": "y"}},
}


def with_two_rows(spark: SparkSession, folder: Path) -> Any:
    lake = mangrove.create(folder)
    lake.create_namespace("s")
    local = lake.create_table("s.local", SCHEMA)
    local.append([ROW, {**dict.fromkeys(ROW), "id": 2}])
    table = lake.create_table("s.t", SCHEMA)
    table.append(local.to_spark())
    return table


def test_spark_reads_integers_that_the_local_engine_stored_as_differences(spark: SparkSession, tmp_path: Path) -> None:
    count = 100_000
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint not null, n int, ts timestamp")
    ids: Any = pa.array(range(count), pa.int64())
    narrow = pc.if_else(
        pc.equal(pc.bit_wise_and(ids, 63), pa.scalar(3, pa.int64())), pa.scalar(None, pa.int64()), ids
    ).cast(pa.int32())
    table.append(pa.table({"id": ids, "n": narrow, "ts": ids.cast(pa.timestamp("us", "UTC"))}))
    (file,) = tmp_path.rglob("*.parquet")
    chunks = [pq.read_metadata(file).row_group(0).column(place) for place in range(3)]
    assert all("DELTA_BINARY_PACKED" in chunk.encodings for chunk in chunks)
    frame = table.to_spark()
    assert spark.conf.get("spark.sql.parquet.enableVectorizedReader") == "true"
    assert frame.selectExpr("sum(id)", "sum(n)", "sum(unix_micros(ts))").first() == (
        pc.sum(ids).as_py(),
        pc.sum(narrow).as_py(),
        pc.sum(ids).as_py(),
    )
    assert frame.where("id = 77777 and n is not null").count() == 1


def test_rows_are_read_back_exactly(spark: SparkSession, tmp_path: Path) -> None:
    table = with_two_rows(spark, tmp_path)
    found = sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])
    assert found == [{**ROW, "c": "ab "}, {**dict.fromkeys(ROW), "id": 2}]
    assert table.to_spark(where="id = 1").count() == 1


def test_columns_have_their_ids_at_every_level_and_pages_their_checksums(spark: SparkSession, tmp_path: Path) -> None:
    table = with_two_rows(spark, tmp_path)
    table.update_schema().rename_column("s", "text").commit()
    table.update_schema().rename_column("st.inner", "deep").commit()
    (row,) = table.to_arrow(["text", "st"], "id = 1").to_pylist()
    assert row == {"text": "x" * 40, "st": {"a": 3, "deep": {"x": "y"}}}
    (found,) = table.to_spark(["text", "st"], "id = 1").collect()
    assert (found.text, found.st.deep.x) == ("x" * 40, "y")


def test_a_flipped_bit_in_a_footer_that_spark_wrote_is_found(spark: SparkSession, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint not null, a bigint, s string")
    table.append(spark.sql("select 1L as id, 100L as a, 'u' as s"))
    assert lake.maintenance.check().is_sound
    (path,) = tmp_path.rglob("*.parquet")
    sound = path.read_bytes()
    start = len(sound) - 8 - int.from_bytes(sound[-8:-4], "little")
    # All but the name of the seal itself, without which the file is as one of another program.
    for byte in set(range(start, len(sound), 7)) - set(range(seal := sound.index(b"mangrove.footer"), seal + 22)):
        damaged = bytearray(sound)
        damaged[byte] ^= 1 << byte % 8
        path.write_bytes(damaged)
        assert [problem.path for problem in lake.maintenance.check()] == [str(path.relative_to(tmp_path))], byte
    path.write_bytes(sound)
    assert [row.asDict() for row in table.to_spark().collect()] == [{"id": 1, "a": 100, "s": "u"}]


def test_footer_bounds_include_all_values_of_the_file(spark: SparkSession, tmp_path: Path) -> None:
    table = with_two_rows(spark, tmp_path)
    files = table.scan().files()
    schema = table.schema
    assert sum(file.row_count for file in files) == 2
    (full,) = [file for file in files if file.statistics_of(schema.column("id").id).minimum == 1]
    for name in ("d", "big", "day", "t", "ts", "local", "raw", "c"):
        statistics = full.statistics_of(schema.column(name).id)
        assert statistics.minimum == statistics.maximum or name == "c"
        assert statistics.minimum == {**ROW, "c": "ab "}[name]
    text = full.statistics_of(schema.column("s").id)
    assert (text.minimum, text.maximum) == ("x" * 32, "x" * 31 + "y")
    assert full in [skipped.file for skipped in table.scan("day > '2000-01-01'").plan.skipped]


def test_nan_is_found_without_footer_statistics(spark: SparkSession, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint, g double")
    table.append(spark.sql("select id, case id when 1 then double('NaN') else double(id) end as g from range(3)"))
    (found,) = table.to_arrow(where="g > 5").to_pylist()
    assert math.isnan(found["g"])
    assert table.to_spark(where="g > 5").count() == 1
    assert table.to_spark(where="g < 1").count() == table.to_arrow(where="g < 1").num_rows == 1


def test_the_writer_leaves_only_the_data_files(spark: SparkSession, tmp_path: Path) -> None:
    table = with_two_rows(spark, tmp_path)
    there = {path.relative_to(tmp_path).as_posix() for path in (tmp_path / "data" / table.id).rglob("*")}
    assert there == {file.location for file in table.scan().files()}
    with pytest.raises(InvalidInputError, match=r"column 'v' is varchar\(4\), but a string has 5 characters"):
        table.append(spark.sql("select 3L as id, 'abcde' as v"))
    with pytest.raises(InvalidInputError, match="column 'id' is not null, and 1 row"):
        table.append(spark.sql("select cast(null as bigint) as id"))
    after = {path.relative_to(tmp_path).as_posix() for path in (tmp_path / "data" / table.id).rglob("*")}
    assert after == there


def test_a_frame_without_partitions_adds_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = with_two_rows(spark, tmp_path / "a lake")
    nothing = spark.createDataFrame(spark.sparkContext.emptyRDD(), "id bigint")
    assert nothing.rdd.getNumPartitions() == 0
    table.append(nothing)
    assert table.to_spark().count() == 2


def test_the_settings_of_a_session_are_restored(spark: SparkSession, tmp_path: Path) -> None:
    name = "spark.sql.parquet.outputTimestampType"
    spark.conf.set(name, "TIMESTAMP_MILLIS")
    try:
        table = with_two_rows(spark, tmp_path)
        assert spark.conf.get(name) == "TIMESTAMP_MILLIS"
    finally:
        spark.conf.unset(name)
    (path,) = [tmp_path / file.location for file in table.scan("id = 1").files()]
    assert "us" in str(pq.read_schema(path).field("ts").type)


def test_rows_are_sorted_and_divided_into_files_of_bounded_size(spark: SparkSession, tmp_path: Path) -> None:
    from mangrove.spark.engine import SparkEngine
    from mangrove.storage.opening import open_store
    from mangrove.testing.effects import build_deterministic_effects

    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint", sort_by=["id desc"])
    engine = SparkEngine(
        open_store(tmp_path), build_deterministic_effects(open_store(tmp_path)).new_id, file_size_bytes=80
    )
    write = engine.append(table.state(), spark.range(0, 25, 1, 1).selectExpr("(id * 7) % 25 as id"))
    (planned,) = write.deltas
    assert [file.row_count for file in planned.delta.manifest.entries] == [10, 10, 5]
    first = pq.read_table(tmp_path / planned.delta.manifest.entries[0].location)
    assert first.column("id").to_pylist() == list(range(24, 14, -1))


def test_nulls_are_found_in_a_column_that_has_no_statistics_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    many = ", ".join(f"c{number} int" for number in range(64))
    table = lake.create_table("s.t", f"{many}, last int not null")
    given = spark.sql("select 1 as c0, cast(nullif(id, 1) as int) as last from range(3)").coalesce(1)
    with pytest.raises(InvalidInputError, match="column 'last' is not null, and 1 row"):
        table.append(given)
    table.append(given.where("last is not null"))
    (file,) = table.scan("c0 = 1").files()
    assert [one.column_id for one in file.statistics] == list(range(1, 65))
