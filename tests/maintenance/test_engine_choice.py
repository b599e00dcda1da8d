"""Which engine does upkeep: the one that is asked for, else Spark for much and this process for little."""

import pytest

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.opening import create_on_store
from mangrove.maintenance.engine_choice import (
    COMPACTION_LIMITS,
    COPY_LIMITS,
    COUNT_LIMITS,
    DELETE_LIMITS,
    LocalLimits,
    should_use_spark,
    validate_engine,
)
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects

GIB = 1024**3


@pytest.mark.parametrize(
    ("limits", "files", "size_bytes", "expected"),
    [
        (COPY_LIMITS, 50_000, 8 * GIB, False),
        (COPY_LIMITS, 50_001, 0, True),
        (COPY_LIMITS, 1, 8 * GIB + 1, True),
        (COUNT_LIMITS, 1, 8 * GIB + 1, True),
        (DELETE_LIMITS, 200_000, 1000 * GIB, False),
        (DELETE_LIMITS, 200_001, 0, True),
        (COMPACTION_LIMITS, 10**9, 2 * GIB, False),
        (COMPACTION_LIMITS, 1, 2 * GIB + 1, True),
    ],
)
def test_work_above_a_limit_runs_on_spark(limits: LocalLimits, files: int, size_bytes: int, expected: bool) -> None:
    assert should_use_spark(None, limits, files, size_bytes, spark_can=True) is expected


def test_without_a_suitable_spark_session_all_work_is_local() -> None:
    assert not should_use_spark(None, COPY_LIMITS, 10**9, 10**15, spark_can=False)


def test_an_explicit_engine_is_used() -> None:
    assert should_use_spark("spark", COPY_LIMITS, 0, 0, spark_can=True)
    assert not should_use_spark("local", COPY_LIMITS, 10**9, 10**15, spark_can=True)


def test_an_unknown_or_missing_engine_is_rejected_before_anything_is_written() -> None:
    with pytest.raises(InvalidInputError, match="unknown engine 'duckdb'; expected local or spark"):
        validate_engine("duckdb")
    lake = create_on_store(build_deterministic_effects(MemoryStore()))
    before = lake.version
    with pytest.raises(InvalidInputError, match="has no Spark engine"):
        lake.maintenance.export("memory://copy/", "year-end", engine="spark")
    assert lake.version == before
