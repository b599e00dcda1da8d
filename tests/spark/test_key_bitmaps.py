"""Bits tell which rows newer keys hide, exactly as a join does."""

from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

import mangrove
from mangrove.spark.deletion_vectors import KEY_SPAN_MAX, build_key_bitmap

_LEAST, _GREATEST = -(2**63), 2**63 - 1


@pytest.mark.parametrize("keys", [[0], [63, 64], [_LEAST, _LEAST + 200], [_GREATEST - 64, _GREATEST]])
def test_a_bit_is_set_for_each_key_and_for_no_other_number(keys: list[int]) -> None:
    bits = build_key_bitmap(np.array(keys))
    assert bits is not None
    flags = np.unpackbits(bits.words.view(np.uint8), bitorder="little")
    assert [bits.first + int(place) for place in np.flatnonzero(flags)] == keys


def test_keys_too_far_apart_have_no_bits() -> None:
    assert build_key_bitmap(np.array([0, KEY_SPAN_MAX])) is None
    assert build_key_bitmap(np.array([_LEAST, _GREATEST])) is None
    assert build_key_bitmap(np.array([], np.int64)) is None


@pytest.mark.interop
@pytest.mark.parametrize(
    ("type_name", "upserts", "is_numbered"),
    [
        ("bigint", [[1, 64, 130]], False),
        ("smallint", [[-3, 2]], False),
        ("int", [[1, 3], [2], [4]], False),
        # A row of an upsert that a later one hides is told by its number, since its key is there twice.
        ("bigint", [[1, 2], [2, 3]], True),
        ("bigint", [[_LEAST, _GREATEST]], True),
        ("string", [["1", "3"]], True),
    ],
)
def test_row_numbers_are_read_only_if_key_bitmaps_are_insufficient(
    spark: SparkSession, tmp_path: Path, type_name: str, upserts: list[list[object]], is_numbered: bool
) -> None:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    table = lake.create_table("s.t", f"id {type_name} not null, what string", keys=["id"])
    edges = [_LEAST, _GREATEST] if type_name == "bigint" else []
    first = [str(one) if type_name == "string" else one for one in [*range(-5, 200), *edges]]
    table.append([{"id": one, "what": "old"} for one in first])
    for number, keys in enumerate(upserts):
        table.upsert([{"id": key, "what": f"new {number}"} for key in keys])
    frame = table.to_spark()
    assert sorted(map(tuple, frame.collect())) == sorted(
        (row["id"], row["what"]) for row in table.to_arrow().to_pylist()
    )
    plan = frame._jdf.queryExecution().optimizedPlan().toString()
    assert "Join" not in plan
    assert ("row_index" in plan) == is_numbered


@pytest.mark.interop
def test_a_scan_after_another_upsert_has_the_same_code(spark: SparkSession, tmp_path: Path) -> None:
    """Spark does not compile it again, and Java has already optimized it."""
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint not null, v bigint", keys=["id"])
    table.append(spark.range(100).selectExpr("id", "id as v"))
    codes = set()
    for first, last in ((10, 20), (5, 90)):
        table.upsert(spark.range(first, last).selectExpr("id", "-id as v"))
        parts = table.to_spark().selectExpr("sum(v)")._jdf.queryExecution().debug().codegenToSeq()
        codes.add(tuple(parts.apply(place)._2() for place in range(parts.size())))
    assert len(codes) == 1
