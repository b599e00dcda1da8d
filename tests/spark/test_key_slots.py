"""Slots spare rows the join with newer keys, and never decide by themselves that a row is hidden."""

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import mangrove
from mangrove.spark.key_slots import SLOTS_MAX, comes_again, slots_of

_HASHES = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(_HASHES, max_size=50), st.sampled_from([4, SLOTS_MAX]))
def test_the_slot_of_every_hash_is_taken(hashes: list[int], slots_max: int) -> None:
    taken = slots_of(np.array(hashes, np.int64), slots_max)
    assert all(taken[one & (len(taken) - 1)] for one in hashes)
    assert np.count_nonzero(taken) <= len(set(hashes))


def test_nearly_all_slots_of_many_keys_are_empty_and_there_are_never_too_many() -> None:
    hashes = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 100_000)
    taken = slots_of(hashes)
    assert np.count_nonzero(taken) / len(taken) < 0.07
    assert len(slots_of(hashes, 1024)) == 1024


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 6)), max_size=20))
def test_a_position_comes_again_when_a_later_one_has_a_hash_of_its(placed: list[tuple[int, int]]) -> None:
    positions, hashes = (np.array([pair[place] for pair in placed], np.int64) for place in (0, 1))
    expected = {one for one, hashed in placed if any(two > one and other == hashed for two, other in placed)}
    assert comes_again(positions, hashes) == expected


@pytest.mark.interop
@pytest.mark.parametrize("keys", ["code string", "far bigint", "day date, price decimal(9,2)"])
def test_rows_after_upserts_of_keys_that_have_no_bits_are_those_of_the_other_engine(
    spark: SparkSession, tmp_path: Path, keys: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mangrove.spark.key_slots.KEYS_MIN", 1)
    kinds = {
        "code": "concat('né-', cast(n as string))",
        "far": "xxhash64(n)",
        "day": "date_add(date'2026-01-01', cast(n as int) % 7)",
        "price": "cast(n as decimal(9,2))",
    }
    names = [column.split()[0] for column in keys.split(", ")]
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    table = lake.create_table("s.t", f"{keys}, what string", keys=names)
    chosen = random.Random(7)
    for number in range(3):
        numbers = range(60) if number == 0 else chosen.sample(range(80), 12)
        rows = spark.createDataFrame([(one,) for one in numbers], "n bigint").coalesce(1)
        keyed = rows.selectExpr(*(f"{kinds[name]} as {name}" for name in names), f"'{number}' as what")
        (table.upsert if number else table.append)(keyed)
    frame = table.to_spark()
    expected = sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())
    assert sorted(map(tuple, frame.collect())) == expected
    assert "xxhash64" in frame._jdf.queryExecution().optimizedPlan().toString()
