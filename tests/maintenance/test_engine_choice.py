"""Which engine does upkeep: the one that is asked for, else Spark for much and this process for little."""

import pytest

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.opening import create_on
from mangrove.maintenance.engine_choice import (
    COMPACTING,
    COPYING,
    COUNTING,
    DELETING,
    Limits,
    checked_engine,
    is_for_spark,
)
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import repeatable_effects

GIB = 1024**3


@pytest.mark.parametrize(
    ("limits", "files", "size_bytes", "expected"),
    [
        (COPYING, 50_000, 8 * GIB, False),
        (COPYING, 50_001, 0, True),
        (COPYING, 1, 8 * GIB + 1, True),
        (COUNTING, 1, 8 * GIB + 1, True),
        (DELETING, 200_000, 1000 * GIB, False),
        (DELETING, 200_001, 0, True),
        (COMPACTING, 10**9, 2 * GIB, False),
        (COMPACTING, 1, 2 * GIB + 1, True),
    ],
)
def test_what_is_more_than_a_limit_goes_to_spark(limits: Limits, files: int, size_bytes: int, expected: bool) -> None:
    assert is_for_spark(None, limits, files, size_bytes, spark_can=True) is expected


def test_without_a_spark_that_sees_the_store_everything_is_done_here() -> None:
    assert not is_for_spark(None, COPYING, 10**9, 10**15, spark_can=False)


def test_who_names_an_engine_gets_it() -> None:
    assert is_for_spark("spark", COPYING, 0, 0, spark_can=True)
    assert not is_for_spark("local", COPYING, 10**9, 10**15, spark_can=True)


def test_an_unknown_engine_and_one_that_is_not_there_are_refused_before_anything_is_written() -> None:
    with pytest.raises(InvalidInputError, match="'duckdb' is no engine: use local or spark"):
        checked_engine("duckdb")
    lake = create_on(repeatable_effects(MemoryStore()))
    before = lake.version
    with pytest.raises(InvalidInputError, match="Spark was not handed in"):
        lake.export("memory://copy/", "year-end", engine="spark")
    assert lake.version == before
