"""What a scan asks of Spark's Java before anything runs: each call of it takes time, however small the table is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import mangrove

_CALLS_OF_A_READER = 14
"""What `spark.read.schema(…).option(…).parquet(…)` needs."""
_CALLS_OF_A_LOCAL_RELATION = 5


@pytest.fixture
def calls(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls of Java from now on; what is forgotten there is told whenever Python likes, so that is left out."""
    made: list[str] = []
    gateway: Any = spark.sparkContext._gateway
    client = gateway._gateway_client
    send: Callable[..., Any] = client.send_command

    def counted(command: str, *arguments: Any, **named: Any) -> Any:
        if not command.startswith("m\n"):
            made.append(command)
        return send(command, *arguments, **named)

    monkeypatch.setattr(client, "send_command", counted)
    return made


@pytest.mark.interop
@pytest.mark.parametrize("column_count", [2, 60])
def test_the_jvm_calls_of_a_scan_are_independent_of_the_number_of_columns(
    tmp_path: Path, calls: list[str], column_count: int
) -> None:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    names = [f"c{number}" for number in range(column_count)]
    table = lake.create_table("s.t", ", ".join(f"{name} int" for name in names))
    table.append([dict.fromkeys(names, 1)])
    table.to_spark()  # the first one tries out whether Spark believes a list
    calls.clear()
    frame = table.to_spark()
    assert len(calls) <= _CALLS_OF_A_READER
    assert frame.columns == names
    assert frame.count() == 1


@pytest.mark.interop
def test_inline_rows_are_one_local_relation_of_few_jvm_calls(tmp_path: Path, calls: list[str]) -> None:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint, name string", properties={"write.inline-rows-max-bytes": "2000"})
    for number in range(3):
        table.append([{"id": number, "name": "a"}])
    table.to_spark()  # the first one starts the engine
    calls.clear()
    frame = table.to_spark()
    assert len(calls) <= _CALLS_OF_A_LOCAL_RELATION
    assert "LocalTableScan" in frame._jdf.queryExecution().executedPlan().toString()
    table.append([{"id": number, "name": str(number)} for number in range(3, 1000)])
    table.to_spark()
    calls.clear()
    frame = table.to_spark()
    assert len(calls) <= _CALLS_OF_A_LOCAL_RELATION + _CALLS_OF_A_READER + 1, "the last one is the union"
    assert sorted(row.id for row in frame.collect()) == list(range(1000))


@pytest.mark.interop
def test_columns_are_returned_in_the_requested_order(spark: SparkSession, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "a int, `b c` int, `d``e.f` int")
    table.append([{"a": 1, "b c": 2, "d`e.f": 3}])
    for requested in (["d`e.f", "a"], ["b c"], ["a", "b c", "d`e.f"], ["d`e.f", "b c", "a"]):
        assert table.to_spark(columns=requested).columns == requested
        assert [row.asDict() for row in table.to_spark(columns=requested).collect()] == table.to_arrow(
            requested
        ).to_pylist()
